// Open a source beside the answer. The viewer is loaded when the first source is opened.

let viewer = null;

export async function openSource(...place) {
  viewer ??= import("./source.js");
  await (await viewer).openSource(...place);
}

export async function closeSource() {
  if (viewer) (await viewer).closeSource();
}
