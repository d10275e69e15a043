// Numbers for people: three digits that matter, always with their unit; what is not known is called "unknown".

import { el } from "./dom.js";

export const UNKNOWN = "unknown";
const NARROW = "\u202f"; // between number and unit, never broken

export const isKnown = (value) => value !== null && value !== undefined;

/** Three significant digits, thousands grouped: 0.0123, 17.4, 18,420. */
export function number(value) {
  if (!isKnown(value)) return UNKNOWN;
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

const unit = (value, name) => `${number(value)}${NARROW}${name}`;

/** A latency or age: "21.4 ms", "1.84 s", "12 min", "3 h 5 min", "30 d". */
export function seconds(value) {
  if (!isKnown(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size === 0) return unit(0, "s");
  if (size < 1) return unit(Number((value * 1000).toPrecision(3)), "ms");
  if (size < 120) return unit(value, "s");
  if (size < 3600) return unit(Math.floor(value / 60), "min");
  if (size < 86_400) return two(value, 3600, "h", 60, "min");
  return two(value, 86_400, "d", 3600, "h");
}

/** A measured latency with three digits always, so that columns line up: "6.90 s", "31.0 ms". */
export function latency(value) {
  if (!isKnown(value) || value === 0 || value >= 120) return seconds(value);
  const inMilliseconds = value < 1;
  const scaled = inMilliseconds ? value * 1000 : value;
  const digits = scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  return `${scaled.toFixed(digits)}${NARROW}${inMilliseconds ? "ms" : "s"}`;
}

function two(value, big, bigName, small, smallName) {
  const rest = Math.floor((value % big) / small);
  return unit(Math.floor(value / big), bigName) + (rest ? ` ${unit(rest, smallName)}` : "");
}

export const percent = (ratio) => (!isKnown(ratio) ? UNKNOWN : ratio > 0 && ratio < LEAST ? `under ${unit(LEAST * 100, "%")}` : unit(Number((ratio * 100).toPrecision(4)), "%"));
const LEAST = 0.0001; // a smaller share would round to nothing, which it is not
export const times = (rate) => (isKnown(rate) ? `${rate === 0 ? 0 : rate.toFixed(rate < 1 ? 2 : 1)}x` : UNKNOWN);
export const perSecond = (value) => (isKnown(value) ? unit(value, "/s") : UNKNOWN);
export const dollarsPerHour = (value) => (isKnown(value) ? `$${value.toFixed(2)}${NARROW}/h` : UNKNOWN);

/** A value in the unit that its name carries, as everywhere in this project. */
export function named(name, value) {
  if (value === true) return "yes";
  if (value === false) return "no";
  if (!isKnown(value)) return UNKNOWN;
  if (Array.isArray(value)) return value.map((end) => named(name.replace("_interval", ""), end)).join(" to ");
  if (typeof value === "object") return JSON.stringify(value);
  if (typeof value !== "number") return String(value);
  if (/^burn_rate\b/.test(name)) return times(value);
  if (/dollars_per_hour$/.test(name)) return dollarsPerHour(value);
  if (/_per_second$/.test(name)) return perSecond(value);
  if (AHEAD.test(name)) return number(value);
  if (/_seconds(_p\d+|_mean|_max)?$/.test(name)) return latency(value);
  if (/_ratio$/.test(name)) return percent(value);
  if (/_watts$/.test(name)) return unit(value, "W");
  return number(value);
}

const AHEAD = /_in_(\d+)_seconds$/; // a forecast: the seconds say when, not what
const SHORT = new Set(["ttft", "itl", "tpot", "e2e", "slo", "kv", "gpu"]);

/** "kv_usage_ratio" as words, "KV usage"; the unit stands at the value. */
export function words(name) {
  const ahead = AHEAD.exec(name);
  if (ahead) return `${words(name.slice(0, ahead.index))} in ${seconds(Number(ahead[1]))}`;
  const parts = name.replace(/_per_second$/, "").replace(":", ", ").split("_").filter((part, i) => i === 0 || !["seconds", "ratio"].includes(part));
  const text = parts.map((part) => (SHORT.has(part) ? part.toUpperCase() : part)).join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A figure as {text, note}: `text` is what is proved; a value only interpolated between far bounds is the softer note. */
export function figure(known, show, edge = show) {
  if (!known || (!isKnown(known.value) && !isKnown(known.low) && !isKnown(known.high))) return { text: UNKNOWN, note: "" };
  const { value, low, high } = known;
  if (!isKnown(high)) return { text: isKnown(low) ? `over ${edge(low)}` : show(value), note: "no upper bound" };
  if (low === high) return { text: show(high), note: "" };
  if (!low) return { text: `below ${edge(high)}`, note: "" }; // in the lowest bucket a value would be a guess
  const between = `${edge(low)} to ${edge(high)}`;
  if (!isKnown(value)) return { text: between, note: "" };
  return high - low <= NARROW_RATIO * value ? { text: show(value), note: between } : { text: between, note: `about ${show(value)}` };
}

const NARROW_RATIO = 0.05; // bounds that near say nothing that the value does not

/** A time stamp as "2 min ago" or "in 10 min", with the date on hover. */
export function when(at, now) {
  const age = now - at;
  return isKnown(at) ? time(at, age >= 0 ? `${seconds(Math.round(age))} ago` : `in ${seconds(Math.round(-age))}`) : UNKNOWN;
}

/** The time of day of a stamp; with its date where that is another one. */
export function clock(at, now) {
  const date = new Date(at * 1000);
  const isToday = date.toDateString() === new Date(now * 1000).toDateString();
  const day = isToday ? {} : { month: "short", day: "numeric" };
  return time(at, date.toLocaleString("en-US", { ...day, hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }));
}

/** "2 min ago, 13:02:05": for what is looked up in other logs. */
export const whenAndClock = (at, now) => (isKnown(at) ? [when(at, now), el("span.fine.nowrap", {}, ", ", clock(at, now))] : UNKNOWN);

function time(at, text) {
  const date = new Date(at * 1000);
  return el("time", { datetime: date.toISOString(), title: date.toLocaleString() }, text);
}

/** Text that looks the part when it is "unknown". */
export const soft = (text) => (text === UNKNOWN ? el("span.unknown-value", {}, text) : text);
