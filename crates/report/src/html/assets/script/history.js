// --- Histories ---
//
// A place is the number of events before it: 0 is the start, the one behind the last event is the dump. A class stands for
// blocks of one stack and size. Each event is a symbol, the number of a move, which says what it changes.

// The columns of a record: of each class its bytes, its requested bytes, its node, row and category, and its blocks at the
// start; of each move the classes that it begins, frees and completes, and the bytes that it reserves; of each event its symbol;
// of each move that ends a block the number of that block. -1 is none. Columns with the names below have differences.
const DIFFERENCES = ["ended", "places", "partners", "timePlaces", "times", "addresses"];

class Replay {
  constructor({ events, reserved, segments, changes, columns }) {
    for (const [name, column] of Object.entries(columns)) this[name] = Float64Array.from(DIFFERENCES.includes(name) ? sums(column) : column);
    Object.assign(this, { events, segments, changes, last: events + 1 });
    this.symbols = Uint32Array.from(columns.symbols);
    this.run(reserved);
  }

  // The counters and the number of allocations at every place.
  run(reserved) {
    const { begins, frees, bytes, reserves, last } = this, moves = begins.length;
    const adds = Float64Array.from({ length: moves }, (_, at) => (begins[at] < 0 ? 0 : bytes[begins[at]]) - (frees[at] < 0 ? 0 : bytes[frees[at]]));
    this.allocated = new Float64Array(last + 1);
    this.reserved = reserved === null ? null : new Float64Array(last + 1);
    this.begun = new Uint32Array(last + 1);
    let held = this.startAllocated.reduce((sum, blocks, at) => sum + blocks * bytes[at], 0), kept = reserved, begun = 0;
    for (let place = 0; place <= last; place += 1) {
      for (let at = place - 1; place > 0 && at < (place === last ? this.symbols.length : place); at += 1) {
        const symbol = this.symbols[at];
        held += adds[symbol];
        kept += reserves[symbol];
        if (begins[symbol] >= 0) begun += 1;
      }
      this.allocated[place] = Math.max(held, 0);
      if (this.reserved) this.reserved[place] = Math.max(kept, 0);
      this.begun[place] = begun;
    }
  }

  // The symbols of the event before a place; the last place has those of the dump.
  until(place) { return place >= this.last ? this.symbols.length : place; }

  // The number of the event that a place is just after, -1 for the start.
  event(place) { return Math.min(place, this.events) - 1; }

  value(axis, place) {
    if (axis === "event") return this.event(place);
    if (axis === "time") return this.time(place);
    const begun = this.begun[place];
    return this.places.length ? this.places[begun] : begun;
  }

  // Microseconds: those of the places whose times are kept, and between them evenly.
  time(place) {
    const { timePlaces: places, times } = this, next = places[0] >= place ? 0 : lastNotAbove(places.length, (at) => places[at], place - 0.5) + 1;
    if (next >= places.length) return times[times.length - 1];
    if (next === 0) return times[0];
    return times[next - 1] + (times[next] - times[next - 1]) * (place - places[next - 1]) / (places[next] - places[next - 1]);
  }

  // The last place that is not behind a value of a scale.
  placeAt(axis, value) { return lastNotAbove(this.last + 1, (place) => this.value(axis, place), value); }

  // The first place at which so many allocations have begun.
  placeOfAllocations(begun) {
    return begun <= 0 ? 0 : lastNotAbove(this.last + 1, (place) => this.begun[place], begun - 1) + 1;
  }

  // The place of the other, older history at which that does what this one does at a place; null where it lacks that.
  partner(place, other) {
    const begun = this.begun[place];
    if (begun === 0) return 0;
    const partner = this.partners[begun - 1];
    return partner ? other.placeOfAllocations(partner) : null;
  }

  // The allocated blocks of every class at a place.
  blocksAt(place) {
    const blocks = Float64Array.from(this.startAllocated), { begins, frees, symbols } = this;
    for (let at = 0, to = this.until(place); at < to; at += 1) {
      const symbol = symbols[at];
      if (frees[symbol] >= 0) blocks[frees[symbol]] -= 1;
      if (begins[symbol] >= 0) blocks[begins[symbol]] += 1;
    }
    return blocks;
  }

