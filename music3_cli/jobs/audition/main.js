// Head, foot, the player at the bottom, keys, and what happens when something changes.

const KEYS = [
  ["Space", "play, pause"],
  ["← →", "5 seconds back, on (with Shift: 1 second)"],
  ["↑ ↓", "previous, next take"],
  ["1 … 9", "that take of the song, at the same position"],
  ["B", "back and forth between the last two takes, at the same position"],
  ["F", "mark as favourite"],
  ["/", "search"],
  ["?", "these keys"],
];

function showHead() {
  document.title = `${batch.title} · audition`;
  document.getElementById("title").textContent = batch.title;
  const finished = takes.filter((take) => take.status === "finished");
  const seconds = finished.reduce((total, take) => total + (take.seconds ?? 0), 0);
  const parts = [counted(batch.songs.length, "song")];
  if (takes.length !== batch.songs.length) parts.push(counted(takes.length, "take"));
  if (seconds) parts.push(`${lengthClock(seconds)} of sound`);
  document.getElementById("facts").append(...parts.map((part) => element("span", {}, part)));
  const notes = batch.shared_warnings.map((warning) => `All songs: ${warning}.`);
  const waiting = takes.filter((take) => take.status === "not_started").length;
  if (waiting) notes.unshift(`${waiting} of ${counted(takes.length, "take")} not rendered yet. The same command goes on.`);
  document.getElementById("notes").append(...notes.map((note) => element("p", { class: "note" }, note)));
  const { name, digest } = batch.checkpoint;
  const keys = element("button", { type: "button", class: "plain", onclick: openKeys }, "Keys");
  const from = [`${batch.manifest} · checkpoint ${name} · ${String(digest).slice(0, 12)}`];
  document.getElementById("foot").append(element("span", { dir: "auto" }, from), keys);
}

function openKeys() {
  const dialog = document.getElementById("keys");
  const terms = KEYS.map(([key, meaning]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, meaning)]);
  const close = element("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close");
  dialog.replaceChildren(element("h2", { id: "keys-title" }, "Keys"), element("dl", {}, terms), close);
  dialog.showModal();
}

// The player

const bar = {};

function makeBar() {
  const button = (label, name, press) => {
    const made = element("button", { type: "button", "aria-label": label, title: label, onclick: press }, icon(name));
    return made;
  };
  bar.previous = button("Previous take", "previous", () => player.step(-1));
  bar.play = button("Play", "play", () => player.toggle());
  bar.play.className = "play";
  bar.next = button("Next take", "next", () => player.step(1));
  bar.title = element("button", { type: "button", class: "now", onclick: () => reveal(player.current) });
  bar.time = element("span", { class: "time" });
  bar.fault = element("span", { class: "fault", role: "alert" });
  bar.takes = element("div", { class: "versions", role: "group", "aria-label": "Takes of this song" });
  bar.swap = button("Back to the take heard before, at the same position", "swap", () => player.compare(player.before));
  const goOn = (event) => (player.goesOn = event.target.checked);
  const volume = { type: "range", min: 0, max: 1, step: 0.01, value: 1, "aria-label": "Volume" };
  document.getElementById("player").append(
    element("div", { class: "buttons" }, bar.previous, bar.play, bar.next),
    element("div", { class: "what" }, bar.title, bar.time, bar.fault),
    element("div", { class: "compare" }, bar.takes, bar.swap),
    element("label", { class: "on" }, element("input", { type: "checkbox", onchange: goOn }), "Play on"),
    element("input", { ...volume, class: "volume", oninput: (event) => player.setVolume(Number(event.target.value)) }),
  );
}

function showBar() {
  const take = player.current;
  document.getElementById("player").hidden = !take;
  if (!take) return;
  if (bar.play.dataset.playing !== String(player.playing)) {
    bar.play.dataset.playing = player.playing;
    bar.play.setAttribute("aria-label", player.playing ? "Pause" : "Play");
    setIcon(bar.play, player.playing ? "pause" : "play");
  }
  if (bar.take !== take) {
    bar.take = take;
    bar.title.replaceChildren(element("bdi", {}, take.song.title), " ", element("small", {}, take.name));
    bar.title.setAttribute("aria-label", `Show ${fullName(take)} in the list`);
    const several = take.song.takes.length > 1 ? take.song.takes : [];
    bar.takes.replaceChildren(...several.map(versionButton));
    bar.swap.hidden = !player.before;
  }
  bar.fault.textContent = player.fault;
  showPosition();
}

