// Choose where to search: ticked documents and tags, or only one document.

import * as api from "./api.js";
import { announce, baseName, el, failure, pathName, plural, replace } from "./dom.js";

const SHOWN = 200;
const BATCH = 1000;

/** Build the row above the question; `filters()` is what the server gets. */
export function createScope(shared, focusQuestion) {
  const names = new Set();
  const tags = new Set();
  const open = el("button", { type: "button", class: "link scope-open", onclick: () => choose() });
  const chips = el("ul", { class: "row scope-chips", "aria-label": "Searched documents and tags" });
  const row = el("div", { class: "row scope" }, open, chips);
  let collection = shared.collection;

  function draw() {
    open.textContent = names.size + tags.size ? "Search in:" : "Search in: all documents";
    const chip = (set, value, label) => el("li", { class: "tag" }, label, el("button", { type: "button", class: "icon", "aria-label": `Search not only in ${value}`, onclick: () => { set.delete(value); draw(); open.focus(); } }, "×"));
    const shown = [...names].slice(0, 3);
    replace(chips, [...tags].map((tag) => chip(tags, tag, `tag: ${tag}`)), shown.map((name) => chip(names, name, baseName(name))),
      names.size > shown.length && el("li", { class: "muted small" }, `and ${names.size - shown.length} more`));
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
    announce(`Questions are answered from ${name} alone.`);
    focusQuestion();
  }

  async function choose() {
    const body = el("div", { class: "choices" }, el("p", { class: "muted" }, "Loading…"));
    const find = el("input", { id: "find-source", type: "search", placeholder: "Find by name or tag", oninput: () => list() });
    const says = el("p", { class: "small muted", role: "status" });
    const close = () => { dialog.close(); };
    const dialog = el("dialog", { class: "dialog chooser", "aria-labelledby": "scope-title" },
      el("h2", { id: "scope-title" }, "Where to search"),
      el("p", { class: "muted" }, "Tick documents and tags; nothing ticked means all of them."),
      el("label", { for: "find-source", class: "unseen" }, "Find documents and tags"), find, says, body,
      el("div", { class: "row end" },
        el("button", { type: "button", class: "quiet", onclick: () => { names.clear(); tags.clear(); close(); } }, "Search all documents"),
        el("button", { type: "button", class: "primary", onclick: close }, "Done")));
    dialog.addEventListener("close", () => { dialog.remove(); draw(); open.focus(); });
    document.body.append(dialog);
    dialog.showModal();
    let documents = [];
    const tick = (set, value, label, extra) => el("li", {}, el("label", { class: "choice" },
      el("input", { type: "checkbox", checked: set.has(value), onchange: (event) => { if (event.target.checked) set.add(value); else set.delete(value); count(); } }), label), extra);
    const count = () => { says.textContent = names.size + tags.size ? `Ticked: ${[names.size && plural(names.size, "document"), tags.size && plural(tags.size, "tag")].filter(Boolean).join(" and ")}.` : ""; };
    const list = () => {
      const wanted = find.value.trim().toLowerCase();
      const all = [...new Set(documents.flatMap((one) => one.metadata.tags ?? []))].sort().filter((tag) => tag.toLowerCase().includes(wanted));
      const fit = documents.filter((one) => [one.name, ...(one.metadata.tags ?? [])].some((text) => text.toLowerCase().includes(wanted)));
      replace(body,
        all.length > 0 && el("section", {}, el("h3", {}, "Tags"), el("ul", { class: "ticks tags" }, all.map((tag) => tick(tags, tag, tag)))),
        el("section", {}, el("h3", {}, "Documents"), fit.length
          ? el("ul", { class: "ticks" }, fit.slice(0, SHOWN).map((one) => tick(names, one.name, pathName(one.name), el("button", { type: "button", class: "link small", "aria-label": `Only this: ${one.name}`, onclick: () => { close(); only(one.name); } }, "Only this"))))
          : el("p", { class: "muted" }, "No document matches."),
        fit.length > SHOWN && el("p", { class: "muted small" }, `${(fit.length - SHOWN).toLocaleString()} more: type a part of the name.`)));
    };
    try {
      for (let last = BATCH; last === BATCH;) {
        const batch = await api.get("/v1/documents", { collection: shared.collection, skip: documents.length, limit: BATCH });
        documents = [...documents, ...batch];
        last = batch.length;
      }
      documents = documents.filter((one) => one.status === "indexed");
      list();
      count();
    } catch (error) {
      replace(body, failure(error));
    }
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
