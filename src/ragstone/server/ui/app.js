// Show the chosen area of the page, the list of collections and the theme.

import * as api from "./api.js";
import { el, replace } from "./dom.js";
import { closeSource, openSource } from "./open.js";
import { loadTexts, t } from "./text.js";

const AREAS = {
  ask: () => import("./ask.js"),
  shared: () => import("./shared.js"),
  documents: () => import("./documents.js"),
  compare: () => import("./compare.js"),
  why: () => import("./why.js"),
  insight: () => import("./insight.js"),
  settings: () => import("./settings.js"),
};
// A conversation is opened in the area where one asks.
const ALIASES = { chat: "ask" };
// The stylesheet of the areas that are not needed to ask a question.
const PLAIN = new Set(["ask", "shared"]);
const main = document.getElementById("main");
const picker = document.getElementById("collection");
const banner = document.getElementById("banner");
const built = new Map();
const counts = new Map();
let shown = "";

/** State that all areas share. */
export const shared = {
  get collection() {
    return picker.value || "default";
  },
  set collection(name) {
    if (![...picker.options].some((option) => option.value === name)) picker.append(el("option", { value: name }, name));
    picker.value = name;
    saveCollection();
  },
  refreshCollections,
  /** The number of searchable documents of a collection, if it is known. */
  documentCount: (name) => counts.get(name),
  get collections() {
    return [...picker.options].map((option) => option.value);
  },
};

function saveCollection() {
  sessionStorage.setItem("ragstone.collection", picker.value);
  document.dispatchEvent(new CustomEvent("ragstone:collection", { detail: picker.value }));
}

async function refreshCollections() {
  const wanted = sessionStorage.getItem("ragstone.collection") || picker.value || "default";
  let names = [];
  try {
    const found = await api.get("/v1/collections");
    names = found.map((one) => one.name);
    counts.clear();
    for (const one of found) counts.set(one.name, one.documents);
  } catch {
    names = shared.collections; // each area shows the error itself
  }
  const all = [...new Set(["default", ...names, wanted])];
  replace(picker, all.map((name) => el("option", { value: name }, name)));
  // A first visit opens a collection with documents, not an empty default.
  const isKnown = names.includes(wanted) || wanted !== "default";
  picker.value = isKnown || names.length === 0 ? wanted : names[0];
}

let style = null;

function loadStyle() {
  style ??= new Promise((resolve) => {
    const link = el("link", { rel: "stylesheet", href: "/ui/areas.css", onload: resolve, onerror: resolve });
    document.head.append(link);
  });
  return style;
}

function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // an address with a stray %
  }
}

async function route() {
  const [, name = "ask", ...rest] = location.hash.split("/");
  if (name === "source") { await showPlace(rest.map(decodePart)); return; }
  const wanted = Object.hasOwn(ALIASES, name) ? ALIASES[name] : name;
  const isKnown = Object.hasOwn(AREAS, wanted);
  const area = isKnown ? wanted : "ask";
  const moved = area !== shown;
  shown = area;
  for (const link of document.querySelectorAll("[data-area]")) {
    if (link.dataset.area === area) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (moved) closeSource();
  if (!built.has(area)) {
    const [module] = await Promise.all([AREAS[area](), PLAIN.has(area) || loadStyle()]);
    // Two addresses may have come one after the other.
    if (!built.has(area)) built.set(area, module.create(shared));
  }
  if (shown !== area) return;
  const { root, title, enter } = built.get(area);
  for (const child of main.children) child.hidden = child !== root;
  if (!root.isConnected) main.append(root);
  root.hidden = false;
  document.title = `${title} · Ragstone`;
  await enter?.(isKnown ? rest.map(decodePart) : [], name);
  if (moved && document.activeElement !== document.body && document.activeElement?.closest(".rail")) root.querySelector("h1")?.focus();
}

/** Open the document of a link from another program, at the place of the citation. */
async function showPlace([id, start, end]) {
  history.replaceState(null, "", "#/ask");
  await route();
  const place = { document_id: id, document_name: "", start: Number(start) || 0, end: Number(end) || 0 };
  try {
    place.document_name = (await api.get(`/v1/documents/${encodeURIComponent(id)}/text`, { start: 0, end: 0 })).document_name;
  } catch {
    place.document_name = t("Source"); // the viewer shows the error
  }
  await openSource(place);
}

function showKeyBanner(event) {
  replace(banner, el("div", { class: "notice warn" },
    el("p", {}, el("strong", {}, event.detail.message), " ", t("It stays in this tab."), " ", el("a", { href: "#/settings" }, t("Enter a key")))));
}

/** Say why the model that writes does not answer; the rest of the page works without it. */
export async function showModelState() {
  let state;
  try {
    state = (await api.get("/readyz")).provider_state;
  } catch {
    return; // each area shows the error itself
  }
  const old = document.getElementById("model-banner");
  if (state?.state !== "failing") { old?.remove(); return; }
  const note = el("div", { id: "model-banner", class: "notice warn" },
    el("p", {}, el("strong", {}, state.model ? t("The model {} does not answer.", state.model) : t("The model that writes answers does not answer.")), ` ${state.message} ${state.hint} `, t("Until then answers quote the documents."), " ", el("a", { href: "#/settings" }, t("Test it again"))));
  if (old) old.replaceWith(note);
  else banner.append(note);
}

export function applyTheme(theme) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

applyTheme(localStorage.getItem("ragstone.theme"));
document.addEventListener("ragstone:key-wanted", showKeyBanner);
document.addEventListener("ragstone:key", async () => { replace(banner); await refreshCollections(); saveCollection(); });
picker.addEventListener("change", saveCollection);
window.addEventListener("hashchange", route);
document.addEventListener("ragstone:model", showModelState);
loadTexts().then(() => {
  refreshCollections().then(saveCollection);
  route();
  showModelState();
});
