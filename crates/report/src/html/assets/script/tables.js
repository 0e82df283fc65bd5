// --- Tables: order, search, and rows as they come into view ---

const LONG_TABLE = 8;

class Table {
  constructor(table, decorate) {
    Object.assign(this, { table, decorate, body: table.tBodies[0], query: "" });
    this.heads = [...table.tHead.rows[0].cells];
    this.rows = [...this.body.rows].map((element) => ({ element, html: null, text: null, keys: null }));
    const scroll = table.closest(".scroll"), rest = scroll.nextElementSibling;
    if (rest && rest.tagName === "NOSCRIPT") this.rows.push(...rowsOf(rest.textContent));
    this.rows.forEach((row) => { if (row.element) this.decorate(row.element); });
    if (this.rows.length < 2) return;
    this.order = this.rows;
    this.list = new Lazily(this.body, scroll, (at) => this.element(this.order[at]));
    this.list.length = this.rows.length;
    this.list.drawn = this.body.rows.length;
    this.heads.forEach((head, column) => {
      if (head.textContent.trim() === "") return;
      head.replaceChildren(html("button", { type: "button", title: "Sort by this column", on: { click: () => this.sort(column) } }, ...head.childNodes));
    });
    if (this.rows.length > LONG_TABLE) this.makeSearch(scroll);
  }

  element(row) {
    if (row.element) return row.element;
    const template = document.createElement("template");
    template.innerHTML = row.html;
    row.element = template.content.firstChild;
    this.decorate(row.element);
    return row.element;
  }

  // What a row is sorted by in each column: its number, else its text.
  keys(row) {
    if (row.keys) return row.keys;
    const cells = row.element ? [...row.element.cells].map((cell) => [cell.dataset.v, cell.textContent])
      : row.html.split("</td>").slice(0, -1).map((cell) => [(cell.match(/^[^]*?<td[^>]* data-v="([^"]*)"/) || [])[1], plain(cell)]);
    return row.keys = cells.map(([number, text]) => number === undefined ? text.trim() : Number(number));
  }

  sort(column) {
    const isDown = this.heads[column].getAttribute("aria-sort") !== "descending";
    this.heads.forEach((head) => head.removeAttribute("aria-sort"));
    this.heads[column].setAttribute("aria-sort", isDown ? "descending" : "ascending");
    const isRest = (row) => Number(row.element ? "rest" in row.element.dataset : row.html.includes(" data-rest="));
    this.rows = [...this.rows].sort((a, b) => isRest(a) - isRest(b) || (isDown ? -1 : 1) * compare(this.keys(a)[column], this.keys(b)[column]));
    this.draw();
  }

  draw() {
    this.order = this.query === "" ? this.rows : this.rows.filter((row) => this.textOf(row).includes(this.query));
    this.list.show(this.order.length);
  }

  textOf(row) { return row.text ??= (row.element ? row.element.textContent : plain(row.html)).toLowerCase(); }

  makeSearch(scroll) {
    const shown = html("output", {});
    const input = html("input", { type: "search", on: { input: () => {
      this.query = input.value.trim().toLowerCase();
      this.draw();
      shown.textContent = this.query === "" ? "" : `${count(this.order.length)} of ${counted(this.rows.length, "row")}`;
    } } });
    scroll.before(html("div", { class: "controls" }, html("label", {}, "Search rows ", input), shown));
  }
}

// The rows of a table that is text as yet.
function rowsOf(text) {
  const rows = text.slice(text.indexOf("<tbody>") + 7, text.lastIndexOf("</tbody>")).split("</tr>").slice(0, -1);
  return rows.map((row) => ({ element: null, html: row + "</tr>", text: null, keys: null }));
}

function plain(markup) {
  return markup.replace(/<[^>]*>/g, "").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&amp;/g, "&");
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? 1 : -1;
}
