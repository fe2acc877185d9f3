// Share one answer by a link.

import * as api from "./api.js";
import { announce, copyText, el } from "./dom.js";
import { t } from "./text.js";

/** Show the link of an answer, to copy it or to end it. */
export async function shareAnswer(answer) {
  const { url } = await api.put(`/v1/queries/${answer.query_id}/share`);
  const field = el("input", { id: "share-link", type: "text", readonly: true, value: url, onfocus: () => field.select() });
  const close = () => { dialog.close(); dialog.remove(); };
  const dialog = el("dialog", { class: "dialog", "aria-labelledby": "share-title" },
    el("h2", { id: "share-title" }, t("Share this answer")),
    el("p", {}, t("Who has the link and can reach this server sees the question, the answer and the quoted passages. It ends when you stop sharing, or delete the answer.")),
    el("div", { class: "stack" }, el("label", { for: "share-link" }, t("Link")), field),
    el("div", { class: "row end" },
      el("button", { type: "button", class: "link bad", onclick: async () => { await api.remove(`/v1/queries/${answer.query_id}/share`); close(); announce(t("The link is ended.")); } }, t("Stop sharing")),
      el("button", { type: "button", class: "quiet", onclick: close }, t("Close")),
      el("button", { type: "button", class: "primary", onclick: () => copyText(url, t("The link is copied.")) }, t("Copy the link"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
