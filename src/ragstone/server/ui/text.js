// Translate the texts of the page. English is the key; a catalogue is loaded for another language only.

export const LANGUAGES = { en: "English", de: "Deutsch", zh: "中文" };
const CHOICE = "ragstone.language";
const wanted = [localStorage.getItem(CHOICE), ...navigator.languages].filter(Boolean);
const base = (tag) => tag.toLowerCase().split("-")[0];

/** The language of the page: the chosen one, or the first of the browser's that there is. */
export const language = wanted.map(base).find((code) => code in LANGUAGES) ?? "en";
// With its region: de-CH writes numbers in another way than de-DE.
const locale = navigator.languages.find((tag) => base(tag) === language) ?? language;
let texts = {};
let sentences = [];

export const chosenLanguage = () => localStorage.getItem(CHOICE) ?? "";

/** Remember a language, or follow the browser again; the page is built anew. */
export function chooseLanguage(code) {
  if (code) localStorage.setItem(CHOICE, code);
  else localStorage.removeItem(CHOICE);
  location.reload();
}

/** Load the catalogue, and translate what stands in the HTML. */
export async function loadTexts() {
  document.documentElement.lang = language;
  if (language === "en") return;
  const [own, server] = await Promise.all([import(`./texts/${language}.js`), import(`./sentences/${language}.js`)]);
  texts = own.default;
  const escaped = (text) => text.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replaceAll("{}", "(.+?)");
  sentences = Object.entries(server.default).map(([text, found]) => [new RegExp(`^${escaped(text)}$`, "s"), found]);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    node.data = t(node.data);
  }
  for (const node of document.querySelectorAll("[aria-label]")) node.setAttribute("aria-label", t(node.getAttribute("aria-label")));
}

/** Translate a text; each `{}` stands for one of the values, and a catalogue may order them: `{1}`. */
export function t(text, ...values) {
  const found = texts[text] ?? text;
  return values.length ? fill(found, values) : found;
}

function fill(text, values) {
  let next = 0;
  return text.replace(/\{(\d*)\}/g, (_, place) => String(values[place === "" ? next++ : Number(place)] ?? ""));
}

/** Translate a finished sentence of the server, and sentences inside it. */
export function said(text) {
  for (const [pattern, found] of sentences) {
    const match = pattern.exec(text);
    if (match) return fill(found, match.slice(1).map(said));
  }
  return text;
}

export const number = (value, digits) => value.toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits ?? 3 });
export const plural = (count, one, many = `${one}s`) => t(`{} ${count === 1 ? one : many}`, number(count));
export const percent = (value) => t("{} %", Math.round(value * 100));
export const ms = (value) => value >= 1000 ? `${number(value / 1000, 2)} s` : `${number(value, value >= 10 ? 0 : 1)} ms`;
export const when = (seconds) => new Date(seconds * 1000).toLocaleString(locale, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", ...(new Date(seconds * 1000).getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" }) });
export const shortDay = (date) => date.toLocaleDateString(locale, { day: "numeric", month: "numeric", timeZone: "UTC" });
