// Call the server: JSON, server-sent events over fetch (EventSource cannot send the key), errors as
// sentences. The key is kept in the session storage of this tab only.

import { language, t } from "./text.js";

const KEY = "ragstone.key";

export class Problem extends Error {
  constructor(message, { hint = "", status = 0, requestId = "" } = {}) {
    super(message);
    this.hint = hint;
    this.status = status;
    this.requestId = requestId;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
  remove: () => sessionStorage.removeItem(KEY),
};

/** Errors come in the language of the page. */
export function headers(more = {}) {
  return { "Accept-Language": language, ...(key.get() ? { Authorization: `Bearer ${key.get()}` } : {}), ...more };
}

export async function problemOf(status, text, requestId = "") {
  try {
    const said = JSON.parse(text);
    return new Problem(said.detail || said.title, { hint: said.hint ?? "", status, requestId: said.request_id ?? requestId });
  } catch {
    return new Problem(t("The server answered with status {}.", status), { status, requestId });
  }
}

export function wantKey(problem) {
  document.dispatchEvent(new CustomEvent("ragstone:key-wanted", { detail: problem }));
}

const GONE = () => new Problem(t("The server cannot be reached."), { hint: t("Check that it is running, then try again. Your question is still here.") });

async function send(method, path, { body, accept, signal, keepalive } = {}) {
  let reply;
  try {
    reply = await fetch(path, {
      method,
      signal,
      keepalive,
      headers: headers({ ...(body ? { "Content-Type": "application/json" } : {}), ...(accept ? { Accept: accept } : {}) }),
      body: body ? JSON.stringify(body) : undefined,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw GONE();
  }
  if (reply.ok) return reply;
  const problem = await problemOf(reply.status, await reply.text().catch(() => ""), reply.headers.get("X-Request-ID") ?? "");
  if (problem.status === 401) wantKey(problem);
  throw problem;
}

export async function get(path, params = {}, options = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  const reply = await send("GET", query.size ? `${path}?${query}` : path, options);
  return reply.json();
}

export async function bytes(path, options = {}) {
  return (await send("GET", path, options)).arrayBuffer();
}

export async function post(path, body, options = {}) {
  return (await send("POST", path, { body, ...options })).json();
}

export async function put(path, body) {
  return (await send("PUT", path, { body })).json();
}

export async function patch(path, body) {
  return (await send("PATCH", path, { body })).json();
}

export async function remove(path, options = {}) {
  await send("DELETE", path, options);
}

/** Yield the events of a stream; throw a Problem if it ends before `done` or `error`. */
export async function* events(method, path, options = {}) {
  const reply = await send(method, path, { ...options, accept: "text/event-stream" });
  if (!(reply.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) {
    yield { ...(await reply.json()), type: "done" };
    return;
  }
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  let ended = false;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      waiting += value.replaceAll("\r\n", "\n");
      let cut;
      while ((cut = waiting.indexOf("\n\n")) >= 0) {
        const event = parse(waiting.slice(0, cut));
        waiting = waiting.slice(cut + 2);
        if (event) {
          ended ||= event.type === "done" || event.type === "error";
          yield event;
        }
      }
    }
  } catch (error) {
    if (error.name === "AbortError" || options.signal?.aborted) throw new DOMException("stopped", "AbortError");
    if (error instanceof Problem) throw error;
    if (!(error instanceof TypeError)) throw error;
  } finally {
    reader.cancel().catch(() => {});
  }
  if (!ended) throw new Problem(t("The connection to the server was lost before the answer was complete."), { hint: t("The part that arrived is shown, unchecked. Try again when the server is back.") });
}

function parse(block) {
  let kind = "";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  if (!data.length || data[0] === "[DONE]") return null;
  const parsed = JSON.parse(data.join("\n"));
  return kind && !parsed.type ? { type: kind, ...parsed } : parsed;
}
