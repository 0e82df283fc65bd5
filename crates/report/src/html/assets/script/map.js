// --- Where blocks lie in the segments ---

const BAR = 15, GAP = 3, NAMED = 8;

class MemoryMap {
  constructor(section, after) {
    this.section = section;
    this.summary = html("summary");
    this.body = html("div");
    this.details = html("details", { class: "map", on: { toggle: () => this.draw() } }, this.summary, this.body);
    after.after(this.details);
    this.details.open = section.moments.some((moment) => moment.title.includes("failed"));
  }

  draw() {
    this.summary.textContent = `Where the memory lies at the ${this.section.momentText(this.section.moment, true)}`;
    if (!this.details.open) return;
    const sides = this.section.timeline.curves.filter(({ side, history }) => history.addresses && this.section.moment[side] !== null);
    const maps = sides.map((curve) => ({ curve, ...this.stateOf(curve) }));
    const largest = Math.max(1, ...maps.flatMap(({ segments, failed }) => [...segments.map(({ from, to }) => to - from), failed ? failed.requested : 0]));
    const colours = this.colours(maps);
    this.body.replaceChildren(this.legend(colours), ...maps.map((map) => this.figure(map, largest, colours)));
    if (maps.length === 0) this.body.replaceChildren(html("p", { class: "missing" }, "No side has such a moment."));
  }

  // The segments with their blocks and holes, and the request that failed at the moment.
  stateOf({ side, history, marks }) {
    const place = this.section.moment[side], { blocks } = history, alive = [];
    blocks.class.forEach((of, block) => {
      if (blocks.born[block] <= place && blocks.completed[block] > place) {
        alive.push({ block, from: history.addresses[block], to: history.addresses[block] + history.bytes[of], requested: history.requested[of], row: history.rows[of], isPending: blocks.freed[block] <= place });
      }
    });
    alive.sort((a, b) => a.from - b.from);
    const segments = history.segmentsAt(place);
    let next = 0;
    for (const segment of segments) {
      while (next < alive.length && alive[next].from < segment.from) next += 1;
      segment.blocks = [];
      for (; next < alive.length && alive[next].from < segment.to; next += 1) segment.blocks.push(alive[next]);
      segment.holes = holesOf(segment);
    }
    const failed = marks.find((mark) => mark.kind === "out-of-memory" && isUnchanged(history, place, mark.spot.event));
    return { segments, failed };
  }

