// Upload files: show the progress of sending, then the outcome of each file.

import * as api from "./api.js";
import { announce, el, replace } from "./dom.js";
import { plural, t } from "./text.js";

const OUTCOMES = { added: t("Added"), updated: t("New version"), unchanged: t("Unchanged"), removed: t("Removed") };

const STAGES = { reading: [t("Reading the text…"), 0.65], embedding: [t("Making it searchable…"), 0.7] };

export async function upload(files, { collection, tags, password }, queue) {
  const rows = files.map((file) => row(file));
  queue.prepend(...rows.map((one) => one.node));
  const failAll = (problem) => { for (const one of rows) if (!one.ended) one.fail(problem.message, problem.hint); };
  let begun;
  try {
    begun = await sendAll(files, { collection, tags, password }, rows);
    for (const one of rows) one.say(t("Waiting to be read…"), 0.55);
    for await (const event of api.events("GET", `/v1/uploads/${begun.upload_id}/events`)) {
      if (event.type === "stage") rows.find((one) => !one.ended && (one.name === event.name || event.name.endsWith(`/${one.name}`)))?.enter(event);
      if (event.type === "file") showOutcome(rows, event, queue);
    }
  } catch (problem) {
    failAll(problem);
    announce(problem.message);
    return;
  }
  for (const one of rows) if (!one.ended) one.fail(t("The server did not report on this file."), "");
  const failed = rows.filter((one) => one.failed).length;
  announce(failed ? t("Files read: {}, failed: {}.", rows.length - failed, failed) : t("Files read: {}.", rows.length));
}

function showOutcome(rows, event, queue) {
  let mine = rows.find((one) => !one.ended && (one.name === event.name || event.name.endsWith(`/${one.name}`)))
    ?? rows.find((one) => !one.ended && event.name.startsWith(one.name));
  if (!mine) {
    mine = row({ name: event.name, size: 0 });
    rows.push(mine);
    queue.prepend(mine.node);
  }
  if (event.outcome === "failed") mine.fail(event.error ?? t("It could not be read."), event.hint ?? "");
  else {
    const said = [OUTCOMES[event.outcome] ?? event.outcome, event.chunk_count && plural(event.chunk_count, "passage")].filter(Boolean).join(", ");
    mine.end(event.hint ? `${said}. ${event.hint}` : said);
  }
}

function row(file) {
  const bar = el("progress", { max: "1", value: "0", "aria-label": t("Progress of {}", file.name) });
  const says = el("span", { class: "says" }, t("Waiting…"));
  const close = el("button", { type: "button", class: "icon", "aria-label": t("Hide {}", file.name), onclick: () => node.remove() }, "×");
  const node = el("li", { class: "file" }, el("span", { class: "name" }, file.name), bar, says);
  const self = {
    node, name: file.name, ended: false, failed: false,
    sent(share) { bar.value = share * 0.5; says.textContent = share < 1 ? t("Sending {} %", Math.round(share * 100)) : t("Sent"); },
    say(text, share) { bar.value = share; says.textContent = text; },
    enter({ stage, chunks_done: done, chunk_count: count }) {
      const [text, share] = STAGES[stage] ?? [stage, 0.6];
      if (count) self.say(`${text} ${done} / ${count}`, 0.7 + (0.3 * done) / count);
      else self.say(text, share);
    },
    end(text) { self.ended = true; bar.remove(); node.classList.add("done"); says.textContent = text; node.append(close); },
    fail(reason, hint) { self.ended = self.failed = true; bar.remove(); node.classList.add("failed"); replace(says, el("strong", {}, reason), hint ? ` ${hint}` : ""); node.append(close); },
  };
  return self;
}

/** Send by XMLHttpRequest: fetch does not report how much was sent. */
function sendAll(files, { collection, tags, password }, rows) {
  const form = new FormData();
  form.append("collection", collection);
  if (tags.trim()) form.append("tags", tags);
  if (password) form.append("password", password);
  for (const file of files) form.append("files", file, file.name);
  const total = files.reduce((sum, file) => sum + file.size, 0) || 1;
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/v1/documents?wait=false");
    for (const [name, value] of Object.entries(api.headers())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => {
      let sent = (event.loaded / event.total) * total;
      files.forEach((file, index) => {
        rows[index].sent(file.size ? Math.min(1, Math.max(0, sent / file.size)) : 1);
        sent -= file.size;
      });
    };
    request.onload = async () => {
      if (request.status < 300) resolve(JSON.parse(request.responseText));
      else {
        const problem = await api.problemOf(request.status, request.responseText);
        if (problem.status === 401) api.wantKey(problem);
        reject(problem);
      }
    };
    request.onerror = () => reject(new api.Problem(t("The server cannot be reached."), { hint: t("The files were not sent; try again.") }));
    request.send(form);
  });
}
