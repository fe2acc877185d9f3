// Say why a document was not used for an answer: how far it came, and what dropped it.

import * as api from "./api.js";
import { el, replace } from "./dom.js";
import { plural, said, t } from "./text.js";

/** Build a chooser of documents with the verdict below it. `chosen(id, about)` hears of each choice. */
export function createMissing({ queryId, collection, citations = [] }, chosen = () => {}) {
  const id = `missing-${queryId}`;
  const says = el("p", { class: "document-verdict", role: "status" });
  const documents = el("select", { id, onchange: () => explain(documents.value) }, el("option", { value: "" }, t("Choose a document")));

  async function explain(document) {
    replace(says);
    chosen("", null);
    if (!document) return;
    try {
      const about = await api.get(`/v1/queries/${queryId}/explain`, { document_id: document });
      if (documents.value !== document) return;
      const chunks = plural(about.chunks, "chunk");
      const far = citations.some((one) => one.document_id === document) ? t("This document is cited.")
        : about.chunks_found ? t("{} of its {} found.", about.chunks_found, chunks) : t("None of its {} was found.", chunks);
      replace(says, el("strong", {}, far), " ", t("The closest one: {}", said(about.verdict)));
      chosen(document, about);
    } catch (error) {
      replace(says, `${error.message} ${error.hint ?? ""}`);
    }
  }

  api.get("/v1/documents", { collection, limit: 1000 }).then((found) => {
    documents.append(...found.filter((one) => one.status === "indexed").map((one) => el("option", { value: one.id }, one.name)));
  }).catch((error) => replace(says, error.message));
  return { field: el("div", { class: "stack grow" }, el("label", { for: id }, t("Document")), documents), says };
}
