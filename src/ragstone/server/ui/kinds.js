// Name the kind of a document as people do, whatever its media type is called.

import { t } from "./text.js";

const BY_TYPE = {
  "application/pdf": "PDF", "text/markdown": "Markdown", "text/plain": t("Text"), "text/html": t("Web page"), "text/csv": t("Table"), "text/tab-separated-values": t("Table"),
  "message/rfc822": t("Mail"), "application/vnd.ms-outlook": t("Mail"), "application/json": "JSON", "application/xml": "XML", "text/xml": "XML", "application/rtf": t("Rich text"), "text/rtf": t("Rich text"),
  "application/epub+zip": t("Book"), "application/msword": "Word", "application/vnd.ms-excel": "Excel", "application/vnd.ms-powerpoint": "PowerPoint",
};
const BY_PART = [
  ["wordprocessingml", "Word"], ["spreadsheetml", "Excel"], ["presentationml", "PowerPoint"], ["opendocument.text", t("OpenDocument text")], ["opendocument.spreadsheet", t("OpenDocument table")],
  ["opendocument.presentation", t("OpenDocument slides")], ["image/", t("Image")], ["python", "Python"], ["javascript", "JavaScript"], ["yaml", "YAML"], ["toml", "TOML"],
];

export function kindOf(mediaType, name) {
  if (BY_TYPE[mediaType]) return BY_TYPE[mediaType];
  const found = BY_PART.find(([part]) => mediaType.includes(part));
  if (found) return found[1];
  const ending = /\.([A-Za-z0-9]{1,8})$/.exec(name)?.[1];
  return ending ? t("{} file", ending.toUpperCase()) : t("File");
}
