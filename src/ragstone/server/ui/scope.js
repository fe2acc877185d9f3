// Choose where to search: ticked documents and tags, or only one document.

import { announce, baseName, el, replace } from "./dom.js";
import { number, t } from "./text.js";

/** Build the row above the question; `filters()` is what the server gets. */
export function createScope(shared, focusQuestion) {
  const names = new Set();
  const tags = new Set();
  const open = el("button", { type: "button", class: "link scope-open", onclick: () => choose() });
  const chips = el("ul", { class: "row scope-chips", "aria-label": t("Searched documents and tags") });
  const row = el("div", { class: "row scope" }, open, chips);
  let collection = shared.collection;

  function draw() {
    open.textContent = names.size + tags.size ? t("Search in:") : t("Search in: all documents");
    const chip = (set, value, label) => el("li", { class: "tag" }, label, el("button", { type: "button", class: "icon", "aria-label": t("Search not only in {}", value), onclick: () => { set.delete(value); draw(); open.focus(); } }, "×"));
    const shown = [...names].slice(0, 3);
    replace(chips, [...tags].map((tag) => chip(tags, tag, t("tag: {}", tag))), shown.map((name) => chip(names, name, baseName(name))),
      names.size > shown.length && el("li", { class: "muted small" }, t("and {} more", number(names.size - shown.length))));
  }

  /** Forget the choice: it belongs to one collection. */
  function reset() {
    if (collection === shared.collection) return;
    collection = shared.collection;
    names.clear();
    tags.clear();
    draw();
  }

  function only(name) {
    names.clear();
    tags.clear();
    names.add(name);
    draw();
    announce(t("Questions are answered from {} alone.", name));
    focusQuestion();
  }

  async function choose() {
    (await import("./scope-chooser.js")).chooseScope({ collection: shared.collection, names, tags, only, closed: () => { draw(); open.focus(); } });
  }

  draw();
  return {
    row, reset, only,
    filters() {
      const parts = [names.size && { document_name: [...names] }, tags.size && { tags: [...tags] }].filter(Boolean);
      return parts.length > 1 ? { or: parts } : parts[0];
    },
  };
}
