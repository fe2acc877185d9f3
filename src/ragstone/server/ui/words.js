// Explain the figures and names of the engine, each in a sentence.

import { percent, plural } from "./dom.js";

export const VERDICTS = {
  supported: { mark: "✓", label: "Supported", text: "The cited source says this." },
  partial: { mark: "◐", label: "Partly supported", text: "The cited source says a part of this." },
  misattributed: { mark: "⇄", label: "Other source", text: "Another source supports this; the citation was corrected." },
  contradicted: { mark: "✕", label: "Contradicted", text: "The source disagrees with this." },
  unsupported: { mark: "?", label: "Unsupported", text: "No source supports this." },
  unchecked: { mark: "–", label: "Not checked", text: "Nothing here could compare this with its source." },
  suspicious: { mark: "!", label: "Suspicious", text: "This rests on text in a document that reads like an instruction to a model." },
};

export function verdictOf(name) {
  return VERDICTS[name] ?? { mark: "·", label: name, text: "" };
}

const SMALL_TALK = new Set(["greeting", "gratitude", "farewell", "chitchat", "help"]);

export const isSmallTalk = (answer) => answer.status === "conversational" || (answer.status === "answered" && SMALL_TALK.has(answer.detected_intent));

/** Explain the confidence of an answer in a sentence. */
export function confidence(answer) {
  if (isSmallTalk(answer)) return { level: "none", label: "Small talk", text: "The documents hold no answer to this, and it needs none." };
  if (answer.status === "abstained") {
    const read = answer.metadata?.chunks_used ?? 0;
    return {
      level: "none",
      label: "No answer",
      text: read
        ? `The ${plural(read, "passage")} that came closest do not contain the answer, so none is given.`
        : "Nothing in this collection matches the question, so no answer is given.",
    };
  }
  if (answer.status === "ungrounded") return { level: "none", label: "Without documents", text: "The model wrote this from its own knowledge. No document was read, so nothing could be checked." };
  if (answer.status === "refused") return { level: "none", label: "Withheld", text: "The moderator of this server refused the answer." };
  const value = answer.confidence;
  const claims = answer.claims.length;
  const good = answer.claims.filter((claim) => claim.verdict === "supported").length;
  const backed = claims ? (good === claims ? (claims === 1 ? "its sentence is backed by its source" : `all ${claims} sentences are backed by their sources`)
    : `${good} of ${claims} sentences are backed by their sources`) : "no sentence could be checked";
  const level = value >= 0.7 ? "high" : value >= 0.4 ? "medium" : "low";
  const tenths = Math.round(value * 10);
  const right = tenths >= 10 ? "nearly all" : tenths <= 0 ? "hardly any" : `about ${tenths} in 10`;
  const advice = level === "high" ? "" : level === "medium" ? " Look at the sources." : " Check it before you rely on it.";
  return { level, label: `${level[0].toUpperCase()}${level.slice(1)} confidence, ${percent(value)}`, text: `${backed[0].toUpperCase()}${backed.slice(1)}; of answers with such evidence, ${right} are right.${advice}` };
}

export function claimsSummary(claims) {
  const counts = {};
  for (const claim of claims) counts[claim.verdict] = (counts[claim.verdict] ?? 0) + 1;
  return Object.keys(VERDICTS).filter((name) => counts[name]).map((name) => ({ name, count: counts[name], ...VERDICTS[name] }));
}

const DEGRADED = {
  without_llm_steps: "The model for inner steps failed, so the question was searched without changes.",
  plain_chat: "Nothing was found in the documents, so the model answered from its own knowledge.",
  without_refine_step: "A step that refines the hits failed and was skipped.",
  without_rerank: "The reranker is not available, so the order of the search was kept.",
  semantic_with_keyword_boost: "Keyword search failed; exact terms raised the similarity instead.",
  keyword_only: "Search by meaning failed; only keywords were searched.",
  without_grade: "The hits could not be graded, so the confidence may be too low.",
  without_moderation: "The moderator did not reply, so this was not moderated.",
  extractive_answer: "The language model did not reply, so sentences of the sources are quoted.",
  without_context: "No search worked; this was written without your documents.",
};

export const degraded = (name) => DEGRADED[name] ?? `A part was skipped: ${name.replaceAll("_", " ")}.`;
