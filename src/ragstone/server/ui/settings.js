// Settings: every value with its origin, the key of this tab, the theme of the page.

import * as api from "./api.js";
import { applyTheme } from "./app.js";
import { storageCard } from "./consent.js";
import { announce, el, failure, replace, toast } from "./dom.js";
import { LANGUAGES, chooseLanguage, chosenLanguage, t } from "./text.js";

export function create() {
  const out = el("div", { class: "stack wide" });
  const root = el("section", { class: "area settings" },
    el("div", { class: "head" }, el("h1", { tabindex: "-1" }, t("Settings")), el("span", { class: "muted about" })),
    el("div", { class: "grid2" }, keyCard(() => load()), themeCard(), languageCard(), modelCard(), storageCard()), out);

  async function load() {
    try {
      const found = await api.get("/v1/settings");
      root.querySelector(".about").textContent = [`Ragstone ${found.version}`, t("preset {}", found.preset), t("answers by {}", `${found.provider}${found.model && found.model !== found.embedder ? ` (${found.model})` : ""}`), t("embedder {}", found.embedder)].join(" · ");
      replace(out, changeCard(found, load), listing(found));
    } catch (error) {
      replace(out, failure(error, load));
    }
  }

  return { root, title: t("Settings"), enter: load };
}

function keyCard(changed) {
  const says = el("p", { class: "muted", role: "status" });
  const input = el("input", { id: "key", type: "password", autocomplete: "off", spellcheck: "false", placeholder: t("Paste the key") });
  const showState = () => { says.textContent = api.key.get() ? t("A key is in use in this tab. It is removed when the tab is closed.") : t("No key is set. A server on this machine may not need one."); };
  const use = (value) => {
    if (value) api.key.set(value); else api.key.remove();
    input.value = "";
    showState();
    announce(value ? t("The key is in use.") : t("The key is removed."));
    document.dispatchEvent(new CustomEvent("ragstone:key"));
    changed();
  };
  showState();
  return el("form", { class: "card", onsubmit: (event) => { event.preventDefault(); if (input.value.trim()) use(input.value.trim()); else input.focus(); } },
    el("h2", {}, t("Key")),
    el("label", { for: "key", class: "label" }, t("Kept in this tab only, never on disk")),
    el("div", { class: "row" }, el("div", { class: "grow" }, input), el("button", { type: "submit", class: "primary" }, t("Use")), el("button", { type: "button", class: "quiet", onclick: () => use("") }, t("Remove"))),
    says);
}

/** Show which model answers, and try it. */
function modelCard() {
  const says = el("p", { class: "muted", role: "status" }, "…");
  const test = el("button", { type: "button", class: "quiet", onclick: () => run() }, t("Test the model"));
  const show = (name, state) => {
    const model = state.model && state.model !== name ? `${name}, ${state.model}` : name;
    const how = { ok: t("It answers."), failing: t("It does not answer. {} {}", state.message, state.hint), unknown: t("It was not asked yet.") }[state.state] ?? state.state;
    replace(says, name === "extractive" ? t("No model writes: answers quote the documents. Set LLM_PROVIDER to use one.") : `${model}. ${how}`);
  };
  api.get("/readyz").then((found) => show(found.provider, found.provider_state)).catch((error) => replace(says, error.message));
  async function run() {
    test.disabled = true;
    replace(says, t("Asking for one word…"));
    try {
      const state = await api.put("/v1/provider/state");
      show(state.provider, state);
    } catch (error) {
      replace(says, `${error.message} ${error.hint ?? ""}`);
    }
    test.disabled = false;
    document.dispatchEvent(new CustomEvent("ragstone:model"));
  }
  return el("div", { class: "card model-card" }, el("h2", {}, t("The model that writes answers")), says, el("div", { class: "row" }, test));
}

function themeCard() {
  const now = localStorage.getItem("ragstone.theme") ?? "system";
  const choose = (theme) => { localStorage.setItem("ragstone.theme", theme); applyTheme(theme); toast(t("The appearance is changed."), { seconds: 2 }); };
  return el("fieldset", { class: "card" }, el("legend", {}, t("Appearance")),
    el("div", { class: "row" }, [["system", t("Like the system")], ["light", t("Light")], ["dark", t("Dark")]].map(([value, label]) => el("label", { class: "choice" },
      el("input", { type: "radio", name: "theme", value, checked: value === now, onchange: () => choose(value) }), label))));
}

function languageCard() {
  const select = el("select", { id: "language", onchange: () => chooseLanguage(select.value) },
    el("option", { value: "" }, t("Like the browser")), Object.entries(LANGUAGES).map(([code, name]) => el("option", { value: code, lang: code }, name)));
  select.value = chosenLanguage();
  return el("div", { class: "card" }, el("h2", {}, t("Language")),
    el("label", { for: "language", class: "label" }, t("Of this page. An answer is in the language of its question.")), select);
}

