// Compare: answer one question under two presets, side by side, with the differences marked.

import * as api from "./api.js";
import { renderAppraisal, renderAnswer, chip, shorten } from "./answer.js";
import { announce, el, failure, replace } from "./dom.js";
import { attachPreview } from "./preview.js";
import { openSource } from "./open.js";
import { attachSuggestions } from "./suggest.js";
import { stage } from "./stages.js";
import { ms, number, t } from "./text.js";

const PRESETS = ["minimal", "classic", "balanced", "careful"];

export function create(shared) {
  const input = el("input", { id: "compare-question", type: "text", autocomplete: "off", placeholder: t("A question for both presets"), maxlength: "1000", required: true });
  const left = choice("compare-left", "classic");
  const right = choice("compare-right", "balanced");
  const go = el("button", { type: "submit", class: "primary" }, t("Compare"));
  const out = el("div", { class: "stack wide" });
  const form = el("form", { class: "card", onsubmit: (event) => { event.preventDefault(); run(); } },
    el("div", { class: "row" },
      el("div", { class: "stack grow" }, el("label", { for: input.id }, t("Question")), el("div", { class: "field plain" }, input)),
      el("div", { class: "stack" }, el("label", { for: left.id }, t("Left")), left),
      el("div", { class: "stack" }, el("label", { for: right.id }, t("Right")), right),
      go));
  const root = el("section", { class: "area wide compare" },
    el("div", { class: "head" }, el("h1", { tabindex: "-1" }, t("Compare")), el("span", { class: "muted" }, t("The same question under two presets"))),
    form, out);
  attachSuggestions(input, () => shared.collection, (text) => { input.value = text; run(); });

  async function run() {
    const query = input.value.trim();
    if (!query) { input.focus(); return; }
    go.disabled = true;
    replace(out, el("p", { class: "muted", role: "status" }, t("Answering with both presets…")));
    try {
      const { sides } = await api.post("/v1/compare", { query, presets: [left.value, right.value], collection: shared.collection });
      replace(out, differences(sides), el("div", { class: "grid2 sides" }, sides.map((side, index) => sideNode(side, sides[1 - index]))));
      announce(t("Both answers are ready."));
    } catch (error) {
      replace(out, failure(error, run));
    } finally {
      go.disabled = false;
    }
  }

  return { root, title: t("Compare"), enter: ([question]) => { if (question) { input.value = question; run(); } else input.focus({ preventScroll: true }); } };
}

function choice(id, value) {
  return el("select", { id, value }, PRESETS.map((name) => el("option", { value: name, selected: name === value }, name)));
}

/** Render the settings that differ, and how far the answers agree. */
function differences([left, right]) {
  const names = Object.keys(left.settings).filter((name) => name !== "preset");
  const [ours, theirs] = [left, right].map((side) => side.answer.used_chunks.map((one) => one.chunk_id));
  const both = ours.filter((id) => theirs.includes(id)).length;
  const same = left.answer.answer === right.answer.answer;
  return el("div", { class: "card" },
    el("p", {}, el("strong", {}, same ? t("The answers are the same.") : t("The answers differ.")), " ",
      t("Passages that both sides read: {} of {}.", both, Math.max(ours.length, theirs.length))),
    names.length > 0 && el("details", {}, el("summary", {}, names.length === 1 ? t("1 setting differs") : t("{} settings differ", names.length)),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("Settings that differ") }, el("table", {},
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("Setting")), el("th", { scope: "col" }, left.preset), el("th", { scope: "col" }, right.preset))),
        el("tbody", {}, names.map((name) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, name)), el("td", {}, String(left.settings[name])), el("td", {}, String(right.settings[name])))))))));
}

