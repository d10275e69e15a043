// Codes of scrapes and canaries as words, the code in small print: machines wrote them, people read them.

import { el } from "./dom.js";

let meanings = new Map();
let flags = new Map();

/** Learn what /api/v1/outcomes says. */
export function learn(said) {
  meanings = new Map(Object.entries(said.outcomes));
  flags = new Map(Object.entries(said.flags ?? {}));
}

/** The words for what a canary noticed, or the flag itself. */
export const noticed = (flag) => flags.get(flag) ?? flag;

/** The words for a code, or the code itself. */
export function meaning(code) {
  const status = /^status_(\d{3})$/.exec(code);
  return meanings.get(code) ?? (status ? `HTTP ${status[1]}` : code);
}

const small = (code) => el("span.code", {}, ` (${code})`);

/** "nothing listens there (connect_refused)". */
export const spoken = (code) => (meaning(code) === code ? [code] : [meaning(code), small(code)]);

/** A sentence of the agent's with the codes in it spoken; a code without "_" is a plain word, unless it begins a sentence. */
export function plain(text) {
  return text.split(/\b([a-z]+(?:_[a-z0-9]+)+)\b|^([a-z]+)(?=: )/).filter(Boolean).map((part) => (/^[a-z0-9_]+$/.test(part) ? spoken(part) : part));
}
