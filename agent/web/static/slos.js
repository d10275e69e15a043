// One card per SLO: the promise, what is left of its budget, how fast that goes, and the counts behind it.

import { budgetBar, burnGauge } from "./charts.js";
import { el } from "./dom.js";
import { UNKNOWN, isKnown, number, percent, seconds, soft, times, when, whenAndClock } from "./format.js";
import { fastest, recovery } from "./recovery.js";
import { term } from "./terms.js";

const STATES = {
  ok: ["good", "kept"],
  burning: ["bad", "burning"],
  exhausted: ["bad", "budget spent"],
  no_traffic: ["quiet", "no traffic"],
  no_data: ["unknown", "no data"],
  insufficient_data: ["unknown", "not enough data yet"],
};

const PROMISES = {
  availability: (limit, of) => `of ${of} end well${limit ? ` within ${limit}` : ""}`,
  ttft: (limit) => `of first tokens come within ${limit}`,
  itl: (limit) => `of token gaps stay within ${limit}`,
  tpot: (limit) => `of requests take at most ${limit} per token`,
  e2e: (limit) => `of requests end within ${limit}`,
  queue: (limit) => `of requests queue at most ${limit}`,
};

const REASONS = {
  burning: "burning",
  within_budget: "within budget",
  too_few_bad_events: "too few bad events to tell",
  no_events: "no events",
  excluded: "excluded: maintenance",
  too_little_volume: "too little traffic to tell",
};

const SILENCES = {
  idle: "No requests come.",
  rolling_out: "Engines are starting.",
  down: "No engine answers.",
  blind: "Nothing tells what it counts.",
  insufficient: "Too few events to judge by.",
};

const SOURCES = {
  engine: "From all requests the engine counted",
  canary: "From canaries",
  span: "From request spans, one by one",
  slos: "From other SLOs",
};

const URGENCY = ["burning", "exhausted", "no_data", "insufficient_data", "ok", "no_traffic"];

/** Cards, the most urgent first. */
export function sloCards(slos, now) {
  if (!slos.length) return [el("p.empty", {}, "No SLOs are configured. Add slos to the config, then reload.")];
  const rank = (slo) => URGENCY.indexOf(slo.state);
  return [...slos].sort((a, b) => rank(a) - rank(b)).map((slo) => card(slo, now));
}

function card(slo, now) {
  const first = fastest(slo.burns);
  const recovers = slo.state === "burning" && first ? recovery(slo.burns, first) : "";
  const isPast = slo.state === "no_data";
  const isOver = slo.state === "ok" && slo.budget.remaining_ratio < 0; // null is not below 0
  const [level, word] = isOver ? ["watch", "overspent so far"] : recovers ? ["watch", "recovering"] : (STATES[slo.state] ?? ["unknown", slo.state]);
  return el(
    `article.card.slo.${level}`,
    { "data-key": slo.name },
    el("header", {}, el("h3", {}, slo.name), el(`span.pill.${level}`, {}, word)),
    el("p.promise", {}, promise(slo)),
    slo.silence && el("p.fine", { title: slo.silence.detail }, SILENCES[slo.silence.reason] ?? slo.silence.reason),
    recovers && el("p.recovers", {}, `Nothing burns now: ${recovers}.`),
    isPast && isKnown(slo.last_event_at) && el("p.as-of", {}, "As of the last event, ", when(slo.last_event_at, now), ". What happened since is not known."),
    el(isPast ? "div.past" : "div", {}, budget(slo, level), burns(slo.burns, isPast)),
    isKnown(slo.budget.violated_minutes) && slo.budget.violated_minutes > 0 && el("p.fine", {}, `Bad share of the time watched: ${number(slo.budget.violated_minutes)} min${isKnown(slo.budget.violation_dollars) ? `, $${number(slo.budget.violation_dollars)}` : ""}.`),
    el("p.fine", {}, source(slo), ", last event ", isKnown(slo.last_event_at) ? whenAndClock(slo.last_event_at, now) : UNKNOWN),
  );
}

function promise(slo) {
  const limit = isKnown(slo.threshold_seconds) ? seconds(slo.threshold_seconds) : "";
  const words = PROMISES[slo.sli] ?? (() => `of ${slo.sli} events are good`);
  const said = words(limit, slo.source === "canary" ? "canaries" : "requests");
  const counted = isKnown(slo.slice_seconds)
    ? `of all ${seconds(slo.slice_seconds)} slices are good (${slo.all_of.length ? `for ${slo.all_of.join(", ")}` : `${percent(slo.slice_good_ratio)} ${said}`})`
    : said;
  return `${percent(slo.objective_ratio)} ${counted}, in any ${seconds(slo.period_seconds)}`;
}