function sideNode(side, other) {
  const theirClaims = new Set(other.answer.claims.map((claim) => claim.text));
  const linked = (citation) => {
    const node = chip(citation, (place, opener) => openSource(place, opener));
    attachPreview(node, citation);
    return node;
  };
  return el("article", { class: "card side", "data-preset": side.preset, "aria-label": t("Preset {}", side.preset) },
    el("div", { class: "head" }, el("h2", {}, side.preset), el("a", { class: "push", href: `#/why/${side.answer.query_id}` }, t("Why?"))),
    el("div", { class: `answer ${side.answer.status}` }, renderAnswer(side.answer, { chip: linked, onlyHere: (claim) => !theirClaims.has(claim.text) })),
    renderAppraisal(side.answer),
    el("h3", {}, t("Passages read")),
    ranking(side, other),
    el("h3", {}, t("Changes by filter and reranker")),
    changes(side),
    el("p", { class: "muted" }, ms(side.answer.metadata.total_time_ms)));
}

/** Render the passages in order, each with its rank on the other side. */
function ranking(side, other) {
  const passages = new Map(side.passages.map((one) => [one.chunk_id, one]));
  const theirs = other.answer.used_chunks.map((one) => one.chunk_id);
  return el("ol", { class: "ranking" }, side.answer.used_chunks.map(({ chunk_id: id, relevance_score: score }, index) => {
    const passage = passages.get(id);
    const there = theirs.indexOf(id);
    const move = there < 0 ? { label: t("only here"), kind: "only" } : there === index ? { label: t("same rank"), kind: "same" }
      : there > index ? { label: `▲ ${there - index}`, kind: "up", say: t("{} higher than on the other side", there - index) } : { label: `▼ ${index - there}`, kind: "down", say: t("{} lower than on the other side", index - there) };
    return el("li", { class: there < 0 ? "only-here" : "" },
      el("span", { class: "rank" }, String(index + 1)),
      passage ? el("button", { type: "button", class: "link", onclick: (event) => openSource(passage, event.currentTarget) }, passageName(passage)) : el("span", {}, id),
      el("span", { class: `move move-${move.kind}`, title: move.say }, move.label),
      el("span", { class: "muted number" }, number(score, 3)));
  }));
}

export function passageName(passage) {
  const where = passage.heading_path?.at(-1) ?? (passage.page ? t("page {}", passage.page) : "");
  return `${passage.document_name}${where ? ` · ${shorten(where, 40)}` : ""}`;
}

/** Render for each stage how many passages went in, were dropped and moved. */
function changes(side) {
  const passages = new Map(side.passages.map((one) => [one.chunk_id, one]));
  const { stages, ids } = side.answer.trace.waterfall;
  const nameOf = (key) => { const passage = passages.get(ids[key]); return passage ? passageName(passage) : ids[key]; };
  const refine = stages.filter((one) => one.stage.startsWith("refine."));
  if (!refine.length) return el("p", { class: "muted" }, t("Nothing was refined."));
  return el("ul", { class: "changes" }, refine.map(({ stage: name, lines, cutoff }) => {
    const entries = Object.entries(lines);
    const kept = entries.filter(([, line]) => line.kept);
    const dropped = entries.filter(([, line]) => !line.kept);
    const moved = kept.filter(([, line]) => line.was && line.rank !== line.was && name === "refine.rerank");
    const detail = cutoff.threshold_used !== undefined ? ` ≥ ${number(cutoff.threshold_used)}` : cutoff.mmr_lambda !== undefined ? `, λ ${number(cutoff.mmr_lambda)}` : "";
    const says = [`${stage(name)}${detail}: ${entries.length} → ${kept.length}`, moved.length && t("{} moved", moved.length)].filter(Boolean).join(", ");
    if (!dropped.length && !moved.length) return el("li", {}, says);
    return el("li", {}, el("details", {}, el("summary", {}, says),
      el("ul", { class: "small" },
        moved.slice(0, 10).map(([key, line]) => el("li", {}, `${nameOf(key)}: ${line.was} → ${line.rank}`)),
        dropped.slice(0, 10).map(([key]) => el("li", { class: "muted" }, t("dropped: {}", nameOf(key)))),
        dropped.length > 10 && el("li", { class: "muted" }, t("and {} more", dropped.length - 10)))));
  }));
}
