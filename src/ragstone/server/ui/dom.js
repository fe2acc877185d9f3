// Build the page from nodes. Text is only ever set as text: nothing here parses markup.

import { t } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/** el("button", {class: "quiet", type: "button", onclick: f}, "Stop", otherNode) */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.setAttribute("class", value);
    else if (name === "value" && "value" in node && node.namespaceURI !== SVG) node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Slice by code points, as the server counts; JavaScript counts UTF-16 units. */
export class Points {
  constructor(text) {
    this.points = Array.from(text);
  }
  slice(start, end) {
    return this.points.slice(start, end).join("");
  }
  get length() {
    return this.points.length;
  }
}

export function announce(text) {
  const region = document.getElementById("announcer");
  // A screen reader does not repeat the same sentence otherwise.
  region.textContent = "";
  requestAnimationFrame(() => { region.textContent = text; });
}

/** Show a notice for some seconds; resolve to true if its action was chosen. */
export function toast(text, { action = "", seconds = 6, kind = "" } = {}) {
  return new Promise((resolve) => {
    const done = (taken) => { clearTimeout(timer); node.remove(); resolve(taken); };
    const button = action && el("button", { class: "link", type: "button", onclick: () => done(true) }, action);
    const close = el("button", { class: "icon", type: "button", "aria-label": t("Close notice"), onclick: () => done(false) }, "×");
    const node = el("div", { class: `toast ${kind}`, role: kind === "bad" ? "alert" : "status" }, el("span", {}, text), button, close);
    const timer = setTimeout(() => done(false), seconds * 1000);
    document.getElementById("toasts").append(node);
  });
}

export function confirmFirst(title, text, action) {
  return new Promise((resolve) => {
    const answer = (yes) => { dialog.close(); dialog.remove(); resolve(yes); };
    const dialog = el("dialog", { class: "dialog", "aria-labelledby": "dialog-title" },
      el("h2", { id: "dialog-title" }, title),
      el("p", {}, text),
      el("div", { class: "row end" },
        el("button", { type: "button", class: "quiet", onclick: () => answer(false) }, t("Cancel")),
        el("button", { type: "button", class: "bad", onclick: () => answer(true) }, action)));
    dialog.addEventListener("cancel", (event) => { event.preventDefault(); answer(false); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function failure(error, again) {
  return el("div", { class: "notice bad", role: "alert" },
    el("p", {}, el("strong", {}, error.message || t("Something went wrong.")), error.hint ? ` ${error.hint}` : ""),
    again && el("button", { type: "button", class: "quiet", onclick: again }, t("Try again")));
}

export function empty(title, text, ...actions) {
  return el("div", { class: "empty" }, el("h2", {}, title), el("p", {}, text), el("div", { class: "row middle" }, ...actions));
}

export const baseName = (name) => name.split("/").pop();

/** Name a document with its folders: many files are called `_index.md`. */
export function pathName(name) {
  const base = baseName(name);
  const folder = name.slice(0, name.length - base.length);
  return el("span", { class: "path" }, folder && el("span", { class: "folder" }, folder), base);
}

export const pageOf = (place) => (place.page ? t(", page {}", place.page) : "");

/** Copy by a selection: without HTTPS a browser has no clipboard for scripts. */
function copyBySelection(text) {
  const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

export async function copyText(text, says) {
  const done = await navigator.clipboard?.writeText(text).then(() => true, () => false) ?? copyBySelection(text);
  toast(done ? says : t("The browser did not allow copying."), { kind: done ? "" : "bad" });
}

/** Offer bytes as a file; a link alone could not send the key. */
export function saveFile(name, ...parts) {
  const url = URL.createObjectURL(new Blob(parts));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
