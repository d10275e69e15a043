// The last hour at a glance: how long users wait, how many come, how many queue.

import { sparkline } from "./charts.js";
import { el } from "./dom.js";
import { UNKNOWN, isKnown, latency, number, perSecond, seconds, soft } from "./format.js";
import { term } from "./terms.js";

/** Three tiles out of /api/v1/history. */
export function sparkTiles(past) {
  const low = past.ttft_p99_low_seconds;
  const ttft = past.ttft_p99_seconds.map((value, i) => value ?? low[i]);
  const last = past.at.length - 1;
  const isOpenEnded = last >= 0 && !isKnown(past.ttft_p99_seconds[last]) && isKnown(low[last]);
  const wait = { at: past.at, values: ttft, low, high: past.ttft_p99_high_seconds };
  return [
    tile(term("TTFT", "TTFT p99"), "TTFT p99", wait, latency, isOpenEnded),
    tile("Requests", "Requests", { at: past.at, values: past.request_rate_per_second }, perSecond),
    tile("Waiting", "Waiting", { at: past.at, values: past.requests_waiting }, number),
  ];
}

function tile(title, name, line, display, isOpenEnded = false) {
  const current = line.values.at(-1);
  const show = (value) => (isOpenEnded && value === current ? `over ${seconds(value)}` : display(value));
  const known = line.values.filter(isKnown);
  const span = line.at.length > 1 ? line.at.at(-1) - line.at[0] : 0;
  const highest = known.length ? show(Math.max(...known)) : UNKNOWN;
  const label = `${name} over the last ${seconds(span)}: now ${show(current)}, highest ${highest}`;
  return el(
    "div.card.tile",
    { "data-key": name },
    el("div.tile-head", {}, el("span", {}, title), el("strong", {}, isKnown(current) ? show(current) : soft(UNKNOWN))),
    sparkline({ ...line, label }),
    el("div.fine.tile-foot", {}, el("span", {}, span ? `last ${seconds(span)}` : "collecting"), el("span", {}, `highest ${highest}`)),
  );
}
