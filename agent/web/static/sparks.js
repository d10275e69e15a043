// The last hour at a glance: how long users wait, how many come, how many queue.

import { sparkline } from "./charts.js";
import { el } from "./dom.js";
import { UNKNOWN, figure, isKnown, latency, number, perSecond, seconds, soft } from "./format.js";
import { term } from "./terms.js";

/** Three tiles out of /api/v1/history. */
export function sparkTiles(past) {
  const low = past.ttft_p99_low_seconds;
  const high = past.ttft_p99_high_seconds;
  const ttft = past.ttft_p99_seconds.map((value, i) => value ?? low[i]);
  const wait = { at: past.at, values: ttft, low, high };
  const proved = (i) => figure({ value: past.ttft_p99_seconds[i], low: low[i], high: high[i] }, latency, seconds).text;
  return [
    tile(term("TTFT", "TTFT p99"), "TTFT p99", wait, proved),
    tile(term("served", "Served"), "Served", { at: past.at, values: past.request_rate_per_second }, (i) => perSecond(past.request_rate_per_second[i])),
    tile("Waiting", "Waiting", { at: past.at, values: past.requests_waiting }, (i) => number(past.requests_waiting[i])),
  ];
}

/** `show` says what is known of point i. */
function tile(title, name, line, show) {
  const last = line.at.length - 1;
  const known = line.values.filter(isKnown);
  const current = last >= 0 ? show(last) : UNKNOWN;
  const span = line.at.length > 1 ? line.at.at(-1) - line.at[0] : 0;
  const highest = known.length ? show(line.values.indexOf(Math.max(...known))) : UNKNOWN;
  const label = `${name} over the last ${seconds(span)}: now ${current}, highest ${highest}`;
  return el(
    "div.card.tile",
    { "data-key": name },
    el("div.tile-head", {}, el("span", {}, title), el("strong", {}, soft(current))),
    sparkline({ ...line, label }),
    el("div.fine.tile-foot", {}, el("span", {}, span ? `last ${seconds(span)}` : "collecting"), el("span", {}, `highest ${highest}`)),
  );
}
