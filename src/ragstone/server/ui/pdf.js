// Render one page of a PDF with the lines of a span marked. pdf.js is loaded with the first PDF.

import * as api from "./api.js";
import { el, replace } from "./dom.js";
import { t } from "./text.js";

const VENDOR = "/ui/vendor/pdfjs";
const opened = new Map();
let library = null;
let policy = null;

/** Create the worker by the one trusted-types policy that the page allows. */
function worker() {
  const address = `${VENDOR}/pdf.worker.min.mjs`;
  policy ??= window.trustedTypes?.createPolicy("ragstone", {
    createScriptURL: (url) => { if (url === address) return url; throw new TypeError(url); },
  });
  return new Worker(policy ? policy.createScriptURL(address) : address, { type: "module" });
}

async function pdfjs() {
  if (!library) {
    library = import("./vendor/pdfjs/pdf.min.mjs").then((loaded) => {
      loaded.GlobalWorkerOptions.workerPort = worker();
      return loaded;
    });
    library.catch(() => { library = null; });
  }
  return library;
}

async function documentOf(id) {
  if (!opened.has(id)) {
    const { getDocument } = await pdfjs();
    const data = await api.bytes(`/v1/documents/${encodeURIComponent(id)}/original`);
    // No eval: the page's policy forbids it. The standard fonts are those that a PDF need not contain.
    const task = getDocument({ data, isEvalSupported: false, useSystemFonts: false, standardFontDataUrl: `${location.origin}${VENDOR}/fonts/` });
    opened.set(id, task.promise);
    task.promise.catch(() => opened.delete(id));
    if (opened.size > 4) opened.delete(opened.keys().next().value);
  }
  return opened.get(id);
}

export async function renderPage(id, number, view, lines, snippet) {
  const pdf = await documentOf(id);
  const page = await pdf.getPage(Math.min(Math.max(1, number), pdf.numPages));
  const width = Math.min(900, Math.max(280, view.clientWidth || view.parentElement.clientWidth - 32));
  const scale = width / page.getViewport({ scale: 1 }).width;
  const viewport = page.getViewport({ scale });
  const density = Math.min(3, window.devicePixelRatio || 1);
  const canvas = el("canvas", {
    width: Math.floor(viewport.width * density), height: Math.floor(viewport.height * density),
    role: "img", "aria-label": snippet ? t("Page {}. Marked: {}", number, snippet) : t("Page {}", number),
  });
  canvas.style.width = `${viewport.width}px`;
  canvas.style.height = `${viewport.height}px`;
  const sheet = el("div", { class: "sheet" }, canvas);
  sheet.style.width = `${viewport.width}px`;
  const marks = lines.filter((line) => line.page === number).map((line) => {
    const [x1, y1, x2, y2] = viewport.convertToViewportRectangle([line.left, line.bottom, line.right, line.top]);
    const box = el("div", { class: "line-mark" });
    box.style.left = `${Math.min(x1, x2) - 2}px`;
    box.style.top = `${Math.min(y1, y2) - 2}px`;
    box.style.width = `${Math.abs(x2 - x1) + 4}px`;
    box.style.height = `${Math.abs(y2 - y1) + 4}px`;
    return box;
  });
  sheet.append(...marks);
  replace(view, sheet);
  await page.render({ canvasContext: canvas.getContext("2d"), viewport, transform: density === 1 ? null : [density, 0, 0, density, 0, 0] }).promise;
  sheet.dataset.rendered = String(number);
  marks[0]?.scrollIntoView({ block: "center" });
  return { count: pdf.numPages };
}
