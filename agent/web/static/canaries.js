// Canary results: a strip per target over time, the latest ones, and the failures, which are kept longer.

import { strip } from "./charts.js";
import { el } from "./dom.js";
import { UNKNOWN, isKnown, latency, clock, number, percent, seconds, soft, when } from "./format.js";
import { meaning, noticed, spoken } from "./outcomes.js";
import { term } from "./terms.js";

const LATEST = 6;
const FAILURES = 10;

/** `probes` newest first; of those before `completeFrom` some were dropped (null: none), so no strip can show them. */
export function canaryParts(probes, completeFrom, findings, now) {
  if (!probes.length) return [el("p.empty", {}, "No canary has run yet.")];
  const failures = probes.filter(failed).slice(0, FAILURES);
  return [
    findings.length > 0 && el("ul.findings", { "data-key": "findings" }, findings.map(finding)),
    el("div.card", { "data-key": "strips" }, strips(probes.filter((probe) => probe.at >= (completeFrom ?? 0)), now), reach(completeFrom, now), el("h3", {}, "Latest"), table(probes.slice(0, LATEST), now)),
    failures.length > 0 &&
      el("div.card", { "data-key": "failures" }, el("h3", {}, "Failures, kept longer"), table(failures, now)),
    el("p.fine", {}, notRun(probes)),
  ];
}

/** One sentence about a target, or about several of them. */
const finding = ({ level, target, text }) =>
  el("li", { "data-key": `${target} ${text}` }, el(level === "bad" ? "strong.bad-text" : "strong", {}, target || "Compared"), level === "good" ? el("span.muted", {}, ` ${text}`) : ` ${text}`);

const reach = (completeFrom, now) =>
  isKnown(completeFrom) && el("p.fine.reach", {}, "Older results were dropped from the log, which is complete from ", clock(completeFrom, now), " on.");

const wasNotRun = (probe) => /^(missed|skipped_|cancelled)/.test(probe.outcome);
const failed = (probe) => probe.outcome !== "ok" && !wasNotRun(probe);

function notRun(probes) {
  const idle = probes.filter(wasNotRun);
  const reasons = [...new Set(idle.map((probe) => probe.detail || meaning(probe.outcome)))];
  return idle.length ? `${idle.length} of the last ${probes.length} were not run (${reasons.slice(0, 3).join("; ")}).` : "";
}

function strips(probes, now) {
  const from = Math.min(...probes.map((probe) => probe.at));
  const top = Math.max(...probes.map((probe) => probe.ttft_seconds ?? 0), 0.001);
  const targets = [...new Set(probes.map((probe) => probe.target))].sort();
  const title = (probe) => `${meaning(probe.outcome)}, TTFT ${seconds(probe.ttft_seconds)}, ${seconds(Math.round(now - probe.at))} ago, ${clock(probe.at, now).textContent}`;
  return [
    targets.map((name) => {
      const own = probes.filter((probe) => probe.target === name);
      const ok = own.filter((probe) => probe.outcome === "ok").length;
      return el(
        "div.strip-row",
        { "data-key": name },
        el("div.strip-name", {}, el("strong", {}, name), el("span.fine", {}, `${ok} of ${own.length} ok`)),
        strip(own, from, now, top, title),
      );
    }),
    el(
      "p.fine.strip-axis",
      {},
      el("span", {}, `${seconds(Math.round(now - from))} ago`),
      el("span", {}, "height is ", term("TTFT"), `, full height ${seconds(top)}; `, el("span.key.bad", {}, "failed"), " ", el("span.key.idle", {}, "not run")),
      el("span", {}, "now"),
    ),
  ];
}

const FIGURES = ["TTFT", "TPOT", "E2E", "Tokens", "Cached"];

/** A figure's cell; on a narrow screen it bears its own name, and is left out where it is unknown. */
const cell = (column, text, attributes = {}) =>
  el(text === UNKNOWN ? "td.num.void" : "td.num", { "data-label": FIGURES[column], ...attributes }, soft(text));

function table(probes, now) {
  const head = ["When", "Target", "Outcome", term("TTFT"), term("TPOT"), term("E2E"), "Tokens", "Cached"];
  return el(
    "div.scroll",
    { tabindex: "0", role: "group", "aria-label": "Canary results" },
    el(
      "table.canaries.stacks",
      {},
      el("thead", {}, el("tr", {}, head.map((cell, column) => el(column > 2 ? "th.num" : "th", { scope: "col" }, cell)))),
      el("tbody", {}, probes.map((probe) => row(probe, now))),
    ),
  );
}

/** What was noticed beside the outcome, and what only this kind measures. */
function notes(probe) {
  const figures = Object.entries(probe.figures ?? {}).filter(([, value]) => isKnown(value));
  const said = figures.map(([name, value]) => `${name.replace(/_(seconds|ratio)$/, "").replaceAll("_", " ")} ${figure(name, value)}`);
  return [...(probe.flags ?? []).map(noticed), ...(said.length ? [said.join(", ")] : [])];
}

const figure = (name, value) => (name.endsWith("_seconds") ? seconds(value) : name.endsWith("_ratio") ? percent(value) : number(value));

function row(probe, now) {
  const ok = probe.outcome === "ok";
  const unsure = isKnown(probe.timing_error_seconds) ? { title: `exact to ${seconds(probe.timing_error_seconds)}` } : {};
  const outcome = ok ? "ok" : [el(failed(probe) ? "strong.bad-text" : "span.muted", {}, spoken(probe.outcome)), probe.detail ? el("span.bounds", {}, probe.detail) : ""];
  const tokens = [probe.output_tokens, probe.cached_tokens].map((count) => (isKnown(count) ? number(count) : UNKNOWN));
  return el(
    "tr",
    { "data-key": `${probe.target} ${probe.kind} ${probe.planned_at}` },
    el("td.nowrap", {}, when(probe.at, now), el("span.bounds", {}, clock(probe.at, now))),
    el("td", {}, probe.target, el("span.bounds", {}, probe.rank ? `${probe.kind}, rank ${probe.rank}` : probe.kind)),
    el("td", {}, outcome, notes(probe).map((text) => el("span.bounds", {}, text))),
    [probe.ttft_seconds, probe.tpot_seconds, probe.e2e_seconds].map((value, column) => cell(column, latency(value), unsure)),
    tokens.map((text, column) => cell(3 + column, text)),
  );
}
