// The frame: which area is shown, which collection is meant, how it looks.

import * as api from "./api.js";
import { el, replace } from "./dom.js";
import { closeSource, openSource } from "./source.js";

const AREAS = {
  ask: () => import("./ask.js"),
  documents: () => import("./documents.js"),
  compare: () => import("./compare.js"),
  why: () => import("./why.js"),
  insight: () => import("./insight.js"),
  settings: () => import("./settings.js"),
};
const main = document.getElementById("main");
const picker = document.getElementById("collection");
const banner = document.getElementById("banner");
const built = new Map();
const counts = new Map();
let shown = "";

/** What the areas share. */
export const shared = {
  get collection() {
    return picker.value || "default";
  },
  set collection(name) {
    if (![...picker.options].some((option) => option.value === name)) picker.append(el("option", { value: name }, name));
    picker.value = name;
    remember();
  },
  refreshCollections,
  /** How many documents of a collection can be asked, as far as that is known. */
  documentCount: (name) => counts.get(name),
  get collections() {
    return [...picker.options].map((option) => option.value);
  },
};

function remember() {
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
    names = shared.collections; // each area says for itself what is wrong
  }
  const all = [...new Set(["default", ...names, wanted])];
  replace(picker, all.map((name) => el("option", { value: name }, name)));
  // A first visit opens what is there rather than an empty default.
  const isKnown = names.includes(wanted) || wanted !== "default";
  picker.value = isKnown || names.length === 0 ? wanted : names[0];
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray % in an address that somebody typed
  }
}

async function route() {
  const [, name = "ask", ...rest] = location.hash.split("/");
  if (name === "source") { await showPlace(rest.map(decoded)); return; }
  const isKnown = Object.hasOwn(AREAS, name);
  const area = isKnown ? name : "ask";
  const moved = area !== shown;
  shown = area;
  for (const link of document.querySelectorAll("[data-area]")) {
    if (link.dataset.area === area) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (moved) closeSource();
  if (!built.has(area)) {
    const module = await AREAS[area]();
    built.set(area, module.create(shared));
  }
  if (shown !== area) return;
  const { root, title, enter } = built.get(area);
  for (const child of main.children) child.hidden = child !== root;
  if (!root.isConnected) main.append(root);
  root.hidden = false;
  document.title = `${title} · Ragstone`;
  await enter?.(isKnown ? rest.map(decoded) : []);
  if (moved && document.activeElement !== document.body && document.activeElement?.closest(".rail")) root.querySelector("h1")?.focus();
}

/** A link from elsewhere: a document, opened at the place that a citation names. */
async function showPlace([id, start, end]) {
  history.replaceState(null, "", "#/ask");
  await route();
  const place = { document_id: id, document_name: "", start: Number(start) || 0, end: Number(end) || 0 };
  try {
    place.document_name = (await api.get(`/v1/documents/${encodeURIComponent(id)}/text`, { start: 0, end: 0 })).document_name;
  } catch {
    place.document_name = "Source"; // the viewer says what is wrong
  }
  await openSource(place);
}

function wantKey(event) {
  replace(banner, el("div", { class: "notice warn" },
    el("p", {}, el("strong", {}, event.detail.message), " Enter it under ", el("a", { href: "#/settings" }, "Settings"), "; it stays in this tab.")));
}

export function applyTheme(theme) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

applyTheme(localStorage.getItem("ragstone.theme"));
document.addEventListener("ragstone:key-wanted", wantKey);
document.addEventListener("ragstone:key", async () => { replace(banner); await refreshCollections(); remember(); });
picker.addEventListener("change", remember);
window.addEventListener("hashchange", route);
refreshCollections().then(remember);
route();
