// --- Timeline ---

const SPAN = 1000, PLOT = 240, ABOVE = 14, LANE = 18, LANES = 4, BELOW = 22, MINIMAP = 34, OWN = 90;
// Equal parts of what is shown: each gives its lowest and its highest point.
const PARTS = 600;

class Timeline {
  constructor(figure, section) {
    Object.assign(this, { figure, section, shown: "after", by: "category", hidden: new Set(), at: null });
    this.plot = figure.querySelector("svg.plot");
    this.caption = figure.querySelector("figcaption");
    this.readout = figure.querySelector(".readout");
    this.curves = section.data.curves.map((curve) => ({ ...curve, history: section.histories[curve.side] || new Points(curve.points) }));
    this.last = this.curves[this.curves.length - 1];
    this.hint = this.readout.textContent = section.isExact
      ? "Point at the chart for its figures, click to choose that moment, drag to zoom in. Ctrl and wheel zoom, Shift and wheel pan."
      : "Point at the chart for its figures, drag to zoom in.";
    this.makeControls(figure.querySelector(".controls"));
    this.filterByLegend(figure.querySelector(".legend"));
    this.own = svg("svg", { class: "own", width: "100%", height: 0 });
    this.minimap = new Minimap(this);
    this.plot.after(this.minimap.plot, this.own);
    fill(this.plot, { tabindex: "0", role: "application", on: {
      pointermove: (event) => this.move(event),
      pointerleave: () => this.point(null),
      pointerdown: (event) => this.press(event),
      pointerup: (event) => this.release(event),
      dblclick: () => section.setWindow(null),
      wheel: (event) => this.wheel(event),
      keydown: (event) => this.key(event),
    } }, []);
    this.plot.setAttribute("aria-label", this.plot.getAttribute("aria-label") +
      ". Arrow keys move, Enter selects the moment, plus and minus zoom, Shift and arrow keys pan, 0 shows everything.");
  }

  makeControls(controls) {
    const { data } = this.section;
    this.axisChoice = choices("Along the", data.axes.map((axis) => [axis, axis === "event" ? "events" : axis]), this.axis, (axis) => this.section.setAxis(axis));
    if (data.axes.length > 1) controls.append(this.axisChoice);
    const sides = this.curves.filter((curve) => curve.history.heldAlong).map((curve) => [curve.side, curve.label || "shown"]);
    if (sides.length) {
      controls.append(choices("Areas of the", [...sides.reverse(), ["none", "none"]], this.shown, (side) => { this.shown = side; this.draw(); }));
      controls.append(choices("by", [["category", "category"], ["allocation", "each allocation"]], this.by, (by) => { this.by = by; this.draw(); }));
    }
    controls.append(html("span", { class: "buttons" },
      button("−", () => this.zoom(2), { "aria-label": "Zoom out" }), button("+", () => this.zoom(0.5), { "aria-label": "Zoom in" }),
      button("Whole recording", () => this.section.setWindow(null))));
  }

  // Each entry of the legend hides and shows what it stands for.
  filterByLegend(legend) {
    for (const item of legend.children) {
      const toggle = button("", () => {
        const name = item.dataset.key, hides = !this.hidden.has(name);
        if (hides) this.hidden.add(name); else this.hidden.delete(name);
        toggle.setAttribute("aria-pressed", String(!hides));
        this.draw();
      }, { "aria-pressed": "true", title: [item.title, "Click to hide or show."].join(" ").trim() });
      toggle.append(...item.childNodes);
      item.append(toggle);
    }
  }

  get axis() { return this.section.axis; }

  // The whole of the scale, and what is shown of it.
  get whole() {
    const ends = this.curves.flatMap(({ history }) => [history.value(this.axis, 0), history.value(this.axis, history.last)]);
    return [Math.min(...ends), Math.max(...ends)];
  }

  get domain() { return this.section.window || this.whole; }

  x(value) { return (value - this.domain[0]) / Math.max(this.domain[1] - this.domain[0], 1e-9); }

  y(bytes) { return 1 - bytes / this.top; }

  // The places to draw, in order: all, or of equal parts the first, the lowest and the highest.
  places(history, [from, to] = this.domain) {
    const first = history.placeAt(this.axis, from), last = Math.min(history.placeAt(this.axis, to) + 1, history.last), places = [];
    const step = Math.max((last - first + 1) / PARTS, 1);
    for (let part = first; part <= last; part += step) {
      const begin = Math.floor(part), end = Math.min(Math.floor(part + step), last + 1);
      let low = begin, high = begin, most = begin;
      for (let place = begin; place < end; place += 1) {
        if (history.allocated[place] < history.allocated[low]) low = place;
        if (history.allocated[place] > history.allocated[high]) high = place;
        if (history.reserved && history.reserved[place] > history.reserved[most]) most = place;
      }
      places.push(...[...new Set([begin, low, high, most])].sort((a, b) => a - b));
    }
    return places[places.length - 1] === last ? places : [...places, last];
  }

