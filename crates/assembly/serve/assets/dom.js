// Elements of a page. Every text becomes a text node: nothing that a run says is markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Makes an element. Properties whose value is false or undefined are left out.
 * @param {string} tag
 * @param {Record<string, string | number | boolean | undefined>} attributes
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * Makes an element of a drawing.
 * @param {string} tag
 * @param {Record<string, string | number | boolean | undefined>} attributes
 * @param {...(Node | string)} children
 * @returns {SVGElement}
 */
export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children);
  return made;
}

/**
 * The element of this id, which the page has.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

/** Sets a text, unless it is that already: a selection in it stays. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/**
 * Makes a table. Cells are texts, or elements.
 * @param {string} caption
 * @param {{name: string, number?: boolean, short?: boolean}[]} columns
 * @param {(string | Node)[][]} rows
 */
export function table(caption, columns, rows) {
  const kind = (place) => (columns[place].number ? "n" : columns[place].short ? "w" : undefined);
  const head = columns.map(({ name }, place) => element("th", { scope: "col", class: kind(place) }, name));
  const line = (cells) => element("tr", {}, ...cells.map((cell, place) => element("td", { class: kind(place) }, cell)));
  return element(
    "table",
    {},
    element("caption", { class: "unseen" }, caption),
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows.map(line)),
  );
}
