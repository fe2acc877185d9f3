// Rename, export and delete a conversation; loaded with the first of these.

import * as api from "./api.js";
import { confirmFirst, el, saveFile, toast } from "./dom.js";
import { plural, t } from "./text.js";

const pathOf = (one) => `/v1/sessions/${encodeURIComponent(one.session_id)}`;

/** Put a field in the place of the link; `then` draws the list again. */
export function renameConversation(one, link, then) {
  const field = el("input", { type: "text", value: one.title, "aria-label": t("Title of the conversation"), maxlength: "80" });
  const done = async (save) => {
    field.replaceWith(link);
    const title = field.value.trim();
    if (save && title !== one.title) {
      try {
        await api.patch(pathOf(one), { title });
      } catch (error) {
        toast(error.message, { kind: "bad" });
      }
    }
    await then();
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") done(true);
    if (event.key === "Escape") { event.stopPropagation(); done(false); }
  });
  link.replaceWith(field);
  field.select();
}

export async function exportConversation(one) {
  try {
    const name = (one.title || one.session_id).replace(/[^\p{L}\p{N} _-]/gu, "").trim().slice(0, 60) || "conversation";
    saveFile(`${name}.md`, await api.bytes(`${pathOf(one)}/export`));
  } catch (error) {
    toast(error.message, { kind: "bad" });
  }
}

/** Ask first; `then` gets true when it is deleted. */
export async function deleteConversation(one, then) {
  if (!await confirmFirst(t("Delete this conversation?"), t("“{}” is deleted with {} and their answers.", one.title, plural(one.turn_count, "question")), t("Delete"))) return;
  let isDeleted = false;
  try {
    await api.remove(pathOf(one));
    isDeleted = true;
  } catch (error) {
    toast(error.message, { kind: "bad" });
  }
  await then(isDeleted);
}
