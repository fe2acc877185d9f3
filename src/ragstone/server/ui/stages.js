// Name the stages of a query.

const STAGES = {
  "understand.intent": "Understand the question",
  "understand.follow_up": "Resolve the follow-up",
  "understand.expand": "Widen the question",
  "remember.recall": "Recall the conversation",
  "retrieve.sequential": "Read in order",
  "retrieve.chunkenizer": "Ask the retrieval service",
  repeat: "Answer from the cache",
  embed: "Embed the question",
  "retrieve.semantic": "Search by meaning",
  "retrieve.keyword": "Search by keyword",
  fuse: "Fuse the lists",
  read: "Read the chunks",
  "refine.filter": "Similarity filter",
  "refine.rerank": "Rerank",
  "refine.deduplicate": "Drop duplicates",
  "refine.select": "Select (MMR)",
  "ground.context": "Fill the context",
  "ground.generate": "Write the answer",
  "ground.choices": "Offer choices",
  "ground.cite": "Cite",
  "ground.hold": "Hold back until checked",
  "check.evidence": "Grade the evidence",
  "check.ground": "Check every claim",
  "check.verify": "Second opinion",
  "check.conflict": "Look for conflicts",
  "correct.search": "Search again",
  "correct.answer": "Answer again",
};

export const stage = (name) => STAGES[name] ?? name.replaceAll(".", " · ").replaceAll("_", " ");
