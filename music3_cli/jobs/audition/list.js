// The list: which takes are shown and in which order. Cards are made as one scrolls to them.

const CARDS_AT_ONCE = 40;

const view = { search: "", status: "all", warned: false, starred: false, sort: "order" };
const shown = { songs: [], made: 0 }; // songs: [{song, takes}]

const ORDERS = {
  order: (a, b) => a.song.order - b.song.order,
  title: (a, b) => a.song.title.localeCompare(b.song.title, undefined, { numeric: true }),
  longest: (a, b) => longest(b.takes) - longest(a.takes),
  shortest: (a, b) => longest(a.takes) - longest(b.takes),
  seed: (a, b) => compareSeeds(lowestSeed(a.takes), lowestSeed(b.takes)),
  warnings: (a, b) => warningCount(b.takes) - warningCount(a.takes),
};

// Seeds have up to 64 bits and are texts here.
function compareSeeds(a, b) {
  return Math.sign(Number(BigInt(a) - BigInt(b)));
}

function lowestSeed(several) {
  return several.map((take) => take.seed).sort(compareSeeds)[0];
}

function longest(several) {
  return Math.max(...several.map((take) => take.seconds ?? 0));
}

function warningCount(several) {
  return several.reduce((total, take) => total + take.warnings.length, 0);
}

function isShown(take) {
  if (view.status === "finished" && take.status !== "finished") return false;
  if (view.status === "failed" && take.status !== "failed") return false;
  if (view.status === "missing" && !["skipped", "not_started"].includes(take.status)) return false;
  if (view.warned && take.warnings.length === 0) return false;
  if (view.starred && !favourites.has(take)) return false;
  return !view.search || hasWords(take, view.search);
}

function listedTakes() {
  return shown.songs.flatMap((entry) => entry.takes);
}

function refreshList() {
  const entries = batch.songs.map((song) => ({ song, takes: song.takes.filter(isShown) }));
  shown.songs = entries.filter((entry) => entry.takes.length > 0).sort(ORDERS[view.sort]); // a stable sort
  shown.made = 0;
  rows.clear();
  const list = document.getElementById("songs");
  list.replaceChildren();
  if (shown.songs.length === 0) list.append(emptyNote());
  else makeCards();
  const count = listedTakes().length;
  document.getElementById("count").textContent =
    count === takes.length ? "" : `${count.toLocaleString("en")} of ${counted(takes.length, "take")}`;
  for (const chip of chips) chip.show();
}

function emptyNote() {
  if (takes.length === 0) return element("p", { class: "empty" }, "There are no songs in this batch.");
  const clear = () => {
    Object.assign(view, { search: "", status: "all", warned: false, starred: false });
    document.getElementById("search").value = "";
    refreshList();
  };
  const button = element("button", { type: "button", class: "plain", onclick: clear }, "Show all songs");
  return element("p", { class: "empty" }, "Nothing here matches. ", button);
}

function makeCards() {
  const list = document.getElementById("songs");
  const next = shown.songs.slice(shown.made, shown.made + CARDS_AT_ONCE);
  list.append(...next.map(card));
  shown.made += next.length;
  if (shown.made < shown.songs.length && next.length) watcher.observe(list.lastElementChild);
}

const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      watcher.unobserve(entry.target);
      if (entry.target === document.getElementById("songs").lastElementChild) makeCards();
    }
  },
  { rootMargin: "1500px" },
);

/** Make cards up to a take's, and bring it into sight. */
function reveal(take) {
  const place = shown.songs.findIndex((entry) => entry.takes.includes(take));
  if (place < 0) return;
  while (shown.made <= place) makeCards();
  rows.get(take)?.row.scrollIntoView({ block: "nearest" });
}

function card({ song, takes: listed }) {
  const first = listed[0];
  const presets = distinct(listed, "preset").map(([preset]) => preset).filter(Boolean);
  const title = element("h2", {}, element("bdi", {}, song.title));
  const by = song.artist && element("span", { class: "artist", dir: "auto" }, song.artist);
  const tags = presets.map((preset) => element("span", { class: "preset" }, preset));
  return element(
    "article",
    { class: "song" },
    element("header", {}, title, by, tags),
    element("p", { class: "gist", dir: "auto" }, gist(text(first.caption))),
    element("ul", { class: "takes" }, listed.map(takeRow)),
    foldedDetails(listed),
  );
}

/** A caption's sentences without its headings. */
function gist(caption) {
  const lines = caption.split("\n").map((line) => line.trim());
  return lines.filter((line) => line && !/^[#*\s]*[\p{L} ]{3,30}:\**$/u.test(line)).join(" ").slice(0, 400);
}

function foldedDetails(listed) {
  const body = element("div", { class: "texts" });
  const summary = element("summary", {}, "Caption, lyrics and settings");
  const details = element("details", {}, summary, body);
  details.addEventListener("toggle", () => {
    if (!details.open || body.hasChildNodes()) return;
    body.append(...wording("Caption", listed, "caption"), ...wording("Lyrics", listed, "lyrics"), facts(listed));
  });
  return details;
}

function wording(heading, listed, field) {
  const several = distinct(listed, field);
  return several.map(([index, those]) => {
    const whose = several.length > 1 ? `, ${those.map((take) => take.name).join(", ")}` : "";
    const words = text(index) || "none";
    return element("section", {}, element("h3", {}, heading + whose), element("p", { dir: "auto" }, words));
  });
}

function facts(listed) {
  const lists = listed.map((take) => {
    const file = take.href && element("a", { href: take.href }, element("bdi", {}, take.file));
    const sound = [["id", take.id], ["file", file], ["sha256", take.sha256?.slice(0, 16)], ["seed", take.seed]];
    const pairs = [...sound, ...JSON.parse(text(take.settings))].filter(([, value]) => value);
    const terms = pairs.map(([name, value]) => [
      element("dt", {}, name.replaceAll("_", " ")),
      element("dd", {}, value),
    ]);
    return [take.name && element("h4", { dir: "auto" }, take.name), element("dl", {}, terms)];
  });
  return element("section", { class: "settings" }, element("h3", {}, "Settings"), lists);
}

// Chips: what is shown. Those that would show nothing in this batch are left out.

const chips = [];

function addChip(label, count, isOn, press, always = false) {
  const number = element("span", {});
  const button = element("button", { type: "button", class: "chip" }, `${label} `, number);
  button.addEventListener("click", () => {
    press();
    refreshList();
  });
  const show = () => {
    const many = count();
    number.textContent = many.toLocaleString("en");
    button.hidden = !always && many === 0 && !isOn();
    button.setAttribute("aria-pressed", isOn());
  };
  chips.push({ show });
  document.getElementById("chips").append(button);
}

for (const [status, label, of] of [
  ["all", "All", Object.keys(STATUS)],
  ["finished", "Finished", ["finished"]],
  ["failed", "Failed", ["failed"]],
  ["missing", "Not rendered", ["skipped", "not_started"]],
]) {
  const count = takes.filter((take) => of.includes(take.status)).length;
  // When all are finished, that chip would say the same as the first.
  if (status === "finished" && count === takes.length) continue;
  addChip(label, () => count, () => view.status === status, () => (view.status = status), status === "all");
}
const warned = takes.filter((take) => take.warnings.length > 0).length;
addChip("With warnings", () => warned, () => view.warned, () => (view.warned = !view.warned));
addChip("Favourites", () => favourites.all().length, () => view.starred, () => (view.starred = !view.starred), true);