  // A line that keeps its value until the next place.
  path(xs, values, y) {
    let path = "", last = NaN;
    values.forEach((value, at) => {
      if (at && value === last && at < values.length - 1) return;
      path += at ? `H${xs[at]}V${(y(value) * SPAN).toFixed(1)}` : `M${xs[0]} ${(y(value) * SPAN).toFixed(1)}`;
      last = value;
    });
    return path;
  }

  xs(history, places) { return places.map((place) => (this.x(history.value(this.axis, place)) * SPAN).toFixed(1)); }

  isHidden(key) { return this.hidden.has(key); }

  areas(curve, places, xs) {
    const { categories } = this.section.data, { history } = curve, shown = categories.map(([name]) => !this.isHidden("area " + this.keyOf(name)));
    const groups = history.categories.map((category) => shown[category] ? category : -1);
    const held = history.heldAlong(groups, categories.length, places), top = places.map(() => 0), areas = [];
    categories.forEach(([, colour], category) => {
      if (!shown[category]) return;
      held.forEach((held, at) => { top[at] += held[category]; });
      areas.unshift(svg("path", { class: "area c" + colour, d: this.path(xs, top, (bytes) => this.y(bytes)) + `V${SPAN}H${xs[0]}Z` }));
    });
    return areas;
  }

  // Categories that share a colour share an entry of the legend.
  keyOf(category) { return "c" + this.section.data.categories.find(([name]) => name === category)[1]; }

  lines(curve, places, xs) {
    const { history } = curve, lines = [], y = (bytes) => this.y(bytes);
    if (curve.baseline !== null) lines.push(svg("path", { class: "line baseline " + curve.side, d: `M0 ${(y(curve.baseline) * SPAN).toFixed(1)}H${SPAN}` }));
    for (const pool of this.isHidden("pool " + curve.side) ? [] : curve.pools) {
      lines.push(svg("path", { class: "line pool " + curve.side, d: this.path(xs, reservedAlong(pool, history, places), y) }, svg("title", {}, pool.name)));
    }
    for (const counter of ["reserved", "allocated"]) {
      if (!history[counter] || this.isHidden(`${counter} ${curve.side}`)) continue;
      lines.push(svg("path", { class: `line ${counter} ${curve.side}`, d: this.path(xs, places.map((place) => history[counter][place]), y) }));
    }
    return lines;
  }

  draw() {
    const drawn = this.curves.map((curve) => ({ curve, places: this.places(curve.history) }));
    for (const one of drawn) one.xs = this.xs(one.curve.history, one.places);
    this.setTop(drawn);
    const plain = svg("svg", { class: "lines", x: 0, y: ABOVE, width: "100%", height: PLOT, viewBox: `0 0 ${SPAN} ${SPAN}`, preserveAspectRatio: "none" });
    for (const { curve, places, xs } of drawn) {
      if (curve.side !== this.shown || !curve.history.heldAlong) continue;
      const each = this.by === "allocation" && drawAllocations(this, curve);
      plain.append(svg("g", { class: "areas " + curve.side + (each ? " each" : "") }, ...(each || this.areas(curve, places, xs))));
    }
    for (const { curve, places, xs } of drawn) plain.append(...this.lines(curve, places, xs));
    const bands = this.last.bands.filter((band) => band.depth < LANES);
    const lanes = bands.reduce((most, band) => Math.max(most, band.depth + 1), 0);
    this.bottom = ABOVE + PLOT + lanes * LANE;
    this.plot.setAttribute("height", this.bottom + BELOW);
    this.cursor = svg("g", { class: "cursor" });
    this.selected = svg("g", { class: "selected" });
    this.plot.replaceChildren(plain, this.grid(), ...this.curves.flatMap((curve) => curve.marks.map((mark) => this.mark(curve, mark))),
      ...bands.map((band) => this.band(band)), this.scale(), this.cursor, this.selected);
    this.caption.textContent = this.title();
    this.axisChoice.set(this.axis);
    this.minimap.draw();
    this.drawOwn();
    this.markChosen();
  }

