// Ask once if what a user asks may be stored, and let them take that back (REQUIRE_CONSENT).

import * as api from "./api.js";
import { announce, confirmFirst, el, replace, toast, when } from "./dom.js";
import { storage } from "./rate.js";

const LATER = "ragstone.consent.later";
/** Continue a sentence with what the server says. */
const inside = (text) => text[0].toLowerCase() + text.slice(1);
const changed = (agreed) => document.dispatchEvent(new CustomEvent("ragstone:consent", { detail: { agreed } }));

async function agree() {
  try {
    await api.post("/v1/consent");
  } catch (error) {
    toast(`${error.message} ${error.hint ?? ""}`, { kind: "bad" });
    return;
  }
  changed(true);
  announce("You have agreed. Your questions are stored from now on.");
}

async function withdraw() {
  if (!await confirmFirst("Withdraw and delete?", "Your questions, their answers, your conversations and your ratings are deleted, and nothing new is stored.", "Withdraw and delete")) return;
  try {
    await api.remove("/v1/consent");
  } catch (error) {
    toast(`${error.message} ${error.hint ?? ""}`, { kind: "bad" });
    return;
  }
  sessionStorage.setItem(LATER, "1");
  changed(false);
  toast("Everything that you asked is deleted.");
}

/** Build the question of the start page; nothing if it was put off in this tab. */
export function question(found) {
  if (sessionStorage.getItem(LATER)) return null;
  const putOff = () => { sessionStorage.setItem(LATER, "1"); card.remove(); document.getElementById("question")?.focus(); };
  const card = el("section", { class: "notice", "aria-labelledby": "consent-title" },
    el("h2", { id: "consent-title" }, "May this server store what you ask?"),
    el("p", {}, `If you agree, ${inside(found.description)} You can withdraw under Settings at any time, which deletes all of it.`),
    el("p", { class: "muted" }, "If not, nothing is stored. You get the same answers, but a conversation is not remembered."),
    el("div", { class: "row" },
      el("button", { type: "button", class: "primary", onclick: async () => { await agree(); document.getElementById("question")?.focus(); } }, "Agree"),
      el("button", { type: "button", class: "quiet", onclick: putOff }, "Not now")));
  return card;
}

/** Build the card of the settings: what is stored, since when, and how to change that. */
export function storageCard() {
  const out = el("div", { class: "card storage-card" });
  async function draw() {
    const found = await storage();
    const isAsked = found.required;
    replace(out, el("h2", {}, "What is stored of you"),
      el("p", { class: "muted" }, isAsked && !found.agreed_at ? `Nothing, because you have not agreed. If you agree, ${inside(found.description)}` : found.description ?? "…"),
      isAsked && found.agreed_at && el("p", { class: "small muted" }, `You agreed on ${when(found.agreed_at)}.`),
      isAsked && el("div", { class: "row" }, found.agreed_at
        ? el("button", { type: "button", class: "quiet", onclick: withdraw }, "Withdraw and delete")
        : el("button", { type: "button", class: "primary", onclick: agree }, "Agree")));
  }
  for (const name of ["ragstone:key", "ragstone:consent"]) document.addEventListener(name, draw);
  draw();
  return out;
}
