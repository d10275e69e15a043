// What every target did over the chosen window: percentiles with their bounds, rates, cache, queue, GPU.

import { el } from "./dom.js";
import { UNKNOWN, figure, isKnown, latency, number, percent, perSecond, seconds, soft, when } from "./format.js";
import { spoken } from "./outcomes.js";
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
  const gone = targets.filter((target) => isGone(target) && known.get(target.name)?.signals.seconds > 0).map((target) => target.name);
  return names.length > 1 ? [block("All targets", null, signals.total.signals, now, true, gone), blocks] : blocks;
}

/** Its readings are old: what they said may no longer be so. */
const isGone = (target) => !["up", "stuck"].includes(target.health);

function block(name, target, signals, now, isOpen, missing = []) {
  const isPast = target !== null && target !== undefined && isGone(target) && signals?.seconds > 0;
  return el(
    "details.card.target",
    { "data-key": target === null ? "total" : `target ${name}`, open: isOpen },
    el(
      "summary",
      {},
      el("h3", {}, name),
      target && el(`span.pill.${HEALTH[target.health] ?? "unknown"}`, {}, target.health === "unknown" ? "never seen" : target.health),
      target && el("span.fine", {}, [target.model, target.role, target.source].filter(Boolean).join(", ")),
      signals?.seconds > 0 && el("span.glance", {}, isPast ? "before it went: " : "", glance(signals, isPast)),
    ),
    target && el("p.fine", {}, seen(target, now)),
    target && Object.keys(target.labels).length > 0 && el("p", {}, Object.entries(target.labels).map(([k, v]) => el("span.chip", {}, `${k} ${v}`))),
    isPast && el("p.as-of", {}, "These figures are from before it went, ", when(target.last_seen, now), ". How it stands now is not known."),
    ...(signals?.disagreements ?? []).map((words) => el("p.as-of", {}, `Sources disagree: ${words}.`)),
    signals?.seconds > 0 && missing.length > 0 && el("p.as-of", {}, absent(missing)),
    signals ? figures(signals, isPast) : el("p.empty", {}, NOTHING),
  );
}

function absent(names) {
  const listed = names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
  return names.length > 1 ? `${listed} no longer answer: their part is from before.` : `${listed} no longer answers: its part is from before.`;
}

/** What a folded target still tells. */
function glance(signals, isPast) {
  const wait = figure(signals.ttft_seconds?.p99, latency, seconds).text;
  const queue = isPast ? UNKNOWN : signals.requests_waiting ? number(signals.requests_waiting.last) : UNKNOWN;
  return `TTFT p99 ${wait}, ${perSecond(signals.request_rate_per_second)}, ${queue} waiting`;
}

function seen(target, now) {
  const last = isKnown(target.last_seen) ? ["Last seen ", when(target.last_seen, now)] : ["Never seen"];
  return [last, ", last answer: ", spoken(target.last_outcome), target.detail ? ` (${target.detail})` : ""];
}

const figures = (signals, isPast) => (signals.seconds > 0 ? readings(signals, isPast) : el("p.empty", {}, NOTHING));

const readings = (signals, isPast) => [
  el(
    isPast ? "div.columns.wide.past" : "div.columns.wide",
    {},
    latencies(signals),
    el("div", {}, el("dl.keys", {}, rows(signals, isPast).map(([title, text, note]) => row(title, text, note))), unavailable(signals)),
  ),
  el("p.fine", {}, `Readings cover ${seconds(signals.seconds)}.`),
];

/** What cannot be known here, once and with its reason, instead of a block of "unknown". */
function unavailable(s) {
  const gpu = [["GPU busy", s.gpu_utilization_ratio], ["power", s.power_watts]].filter(([, value]) => !isKnown(value)).map(([name]) => name).join(", ");
  const reasons = [
    gpu && `${gpu.charAt(0).toUpperCase()}${gpu.slice(1)}: no GPU readings`,
    !isKnown(s.external_cache_hit_ratio) && !Object.keys(s.cache_hit_ratio_by_tier).length && "External hits: no KV connector seen",
    !isKnown(s.tokens_per_dollar) && `Tokens per dollar: no GPU price in the config${s.generation_tokens > 0 ? "" : ", or no tokens"}`,
  ].filter(Boolean);
  return reasons.length > 0 && el("p.fine.unavailable", {}, `Not known here. ${reasons.join(". ")}.`);
}

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
    const { text, note } = figure(measured?.[quantile], latency, seconds);
    return el("td.num", {}, el("span.value", {}, soft(text)), note && el("span.bounds", {}, note));
  });
  return el("tr", {}, el("th", { scope: "row" }, title), cells);
}

