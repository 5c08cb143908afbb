// Returns a list of visible defects of a generated page, as sentences. Evaluated in the page by
// scripts/test-report and scripts/test-serve.
(() => {
  const found = [];
  const say = (element, what) =>
    found.push(`${what}: <${element.tagName.toLowerCase()}> “${element.textContent.trim().slice(0, 60)}”`);

  // No element makes the page wider than the window; wider elements scroll themselves.
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth)
    found.push(`the page is ${root.scrollWidth} wide in a window of ${window.innerWidth}`);
  for (const element of document.querySelectorAll("body *")) {
    const style = getComputedStyle(element);
    const scrolls = ["auto", "scroll"].includes(style.overflowX);
    if (scrolls && element.scrollWidth > element.clientWidth && element.tabIndex < 0)
      say(element, "it scrolls, and no key reaches it");
  }

  // Headings: one of the first level, no level omitted, and contents under each.
  const headings = [...document.querySelectorAll("h1, h2, h3, h4")];
  const levels = headings.map((heading) => Number(heading.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) found.push(`headings: ${levels}`);
  levels.forEach((level, place) => {
    if (place > 0 && level > levels[place - 1] + 1) say(headings[place], "a level is left out above");
    const next = headings[place].nextElementSibling;
    if (!headings[place].textContent.trim()) say(headings[place], "an empty heading");
    if (level > 1 && (!next || Number(next.tagName[1]) <= level)) say(headings[place], "nothing stands under it");
  });
  for (const section of document.querySelectorAll("section"))
    if (section.children.length < 2) say(section, "an empty section");

  // Links have targets, and every picture has a description.
  const seen = new Set();
  for (const { id } of document.querySelectorAll("[id]")) {
    if (seen.has(id)) found.push(`two elements are called ${id}`);
    seen.add(id);
  }
  for (const link of document.querySelectorAll('a[href^="#"]'))
    if (!seen.has(link.getAttribute("href").slice(1))) say(link, "it leads nowhere");
  for (const picture of document.querySelectorAll("svg"))
    if (!picture.getAttribute("aria-label") && !picture.getAttribute("aria-hidden"))
      say(picture, "a picture without a name");

  // Debug text of programs.
  const debug = /\b(Some|Ok|Err)\(|\bundefined\b|\bNaN\b|\[object |::[A-Z][a-z]+|\bnull\b/;
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const parent = words.currentNode.parentElement;
    if (!parent.closest("pre") && debug.test(words.currentNode.data)) say(parent, "debug text");
  }

  // Readable text: contrast by WCAG 2.2, 1.4.3 (4.5 to 1), and a height of at least 9 pixels.
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a = 1] = channels(getComputedStyle(at).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  // The title of a part of a drawing is shown by the browser itself.
  const texts = [...document.querySelectorAll("body *:not(title)")].filter((element) =>
    [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()));
  for (const element of texts) {
    const style = getComputedStyle(element);
    const drawn = element instanceof SVGElement;
    const front = luminance(channels(drawn ? style.fill : style.color));
    const back = luminance(behind(element));
    const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (contrast < 4.5) say(element, `contrast ${contrast.toFixed(2)}`);
    const scale = drawn ? element.getScreenCTM().a : 1;
    const height = parseFloat(style.fontSize) * scale;
    if (height < 9) say(element, `letters of ${height.toFixed(1)} pixels`);
  }
  return found;
})()
