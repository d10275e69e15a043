// What the words mean, for tooltips and the glossary: one sentence a person can use at three in the morning.

import { el } from "./dom.js";

export const TERMS = {
  SLO: "Service level objective: the promised share of good requests over a period, such as 99 % within 2.5 s in 30 days.",
  budget: "Error budget: the share of requests that may be bad (1 minus the objective). 100 % left: nothing spent yet. Below 0: the promise is broken.",
  "burn rate": "How many times faster than allowed the error budget is being spent. 1x spends exactly all of it by the end of the period.",
  pair: "A long window, so that a blip does not alert, and a short one, so that the alert ends soon after recovery. Both must burn faster than the limit.",
  undecided: "Requests that happened, but nobody can tell on which side of the threshold: they lie in the histogram bucket around it, or sent no span.",
  "span coverage": "Request spans received over requests that ended. Below 100 % spans are lost or still on their way; what is exact about spans is exact about that share.",
  TTFT: "Time to first token: from sending a request to its first token. What users feel as waiting.",
  ITL: "Inter-token latency: the gap between two outputs of the engine while an answer streams. Large gaps are stalls.",
  TPOT: "Time per output token: the mean over one request's tokens after the first. Its inverse is the reading speed.",
  E2E: "End to end: from sending a request to its last token.",
  queue: "Time a request waits before the engine starts on it.",
  goodput: "Requests that kept every latency threshold. From histograms only bounds can be known; canaries are exact.",
  bounds: "A percentile out of a histogram is only known to lie in its bucket: that is the bold line, and the truth is inside. The small line is a guess within it.",
  "KV cache": "GPU memory for the attention state of running requests. Near 100 % requests are preempted or wait.",
  "prefix hits": "Share of prompt tokens whose state was already cached, so they need no computing.",
  preemptions: "Requests thrown out of the KV cache while running, to be computed again later.",
  canary: "A short request of the agent's own, measured as a user would feel it. It also tells when nobody else is asking.",
  confidence: "How far to trust the advice, 0 to 100 %: how much of the window was seen, on how many of the replicas, and how well the model behind it is known. Below 50 % check its evidence first.",
  limit: "What runs out first: the advice gives more of this.",
  served: "Requests that ended in the window. Those that wait or run are not in it: when a queue grows, more arrive than are served.",
};

/** A word with its meaning on hover and focus. */
export const term = (name, text = name) => el("span.term", { tabindex: "0", "data-term": name }, text);

/** All of them, for the foot of the page. */
export const glossary = () => Object.entries(TERMS).flatMap(([name, meaning]) => [el("dt", {}, name), el("dd", {}, meaning)]);
