// Name the stages of a query.

import { t } from "./text.js";

const STAGES = {
  "understand.intent": t("Understand the question"),
  "understand.follow_up": t("Resolve the follow-up"),
  "understand.expand": t("Widen the question"),
  "remember.recall": t("Recall the conversation"),
  "retrieve.sequential": t("Read in order"),
  "retrieve.chunkenizer": t("Ask the retrieval service"),
  repeat: t("Answer from the cache"),
  embed: t("Embed the question"),
  "retrieve.semantic": t("Search by meaning"),
  "retrieve.keyword": t("Search by keyword"),
  fuse: t("Fuse the lists"),
  read: t("Read the chunks"),
  "refine.filter": t("Similarity filter"),
  "refine.rerank": t("Rerank"),
  "refine.deduplicate": t("Drop duplicates"),
  "refine.select": t("Select (MMR)"),
  "ground.context": t("Fill the context"),
  "ground.generate": t("Write the answer"),
  "ground.cite": t("Cite"),
  "ground.hold": t("Hold back until checked"),
  "check.evidence": t("Grade the evidence"),
  "check.ground": t("Check every claim"),
  "check.verify": t("Second opinion"),
  "check.conflict": t("Look for conflicts"),
  "correct.search": t("Search again"),
  "correct.answer": t("Answer again"),
};

export const stage = (name) => STAGES[name] ?? name.replaceAll(".", " · ").replaceAll("_", " ");
