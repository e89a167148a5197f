// The batch as the page embeds it, with what the lists need to find and order songs.

const batch = JSON.parse(document.getElementById("batch").textContent);

const STATUS = { finished: "Finished", failed: "Failed", skipped: "Skipped", not_started: "Not started" };

batch.songs.forEach((song, order) => {
  song.order = order;
  const numbers = new Set(song.takes.map((take) => take.take));
  song.takes.forEach((take, index) => {
    take.song = song;
    take.index = index;
    take.words = foldedTake(take);
    take.name = song.takes.length === 1 ? "" : numbers.size === song.takes.length ? `Take ${take.take}` : take.id;
  });
  [song.title] = song.takes.map((take) => take.title || take.id);
  [song.artist] = song.takes.map((take) => take.artist || "");
});

const takes = batch.songs.flatMap((song) => song.takes);

function text(index) {
  return batch.texts[index];
}

/** Case and accents make no difference to a search. */
function folded(words) {
  return words.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

function foldedTake(take) {
  const warnings = take.warnings.map((warning) => warning.text);
  const parts = [take.title, take.artist, take.id, take.preset, take.file, text(take.caption), text(take.lyrics)];
  return folded([...parts, `seed ${take.seed}`, take.error?.message, ...warnings].filter(Boolean).join("\n"));
}

/** Whether every word of a search is in the take's texts; a number counts as a whole one: seed 9 is not seed 90. */
function hasWords(take, search) {
  const isIn = (word) =>
    /^\d+$/.test(word) ? new RegExp(`(?<!\\d)${word}(?!\\d)`).test(take.words) : take.words.includes(word);
  return folded(search).split(/\s+/).every(isIn);
}

/** How the take is called where its song's card is not in sight. */
function fullName(take) {
  return take.name ? `${take.song.title}, ${take.name}` : take.song.title;
}

function isPlayable(take) {
  return take.status === "finished" && take.href !== null && take.fault !== "the file is not there";
}

/** [[value, takes that have it], …] in the order of the takes. */
function distinct(several, field) {
  const found = new Map();
  for (const take of several) found.set(take[field], [...(found.get(take[field]) ?? []), take]);
  return [...found];
}
