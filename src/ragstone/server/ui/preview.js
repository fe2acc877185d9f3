// The snippet behind a citation, on hover, focus or touch.

import { baseName, el, replace } from "./dom.js";
import { verdictOf } from "./words.js";

const card = el("div", { id: "preview", class: "preview", role: "tooltip", hidden: true });
document.body.append(card);
let hiding = 0;

export function attachPreview(node, citation) {
  const show = () => {
    clearTimeout(hiding);
    const verdict = citation.verdict && verdictOf(citation.verdict);
    replace(card,
      el("p", { class: "preview-name" }, baseName(citation.document_name), citation.page ? `, page ${citation.page}` : ""),
      el("p", { class: "preview-text" }, (citation.snippet ?? citation.text ?? "").replace(/\s+/g, " ").slice(0, 480)),
      verdict && el("p", { class: `preview-verdict verdict-${citation.verdict}` }, `${verdict.mark} ${verdict.label}. ${verdict.text}`));
    card.hidden = false;
    const at = node.getBoundingClientRect();
    const size = card.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left - 12), window.innerWidth - size.width - 8);
    const below = at.bottom + 8 + size.height < window.innerHeight;
    card.style.left = `${left}px`;
    card.style.top = `${below ? at.bottom + 8 : Math.max(8, at.top - size.height - 8)}px`;
    node.setAttribute("aria-describedby", "preview");
  };
  const hide = () => {
    hiding = setTimeout(() => { card.hidden = true; }, 120);
    node.removeAttribute("aria-describedby");
  };
  node.addEventListener("pointerenter", show);
  node.addEventListener("pointerleave", hide);
  node.addEventListener("focus", show);
  node.addEventListener("blur", hide);
  node.addEventListener("click", hide);
}

document.addEventListener("keydown", (event) => { if (event.key === "Escape") card.hidden = true; });
document.addEventListener("scroll", () => { card.hidden = true; }, true);
card.addEventListener("pointerenter", () => clearTimeout(hiding));
card.addEventListener("pointerleave", () => { card.hidden = true; });
