// Draw small plots as SVG, each with its figures as text for screen readers.

import { el, svg } from "./dom.js";

/** Vertical bars. `values`: [{label, value, parts?: [{kind, value}]}] */
export function bars(values, { title, height = 150, unit = "" }) {
  const width = 420;
  const base = height - 22;
  const top = Math.max(1, ...values.map((one) => one.value));
  const step = width / Math.max(1, values.length);
  const every = Math.ceil(values.length / 7);
  const nodes = values.flatMap((one, index) => {
    let y = base;
    const parts = (one.parts ?? [{ kind: "plain", value: one.value }]).filter((part) => part.value > 0);
    const stacked = parts.map((part) => {
      const tall = (part.value / top) * (base - 14);
      y -= tall;
      return svg("rect", { x: index * step + step * 0.15, y, width: Math.min(46, step * 0.7), height: tall, rx: 2, class: `bar bar-${part.kind}` });
    });
    return [...stacked,
      one.value > 0 && svg("text", { x: index * step + step * 0.15 + Math.min(46, step * 0.7) / 2, y: y - 4, class: "figure" }, `${one.value}${unit}`),
      index % every === 0 && svg("text", { x: index * step + step * 0.15, y: height - 6, class: "tick" }, one.label)];
  });
  return figure(title, values.map((one) => `${one.label}: ${one.value}${unit}`), svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", "aria-hidden": "true" },
    svg("line", { x1: 0, x2: width, y1: base, y2: base, class: "axis" }), nodes));
}

/** Horizontal bars: [{label, value, shown}] */
export function lanes(values, { title }) {
  const top = Math.max(0.001, ...values.map((one) => one.value));
  return el("figure", { class: "lanes" }, el("figcaption", {}, title),
    el("ul", {}, values.map((one) => {
      const bar = el("i", {});
      bar.style.width = `${(one.value / top) * 100}%`;
      return el("li", {}, el("span", {}, one.label), el("span", { class: "track", "aria-hidden": "true" }, bar), el("span", { class: "number" }, one.shown ?? String(one.value)));
    })));
}

function figure(title, texts, plot) {
  return el("figure", {}, el("figcaption", {}, title), plot, el("p", { class: "unseen" }, texts.join(", ")));
}
