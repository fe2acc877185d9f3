// Explore the similarity threshold: which chunks it keeps, and how the scores are distributed.

import * as api from "./api.js";
import { shorten } from "./answer.js";
import { passageName } from "./compare.js";
import { el, failure, replace, svg } from "./dom.js";
import { openSource } from "./open.js";
import { number, plural, t } from "./text.js";

const WIDTH = 640;
const HEIGHT = 130;
const BIN = 0.0125;

export function thresholdExplorer(shared) {
  const input = el("input", { id: "threshold-question", type: "text", autocomplete: "off", placeholder: t("A question to search with"), maxlength: "1000" });
  const out = el("div", { class: "stack wide" });
  const form = el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); load(); } },
    el("div", { class: "stack grow" }, el("label", { for: input.id }, t("Question")), input),
    el("button", { type: "submit", class: "primary" }, t("Search")));

  async function load() {
    const query = input.value.trim();
    if (!query) { input.focus(); return; }
    replace(out, el("p", { class: "muted", role: "status" }, t("Searching…")));
    try {
      draw(await api.get("/v1/candidates", { query, collection: shared.collection, limit: 100 }));
    } catch (error) {
      replace(out, failure(error, load));
    }
  }

  function draw(found) {
    const hits = found.candidates.map((one) => ({ ...one, similarity: one.scores.similarity ?? 0 })).sort((a, b) => b.similarity - a.similarity);
    if (!hits.length) { replace(out, el("p", { class: "muted" }, t("Nothing was found in this collection."))); return; }
    const slider = el("input", { id: "threshold", type: "range", min: "0", max: "1", step: "0.01", value: String(found.min_similarity), oninput: () => update() });
    const value = el("output", { for: "threshold", class: "threshold-value" });
    const says = el("p", { role: "status" });
    const rule = svg("line", { y1: 0, y2: HEIGHT - 18, class: "rule" });
    // Dots of similar scores are stacked, so that the height shows where most of the scores are.
    const heap = new Map();
    const heights = hits.map((hit) => { const bin = Math.round(hit.similarity / BIN); heap.set(bin, (heap.get(bin) ?? 0) + 1); return heap.get(bin); });
    const tall = Math.min(8, (HEIGHT - 28) / Math.max(...heights));
    const dots = hits.map((hit, index) => svg("circle", { cx: Math.round(hit.similarity / BIN) * BIN * WIDTH, cy: HEIGHT - 22 - (heights[index] - 0.5) * tall, r: 3.4, class: "dot" }, svg("title", {}, `${passageName(hit)}: ${number(hit.similarity, 3)}`)));
    const rows = hits.map((hit) => el("li", { class: "candidate" },
      el("span", { class: "number" }, number(hit.similarity, 3)),
      el("span", {}, el("button", { type: "button", class: "link", onclick: (event) => openSource(hit, event.currentTarget) }, passageName(hit)),
        el("span", { class: "snippet" }, shorten(hit.text, 150))),
      el("span", { class: "state" })));

    function update() {
      const threshold = Number(slider.value);
      const passing = hits.filter((hit) => hit.similarity >= threshold).length;
      const floor = passing < found.min_chunks;
      value.textContent = number(threshold, 2);
      rule.setAttribute("x1", threshold * WIDTH);
      rule.setAttribute("x2", threshold * WIDTH);
      hits.forEach((hit, index) => {
        const state = hit.similarity >= threshold ? "stays" : floor && index < found.min_chunks ? "floor" : "goes";
        dots[index].setAttribute("class", `dot ${state}`);
        rows[index].className = `candidate ${state}`;
        rows[index].lastChild.textContent = { stays: t("kept"), floor: t("kept as the minimum"), goes: t("dropped") }[state];
      });
      says.textContent = [t("At {}: {} of {} kept.", number(threshold, 2), passing, plural(hits.length, "candidate")), floor && t("Fewer than refine.min_chunks: the best {} are kept.", Math.min(found.min_chunks, hits.length))].filter(Boolean).join(" ");
    }

    replace(out,
      el("div", { class: "row" }, el("label", { for: "threshold" }, t("Similarity threshold")), value, el("span", { class: "muted push" }, t("Current setting: {}", number(found.min_similarity)))),
      slider,
      svg("svg", { viewBox: `-6 0 ${WIDTH + 12} ${HEIGHT}`, class: "plot strip", role: "img", "aria-label": t("Similarities from {} to {}", number(hits.at(-1).similarity, 2), number(hits[0].similarity, 2)) },
        svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 18, y2: HEIGHT - 18, class: "axis" }),
        [0, 0.2, 0.4, 0.6, 0.8, 1].map((tick) => svg("text", { x: tick * WIDTH, y: HEIGHT - 4, class: "tick middle" }, number(tick))),
        rule, dots),
      says,
      el("ol", { class: "candidates" }, rows));
    update();
  }

  return { node: el("div", { class: "card" }, el("h2", {}, t("Threshold explorer")), el("p", { class: "muted" }, t("Move the threshold to see which chunks are kept and how the scores are distributed.")), form, out), input };
}
