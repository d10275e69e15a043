// When nothing burns any more and an alert only waits for its window: the words of the verdict, for cards.

import { isKnown, seconds } from "./format.js";

/** "the last 5 min are good, the alert ends when ..."; "" where that is not known to be so. As agent/web/verdict.py. */
export function recovery(burns, pair) {
  const newest = burns.reduce((one, other) => (other.short_seconds < one.short_seconds ? other : one));
  const spends = !isKnown(newest.short_rate) || newest.short_rate >= 1; // 1x is as much as is allowed
  if (spends || newest.short_seconds >= pair.short_seconds) return "";
  return `the last ${seconds(newest.short_seconds)} are good, the alert ends when the last ${seconds(pair.short_seconds)} are`;
}

/** The burning pair that fires first, null where none burns. */
export const fastest = (burns) => burns.filter((burn) => burn.is_burning).sort((a, b) => b.factor - a.factor)[0] ?? null;
