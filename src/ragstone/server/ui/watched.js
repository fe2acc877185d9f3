// Show the folder that the server watches: what the last look found, and what could not be read.

import * as api from "./api.js";
import { el, replace } from "./dom.js";
import { number, t, when } from "./text.js";

const AGAIN_MS = 15_000;

/** Build the card; it stays hidden where no folder is watched. `changed` hears when a look changed the collection. */
export function createWatched({ isShown, changed }) {
  const node = el("section", { class: "card watched", "aria-labelledby": "watched-title", hidden: true });
  let waiting = 0;
  let last;

  async function load() {
    clearTimeout(waiting);
    let found;
    try {
      found = await api.get("/v1/watched-folder");
    } catch {
      return; // the list of documents shows the error
    }
    node.hidden = !found.folder;
    if (!found.folder) return;
    draw(found);
    if (last !== undefined && found.changed_at !== last) changed(found.collection);
    last = found.changed_at;
    waiting = setTimeout(() => { if (isShown()) load(); }, Math.max(AGAIN_MS, 1000 * Math.min(found.every_s, 300)));
  }

  function draw(found) {
    const seen = !found.looked_at ? t("It was not looked at yet.") : t("Last look: {}. Files: {}.", when(found.looked_at), number(found.files));
    const open = node.querySelector("details")?.open ?? false;
    replace(node,
      el("h2", { id: "watched-title" }, t("Watched folder")),
      el("p", {}, el("code", {}, found.folder), " ", t("New and changed files go to “{}” by themselves, up to {} s later.", found.collection, number(found.every_s)), " ",
        found.prune ? t("What is no longer in the folder is removed.") : t("What is no longer in the folder stays.")),
      el("p", { class: "muted small" }, found.is_reading ? t("Its files are being read…") : seen),
      found.error && el("p", { class: "notice warn" }, el("strong", {}, found.error), ` ${found.hint}`),
      found.unread.length > 0 && el("details", { open }, el("summary", {}, t("{} could not be read", number(found.unread.length))),
        el("ul", { class: "small" }, found.unread.map((one) => el("li", {}, el("strong", {}, one.name), ` ${one.error} ${one.hint}`)))));
  }

  return { node, load };
}