  title() {
    const sides = this.curves.length > 1 ? ", before and after" : "", isAligned = sides && this.section.data.aligned && this.axis === "program";
    const [from, to] = this.domain, part = this.section.window ? `, from ${axisText(this.axis, from, to - from)} to ${axisText(this.axis, to, to - from)}` : "";
    const areas = this.curves.length > 1 && this.shown !== "none" && this.section.data.categories.length ? `; areas are those of the ${this.shown}` : "";
    return `Memory over the recording${sides}${isAligned ? " at the same place of the program" : ""}${part}${areas}`;
  }

  // The top of the scale of bytes: a little above what is shown of the lines.
  setTop(drawn) {
    let highest = 0;
    for (const { curve: { history, side }, places } of drawn) {
      for (const counter of ["allocated", "reserved"]) {
        if (history[counter] && !this.isHidden(`${counter} ${side}`)) for (const place of places) highest = Math.max(highest, history[counter][place]);
      }
    }
    this.top = Math.max(highest + Math.floor(highest / 20), 1);
  }

  grid() {
    return svg("g", { class: "grid", "aria-hidden": "true" }, ...ticks(this.top).flatMap((tick) => {
      const y = ABOVE + this.y(tick) * PLOT;
      return [svg("line", { x1: 0, x2: "100%", y1: y, y2: y }), svg("text", { x: 4, y: y - 3 }, size(tick).replace(".00 ", " "))];
    }));
  }

  // The place along the chart of a moment, given as its values on the three scales.
  along(curve, spot) {
    if (curve.history instanceof Replay) return this.x(curve.history.value(this.axis, spot.event + 1));
    return this.x(spot[this.axis] ?? 0);
  }

  mark(curve, mark) {
    const x = this.along(curve, mark.spot), y = ABOVE + this.y(mark.bytes) * PLOT, along = 100 * x + "%";
    if (x < 0 || x > 1) return svg("g");
    const title = svg("title", {}, `${mark.text} (${eventText(mark.spot.event)})`);
    if (mark.kind === "out-of-memory") return svg("g", { class: "failure" }, title, svg("line", { x1: along, x2: along, y1: ABOVE, y2: ABOVE + PLOT }));
    if (mark.kind === "reserved-peak") return svg("circle", { class: "peak reserved " + curve.side, cx: along, cy: y, r: 3 }, title);
    const isRight = x > 0.5, lift = curve.side === "before" && this.curves.length > 1 ? 16 : -6;
    return svg("g", { class: "peak " + curve.side }, svg("circle", { cx: along, cy: y, r: 4 }, title),
      svg("text", { x: along, dx: isRight ? -8 : 8, y: y + lift, "text-anchor": isRight ? "end" : "start" }, mark.text));
  }

  band(band) {
    const from = Math.max(this.along(this.last, band.from), 0), to = Math.min(this.along(this.last, band.to), 1);
    return svg("svg", { class: "phase", x: 100 * from + "%", y: ABOVE + PLOT + 2 + band.depth * LANE, width: 100 * Math.max(to - from, 0) + "%", height: LANE - 2 },
      svg("title", {}, `${band.name}: peak ${size(band.peak)}`), svg("rect", { width: "100%", height: "100%" }), svg("text", { x: 3, y: 12 }, band.name));
  }

  scale() {
    const [from, to] = this.domain;
    return svg("g", { class: "scale", "aria-hidden": "true" }, ...[0, 1, 2, 3, 4].map((quarter) => svg("text",
      { x: quarter * 25 + "%", y: this.bottom + 15, "text-anchor": ["start", "middle", "middle", "middle", "end"][quarter] },
      axisText(this.axis, from + (to - from) * quarter / 4, to - from))));
  }

  // --- What the pointer and the keys do ---

  valueAt(event) {
    const box = this.plot.getBoundingClientRect(), [from, to] = this.domain;
    return from + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * (to - from);
  }

  // The place of a curve at a value of the scale: of those that share its pixel, the one that holds most.
  placeAt(curve, value) {
    const { history } = curve, pixel = (this.domain[1] - this.domain[0]) / Math.max(this.plot.getBoundingClientRect().width, 1);
    const to = history.placeAt(this.axis, value + pixel / 2);
    let best = to;
    for (let place = Math.max(history.placeAt(this.axis, value - pixel / 2) + 1, 0); place < to; place += 1) {
      if (history.allocated[place] > history.allocated[best]) best = place;
    }
    return best;
  }

  // The same; where a key chose the place, that one.
  placeOf(curve, value) {
    if (this.place === null) return this.placeAt(curve, value);
    return curve === this.last ? this.place : curve.history.placeAt(this.axis, value);
  }

