// Small pictures: a sparkline with its band, a budget bar, a burn gauge, a strip of canaries. Each says itself in words too.

import { el, svg } from "./dom.js";
import { isKnown } from "./format.js";

const WIDTH = 300;
const HEIGHT = 48;

/** A line over time with an optional band; unknown leaves a gap. Arrays of one length; values may be null. */
export function sparkline({ at, values, low = [], high = [], label }) {
  const known = [...values, ...high].filter(isKnown);
  const top = Math.max(...known, 0) || 1;
  const x = (i) => (at.length > 1 ? ((at[i] - at[0]) / (at[at.length - 1] - at[0])) * WIDTH : WIDTH);
  const y = (value) => HEIGHT - 2 - (Math.min(value, top) / top) * (HEIGHT - 4);
  const point = (i, value) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`;
  const bands = runs(at.map((_, i) => isKnown(low[i]) && isKnown(high[i]))).map(([from, to]) => {
    const there = range(from, to);
    const corners = [...there.map((i) => point(i, high[i])), ...there.reverse().map((i) => point(i, low[i]))];
    return svg("polygon.band", { points: corners.join(" ") });
  });
  const lines = runs(values.map(isKnown)).map(([from, to]) =>
    svg("polyline.line", { points: range(from, Math.max(to, from)).map((i) => point(i, values[i])).join(" ") }),
  );
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label };
  return svg("svg.spark", box, bands, lines);
}

/** Stretches of true, as [from, to] inclusive. */
function runs(flags) {
  const found = [];
  flags.forEach((flag, i) => {
    if (flag && i > 0 && flags[i - 1]) found[found.length - 1][1] = i;
    else if (flag) found.push([i, i]);
  });
  return found;
}

const range = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

/** How much of the error budget is left; null is hatched. */
export function budgetBar(remaining, level) {
  const share = isKnown(remaining) ? Math.min(Math.max(remaining, 0), 1) : 1;
  const kind = isKnown(remaining) ? level : "hatched";
  return svg(
    "svg.bar",
    { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect.track", { width: 100, height: 6 }),
    svg(`rect.fill.${remaining < 0 ? "bad" : kind}`, { width: remaining < 0 ? 100 : share * 100, height: 6 }),
  );
}

/** A burn rate against its limit, which stands at two thirds of the width. */
export function burnGauge(rate, limit) {
  const width = isKnown(rate) ? Math.min((rate / limit) * 66.7, 100) : 0;
  return svg(
    "svg.gauge",
    { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect.track", { y: 2, width: 100, height: 4 }),
    svg(`rect.fill.${rate > limit ? "bad" : "calm"}`, { y: 2, width, height: 4 }),
    svg("rect.limit", { x: 66.2, width: 1, height: 8 }),
  );
}

/** Canaries of one target over time: the higher the bar the longer its TTFT; a failure fills the height. */
export function strip(probes, from, to, topSeconds, title) {
  const x = (at) => ((at - from) / Math.max(to - from, 1)) * 294;
  const width = Math.min(Math.max(180 / probes.length, 1), 4);
  const bars = probes.map((probe) => {
    const ok = probe.outcome === "ok";
    const idle = /^(missed|skipped_|cancelled)/.test(probe.outcome);
    const height = ok ? Math.max((probe.ttft_seconds / topSeconds) * 36, 2) : 40;
    const kind = ok ? "calm" : idle ? "idle" : "bad";
    return svg(`rect.canary.${kind}`, { x: x(probe.at), y: 40 - height, width, height }, svg("title", {}, title(probe)));
  });
  const failed = probes.filter((probe) => probe.outcome !== "ok").length;
  const label = `${probes.length} canaries, ${failed} of them not ok`;
  return svg("svg.strip", { viewBox: "0 0 300 40", preserveAspectRatio: "none", role: "img", "aria-label": label }, bars);
}

const SHAPES = {
  good: "M6 12.5l4 4 8-9",
  watch: "M12 6v7M12 17v.5",
  bad: "M12 6v7M12 17v.5",
  unknown: "M9 9.2a3 3 0 1 1 4.2 2.8c-.9.4-1.2 1-1.2 2M12 17.4v.3",
};

/** A sign for a level, next to its word, never instead of it. */
export function sign(level) {
  const frame = level === "bad" ? svg("path", { d: "M12 2.5L22.5 21h-21z" }) : svg("circle", { cx: 12, cy: 12, r: 10.5 });
  const shape = svg("path.stroke", { d: SHAPES[level] ?? SHAPES.unknown });
  return el("span.sign", { "aria-hidden": "true" }, svg("svg", { viewBox: "0 0 24 24" }, frame, shape));
}
