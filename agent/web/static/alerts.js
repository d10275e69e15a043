// Alerts with their explanation: what, since when, why, and what to do.

import { el, link } from "./dom.js";
import { seconds, whenAndClock } from "./format.js";
import { plain } from "./outcomes.js";
import { recovery } from "./recovery.js";

const PARTS = [
  ["cause", "Cause"],
  ["description", "What happens"],
  ["recommendation", "What to do"],
  ["budget", "Budget"],
];

/** Firing ones open, those that are over folded; the dead man's switch is no news. */
export function alertList(alerts, slos, now) {
  const news = alerts.filter((alert) => alert.labels.alertname !== "Watchdog");
  const firing = news.filter((alert) => alert.state === "firing").sort(pagesFirst);
  const over = news.filter((alert) => alert.state !== "firing").sort((a, b) => b.ends_at - a.ends_at);
  return [
    firing.length ? firing.map((alert) => card(alert, slos, now)) : el("p.empty", {}, "Nothing is firing."),
    over.length &&
      el(
        "details.over",
        { "data-key": "over" },
        el("summary", {}, `${over.length} ended ${over.length === 1 ? "alert" : "alerts"}`),
        el("ul.plain", {}, over.map((alert) => overLine(alert, now))),
      ),
  ];
}

function pagesFirst(a, b) {
  const rank = (alert) => (alert.labels.severity === "page" ? 0 : 1);
  return rank(a) - rank(b) || b.starts_at - a.starts_at;
}

/** What its SLO says of an alert that only waits for its window; "" where it is still due. */
function recoveryOf({ alertname, slo, severity, tier }, slos) {
  const burns = alertname === "SLOBurnRate" ? (slos.find(({ name }) => name === slo)?.burns ?? []) : [];
  const pair = burns.find((burn) => burn.is_burning && burn.severity === severity && burn.tier === tier);
  return pair ? recovery(burns, pair) : "";
}

/** Each fact once: what stands in another one, or equals an earlier one, is left out. */
function facts(said) {
  const texts = PARTS.map(([key]) => said[key] ?? "");
  const isNew = (text, i) => text && !texts.some((other, j) => j !== i && other.includes(text) && (other !== text || j < i));
  return PARTS.map(([, title], i) => [title, texts[i]]).filter(([, text], i) => isNew(text, i));
}

/** On the page nobody needs to be sent to the page. */
const onThePage = (text) => (text.startsWith("none open") ? "No recommendation is open." : text);

function card(alert, slos, now) {
  const { alertname, severity, ...labels } = alert.labels;
  const recovers = recoveryOf(alert.labels, slos);
  const level = severity === "page" && !recovers ? "bad" : "watch";
  const said = alert.annotations;
  const links = [
    ["runbook_url", "Runbook"],
    ["dashboard_url", "Dashboard"],
  ].map(([key, text]) => said[key] && link(said[key], text));
  return el(
    `article.card.alert.${level}`,
    { "data-key": key(alert) },
    el(
      "header",
      {},
      el("h3", {}, said.summary || alertname),
      el("span.muted", {}, whenAndClock(alert.starts_at, now)),
      el(`span.pill.${level}`, {}, severity ?? "alert"),
    ),
    el(
      "dl.facts",
      {},
      recovers && fact("Now", [el("strong", {}, "recovering"), `: ${recovers}`]),
      facts(said).map(([title, text]) => fact(title, plain(onThePage(text)))),
    ),
    el(
      "footer",
      {},
      el("span.chip", {}, alertname),
      Object.entries(labels).map(([name, value]) => el("span.chip", {}, `${name} ${value}`)),
      el("span.links", {}, links),
    ),
  );
}

const fact = (title, content) => el("div", {}, el("dt", {}, title), el("dd", {}, content));

function overLine(alert, now) {
  const lasted = seconds(alert.ends_at - alert.starts_at);
  const about = alert.labels.slo ?? alert.labels.target ?? alert.labels.model;
  const name = alert.annotations.summary || alert.labels.alertname;
  return el("li", { "data-key": key(alert) }, name, about ? ` (${about})` : "", `: lasted ${lasted}, ended `, whenAndClock(alert.ends_at, now));
}

const key = (alert) => JSON.stringify([Object.entries(alert.labels).sort(), alert.starts_at]);
