// --- Each allocation of a stretch ---

// More are too thin to be seen, and take too long to draw.
const MOST_ALLOCATIONS = 800;

// A band for every block that comes or goes within the stretch that is shown, those that stay below all others as one. A
// band falls when one below it goes. Null, with a remark, where there are too many.
function drawAllocations(timeline, curve) {
  const { history } = curve, { blocks } = history, [from, to] = timeline.domain, { axis } = timeline;
  const first = history.placeAt(axis, from), last = Math.min(history.placeAt(axis, to) + 1, history.last), moving = [];
  let stays = 0;
  blocks.class.forEach((of, block) => {
    const { born: { [block]: born }, freed: { [block]: freed } } = blocks;
    if (born > last || freed <= first) return;
    if (born <= first && freed > last) stays += history.bytes[of]; else moving.push(block);
  });
  if (moving.length > MOST_ALLOCATIONS) {
    timeline.readout.textContent = `${count(moving.length)} allocations come or go in this stretch: zoom in until there are no more than ${MOST_ALLOCATIONS} to see each.`;
    return null;
  }
  const x = (place) => (timeline.x(history.value(axis, place)) * SPAN).toFixed(1), y = (bytes) => (timeline.y(bytes) * SPAN).toFixed(1);
  const rest = svg("path", { class: "area stays", d: `M0 ${y(stays)}H${SPAN}V${SPAN}H0Z` }, svg("title", {}, `${size(stays)} stay for the whole stretch`));
  return [rest, ...bandsOf(history, moving, stays, first, last).map(({ block, corners }) => {
    const bytes = history.bytes[blocks.class[block]], there = corners.map(([place, low]) => `${x(place)} ${y(low + bytes)}`);
    const back = corners.map(([place, low]) => `${x(place)} ${y(low)}`).reverse(), row = history.rows[blocks.class[block]];
    const colour = timeline.section.data.categories[history.categories[blocks.class[block]]][1];
    return svg("path", { class: `area c${colour}${timeline.section.rows.has(row) ? " chosen" : ""}`, d: `M${[...there, ...back].join("L")}Z`, "data-row": row < 0 ? null : row },
      svg("title", {}, `${size(bytes)} ${timeline.section.rowName(row)}: ${lifeOf(history, block)}`));
  })];
}

// When a block came and went, in words.
function lifeOf(history, block) {
  const { born: { [block]: born }, freed: { [block]: freed } } = history.blocks;
  const since = born === 0 ? "from before the recording" : `from ${eventText(history.event(born))}`;
  return `${since} ${freed > history.events ? "to the end" : `to ${eventText(history.event(freed))}`}`;
}

// The lower edge of every band: places, with the bytes below it.
function bandsOf(history, moving, stays, first, last) {
  const { blocks } = history, bytes = (block) => history.bytes[blocks.class[block]], stack = [], bands = new Map();
  const changes = moving.flatMap((block) => [{ place: Math.max(blocks.born[block], first), block, comes: true }, { place: Math.min(blocks.freed[block], last), block, comes: false }]);
  changes.sort((a, b) => a.place - b.place || a.comes - b.comes || a.block - b.block);
  let top = stays;
  for (const { place, block, comes } of changes) {
    if (comes) {
      bands.set(block, [[place, top]]);
      stack.push(block);
      top += bytes(block);
      continue;
    }
    const at = stack.indexOf(block);
    if (at < 0) continue;
    const corners = bands.get(block);
    corners.push([place, corners[corners.length - 1][1]]);
    stack.splice(at, 1);
    top -= bytes(block);
    for (const above of stack.slice(at)) {
      const corners = bands.get(above), low = corners[corners.length - 1][1];
      corners.push([place, low], [place, low - bytes(block)]);
    }
  }
  return [...bands].map(([block, corners]) => ({ block, corners }));
}
