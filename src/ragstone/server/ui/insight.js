// Insight: figures about questions and answers, the history, and the threshold explorer.

import * as api from "./api.js";
import { shorten } from "./answer.js";
import { confirmFirst, el, empty, failure, replace, saveFile, toast } from "./dom.js";
import { bars, lanes } from "./plots.js";
import { ms, number, percent, shortDay, t, when } from "./text.js";
import { thresholdExplorer } from "./thresholds.js";
import { stage } from "./stages.js";
import { degraded } from "./words.js";

const PAGE = 20;
const DAYS = 30;

export function create(shared) {
  const figures = el("div", { class: "stack wide" });
  const past = el("div", { class: "card" });
  const ratings = el("div", { class: "card" });
  const explorer = thresholdExplorer(shared);
  const root = el("section", { class: "area wide insight" },
    el("div", { class: "head" }, el("h1", { tabindex: "-1" }, t("Insight")), el("span", { class: "muted" }, t("Questions, and how well they are answered"))),
    figures, ratings, explorer.node, past);
  document.addEventListener("ragstone:collection", () => { if (root.isConnected && !root.hidden) enter(); });

  async function enter() {
    await Promise.all([analytics(figures, shared.collection), listRatings(ratings, shared.collection, 0), history(past, shared.collection, 0)]);
  }

  return { root, title: t("Insight"), enter };
}

async function history(out, collection, skip) {
  try {
    const entries = await api.get("/v1/queries", { collection, skip, limit: PAGE });
    if (!entries.length && !skip) {
      replace(out, el("h2", {}, t("History")), empty(t("No questions yet"), t("Questions appear here with their answers."), el("a", { class: "button primary", href: "#/ask" }, t("Ask a question"))));
      return;
    }
    const turn = (to) => history(out, collection, Math.max(0, to));
    replace(out, el("h2", {}, t("History")),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("History") }, el("table", { class: "history" },
        el("thead", {}, el("tr", {}, [t("Question"), t("Answer"), t("Confidence"), t("Time"), t("Asked"), ""].map((name) => el("th", { scope: "col" }, name || el("span", { class: "unseen" }, t("Why")))))),
        el("tbody", {}, entries.map((one) => el("tr", {},
          el("th", { scope: "row" }, one.query ? el("a", { href: `#/ask/${encodeURIComponent(one.query)}` }, shorten(one.query, 110)) : el("span", { class: "muted" }, t("not logged"))),
          el("td", { class: one.status === "abstained" ? "muted" : "" }, one.status === "abstained" ? t("no answer") : shorten((one.answer ?? "").replace(/\s*\[Source \d+\]/g, ""), 130)),
          el("td", { class: "number" }, one.status === "abstained" ? "–" : percent(one.confidence ?? 0)),
          el("td", { class: "number" }, one.total_ms === null || one.total_ms === undefined ? "" : ms(one.total_ms)),
          el("td", { class: "muted date" }, when(one.created_at)),
          el("td", {}, el("div", { class: "row end" }, el("a", { href: `#/why/${one.query_id}` }, t("Why?")),
            el("button", { type: "button", class: "link bad", "aria-label": one.query ? t("Delete {}", one.query) : t("Delete this query"), onclick: () => deleteQuery(one, () => history(out, collection, skip)) }, t("Delete"))))))))),
      el("div", { class: "row" },
        el("button", { type: "button", class: "quiet", disabled: skip === 0, onclick: () => turn(skip - PAGE) }, t("Newer")),
        el("button", { type: "button", class: "quiet", disabled: entries.length < PAGE, onclick: () => turn(skip + PAGE) }, t("Older"))));
  } catch (error) {
    replace(out, failure(error, () => history(out, collection, skip)));
  }
}

/** List what users think of the answers. */
async function listRatings(out, collection, skip) {
  try {
    const [found, { feedback }] = await Promise.all([api.get("/v1/feedback", { collection, skip, limit: PAGE }), api.get("/v1/analytics", { collection, days: DAYS })]);
    if (!found.length && !skip) {
      replace(out, el("h2", {}, t("Feedback")), el("p", { class: "muted" }, t("No answer has been rated yet. The thumbs below an answer do that.")));
      return;
    }
    const turn = (to) => listRatings(out, collection, Math.max(0, to));
    const save = async () => {
      try {
        saveFile("rated-questions.jsonl", await api.bytes(`/v1/feedback/export?${new URLSearchParams({ collection })}`));
      } catch (error) {
        toast(error.message, { kind: "bad" });
      }
    };
    const mean = feedback.mean_rating !== null && t("{} of 5 on average", number(feedback.mean_rating, 1));
    replace(out,
      el("div", { class: "row" }, el("h2", {}, t("Feedback")),
        el("button", { type: "button", class: "quiet push", onclick: save }, t("Download as evaluation set"))),
      el("p", { class: "muted" }, [t("In the last {} days: {} good, {} bad", DAYS, number(feedback.up), number(feedback.down)), mean].filter(Boolean).join(", "), ". ", t("The file is for ragstone eval: good answers are its references.")),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("Feedback") }, el("table", { class: "ratings" },
        el("thead", {}, el("tr", {}, [t("Question"), t("Rating"), t("Comment"), t("By"), t("Rated")].map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", {}, found.map((one) => el("tr", {},
          el("th", { scope: "row" }, el("a", { href: `#/why/${one.query_id}` }, shorten(one.query ?? t("(text not logged)"), 110))),
          el("td", {}, [{ up: t("good"), down: t("bad") }[one.vote], one.rating && t("{} of 5", one.rating)].filter(Boolean).join(", ") || "–"),
          el("td", {}, one.comment),
          el("td", { class: "muted" }, one.owner),
          el("td", { class: "muted date" }, when(one.created_at))))))),
      (skip > 0 || found.length === PAGE) && el("div", { class: "row" },
        el("button", { type: "button", class: "quiet", disabled: skip === 0, onclick: () => turn(skip - PAGE) }, t("Newer ratings")),
        el("button", { type: "button", class: "quiet", disabled: found.length < PAGE, onclick: () => turn(skip + PAGE) }, t("Older ratings"))));
  } catch (error) {
    replace(out, error.status === 401 ? null : failure(error, () => listRatings(out, collection, skip)));
  }
}