  // The rows that hold most at the moment have colours of their own.
  colours(maps) {
    const bytes = new Map();
    for (const { segments } of maps) {
      for (const { row, from, to } of segments.flatMap((segment) => segment.blocks)) bytes.set(row, (bytes.get(row) || 0) + to - from);
    }
    for (const row of this.section.rows) bytes.set(row, Infinity);
    const largest = [...bytes].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, NAMED);
    return new Map(largest.map(([row], at) => [row, at]));
  }

  legend(colours) {
    const keys = [...colours].map(([row, colour]) => html("li", {}, html("span", { class: `key area c${colour}` }), html("code", {}, this.section.rowName(row))));
    return html("ul", { class: "legend" }, ...keys, html("li", {}, html("span", { class: "key area c14" }), "other rows"), html("li", {}, html("span", { class: "key pending" }), "free is pending"),
      html("li", {}, html("span", { class: "key hole" }), "free"));
  }

  figure({ curve, segments, failed }, largest, colours) {
    const width = Math.max(Math.floor(this.body.getBoundingClientRect().width), 300), scale = width / largest;
    const reserved = reservedBy(segments), holes = segments.flatMap((segment) => segment.holes);
    const hole = holes.reduce((most, hole) => hole.to - hole.from > most.to - most.from ? hole : most, { from: 0, to: 0 });
    const unused = reservedBy(holes);
    const usable = failed && failed.largest !== null ? holes.find((one) => one.to - one.from === failed.largest) || hole : hole;
    const side = curve.label ? `${curve.label}: ` : "", room = failed && failed.largest !== null ? `; the largest that the request could use ${size(failed.largest)}` : "";
    const text = `${side}${counted(segments.length, "segment")} of ${size(reserved)}, ${size(unused)} free in ${counted(holes.length, "hole")}, the largest ${size(hole.to - hole.from)}${room}`;
    const figure = html("figure", { class: "map" }, html("figcaption", {}, text));
    if (failed) {
      figure.append(svg("svg", { class: "segments", width: "100%", height: BAR + GAP }, svg("rect", { class: "request", x: 1, y: 1, width: Math.max(failed.requested * scale - 2, 2), height: BAR - 2 }),
        svg("text", { x: 5, y: 12 }, `asked for ${size(failed.requested)}`)));
    }
    for (const [home, of] of homesOf(segments)) figure.append(html("p", { class: "note" }, homeText(home, of)), this.bars(of, width, scale, colours, usable, homeText(home, of)));
    return figure;
  }

  // Segments as bars, the largest first.
  bars(segments, width, scale, colours, usable, text) {
    const bars = [];
    let x = 0, y = 0;
    for (const segment of [...segments].sort((a, b) => (b.to - b.from) - (a.to - a.from) || a.from - b.from)) {
      const long = Math.max((segment.to - segment.from) * scale, 3);
      if (x > 0 && x + long > width + 0.5) { x = 0; y += BAR + GAP; }
      bars.push(this.segment(segment, x, y, long, scale, colours, usable));
      x += long + 2;
    }
    return svg("svg", { class: "segments", width: "100%", height: y + BAR + 1, role: "img", "aria-label": text }, ...bars);
  }

  segment(segment, x, y, long, scale, colours, usable) {
    const bar = svg("svg", { x, y, width: long, height: BAR }, svg("rect", { class: "segment", width: "100%", height: BAR },
      svg("title", {}, `segment of ${size(segment.to - segment.from)} at 0x${segment.from.toString(16)}: ${segment.home}`)));
    for (const { from, to, requested, row, isPending } of segment.blocks) {
      const title = `${size(to - from)} ${this.section.rowName(row)}, ${size(requested)} requested${isPending ? ", free is pending" : ""}`;
      bar.append(svg("rect", { class: `block c${colours.has(row) ? colours.get(row) : 14}${isPending ? " pending" : ""}${this.section.rows.has(row) ? " chosen" : ""}`,
        x: (from - segment.from) * scale, width: Math.max((to - from) * scale, 0.4), height: BAR }, svg("title", {}, title)));
    }
    if (segment.holes.includes(usable)) {
      bar.append(svg("rect", { class: "largest", x: (usable.from - segment.from) * scale + 0.75, y: 0.75, width: Math.max((usable.to - usable.from) * scale - 1.5, 1), height: BAR - 1.5 },
        svg("title", {}, `hole of ${size(usable.to - usable.from)}`)));
    }
    return bar;
  }
}

// Whether nothing changed from a place to an event.
function isUnchanged({ symbols, begins, completes, frees, reserves }, place, event) {
  const between = event + 1 < place ? [-1] : symbols.slice(place, event + 1);
  return between.every((symbol) => begins[symbol] === -1 && frees[symbol] === -1 && completes[symbol] === -1 && reserves[symbol] === 0);
}

// Segments by the stream and the pool that they serve, those first that hold most.
function homesOf(segments) {
  const homes = new Map();
  for (const segment of segments) homes.set(segment.home, [...(homes.get(segment.home) || []), segment]);
  return [...homes].sort((a, b) => reservedBy(b[1]) - reservedBy(a[1]));
}

function reservedBy(segments) { return segments.reduce((sum, { from, to }) => sum + to - from, 0); }

function homeText(home, segments) {
  const blocks = segments.flatMap((segment) => segment.blocks), requested = blocks.reduce((sum, block) => sum + block.requested, 0);
  return `${home}: ${counted(segments.length, "segment")} of ${size(reservedBy(segments))}; ${counted(blocks.length, "block")} of ${size(reservedBy(blocks))}, ${size(requested)} of it requested`;
}

function holesOf(segment) {
  const holes = [];
  let from = segment.from;
  for (const block of segment.blocks) {
    if (block.from > from) holes.push({ from, to: block.from });
    from = Math.max(from, block.to);
  }
  if (from < segment.to) holes.push({ from, to: segment.to });
  return holes;
}
