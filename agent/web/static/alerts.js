// Alerts with their explanation: what, since when, why, and what to do.

import { el, link } from "./dom.js";
import { seconds, when } from "./format.js";

const PARTS = [
  ["cause", "Cause"],
  ["description", "What happens"],
  ["recommendation", "What to do"],
  ["budget", "Budget"],
];

/** Firing ones open, those that are over folded; the dead man's switch is no news. */
export function alertList(alerts, now) {
  const news = alerts.filter((alert) => alert.labels.alertname !== "Watchdog");
  const firing = news.filter((alert) => alert.state === "firing").sort(pagesFirst);
  const over = news.filter((alert) => alert.state !== "firing").sort((a, b) => b.ends_at - a.ends_at);
  return [
    firing.length ? firing.map((alert) => card(alert, now)) : el("p.empty", {}, "Nothing is firing."),
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

function card(alert, now) {
  const { alertname, severity, ...labels } = alert.labels;
  const level = severity === "page" ? "bad" : "watch";
  const said = alert.annotations;
  const told = PARTS.filter(([key], i) => said[key] && !PARTS.slice(0, i).some(([before]) => said[before] === said[key]));
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
      el("span.nowrap.muted", {}, when(alert.starts_at, now)),
      el(`span.pill.${level}`, {}, severity ?? "alert"),
    ),
    el("dl.facts", {}, told.map(([key, title]) => el("div", {}, el("dt", {}, title), el("dd", {}, said[key])))),
    el(
      "footer",
      {},
      el("span.chip", {}, alertname),
      Object.entries(labels).map(([name, value]) => el("span.chip", {}, `${name} ${value}`)),
      el("span.links", {}, links),
    ),
  );
}

function overLine(alert, now) {
  const lasted = seconds(alert.ends_at - alert.starts_at);
  const about = alert.labels.slo ?? alert.labels.target ?? alert.labels.model;
  const name = alert.annotations.summary || alert.labels.alertname;
  return el("li", { "data-key": key(alert) }, name, about ? ` (${about})` : "", `: lasted ${lasted}, ended `, when(alert.ends_at, now));
}

const key = (alert) => JSON.stringify([Object.entries(alert.labels).sort(), alert.starts_at]);
