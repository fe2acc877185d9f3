// Ask once if what a user asks may be stored, and let them take that back (REQUIRE_CONSENT).

import * as api from "./api.js";
import { announce, confirmFirst, el, replace, toast } from "./dom.js";
import { storage } from "./rate.js";
import { t, when } from "./text.js";

const LATER = "ragstone.consent.later";
/** Say in one sentence what is stored, and for how long. */
function describe({ query_log: log, retention_days: days }) {
  const time = !days ? t("until you delete them") : days === 1 ? t("for 1 day") : t("for {} days", days);
  if (log === "full") return t("Your questions, their answers and your conversations are stored {}.", time);
  return log === "off" ? t("Nothing that you ask is stored.") : t("The time of each question, its figures and the documents of its answer are stored {}; no text of question or answer.", time);
}

const changed = (agreed) => document.dispatchEvent(new CustomEvent("ragstone:consent", { detail: { agreed } }));

async function agree() {
  try {
    await api.post("/v1/consent");
  } catch (error) {
    toast(`${error.message} ${error.hint ?? ""}`, { kind: "bad" });
    return;
  }
  changed(true);
  announce(t("You have agreed. Your questions are stored from now on."));
}

async function withdraw() {
  if (!await confirmFirst(t("Withdraw and delete?"), t("Your questions, their answers, your conversations and your ratings are deleted, and nothing new is stored."), t("Withdraw and delete"))) return;
  try {
    await api.remove("/v1/consent");
  } catch (error) {
    toast(`${error.message} ${error.hint ?? ""}`, { kind: "bad" });
    return;
  }
  sessionStorage.setItem(LATER, "1");
  changed(false);
  toast(t("Everything that you asked is deleted."));
}

/** Build the question of the start page; nothing if it was put off in this tab. */
export function question(found) {
  if (sessionStorage.getItem(LATER)) return null;
  const putOff = () => { sessionStorage.setItem(LATER, "1"); card.remove(); document.getElementById("question")?.focus(); };
  const card = el("section", { class: "notice", "aria-labelledby": "consent-title" },
    el("h2", { id: "consent-title" }, t("May this server store what you ask?")),
    el("p", {}, t("If you agree: {} You can withdraw in the settings at any time, which deletes all of it.", describe(found))),
    el("p", { class: "muted" }, t("If not, nothing is stored. You get the same answers, but a conversation is not remembered.")),
    el("div", { class: "row" },
      el("button", { type: "button", class: "primary", onclick: async () => { await agree(); document.getElementById("question")?.focus(); } }, t("Agree")),
      el("button", { type: "button", class: "quiet", onclick: putOff }, t("Not now"))));
  return card;
}

/** Build the card of the settings: what is stored, since when, and how to change that. */
export function storageCard() {
  const out = el("div", { class: "card storage-card" });
  async function draw() {
    const found = await storage();
    const isAsked = found.required;
    replace(out, el("h2", {}, t("What is stored of you")),
      el("p", { class: "muted" }, isAsked && !found.agreed_at ? t("Nothing, because you have not agreed. If you agree: {}", describe(found)) : found.query_log ? describe(found) : "…"),
      isAsked && found.agreed_at && el("p", { class: "small muted" }, t("You agreed on {}.", when(found.agreed_at))),
      isAsked && el("div", { class: "row" }, found.agreed_at
        ? el("button", { type: "button", class: "quiet", onclick: withdraw }, t("Withdraw and delete"))
        : el("button", { type: "button", class: "primary", onclick: agree }, t("Agree"))));
  }
  for (const name of ["ragstone:key", "ragstone:consent"]) document.addEventListener(name, draw);
  draw();
  return out;
}
