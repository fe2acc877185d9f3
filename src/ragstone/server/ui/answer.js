// Render an answer: claims with their marks, citations as chips, figures as sentences.

import { Points, baseName, el } from "./dom.js";
import { claimsSummary, confidence, degraded, isSmallTalk, verdictOf } from "./words.js";

const MARKER = /\[Source (\d+)\]/g;
// Keeps a mark on the same line as the word before it.
const JOINER = "\u2060";

/** Render the text while it is written: markers become chips, nothing is checked yet. */
export function renderDraft(text, chipOf) {
  const shown = text.replace(/\s*\[(?:S(?:o(?:u(?:r(?:c(?:e(?: \d*)?)?)?)?)?)?)?$/, "");
  const nodes = [];
  let last = 0;
  for (const found of shown.matchAll(MARKER)) {
    nodes.push(shown.slice(last, found.index).trimEnd());
    const chip = chipOf(Number(found[1]));
    if (chip) nodes.push(chip);
    last = found.index + found[0].length;
  }
  nodes.push(shown.slice(last));
  return nodes;
}

/** Find each marker of a finished text, in code points, with its citation. */
function markersOf(text, citations) {
  const left = [...citations];
  const found = [];
  for (const match of text.matchAll(MARKER)) {
    const number = Number(match[1]);
    const at = left.findIndex((citation) => citation.number === number);
    const citation = at >= 0 ? left.splice(at, 1)[0] : citations.find((one) => one.number === number);
    const start = Array.from(text.slice(0, match.index)).length;
    found.push({ start, end: start + Array.from(match[0]).length, citation });
  }
  return found;
}

/** Render the finished text. `chip(citation)` builds the button of a citation. */
export function renderAnswer(answer, { chip, onlyHere = null } = {}) {
  const points = new Points(answer.answer);
  const markers = markersOf(answer.answer, answer.citations);
  const marks = isSmallTalk(answer) ? [] : answer.claims;
  const cuts = new Set([0, points.length]);
  for (const span of [...markers, ...marks]) cuts.add(span.start).add(span.end);
  for (const [start, end] of answer.highlights ?? []) cuts.add(start).add(end);
  const edges = [...cuts].sort((a, b) => a - b);
  const nodes = [];
  let claim = null;
  let holder = null;
  let tail = null;
  for (let index = 0; index + 1 < edges.length; index += 1) {
    const [start, end] = [edges[index], edges[index + 1]];
    const marker = markers.find((one) => one.start === start);
    const here = marks.find((one) => one.start <= start && end <= one.end) ?? null;
    if (here !== claim) {
      claim = here;
      holder = here && claimNode(here, onlyHere?.(here));
      if (holder) { nodes.push(holder); tail = null; }
    }
    let leaf;
    if (marker) leaf = marker.citation ? chip(marker.citation) : null;
    else {
      const before = markers.some((one) => one.start === end);
      const text = before ? points.slice(start, end).trimEnd() : points.slice(start, end);
      const short = (answer.highlights ?? []).some(([from, to]) => from <= start && end <= to);
      leaf = short ? el("strong", { class: "short-answer" }, text) : text;
    }
    if (leaf === null || leaf === "") continue;
    if (marker && tail) tail.append(leaf); // beside the mark of the claim that it backs
    else if (holder) holder.lastChild.before(leaf);
    else { nodes.push(leaf); tail = null; }
    if (claim && end === claim.end) {
      tail = holder.lastChild;
      tail.before(JOINER);
      claim = holder = null;
    }
  }
  return nodes;
}

function claimNode(claim, isOnlyHere) {
  const verdict = verdictOf(claim.verdict);
  const says = [verdict.label, ...claim.reasons, claim.repaired ? "The citation was corrected." : ""].filter(Boolean).join(". ");
  const kinds = ["claim", `claim-${claim.verdict}`, isOnlyHere ? "only-here" : ""].join(" ");
  const mark = el("span", { class: "mark", role: "img", "aria-label": `${says}.`.replace("..", "."), title: says || verdict.text }, verdict.mark);
  return el("span", { class: kinds, "data-verdict": claim.verdict }, el("span", { class: "tail" }, mark));
}

export function chip(citation, open) {
  const verdict = verdictOf(citation.verdict);
  const place = citation.page ? `, page ${citation.page}` : "";
  return el("button", {
    type: "button",
    class: `chip chip-${citation.verdict ?? "open"}`,
    "aria-label": `Source ${citation.number}: ${baseName(citation.document_name)}${place}${citation.verdict ? `, ${verdict.label.toLowerCase()}` : ""}`,
    onclick: (event) => open(citation, event.currentTarget),
  }, String(citation.number));
}

/** Render the verdicts, the confidence and the skipped parts of an answer. */
export function renderAppraisal(answer) {
  const sure = confidence(answer);
  const problems = answer.claims.flatMap((claim) => claim.reasons.map((reason) => ({ claim, reason })));
  return el("div", { class: "appraisal" },
    el("p", { class: `confidence confidence-${sure.level}` },
      el("span", { class: "meter", "aria-hidden": "true" }, meterFill(answer, sure)),
      el("span", {}, el("strong", {}, `${sure.label}.`), ` ${sure.text}`)),
    answer.status === "answered" && !isSmallTalk(answer) && el("ul", { class: "verdicts", "aria-label": "Verdicts" },
      claimsSummary(answer.claims).map((one) => el("li", { class: `verdict verdict-${one.name}` },
        el("span", { class: "mark", "aria-hidden": "true" }, one.mark), `${one.count} ${one.label.toLowerCase()}`))),
    problems.length > 0 && el("ul", { class: "reasons" }, problems.map(({ claim, reason }) => el("li", {}, el("q", {}, shorten(claim.text, 90)), ` ${reason}`))),
    answer.claims.some((claim) => claim.verdict === "suspicious") && el("div", { class: "notice warn", role: "alert" },
      el("p", {}, "A document holds text that reads like an instruction to a model. The marked sentences rest on it: do not rely on them.")),
    answer.degraded.length > 0 && el("div", { class: "notice warn degraded" }, answer.degraded.map((name) => el("p", {}, degraded(name)))));
}

function meterFill(answer, sure) {
  const bar = el("i", {});
  bar.style.width = sure.level === "none" ? "0" : `${Math.round(answer.confidence * 100)}%`;
  return bar;
}

export function shorten(text, length) {
  const points = Array.from(text.replace(/\s+/g, " ").trim());
  return points.length > length ? `${points.slice(0, length - 1).join("").trimEnd()}…` : points.join("");
}

/** Format the answer with its sources as plain text, for the clipboard. */
export function formatAsText(question, answer) {
  const text = answer.answer.replace(MARKER, "[$1]");
  const seen = new Set();
  const lines = [];
  for (const citation of answer.citations) {
    const line = `[${citation.number}] ${citation.document_name}${citation.page ? `, page ${citation.page}` : ""}: “${citation.snippet.replace(/\s+/g, " ")}”`;
    if (!seen.has(line)) lines.push(line);
    seen.add(line);
  }
  return [question, "", text, ...(lines.length ? ["", "Sources", ...lines] : [])].join("\n");
}