function rows(s, isPast) {
  const level = (known, show) => (known ? [isPast ? UNKNOWN : show(known.last), isPast ? `last ${show(known.last)}` : `mean ${show(known.mean)}, max ${show(known.max)}`] : [UNKNOWN, ""]);
  const bounded = (known, show) => [figure(known, show).text, figure(known, show).note];
  const where = (known, row) => (isKnown(known) ? [row] : []);
  const tiers = Object.entries(s.cache_hit_ratio_by_tier).map(([tier, ratio]) => `${tier} ${percent(ratio)}`);
  const ranks = Object.entries(s.itl_mean_seconds_by_engine ?? {}).map(([engine, mean]) => `engine ${engine} ${seconds(mean)}`);
  const failed = isKnown(s.canaries) ? `${number(s.canaries_failed)} of ${number(s.canaries)} failed` : UNKNOWN;
  return [
    [term("served", "Served"), perSecond(s.request_rate_per_second), isKnown(s.requests_finished) ? `${number(s.requests_finished)} finished` : ""],
    ["Failed", percent(s.failed_ratio), ""],
    ["Running", ...level(s.requests_running, number)],
    ["Waiting", ...level(s.requests_waiting, number)],
    [term("goodput", "Goodput"), ...bounded(s.goodput_per_second, perSecond)],
    [term("goodput", "Good share"), ...bounded(s.goodput_ratio, percent)],
    ...(isKnown(s.span_requests)
      ? [[term("goodput", "Good share, exact"), figure(s.span_goodput_ratio, percent).text, `from ${number(s.span_requests)} request spans`]]
      : []),
    ...where(s.span_coverage_ratio, [term("span coverage", "Span coverage"), percent(s.span_coverage_ratio), "of the requests that ended sent their span"]),
    ["Prompt tokens", perSecond(s.prompt_tokens_per_second), ""],
    ["Output tokens", perSecond(s.generation_tokens_per_second), ""],
    [term("KV cache", "KV cache used"), ...level(s.kv_usage_ratio, percent)],
    [term("prefix hits", "Prefix hits"), percent(s.prefix_cache_hit_ratio), ""],
    ...where(s.external_cache_hit_ratio ?? tiers[0], [term("prefix hits", "External hits"), percent(s.external_cache_hit_ratio), tiers.join(", ")]),
    ...where(ranks[0], [term("ITL", "ITL by engine"), "", ranks.join(", ")]),
    ...neighbours(s),
    [term("preemptions", "Preemptions"), number(s.preemptions), ""],
    [term("canary", "Canaries"), failed, isKnown(s.probe_share_ratio) ? `${percent(s.probe_share_ratio)} of the load` : ""],
    ...where(s.gpu_utilization_ratio, ["GPU busy", percent(s.gpu_utilization_ratio), ""]),
    ...where(s.power_watts, ["Power", `${number(s.power_watts)}\u202fW`, isKnown(s.tokens_per_joule) ? `${number(s.tokens_per_joule)} tokens/J` : ""]),
    ...where(s.tokens_per_dollar, ["Tokens per dollar", number(s.tokens_per_dollar), isKnown(s.economics?.dollars_per_hour) ? `$${number(s.economics.dollars_per_hour)} an hour` : ""]),
    ...where(s.economics?.goodput_per_dollar, ["Good requests per dollar", ...bounded(s.economics?.goodput_per_dollar, number)]),
    ...where(s.economics?.tokens_per_second_per_user, ["User speed, tokens/s", ...bounded(s.economics?.tokens_per_second_per_user, number)]),
    ...load(s.workload),
  ];
}

const REUSE = { none: "none", shared_prefix: "a shared prefix", multi_turn: "conversations", unclear: "unclear which kind" };

/** What users ask for. */
function load(w) {
  const tokens = (d) => [`${figure(d.p50, number).text} median`, `p95 ${figure(d.p95, number).text}`];
  const change = (ratio) => `${ratio >= 1 ? "+" : "\u2212"}${percent(Math.abs(ratio - 1))}`;
  const season = [
    isKnown(w?.arrivals_over_yesterday_ratio) && `${change(w.arrivals_over_yesterday_ratio)} on yesterday`,
    isKnown(w?.arrivals_over_last_week_ratio) && `${change(w.arrivals_over_last_week_ratio)} on last week`,
    isKnown(w?.arrival_trend_ratio_per_hour) && `${change(1 + w.arrival_trend_ratio_per_hour)} an hour`,
  ].filter(Boolean);
  return [
    isKnown(w?.arrivals_per_second) && ["Arrivals", perSecond(w.arrivals_per_second), [isKnown(w.arrival_burstiness) && `burstiness ${number(w.arrival_burstiness)} (1 is random)`, ...season].filter(Boolean).join(", ")],
    isKnown(w?.concurrency) && ["Inside at once", number(w.concurrency.last), `mean ${number(w.concurrency.mean)}, max ${number(w.concurrency.max)}`],
    isKnown(w?.prompt_tokens) && ["Prompt length", ...tokens(w.prompt_tokens)],
    isKnown(w?.output_tokens) && ["Answer length", ...tokens(w.output_tokens)],
    isKnown(w?.reuse_kind) && ["Prompt reuse", REUSE[w.reuse_kind] ?? w.reuse_kind, ""],
  ].filter(Boolean);
}

/** What routers, KV transfers and stores of KV objects tell, where there are any. */
function neighbours({ router, kv_transfer: transfer, object_store: store, pd }) {
  const mean = (measured) => (isKnown(measured?.mean) ? latency(measured.mean) : UNKNOWN);
  const found = [];
  if (router) {
    const reasons = Object.entries(router.failed_by_reason).map(([why, count]) => `${number(count)} ${why}`);
    const left = [router.cancelled && `${number(router.cancelled)} hung up`, router.worker_failures && `${number(router.worker_failures)} attempts failed`];
    found.push(["At the router", `${number(router.answered)} answered, ${number(router.failed)} failed`, [...reasons, ...left].filter(Boolean).join(", ")]);
  }
  if (transfer?.transfers) found.push(["KV transfer", mean(transfer.transfer_seconds), `${mean(transfer.post_seconds)} of it posting, ${number(transfer.failed)} failed`]);
  if (pd) found.push(["Prefill, decode", `${number(pd.prefill_targets.length)}, ${number(pd.decode_targets.length)}`, "one service: each request counts once"]);
  if (store) found.push(["Objects found", percent(store.object_hit_ratio), `${number(store.lookups)} looked up; objects, not tokens`]);
  return found;
}

const row = (title, text, note) => el("div", {}, el("dt", {}, title), el("dd", {}, soft(text), note && el("span.bounds", {}, note)));
