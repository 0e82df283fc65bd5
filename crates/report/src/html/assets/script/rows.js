// --- The rows at the chosen moment, and the events of those that are selected ---

class MomentRows {
  constructor(section, after) {
    this.section = section;
    const { compared } = section.data, heads = compared ? ["change", "before", "after", "blocks"] : ["bytes", "share", "blocks"];
    this.summary = html("summary");
    this.sum = html("p", { class: "note", "aria-live": "polite" });
    const body = html("tbody"), head = html("tr", {}, html("th", { class: "name" }, "row"), ...heads.map((text) => html("th", { class: "figure" }, text)));
    const table = html("div", { class: "scroll" }, html("table", { class: "named" }, html("thead", {}, head), body));
    this.details = html("details", { class: "moment", on: { toggle: () => this.draw() } }, this.summary, this.sum, table);
    this.list = new Lazily(body, table, (at) => this.row(this.shown[at]));
    this.events = new EventList(section);
    after.after(this.details, this.events.details);
  }

  // The bytes and blocks of every row at the moment.
  compute() {
    const rows = this.section.data.rows.map((_, row) => ({ row, before: 0, after: 0, blocksBefore: 0, blocksAfter: 0 })), within = this.section.flame.within();
    for (const [side, history] of Object.entries(this.section.histories)) {
      const place = this.section.moment[side];
      if (place === null) continue;
      history.blocksAt(place).forEach((blocks, of) => {
        const row = rows[history.rows[of]];
        if (!row || (within && !within.has(history.nodes[of]))) return;
        row[side] += blocks * history.bytes[of];
        row[side === "before" ? "blocksBefore" : "blocksAfter"] += blocks;
      });
    }
    const { compared } = this.section.data, order = ({ before, after }) => compared ? Math.abs(after - before) : after;
    const held = rows.filter(({ before, after, row }) => before || after || this.section.rows.has(row));
    this.rows = held.sort((a, b) => order(b) - order(a) || b.after - a.after || a.row - b.row);
    this.total = rows.reduce((sum, { after }) => sum + after, 0);
  }

  draw() {
    const { section } = this, within = section.flame.within(), box = within ? ` within ${section.flame.text(section.flame.root)}` : "";
    this.summary.textContent = `All rows at the ${section.momentText(section.moment, true)}${box}`;
    this.events.draw();
    if (!this.details.open && section.rows.size === 0) { this.sum.textContent = ""; return; }
    this.compute();
    this.tellSum();
    this.shown = this.rows;
    this.list.show(this.details.open ? this.shown.length : 0);
  }

  tellSum() {
    const { section } = this, of = this.rows.filter(({ row }) => section.rows.has(row));
    if (of.length === 0) { this.sum.textContent = "Tick rows to see their sum, their own curve and their events."; return; }
    const before = of.reduce((sum, row) => sum + row.before, 0), after = of.reduce((sum, row) => sum + row.after, 0);
    const held = section.data.compared ? `${size(before)} before, ${size(after)} after, ${change(after - before)}` : size(after);
    this.sum.textContent = `${counted(of.length, "selected row")} together: ${held}`;
  }

  row({ row, before, after, blocksBefore, blocksAfter }) {
    const blocks = blocksBefore === blocksAfter || !this.section.data.compared ? count(blocksAfter) : `${count(blocksBefore)} → ${count(blocksAfter)}`;
    const figures = this.section.data.compared ? [change(after - before), size(before), size(after), blocks] : [size(after), percent(after, this.total), blocks];
    return html("tr", { class: this.section.data.compared ? (after > before ? "worse" : after < before ? "better" : "faint") : null },
      html("td", { class: "words name" }, this.section.tick(row), html("code", {}, this.section.rowName(row))), ...figures.map((text) => html("td", { class: "figure" }, text)));
  }
}

class EventList {
  constructor(section) {
    this.section = section;
    this.summary = html("summary");
    const body = html("tbody"), head = html("tr", {}, ...["event", "time", "bytes", ""].map((text) => html("th", { class: "figure" }, text)), html("th", {}, "row"));
    const table = html("div", { class: "scroll" }, html("table", { class: "events" }, html("thead", {}, head), body));
    this.details = html("details", { class: "events", hidden: "", on: { toggle: () => this.draw() } }, this.summary, table);
    this.list = new Lazily(body, table, (at) => this.row(this.events[at]));
  }

  // The events of the selected rows within the stretch that the timeline shows, by side.
  find() {
    const { section } = this, { timeline } = section, [from, to] = timeline.domain, events = [];
    for (const { side, label, history } of timeline.curves) {
      const { blocks } = history, first = section.window ? history.placeAt(section.axis, from) : 0, last = section.window ? history.placeAt(section.axis, to) : history.last;
      blocks.class.forEach((of, block) => {
        if (!section.rows.has(history.rows[of])) return;
        for (const [place, what] of [[blocks.born[block], "allocated"], [blocks.freed[block], "freed"], [blocks.completed[block], "free completed"]]) {
          if (place === 0 || place > history.events || place < first || place > last || (what === "free completed" && place === blocks.freed[block])) continue;
          events.push({ side, label, history, block, place, what });
        }
      });
    }
    return events.sort((a, b) => (a.side > b.side) - (a.side < b.side) || a.place - b.place);
  }

  draw() {
    const { section } = this;
    this.details.hidden = section.rows.size === 0;
    if (this.details.hidden) return;
    const stretch = section.window ? "in the stretch that is shown" : "of the whole recording";
    this.summary.textContent = `Events of the ${counted(section.rows.size, "selected row")} ${stretch}`;
    if (!this.details.open) return;
    this.events = this.find();
    this.summary.textContent += ` (${count(this.events.length)})`;
    this.list.show(this.events.length);
  }

  row({ label, history, block, place, what }) {
    const of = history.blocks.class[block], address = history.addresses ? ` at 0x${history.addresses[block].toString(16)}` : "";
    const time = history.times.length ? axisText("time", history.time(place), history.time(history.last)) : "";
    return html("tr", {}, html("td", { class: "figure" }, `${label} ${count(history.event(place))}`), html("td", { class: "figure" }, time),
      html("td", { class: "figure" }, size(history.bytes[of])), html("td", {}, what + address), html("td", {}, html("code", {}, this.section.rowName(history.rows[of]))));
  }
}
