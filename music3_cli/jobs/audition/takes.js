// One take in the list: play button, waveform with playhead and marks, facts, warnings, star.

const BARS = matchMedia("(max-width: 44rem)").matches ? 80 : 240;
const rows = new Map(); // take -> its elements, for takes that are in the document

const REASONS = { end: "", ceiling: "cut at the ceiling" };

function takeRow(take) {
  const parts = { row: null, play: null, slider: null, time: null, star: null };
  if (take.status !== "finished") return (parts.row = missingRow(take));
  const name = fullName(take);
  parts.play = element("button", { type: "button", class: "play", onclick: () => playOrPause(take) }, icon("play"));
  parts.play.disabled = !isPlayable(take);
  parts.slider = slider(take, name);
  parts.time = element("span", { class: "time" });
  const star = () => favourites.toggle(take);
  parts.star = element("button", { type: "button", class: "star", onclick: star }, icon("star"));
  parts.star.setAttribute("aria-label", `Favourite: ${name}`);
  const facts = [take.seed && `seed ${take.seed}`, REASONS[take.finish_reason] ?? take.finish_reason, take.fault && "no waveform"];
  const label = element(
    "p",
    { class: "label" },
    take.name && element("b", { dir: "auto" }, take.name),
    facts.filter(Boolean).map((fact) => element("span", {}, fact)),
  );
  parts.row = element(
    "li",
    { class: "take" },
    parts.play,
    label,
    parts.slider,
    parts.time,
    parts.star,
    take.fault && element("p", { class: "fault" }, `${take.file}: ${take.fault}`),
    take.warnings.length > 0 && warningList(take),
  );
  rows.set(take, parts);
  showStar(take);
  showTake(take);
  return parts.row;
}

function missingRow(take) {
  const error = take.error;
  return element(
    "li",
    { class: `take missing ${take.status}` },
    element("p", { class: "label" }, take.name && element("b", { dir: "auto" }, take.name), take.seed && `seed ${take.seed}`),
    element(
      "div",
      { class: "why" },
      element("b", {}, STATUS[take.status] ?? take.status),
      error && element("span", { dir: "auto" }, error.message),
      error?.hint && element("small", { dir: "auto" }, error.hint),
    ),
  );
}

function warningList(take) {
  const lines = take.warnings.map((warning) => {
    const go = () => player.open(take, { at: Math.max(0, warning.at - 1) });
    const listen = warning.at !== null && isPlayable(take);
    return element(
      "li",
      {},
      warning.text,
      listen && element("button", { type: "button", class: "plain", onclick: go }, `Listen at ${clock(warning.at)}`),
    );
  });
  return element("ul", { class: "warnings", "aria-label": "Warnings" }, lines);
}

function slider(take, name) {
  const made = element("div", {
    class: "wave",
    role: "slider",
    tabindex: isPlayable(take) ? 0 : -1,
    "aria-label": `Position in ${name}`,
    "aria-valuemin": 0,
    "aria-disabled": !isPlayable(take) && "true",
  });
  if (take.peaks) {
    const path = wavePath(take.peaks);
    for (const kind of ["rest", "played"]) {
      const shape = drawing("path", { d: path });
      const box = { class: kind, viewBox: `0 -127 ${BARS} 254`, preserveAspectRatio: "none", "aria-hidden": "true" };
      made.append(drawing("svg", box, shape));
    }
  }
  made.append(element("i", { class: "head-line" }));
  for (const warning of take.warnings) {
    if (warning.at === null || !take.seconds) continue;
    const mark = element("i", { class: "mark", title: warning.text });
    mark.style.setProperty("--at", `${Math.min(1, warning.at / take.seconds) * 100}%`);
    made.append(mark);
  }
  let held = false;
  const go = (event) => {
    const box = made.getBoundingClientRect();
    const share = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    const at = share * player.length(take);
    if (take === player.current) player.seek(at);
    else player.open(take, { at });
  };
  made.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !isPlayable(take)) return;
    held = true;
    made.setPointerCapture(event.pointerId);
    go(event);
  });
  made.addEventListener("pointermove", (event) => held && go(event));
  for (const end of ["pointerup", "pointercancel"]) {
    made.addEventListener(end, () => {
      held = false;
      made.blur(); // as for buttons: keys mean the player again
    });
  }
  return made;
}

/** An SVG path of upright strokes, one a bar, from pairs of signed bytes. */
function wavePath(peaks) {
  const bytes = Int8Array.from(atob(peaks), (character) => character.charCodeAt(0));
  const columns = bytes.length / 2;
  const strokes = [];
  for (let bar = 0; bar < BARS; bar += 1) {
    const from = Math.floor((bar * columns) / BARS);
    const to = Math.max(from + 1, Math.floor(((bar + 1) * columns) / BARS));
    let [low, high] = [0, 0];
    for (let column = from; column < to; column += 1) {
      low = Math.min(low, bytes[2 * column]);
      high = Math.max(high, bytes[2 * column + 1]);
    }
    strokes.push(`M${bar + 0.5} ${-Math.max(high, 1)}V${-Math.min(low, -1)}`);
  }
  return strokes.join("");
}

function playOrPause(take) {
  if (take === player.current) player.toggle();
  else player.open(take);
}

function showTake(take) {
  const parts = rows.get(take);
  if (!parts) return;
  const current = take === player.current;
  const length = player.length(take);
  const at = current ? player.position : (player.loaded.get(take)?.currentTime ?? 0);
  const playing = current && player.playing;
  parts.row.classList.toggle("current", current);
  if (parts.play.dataset.playing !== String(playing)) {
    parts.play.dataset.playing = playing;
    parts.play.setAttribute("aria-label", `${playing ? "Pause" : "Play"} ${fullName(take)}`);
    setIcon(parts.play, playing ? "pause" : "play");
  }
  parts.slider.style.setProperty("--at", `${length ? Math.min(1, at / length) * 100 : 0}%`);
  parts.slider.setAttribute("aria-valuemax", Math.round(length));
  parts.slider.setAttribute("aria-valuenow", Math.round(at));
  parts.slider.setAttribute("aria-valuetext", `${clock(at)} of ${lengthClock(length)}`);
  parts.time.textContent = current || at ? `${clock(at)} / ${lengthClock(length)}` : lengthClock(length);
}

function showStar(take) {
  rows.get(take)?.star.setAttribute("aria-pressed", favourites.has(take));
}
