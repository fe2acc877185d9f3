// Rate an answer: thumbs and a comment, which the server keeps with the answer.

import * as api from "./api.js";
import { announce, el, replace, svg, toast } from "./dom.js";
import { t } from "./text.js";

const THUMB = "M7 10.5 11 3c1.7 0 2.6 1.2 2.2 2.9L12.4 9H19c1.3 0 2.2 1.1 1.9 2.4l-1.5 7c-.2 1-1 1.6-2 1.6H7M3.5 10.5H7V20H3.5z";
const LABELS = { up: t("Good answer"), down: t("Bad answer") };
let known = null;

/** What the server stores of this user's questions, and if they agreed to that. */
export const storage = () => (known ??= api.get("/v1/consent").catch(() => { known = null; return { stores: false }; }));
for (const name of ["ragstone:key", "ragstone:consent"]) document.addEventListener(name, () => { known = null; });

/** Build the thumbs, and what stands below them. `given` is the rating that the server has. */
export function createRating(queryId, given) {
  const path = `/v1/queries/${encodeURIComponent(queryId)}/feedback`;
  const below = el("div", { class: "comment" });
  const buttons = Object.entries(LABELS).map(([vote, label]) => el("button", { type: "button", class: `quiet thumb ${vote}`, "aria-label": label, title: label, onclick: () => choose(vote) },
    svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: THUMB }))));
  const thumbs = el("div", { class: "row stored-only", role: "group", "aria-label": t("Rate this answer") }, buttons);
  let now = { vote: given?.vote ?? null, rating: given?.rating ?? null, comment: given?.comment ?? "" };
  let mayComment = false;
  storage().then((found) => { mayComment = found.stores && found.query_log === "full"; draw(); });

  function draw() {
    Object.keys(LABELS).forEach((vote, index) => buttons[index].setAttribute("aria-pressed", String(now.vote === vote)));
    const edit = (label) => el("button", { type: "button", class: "link", onclick: () => openForm(true) }, label);
    replace(below, mayComment && now.comment ? el("p", { class: "small" }, el("q", {}, now.comment), " ", edit(t("Edit your comment"))) : mayComment && now.vote && el("p", { class: "small" }, edit(t("Add a comment"))));
  }

  async function save(next, says) {
    try {
      if (next.vote || next.rating || next.comment) await api.post(path, next);
      else await api.remove(path);
    } catch (error) {
      toast(`${error.message} ${error.hint ?? ""}`, { kind: "bad" });
      return;
    }
    now = next;
    draw();
    announce(says);
  }

  async function choose(vote) {
    const isTaken = now.vote === vote;
    await save({ ...now, vote: isTaken ? null : vote }, isTaken ? t("The vote is taken back.") : vote === "up" ? t("Rated: good answer.") : t("Rated: bad answer."));
    if (now.vote === vote && !now.comment && mayComment) openForm(false);
  }

  /** After a vote the focus stays: the comment is the next thing that Tab reaches. */
  async function openForm(focus) {
    const { commentForm } = await import("./comment.js");
    replace(below, commentForm(queryId, now, {
      save: (comment) => save({ ...now, comment }, t("The comment is saved.")),
      close: () => { draw(); below.querySelector("button")?.focus(); },
    }));
    if (focus) below.querySelector("textarea").focus();
  }

  return { thumbs, below };
}