async function deleteQuery(one, then) {
  if (!await confirmFirst(t("Delete this query?"), t("Its text, its answer and its trace are deleted from the history."), t("Delete"))) return;
  try {
    await api.remove(`/v1/queries/${one.query_id}`);
  } catch (error) {
    toast(error.message, { kind: "bad" });
  }
  await then();
}

async function analytics(out, collection) {
  try {
    draw(out, await api.get("/v1/analytics", { collection, days: DAYS }));
  } catch (error) {
    replace(out, error.status === 401 ? null : failure(error, () => analytics(out, collection)));
  }
}

function draw(out, found) {
  const { total, answered, unanswered, ungrounded } = found.queries;
  if (!total) { replace(out); return; }
  const asked = answered + unanswered;
  const stages = Object.entries(found.latency_ms.stages).sort(([, a], [, b]) => b.p50 - a.p50).slice(0, 8);
  replace(out,
    el("div", { class: "grid4" }, [
      [t("Questions"), number(total), t("in the last {} days", DAYS)],
      [t("Answered"), asked ? percent(answered / asked) : "–", t("{} without an answer", number(unanswered))],
      [t("Grounded"), answered ? percent(1 - ungrounded / answered) : "–", t("{} answers to review", number(ungrounded))],
      [t("Median time"), ms(found.latency_ms.total.p50), t("95 % below {}", ms(found.latency_ms.total.p95))],
    ].map(([name, value, more]) => el("div", { class: "card stat" }, el("span", {}, name), el("b", {}, value), el("span", {}, more)))),
    el("div", { class: "grid2" },
      el("div", { class: "card" }, bars(days(found.per_day), { title: t("Questions per day") }),
        el("p", { class: "muted small legend" }, el("i", { class: "swatch" }), t("answered"), " ", el("i", { class: "swatch abstained" }), t("no answer"))),
      el("div", { class: "card" }, lanes(stages.map(([name, spread]) => ({ label: stage(name), value: spread.p50, shown: ms(spread.p50) })), { title: t("Median time per stage") }))),
    el("div", { class: "grid2" },
      el("div", { class: "card" }, el("h2", {}, t("Unanswered questions")),
        found.unanswered.length ? questions(found.unanswered) : el("p", { class: "muted" }, t("None: every question was answered."))),
      el("div", { class: "card" }, found.documents.length
        ? lanes(found.documents.slice(0, 8).map((one) => ({ label: one.name, value: one.answers })), { title: t("Documents that answers cite") })
        : el("p", { class: "muted" }, t("No answer has cited a document yet.")))),
    (found.ungrounded.length > 0 || Object.keys(found.degraded).length > 0) && el("div", { class: "grid2" },
      found.ungrounded.length > 0 && el("div", { class: "card" }, el("h2", {}, t("Answers to review")), el("p", { class: "muted" }, t("Not fully supported by their sources.")), questions(found.ungrounded)),
      Object.keys(found.degraded).length > 0 && el("div", { class: "card" }, el("h2", {}, t("Skipped parts")),
        el("ul", { class: "questions" }, Object.entries(found.degraded).map(([name, count]) => el("li", {}, degraded(name), el("span", { class: "muted" }, `${count} ×`)))))));
}

function questions(list) {
  return el("ul", { class: "questions" }, list.slice(0, 8).map((one) => el("li", {},
    el("a", { href: `#/why/${one.query_id}` }, shorten(one.query ?? t("(text not logged)"), 110)),
    el("span", { class: "muted" }, one.count > 1 ? `${one.count} ×` : when(one.created_at)))));
}

/** List every day up to today, also those without a question. */
function days(found) {
  const known = new Map(found.map((one) => [one.day, one]));
  const values = [];
  for (let back = 13; back >= 0; back -= 1) {
    const day = new Date(Date.now() - back * 86_400_000).toISOString().slice(0, 10);
    const { queries = 0, unanswered = 0 } = known.get(day) ?? {};
    values.push({ label: shortDay(new Date(day)), value: queries, parts: [{ kind: "plain", value: queries - unanswered }, { kind: "abstained", value: unanswered }] });
  }
  return values;
}
