// Ask: a conversation about the documents, with a verdict on every claim and a link to every source.

import * as api from "./api.js";
import { renderAppraisal, formatAsText, renderAnswer, chip, renderDraft, shorten } from "./answer.js";
import { announce, baseName, el, empty, failure, ms, plural, replace, toast } from "./dom.js";
import { attachPreview } from "./preview.js";
import { openSource } from "./source.js";
import { attachSuggestions } from "./suggest.js";
import { claimsSummary, isSmallTalk } from "./words.js";

const EXAMPLES = [
  "When does the lease end?",
  "How long do the batteries keep the telescope running in a power cut?",
  "What interest is charged on rent that arrives late?",
];

/** Copy by a selection: without HTTPS a browser has no clipboard for scripts. */
function copyBySelection(text) {
  const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

export function create(shared) {
  const turns = el("div", { class: "turns" });
  const start = el("div", {});
  const input = el("input", { id: "question", type: "text", autocomplete: "off", placeholder: "Ask a question about your documents", maxlength: "32000", enterkeyhint: "send" });
  const send = el("button", { type: "submit", class: "primary" }, "Ask");
  const scope = el("select", { id: "scope" });
  const scopeRow = el("div", { class: "row scope", hidden: true }, el("label", { for: "scope", class: "label" }, "Search in"), scope);
  const fresh = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => restart() }, "New conversation");
  const form = el("form", { class: "composer", onsubmit: (event) => { event.preventDefault(); ask(input.value); } },
    el("label", { for: "question", class: "unseen" }, "Your question"),
    el("div", { class: "field" }, scopeRow, input), send);
  const root = el("section", { class: "area ask" },
    el("div", { class: "head" }, el("h1", { tabindex: "-1" }, "Ask"), fresh),
    start, turns, form);
  let session = crypto.randomUUID?.() ?? String(Math.random()).slice(2);
  let running = null;

  attachSuggestions(input, () => shared.collection, (text) => ask(text));
  document.addEventListener("ragstone:collection", () => { if (!turns.childElementCount) welcome(); });

  function restart() {
    running?.abort();
    session = crypto.randomUUID?.() ?? String(Math.random()).slice(2);
    replace(turns);
    fresh.hidden = true;
    welcome();
    input.focus();
  }

  async function welcome() {
    const collection = shared.collection;
    let documents;
    try {
      documents = await api.get("/v1/documents", { collection, limit: 200 });
    } catch (error) {
      replace(start, error.status === 401 ? null : failure(error, welcome));
      return;
    }
    if (turns.childElementCount || collection !== shared.collection) return;
    const readable = documents.filter((one) => one.status === "indexed");
    offerScopes(readable);
    if (!readable.length) {
      replace(start, empty("No documents to search yet", `The collection “${collection}” has no documents. Add your own, or start with the sample documents of a small observatory.`,
        el("a", { class: "button primary", href: "#/documents" }, "Add documents"),
        el("button", { type: "button", class: "quiet", onclick: (event) => samples(event.currentTarget) }, "Use the sample documents")));
      return;
    }
    const examples = readable.some((one) => one.metadata.tags?.includes("sample") || one.name.endsWith("catering-agreement.txt")) ? EXAMPLES : [];
    replace(start, el("div", { class: "welcome" },
      el("p", { class: "lead" }, "Ask in your own words. Every sentence of the answer is checked against its source."),
      el("p", { class: "muted" }, `${plural(Math.max(readable.length, shared.documentCount(collection) ?? 0), "document")} in “${collection}”.`),
      examples.length > 0 && el("ul", { class: "examples", "aria-label": "Examples" }, examples.map((text) => el("li", {},
        el("button", { type: "button", class: "example", onclick: () => ask(text) }, text))))));
  }

  /** Offer the tags that not all documents have, to limit a question to one of them. */
  function offerScopes(documents) {
    const tags = [...new Set(documents.flatMap((one) => one.metadata.tags ?? []))].sort();
    const partial = tags.filter((tag) => documents.some((one) => !one.metadata.tags?.includes(tag)));
    const chosen = scope.value;
    replace(scope, el("option", { value: "" }, "all documents"), partial.map((tag) => el("option", { value: tag }, `tag: ${tag}`)));
    scope.value = partial.includes(chosen) ? chosen : "";
    scopeRow.hidden = !partial.length;
  }

  async function samples(button) {
    button.disabled = true;
    button.textContent = "Reading the samples…";
    try {
      const added = await api.post("/v1/samples", { collection: shared.collection });
      toast(`${plural(added.documents, "sample document")} can be searched now.`);
      await shared.refreshCollections();
    } catch (error) {
      toast(error.message, { kind: "bad" });
    }
    await welcome();
  }

  function ask(question) {
    const text = question.trim();
    if (!text) { input.focus(); return; }
    running?.abort();
    replace(start);
    fresh.hidden = false;
    input.value = "";
    const card = el("article", { class: "turn", "aria-busy": "true" });
    turns.append(card);
    answerIn(card, text);
  }

  async function answerIn(card, question, asTyped = false) {
    const control = new AbortController();
    running = control;
    const status = el("p", { class: "progress", role: "status" }, "Searching…");
    const text = el("div", { class: "answer unverified" });
    const below = el("div", {});
    const stop = el("button", { type: "button", class: "quiet", onclick: () => control.abort() }, "Stop");
    const actions = el("div", { class: "row actions" }, stop);
    replace(card, el("h2", {}, question), status, text, below, actions);
    card.scrollIntoView({ block: "start", behavior: "smooth" });
    let written = "";
    let drawing = 0;
    let replaced = false;
    let sources = [];
    const chipOf = (number) => {
      const source = sources.find((one) => one.number === number);
      return source && linked(source);
    };
    try {
      const body = { query: question, collection: shared.collection, session_id: session, chat: true, as_typed: asTyped };
      if (scope.value) body.filters = { tags: scope.value };
      for await (const event of api.events("POST", "/v1/query", { body, signal: control.signal })) {
        if (event.type === "sources") {
          sources = event.sources;
          status.textContent = sources.length ? `Reading ${plural(sources.length, "passage")}…` : "Writing…";
        } else if (event.type === "token") {
          written += event.content;
          // Many tokens may arrive between two frames; draw once for all of them.
          drawing ||= requestAnimationFrame(() => { drawing = 0; replace(text, renderDraft(written, chipOf)); });
        } else if (event.type === "replaced") {
          replaced = written.trim() !== "";
        } else if (event.type === "claims") {
          cancelAnimationFrame(drawing);
          text.className = "answer";
          replace(text, renderAnswer({ ...event, highlights: [] }, { chip: linked }));
        } else if (event.type === "done") {
          cancelAnimationFrame(drawing);
          finish(card, question, event);
          if (replaced) card.querySelector(".answer")?.after(el("p", { class: "muted replaced", role: "status" }, "The check changed the text that was shown while it was written."));
        } else if (event.type === "error") {
          throw new api.Problem(event.detail ?? event.message ?? "The answer could not be written.", { hint: event.hint ?? "" });
        }
      }
    } catch (error) {
      card.setAttribute("aria-busy", "false");
      const stopped = error.name === "AbortError";
      replace(status, stopped ? "Stopped. The text so far is not checked." : written ? "Incomplete: not checked." : "");
      if (!stopped) replace(below, failure(error));
      replace(actions, retryButton(card, question));
      announce(stopped ? "Stopped." : error.message);
    } finally {
      if (running === control) running = null;
    }
  }

  function linked(citation) {
    const node = chip(citation, (place, opener) => openSource(place, opener));
    attachPreview(node, citation);
    return node;
  }

  function retryButton(card, question) {
    return el("button", { type: "button", class: "quiet", onclick: () => answerIn(card, question) }, "Retry");
  }

  function finish(card, question, answer) {
    card.setAttribute("aria-busy", "false");
    card.dataset.status = answer.status;
    const text = el("div", { class: `answer ${answer.status}` }, renderAnswer(answer, { chip: linked }));
    const took = answer.metadata?.total_time_ms;
    replace(card,
      el("h2", {}, question),
      answer.searched_as && el("p", { class: "row muted searched-as" }, `Searched as: ${answer.searched_as}`,
        el("button", { type: "button", class: "quiet", onclick: () => answerIn(card, question, true) }, "Search what I typed")),
      text,
      renderAppraisal(answer),
      sourcesList(answer),
      el("div", { class: "row actions" },
        el("button", { type: "button", class: "quiet", onclick: () => copy(question, answer) }, "Copy with citations"),
        retryButton(card, question),
        el("a", { class: "button quiet", href: `#/why/${answer.query_id}` }, "Why this answer?"),
        el("button", { type: "button", class: "quiet", onclick: () => followUp() }, "Follow up"),
        took !== undefined && el("span", { class: "muted push" }, [ms(took), answer.metadata.model || answer.metadata.llm_provider].filter((part) => part && part !== "none").join(" · "))));
    const found = claimsSummary(answer.claims).map((one) => `${one.count} ${one.label.toLowerCase()}`).join(", ");
    announce(answer.status === "abstained" ? "No answer: the documents do not contain it." : isSmallTalk(answer) ? answer.answer : `The answer is complete. Claims: ${found || "none checked"}.`);
  }

  function sourcesList(answer) {
    const byPlace = new Map();
    for (const citation of answer.citations) {
      const id = `${citation.number}/${citation.start}/${citation.end}`;
      if (!byPlace.has(id)) byPlace.set(id, citation);
    }
    if (!byPlace.size) return null;
    return el("details", { class: "sources", open: true },
      el("summary", {}, `Sources (${byPlace.size})`),
      el("ol", {}, [...byPlace.values()].map((citation) => el("li", {},
        el("button", { type: "button", class: "source-link", onclick: (event) => openSource(citation, event.currentTarget) },
          el("span", { class: `chip chip-${citation.verdict}`, "aria-hidden": "true" }, String(citation.number)),
          el("span", {}, el("span", { class: "source-name" }, baseName(citation.document_name), citation.page ? `, page ${citation.page}` : ""),
            el("span", { class: "snippet" }, shorten(citation.snippet, 220))))))));
  }

  function followUp() {
    input.value = "";
    input.placeholder = "Ask a follow-up, for example: and in 2023?";
    input.focus();
  }

  async function copy(question, answer) {
    const text = formatAsText(question, answer);
    const done = await navigator.clipboard?.writeText(text).then(() => true, () => false) ?? copyBySelection(text);
    toast(done ? "Copied with citations." : "The browser did not allow copying.", { kind: done ? "" : "bad" });
  }

  return {
    root,
    title: "Ask",
    enter: async ([question]) => {
      if (question) { history.replaceState(null, "", "#/ask"); ask(question); }
      else if (!turns.childElementCount) await welcome();
    },
  };
}
