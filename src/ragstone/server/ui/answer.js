// Render an answer: claims with their marks, citations as chips, figures as sentences.

import { el, pageOf } from "./dom.js";
import { cutRuns, renderMarkdown, wrapStyles } from "./markdown.js";
import { said, t } from "./text.js";
import { claimsSummary, confidence, degraded, isSmallTalk, verdictOf } from "./words.js";

const MARKER = /\[Source (\d+)\]/g;
// Keeps a mark on the same line as the word before it.
const JOINER = "\u2060";

/** Number the citations in the order in which the text names them; `rank` keeps the source's number. */
export function numberCitations(answer) {
  const order = [...new Set([...answer.answer.matchAll(MARKER)].map((found) => Number(found[1])))];
  const numberOf = (rank) => { const at = order.indexOf(rank); return at < 0 ? order.push(rank) : at + 1; };
  return answer.citations.map((citation) => ({ ...citation, rank: citation.number, number: numberOf(citation.number) }));
}

/** Render the text while it is written: markers become chips, and `checked` has the first verdicts. */
export function renderDraft(text, chipOf, checked = []) {
  const shown = text.replace(/\s*\[(?:S(?:o(?:u(?:r(?:c(?:e(?: \d*)?)?)?)?)?)?)?$/, "");
  const markers = [...shown.matchAll(MARKER)].map((found) => ({ start: found.index, end: found.index + found[0].length, rank: Number(found[1]) }));
  const offset = offsetsIn(text);
  const claims = checked.map((claim) => ({ ...claim, start: offset(claim.start), end: offset(claim.end) }));
  return renderMarked(shown, { markers, claims, chip: (marker) => chipOf(marker.rank) });
}

const wordsOf = (text) => text.replace(MARKER, "").replace(/\s/g, "");

/** Say what the check changed in a text that was shown before; null if it changed no word. */
export function findChanges(written, checked, withheld, answer) {
  const final = wordsOf(answer);
  const replaced = wordsOf(written) !== "" && wordsOf(written) !== final;
  if (!replaced && !withheld) return null;
  return { withheld, replaced, gone: replaced ? checked.map((claim) => claim.text).filter((text) => !final.includes(wordsOf(text))) : [] };
}

export function describeChanges({ withheld, replaced, gone }) {
  return [
    withheld && (withheld === 1 ? t("A sentence that no source supports was left out.") : t("{} sentences that no source supports were left out.", withheld)),
    replaced && t("The check changed the text that was shown while it was written: a sentence was replaced or left out."),
    gone.length > 0 && t("No longer part of the answer:"),
  ].filter(Boolean).join(" ");
}

export function renderChanges(changes) {
  return el("div", { class: "notice replaced" }, el("p", {}, describeChanges(changes)),
    changes.gone.length > 0 && el("ul", {}, changes.gone.map((text) => el("li", {}, el("del", {}, text)))));
}

/** Convert offsets in code points, as the server counts, to those of JavaScript. */
function offsetsIn(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (point) => point;
  const at = [0];
  for (const char of text) at.push(at.at(-1) + char.length);
  return (point) => at[Math.min(point, at.length - 1)];
}

/** Render the finished text. `chip(citation)` builds the button of a citation. */
export function renderAnswer(answer, { chip, onlyHere = null } = {}) {
  const text = answer.answer;
  const offset = offsetsIn(text);
  const cited = numberCitations(answer);
  const left = [...cited];
  const markers = [...text.matchAll(MARKER)].map((found) => {
    const rank = Number(found[1]);
    const at = left.findIndex((citation) => citation.rank === rank);
    const citation = at >= 0 ? left.splice(at, 1)[0] : cited.find((one) => one.rank === rank);
    return { start: found.index, end: found.index + found[0].length, citation };
  });
  const claims = isSmallTalk(answer) ? [] : answer.claims.map((claim) => ({ ...claim, start: offset(claim.start), end: offset(claim.end), isOnlyHere: onlyHere?.(claim) }));
  const highlights = (answer.highlights ?? []).map(([start, end]) => ({ start: offset(start), end: offset(end) }));
  return renderMarked(text, { markers, claims, highlights, chip: (marker) => marker.citation && chip(marker.citation) });
}

/** Render Markdown with marked claims, highlights, and a chip in the place of each marker. */
function renderMarked(text, { markers, claims = [], highlights = [], chip }) {
  const edges = [...new Set([...markers, ...claims, ...highlights].flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
  const leaf = (piece) => {
    if (piece.marker) return chip(piece.marker) ?? null;
    const short = highlights.some(({ start, end }) => start <= piece.start && piece.end <= end);
    return short ? el("strong", { class: "short-answer" }, piece.text) : piece.text;
  };
  const inline = (runs) => {
    const pieces = findPieces(runs, edges, markers);
    const nodes = [];
    let tail = null;
    for (let index = 0; index < pieces.length;) {
      const claim = claims.find(({ start, end }) => start <= pieces[index].start && pieces[index].end <= end) ?? null;
      let next = index + 1;
      while (next < pieces.length && pieces[next].marker === undefined === (pieces[index].marker === undefined) && (claims.find(({ start, end }) => start <= pieces[next].start && pieces[next].end <= end) ?? null) === claim) next += 1;
      const part = pieces.slice(index, next);
      index = next;
      if (part[0].marker && tail) { tail.append(...wrapStyles(part, leaf)); continue; } // beside the mark of the claim that it backs
      if (!claim) { if (part.some((piece) => piece.text.trim() || piece.marker)) tail = null; nodes.push(...wrapStyles(part, leaf)); continue; }
      const ends = !/[\p{L}\p{N}]/u.test(text.slice(part.at(-1).end, claim.end).replace(MARKER, ""));
      const holder = claimNode(claim, ends);
      const inner = wrapStyles(part, leaf);
      if (ends) { holder.lastChild.before(...inner, JOINER); tail = holder.lastChild; } else holder.append(...inner);
      nodes.push(holder);
    }
    return nodes;
  };
  return renderMarkdown(text, { inline, breaks: true });
}

/** Cut runs into pieces, and mark those that are a marker; the space before one goes. */
function findPieces(runs, edges, markers) {
  const pieces = [];
  for (const piece of cutRuns(runs, edges)) {
    const marker = markers.find((one) => one.start <= piece.start && piece.end <= one.end);
    if (marker && pieces.at(-1)?.marker === marker) continue;
    const text = !marker && markers.some((one) => one.start === piece.end) ? piece.text.trimEnd() : piece.text;
    if (text || marker) pieces.push({ ...piece, text, marker });
  }
  return pieces;
}

function claimNode(claim, ends) {
  const verdict = verdictOf(claim.verdict);
  const says = [verdict.label, ...claim.reasons.map(said), claim.repaired ? t("The citation was corrected.") : ""].filter(Boolean).map((one) => one.replace(/[.。]$/, "")).join(". ");
  const kinds = ["claim", `claim-${claim.verdict}`, claim.isOnlyHere ? "only-here" : ""].join(" ");
  if (!ends) return el("span", { class: kinds, "data-verdict": claim.verdict });
  const mark = el("span", { class: "mark", role: "img", "aria-label": `${says}.`, title: says || verdict.text }, verdict.mark);
  return el("span", { class: kinds, "data-verdict": claim.verdict }, el("span", { class: "tail" }, mark));
}

export function chip(citation, open) {
  const verdict = verdictOf(citation.verdict);
  return el("button", {
    type: "button",
    class: `chip chip-${citation.verdict ?? "open"}`,
    "aria-label": t("Source {}: {}", citation.number, [`${citation.document_name}${pageOf(citation)}`, citation.verdict && verdict.label.toLowerCase()].filter(Boolean).join(", ")),
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
      el("span", {}, el("strong", {}, t("{}.", sure.label)), ` ${sure.text}`)),
    answer.status === "answered" && !isSmallTalk(answer) && el("ul", { class: "verdicts", "aria-label": t("Verdicts") },
      claimsSummary(answer.claims).map((one) => el("li", { class: `verdict verdict-${one.name}` },
        el("span", { class: "mark", "aria-hidden": "true" }, one.mark), t("{} {}", one.count, one.label.toLowerCase())))),
    problems.length > 0 && el("ul", { class: "reasons" }, problems.map(({ claim, reason }) => el("li", {}, el("q", {}, shorten(claim.text, 90)), ` ${said(reason)}`))),
    answer.claims.some((claim) => claim.verdict === "suspicious") && el("div", { class: "notice warn", role: "alert" },
      el("p", {}, t("A document holds text that reads like an instruction to a model. The marked sentences rest on it: do not rely on them."))),
    answer.degraded.length > 0 && el("div", { class: "notice warn degraded" }, answer.degraded.map((name) => el("p", {}, el("strong", {}, t("Went on without a part.")), " ", degraded(name)))));
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
  const cited = numberCitations(answer);
  const numbers = new Map(cited.map((one) => [String(one.rank), one.number]));
  const text = answer.answer.replace(MARKER, (marker, rank) => (numbers.has(rank) ? `[${numbers.get(rank)}]` : marker));
  const lines = cited.toSorted((a, b) => a.number - b.number).map((one) => `[${one.number}] ${one.document_name}${pageOf(one)}: “${(one.snippet ?? "").replace(/\s+/g, " ")}”`);
  return [question, "", text, ...(lines.length ? ["", t("Sources"), ...new Set(lines)] : [])].join("\n");
}
