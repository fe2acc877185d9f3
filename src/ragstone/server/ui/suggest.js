// Suggest questions while typing: a combobox with a list below (or above) the field.

import * as api from "./api.js";
import { announce, el, replace } from "./dom.js";
import { plural, t } from "./text.js";

export function attachSuggestions(input, collection, choose) {
  const list = el("ul", { id: `${input.id}-suggestions`, class: "suggestions", role: "listbox", "aria-label": t("Suggestions"), hidden: true });
  input.after(list);
  const attributes = { role: "combobox", "aria-expanded": "false", "aria-autocomplete": "list", "aria-controls": list.id };
  for (const [name, value] of Object.entries(attributes)) input.setAttribute(name, value);
  let at = -1;
  let waiting = 0;
  let latest = 0;

  const close = () => {
    latest += 1;
    clearTimeout(waiting);
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const move = (to) => {
    const options = [...list.children];
    at = (to + options.length) % options.length;
    options.forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
    input.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  };

  const ask = async () => {
    const prefix = input.value.trim();
    if (prefix.length < 2) { close(); return; }
    const mine = ++latest;
    let found;
    try {
      found = await api.get("/v1/suggestions", { prefix, collection: collection(), limit: 6 });
    } catch {
      return; // the question can be asked without suggestions
    }
    if (mine !== latest || document.activeElement !== input) return;
    const texts = (found.suggestions ?? found).map((one) => (typeof one === "string" ? one : one.text)).filter((text) => text !== prefix).slice(0, 6);
    if (!texts.length) { close(); return; }
    replace(list, texts.map((text, index) => el("li", { id: `${list.id}-${index}`, role: "option", "aria-selected": "false",
      onpointerdown: (event) => { event.preventDefault(); close(); choose(text); } }, text)));
    at = -1;
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    announce(plural(texts.length, "suggestion"));
  };

  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 180); });
  input.addEventListener("blur", close);
  input.form?.addEventListener("submit", close);
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown") { event.preventDefault(); move(at + 1); }
    else if (event.key === "ArrowUp") { event.preventDefault(); move(at < 0 ? -1 : at - 1); }
    else if (event.key === "Escape") { event.stopPropagation(); close(); }
    else if (event.key === "Enter" && at >= 0) { event.preventDefault(); const text = list.children[at].textContent; close(); choose(text); }
  });
}
