// Choose which model writes the answers of this conversation, among those that the server offers.

import * as api from "./api.js";
import { announce, el, replace } from "./dom.js";
import { t } from "./text.js";

const nameOf = (one) => (one.provider === "extractive" ? t("No model: quote the documents") : one.model && one.model !== one.provider ? `${one.model} (${one.provider})` : one.provider);

/** Say who wrote an answer. */
export function writtenBy({ llm_provider: provider = "", model = "" } = {}) {
  if (!provider || provider === "none") return "";
  return provider === "extractive" ? t("quoted, no model") : t("written by {}", nameOf({ provider, model }));
}

/** Build the chooser beside the question; it stays hidden where there is nothing to choose. */
export function createModelChoice() {
  const select = el("select", { id: "model", onchange: () => announce(t("From now on answers come from: {}", select.selectedOptions[0].textContent)) });
  const row = el("div", { class: "model-choice", hidden: true }, el("label", { for: "model", class: "unseen" }, t("Model of this conversation")), select);
  let choices = [];
  let last = null;

  function mark() {
    const fits = choices.filter((one) => one.provider === last?.provider);
    const found = fits.find((one) => one.model === last.model) ?? fits[0] ?? choices[0];
    if (found) select.value = found.name;
  }

  async function load() {
    try {
      choices = await api.get("/v1/providers");
    } catch {
      return; // the question shows the error itself
    }
    replace(select, choices.map((one) => el("option", { value: one.name }, nameOf(one))));
    row.hidden = choices.length < 2;
    mark();
  }

  document.addEventListener("ragstone:key", load);
  load();
  return {
    row,
    /** The name to send with a question; nothing for the default one. */
    get: () => (choices.length > 1 && select.value !== choices[0].name ? select.value : undefined),
    reset() { last = null; mark(); },
    /** Choose what wrote the last answer of a conversation, unless it stood in for another one. */
    restore(entries) {
      last = entries.find((one) => one.provider && one.provider !== "none" && !one.degraded?.includes("extractive_answer"));
      mark();
    },
  };
}
