// Ask the agent every few seconds and show what it says. When it stops answering, say so and keep what is known.

import { adviceList } from "./advice.js";
import { alertList } from "./alerts.js";
import { canaryParts } from "./canaries.js";
import { sign } from "./charts.js";
import { el, show } from "./dom.js";
import { clock, seconds } from "./format.js";
import { learn } from "./outcomes.js";
import { signalBlocks } from "./signals.js";
import { sloCards } from "./slos.js";
import { sparkTiles } from "./sparks.js";
import { glossary } from "./terms.js";
import { listen } from "./tips.js";

const POLL_MS = 3000;
const TIMEOUT_MS = 8000;
const STALE_MS = 10_000;

const at = (id) => document.getElementById(id);
const chosenWindow = () => document.querySelector("input[name=window]:checked").value;

let answeredAt = null;
const startedAt = Date.now();
let round = 0;
let hasWords = false;

async function ask(path) {
  const response = await fetch(`api/v1/${path}`, { signal: AbortSignal.timeout(TIMEOUT_MS), cache: "no-store" });
  if (!response.ok) throw new Error(`${path} answered ${response.status}`);
  return response.json();
}

async function refresh() {
  const mine = ++round;
  const paths = ["status", "slos", "alerts", "recommendations", "targets", "probes", "history", `signals?window_seconds=${chosenWindow()}`];
  try {
    if (!hasWords) {
      learn(await ask("outcomes"));
      hasWords = true;
    }
    const [status, slos, alerts, advice, targets, probes, past, signals] = await Promise.all(paths.map(ask));
    if (mine !== round) return; // a later question was asked meanwhile, such as another window
    answeredAt = Date.now();
    showStatus(status);
    show(at("slos"), sloCards(slos.slos, status.now));
    show(at("alerts"), alertList(alerts.alerts, slos.slos, status.now));
    show(at("advice"), adviceList(advice.recommendations, status.now));
    show(at("signals"), signalBlocks(signals, targets.targets, status.now));
    show(at("canaries"), canaryParts(probes.probes, probes.complete_from, probes.findings ?? [], status.now));
    show(at("sparks"), sparkTiles(past));
    document.body.dataset.ready = "yes";
  } catch (error) {
    console.warn(`the agent did not answer: ${error.message}`);
  }
  showFreshness();
}

function showStatus(status) {
  const { level, text, details } = status.verdict;
  at("verdict").className = `verdict ${level}`;
  show(at("verdict"), sign(level), el("div", {}, el("h1", {}, text), details.length > 0 && el("ul", {}, details.map((line) => el("li", {}, line)))));
  show(at("clock"), clock(status.now, status.now));
  at("version").textContent = status.version;
  at("note").textContent = status.note ?? "";
  at("note").hidden = !status.note;
  document.title = `${level === "good" ? "" : "(!) "}${text}`;
}

function showFreshness() {
  const age = Date.now() - (answeredAt ?? startedAt);
  const isStale = age > STALE_MS;
  const old = seconds(Math.round(age / 1000));
  document.body.classList.toggle("stale", isStale);
  at("stale").hidden = !isStale;
  at("stale").textContent = answeredAt
    ? `The agent has not answered for ${old}. What you see is from then.`
    : `The agent has not answered yet, for ${old}.`;
  at("fresh").textContent = isStale || !answeredAt ? "not live" : "live";
  at("fresh").classList.toggle("live", !isStale && answeredAt !== null);
}

async function forever() {
  await refresh();
  setTimeout(forever, POLL_MS);
}

show(at("glossary"), glossary());
listen();
document.querySelectorAll("input[name=window]").forEach((input) => input.addEventListener("change", refresh));
setInterval(showFreshness, 1000);
forever();