  // The bytes of groups of classes at rising places; `groups` has the group of each class, -1 for none.
  heldAlong(groups, length, places) {
    const { bytes, begins, frees, symbols } = this, held = new Float64Array(length);
    this.startAllocated.forEach((blocks, at) => { if (groups[at] >= 0) held[groups[at]] += blocks * bytes[at]; });
    let passed = 0;
    return places.map((place) => {
      for (const to = this.until(place); passed < to; passed += 1) {
        const freed = frees[symbols[passed]], begun = begins[symbols[passed]];
        if (freed >= 0 && groups[freed] >= 0) held[groups[freed]] -= bytes[freed];
        if (begun >= 0 && groups[begun] >= 0) held[groups[begun]] += bytes[begun];
      }
      return held.slice();
    });
  }

  // Every block: its class, and the places at which it came, its free was requested, and it was given back.
  get blocks() {
    if (this.allBlocks) return this.allBlocks;
    const older = this.startAllocated.reduce((sum, blocks, at) => sum + blocks + this.startPending[at], 0), most = older + this.begun[this.last];
    const blocks = { class: new Uint32Array(most), born: new Uint32Array(most), freed: new Float64Array(most).fill(Infinity), completed: new Float64Array(most).fill(Infinity) };
    let next = 0, ended = 0;
    this.startAllocated.forEach((allocated, of) => {
      for (let at = 0; at < allocated + this.startPending[of]; at += 1, next += 1) {
        blocks.class[next] = of;
        if (at < this.startPending[of]) blocks.freed[next] = 0;
      }
    });
    this.symbols.forEach((symbol, at) => {
      const place = Math.min(at + 1, this.last), freed = this.frees[symbol], completed = this.completes[symbol];
      if (freed >= 0 || completed >= 0) {
        const block = this.ended[ended];
        ended += 1;
        if (freed >= 0) blocks.freed[block] = Math.min(blocks.freed[block], place);
        if (completed >= 0) blocks.completed[block] = place;
      }
      if (this.begins[symbol] >= 0) {
        blocks.class[next] = this.begins[symbol];
        blocks.born[next] = place;
        next += 1;
      }
    });
    return this.allBlocks = blocks;
  }

  // The segments at a place by address: those that touch, are mapped and serve the same requests are one.
  segmentsAt(place) {
    const spanned = (part) => ({ ...part, to: part.from + part.bytes });
    let parts = this.segments.map(spanned);
    let changed = 0;
    for (let at = 0, to = this.until(place); at < to; at += 1) {
      const reserves = this.reserves[this.symbols[at]];
      if (reserves === 0) continue;
      const part = spanned(this.changes[changed]);
      changed += 1;
      if (reserves > 0) parts.push(part);
      else parts = parts.flatMap((old) => old.to <= part.from || part.to <= old.from ? [old]
        : [{ ...old, to: part.from }, { ...old, from: part.to }].filter((rest) => rest.from < rest.to));
    }
    parts.sort((a, b) => a.from - b.from);
    const whole = [];
    for (const part of parts) {
      const before = whole[whole.length - 1];
      if (before && before.mapped && part.mapped && before.home === part.home && before.to === part.from) before.to = part.to; else whole.push({ ...part });
    }
    return whole;
  }
}

// A coarse curve, which answers as a history does; its places are its points.
class Points {
  constructor(points) {
    this.points = points;
    this.allocated = points.map((point) => point.allocated);
    this.reserved = points.some((point) => point.reserved === null) ? null : points.map((point) => point.reserved);
    this.last = points.length - 1;
  }

  value(axis, place) { return this.points[place][axis]; }

  event(place) { return this.points[place].event; }

  placeAt(axis, value) { return lastNotAbove(this.last + 1, (place) => this.value(axis, place), value); }
}