  move(event) {
    if (this.pressed === undefined) { this.point(this.valueAt(event)); return; }
    const [from, to] = [this.pressed, this.valueAt(event)].sort((a, b) => a - b);
    const along = 100 * this.x(from) + "%", width = 100 * (this.x(to) - this.x(from)) + "%";
    this.cursor.replaceChildren(svg("rect", { class: "stretch", x: along, y: ABOVE, width, height: PLOT }));
  }

  press(event) {
    if (event.button !== 0) return;
    this.pressed = this.valueAt(event);
    this.pressedAt = event.clientX;
    this.plot.setPointerCapture(event.pointerId);
  }

  release(event) {
    if (this.pressed === undefined) return;
    const [from, to] = [this.pressed, this.valueAt(event)].sort((a, b) => a - b), isClick = Math.abs(event.clientX - this.pressedAt) < 5;
    this.pressed = undefined;
    if (!isClick) this.section.setWindow([from, to]);
    else if (event.detail < 2) this.choose(this.valueAt(event), document.elementFromPoint(event.clientX, event.clientY));
  }

  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const way = Math.sign(event.deltaY || event.deltaX);
    if (event.ctrlKey) this.zoom(way > 0 ? 1.25 : 0.8, this.valueAt(event)); else this.pan(way * 0.1);
  }

  // Shows `share` of what is shown now, around a value.
  zoom(share, around = (this.domain[0] + this.domain[1]) / 2) {
    const [from, to] = this.domain;
    this.section.setWindow([around - (around - from) * share, around + (to - around) * share]);
  }

  pan(share) {
    const [from, to] = this.domain, by = (to - from) * share;
    this.section.setWindow([from + by, to + by]);
  }

  // Shows the figures at a value of the scale; keys say which place of the last curve it is.
  point(value, place = null) {
    this.at = value;
    this.place = place;
    this.cursor.replaceChildren();
    if (value === null) { this.readout.textContent = this.hint; return; }
    const x = 100 * this.x(value) + "%";
    this.cursor.append(svg("line", { x1: x, x2: x, y1: ABOVE, y2: ABOVE + PLOT }));
    this.readout.replaceChildren(...this.curves.map((curve) => html("span", {}, this.figures(curve, this.placeOf(curve, value)), html("br"))));
  }

  figures(curve, place) {
    const { history } = curve, event = history.event(place), isTimed = this.section.data.axes.includes("time");
    const time = isTimed ? `, ${axisText("time", history.value("time", place), history.value("time", history.last))}` : "";
    const reserved = history.reserved ? `, reserved ${size(history.reserved[place])}` : "";
    const band = curve.bands.filter((band) => band.from.event <= event && event < band.to.event).map((band) => band.name).join(" › ");
    return `${curve.label ? curve.label + ": " : ""}allocated ${size(history.allocated[place])}${reserved} (${eventText(event)}${time})${band ? ", in " + band : ""}`;
  }

  key(event) {
    const { history } = this.last, keys = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -history.last, End: history.last };
    const others = { "+": () => this.zoom(0.5, this.at ?? undefined), "-": () => this.zoom(2, this.at ?? undefined), 0: () => this.section.setWindow(null), Enter: () => this.at !== null && this.choose(this.at) };
    if (event.shiftKey && (event.key === "ArrowLeft" || event.key === "ArrowRight")) this.pan(0.2 * keys[event.key]);
    else if (event.key in keys) this.step(keys[event.key]);
    else if (event.key in others) others[event.key]();
    else return;
    event.preventDefault();
  }

  // Moves to another of the places that are drawn.
  step(by) {
    const { history } = this.last, places = this.places(history);
    const now = this.place ?? (this.at === null ? null : this.placeAt(this.last, this.at));
    const at = now === null ? (by > 0 ? -1 : places.length) : lastNotAbove(places.length, (at) => places[at], now);
    const place = places[Math.min(Math.max(at + by, 0), places.length - 1)];
    this.point(history.value(this.axis, place), place);
  }

  // Selects the moment at a value of the scale, and the allocation that was clicked.
  choose(value, target) {
    if (!this.section.isExact) return;
    const row = target && target.dataset && target.dataset.row;
    if (row !== undefined && row !== null) this.section.toggleRow(Number(row));
    const place = this.placeOf(this.last, value);
    this.section.chooseAt(this.last.side === "after" ? { after: place, before: this.beforeOf(place, value) } : { before: place, after: null });
  }

  // The place of the before that belongs to one of the after: where the program does the same, else at the same value.
  beforeOf(place, value) {
    const { before } = this.section.histories;
    if (!before) return null;
    return this.section.data.aligned ? this.last.history.partner(place, before) : this.placeOf(this.curves[0], value);
  }

  markChosen() {
    this.selected.replaceChildren();
    for (const curve of this.curves) {
      const place = this.section.moment[curve.side];
      if (place === null || place === undefined || !(curve.history instanceof Replay)) continue;
      const x = this.x(curve.history.value(this.axis, place));
      if (x < 0 || x > 1) continue;
      this.selected.append(svg("line", { class: curve.side, x1: 100 * x + "%", x2: 100 * x + "%", y1: ABOVE, y2: ABOVE + PLOT }));
    }
  }

  // The curve of the chosen rows, or of the box that the flame graph shows, below that of everything.
  drawOwn() {
    const chosen = this.section.isExact ? this.section.chosen() : null;
    this.own.setAttribute("height", chosen ? OWN + 18 : 0);
    this.own.replaceChildren();
    if (!chosen) return;
    let highest = 1;
    const lines = this.curves.map((curve) => {
      const { history } = curve, groups = history.nodes.map((node, at) => chosen.has(history, at) ? 0 : -1);
      const places = this.places(history), held = history.heldAlong(groups, 1, places).map(([bytes]) => bytes);
      highest = held.reduce((most, bytes) => Math.max(most, bytes), highest);
      return { curve, xs: this.xs(history, places), held };
    });
    const y = (bytes) => 1 - bytes / (highest * 1.05);
    const plain = svg("svg", { class: "lines", x: 0, y: 18, width: "100%", height: OWN, viewBox: `0 0 ${SPAN} ${SPAN}`, preserveAspectRatio: "none" },
      ...lines.map(({ curve, xs, held }) => svg("path", { class: "line allocated " + curve.side, d: this.path(xs, held, y) })));
    const grid = [0, highest].flatMap((bytes) => {
      const at = 18 + y(bytes) * OWN;
      return [svg("line", { x1: 0, x2: "100%", y1: at, y2: at }), svg("text", { x: 4, y: at - 3 }, size(bytes))];
    });
    this.own.append(plain, svg("g", { class: "grid" }, ...grid), svg("text", { class: "title", x: "50%", y: 12, "text-anchor": "middle" }, chosen.title));
  }
}

