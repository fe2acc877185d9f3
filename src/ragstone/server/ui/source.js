// Show the source beside the answer: a page of a PDF with its lines marked, or the text with its span.

import * as api from "./api.js";
import { Points, announce, baseName, el, failure, replace, saveFile } from "./dom.js";
import { cutRuns, renderMarkdown, wrapStyles } from "./markdown.js";
import { t } from "./text.js";
import { verdictOf } from "./words.js";

const AROUND = 2500;
const panel = document.getElementById("source");
let returnTo = null;
let latest = 0;

export function closeSource() {
  if (panel.hidden) return;
  latest += 1;
  panel.hidden = true;
  document.body.classList.remove("with-source");
  panel.replaceChildren();
  if (returnTo?.isConnected) returnTo.focus();
  returnTo = null;
}

/** `place` needs document_id, document_name, start and end; page, number, snippet and verdict help. */
export async function openSource(place, opener, { view = "" } = {}) {
  const mine = ++latest;
  if (opener) returnTo = opener;
  const body = el("div", { class: "source-body", tabindex: "0", "aria-label": t("The source") }, el("p", { class: "waiting" }, t("Opening…")));
  const tabs = el("div", { class: "row tabs" });
  const title = el("h2", { id: "source-title", tabindex: "-1" }, place.number ? `${place.number} · ` : "", baseName(place.document_name));
  replace(panel,
    el("div", { class: "source-head" },
      el("div", {}, title,
        el("p", { class: "muted" }, [place.document_name, place.page ? t("page {}", place.page) : "", place.verdict ? verdictOf(place.verdict).label.toLowerCase() : ""].filter(Boolean).join(" · "))),
      el("button", { type: "button", class: "icon", "aria-label": t("Close the source"), onclick: closeSource }, "×")),
    tabs, body);
  panel.hidden = false;
  document.body.classList.add("with-source");
  opener?.scrollIntoView({ block: "nearest" });
  title.focus({ preventScroll: true });
  const go = (wanted) => openSource(place, null, { view: wanted });
  try {
    const passage = await api.get(`/v1/documents/${encodeURIComponent(place.document_id)}/text`, { start: place.start, end: place.end, around: AROUND });
    if (mine !== latest) return;
    const isPdf = passage.media_type === "application/pdf";
    const asPage = isPdf && view !== "text";
    const isPlain = isLiteral(passage.media_type);
    const literal = isPlain || view === "text";
    replace(tabs,
      isPdf && tab(t("Page"), asPage, () => go("page")),
      !isPlain && tab(t("Formatted"), !literal, () => go("")),
      tab(t("Text"), !asPage && literal, () => go("text")),
      el("button", { type: "button", class: "link push", onclick: () => { closeSource(); document.dispatchEvent(new CustomEvent("ragstone:only", { detail: passage.document_name })); } }, t("Ask only this document")),
      el("button", { type: "button", class: "link", onclick: () => download(place) }, t("Download original")));
    if (asPage) {
      await showPdf(place, body, () => mine === latest).catch((error) => {
        if (mine !== latest) return;
        showText(passage, place, body, true);
        body.prepend(failure(Object.assign(error, { hint: t("The text is shown instead.") })));
      });
    } else showText(passage, place, body, literal);
    announce(t("{} is open beside the answer.", baseName(place.document_name)));
  } catch (error) {
    if (mine === latest) replace(body, failure(error, () => go(view)));
  }
}

function tab(label, on, go) {
  return el("button", { type: "button", class: "tab", "aria-pressed": String(on), onclick: go }, label);
}

// In these the line ends and signs mean themselves; all others are kept as Markdown.
const isLiteral = (type) => type === "application/pdf" || (type.startsWith("text/") && !["text/markdown", "text/html", "text/csv", "text/tab-separated-values"].includes(type)) || /json|xml$|script|yaml|toml/.test(type) && !/officedocument|opendocument|epub/.test(type);

function showText(passage, place, body, literal) {
  const points = new Points(passage.text);
  const [from, to] = [place.start - passage.start, place.end - passage.start];
  const more = passage.start > 0 || passage.end < passage.length;
  const text = literal
    ? el("div", { class: "text" }, passage.start > 0 && "… ", points.slice(0, from), el("mark", { class: "span" }, points.slice(from, to)), points.slice(to, points.length), passage.end < passage.length && " …")
    : el("div", { class: "text markdown" }, renderMarkdown(passage.text, { inline: markBetween(points.slice(0, from).length, points.slice(0, to).length) }));
  replace(body, text, more && el("button", { type: "button", class: "quiet", onclick: () => whole(place, body, literal) }, t("Show the whole document")));
  body.querySelector("mark")?.scrollIntoView({ block: "center" });
}

/** Mark what stands between two offsets of the source. */
function markBetween(from, to) {
  return (runs) => {
    const pieces = cutRuns(runs, [from, to]);
    const isInside = (piece) => from <= piece.start && piece.end <= to && to > from;
    const first = pieces.findIndex(isInside);
    if (first < 0) return wrapStyles(pieces, (piece) => piece.text);
    const last = pieces.findLastIndex(isInside) + 1;
    const parts = [pieces.slice(0, first), pieces.slice(first, last), pieces.slice(last)].map((part) => wrapStyles(part, (piece) => piece.text));
    return [...parts[0], el("mark", { class: "span" }, parts[1]), ...parts[2]];
  };
}

async function whole(place, body, literal) {
  try {
    showText(await api.get(`/v1/documents/${encodeURIComponent(place.document_id)}/text`), place, body, literal);
  } catch (error) {
    body.prepend(failure(error));
  }
}

async function showPdf(place, body, isCurrent) {
  const [{ renderPage }, lines] = await Promise.all([
    import("./pdf.js"),
    api.get(`/v1/documents/${encodeURIComponent(place.document_id)}/lines`, { start: place.start, end: place.end }),
  ]);
  if (!isCurrent()) return;
  const first = lines[0]?.page ?? place.page ?? 1;
  const view = el("div", { class: "pdf" });
  const where = el("span", { class: "muted", role: "status" });
  const turn = async (page) => {
    const { count } = await renderPage(place.document_id, page, view, lines, place.snippet ?? "");
    where.textContent = t("Page {} of {}", page, count);
    back.disabled = page <= 1;
    on.disabled = page >= count;
    back.onclick = () => turn(page - 1);
    on.onclick = () => turn(page + 1);
  };
  const back = el("button", { type: "button", class: "quiet", "aria-label": t("Previous page") }, "‹");
  const on = el("button", { type: "button", class: "quiet", "aria-label": t("Next page") }, "›");
  replace(body, el("div", { class: "row middle pager" }, back, where, on), view);
  await turn(first);
}

async function download(place) {
  try {
    saveFile(baseName(place.document_name), await api.bytes(`/v1/documents/${encodeURIComponent(place.document_id)}/original`));
  } catch (error) {
    panel.querySelector(".source-body").prepend(failure(error));
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !panel.hidden && !document.querySelector("dialog[open]")) closeSource();
});
