// --- A device: what is chosen, and its pictures, which show it ---

class Section {
  constructor(element, data, histories) {
    Object.assign(this, { element, data, histories, window: null, rows: new Set(), axis: data.axes[0] || "event" });
    this.isExact = data.curves.length > 0 && data.curves.every((curve) => histories[curve.side]);
    this.moments = data.moments.map((moment) => ({ ...moment, name: moment.title.split(" ")[0] }));
    this.moment = this.moments[0] || { title: "", before: null, after: null };
    const line = element.querySelector("figure.timeline"), boxes = element.querySelector("figure.flame");
    if (line && data.curves.length) this.timeline = new Timeline(line, this);
    if (boxes && this.moments.length) this.flame = new Flame(boxes, this);
    if (this.flame && this.isExact) {
      this.momentRows = new MomentRows(this, boxes);
      if (Object.values(histories).some((history) => history.addresses)) this.map = new MemoryMap(this, boxes);
    }
    for (const table of element.querySelectorAll("table")) if (!table.closest("details.moment, details.events")) new Table(table, (row) => this.addTick(row));
    this.read();
    if (this.timeline) this.timeline.draw();
    this.showMoment();
  }

  // --- What is chosen ---

  // Shows the stretch from one value of the scale to another; null is everything.
  setWindow(window) {
    const [first, last] = this.timeline.whole, span = last - first;
    if (window) {
      const least = Math.min(this.axis === "time" ? 1 : 4, span), width = Math.min(Math.max(window[1] - window[0], least), span);
      const from = Math.min(Math.max(window[0], first), last - width);
      this.window = width >= span ? null : [from, from + width];
    } else this.window = null;
    this.timeline.draw();
    if (this.momentRows) this.momentRows.events.draw();
    this.write();
  }

  setAxis(axis) {
    this.axis = axis;
    this.window = null;
    this.timeline.point(null);
    this.timeline.draw();
    this.write();
  }

  setView(view) { this.flame.setView(view); this.write(); }

  choose(moment) {
    this.moment = moment;
    this.showMoment();
    this.write();
  }

  // Chooses a place of both sides.
  chooseAt(places) {
    const same = this.moments.find((moment) => moment.before === places.before && moment.after === places.after);
    this.choose(same || { title: "moment", name: "", ...places });
  }

  showMoment() {
    if (this.flame) this.flame.show();
    if (this.timeline) this.timeline.markChosen();
    if (this.momentRows) this.momentRows.draw();
    if (this.map) this.map.draw();
  }

  toggleRow(row) {
    if (this.rows.has(row)) this.rows.delete(row); else this.rows.add(row);
    for (const tick of this.element.querySelectorAll(`input[data-tick="${row}"]`)) tick.checked = this.rows.has(row);
    this.flame.show();
    if (this.timeline.by === "allocation") this.timeline.draw();
    if (this.map) this.map.draw();
    this.momentRows.draw();
    this.boxChanged();
  }

  // The box that the flame graph shows, or the selection, is another.
  boxChanged() {
    if (this.timeline) this.timeline.drawOwn();
    if (this.momentRows) this.momentRows.draw();
    this.write();
  }

  // --- What that means ---

  rowName(row) { return row < 0 ? "memory without a row" : this.data.rows[row]; }

  // A moment in words, with its place on each side, and with what is held where that is asked for.
  momentText(moment, withBytes = false) {
    const of = ({ side, label, history }) => {
      const place = moment[side], name = label ? label + ": " : "";
      if (place === null || place === undefined) return name + "none";
      if (!(history instanceof Replay)) return `${name}${eventText(Math.min(place - 1, history.event(history.last)))}`;
      return `${name}${eventText(history.event(place))}${withBytes ? ", " + size(history.allocated[place]) : ""}`;
    };
    const sides = this.timeline ? this.timeline.curves.map(of) : [];
    return sides.length ? `${moment.title} (${sides.join("; ")})` : moment.title;
  }

  // The bytes and blocks that each node of the flame graph holds itself at the moment.
  held() {
    const nodes = this.data.nodes.length, held = {};
    for (const name of ["before", "after", "blocksBefore", "blocksAfter"]) held[name] = new Float64Array(nodes);
    const known = this.moment.held;
    if (known) for (const [node, { before, after }] of Object.entries(known)) {
      held.before[node] = before.bytes; held.after[node] = after.bytes;
      held.blocksBefore[node] = before.blocks; held.blocksAfter[node] = after.blocks;
    }
    else for (const [side, history] of Object.entries(this.histories)) {
      if (this.moment[side] === null) continue;
      const of = side === "before" ? held.blocksBefore : held.blocksAfter;
      history.blocksAt(this.moment[side]).forEach((blocks, at) => { held[side][history.nodes[at]] += blocks * history.bytes[at]; of[history.nodes[at]] += blocks; });
    }
    return held;
  }

