"use strict";
// Makes the still pictures of the page answer: scales, moments, zoom, search, order of rows. All figures come from the
// page's data; nothing is asked of anybody.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const SPAN = 1000, PLOT = 240, ABOVE = 14, LANE = 18, LANES = 4, BELOW = 22, ROW = 19;
  // Boxes narrower than this share of the picture are not drawn.
  const NARROWEST = 0.0008;

  // --- Figures as every report of ptmem prints them ---

  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

  function size(bytes) {
    let value = Math.abs(bytes), unit = 0;
    while (unit < UNITS.length - 1 && Number(value.toFixed(unit ? 2 : 0)) >= 1024) { value /= 1024; unit += 1; }
    return (bytes < 0 ? "-" : "") + value.toFixed(unit ? 2 : 0) + " " + UNITS[unit];
  }

  function change(bytes) { return (bytes > 0 ? "+" : "") + size(bytes); }

  function count(number) { return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ","); }

  function percent(part, whole) { return whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "0.0 %"; }

  // --- Elements ---

  function fill(element, attributes, children) {
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
      else if (value !== undefined && value !== null) element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  }

  const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
  const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

  // A row of buttons of which one is pressed.
  function choices(title, entries, chosen, choose) {
    const buttons = entries.map(([value, text]) =>
      html("button", { type: "button", "data-choice": value, "aria-pressed": String(value === chosen), on: { click: () => {
        for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.choice === value));
        choose(value);
      } } }, text));
    return html("span", { class: "buttons", role: "group", "aria-label": title }, html("span", {}, title), ...buttons);
  }

  function sums(differences) {
    let sum = 0;
    return differences && differences.map((difference) => sum += difference);
  }

  // The place of the last value that is not above another, in a rising column.
  function placeOf(column, value) {
    let from = 0, to = column.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (column[middle] <= value) from = middle + 1; else to = middle;
    }
    return Math.max(from - 1, 0);
  }

  function nearest(column, value) {
    const left = placeOf(column, value), right = Math.min(left + 1, column.length - 1);
    return Math.abs(column[right] - value) < Math.abs(column[left] - value) ? right : left;
  }

  const AXES = ["program", "time", "event"];

  // `span` is the length of the whole scale.
  function axisText(axis, value, span) {
    if (axis === "time") return span < 2e6 ? (value / 1e3).toFixed(3) + " ms" : (value / 1e6).toFixed(3) + " s";
    return axis === "event" ? "event " + count(value) : count(value) + " allocations";
  }

  function ticks(top) {
    const least = Math.max(Math.floor(top / 5), 1), unit = 2 ** (Math.floor(Math.log2(least) / 10) * 10);
    const step = unit * ([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000].find((step) => step * unit >= least) || 1);
    const all = [];
    for (let tick = 0; tick <= top && all.length < 12; tick += step) all.push(tick);
    return all;
  }

  // --- Timeline ---

  class Timeline {
    constructor(figure, data, select) {
      this.plot = figure.querySelector("svg.plot");
      this.readout = figure.querySelector(".readout");
      this.select = select;
      this.curves = data.curves.map((curve) => ({
        ...curve,
        program: sums(curve.program), time: sums(curve.time), event: sums(curve.event),
        allocated: sums(curve.allocated), reserved: sums(curve.reserved),
        areaPoints: sums(curve.areaPoints), areas: curve.areas.map((area) => ({ ...area, bytes: sums(area.bytes) })),
      }));
      this.axis = data.axes[0][0];
      this.shown = "after";
      this.chosen = null;
      this.at = null;
      const highest = Math.max(...this.curves.flatMap((curve) => [...curve.allocated, ...(curve.reserved || [])]));
      this.top = Math.max(highest + Math.floor(highest / 20), 1);
      this.makeControls(figure.querySelector(".controls"), data);
      // From here on it takes keys.
      fill(this.plot, { tabindex: "0", role: "application", on: {
        pointermove: (event) => this.point(this.valueAt(event)),
        pointerleave: () => this.point(null),
        click: (event) => this.choose(this.valueAt(event)),
        keydown: (event) => this.key(event),
      } }, []);
      this.plot.setAttribute("aria-label", this.plot.getAttribute("aria-label") + ". Arrow keys move, Enter selects the moment.");
      this.draw();
    }

    makeControls(controls, data) {
      if (data.axes.length > 1) {
        controls.append(choices("Along the", data.axes, this.axis, (axis) => { this.axis = axis; this.point(null); this.draw(); }));
      }
      const sides = this.curves.filter((curve) => curve.areas.length).map((curve) => [curve.side, curve.label || "shown"]);
      if (sides.length) {
        controls.append(choices("Categories of the", [...sides.reverse(), ["none", "none"]], this.shown,
          (side) => { this.shown = side; this.draw(); }));
      }
    }

    get domain() {
      const ends = this.curves.flatMap((curve) => [curve[this.axis][0], curve[this.axis][curve[this.axis].length - 1]]);
      return [Math.min(...ends), Math.max(...ends)];
    }

    x(value) {
      const [from, to] = this.domain;
      return Math.min(Math.max((value - from) / Math.max(to - from, 1), 0), 1);
    }

    y(bytes) { return 1 - bytes / this.top; }

    valueAt(event) {
      const box = this.plot.getBoundingClientRect(), [from, to] = this.domain;
      return from + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * (to - from);
    }

    path(curve, places, bytes) {
      return places.map((place, at) => (at ? "L" : "M") + (this.x(curve[this.axis][place]) * SPAN).toFixed(1) + " " +
        (this.y(bytes[at]) * SPAN).toFixed(1)).join("");
    }

    areas(curve) {
      let below = curve.areaPoints.map(() => 0);
      return curve.areas.map((area) => {
        const above = below.map((bytes, at) => bytes + area.bytes[at]);
        const there = this.path(curve, curve.areaPoints, above);
        const back = this.path(curve, [...curve.areaPoints].reverse(), [...below].reverse()).replace("M", "L");
        below = above;
        return svg("path", { class: "area c" + area.colour, d: there + back + "Z" });
      });
    }

    draw() {
      const lines = svg("svg", { class: "lines", x: 0, y: ABOVE, width: "100%", height: PLOT, viewBox: `0 0 ${SPAN} ${SPAN}`, preserveAspectRatio: "none" });
      for (const curve of this.curves) {
        if (curve.side === this.shown) lines.append(svg("g", { class: "areas " + curve.side }, ...this.areas(curve)));
      }
      for (const curve of this.curves) {
        const places = curve.allocated.map((_, at) => at);
        if (curve.baseline !== null) {
          const y = (this.y(curve.baseline) * SPAN).toFixed(1);
          lines.append(svg("path", { class: "line baseline " + curve.side, d: `M0 ${y}L${SPAN} ${y}` }));
        }
        if (curve.reserved) lines.append(svg("path", { class: "line reserved " + curve.side, d: this.path(curve, places, curve.reserved) }));
        lines.append(svg("path", { class: "line allocated " + curve.side, d: this.path(curve, places, curve.allocated) }));
      }
      const bands = this.curves[this.curves.length - 1].bands.filter((band) => band.depth < LANES);
      const lanes = bands.reduce((most, band) => Math.max(most, band.depth + 1), 0);
      this.bottom = ABOVE + PLOT + lanes * LANE;
      this.plot.setAttribute("height", this.bottom + BELOW);
      this.cursor = svg("g", { class: "cursor" });
      this.selected = svg("g", { class: "selected" });
      this.plot.replaceChildren(lines, this.grid(), ...this.curves.flatMap((curve) => curve.marks.map((mark) => this.mark(curve, mark))),
        ...bands.map((band) => this.band(band)), this.scale(), this.cursor, this.selected);
      this.markChosen();
    }

    grid() {
      return svg("g", { class: "grid", "aria-hidden": "true" }, ...ticks(this.top).flatMap((tick) => {
        const y = ABOVE + this.y(tick) * PLOT;
        return [svg("line", { x1: 0, x2: "100%", y1: y, y2: y }), svg("text", { x: 4, y: y - 3 }, size(tick).replace(".00 ", " "))];
      }));
    }

    mark(curve, mark) {
      const x = this.x(mark.at[AXES.indexOf(this.axis)] ?? 0), y = ABOVE + this.y(mark.bytes) * PLOT, along = 100 * x + "%";
      const title = svg("title", {}, mark.text);
      if (mark.kind === "failure") return svg("g", { class: "failure" }, title, svg("line", { x1: along, x2: along, y1: ABOVE, y2: ABOVE + PLOT }));
      if (mark.kind === "reserved") return svg("circle", { class: "peak reserved " + curve.side, cx: along, cy: y, r: 3 }, title);
      const isRight = x > 0.5, lift = curve.side === "before" ? 16 : -6;
      return svg("g", { class: "peak " + curve.side }, svg("circle", { cx: along, cy: y, r: 4 }, title),
        svg("text", { x: along, dx: isRight ? -8 : 8, y: y + lift, "text-anchor": isRight ? "end" : "start" }, mark.text));
    }

    band(band) {
      const at = AXES.indexOf(this.axis), from = this.x(band.from[at] ?? 0), to = this.x(band.to[at] ?? 0);
      return svg("svg", { class: "phase", x: 100 * from + "%", y: ABOVE + PLOT + 2 + band.depth * LANE, width: 100 * Math.max(to - from, 0) + "%", height: LANE - 2 },
        svg("title", {}, `${band.name}: peak ${size(band.peak)}`), svg("rect", { width: "100%", height: "100%" }), svg("text", { x: 3, y: 12 }, band.name));
    }

    scale() {
      const [from, to] = this.domain;
      return svg("g", { class: "scale", "aria-hidden": "true" }, ...[0, 1, 2, 3, 4].map((quarter) => svg("text",
        { x: quarter * 25 + "%", y: this.bottom + 15, "text-anchor": ["start", "middle", "middle", "middle", "end"][quarter] },
        axisText(this.axis, from + (to - from) * quarter / 4, to - from))));
    }

    // Shows the figures at a value of the scale.
    point(value) {
      this.at = value;
      this.cursor.replaceChildren();
      if (value === null) { this.readout.textContent = ""; return; }
      const x = 100 * this.x(value) + "%";
      this.cursor.append(svg("line", { x1: x, x2: x, y1: ABOVE, y2: ABOVE + PLOT }));
      this.readout.replaceChildren(...this.curves.map((curve) => html("span", {}, this.figures(curve, value), html("br"))));
    }

    figures(curve, value) {
      const place = nearest(curve[this.axis], value);
      const label = curve.label ? curve.label + ": " : "";
      const time = curve.time ? `, ${axisText("time", curve.time[place], curve.time[curve.time.length - 1])}` : "";
      const reserved = curve.reserved ? `, reserved ${size(curve.reserved[place])}` : "";
      const band = curve.bands.filter((band) => band.from[2] <= curve.event[place] && curve.event[place] < band.to[2]).map((band) => band.name).join(" › ");
      return `${label}allocated ${size(curve.allocated[place])}${reserved} (event ${count(curve.event[place])}${time})${band ? ", in " + band : ""}`;
    }

    key(event) {
      const curve = this.curves[this.curves.length - 1], column = curve[this.axis];
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -column.length, End: column.length };
      if (event.key in steps) {
        const step = steps[event.key];
        // Without a moment yet, the first or the last one.
        const from = this.at === null ? (step > 0 ? -1 : column.length) : nearest(column, this.at);
        this.point(column[Math.min(Math.max(from + step, 0), column.length - 1)]);
        event.preventDefault();
      } else if (event.key === "Enter" && this.at !== null) {
        this.choose(this.at);
      }
    }

    // Selects the moment at a value of the scale for the pictures below.
    choose(value) {
      const curve = this.curves[this.curves.length - 1];
      this.select(curve.event[nearest(curve[this.axis], value)]);
    }

    // Marks the moment that the pictures below show.
    show(moment) { this.chosen = moment; this.markChosen(); }

    markChosen() {
      this.selected.replaceChildren();
      for (const curve of this.curves) {
        const event = this.chosen && this.chosen[curve.side];
        if (event === null || event === undefined) continue;
        const x = 100 * this.x(curve[this.axis][nearest(curve.event, event)]) + "%";
        this.selected.append(svg("line", { x1: x, x2: x, y1: ABOVE, y2: ABOVE + PLOT }));
      }
    }
  }

  // --- Flame graph ---

  class Flame {
    constructor(figure, data, compared, shown) {
      Object.assign(this, { figure, compared, shown });
      this.frames = data.frames; this.parent = data.parent; this.frame = data.frame;
      this.moments = data.moments.map((moment) => ({ ...moment, node: sums(moment.node) }));
      this.children = this.parent.map(() => []);
      this.outermost = [];
      this.parent.forEach((parent, node) => (parent < 0 ? this.outermost : this.children[parent]).push(node));
      this.boxes = figure.querySelector("svg.boxes");
      this.readout = figure.querySelector(".readout");
      this.view = compared ? "difference" : "after";
      this.moment = 0; this.root = -1; this.query = "";
      this.makeControls(figure.querySelector(".controls"));
      fill(this.boxes, { on: { click: (event) => this.click(event), keydown: (event) => this.key(event),
        pointerover: (event) => this.tell(event), focusin: (event) => this.tell(event) } }, []);
      this.compute();
      this.draw();
    }

    makeControls(controls) {
      this.picker = html("select", { on: { change: () => this.choose(Number(this.picker.value)) } },
        ...this.moments.flatMap((moment, at) => moment.kind === "sample" ? [] : [html("option", { value: at }, this.title(moment))]));
      controls.append(html("label", {}, "Moment ", this.picker));
      if (this.compared) {
        controls.append(choices("View", [["difference", "difference"], ["before", "before"], ["after", "after"]], this.view,
          (view) => { this.view = view; this.compute(); this.draw(); }));
      }
      this.search = html("input", { type: "search", placeholder: "part of a function or path", size: 26, on: { input: () => { this.query = this.search.value.trim().toLowerCase(); this.draw(); } } });
      controls.append(html("label", {}, "Search ", this.search));
      this.found = html("output", { class: "found" });
      this.reset = html("button", { type: "button", on: { click: () => this.zoom(-1) } }, "Reset zoom");
      controls.append(this.found, this.reset);
    }

    title(moment) {
      const at = (event) => event === null ? "none" : "event " + count(event);
      const where = this.compared ? `before: ${at(moment.before)}, after: ${at(moment.after)}` : at(moment.after);
      return `${moment.title} (${where})`;
    }

    // Selects a moment by its number.
    choose(moment) {
      this.moment = moment;
      if (![...this.picker.options].some((option) => Number(option.value) === moment)) {
        this.picker.append(html("option", { value: moment }, this.title(this.moments[moment])));
      }
      this.picker.value = moment;
      this.compute();
      this.draw();
      this.shown(this.moments[moment]);
    }

    // Selects the moment that lies nearest to an event of the after.
    chooseNear(event) {
      let best = -1;
      this.moments.forEach((moment, at) => {
        const distance = (moment) => Math.abs(moment.after - event);
        if (moment.after !== null && (best < 0 || distance(moment) < distance(this.moments[best]))) best = at;
      });
      if (best >= 0) this.choose(best);
    }

    // Adds up the moment's memory from the innermost frames outwards.
    compute() {
      const moment = this.moments[this.moment], zeros = () => new Float64Array(this.parent.length);
      this.before = zeros(); this.after = zeros(); this.width = zeros(); this.blocksBefore = zeros(); this.blocksAfter = zeros();
      moment.node.forEach((node, at) => {
        this.before[node] = moment.beforeBytes[at]; this.after[node] = moment.afterBytes[at];
        this.blocksBefore[node] = moment.beforeBlocks[at]; this.blocksAfter[node] = moment.afterBlocks[at];
        this.width[node] = this.view === "difference" ? Math.max(moment.beforeBytes[at], moment.afterBytes[at]) : (this.view === "before" ? moment.beforeBytes : moment.afterBytes)[at];
      });
      for (let node = this.parent.length - 1; node >= 0; node -= 1) {
        const parent = this.parent[node];
        if (parent < 0) continue;
        for (const column of [this.before, this.after, this.width, this.blocksBefore, this.blocksAfter]) column[parent] += column[node];
      }
      const total = (column) => this.outermost.reduce((sum, node) => sum + column[node], 0);
      this.total = total(this.width); this.totalBefore = total(this.before); this.totalAfter = total(this.after);
    }

    text(node) { return this.frames[this.frame[node]].text; }

    amount(node) {
      const before = this.before[node], after = this.after[node];
      const blocks = this.compared ? `${count(this.blocksBefore[node])} to ${count(this.blocksAfter[node])} blocks` : `in ${count(this.blocksAfter[node])} blocks`;
      if (!this.compared) return `${size(after)} ${blocks}, ${percent(after, this.totalAfter)} of the moment`;
      return `${change(after - before)} (${size(before)} before, ${size(after)} after, ${blocks})`;
    }

    style(node) {
      const frame = this.frames[this.frame[node]];
      if (this.view !== "difference") return "box " + (frame.user ? "user" : "library");
      const delta = this.after[node] - this.before[node], share = 100 * Math.abs(delta) / Math.max(this.width[node], 1);
      const level = share < 2 ? 0 : share < 25 ? 1 : share < 60 ? 2 : 3;
      return level === 0 ? "box same" : "box " + (delta > 0 ? "more" : "less") + level;
    }

    matches(node) { return this.query !== "" && this.text(node).toLowerCase().includes(this.query); }

    // The boxes to draw: callers of the zoomed box over the whole width, then everything in it.
    layout() {
      const places = [], callers = [];
      for (let node = this.root < 0 ? -1 : this.parent[this.root]; node >= 0; node = this.parent[node]) callers.unshift(node);
      callers.forEach((node, depth) => places.push({ node, depth, from: 0, width: 1, isCaller: true }));
      const whole = this.root < 0 ? this.total : this.width[this.root];
      const open = [{ nodes: this.root < 0 ? this.outermost : [this.root], depth: callers.length, from: 0 }];
      while (open.length) {
        const { nodes, depth, from } = open.pop();
        let left = from;
        const sorted = [...nodes].sort((a, b) => this.width[b] - this.width[a] || (this.text(a) < this.text(b) ? -1 : 1));
        for (const node of sorted) {
          const width = whole > 0 ? this.width[node] / whole : 0;
          if (width < NARROWEST) break;
          places.push({ node, depth, from: left, width, isCaller: false });
          open.push({ nodes: this.children[node], depth: depth + 1, from: left });
          left += width;
        }
      }
      return places.sort((a, b) => a.depth - b.depth || a.from - b.from);
    }

    draw(focus) {
      const places = this.layout(), columns = this.boxes.getBoundingClientRect().width || 1000;
      const deepest = places.reduce((most, place) => Math.max(most, place.depth), 0);
      this.boxes.setAttribute("height", (deepest + 1) * ROW);
      this.boxes.replaceChildren(...places.map((place) => this.box(place, columns)));
      const target = this.boxes.querySelector(`[data-node="${focus ?? (this.root >= 0 ? this.root : this.outermost[0])}"]`) || this.boxes.firstChild;
      if (target) target.setAttribute("tabindex", "0");
      if (target && focus !== undefined) target.focus();
      this.reset.disabled = this.root < 0;
      this.tellFound();
    }

    box({ node, depth, from, width, isCaller }, columns) {
      const isFound = this.matches(node), isDim = isCaller || (this.query !== "" && !isFound);
      const label = `${this.text(node)}: ${this.amount(node)}`;
      const box = svg("svg", { class: this.style(node) + (isFound ? " found" : "") + (isDim ? " dimmed" : ""), x: 100 * from + "%", y: depth * ROW,
        width: 100 * width + "%", height: ROW - 1, role: "treeitem", tabindex: -1, "aria-level": depth + 1, "aria-label": label, "data-node": node },
        svg("title", {}, label), svg("rect", { width: "100%", height: "100%" }));
      if (width * columns > 24) box.append(svg("text", { x: 4, y: 13 }, this.text(node)));
      return box;
    }

    // The share of everything in matching boxes, each byte counted once.
    tellFound() {
      if (this.query === "") { this.found.textContent = ""; return; }
      let bytes = 0, before = 0, after = 0, frames = 0;
      const inside = this.parent.map(() => false);
      for (let node = 0; node < this.parent.length; node += 1) {
        const isWithin = this.parent[node] >= 0 && inside[this.parent[node]], isMatch = this.matches(node);
        inside[node] = isWithin || isMatch;
        if (isMatch && this.width[node] > 0) frames += 1;
        if (isMatch && !isWithin) { bytes += this.width[node]; before += this.before[node]; after += this.after[node]; }
      }
      const held = this.compared ? `${size(before)} before, ${size(after)} after` : size(after);
      this.found.textContent = `${count(frames)} ${frames === 1 ? "frame" : "frames"}, ${held}, ${percent(bytes, this.total)}`;
    }

    nodeOf(event) {
      const box = event.target.closest && event.target.closest(".box");
      return box ? Number(box.dataset.node) : -1;
    }

    click(event) {
      const node = this.nodeOf(event);
      if (node >= 0) this.zoom(node === this.root ? this.parent[node] : node, node);
    }

    zoom(root, focus) { this.root = root; this.draw(focus); }

    tell(event) {
      const node = this.nodeOf(event);
      if (node < 0) return;
      const frame = this.frames[this.frame[node]];
      const name = frame.href ? html("a", { href: frame.href }, frame.text) : html("code", {}, frame.text);
      this.readout.replaceChildren(name, " " + this.amount(node));
      if (frame.source) this.readout.append(html("br"), html("code", { class: "source" }, frame.source));
    }

    key(event) {
      const node = this.nodeOf(event);
      if (node < 0) return;
      const drawn = (node) => this.boxes.querySelector(`[data-node="${node}"]`);
      const visible = (nodes) => nodes.filter(drawn).sort((a, b) => this.width[b] - this.width[a] || (this.text(a) < this.text(b) ? -1 : 1));
      const siblings = visible(this.parent[node] < 0 ? this.outermost : this.children[this.parent[node]]), at = siblings.indexOf(node);
      const target = { ArrowUp: this.parent[node], ArrowDown: visible(this.children[node])[0], ArrowLeft: siblings[at - 1], ArrowRight: siblings[at + 1] }[event.key];
      if (event.key === "Enter" || event.key === " ") this.zoom(node === this.root ? this.parent[node] : node, node);
      else if (event.key === "Escape") this.zoom(-1, node);
      else if (target >= 0 && drawn(target)) {
        drawn(node).setAttribute("tabindex", "-1");
        drawn(target).setAttribute("tabindex", "0");
        drawn(target).focus();
      } else if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
    }
  }

  // --- Tables ---

  const LONG_TABLE = 8;

  function sortable(table) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    if (body.rows.length < 2) return;
    const key = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
    };
    const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? 1 : -1;
    const sort = (column) => {
      const isDown = heads[column].getAttribute("aria-sort") !== "descending";
      heads.forEach((head) => head.removeAttribute("aria-sort"));
      heads[column].setAttribute("aria-sort", isDown ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => {
        const rest = Number(a.dataset.rest || 0) - Number(b.dataset.rest || 0);
        const order = compare(key(a, column), key(b, column));
        return rest || (isDown ? -order : order);
      });
      body.append(...rows);
    };
    heads.forEach((head, column) => {
      if (head.textContent.trim() === "") return;
      head.replaceChildren(html("button", { type: "button", title: "Sort by this column", on: { click: () => sort(column) } }, ...head.childNodes));
    });
    if (body.rows.length > LONG_TABLE) searchable(table, body);
  }

  function searchable(table, body) {
    const shown = html("output", {});
    const input = html("input", { type: "search", on: { input: () => {
      const query = input.value.trim().toLowerCase();
      let matching = 0;
      for (const row of body.rows) {
        row.hidden = !row.textContent.toLowerCase().includes(query);
        matching += row.hidden ? 0 : 1;
      }
      shown.textContent = query === "" ? "" : `${count(matching)} of ${count(body.rows.length)} rows`;
    } } });
    table.closest(".scroll").before(html("div", { class: "controls" }, html("label", {}, "Search rows ", input), shown));
  }

  // --- The page ---

  function start(section, data) {
    const line = section.querySelector("figure.timeline"), boxes = section.querySelector("figure.flame");
    let timeline = null, flame = null;
    if (line && data.curves.length) timeline = new Timeline(line, data, (event) => flame && flame.chooseNear(event));
    if (boxes && data.flame.moments.length) {
      flame = new Flame(boxes, data.flame, data.compared, (moment) => timeline && timeline.show(moment));
      if (timeline) timeline.show(flame.moments[0]);
    }
  }

  const data = JSON.parse(document.getElementById("data").textContent);
  document.documentElement.classList.add("script");
  for (const section of document.querySelectorAll("details.section")) {
    // What is folded away is drawn once it is opened.
    const begin = () => start(section, data.sections[Number(section.dataset.section)]);
    if (section.open) begin();
    else section.addEventListener("toggle", begin, { once: true });
  }
  for (const table of document.querySelectorAll("table")) sortable(table);
  const open = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", open);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
  open();
})();
