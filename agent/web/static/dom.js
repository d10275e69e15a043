// Elements from values. Text only ever becomes text: nothing here parses HTML, so no name or label can turn into markup.

const SVG = "http://www.w3.org/2000/svg";

/** el("div.card.bad", {title: "x"}, "text", child, [children]): null, undefined and false children are left out. */
export function el(selector, attributes = {}, ...children) {
  const [tag, ...classes] = selector.split(".");
  return filled(document.createElement(tag), classes, attributes, children);
}

/** The same in SVG. */
export function svg(selector, attributes = {}, ...children) {
  const [tag, ...classes] = selector.split(".");
  return filled(document.createElementNS(SVG, tag), classes, attributes, children);
}

function filled(node, classes, attributes, children) {
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/** A link only to http and https; anything else stays text. */
export function link(address, text) {
  const parsed = URL.canParse(address) ? new URL(address) : null;
  if (!parsed || !["http:", "https:"].includes(parsed.protocol)) return null;
  return el("a", { href: parsed.href, rel: "noopener noreferrer", target: "_blank" }, text);
}

/** Make the children of `host` look like `nodes`, changing only what differs: focus, selection and opened parts stay. */
export function show(host, ...nodes) {
  const wanted = host.cloneNode(false);
  wanted.append(...nodes.flat(3).filter(Boolean));
  morphChildren(host, wanted);
}

function morphChildren(live, next) {
  const keyed = new Map([...live.children].filter((c) => c.dataset.key).map((c) => [c.dataset.key, c]));
  let at = live.firstChild;
  for (const child of [...next.childNodes]) {
    const same = child.dataset?.key ? keyed.get(child.dataset.key) : at;
    if (same && alike(same, child)) {
      if (same === at) at = at.nextSibling;
      else live.insertBefore(same, at);
      morph(same, child);
    } else {
      live.insertBefore(child, at);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function alike(live, next) {
  return live.nodeName === next.nodeName && live.dataset?.key === next.dataset?.key;
}

function morph(live, next) {
  if (live.nodeType === Node.TEXT_NODE) {
    if (live.data !== next.data) live.data = next.data;
    return;
  }
  const keepsOpen = live.nodeName === "DETAILS";
  for (const { name } of [...live.attributes]) {
    if (!next.hasAttribute(name) && !(keepsOpen && name === "open")) live.removeAttribute(name);
  }
  for (const { name, value } of [...next.attributes]) {
    if (live.getAttribute(name) !== value && !(keepsOpen && name === "open")) live.setAttribute(name, value);
  }
  morphChildren(live, next);
}
