// Name the kind of a document as people do, whatever its media type is called.

const BY_TYPE = {
  "application/pdf": "PDF", "text/markdown": "Markdown", "text/plain": "Text", "text/html": "Web page", "text/csv": "Table", "text/tab-separated-values": "Table",
  "message/rfc822": "Mail", "application/vnd.ms-outlook": "Mail", "application/json": "JSON", "application/xml": "XML", "text/xml": "XML", "application/rtf": "Rich text", "text/rtf": "Rich text",
  "application/epub+zip": "Book", "application/msword": "Word", "application/vnd.ms-excel": "Excel", "application/vnd.ms-powerpoint": "PowerPoint",
};
const BY_PART = [
  ["wordprocessingml", "Word"], ["spreadsheetml", "Excel"], ["presentationml", "PowerPoint"], ["opendocument.text", "OpenDocument text"], ["opendocument.spreadsheet", "OpenDocument table"],
  ["opendocument.presentation", "OpenDocument slides"], ["image/", "Image"], ["python", "Python"], ["javascript", "JavaScript"], ["yaml", "YAML"], ["toml", "TOML"],
];

export function kindOf(mediaType, name) {
  if (BY_TYPE[mediaType]) return BY_TYPE[mediaType];
  const found = BY_PART.find(([part]) => mediaType.includes(part));
  if (found) return found[1];
  const ending = /\.([A-Za-z0-9]{1,8})$/.exec(name)?.[1];
  return ending ? `${ending.toUpperCase()} file` : "File";
}
