// Shared: one answer that somebody sent a link to, with its sources, read-only.

import * as api from "./api.js";
import { el, failure, replace } from "./dom.js";
import { t, when } from "./text.js";
import { answerOfEntry, copyAnswer, renderTurn } from "./turn.js";

export function create() {
  const out = el("div", {});
  const about = el("span", { class: "muted" });
  const root = el("section", { class: "area shared" }, el("div", { class: "head" }, el("h1", { tabindex: "-1" }, t("Shared answer")), about), out);

  async function enter([token]) {
    replace(out, el("p", { class: "muted", role: "status" }, t("Opening…")));
    about.textContent = "";
    try {
      const entry = await api.get(`/v1/shared/${encodeURIComponent(token)}`);
      const answer = answerOfEntry(entry);
      const question = entry.query ?? t("The question was not stored.");
      const card = el("article", { class: "turn" });
      about.textContent = entry.owner && entry.owner !== "local" ? t("Asked {} by {}", when(entry.created_at), entry.owner) : t("Asked {}", when(entry.created_at));
      renderTurn(card, question, answer, { actions: [
        el("button", { type: "button", class: "quiet", onclick: () => copyAnswer(question, answer) }, t("Copy with citations")),
        el("a", { class: "button quiet", href: "#/ask" }, t("Ask a question of your own")),
      ] });
      replace(out, card);
    } catch (error) {
      replace(out, failure(error, () => enter([token])));
    }
  }

  return { root, title: t("Shared answer"), enter };
}
