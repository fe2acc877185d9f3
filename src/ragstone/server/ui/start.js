// The start page: what the collection holds, its topics, and questions to begin with.

import * as api from "./api.js";
import { renderAnswer } from "./answer.js";
import { el, empty, failure, pathName, replace, toast } from "./dom.js";
import { openSource } from "./open.js";
import { plural, t, when } from "./text.js";
import { linkedChip } from "./turn.js";

/** Return a function that fills `start`. `isWanted()` is false as soon as something was asked. */
export function createStart(start, { shared, ask, isWanted }) {
  let latest = 0;

  async function show() {
    const mine = ++latest;
    const collection = shared.collection;
    const isCurrent = () => mine === latest && isWanted() && collection === shared.collection;
    let count = 0;
    try {
      count = (await api.get("/v1/collections")).find((one) => one.name === collection)?.documents ?? 0;
    } catch (error) {
      if (isCurrent()) replace(start, error.status === 401 ? null : failure(error, show));
      return;
    }
    if (!isCurrent()) return;
    if (!count) {
      replace(start, empty(t("No documents to search yet"), t("The collection “{}” has no documents. Add your own, or start with the sample documents of a small observatory.", collection),
        el("a", { class: "button primary", href: "#/documents" }, t("Add documents")),
        el("button", { type: "button", class: "quiet", onclick: (event) => samples(event.currentTarget) }, t("Use the sample documents"))));
      return;
    }
    const more = el("div", { class: "overview" }, el("p", { class: "muted", role: "status" }, t("Reading the documents for an overview…")));
    replace(start, el("div", { class: "welcome" },
      el("p", { class: "lead" }, t("Ask in your own words. Every sentence of the answer is checked against its source.")),
      el("p", { class: "muted" }, t("{} in “{}”.", plural(count, "document"), collection))), more);
    try {
      const overview = await api.get(`/v1/collections/${encodeURIComponent(collection)}/overview`);
      if (isCurrent()) replace(more, sections(overview));
    } catch {
      if (isCurrent()) replace(more); // a question can be asked without it
    }
  }

  function sections({ questions, topics, about, recent, failed }) {
    const choose = (text, label = text, kind = "example") => el("li", {}, el("button", { type: "button", class: kind, onclick: () => ask(text) }, label));
    return [
      questions.length > 0 && el("section", {}, el("h2", {}, t("Suggested questions")),
        el("ul", { class: "examples", "aria-label": t("Suggested questions") }, questions.map((text) => choose(text)))),
      topics.length > 1 && el("section", {}, el("h2", {}, t("Topics")),
        el("ul", { class: "topics", "aria-label": t("Topics") }, topics.map((topic) => choose(t("Summarize {}", topic), topic, "tag")))),
      about?.status === "answered" && el("details", { class: "about" }, el("summary", {}, t("What the documents are about, in their own words")),
        el("div", { class: "answer markdown" }, renderAnswer({ ...about, claims: [] }, { chip: linkedChip }))),
      el("section", {}, el("h2", {}, t("Added last")),
        el("ul", { class: "recent" }, recent.map((one) => el("li", {},
          el("button", { type: "button", class: "link", onclick: (event) => openSource({ document_id: one.id, document_name: one.name, start: 0, end: 0 }, event.currentTarget) }, pathName(one.name)),
          el("span", { class: "muted small" }, when(one.created_at)))))),
      failed > 0 && el("p", { class: "notice warn" }, el("span", {}, t("{} could not be read.", plural(failed, "document")), " ", el("a", { href: "#/documents" }, t("See why")))),
    ];
  }

  async function samples(button) {
    button.disabled = true;
    button.textContent = t("Reading the samples…");
    try {
      const added = await api.post("/v1/samples", { collection: shared.collection });
      toast(t("{} can be searched now.", plural(added.documents, "sample document")));
      await shared.refreshCollections();
    } catch (error) {
      toast(error.message, { kind: "bad" });
    }
    await show();
  }

  return show;
}
