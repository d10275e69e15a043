// What every target did over the chosen window: percentiles with their bounds, rates, cache, queue, GPU.

import { el } from "./dom.js";
import { UNKNOWN, figure, isKnown, latency, number, percent, perSecond, seconds, soft, when } from "./format.js";
import { term } from "./terms.js";

const LATENCIES = [
  ["ttft_seconds", "TTFT"],
  ["itl_seconds", "ITL"],
  ["tpot_seconds", "TPOT"],
  ["e2e_seconds", "E2E"],
  ["queue_seconds", "queue"],
];
const QUANTILES = ["p50", "p90", "p95", "p99"];
const NOTHING = "Nothing was read in this window: every figure is unknown.";
const URGENCY = ["down", "stuck", "stale", "unknown", "up"];
const HEALTH = { up: "good", stale: "watch", down: "bad", stuck: "bad", unknown: "unknown" };

/** All targets together where there are several, then each, the sick ones first; a healthy one among many is folded. */
export function signalBlocks(signals, targets, now) {
  const known = new Map(Object.entries(signals.targets));
  const rank = (target) => URGENCY.indexOf(target.health);
  const sorted = [...targets].sort((a, b) => rank(a) - rank(b));
  const names = [...new Set([...sorted.map((target) => target.name), ...known.keys()])];
  const fold = names.length > 4;
  const blocks = names.map((name) => {
    const target = targets.find((one) => one.name === name);
    return block(name, target, known.get(name)?.signals, now, !fold || target?.health !== "up");
  });
  if (!names.length) return [el("p.empty", {}, "No targets are watched. Add targets to the config, then reload.")];
  return names.length > 1 ? [block("All targets", null, signals.total.signals, now, true), blocks] : blocks;
}

function block(name, target, signals, now, isOpen) {
  return el(
    "details.card.target",
    { "data-key": target === null ? "total" : `target ${name}`, open: isOpen },
    el(
      "summary",
      {},
      el("h3", {}, name),
      target && el(`span.pill.${HEALTH[target.health] ?? "unknown"}`, {}, target.health === "unknown" ? "never seen" : target.health),
      target && el("span.fine", {}, [target.model, target.role, target.source].filter(Boolean).join(", ")),
      signals?.seconds > 0 && el("span.glance", {}, glance(signals)),
    ),
    target && el("p.fine", {}, seen(target, now)),
    target && Object.keys(target.labels).length > 0 && el("p", {}, Object.entries(target.labels).map(([k, v]) => el("span.chip", {}, `${k} ${v}`))),
    signals ? figures(signals) : el("p.empty", {}, NOTHING),
  );
}

/** What a folded target still tells. */
function glance(signals) {
  const wait = figure(signals.ttft_seconds?.p99, latency, seconds).text;
  const queue = signals.requests_waiting ? number(signals.requests_waiting.last) : UNKNOWN;
  return `TTFT p99 ${wait}, ${perSecond(signals.request_rate_per_second)}, ${queue} waiting`;
}

function seen(target, now) {
  const last = isKnown(target.last_seen) ? ["Last seen ", when(target.last_seen, now)] : ["Never seen"];
  return [last, `, last answer: ${target.last_outcome}`, target.detail ? ` (${target.detail})` : ""];
}

const figures = (signals) => (signals.seconds > 0 ? readings(signals) : el("p.empty", {}, NOTHING));

const readings = (signals) => [
  el("div.columns.wide", {}, latencies(signals), el("dl.keys", {}, rows(signals).map(([title, text, note]) => row(title, text, note)))),
  el("p.fine", {}, `Readings cover ${seconds(signals.seconds)}.`),
];

function latencies(signals) {
  const others = ["span", "canary"].flatMap((from) =>
    LATENCIES.filter(([key]) => signals[`${from}_${key}`]).map(([key, name]) => [`${from}_${key}`, name]),
  );
  return el(
    "div.scroll",
    { tabindex: "0", role: "group", "aria-label": "Latency percentiles" },
    el(
      "table.latency",
      {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, term("bounds", "Latency")), QUANTILES.map((q) => el("th.num", { scope: "col" }, q)))),
      el("tbody", {}, [...LATENCIES, ...others].map(([key, name]) => latencyRow(key, name, signals[key]))),
    ),
  );
}

function latencyRow(key, name, measured) {
  const title = [term(name, name === "queue" ? "Queue" : name), /^(span|canary)_/.test(key) ? el("span.fine", {}, key.startsWith("span") ? " exact" : " canary") : ""];
  const cells = QUANTILES.map((quantile) => {
    const { text, bounds } = figure(measured?.[quantile], latency, seconds);
    return el("td.num", {}, el("span.value", {}, soft(text)), bounds && el("span.bounds", {}, bounds));
  });
  return el("tr", {}, el("th", { scope: "row" }, title), cells);
}

function rows(s) {
  const level = (known, show) => (known ? [show(known.last), `mean ${show(known.mean)}, max ${show(known.max)}`] : [UNKNOWN, ""]);
  const bounded = (known, show) => [figure(known, show).text, figure(known, show).bounds];
  const tiers = Object.entries(s.cache_hit_ratio_by_tier).map(([tier, ratio]) => `${tier} ${percent(ratio)}`);
  const failed = isKnown(s.canaries) ? `${number(s.canaries_failed)} of ${number(s.canaries)} failed` : UNKNOWN;
  return [
    ["Requests", perSecond(s.request_rate_per_second), isKnown(s.requests_finished) ? `${number(s.requests_finished)} finished` : ""],
    ["Failed", percent(s.failed_ratio), ""],
    ["Running", ...level(s.requests_running, number)],
    ["Waiting", ...level(s.requests_waiting, number)],
    [term("goodput", "Goodput"), ...bounded(s.goodput_per_second, perSecond)],
    [term("goodput", "Good share"), ...bounded(s.goodput_ratio, percent)],
    ...(isKnown(s.span_requests)
      ? [[term("goodput", "Good share, exact"), figure(s.span_goodput_ratio, percent).text, `from ${number(s.span_requests)} request spans, ${percent(s.span_coverage_ratio)} of those finished`]]
      : []),
    ["Prompt tokens", perSecond(s.prompt_tokens_per_second), ""],
    ["Output tokens", perSecond(s.generation_tokens_per_second), ""],
    [term("KV cache", "KV cache used"), ...level(s.kv_usage_ratio, percent)],
    [term("prefix hits", "Prefix hits"), percent(s.prefix_cache_hit_ratio), ""],
    [term("prefix hits", "External hits"), percent(s.external_cache_hit_ratio), tiers.join(", ")],
    [term("preemptions", "Preemptions"), number(s.preemptions), ""],
    [term("canary", "Canaries"), failed, isKnown(s.probe_share_ratio) ? `${percent(s.probe_share_ratio)} of the load` : ""],
    ["GPU busy", percent(s.gpu_utilization_ratio), ""],
    ["Power", isKnown(s.power_watts) ? `${number(s.power_watts)}\u202fW` : UNKNOWN, isKnown(s.tokens_per_joule) ? `${number(s.tokens_per_joule)} tokens/J` : ""],
    ["Tokens per dollar", number(s.tokens_per_dollar), ""],
  ];
}

const row = (title, text, note) => el("div", {}, el("dt", {}, title), el("dd", {}, soft(text), note && el("span.bounds", {}, note)));
