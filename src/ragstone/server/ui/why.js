// Why: the stages of a query with their times, each chunk in every stage, and why a chunk is missing.

import * as api from "./api.js";
import { shorten } from "./answer.js";
import { passageName } from "./compare.js";
import { announce, el, empty, failure, replace } from "./dom.js";
import { createMissing } from "./missing.js";
import { openSource } from "./open.js";
import { stage } from "./stages.js";
import { ms, number, percent, said, t, when } from "./text.js";

const ROWS = 25;
const STATUSES = { answered: t("answered"), near: t("closest passages"), abstained: t("no answer"), conversational: t("small talk"), ungrounded: t("without documents"), refused: t("withheld") };
const OUTCOMES = { found: t("found"), kept: t("kept"), dropped: t("dropped"), absent: t("absent") };

export function create(shared) {
  const picker = el("select", { id: "why-query", onchange: () => { if (picker.value) location.hash = `#/why/${picker.value}`; } });
  const out = el("div", { class: "stack wide" });
  const root = el("section", { class: "area wide why" },
    el("div", { class: "head" }, el("h1", { tabindex: "-1" }, t("Why")), el("span", { class: "muted" }, t("What each stage did with a question"))),
    el("div", { class: "stack" }, el("label", { for: "why-query" }, t("Query")), picker),
    out);
  let current = "";

  async function enter([id]) {
    let recent = [];
    try {
      recent = await api.get("/v1/queries", { limit: 50 });
    } catch (error) {
      replace(out, failure(error, () => enter([id])));
      return;
    }
    if (!recent.length && !id) {
      picker.parentElement.hidden = true;
      replace(out, empty(t("No queries yet"), t("Ask a question first; its stages are shown here."), el("a", { class: "button primary", href: "#/ask" }, t("Ask a question"))));
      return;
    }
    picker.parentElement.hidden = false;
    const wanted = id ?? recent[0].query_id;
    const listed = recent.some((one) => one.query_id === wanted) ? recent : [{ query_id: wanted, query: wanted, created_at: 0 }, ...recent];
    replace(picker, listed.map((one) => el("option", { value: one.query_id }, `${one.query ?? t("(text not logged)")}${one.created_at ? ` · ${when(one.created_at)}` : ""}`)));
    picker.value = wanted;
    await show(wanted);
  }

  async function show(id) {
    current = id;
    replace(out, el("p", { class: "muted", role: "status" }, t("Reading the trace…")));
    try {
      const [entry, passages] = await Promise.all([api.get(`/v1/queries/${id}`), api.get(`/v1/queries/${id}/chunks`)]);
      if (current !== id) return;
      const detail = el("div", { class: "detail", tabindex: "-1" });
      const explainAt = (chunk, place) => { place(detail); explain(id, chunk, detail); };
      replace(out, head(entry), timeline(entry.trace), ways(entry, passages, explainAt), whyNot(entry, explainAt));
    } catch (error) {
      replace(out, failure(error, () => show(id)));
    }
  }

  async function explain(id, chunkId, detail) {
    try {
      const found = await api.get(`/v1/queries/${id}/explain`, { chunk_id: chunkId });
      replace(detail, el("h2", {}, t("{}, chunk {}", found.document_name, chunkId.split(":").pop())),
        el("p", { class: "lead verdict-text" }, said(found.verdict)),
        el("ol", { class: "steps" }, found.steps.map((step) => el("li", { class: `step step-${step.outcome}` },
          el("span", { class: "step-stage" }, stage(step.stage)),
          el("span", { class: "step-outcome" }, [OUTCOMES[step.outcome] ?? step.outcome, step.rank && t("rank {}", step.rank), step.score !== null && t("score {}", step.score)].filter(Boolean).join(", ")),
          step.reason && el("span", { class: "muted" }, said(step.reason))))));
      announce(said(found.verdict));
    } catch (error) {
      replace(detail, failure(error));
    }
    detail.scrollIntoView({ block: "nearest", behavior: "smooth" });
    detail.focus({ preventScroll: true });
  }

  return { root, title: t("Why"), enter };
}