  // The boxes that contain a selected row.
  nodesOfRows() {
    const nodes = new Set();
    if (this.rows.size === 0) return nodes;
    for (const history of Object.values(this.histories)) {
      history.rows.forEach((row, at) => {
        if (this.rows.has(row)) for (let node = history.nodes[at]; node >= 0 && !nodes.has(node); node = this.data.nodes[node].parent ?? -1) nodes.add(node);
      });
    }
    return nodes;
  }

  // The classes whose own curve is drawn: those of the selected rows, else those of the zoomed box; null for none.
  chosen() {
    if (this.rows.size) {
      const [first] = this.rows, title = this.rows.size === 1 ? this.rowName(first) : counted(this.rows.size, "selected row");
      return { title, has: (history, at) => this.rows.has(history.rows[at]) };
    }
    const within = this.flame && this.flame.within();
    return within ? { title: this.flame.text(this.flame.root), has: (history, at) => within.has(history.nodes[at]) } : null;
  }

  // A box to tick that selects a row.
  tick(row) {
    const box = html("input", { type: "checkbox", "data-tick": row, "aria-label": `Select ${this.rowName(row)}`, title: "Select: its own curve, its boxes, its events", on: { change: () => this.toggleRow(row) } });
    box.checked = this.rows.has(row);
    return box;
  }

  addTick(element) {
    if (!this.momentRows || element.dataset.row === undefined) return;
    element.querySelector("td.name").prepend(this.tick(Number(element.dataset.row)));
  }

  // --- The address of what is shown ---

  // Writes it behind the page's own address, so that it can be sent to somebody.
  write() {
    if (this.isReading) return;
    const { moment, window, axis, rows, flame } = this, view = new URLSearchParams();
    if (this.data.axes.length && axis !== this.data.axes[0]) view.set("axis", axis);
    if (window) view.set("part", window.map((value) => Math.round(value * 1000) / 1000).join("~"));
    if (moment !== this.moments[0]) view.set("at", [moment.before, moment.after].map((place) => place ?? "").join("~"));
    if (rows.size) view.set("rows", [...rows].join("~"));
    if (flame && flame.compared && flame.view !== "difference") view.set("view", flame.view);
    if (flame && flame.root >= 0) view.set("box", flame.root);
    const text = view.toString();
    history.replaceState(null, "", "#" + this.element.id + (text ? "?" + text : ""));
  }

  read() {
    const [id, text] = location.hash.slice(1).split("?");
    if (id !== this.element.id || !text) return;
    const view = new URLSearchParams(text), numbers = (name) => (view.get(name) || "").split("~").filter((part) => part !== "").map(Number);
    this.isReading = true;
    if (this.data.axes.includes(view.get("axis"))) this.axis = view.get("axis");
    const part = numbers("part"), [before, after] = (view.get("at") || "").split("~").map((place) => place === "" ? null : Number(place));
    if (part.length === 2 && this.timeline) this.setWindow(part);
    const isPlace = (side, place) => place === null || (this.histories[side] && place >= 0 && place <= this.histories[side].last);
    if (view.has("at") && this.isExact && isPlace("before", before) && after !== undefined && isPlace("after", after)) this.chooseAt({ before, after });
    if (this.momentRows) for (const row of numbers("rows")) if (row in this.data.rows) this.toggleRow(row);
    if (this.flame && VIEWS.some(([name]) => name === view.get("view"))) this.flame.setView(view.get("view"));
    if (this.flame && this.flame.parent[view.get("box")] !== undefined) this.flame.zoom(Number(view.get("box")));
    this.isReading = false;
  }
}

// --- The page ---

// Data of a section without a picture.
const NOTHING = { compared: false, axes: [], curves: [], records: {}, rows: [], categories: [], nodes: [], moments: [] };

function start(element, data) {
  const histories = {};
  for (const [side, record] of Object.entries(data.records)) if (record) histories[side] = new Replay(record);
  new Section(element, data, histories);
  element.classList.add("ready");
}

// The data of the page: JSON, deflated, in base64.
async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

function openTarget() {
  const target = document.getElementById(location.hash.slice(1).split("?")[0]);
  if (target && target.tagName === "DETAILS") target.open = true;
}

async function startPage() {
  document.documentElement.classList.add("script");
  openTarget();
  for (const table of document.querySelectorAll("table")) if (!table.closest("details.section")) new Table(table, () => {});
  addEventListener("hashchange", openTarget);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
  const { sections } = await unpack(document.getElementById("data").textContent);
  for (const section of document.querySelectorAll("details.section")) {
    // What is folded away is drawn once it is opened.
    const begin = () => start(section, sections[Number(section.dataset.section)] || NOTHING);
    if (section.open) begin();
    else section.addEventListener("toggle", begin, { once: true });
  }
}

startPage();
