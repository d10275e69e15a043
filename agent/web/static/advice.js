// Recommendations: the change, how sure it is, what it stands on, what else could be done, and the way back.

import { el } from "./dom.js";
import { isKnown, named, number, percent, seconds, soft, when, whenAndClock, words } from "./format.js";
import { term } from "./terms.js";

const MOST_PAST = 20;
const VERDICTS = {
  kept: "it was applied, and the objective is kept",
  missed: "it was applied, and the budget still burns",
  not_applied: "it was not applied",
  superseded: "newer advice took its place",
  withdrawn: "by then the load said otherwise",
  confounded: "it was applied, but more load came than was foreseen",
  unknown: "it was applied, but nothing tells how the objective fares",
};

const LIMITS = {
  queue: "waiting: more requests arrive than are served",
  ttft: "time to first token",
  itl: "gaps between tokens",
  kv: "memory of the KV cache",
  gpu: "a GPU that needs repair",
  e2e: "time to the last token",
  seqs: "sequences that may run at once",
  tpot: "time per output token",
  steps: "how long its own steps take",
  balance: "how requests are shared out",
  prefix_cache: "what the prefix caches find",
  cost: "cost: every promise is kept",
};

/** Newest first; the latest few open, older ones folded. */
export function adviceList(recommendations, now) {
  const sorted = [...recommendations].sort((a, b) => b.at - a.at);
  const isPast = (advice) => advice.verdict !== null;
  const open = sorted.filter((advice) => !isPast(advice));
  const past = sorted.filter(isPast).slice(0, MOST_PAST);
  return [
    open.length ? open.map((advice) => card(advice, now)) : el("p.empty", {}, "No change is recommended."),
    el("p.fine", { "data-hit-rate": "" }, hitRate(recommendations)),
    past.length > 0 &&
      el(
        "details.over",
        { "data-key": "past" },
        el("summary", {}, `${past.length} earlier, with ${past.length === 1 ? "its verdict" : "their verdicts"}`),
        past.map((advice) => card(advice, now)),
      ),
  ];
}

/** How earlier advice came out; what was not applied or cannot be judged does not count. */
function hitRate(recommendations) {
  const count = (verdict) => recommendations.filter((advice) => advice.verdict === verdict).length;
  const kept = count("kept");
  const judged = kept + count("missed");
  return judged === 0 ? "No advice has been judged yet." : `Of the advice that was applied and judged, ${kept} of ${judged} kept the objective.`;
}

function card(advice, now) {
  const target = [advice.target.model, advice.target.role].filter(Boolean).join(", ");
  return el(
    "article.card.advice",
    { "data-key": advice.id },
    el("header", {}, el("h3", {}, advice.summary || words(advice.reason_code)), el("span.muted", {}, whenAndClock(advice.at, now)), el("span.pill.accent", {}, advice.action)),
    el(
      "dl.keys",
      {},
      pair("Change", change(advice)),
      pair(term("confidence", "Confidence"), confidence(advice.confidence)),
      pair("Keeps the SLO", named("meets_slo", advice.meets_slo)),
      pair(term("limit", "Limited by"), LIMITS[advice.binding] ?? (advice.binding || "unknown")),
      pair("Reason", words(advice.reason_code)),
      pair("Verdict", advice.verdict === null ? ["due ", when(advice.verify_at, now)] : (VERDICTS[advice.verdict] ?? advice.verdict)),
    ),
    el(
      "div.columns",
      {},
      block("Evidence", advice.evidence.length && evidence(advice.evidence)),
      block("Alternatives", advice.alternatives.length && alternatives(advice.alternatives), "spread"),
      block("If nothing is done", Object.keys(advice.do_nothing).length && keyList(advice.do_nothing)),
      block("Steps", advice.steps.length && el("ol", {}, advice.steps.map((step) => el("li", {}, step)))),
      block("Way back", advice.rollback && el("p", {}, advice.rollback)),
      block("Side effects", advice.side_effects.length && el("ul", {}, advice.side_effects.map((effect) => el("li", {}, effect)))),
    ),
    el("p.fine", {}, target),
  );
}

/** A word first: 54 % of what, nobody can say at three in the morning. */
const confidence = (ratio) => (isKnown(ratio) ? `${ratio >= 0.8 ? "high" : ratio >= 0.5 ? "fair" : "low"} (${percent(ratio)})` : "unknown");

const change = (advice) => [
  el("strong", {}, `${number(advice.current)} → ${number(advice.proposed)}`),
  advice.low === advice.high ? "" : ` (${number(advice.low)} to ${number(advice.high)})`,
];

const block = (title, content, width = "") => (content ? el(width ? `div.block.${width}` : "div.block", {}, el("h4", {}, title), content) : null);
const pair = (title, content) => el("div", {}, el("dt", {}, title), el("dd", {}, Array.isArray(content) ? content : soft(content)));

const evidence = (items) => table(
  ["Signal", "Window", "Value"],
  items.map((item) => [words(item.signal), item.window_seconds > 0 ? seconds(item.window_seconds) : "now", named(item.signal, item.value)]),
);

function alternatives(settings) {
  const keys = [...new Set(settings.flatMap(Object.keys))];
  return table(keys.map(words), settings.map((setting) => keys.map((key) => named(key, setting[key]))));
}

function keyList({ summary, ...values }) {
  const rows = Object.entries(values).map(([key, value]) => [words(key), named(key, value)]);
  return [summary && el("p", {}, String(summary)), rows.length > 0 && table([], rows)];
}

function table(head, rows) {
  const align = (column, cell) => el(column > 0 ? "td.num" : "td", { "data-label": head[column] }, el("span", {}, soft(cell)));
  return el(
    "div.scroll",
    { tabindex: "0", role: "group", "aria-label": "table" },
    el(
      head.length ? "table.stacks" : "table",
      {},
      head.length > 0 && el("thead", {}, el("tr", {}, head.map((cell, column) => el(column ? "th.num" : "th", { scope: "col" }, cell)))),
      el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, column) => align(column, isKnown(cell) ? cell : "unknown"))))),
    ),
  );
}
