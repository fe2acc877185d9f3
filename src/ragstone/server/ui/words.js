// Explain the figures and names of the engine, each in a sentence.

import { percent, plural, t } from "./text.js";

export const VERDICTS = {
  supported: { mark: "✓", label: t("Supported"), text: t("The cited source says this.") },
  partial: { mark: "◐", label: t("Partly supported"), text: t("The cited source says a part of this.") },
  misattributed: { mark: "⇄", label: t("Other source"), text: t("Another source supports this; the citation was corrected.") },
  contradicted: { mark: "✕", label: t("Contradicted"), text: t("The source disagrees with this.") },
  unsupported: { mark: "?", label: t("Unsupported"), text: t("No source supports this.") },
  unchecked: { mark: "–", label: t("Not checked"), text: t("Nothing here could compare this with its source.") },
  suspicious: { mark: "!", label: t("Suspicious"), text: t("This rests on text in a document that reads like an instruction to a model.") },
};

export function verdictOf(name) {
  return VERDICTS[name] ?? { mark: "·", label: name, text: "" };
}

const SMALL_TALK = new Set(["greeting", "gratitude", "farewell", "chitchat", "help"]);

export const isSmallTalk = (answer) => answer.status === "conversational" || (answer.status === "answered" && SMALL_TALK.has(answer.detected_intent));

/** Explain the confidence of an answer in a sentence. */
export function confidence(answer) {
  if (isSmallTalk(answer)) return { level: "none", label: t("Small talk"), text: t("The documents hold no answer to this, and it needs none.") };
  if (answer.status === "abstained") {
    const read = answer.metadata?.chunks_used ?? 0;
    return {
      level: "none",
      label: t("No answer"),
      text: read
        ? t("The {} that came closest do not contain the answer, so none is given.", plural(read, "passage"))
        : t("Nothing in this collection matches the question, so no answer is given."),
    };
  }
  if (answer.status === "near") return { level: "none", label: t("Not sure"), text: t("These passages come closest to the question. They may not answer it.") };
  if (answer.status === "ungrounded") return { level: "none", label: t("Without documents"), text: t("The model wrote this from its own knowledge. No document was read, so nothing could be checked.") };
  if (answer.status === "refused") return { level: "none", label: t("Withheld"), text: t("The moderator of this server refused the answer.") };
  const value = answer.confidence;
  const claims = answer.claims.length;
  const good = answer.claims.filter((claim) => claim.verdict === "supported").length;
  const backed = !claims ? t("No sentence could be checked") : good < claims ? t("{} of {} sentences are backed by their sources", good, claims)
    : claims === 1 ? t("Its sentence is backed by its source") : t("All {} sentences are backed by their sources", claims);
  const level = value >= 0.7 ? "high" : value >= 0.4 ? "medium" : "low";
  const tenths = Math.round(value * 10);
  const right = tenths >= 10 ? t("nearly all") : tenths <= 0 ? t("hardly any") : t("about {} in 10", tenths);
  const advice = { high: "", medium: ` ${t("Look at the sources.")}`, low: ` ${t("Check it before you rely on it.")}` }[level];
  const label = { high: t("High confidence, {}", percent(value)), medium: t("Medium confidence, {}", percent(value)), low: t("Low confidence, {}", percent(value)) }[level];
  return { level, label, text: t("{}; of answers with such evidence, {} are right.", backed, right) + advice };
}

export function claimsSummary(claims) {
  const counts = {};
  for (const claim of claims) counts[claim.verdict] = (counts[claim.verdict] ?? 0) + 1;
  return Object.keys(VERDICTS).filter((name) => counts[name]).map((name) => ({ name, count: counts[name], ...VERDICTS[name] }));
}

const DEGRADED = {
  without_llm_steps: t("The model for inner steps failed, so the question was searched without changes."),
  plain_chat: t("Nothing was found in the documents, so the model answered from its own knowledge."),
  without_refine_step: t("A step that refines the hits failed and was skipped."),
  without_rerank: t("The reranker is not available, so the order of the search was kept."),
  semantic_with_keyword_boost: t("Keyword search failed; exact terms raised the similarity instead."),
  keyword_only: t("Search by meaning failed; only keywords were searched."),
  without_moderation: t("The moderator did not reply, so this was not moderated."),
  extractive_answer: t("The language model did not reply, so sentences of the sources are quoted."),
  without_context: t("No search worked; this was written without your documents."),
};

export const degraded = (name) => DEGRADED[name] ?? t("A part was skipped: {}.", name.replaceAll("_", " "));
