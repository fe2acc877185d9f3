// Render Markdown as nodes: headings, lists, tables, quotes, code. It never makes markup from the
// text: HTML stays text, an image is named and not loaded, and only web and mail addresses link.
// Every run of text knows its place in the source, so that claims and citations can be marked.

import { copyText, el } from "./dom.js";
import { t } from "./text.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+•]|\d{1,9}[.)])([ \t]+)(?=\S)/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const ROW = /^\s*\|.*\|/;
const MARKER = /^\[Source \d+\]/;
const INLINE = /\\[\\`*_{}[\]()#+\-.!|>~]|(`+)(?!`)[\s\S]*?[^`]\1(?!`)|!\[[^\]\n]*\]\([^)\s]*(?:\s+"[^"]*")?\)|\[(?!Source \d+\])[^\]\n]+\]\([^)\s]+(?:\s+"[^"]*")?\)|https?:\/\/[^\s<>()[\]"']*[^\s<>()[\]"'.,;:!?]|\*\*(?=\S)|__(?=\S)|~~(?=\S)|\*(?=[^\s*])|(?<![\p{L}\p{N}_])_(?=[^\s_])/gu;
const SAFE = /^(?:https?:\/\/|mailto:)/i;

/** Render `text`. `inline(runs)` turns the runs of one block into nodes; `breaks` keeps line ends. */
export function renderMarkdown(text, { inline = plainInline, breaks = false } = {}) {
  const lines = [];
  let at = 0;
  for (const line of text.split("\n")) {
    lines.push({ text: line.endsWith("\r") ? line.slice(0, -1) : line, at });
    at += line.length + 1;
  }
  return renderBlocks(lines, { inline, breaks });
}

/** Turn runs into nodes without marking anything. */
export function plainInline(runs) {
  return wrapStyles(runs, (run) => run.text);
}

function renderBlocks(lines, options) {
  const nodes = [];
  for (let index = 0; index < lines.length;) {
    if (!lines[index].text.trim()) { index += 1; continue; }
    const [node, next] = renderBlock(lines, index, options);
    nodes.push(node);
    index = next;
  }
  return nodes;
}

function renderBlock(lines, index, options) {
  const { text } = lines[index];
  if (FENCE.test(text)) return renderFence(lines, index, options);
  const heading = HEADING.exec(text);
  if (heading) {
    const from = text.indexOf(heading[2], heading[1].length);
    const level = Math.min(6, heading[1].length + 2);
    return [el(`h${level}`, { class: "md-heading" }, options.inline(inlineRuns([cutLine(lines[index], from, from + heading[2].length)], options))), index + 1];
  }
  if (RULE.test(text)) return [el("hr"), index + 1];
  if (ROW.test(text) || (text.includes("|") && lines[index + 1] && lines[index + 1].text.includes("|") && DIVIDER.test(lines[index + 1].text))) return renderTable(lines, index, options);
  if (QUOTE.test(text)) {
    const inner = [];
    let next = index;
    while (next < lines.length && QUOTE.test(lines[next].text)) { inner.push(cutLine(lines[next], QUOTE.exec(lines[next].text)[0].length)); next += 1; }
    return [el("blockquote", {}, renderBlocks(inner, options)), next];
  }
  if (ITEM.test(text)) return renderList(lines, index, options);
  let next = index + 1;
  while (next < lines.length && lines[next].text.trim() && !startsBlock(lines[next].text)) next += 1;
  const part = lines.slice(index, next).map((line) => { const lead = line.text.length - line.text.trimStart().length; return cutLine(line, lead); });
  return [el("p", {}, options.inline(inlineRuns(part, options))), next];
}

function startsBlock(text) {
  return FENCE.test(text) || HEADING.test(text) || RULE.test(text) || QUOTE.test(text) || ITEM.test(text) || ROW.test(text);
}

function cutLine(line, from, to = line.text.length) {
  return { text: line.text.slice(from, to), at: line.at + from };
}

function renderFence(lines, index, { inline }) {
  const [, fence, language] = FENCE.exec(lines[index].text);
  let next = index + 1;
  while (next < lines.length && !lines[next].text.trim().startsWith(fence)) next += 1;
  const inner = lines.slice(index + 1, next);
  const runs = inner.map((line, place) => ({ text: place + 1 < inner.length ? `${line.text}\n` : line.text, start: line.at, styles: [] }));
  const code = inner.map((line) => line.text).join("\n");
  return [el("div", { class: "code" },
    el("div", { class: "code-head" }, el("span", {}, language || t("code")), el("button", { type: "button", class: "link", onclick: () => copyText(code, t("The code is copied.")) }, t("Copy code"))),
    el("pre", { tabindex: "0" }, el("code", {}, inline(runs)))), next + 1];
}

function renderList(lines, index, options) {
  const [, indent, sign] = ITEM.exec(lines[index].text);
  const ordered = /\d/.test(sign);
  const items = [];
  let next = index;
  while (next < lines.length) {
    const match = ITEM.exec(lines[next].text);
    if (!match || match[1].length > indent.length + 1 || match[1].length < indent.length || /\d/.test(match[2]) !== ordered || RULE.test(lines[next].text)) break;
    const inside = match[0].length;
    const inner = [cutLine(lines[next], inside)];
    next += 1;
    while (next < lines.length) {
      const line = lines[next];
      const lead = line.text.length - line.text.trimStart().length;
      if (!line.text.trim()) {
        const after = lines[next + 1];
        if (!after || after.text.length - after.text.trimStart().length < Math.min(inside, indent.length + 2) || !after.text.trim()) break;
      } else if (lead <= indent.length && startsBlock(line.text)) break;
      else if (lead < indent.length) break;
      inner.push(cutLine(line, Math.min(lead, inside)));
      next += 1;
    }
    items.push(inner);
    while (next + 1 < lines.length && !lines[next].text.trim() && ITEM.test(lines[next + 1].text) && ITEM.exec(lines[next + 1].text)[1].length >= indent.length) next += 1;
  }
  const start = ordered ? Number.parseInt(sign, 10) : 1;
  return [el(ordered ? "ol" : "ul", { start: ordered && start !== 1 ? start : null }, items.map((inner) => {
    const nodes = renderBlocks(inner, options);
    // A single line needs no paragraph of its own.
    const [first, ...rest] = nodes;
    return el("li", {}, first?.localName === "p" ? [...first.childNodes] : first, rest);
  })), next];
}

function renderTable(lines, index, options) {
  const rows = [];
  let next = index;
  while (next < lines.length && lines[next].text.includes("|") && lines[next].text.trim()) { rows.push(lines[next]); next += 1; }
  const hasHead = rows.length > 1 && DIVIDER.test(rows[1].text);
  const cells = (row, tag) => splitRow(row).map((cell) => el(tag, tag === "th" ? { scope: "col" } : {}, options.inline(inlineRuns([cell], options))));
  const body = rows.slice(hasHead ? 2 : 0).filter((row) => !DIVIDER.test(row.text));
  return [el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": t("Table") }, el("table", {},
    hasHead && el("thead", {}, el("tr", {}, cells(rows[0], "th"))),
    el("tbody", {}, body.map((row) => el("tr", {}, cells(row, "td")))))), next];
}

/** Split a row at its pipes; what follows the last one (a citation) belongs to the last cell. */
function splitRow(row) {
  const cells = [];
  let from = row.text.indexOf("|") === row.text.search(/\S/) ? row.text.indexOf("|") + 1 : 0;
  for (let at = from; at <= row.text.length; at += 1) {
    if (at < row.text.length && (row.text[at] !== "|" || row.text[at - 1] === "\\")) continue;
    const cell = row.text.slice(from, at);
    if (at === row.text.length && cells.length && (!cell.trim() || MARKER.test(cell.trim()))) {
      if (cell.trim()) cells[cells.length - 1].after = cutLine(row, from, at);
      break;
    }
    const lead = cell.length - cell.trimStart().length;
    cells.push(cutLine(row, from + lead, from + lead + cell.trim().length));
    from = at + 1;
  }
  return cells;
}

/** Find the runs of text of one block, each with its place and its styles. */
function inlineRuns(lines, { breaks }) {
  const runs = [];
  lines.forEach((line, place) => {
    const last = place + 1 === lines.length;
    const text = last ? line.text : line.text.replace(/(?:\\| +)$/, "");
    scan(text, line.at, [], runs);
    if (line.after) { runs.push({ text: " ", start: line.at + line.text.length, styles: [] }); scan(line.after.text, line.after.at, [], runs); }
    const hard = breaks || / {2}$|\\$/.test(line.text);
    if (!last) runs.push({ text: hard ? "\n" : " ", start: line.at + line.text.length, styles: [], hard });
  });
  return runs;
}

function scan(text, at, styles, runs) {
  const say = (from, to) => { if (to > from) runs.push({ text: text.slice(from, to), start: at + from, styles }); };
  let last = 0;
  INLINE.lastIndex = 0;
  for (let match; (match = INLINE.exec(text));) {
    const from = match.index;
    const token = match[0];
    let end = from + token.length;
    if (token[0] === "\\") { say(last, from); say(from + 1, end); last = end; continue; }
    if (token[0] === "`") {
      say(last, from);
      const edge = match[1].length;
      runs.push({ text: token.slice(edge, -edge), start: at + from + edge, styles: [...styles, { tag: "code" }] });
    } else if (token.startsWith("![")) {
      say(last, from);
      const alt = token.slice(2, token.indexOf("]"));
      runs.push({ text: alt ? `[image: ${alt}]` : "[image]", start: at + from, styles: [...styles, { tag: "span", class: "muted" }], whole: end - from });
    } else if (token[0] === "[") {
      const close = token.lastIndexOf("](");
      const href = token.slice(close + 2, -1).split(/\s/)[0];
      if (!SAFE.test(href)) continue; // stays as it is written
      say(last, from);
      scan(token.slice(1, close), at + from + 1, [...styles, linkStyle(href)], runs);
    } else if (/^https?:/.test(token)) {
      say(last, from);
      runs.push({ text: token, start: at + from, styles: [...styles, linkStyle(token)] });
    } else {
      const inner = closing(text, end, token);
      if (inner < 0) continue;
      say(last, from);
      const tag = token === "~~" ? "s" : token.length === 2 ? "strong" : "em";
      scan(text.slice(end, inner), at + end, [...styles, { tag }], runs);
      end = inner + token.length;
    }
    INLINE.lastIndex = end;
    last = end;
  }
  say(last, text.length);
}