// The whole recording below, with the stretch that is shown above: a drag moves it.
class Minimap {
  constructor(timeline) {
    this.timeline = timeline;
    this.plot = svg("svg", { class: "minimap", width: "100%", height: 0, "aria-hidden": "true" });
    const drag = (event) => { if (event.buttons & 1) this.move(event); };
    fill(this.plot, { on: { pointerdown: (event) => { this.plot.setPointerCapture(event.pointerId); this.move(event); }, pointermove: drag } }, []);
  }

  move(event) {
    const { section, whole: [first, last] } = this.timeline, [from, to] = this.timeline.domain;
    const box = this.plot.getBoundingClientRect(), middle = first + (event.clientX - box.left) / box.width * (last - first);
    section.setWindow([middle - (to - from) / 2, middle + (to - from) / 2]);
  }

  draw() {
    const { timeline } = this, { whole, axis } = timeline, [first, last] = whole, span = Math.max(last - first, 1e-9);
    this.plot.setAttribute("height", timeline.section.window ? MINIMAP : 0);
    this.plot.replaceChildren();
    if (!timeline.section.window) return;
    const highest = timeline.curves.reduce((most, { history }) => history.allocated.reduce((most, bytes) => Math.max(most, bytes), most), 1);
    const lines = timeline.curves.map(({ history, side }) => {
      const places = timeline.places(history, whole), xs = places.map((place) => ((history.value(axis, place) - first) / span * SPAN).toFixed(1));
      return svg("path", { class: "line allocated " + side, d: timeline.path(xs, places.map((place) => history.allocated[place]), (bytes) => 1 - bytes / highest) });
    });
    const [from, to] = timeline.domain;
    this.plot.append(svg("svg", { class: "lines", width: "100%", height: MINIMAP, viewBox: `0 0 ${SPAN} ${SPAN}`, preserveAspectRatio: "none" }, ...lines),
      svg("rect", { class: "stretch", x: 100 * (from - first) / span + "%", width: 100 * (to - from) / span + "%", height: MINIMAP }));
  }
}

// The bytes that a private pool reserves at places, which are in order.
function reservedAlong(pool, history, places) {
  let at = 0;
  return places.map((place) => {
    while (at + 1 < pool.curve.length && pool.curve[at + 1][0] <= history.event(place)) at += 1;
    return pool.curve[at][1];
  });
}
