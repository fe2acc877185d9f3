// Translate the texts of the page. English is the key; a catalogue is loaded for another language only.

let texts = {};

/** Translate a text; each `{}` stands for one of the values, and a catalogue may order them: `{1}`. */
export function t(text, ...values) {
  let next = 0;
  const found = texts[text] ?? text;
  return values.length ? found.replace(/\{(\d*)\}/g, (_, place) => String(values[place === "" ? next++ : Number(place)] ?? "")) : found;
}
