// --- Flame graph ---

const ROW = 19;
// Boxes narrower than this share of the picture are not drawn.
const NARROWEST = 0.0008;
const VIEWS = [["difference", "difference"], ["before", "before"], ["after", "after"]];

class Flame {
  constructor(figure, section) {
    const { nodes, compared } = section.data, parent = nodes.map((node) => node.parent ?? -1);
    Object.assign(this, { figure, section, nodes, parent, compared, root: -1, query: "", view: compared ? "difference" : "after" });
    this.children = parent.map(() => []);
    this.outermost = [];
    parent.forEach((parent, node) => (parent < 0 ? this.outermost : this.children[parent]).push(node));
    this.boxes = figure.querySelector("svg.boxes");
    this.caption = figure.querySelector("figcaption");
    this.readout = figure.querySelector(".readout");
    this.readout.textContent = "Point at a box for its figures, click to zoom into it: its own curve is drawn below the timeline.";
    this.makeControls(figure.querySelector(".controls"));
    fill(this.boxes, { on: { click: (event) => this.click(event), keydown: (event) => this.key(event),
      pointerover: (event) => this.tell(event), focusin: (event) => this.tell(event) } }, []);
    this.compute();
  }

  makeControls(controls) {
    this.picker = html("select", { on: { change: () => this.section.choose(this.section.moments[this.picker.value]) } });
    controls.append(html("label", {}, "Moment ", this.picker));
    this.viewChoice = choices("View", VIEWS, this.view, (view) => this.section.setView(view));
    if (this.compared) controls.append(this.viewChoice);
    this.search = html("input", { type: "search", placeholder: "part of a function or path", size: 26, on: { input: () => this.find(this.search.value) } });
    this.found = html("output", { class: "found" });
    this.reset = button("Reset zoom", () => this.zoom(-1));
    controls.append(html("label", {}, "Search ", this.search), this.found, this.reset);
  }

  find(query) { this.query = query.trim().toLowerCase(); this.draw(); }

  // Shows the memory at the section's moment.
  show() { this.compute(); this.draw(); }

  setView(view) { this.view = view; this.viewChoice.set(view); this.show(); }

  tellMoment() {
    const { moment, moments } = this.section, listed = moments.includes(moment) ? moments : [...moments, moment];
    this.picker.replaceChildren(...listed.map((one, at) => html("option", { value: at }, this.section.momentText(one))));
    this.picker.value = listed.indexOf(moment);
    const colour = this.view === "difference" ? "colour is the change from blue (less) to orange (more)" : "green is your code";
    const side = this.compared && this.view !== "difference" ? ` of the ${this.view}` : "";
    this.caption.textContent = `Who holds the memory${side} at the ${this.section.momentText(moment, true)}: width is bytes, ${colour}`;
  }

  // Adds up the moment's memory from the innermost frames outwards.
  compute() {
    const length = this.parent.length, held = this.section.held();
    Object.assign(this, held);
    this.width = held.before.map((before, node) => this.view === "difference" ? Math.max(before, held.after[node]) : held[this.view][node]);
    for (let node = length - 1; node >= 0; node -= 1) {
      const parent = this.parent[node];
      if (parent < 0) continue;
      for (const column of [this.before, this.after, this.width, this.blocksBefore, this.blocksAfter]) column[parent] += column[node];
    }
    const total = (column) => this.outermost.reduce((sum, node) => sum + column[node], 0);
    this.total = total(this.width);
    this.totalAfter = total(this.after);
    this.chosen = this.section.nodesOfRows();
  }

  text(node) { return this.nodes[node].text; }

  amount(node) {
    const before = this.before[node], after = this.after[node];
    const blocks = this.compared ? `${count(this.blocksBefore[node])} to ${count(this.blocksAfter[node])} blocks` : `in ${counted(this.blocksAfter[node], "block")}`;
    if (!this.compared) return `${size(after)} ${blocks}, ${percent(after, this.totalAfter)} of the moment`;
    return `${change(after - before)} (${size(before)} before, ${size(after)} after, ${blocks})`;
  }

  style(node) {
    if (this.view !== "difference") return "box " + (this.nodes[node].user ? "user" : "library");
    const delta = this.after[node] - this.before[node], share = 100 * Math.abs(delta) / Math.max(this.width[node], 1);
    const level = share < 2 ? 0 : share < 25 ? 1 : share < 60 ? 2 : 3;
    return level === 0 ? "box same" : "box " + (delta > 0 ? "more" : "less") + level;
  }

  matches(node) { return this.query !== "" && this.text(node).toLowerCase().includes(this.query); }

  sorted(nodes) { return [...nodes].sort((a, b) => this.width[b] - this.width[a] || (this.text(a) < this.text(b) ? -1 : 1)); }

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
      for (const node of this.sorted(nodes)) {
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
    this.tellMoment();
  }

  box({ node, depth, from, width, isCaller }, columns) {
    const isFound = this.matches(node), isDim = isCaller || (this.query !== "" && !isFound);
    const label = `${this.text(node)}: ${this.amount(node)}`;
    const style = this.style(node) + (isFound ? " found" : "") + (isDim ? " dimmed" : "") + (this.chosen.has(node) ? " chosen" : "");
    const box = svg("svg", { class: style, x: 100 * from + "%", y: depth * ROW, width: 100 * width + "%", height: ROW - 1,
      role: "treeitem", tabindex: -1, "aria-level": depth + 1, "aria-label": label, "data-node": node },
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
    this.found.textContent = `${counted(frames, "frame")}, ${held}, ${percent(bytes, this.total)}`;
  }

  // The nodes of the box that is zoomed into, or null.
  within() {
    if (this.root < 0) return null;
    const inside = new Set([this.root]);
    this.parent.forEach((parent, node) => { if (inside.has(parent)) inside.add(node); });
    return inside;
  }

  nodeOf(event) {
    const box = event.target.closest && event.target.closest(".box");
    return box ? Number(box.dataset.node) : -1;
  }

  click(event) {
    const node = this.nodeOf(event);
    if (node >= 0) this.zoom(node === this.root ? this.parent[node] : node, node);
  }

  zoom(root, focus) {
    this.root = root;
    this.draw(focus);
    this.section.boxChanged();
  }

  tell(event) {
    const node = this.nodeOf(event);
    if (node < 0) return;
    const frame = this.nodes[node];
    const name = frame.href ? html("a", { href: frame.href }, frame.text) : html("code", {}, frame.text);
    this.readout.replaceChildren(name, " " + this.amount(node));
    if (frame.source) this.readout.append(html("br"), html("code", { class: "source" }, frame.source));
  }

  key(event) {
    const node = this.nodeOf(event);
    if (node < 0) return;
    const drawn = (node) => this.boxes.querySelector(`[data-node="${node}"]`);
    const visible = (nodes) => this.sorted(nodes.filter(drawn));
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
