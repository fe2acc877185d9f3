// Share one answer by a link.

import * as api from "./api.js";
import { announce, copyText, el } from "./dom.js";

/** Show the link of an answer, to copy it or to end it. */
export async function shareAnswer(answer) {
  const { url } = await api.put(`/v1/queries/${answer.query_id}/share`);
  const field = el("input", { id: "share-link", type: "text", readonly: true, value: url, onfocus: () => field.select() });
  const close = () => { dialog.close(); dialog.remove(); };
  const dialog = el("dialog", { class: "dialog", "aria-labelledby": "share-title" },
    el("h2", { id: "share-title" }, "Share this answer"),
    el("p", {}, "Who has the link and can reach this server sees the question, the answer and the quoted passages. It ends when you stop sharing, or delete the answer."),
    el("div", { class: "stack" }, el("label", { for: "share-link" }, "Link"), field),
    el("div", { class: "row end" },
      el("button", { type: "button", class: "link bad", onclick: async () => { await api.remove(`/v1/queries/${answer.query_id}/share`); close(); announce("The link is ended."); } }, "Stop sharing"),
      el("button", { type: "button", class: "quiet", onclick: close }, "Close"),
      el("button", { type: "button", class: "primary", onclick: () => copyText(url, "The link is copied.") }, "Copy the link")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