function head(entry) {
  return el("div", { class: "card" },
    el("h2", {}, entry.query ?? t("The text of this query was not logged")),
    entry.answer && el("p", { class: "muted" }, shorten(entry.answer.replace(/\s*\[Source \d+\]/g, ""), 320)),
    el("dl", { class: "facts" }, [
      [t("Status"), STATUSES[entry.status] ?? entry.status], [t("Confidence"), percent(entry.confidence ?? 0)], [t("Groundedness"), percent(entry.groundedness_score ?? 0)],
      [t("Total"), ms(entry.trace.total_ms)], [t("Written by"), [entry.provider, entry.model].filter(Boolean).join(" · ")], [t("Request"), entry.trace.request_id],
    ].map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
}

function timeline(trace) {
  const total = Math.max(trace.total_ms, 0.001);
  const again = trace.spans.filter((span) => span.stage.startsWith("correct."));
  const isInside = (span) => again.some((outer) => outer !== span && outer.started_ms <= span.started_ms && span.started_ms + span.duration_ms <= outer.started_ms + outer.duration_ms + 0.01);
  return el("div", { class: "card" }, el("h2", {}, t("Stages and their times")),
    trace.spans.some((span) => span.stage === "repeat") && el("p", { class: "notice" }, t("The collection had not changed since this was asked before, so the answer came from the cache in {}.", ms(trace.total_ms))),
    el("ol", { class: "timeline" }, trace.spans.map((span) => {
      const bar = el("i", { class: span.error ? "bad" : "" });
      bar.style.left = `${(span.started_ms / total) * 100}%`;
      bar.style.width = `${Math.max(0.4, (span.duration_ms / total) * 100)}%`;
      const counts = Object.entries(span.counts).filter(([, value]) => value !== false && typeof value !== "object").map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(" · ");
      return el("li", { class: isInside(span) ? "inner" : "" },
        el("span", { class: "span-name" }, stage(span.stage)),
        el("span", { class: "track", "aria-hidden": "true" }, bar),
        el("span", { class: "number" }, ms(span.duration_ms)),
        el("span", { class: "counts muted" }, counts, span.notes.map((note) => el("em", {}, ` ${note}`)), span.error && el("strong", { class: "verdict-contradicted" }, ` ${span.error}`)));
    })));
}

/** Render a table: one row per chunk, one column per stage. */
function ways(entry, passages, explain) {
  const { stages, ids } = entry.trace.waterfall;
  if (!stages.length) return el("div", { class: "card" }, el("p", { class: "muted" }, t("Nothing was searched for this query.")));
  const byId = new Map(passages.map((one) => [one.chunk_id, one]));
  const keys = Object.keys(ids);
  const far = (key) => stages.reduce((count, one) => count + (one.lines[key]?.kept ? 1 : 0), 0);
  const last = (key) => stages.toReversed().map((one) => one.lines[key]?.rank).find((rank) => rank) ?? 9999;
  keys.sort((a, b) => far(b) - far(a) || last(a) - last(b));
  const body = el("tbody", {});
  const more = el("button", { type: "button", class: "quiet", onclick: () => { draw(keys.length); more.hidden = true; } }, t("Show all {}", keys.length));
  more.hidden = keys.length <= ROWS;
  const under = el("tr", { class: "under" }, el("td", { colspan: String(stages.length + 2) }));
  const below = (row) => (detail) => { under.firstChild.replaceChildren(detail); row.after(under); };
  const draw = (count) => replace(body, keys.slice(0, count).map((key) => {
    const passage = byId.get(ids[key]);
    return el("tr", {},
      el("th", { scope: "row" }, el("button", { type: "button", class: "link name", title: passage ? shorten(passage.text, 300) : "", onclick: (event) => explain(ids[key], below(event.currentTarget.closest("tr"))) }, passage ? passageName(passage) : ids[key])),
      stages.map((one) => cell(one, one.lines[key])),
      el("td", {}, passage && el("button", { type: "button", class: "link", "aria-label": t("Open {}", passageName(passage)), onclick: (event) => openSource(passage, event.currentTarget) }, t("Open"))));
  }));
  draw(ROWS);
  return el("div", { class: "card" }, el("h2", {}, t("Each chunk, stage by stage")),
    el("p", { class: "muted" }, t("The rank after each stage, with the score below. Choose a chunk to read why it was kept or dropped.")),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("Chunks by stage") }, el("table", { class: "ways" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("Chunk")), stages.map((one) => el("th", { scope: "col" }, stage(one.stage))), el("th", { scope: "col" }, el("span", { class: "unseen" }, t("Open"))))),
      body)),
    more);
}

function cell(one, line) {
  if (!line) return el("td", { class: "way absent" }, el("span", { "aria-label": t("not in this stage") }, "–"));
  const score = one.stage === "refine.filter" && line.similarity !== undefined ? line.similarity : line.score;
  return el("td", { class: `way ${line.kept ? "kept" : "dropped"}` },
    line.kept ? String(line.rank ?? "✓") : el("span", {}, "✕", el("span", { class: "unseen" }, ` ${t("dropped")}`)),
    el("span", { class: "small muted" }, typeof score === "number" ? number(score, 3) : ""));
}

/** Render a form: why a document was not used, and what became of any of its chunks. */
function whyNot(entry, explain) {
  const chunks = el("select", { id: "why-chunk", disabled: true });
  const ask = el("button", { type: "button", class: "quiet", disabled: true, onclick: () => explain(chunks.value, (detail) => place.replaceChildren(detail)) }, t("Why not this chunk?"));
  const place = el("div", {});
  const { field, says } = createMissing({ queryId: entry.query_id, collection: entry.collection, citations: entry.citations }, async (id, about) => {
    replace(place);
    const found = id ? await api.get(`/v1/documents/${id}/chunks`, { limit: 1000 }).catch(() => []) : [];
    replace(chunks, found.map((one) => el("option", { value: one.chunk_id }, `${one.chunk_id.split(":").pop()} · ${shorten(one.text, 80)}`)));
    chunks.disabled = ask.disabled = !found.length;
    if (about) chunks.value = about.chunk_id;
  });
  return el("div", { class: "card", id: "missing" }, el("h2", {}, t("Why was a document not used?")),
    el("p", { class: "muted" }, t("Choose a document to see how far it came, then any of its chunks.")),
    el("div", { class: "row" }, field, el("div", { class: "stack grow" }, el("label", { for: "why-chunk" }, t("Chunk")), chunks), ask),
    says, place);
}
