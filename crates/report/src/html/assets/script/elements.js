// --- Elements ---

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (value !== undefined && value !== null) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function svg(name, attributes = {}, ...children) { return fill(document.createElementNS(SVG, name), attributes, children); }

function html(name, attributes = {}, ...children) { return fill(document.createElement(name), attributes, children); }

function button(text, act, attributes = {}) { return html("button", { type: "button", ...attributes, on: { click: act } }, text); }

// A row of buttons of which one is pressed. `set` presses another one.
function choices(title, entries, chosen, choose) {
  const group = html("span", { class: "buttons", role: "group", "aria-label": title }, html("span", {}, title));
  group.set = (value) => {
    for (const one of group.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one.dataset.choice === value));
  };
  group.append(...entries.map(([value, text]) =>
    button(text, () => { group.set(value); choose(value); }, { "data-choice": value })));
  group.set(chosen);
  return group;
}

// Rows that are drawn as they come into view: `draw(at)` gives the element of one.
class Lazily {
  constructor(body, after, draw) {
    Object.assign(this, { body, draw, length: 0, drawn: 0 });
    this.end = html("div", { class: "end" });
    after.after(this.end);
    new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) this.more(60); }, { rootMargin: "600px" }).observe(this.end);
  }

  // Begins anew with so many rows.
  show(length) {
    this.length = length;
    this.drawn = 0;
    this.body.replaceChildren();
    this.more(60);
  }

  more(rows) {
    const to = Math.min(this.drawn + rows, this.length), drawn = [];
    for (; this.drawn < to; this.drawn += 1) drawn.push(this.draw(this.drawn));
    this.body.append(...drawn);
    // An observer tells of changes alone: where the end is still in view, it is asked again.
    if (drawn.length && this.drawn < this.length) requestAnimationFrame(() => {
      if (this.end.getBoundingClientRect().top < innerHeight + 600 && this.end.offsetParent) this.more(60);
    });
  }
}
