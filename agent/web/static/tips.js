// One tooltip for all terms: by mouse, by keyboard and by touch; Escape closes it.

import { TERMS } from "./terms.js";

const tip = document.getElementById("tip");
let owner = null;

function open(target) {
  const meaning = TERMS[target.dataset.term];
  if (!meaning) return;
  close();
  owner = target;
  owner.setAttribute("aria-describedby", "tip");
  tip.textContent = meaning;
  tip.hidden = false;
  place();
}

/** Below its term, or above it where there is no room. */
function place() {
  const at = owner.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left), document.documentElement.clientWidth - tip.offsetWidth - 8);
  const below = at.bottom + 6;
  const fits = below + tip.offsetHeight < window.innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${fits ? below : at.top - tip.offsetHeight - 6}px`;
}

function close() {
  owner?.removeAttribute("aria-describedby");
  owner = null;
  tip.hidden = true;
}

const termOf = (event) => (event.target instanceof Element ? event.target.closest("[data-term]") : null);

/** Start listening. */
export function listen() {
  for (const kind of ["mouseover", "focusin"]) {
    document.addEventListener(kind, (event) => (termOf(event) ? open(termOf(event)) : null));
  }
  for (const kind of ["mouseout", "focusout"]) document.addEventListener(kind, (event) => (termOf(event) ? close() : null));
  document.addEventListener("keydown", (event) => (event.key === "Escape" ? close() : null));
  document.addEventListener("scroll", () => (owner ? place() : null), { passive: true, capture: true });
}
