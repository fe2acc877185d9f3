// Insight: what was asked, how well it was answered, what was not, and the threshold explorer.

import * as api from "./api.js";
import { shortened } from "./answer.js";
import { el, empty, failure, ms, percent, replace, when } from "./dom.js";
import { bars, lanes } from "./plots.js";
import { thresholdExplorer } from "./thresholds.js";
import { stage } from "./words.js";

const PAGE = 20;

export function create(shared) {
  const figures = el("div", { class: "stack wide" });
  const past = el("div", { class: "card" });
  const explorer = thresholdExplorer(shared);
  const root = el("section", { class: "area wide insight" },
    el("div", { class: "head" }, el("h1", { tabindex: "-1" }, "Insight"), el("span", { class: "muted" }, "What is asked, and how well it is answered")),
    figures, explorer.node, past);
  document.addEventListener("ragstone:collection", () => { if (root.isConnected && !root.hidden) enter(); });

  async function enter() {
    await Promise.all([analytics(figures, shared.collection), history(past, 0)]);
  }

  return { root, title: "Insight", enter };
}

async function history(out, skip) {
  try {
    const found = await api.get("/v1/queries", { skip, limit: PAGE });
    const entries = found.items ?? found.queries ?? found;
    if (!entries.length && !skip) {
      replace(out, el("h2", {}, "History"), empty("Nothing was asked yet", "Questions appear here with their answers.", el("a", { class: "button primary", href: "#/ask" }, "Ask a question")));
      return;
    }
    const turn = (to) => history(out, Math.max(0, to));
    replace(out, el("h2", {}, "History"),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "History" }, el("table", { class: "history" },
        el("thead", {}, el("tr", {}, ["Question", "Answer", "Confidence", "Time", "Asked", ""].map((name) => el("th", { scope: "col" }, name || el("span", { class: "unseen" }, "Why"))))),
        el("tbody", {}, entries.map((one) => el("tr", {},
          el("th", { scope: "row" }, one.query ? el("a", { href: `#/ask/${encodeURIComponent(one.query)}` }, shortened(one.query, 110)) : el("span", { class: "muted" }, "not logged")),
          el("td", { class: one.status === "abstained" ? "muted" : "" }, one.status === "abstained" ? "no answer" : shortened((one.answer ?? "").replace(/\s*\[Source \d+\]/g, ""), 130)),
          el("td", { class: "number" }, one.status === "abstained" ? "–" : percent(one.confidence ?? 0)),
          el("td", { class: "number" }, one.trace?.total_ms !== undefined ? ms(one.trace.total_ms) : one.total_ms !== undefined ? ms(one.total_ms) : ""),
          el("td", { class: "muted date" }, when(one.created_at)),
          el("td", {}, el("a", { href: `#/why/${one.query_id}` }, "Why?"))))))),
      el("div", { class: "row" },
        el("button", { type: "button", class: "quiet", disabled: skip === 0, onclick: () => turn(skip - PAGE) }, "Newer"),
        el("button", { type: "button", class: "quiet", disabled: entries.length < PAGE, onclick: () => turn(skip + PAGE) }, "Older")));
  } catch (error) {
    replace(out, failure(error, () => history(out, skip)));
  }
}

async function analytics(out, collection) {
  try {
    const found = await api.get("/v1/analytics", { collection });
    replace(out, el("pre", {}, JSON.stringify(found, null, 1)));
  } catch (error) {
    replace(out, failure(error));
  }
  void [bars, lanes, stage];
}