function versionButton(take) {
  const choose = () => player.compare(take);
  const made = element("button", { type: "button", onclick: choose }, String(take.index + 1));
  made.disabled = !isPlayable(take);
  made.setAttribute("aria-label", `${take.name}, at the same position`);
  made.setAttribute("aria-pressed", take === player.current);
  return made;
}

function showPosition() {
  showTake(player.current);
  bar.time.textContent = `${clock(player.position)} / ${lengthClock(player.length(player.current))}`;
}

// The playhead follows the sound, frame by frame while it plays.

let following = false;

function follow() {
  following = player.playing;
  if (!following) return;
  showPosition();
  requestAnimationFrame(follow);
}

let shownBefore = null;

addEventListener("player", () => {
  if (shownBefore && shownBefore !== player.current) showTake(shownBefore);
  if (shownBefore !== player.current) {
    reveal(player.current);
    if (document.activeElement?.matches(".wave")) rows.get(player.current)?.slider.focus({ preventScroll: true });
  }
  shownBefore = player.current;
  showBar();
  if (!following) follow();
});

addEventListener("favourites", () => {
  if (view.starred) refreshList();
  for (const take of rows.keys()) showStar(take);
  for (const chip of chips) chip.show();
  const lost = document.getElementById("lost");
  if (!favourites.stored && !lost) {
    const words = "This browser does not store favourites for this page: export them before you close it.";
    document.getElementById("notes").append(element("p", { class: "note", id: "lost" }, words));
  }
});

// Keys

function takesText(target) {
  return target.matches("input:not([type=checkbox], [type=radio], [type=range]), textarea, select");
}

document.addEventListener("keydown", (event) => {
  const target = event.target instanceof Element ? event.target : document.body;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (takesText(target)) {
    if (event.key === "Escape") target.blur();
    return;
  }
  // What has the focus keeps its own keys: a button Space, a slider of the browser its arrows.
  if (event.key === " " && target.closest("button, summary, input, a")) return;
  if (event.key.startsWith("Arrow") && target.matches("input")) return;
  const pressed = keyAction(event, focusedTake(target));
  if (!pressed) return;
  event.preventDefault();
  pressed();
});

/** The take whose waveform has the focus: keys are about it rather than about what plays. */
function focusedTake(target) {
  for (const [take, parts] of rows) if (parts.slider === target) return take;
  return null;
}

function keyAction(event, focused) {
  const take = focused ?? player.current;
  const seek = (by) => () => {
    if (take === player.current) player.seek(player.position + by);
    else player.open(take, { at: by, play: player.playing });
  };
  const step = event.shiftKey ? 1 : 5;
  switch (event.key) {
    case " ":
      return focused ? () => playOrPause(focused) : () => player.toggle();
    case "ArrowLeft":
      return take && seek(-step);
    case "ArrowRight":
      return take && seek(step);
    case "Home":
      return focused && (() => player.open(focused, { at: 0, play: player.playing }));
    case "ArrowDown":
      return () => player.step(1);
    case "ArrowUp":
      return () => player.step(-1);
    case "b":
    case "B":
      return () => player.compare(player.before);
    case "f":
    case "F":
      return take && (() => favourites.toggle(take));
    case "/":
      return () => document.getElementById("search").focus();
    case "?":
      return openKeys;
    default:
      return /^[1-9]$/.test(event.key) && take && (() => player.compare(take.song.takes[Number(event.key) - 1]));
  }
}

// A button that was pressed with a pointer gives the focus back, so that Space means the player again.
document.addEventListener("click", (event) => {
  if (event.detail > 0) event.target.closest?.("button:not(dialog button)")?.blur();
});

document.getElementById("search").addEventListener("input", (event) => {
  view.search = event.target.value.trim();
  refreshList();
});
document.getElementById("sort").addEventListener("change", (event) => {
  view.sort = event.target.value;
  refreshList();
});
document.getElementById("export").addEventListener("click", openExport);

showHead();
makeBar();
refreshList();
