// Render one question with its checked answer: the short answer, the text with its verdicts, the
// sources, and what can be done with it.

import { chip, formatAsText, numberCitations, renderAnswer, renderAppraisal, shorten } from "./answer.js";
import { announce, copyText, el, pageOf, pathName, replace } from "./dom.js";
import { writtenBy } from "./model.js";
import { attachPreview } from "./preview.js";
import { openSource } from "./open.js";
import { ms, t } from "./text.js";
import { claimsSummary, isSmallTalk } from "./words.js";

const LONGEST_SHORT = 120;

export function linkedChip(citation) {
  const node = chip(citation, (place, opener) => openSource(place, opener));
  attachPreview(node, citation);
  return node;
}

/** Fill a card. `actions` and `rating` stand below; `searchTyped` undoes a completed question. */
export function renderTurn(card, question, answer, { actions = [], searchTyped = null, isOwn = false, rating = null } = {}) {
  card.setAttribute("aria-busy", "false");
  card.dataset.status = answer.status;
  const short = answer.status === "answered" && answer.short_answer && answer.short_answer.length <= LONGEST_SHORT && answer.short_answer.length < answer.answer.length / 2;
  const took = answer.metadata?.total_time_ms;
  replace(card,
    el("h2", {}, question),
    answer.searched_as && el("p", { class: "row muted searched-as" }, el("span", {}, t("Searched as:"), " ", el("q", {}, answer.searched_as)),
      searchTyped && el("button", { type: "button", class: "link", onclick: searchTyped }, t("Search what I typed"))),
    short && el("p", { class: "short" }, answer.short_answer),
    el("div", { class: `answer markdown ${answer.status}${short ? " quotation" : ""}` }, renderAnswer(answer, { chip: linkedChip })),
    renderAppraisal(answer),
    sourcesList(answer),
    isOwn && !isSmallTalk(answer) && missingDocument(answer),
    el("div", { class: "row actions" }, actions, rating?.thumbs,
      took !== undefined && took !== null && el("span", { class: "muted push" }, [ms(took), writtenBy(answer.metadata), answer.cached && t("from the cache")].filter(Boolean).join(" · "))),
    rating?.below);
}

export function announceAnswer(answer, changes = "") {
  const found = claimsSummary(answer.claims).map((one) => t("{} {}", one.count, one.label.toLowerCase())).join(", ");
  const says = answer.status === "abstained" ? t("No answer: the documents do not contain it.") : answer.status === "near" ? t("No sure answer: the closest passages are shown.") : isSmallTalk(answer) ? answer.answer : t("The answer is complete. Claims: {}.", found || t("none checked"));
  announce([says, changes].filter(Boolean).join(" "));
}

/** Shape an entry of the history like the reply to a question. */
export function answerOfEntry(entry, turn = {}) {
  return {
    query_id: entry.query_id ?? turn.query_id,
    answer: entry.answer ?? turn.answer ?? "",
    status: entry.status ?? turn.status,
    searched_as: turn.searched_as ?? "",
    detected_intent: entry.detected_intent ?? turn.intent,
    short_answer: entry.short_answer ?? "",
    highlights: entry.highlights ?? [],
    citations: entry.citations ?? [],
    claims: entry.claims ?? [],
    confidence: entry.confidence ?? 0,
    degraded: entry.degraded ?? [],
    metadata: { total_time_ms: entry.total_ms, model: entry.model, llm_provider: entry.provider, chunks_used: entry.used_chunks?.length },
  };
}

/** List one card per source, in the order of the text, with everything that is quoted from it. */
function sourcesList(answer) {
  const cards = Map.groupBy(numberCitations(answer).sort((a, b) => a.number - b.number || a.start - b.start), (citation) => citation.number);
  if (!cards.size) return null;
  return el("details", { class: "sources", open: true },
    el("summary", {}, t("Sources ({})", cards.size)),
    el("ol", {}, [...cards.values()].map((quoted) => {
      const snippets = [...new Set(quoted.map((citation) => shorten(citation.snippet ?? "", 220)))];
      const [first] = quoted;
      return el("li", {}, el("button", { type: "button", class: "source-link", onclick: (event) => openSource(first, event.currentTarget) },
        el("span", { class: `chip chip-${first.verdict}`, "aria-hidden": "true" }, String(first.number)),
        el("span", {}, el("span", { class: "source-name" }, pathName(first.document_name), el("span", { class: "folder" }, pageOf(first))),
          snippets.map((snippet) => el("span", { class: "snippet" }, snippet)))));
    })));
}

/** Offer to say why a document was not used; what that needs is loaded when it is opened. */
function missingDocument(answer) {
  const body = el("div", { class: "stack" });
  const load = async () => {
    if (!node.open || body.childElementCount) return;
    const { createMissing } = await import("./missing.js");
    const { field, says } = createMissing({ queryId: answer.query_id, collection: answer.collection ?? currentCollection(), citations: answer.citations });
    replace(body, field, says, el("p", { class: "small" }, el("a", { href: `#/why/${answer.query_id}` }, t("All stages of this answer"))));
    field.querySelector("select").focus();
  };
  const node = el("details", { class: "missing stored-only", ontoggle: load }, el("summary", {}, t("Is a document missing?")), body);
  return node;
}

const currentCollection = () => document.getElementById("collection").value;

export function copyAnswer(question, answer) {
  return copyText(formatAsText(question, answer), t("Copied with citations."));
}
