// Documents: list, add and delete documents, with their versions and tags.

import * as api from "./api.js";
import { announce, baseName, confirmFirst, el, empty, failure, pathName, replace, toast } from "./dom.js";
import { kindOf } from "./kinds.js";
import { openSource } from "./open.js";
import { number, plural, t, when } from "./text.js";
import { upload } from "./upload.js";
import { createWatched } from "./watched.js";

const BATCH = 1000;
const ROWS = 200;
export function create(shared) {
  const list = el("div", {});
  const queue = el("ul", { class: "queue", "aria-label": t("Uploads") });
  const files = el("input", { id: "files", type: "file", multiple: true, class: "unseen", onchange: () => { send([...files.files]); files.value = ""; } });
  const tags = el("input", { id: "tags", type: "text", placeholder: "contract, 2026", autocomplete: "off" });
  const target = el("input", { id: "target", type: "text", list: "collections", autocomplete: "off", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,99}" });
  const password = el("input", { id: "password", type: "password", autocomplete: "off" });
  const known = el("datalist", { id: "collections" });
  const find = el("input", { id: "find", type: "search", placeholder: t("Find by name or tag"), oninput: () => draw() });
  const tagBar = el("div", { class: "row tags", role: "group", "aria-label": t("Filter by tag") });
  const zone = el("div", { class: "drop" },
    el("p", {}, el("strong", {}, t("Drop files here")), " ", t("or"), " ", el("label", { for: "files", class: "button primary" }, t("choose files")), files),
    el("p", { class: "muted" }, t("Office files, PDF, HTML, mail, Markdown, text, tables, code, and archives of these.")),
    el("div", { class: "row middle" },
      el("div", { class: "stack" }, el("label", { for: "target" }, t("Into collection")), target, known),
      el("div", { class: "stack" }, el("label", { for: "tags" }, t("Tags, separated by commas")), tags),
      el("div", { class: "stack" }, el("label", { for: "password" }, t("Password, for protected files")), password)),
    importForm());
  const dropAll = el("button", { type: "button", class: "link bad push", hidden: true, onclick: () => deleteCollection() }, t("Delete collection"));
  const watched = createWatched({ isShown: () => root.isConnected && !root.hidden, changed: (name) => { if (name === shared.collection) load(); } });
  const root = el("section", { class: "area documents" },
    el("div", { class: "head" }, el("h1", { tabindex: "-1" }, t("Documents")), el("span", { class: "muted count", role: "status" }), dropAll),
    zone, queue, watched.node,
    el("div", { class: "row bar" }, el("label", { for: "find", class: "unseen" }, t("Find documents")), find, tagBar),
    list);
  let held = [];
  let chosenTag = "";
  let shown = ROWS;
  const leaving = new Map();
  const closed = new Set();
  const unfolded = new Set();
  let edited = null; // the document whose tags are being typed, and the text so far

  const drag = (on) => (event) => { event.preventDefault(); zone.classList.toggle("over", on); };
  root.addEventListener("dragenter", drag(true));
  root.addEventListener("dragover", drag(true));
  root.addEventListener("dragleave", (event) => { if (!root.contains(event.relatedTarget)) drag(false)(event); });
  root.addEventListener("drop", (event) => { drag(false)(event); send([...event.dataTransfer.files]); });
  document.addEventListener("ragstone:collection", () => { if (!root.hidden && root.isConnected) load(); });
  // Delete what was not undone, also when the page is closed at once.
  window.addEventListener("pagehide", () => { for (const id of leaving.keys()) api.remove(`/v1/documents/${id}`, { keepalive: true }).catch(() => {}); });

  /** Offer to read a document from a URL, where the server allows some hosts. */
  function importForm() {
    const says = el("p", { class: "muted small", role: "status" });
    const url = el("input", { id: "import-url", type: "url", required: true, autocomplete: "off", placeholder: t("Address of the page or file") });
    const go = el("button", { type: "submit", class: "quiet" }, t("Import"));
    const submit = async (event) => {
      event.preventDefault();
      go.disabled = true;
      replace(says, t("Reading the URL…"));
      try {
        const done = await api.post("/v1/imports", { url: url.value.trim(), collection: target.value.trim() || shared.collection, tags: tags.value.split(",").map((tag) => tag.trim()).filter(Boolean) });
        const [one] = done.documents;
        const [bad] = done.failed;
        replace(says, one ? t("Added: {}, {}.", one.name, plural(one.chunk_count, "passage")) : `${bad.error} ${bad.hint}`);
        if (one) { url.value = ""; await shared.refreshCollections(); await load(); }
      } catch (error) {
        replace(says, el("strong", {}, error.message), ` ${error.hint ?? ""}`);
      }
      go.disabled = false;
    };
    const form = el("form", { class: "import", hidden: true, onsubmit: submit }, el("label", { for: "import-url" }, t("Or read a document from a URL")), el("div", { class: "row middle" }, url, go), says);
    api.get("/v1/imports").then(({ hosts }) => { form.hidden = !hosts.length; replace(says, t("Allowed: {}", hosts.join(", "))); }).catch(() => {});
    return form;
  }

  async function load() {
    target.value = shared.collection;
    replace(known, shared.collections.map((name) => el("option", { value: name })));
    try {
      const collection = shared.collection;
      const found = [];
      for (let last = BATCH; last === BATCH;) {
        const batch = await api.get("/v1/documents", { collection, skip: found.length, limit: BATCH });
        found.push(...batch);
        last = batch.length;
      }
      if (collection !== shared.collection) return;
      held = found;
      shown = ROWS;
      draw();
    } catch (error) {
      replace(list, failure(error, load));
    }
  }

  function draw() {
    const isTyping = document.activeElement?.classList.contains("tag-field");
    const here = held.filter((one) => !leaving.has(one.id));
    const wanted = find.value.trim().toLowerCase();
    const all = [...new Set(here.flatMap((one) => one.metadata.tags ?? []))].sort();
    if (!all.includes(chosenTag)) chosenTag = "";
    replace(tagBar, all.map((tag) => el("button", { type: "button", class: "tag", "aria-pressed": String(tag === chosenTag),
      onclick: () => { chosenTag = tag === chosenTag ? "" : tag; draw(); } }, tag)));
    const fit = here.filter((one) => (!chosenTag || one.metadata.tags?.includes(chosenTag))
      && (!wanted || [one.name, ...(one.metadata.tags ?? [])].some((text) => text.toLowerCase().includes(wanted))));
    const failed = here.filter((one) => one.status === "failed").length;
    root.querySelector(".count").textContent = [t("{} in “{}”", plural(here.length - failed, "document"), shared.collection), failed && t("{} could not be read", failed)].filter(Boolean).join(", ");
    find.parentElement.hidden = dropAll.hidden = here.length === 0;
    if (!here.length) {
      replace(list, empty(t("No documents yet"), t("Drop files above, or try the sample documents of a small, invented observatory: contracts, manuals, minutes."),
        el("button", { type: "button", class: "quiet", onclick: (event) => samples(event.currentTarget) }, t("Add the sample documents"))));
      return;
    }
    replace(list, fit.length ? table(fit.slice(0, shown), !wanted && !chosenTag) : el("p", { class: "muted" }, t("No document matches.")),
      fit.length > shown && el("button", { type: "button", class: "quiet more", onclick: () => { shown += ROWS; draw(); } }, t("Show more of {}", number(fit.length))));
    if (isTyping) list.querySelector(".tag-field")?.focus();
  }

  function table(documents, isWhole) {
    const rows = isWhole && documents.some((one) => one.name.includes("/")) ? tree(documents) : documents.map((one) => row(one, pathName(one.name), 0));
    return el("div", { class: "scroll", role: "region", "aria-label": t("Documents"), tabindex: "0" }, el("table", { class: "documents-table" },
      el("thead", {}, el("tr", {}, [t("Name"), t("Kind"), t("Passages"), t("Tags"), t("Added"), ""].map((name) => el("th", { scope: "col" }, name || el("span", { class: "unseen" }, t("Actions")))))),
      el("tbody", {}, rows)));
  }

  /** List the folders in order, each with its documents below it, unless it is closed. */
  function tree(documents) {
    const inside = Map.groupBy(documents.flatMap((one) => one.name.split("/").slice(0, -1).map((_, depth, parts) => parts.slice(0, depth + 1).join("/"))), (path) => path);
    const shownFolders = new Set();
    const rows = [];
    for (const one of documents.toSorted((a, b) => compareNames(a.name, b.name))) {
      const parts = one.name.split("/");
      let hidden = false;
      for (let depth = 0; depth < parts.length - 1 && !hidden; depth += 1) {
        const path = parts.slice(0, depth + 1).join("/");
        if (!shownFolders.has(path)) { shownFolders.add(path); rows.push(folderRow(path, parts[depth], depth, inside.get(path).length)); }
        hidden = closed.has(path);
      }
      if (!hidden) rows.push(row(one, parts.at(-1), parts.length - 1));
    }
    return rows;
  }

  function folderRow(path, name, depth, count) {
    const open = !closed.has(path);
    const button = el("button", { type: "button", class: "link name", "aria-expanded": String(open), onclick: () => {
      if (open) closed.add(path); else closed.delete(path);
      draw();
      list.querySelector(`[data-folder="${CSS.escape(path)}"]`)?.focus();
    }, "data-folder": path }, el("span", { "aria-hidden": "true" }, open ? "▾ " : "▸ "), `${name}/`, el("span", { class: "muted small" }, ` ${plural(count, "document")}`));
    return el("tr", { class: "folder-row" }, indented(el("th", { scope: "row", colspan: "6" }, button), depth));
  }

  function indented(cell, depth) {
    if (depth) cell.style.paddingInlineStart = `${0.8 + Math.min(depth, 6) * 1.2}rem`;
    return cell;
  }

  function row(one, label, depth) {
    const place = { document_id: one.id, document_name: one.name, start: 0, end: 0 };
    const under = el("tr", { class: "under", hidden: true }, el("td", { colspan: "6" }));
    const versions = el("button", { type: "button", class: "link", "aria-expanded": "false", onclick: () => toggleVersions(one, versions, under) }, t("Versions"));
    const failed = one.status === "failed";
    if (unfolded.has(one.name)) toggleVersions(one, versions, under);
    const tagCell = el("td", { "data-label": t("Tags") });
    const edit = () => {
      edited = { id: one.id, text: (one.metadata.tags ?? []).join(", ") };
      draw();
      list.querySelector(".tag-field")?.focus();
    };
    replace(tagCell, (one.metadata.tags ?? []).map((tag) => el("span", { class: "tag" }, tag)), !failed && el("button", { type: "button", class: "link small", "aria-label": t("Edit tags of {}", one.name), onclick: edit }, t("Edit tags")));
    if (edited?.id === one.id) editTags(one, tagCell);
    return [el("tr", { class: failed ? "failed" : "" },
      indented(el("th", { scope: "row" },
        failed ? el("span", { class: "name" }, label)
          : el("button", { type: "button", class: "link name", "aria-label": one.name, onclick: (event) => openSource(place, event.currentTarget) }, el("span", {}, label)),
        failed && el("p", { class: "reason" }, `${t("Could not be read:")} ${one.error} ${one.hint ?? ""}`)), depth),
      el("td", { "data-label": t("Kind") }, kindOf(one.media_type, one.name)),
      el("td", { class: "number", "data-label": t("Passages") }, failed ? "–" : number(one.chunk_count)),
      tagCell,
      el("td", { class: "muted date", "data-label": t("Added") }, when(one.created_at)),
      el("td", {}, el("div", { class: "row end" },
        !failed && el("button", { type: "button", class: "link", "aria-label": t("Ask only {}", one.name), onclick: () => document.dispatchEvent(new CustomEvent("ragstone:only", { detail: one.name })) }, t("Ask")),
        versions, el("button", { type: "button", class: "link bad", "aria-label": t("Delete {}", one.name), onclick: () => deleteDocument(one) }, t("Delete"))))), under];
  }

  /** Draw the field of the document whose tags are being edited: one at a time. */
  function editTags(one, cell) {
    const own = edited;
    const field = el("input", { type: "text", value: own.text, disabled: Boolean(own.isSaved), "aria-label": t("Tags of {}, separated by commas", one.name), class: "tag-field" });
    const done = async (save) => {
      const wanted = field.value.split(",").map((tag) => tag.trim()).filter(Boolean);
      if (save) {
        field.disabled = own.isSaved = true;
        try {
          const saved = await api.patch(`/v1/documents/${one.id}`, { tags: wanted });
          (held.find((other) => other.id === one.id) ?? one).metadata = saved.metadata;
          announce(wanted.length ? t("The tags of {} are {}.", one.name, wanted.join(", ")) : t("The tags of {} are removed.", one.name));
        } catch (error) {
          toast(t("The tags could not be changed: {}", error.message), { kind: "bad" });
        }
      }
      const isLast = edited === own;
      if (isLast) edited = null;
      draw();
      if (isLast) list.querySelector(`[aria-label="${CSS.escape(t("Edit tags of {}", one.name))}"]`)?.focus();
    };
    field.addEventListener("input", () => { own.text = field.value; });
    field.addEventListener("keydown", (event) => {
      if (event.isComposing) return; // Enter chooses a character
      if (event.key === "Enter") done(true);
      if (event.key === "Escape") done(false);
    });
    replace(cell, el("div", { class: "row" }, field, el("button", { type: "button", class: "link", onclick: () => done(true) }, t("Save")), el("button", { type: "button", class: "link", onclick: () => done(false) }, t("Cancel"))));
  }

  async function toggleVersions(one, button, under) {
    const open = under.hidden;
    button.setAttribute("aria-expanded", String(open));
    under.hidden = !open;
    // By name: it stays open when a new version replaces the document.
    if (!open) { unfolded.delete(one.name); return; }
    unfolded.add(one.name);
    try {
      const found = await api.get(`/v1/documents/${one.id}/versions`);
      replace(under.firstChild, el("ul", { class: "versions" }, found.map((version, index) => el("li", {},
        el("button", { type: "button", class: "link", onclick: (event) => openSource({ document_id: version.id, document_name: version.name, start: 0, end: 0 }, event.currentTarget) },
          t("Version {}", found.length - index)),
        ` ${when(version.created_at)}, ${version.sha256.slice(0, 10)} `,
        version.retired_at ? el("span", { class: "muted" }, t("replaced {}; readable until it expires", when(version.retired_at))) : el("span", { class: "verdict verdict-supported" }, t("current"))))));
    } catch (error) {
      replace(under.firstChild, failure(error));
    }
  }

  async function deleteDocument(one) {
    if (!await confirmFirst(t("Delete this document?"), t("“{}” and everything made from it is deleted: its text, its passages and the file itself.", one.name), t("Delete"))) return;
    leaving.set(one.id, one);
    draw();
    announce(t("{} is deleted.", one.name));
    const back = await toast(t("“{}” is deleted.", baseName(one.name)), { action: t("Undo"), seconds: 6 });
    if (!leaving.delete(one.id)) return;
    if (!back) {
      try {
        await api.remove(`/v1/documents/${one.id}`);
        held = held.filter((other) => other.id !== one.id);
      } catch (error) {
        toast(t("“{}” could not be deleted: {}", baseName(one.name), error.message), { kind: "bad" });
      }
    }
    draw();
  }

  async function deleteCollection() {
    const name = shared.collection;
    if (!await confirmFirst(t("Delete the whole collection?"), t("“{}” is deleted with {}, its conversations and its history. This cannot be undone.", name, plural(held.length, "document")), t("Delete everything"))) return;
    try {
      await api.remove(`/v1/collections/${encodeURIComponent(name)}`);
      toast(t("The collection “{}” is deleted.", name));
      shared.collection = shared.collections.find((other) => other !== name) ?? "default";
    } catch (error) {
      toast(t("The collection could not be deleted: {}", error.message), { kind: "bad" });
    }
    await shared.refreshCollections();
    await load();
  }

  async function samples(button) {
    button.disabled = true;
    button.textContent = t("Reading the samples…");
    try {
      const added = await api.post("/v1/samples", { collection: shared.collection });
      announce(t("{} added.", plural(added.documents, "sample document")));
      await shared.refreshCollections();
    } catch (error) {
      toast(error.message, { kind: "bad" });
    }
    await load();
  }

  async function send(chosen) {
    if (!chosen.length) return;
    const collection = target.value.trim() || shared.collection;
    if (!target.checkValidity()) { toast(t("Invalid collection name. Use letters, digits, dots, dashes and underscores."), { kind: "bad" }); target.focus(); return; }
    await upload(chosen, { collection, tags: tags.value, password: password.value }, queue);
    await shared.refreshCollections();
    shared.collection = collection;
    await load();
  }

  return { root, title: t("Documents"), enter: () => Promise.all([load(), watched.load()]) };
}

/** Put the files of a folder before its folders, as file managers do. */
function compareNames(a, b) {
  const [left, right] = [a.split("/"), b.split("/")];
  const depth = left.findIndex((part, index) => part !== right[index]);
  if (depth < 0) return left.length - right.length;
  const [leftEnds, rightEnds] = [depth === left.length - 1, depth === right.length - 1];
  if (leftEnds !== rightEnds) return leftEnds ? -1 : 1;
  return left[depth].localeCompare(right[depth] ?? "", undefined, { numeric: true });
}
