// Show the snippet of a citation on hover, on focus, or on a first tap (a second one opens it).

import { el, pageOf, pathName, replace } from "./dom.js";
import { t } from "./text.js";
import { verdictOf } from "./words.js";

const card = el("div", { id: "preview", class: "preview", role: "tooltip", hidden: true });
document.body.append(card);
let hiding = 0;
let owner = null;

function hide() {
  card.hidden = true;
  owner?.removeAttribute("aria-describedby");
  owner = null;
}

function show(node, citation, byTap = false) {
  clearTimeout(hiding);
  hide();
  const verdict = citation.verdict && verdictOf(citation.verdict);
  replace(card,
    el("p", { class: "preview-name" }, pathName(citation.document_name), pageOf(citation)),
    el("p", { class: "preview-text" }, (citation.snippet ?? "").replace(/\s+/g, " ").slice(0, 480)),
    verdict && el("p", { class: `preview-verdict verdict-${citation.verdict}` }, `${verdict.mark} ${verdict.label}. ${verdict.text}`),
    byTap && el("button", { type: "button", class: "quiet", onclick: () => node.click() }, t("Open the source")));
  card.setAttribute("role", byTap ? "group" : "tooltip");
  card.hidden = false;
  owner = node;
  node.setAttribute("aria-describedby", card.id);
  const at = node.getBoundingClientRect();
  const size = card.getBoundingClientRect();
  const below = at.bottom + 8 + size.height < window.innerHeight;
  card.style.left = `${Math.min(Math.max(8, at.left - 12), window.innerWidth - size.width - 8)}px`;
  card.style.top = `${below ? at.bottom + 8 : Math.max(8, at.top - size.height - 8)}px`;
}

export function attachPreview(node, citation) {
  const leave = () => { hiding = setTimeout(hide, 120); };
  node.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") show(node, citation); });
  node.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") leave(); });
  node.addEventListener("focus", () => { if (node.matches(":focus-visible")) show(node, citation); });
  node.addEventListener("blur", () => { if (card.getAttribute("role") === "tooltip") leave(); });
  // Runs before the listener that opens the source, which is in the bubbling phase.
  node.addEventListener("click", (event) => {
    if (event.pointerType === "touch" && owner !== node) {
      event.stopImmediatePropagation();
      show(node, citation, true);
    } else hide();
  }, true);
}

document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
document.addEventListener("scroll", hide, true);
window.addEventListener("hashchange", hide);
document.addEventListener("pointerdown", (event) => { if (owner && !card.contains(event.target) && event.target !== owner) hide(); });
card.addEventListener("pointerenter", () => clearTimeout(hiding));
card.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
