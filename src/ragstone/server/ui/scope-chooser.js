// The dialog of where to search; loaded when it is opened.

import * as api from "./api.js";
import { el, failure, pathName, replace } from "./dom.js";
import { number, plural, t } from "./text.js";

const SHOWN = 200;
const BATCH = 1000;

/** Tick documents and tags in a dialog. `names` and `tags` are changed, `closed()` hears of the end. */
export async function chooseScope({ collection, names, tags, only, closed }) {
  const body = el("div", { class: "choices" }, el("p", { class: "muted" }, t("Loading…")));
  const find = el("input", { id: "find-source", type: "search", placeholder: t("Find by name or tag"), oninput: () => list() });
  const says = el("p", { class: "small muted", role: "status" });
  // At once, not with the event that comes later: by then the reader may be in the question.
  const finish = () => { if (!dialog.isConnected) return; dialog.remove(); closed(); };
  const close = () => { dialog.close(); finish(); };
  const dialog = el("dialog", { class: "dialog chooser", "aria-labelledby": "scope-title" },
    el("h2", { id: "scope-title" }, t("Where to search")),
    el("p", { class: "muted" }, t("Tick documents and tags; nothing ticked means all of them.")),
    el("label", { for: "find-source", class: "unseen" }, t("Find documents and tags")), find, says, body,
    el("div", { class: "row end" },
      el("button", { type: "button", class: "quiet", onclick: () => { names.clear(); tags.clear(); close(); } }, t("Search all documents")),
      el("button", { type: "button", class: "primary", onclick: close }, t("Done"))));
  dialog.addEventListener("close", finish);
  document.body.append(dialog);
  dialog.showModal();
  let documents = [];
  const tick = (set, value, label, extra) => el("li", {}, el("label", { class: "choice" },
    el("input", { type: "checkbox", checked: set.has(value), onchange: (event) => { if (event.target.checked) set.add(value); else set.delete(value); count(); } }), label), extra);
  const count = () => { says.textContent = names.size + tags.size ? t("Ticked: {}.", [names.size && plural(names.size, "document"), tags.size && plural(tags.size, "tag")].filter(Boolean).join(", ")) : ""; };
  const list = () => {
    const wanted = find.value.trim().toLowerCase();
    const all = [...new Set(documents.flatMap((one) => one.metadata.tags ?? []))].sort().filter((tag) => tag.toLowerCase().includes(wanted));
    const fit = documents.filter((one) => [one.name, ...(one.metadata.tags ?? [])].some((text) => text.toLowerCase().includes(wanted)));
    replace(body,
      all.length > 0 && el("section", {}, el("h3", {}, t("Tags")), el("ul", { class: "ticks tags" }, all.map((tag) => tick(tags, tag, tag)))),
      el("section", {}, el("h3", {}, t("Documents")), fit.length
        ? el("ul", { class: "ticks" }, fit.slice(0, SHOWN).map((one) => tick(names, one.name, pathName(one.name), el("button", { type: "button", class: "link small", "aria-label": t("Only this: {}", one.name), onclick: () => { close(); only(one.name); } }, t("Only this")))))
        : el("p", { class: "muted" }, t("No document matches.")),
      fit.length > SHOWN && el("p", { class: "muted small" }, t("{} more: type a part of the name.", number(fit.length - SHOWN)))));
  };
  try {
    for (let last = BATCH; last === BATCH;) {
      const batch = await api.get("/v1/documents", { collection, skip: documents.length, limit: BATCH });
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
