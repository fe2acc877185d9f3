// Ask: a conversation about the documents, with a verdict on every claim and a link to every source.

import * as api from "./api.js";
import { describeChanges, findChanges, renderAnswer, renderChanges, renderDraft } from "./answer.js";
import { createConversations, toggleConversations } from "./conversations.js";
import { announce, el, failure, replace, toast } from "./dom.js";
import { createModelChoice } from "./model.js";
import { createRating, storage } from "./rate.js";
import { createScope } from "./scope.js";
import { createStart } from "./start.js";
import { attachSuggestions } from "./suggest.js";
import { plural, t } from "./text.js";
import { announceAnswer, answerOfEntry, copyAnswer, linkedChip, renderTurn } from "./turn.js";

const newId = () => crypto.randomUUID?.() ?? String(Math.random()).slice(2);

export function create(shared) {
  const turns = el("div", { class: "turns" });
  const start = el("div", { class: "start" });
  const consent = el("div", { class: "consent" });
  const scroller = el("div", { class: "scroller" }, consent, start, turns);
  const input = el("input", { id: "question", type: "text", autocomplete: "off", placeholder: t("Ask a question about your documents"), maxlength: "32000", enterkeyhint: "send" });
  const send = el("button", { type: "submit", class: "primary" }, t("Ask"));
  const scope = createScope(shared, () => input.focus());
  const model = createModelChoice();
  const fresh = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => restart() }, t("New conversation"));
  const past = el("button", { type: "button", class: "quiet only-phone", "aria-controls": "conversations", "aria-expanded": "false", onclick: () => toggleConversations(past) }, t("Conversations"));
  const form = el("form", { class: "composer", onsubmit: (event) => { event.preventDefault(); ask(input.value); } },
    el("label", { for: "question", class: "unseen" }, t("Your question")),
    el("div", { class: "field" }, el("div", { class: "row options" }, scope.row, model.row), input), send);
  const root = el("section", { class: "area ask" },
    el("div", { class: "head" }, el("h1", { tabindex: "-1" }, t("Ask")), el("div", { class: "row" }, past, fresh)),
    scroller, form);
  let session = newId();
  let collection = "";
  let running = null;
  const conversations = createConversations({ current: () => session, leave: () => restart() });
  const showStart = createStart(start, { shared, ask, isWanted: () => !turns.childElementCount });

  attachSuggestions(input, () => shared.collection, (text) => ask(text));
  document.addEventListener("ragstone:key", () => offerConsent());
  document.addEventListener("ragstone:consent", ({ detail }) => { offerConsent(); if (!detail.agreed) restart(); });
  offerConsent();
  document.addEventListener("ragstone:only", ({ detail }) => {
    location.hash = "#/ask";
    scope.only(detail);
  });
  document.addEventListener("ragstone:collection", ({ detail }) => {
    scope.reset();
    // A conversation stays with its collection; another one starts another conversation.
    if (turns.childElementCount && detail !== collection) restart();
    else if (!turns.childElementCount) showStart();
  });

  /** Where the server asks before it stores anything, ask once. */
  async function offerConsent() {
    const found = await storage();
    replace(consent, found.required && !found.agreed_at && (await import("./consent.js")).question(found));
  }

  function restart() {
    running?.abort();
    session = newId();
    model.reset();
    replace(turns);
    fresh.hidden = true;
    if (location.hash.startsWith("#/chat/")) history.replaceState(null, "", "#/ask");
    conversations.mark();
    showStart();
    if (!root.hidden) input.focus();
  }

  /** The address of a conversation leads to it, where the server stores it. */
  async function showAddress() {
    const { stores, query_log: log } = await storage();
    if (stores && log === "full" && !root.hidden && turns.childElementCount) history.replaceState(null, "", `#/chat/${encodeURIComponent(session)}`);
  }

  function begin() {
    replace(start);
    fresh.hidden = false;
    collection = shared.collection;
  }

  /** Show a conversation of the server as it was left. */
  async function openSession(id) {
    if (id === session && turns.childElementCount) return;
    running?.abort();
    session = id;
    replace(turns);
    replace(start, el("p", { class: "muted", role: "status" }, t("Opening the conversation…")));
    let found;
    let entries;
    let rated;
    try {
      [found, entries, rated] = await Promise.all([api.get(`/v1/sessions/${encodeURIComponent(id)}`), api.get("/v1/queries", { session_id: id, limit: 100 }), api.get("/v1/feedback", { session_id: id, mine: true, limit: 100 }).catch(() => [])]);
    } catch (error) {
      if (session !== id) return;
      if (error.status !== 404) { replace(start, failure(error, () => { session = ""; openSession(id); })); return; }
      toast(t("This conversation does not exist any more."));
      restart();
      return;
    }
    if (session !== id) return;
    collection = found.collection;
    if (shared.collection !== collection) shared.collection = collection;
    begin();
    model.restore(entries);
    const byId = new Map(entries.map((entry) => [entry.query_id, entry]));
    for (const turn of found.turns) {
      const card = el("article", { class: "turn" });
      turns.append(card);
      finish(card, turn.question, answerOfEntry(byId.get(turn.query_id) ?? {}, turn), rated.find((one) => one.query_id === turn.query_id));
    }
    conversations.mark();
    turns.lastElementChild?.scrollIntoView({ block: "start" });
    announce(t("The conversation “{}” is open.", found.title));
  }

  function ask(question) {
    const text = question.trim();
    if (!text) { input.focus(); return; }
    running?.abort();
    begin();
    input.value = "";
    showAddress();
    const card = el("article", { class: "turn", "aria-busy": "true" });
    turns.append(card);
    answerIn(card, text);
  }

  async function answerIn(card, question, asTyped = false) {
    const control = new AbortController();
    running = control;
    const status = el("p", { class: "progress", role: "status" }, t("Searching…"));
    const text = el("div", { class: "answer markdown unverified" });
    const below = el("div", {});
    const stop = el("button", { type: "button", class: "quiet", onclick: () => control.abort() }, t("Stop"));
    const actions = el("div", { class: "row actions" }, stop);
    card.setAttribute("aria-busy", "true");
    replace(card, el("h2", {}, question), status, text, below, actions);
    card.scrollIntoView({ block: "start", behavior: "smooth" });
    let written = "";
    let drawing = 0;
    let withheld = 0;
    let sources = [];
    const checked = [];
    const numbers = new Map();
    const chipOf = (rank) => {
      const source = sources.find((one) => one.number === rank);
      if (!numbers.has(rank)) numbers.set(rank, numbers.size + 1);
      return source && linkedChip({ ...source, number: numbers.get(rank) });
    };
    // Many tokens may arrive between two frames; draw once for all of them.
    const draw = () => { drawing ||= requestAnimationFrame(() => { drawing = 0; replace(text, renderDraft(written, chipOf, checked)); }); };
    try {
      const body = { query: question, collection: shared.collection, session_id: session, chat: true, as_typed: asTyped, model: model.get() };
      const filters = scope.filters();
      if (filters) body.filters = filters;
      for await (const event of api.events("POST", "/v1/query", { body, signal: control.signal })) {
        if (event.type === "sources") {
          sources = event.sources;
          status.textContent = sources.length ? t("Reading {}…", plural(sources.length, "passage")) : t("Writing…");
        } else if (event.type === "token") {
          written += event.content;
          draw();
        } else if (event.type === "verdicts") {
          checked.push(...event.claims);
          draw();
        } else if (event.type === "withheld") {
          withheld += event.sentences;
          replace(status, describeChanges({ withheld, gone: [] }));
        } else if (event.type === "claims") {
          cancelAnimationFrame(drawing);
          text.className = "answer markdown";
          replace(text, renderAnswer({ ...event, highlights: [] }, { chip: linkedChip }));
        } else if (event.type === "done") {
          cancelAnimationFrame(drawing);
          finish(card, question, event);
          const changes = findChanges(written, checked, withheld, event.answer);
          if (changes) card.querySelector(".answer")?.after(renderChanges(changes));
          announceAnswer(event, changes ? describeChanges(changes) : "");
          conversations.load();
          if (event.degraded.includes("extractive_answer")) document.dispatchEvent(new CustomEvent("ragstone:model"));
        } else if (event.type === "error") {
          throw new api.Problem(event.detail ?? event.message ?? t("The answer could not be written."), { hint: event.hint ?? "" });
        }
      }
    } catch (error) {
      card.setAttribute("aria-busy", "false");
      const stopped = error.name === "AbortError";
      replace(status, stopped ? t("Stopped. The text so far is not checked.") : written ? t("Incomplete: not checked.") : "");
      if (!stopped) replace(below, failure(error));
      replace(actions, retryButton(card, question));
      announce(stopped ? t("Stopped.") : error.message);
    } finally {
      if (running === control) running = null;
    }
  }

  function retryButton(card, question) {
    return el("button", { type: "button", class: "quiet", onclick: () => answerIn(card, question) }, t("Retry"));
  }

  function finish(card, question, answer, given) {
    const share = () => import("./share.js").then(({ shareAnswer }) => shareAnswer(answer)).catch((error) => toast(error.message, { kind: "bad" }));
    // What is not stored cannot be rated, shared or explained.
    storage().then(({ stores }) => card.classList.toggle("unstored", !stores));
    renderTurn(card, question, answer, {
      isOwn: Boolean(answer.query_id),
      rating: answer.query_id && createRating(answer.query_id, given),
      searchTyped: () => answerIn(card, question, true),
      actions: [
        el("button", { type: "button", class: "quiet", onclick: () => copyAnswer(question, answer) }, t("Copy with citations")),
        retryButton(card, question),
        answer.query_id && el("button", { type: "button", class: "quiet stored-only", onclick: share }, t("Share")),
        el("a", { class: "button quiet stored-only", href: `#/why/${answer.query_id}` }, t("Why this answer?")),
        el("button", { type: "button", class: "quiet", onclick: () => followUp() }, t("Follow up")),
      ],
    });
  }

  function followUp() {
    input.value = "";
    input.placeholder = t("Ask a follow-up, for example: and in 2023?");
    input.focus();
  }

  return {
    root,
    title: t("Ask"),
    enter: async ([first], name) => {
      if (name === "chat" && first) await openSession(first);
      else if (first) { history.replaceState(null, "", "#/ask"); ask(first); }
      else if (turns.childElementCount) await showAddress();
      else await showStart();
    },
  };
}
