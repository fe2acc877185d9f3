// List the conversations: search, open, rename, export and delete them. They are kept by the server,
// so that another device goes on where this one stopped.

import * as api from "./api.js";
import { el, failure, replace } from "./dom.js";
import { plural, t, when } from "./text.js";

const PAGE = 40;
const actions = () => import("./conversation-actions.js");
const panel = document.getElementById("conversations");

export function closeConversations() {
  document.body.classList.remove("with-conversations");
}

export function toggleConversations(opener) {
  const open = document.body.classList.toggle("with-conversations");
  opener?.setAttribute("aria-expanded", String(open));
  if (open) panel.querySelector("input").focus();
}

/** Build the list. `current()` is the open session; `leave()` starts a new one. */
export function createConversations({ current, leave }) {
  const list = el("ul", { class: "conversation-list" });
  const more = el("button", { type: "button", class: "link", hidden: true, onclick: () => load(list.childElementCount) }, t("Show more"));
  const find = el("input", { id: "find-conversation", type: "search", placeholder: t("Search"), oninput: () => { clearTimeout(waiting); waiting = setTimeout(load, 200); } });
  const note = el("p", { class: "small muted", role: "status" });
  const opened = new Set(); // the rows whose actions are shown: they stay so when the list is drawn again
  let waiting = 0;
  let latest = 0;
  replace(panel,
    el("div", { class: "row" }, el("h2", {}, t("Conversations")),
      el("button", { type: "button", class: "icon push close-conversations", "aria-label": t("Close the conversations"), onclick: closeConversations }, "×")),
    el("label", { for: "find-conversation", class: "unseen" }, t("Search conversations")), find, note, list, more);
  panel.hidden = false;

  async function load(skip = 0) {
    const mine = ++latest;
    const text = find.value.trim();
    let found;
    try {
      found = await api.get("/v1/sessions", { skip, limit: PAGE + 1, text });
    } catch (error) {
      if (mine === latest) replace(list, error.status === 401 ? null : el("li", {}, failure(error, () => load())));
      return;
    }
    if (mine !== latest) return;
    more.hidden = found.length <= PAGE;
    if (!skip && list.querySelector("input")) return; // a title is being typed: the list is loaded when it ends
    const rows = found.slice(0, PAGE).map(row);
    const focused = list.contains(document.activeElement) && place(document.activeElement);
    if (skip) list.append(...rows);
    else replace(list, rows);
    if (focused) list.querySelectorAll(`[data-session="${CSS.escape(focused.session)}"] :is(a, button)`)[focused.index]?.focus();
    note.textContent = text ? t("{} with “{}”", found.length > PAGE ? t("More than {} conversations", PAGE) : plural(found.length, "conversation"), text) : found.length ? "" : t("Your conversations appear here.");
    mark();
  }

  /** Where a link or button stands: its conversation, and its place in that row. */
  function place(node) {
    const row = node.closest("li[data-session]");
    return row && { session: row.dataset.session, index: [...row.querySelectorAll("a, button")].indexOf(node) };
  }

  const after = (one) => async () => {
    await load();
    list.querySelector(`[data-session="${CSS.escape(one.session_id)}"] a`)?.focus();
  };

  function row(one) {
    const link = el("a", { href: `#/chat/${encodeURIComponent(one.session_id)}`, title: `${one.title}\n${plural(one.turn_count, "question")}, ${when(one.updated_at)}`, onclick: closeConversations }, one.title || t("Without a title"));
    const tools = el("div", { class: "row tools", hidden: !opened.has(one.session_id) },
      el("button", { type: "button", class: "link", onclick: async () => (await actions()).renameConversation(one, link, after(one)) }, t("Rename")),
      el("button", { type: "button", class: "link", onclick: async () => (await actions()).exportConversation(one) }, t("Export")),
      el("button", { type: "button", class: "link bad", onclick: async () => (await actions()).deleteConversation(one, async (isDeleted) => { if (isDeleted && current() === one.session_id) leave(); await load(); }) }, t("Delete")));
    const menu = el("button", { type: "button", class: "icon", "aria-label": t("Actions for {}", one.title), "aria-expanded": String(!tools.hidden), onclick: () => {
      tools.hidden = !tools.hidden;
      if (tools.hidden) opened.delete(one.session_id);
      else opened.add(one.session_id);
      menu.setAttribute("aria-expanded", String(!tools.hidden));
    } }, "⋯");
    const node = el("li", { "data-session": one.session_id }, el("div", { class: "conversation" }, link, menu), tools);
    return node;
  }

  /** Mark the open conversation. */
  function mark() {
    for (const node of list.children) {
      const link = node.querySelector("a");
      if (node.dataset.session === current()) link?.setAttribute("aria-current", "true");
      else link?.removeAttribute("aria-current");
    }
  }

  for (const name of ["ragstone:key", "ragstone:consent"]) document.addEventListener(name, () => load());
  load();
  return { load: () => load(), mark };
}