function linkStyle(href) {
  return { tag: "a", href, rel: "noopener noreferrer nofollow", target: "_blank" };
}

function closing(text, from, token) {
  for (let at = text.indexOf(token, from); at >= 0; at = text.indexOf(token, at + token.length)) {
    const inside = at > from && !/\s/.test(text[at - 1]);
    const single = token.length > 1 || (text[at + 1] !== token && text[at - 1] !== token);
    const ends = token[0] !== "_" || !/[\p{L}\p{N}]/u.test(text[at + token.length] ?? "");
    if (inside && single && ends) return at;
  }
  return -1;
}

/** Cut runs at some offsets of the source. */
export function cutRuns(runs, edges) {
  return runs.flatMap((run) => {
    const end = run.start + (run.whole ?? run.text.length);
    if (run.whole) return [{ ...run, end }];
    const cuts = [run.start, ...edges.filter((edge) => run.start < edge && edge < end), end];
    return cuts.slice(1).map((to, index) => ({ ...run, text: run.text.slice(cuts[index] - run.start, to - run.start), start: cuts[index], end: to }));
  });
}

/** Build the elements of the runs' styles around the nodes that `leaf(run)` gives. */
export function wrapStyles(runs, leaf, depth = 0) {
  const nodes = [];
  for (let index = 0; index < runs.length;) {
    const style = runs[index].styles[depth];
    if (!style) {
      const node = runs[index].hard ? el("br") : leaf(runs[index]);
      if (node !== null && node !== "") nodes.push(node);
      index += 1;
      continue;
    }
    let next = index;
    while (next < runs.length && runs[next].styles[depth] === style) next += 1;
    const { tag, ...props } = style;
    nodes.push(el(tag, props, wrapStyles(runs.slice(index, next), leaf, depth + 1)));
    index = next;
  }
  return nodes;
}
