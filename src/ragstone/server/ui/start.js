// The start page: what the collection holds, and questions to begin with.

import * as api from "./api.js";
import { el, empty, failure, plural, replace, toast } from "./dom.js";

const EXAMPLES = [
  "When does the lease end?",
  "How long do the batteries keep the telescope running in a power cut?",
  "What interest is charged on rent that arrives late?",
];

/** Return a function that fills `start`. `isWanted()` is false as soon as something was asked. */
export function createStart(start, { shared, ask, isWanted, offerScopes }) {
  async function show() {
    const collection = shared.collection;
    let documents;
    try {
      documents = await api.get("/v1/documents", { collection, limit: 200 });
    } catch (error) {
      replace(start, error.status === 401 ? null : failure(error, show));
      return;
    }
    if (!isWanted() || collection !== shared.collection) return;
    const readable = documents.filter((one) => one.status === "indexed");
    offerScopes(readable);
    if (!readable.length) {
      replace(start, empty("No documents to search yet", `The collection “${collection}” has no documents. Add your own, or start with the sample documents of a small observatory.`,
        el("a", { class: "button primary", href: "#/documents" }, "Add documents"),
        el("button", { type: "button", class: "quiet", onclick: (event) => samples(event.currentTarget) }, "Use the sample documents")));
      return;
    }
    const examples = readable.some((one) => one.metadata.tags?.includes("sample") || one.name.endsWith("catering-agreement.txt")) ? EXAMPLES : [];
    replace(start, el("div", { class: "welcome" },
      el("p", { class: "lead" }, "Ask in your own words. Every sentence of the answer is checked against its source."),
      el("p", { class: "muted" }, `${plural(Math.max(readable.length, shared.documentCount(collection) ?? 0), "document")} in “${collection}”.`),
      examples.length > 0 && el("ul", { class: "examples", "aria-label": "Examples" }, examples.map((text) => el("li", {},
        el("button", { type: "button", class: "example", onclick: () => ask(text) }, text))))));
  }

  async function samples(button) {
    button.disabled = true;
    button.textContent = "Reading the samples…";
    try {
      const added = await api.post("/v1/samples", { collection: shared.collection });
      toast(`${plural(added.documents, "sample document")} can be searched now.`);
      await shared.refreshCollections();
    } catch (error) {
      toast(error.message, { kind: "bad" });
    }
    await show();
  }

  return show;
}