/** Offer the settings that can be changed while the server runs; nothing where there is none. */
function changeCard(found, changed) {
  const open = found.settings.filter((one) => !one.fixed);
  if (!open.length) return null;
  const fields = open.map((one) => ({ one, ...changeField(one) }));
  const says = el("p", { class: "muted", role: "status" });
  const save = el("button", { type: "submit", class: "primary" }, t("Save"));
  const submit = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(fields.filter(({ one, read }) => read() !== one.value).map(({ one, read }) => [one.name, read()]));
    if (!Object.keys(values).length) { replace(says, t("Nothing was changed.")); return; }
    save.disabled = true;
    try {
      await api.patch("/v1/settings", { values });
      toast(t("Saved: {}. The next question uses it.", Object.keys(values).join(", ")));
      document.dispatchEvent(new CustomEvent("ragstone:key"));
      await changed();
    } catch (error) {
      save.disabled = false;
      replace(says, el("strong", {}, error.message), ` ${error.hint ?? ""}`);
    }
  };
  return el("form", { class: "card change-settings", onsubmit: submit },
    el("h2", {}, t("Change settings")),
    el("p", { class: "muted" }, t("These apply from the next question on and are written to the settings file. All others are listed below with the reason why they cannot be changed here.")),
    el("div", { class: "fields" }, fields.map(({ one, input, note }) => el("div", { class: "stack" },
      el("label", { for: input.id }, one.name), input,
      el("p", { class: "small muted", id: `${input.id}-note` }, note)))),
    el("div", { class: "row" }, save, says));
}

function changeField(one) {
  const id = `change-${one.name.replace(".", "-")}`;
  const about = { id, "aria-describedby": `${id}-note` };
  const note = [one.description, one.choices.length ? "" : t("Allowed: {}.", one.allowed), t("Now from: {}.", one.origin)].filter(Boolean).join(" ");
  const options = typeof one.value === "boolean" ? ["true", "false"] : one.choices;
  if (options.length) {
    const input = el("select", about, options.map((value) => el("option", { value }, value)));
    input.value = String(one.value);
    return { input, note, read: () => (typeof one.value === "boolean" ? input.value === "true" : input.value) };
  }
  const isNumber = typeof one.value === "number";
  const input = el("input", { ...about, type: "text", inputmode: isNumber ? "decimal" : "text", autocomplete: "off", value: String(one.value) });
  return { input, note, read: () => (isNumber && input.value.trim() !== "" && Number.isFinite(Number(input.value)) ? Number(input.value) : input.value.trim()) };
}

function listing(found) {
  const only = el("input", { id: "only-set", type: "checkbox", onchange: () => draw() });
  const find = el("input", { id: "find-setting", type: "search", placeholder: t("Find a setting"), oninput: () => draw() });
  const tables = el("div", { class: "stack wide" });
  const draw = () => {
    const wanted = find.value.trim().toLowerCase();
    const fit = found.settings.filter((one) => (!only.checked || one.origin !== "default")
      && (!wanted || [one.name, one.description, ...one.variables].some((text) => text.toLowerCase().includes(wanted))));
    const sections = Map.groupBy ? Map.groupBy(fit, section) : fit.reduce((map, one) => map.set(section(one), [...(map.get(section(one)) ?? []), one]), new Map());
    replace(tables, fit.length ? [...sections].map(([name, settings]) => sectionTable(name, settings)) : el("p", { class: "muted" }, t("No setting matches.")));
  };
  draw();
  return [el("div", { class: "row bar" }, el("label", { for: "find-setting", class: "unseen" }, t("Find a setting")), find, el("label", { class: "choice" }, only, t("Only settings from a preset, file, variable or flag"))),
    tables];
}

const section = (one) => (one.name.includes(".") ? one.name.split(".")[0] : "general");

function sectionTable(name, settings) {
  return el("section", {}, el("h2", { class: "section" }, name),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("Settings: {}", name) }, el("table", { class: "settings-table" },
      el("thead", {}, el("tr", {}, [t("Setting"), t("Value"), t("Origin"), t("What it does")].map((title) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, settings.map((one) => el("tr", { "data-setting": one.name },
        el("th", { scope: "row" }, el("code", {}, one.name)),
        el("td", {}, el("code", { class: "value" }, shown(one.value))),
        el("td", {}, el("span", { class: `origin origin-${one.origin.split(" ")[0].replace(/[^a-z]/gi, "")}` }, one.origin)),
        el("td", {}, one.description, el("span", { class: "small muted variables" }, `${t("Allowed: {}.", one.allowed)} ${t("Set with {}.", one.variables.join(", "))} ${one.fixed}`))))))));
}

function shown(value) {
  return value === null ? t("none") : value === "" ? t("empty") : String(value);
}