function source(slo) {
  const from = SOURCES[slo.source] ?? slo.source;
  return [from, slo.service, slo.model, slo.role].filter(Boolean).join(", ");
}

function budget(slo, level) {
  const { remaining_ratio: remaining, observed_remaining_ratio: observed, coverage_ratio: coverage, counts } = slo.budget;
  const isPartly = coverage < 0.999;
  const tone = level === "unknown" ? "quiet" : level === "bad" ? "bad" : isKnown(remaining) && remaining < 0.25 ? "watch" : "good";
  const unsure = counts.undecided ? [", ", number(counts.undecided), " ", term("undecided"), ` (count as ${slo.undecided})`] : [];
  return el(
    "div.budget",
    {},
    el("div.budget-line", {}, term("budget", "Error budget"), el("strong", {}, soft(left(remaining)))),
    budgetBar(remaining, tone),
    el(
      "p.fine",
      {},
      counts.total ? [`${number(counts.bad)} bad of ${number(counts.total)}`, unsure] : "No events in the period",
      isKnown(slo.budget.empty_slices) ? `; ${number(slo.budget.empty_slices)} slices had no event, or nobody told of them` : "",
      isPartly ? `; ${percent(coverage)} of the period was watched, the rest counts as good` : "",
    ),
    isPartly && isKnown(observed) && el("p.fine", {}, "Of what was watched: ", el(observed < 0 ? "strong.bad-text" : "strong", {}, left(observed))),
  );
}

function left(remaining) {
  if (!isKnown(remaining)) return UNKNOWN;
  if (remaining >= 0) return `${percent(remaining)} left`;
  return remaining < -1 ? `overspent, ${times(1 - remaining)} the budget` : `overspent by ${percent(-remaining)}`;
}

function burns(pairs, isPast) {
  if (!pairs.some((burn) => isKnown(burn.short_rate) || isKnown(burn.long_rate))) {
    const reasons = [...new Set(pairs.map(reasonOf))].join(", ");
    return el("p.burn-unknown", {}, term("burn rate", "Burn rate"), " ", soft(UNKNOWN), ` in all windows: ${reasons}`);
  }
  const head = [[term("burn rate", "Burn rate"), " by ", term("pair", "window")], "Limit", ""];
  return [
    el(
      "table.burns",
      {},
      el("caption.unseen", {}, "Burn rate per pair of windows"),
      el("thead", {}, el("tr", {}, head.map((cell, column) => el(column === 1 ? "th.num" : "th", { scope: "col" }, cell)))),
      el("tbody", {}, pairs.map((pair) => pairRow(pair, isPast))),
    ),
    el("details.counts", { "data-key": "counts" }, el("summary", {}, "Counts behind it"), counts(pairs)),
  ];
}

const reasonOf = (burn) => REASONS[burn.reason] ?? burn.reason;

function pairRow(burn, isPast) {
  const tells = burn.severity === "page" ? "pages" : "opens a ticket";
  const line = (window, rate) =>
    el("div.gauge-line", {}, el("span", {}, seconds(window)), burnGauge(rate, burn.factor), el("span.num", {}, soft(times(rate))));
  return el(
    burn.is_burning ? "tr.burning" : "tr",
    {},
    el("td", {}, line(burn.short_seconds, burn.short_rate), line(burn.long_seconds, burn.long_rate)),
    el("td.num", {}, `${number(burn.factor)}x`),
    el("td.reason", {}, burn.is_burning ? `burning, ${tells}` : isPast ? "not known now" : reasonOf(burn)),
  );
}

function counts(pairs) {
  const windows = new Map(pairs.flatMap((b) => [[b.short_seconds, b.short_counts], [b.long_seconds, b.long_counts]]));
  const rows = [...windows].sort(([a], [b]) => a - b);
  const cells = (window, c) => [el("td", {}, seconds(window)), [c.good, c.bad, c.undecided, c.total].map((n) => el("td.num", {}, number(n)))];
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, el("th", {}, "Window"), ["good", "bad", "undecided", "all"].map((name) => el("th.num", { scope: "col" }, name)))),
    el("tbody", {}, rows.map(([window, counted]) => el("tr", {}, cells(window, counted)))),
  );
}
