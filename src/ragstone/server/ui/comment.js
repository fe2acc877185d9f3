// The comment of a rating.

import { el } from "./dom.js";
import { t } from "./text.js";

const LABELS = { up: t("What is good about it? (optional)"), down: t("What is wrong or missing? (optional)") };

/** Build the form; `save` gets the text, `close` takes the form away. */
export function commentForm(queryId, { vote, comment }, { save, close }) {
  const field = el("textarea", { id: `comment-${queryId}`, rows: "2", maxlength: "4000", value: comment });
  const cancel = (event) => { event.preventDefault(); event.stopPropagation(); close(); };
  return el("form", { class: "stack", onsubmit: async (event) => { event.preventDefault(); await save(field.value.trim()); }, onkeydown: (event) => { if (event.key === "Escape") cancel(event); } },
    el("label", { for: field.id }, LABELS[vote] ?? t("Your comment")), field,
    el("div", { class: "row" }, el("button", { type: "submit", class: "quiet" }, t("Save the comment")), el("button", { type: "button", class: "link", onclick: cancel }, t("Cancel"))));
}
