// What plays. At most one take sounds; a few audio elements stay loaded so that comparing takes is immediate.

const KEPT_LOADED = 4;

const player = {
  current: null,
  before: null, // the take heard before, for going back and forth at the same position
  fault: "",
  goesOn: false,
  volume: 1,
  loaded: new Map(),

  get audio() {
    return this.current && this.loaded.get(this.current);
  },

  get playing() {
    return Boolean(this.audio) && !this.audio.paused;
  },

  get position() {
    return this.audio?.currentTime ?? 0;
  },

  length(take) {
    const known = this.loaded.get(take)?.duration;
    return Number.isFinite(known) ? known : (take.seconds ?? 0);
  },

  /** Make a take the current one; others fall silent. Without `at` it goes on where it was left. */
  open(take, { at = null, play = true } = {}) {
    if (!isPlayable(take)) return;
    if (take !== this.current) {
      this.audio?.pause();
      this.before = this.current;
      this.current = take;
      this.fault = "";
    }
    const audio = this.load(take);
    if (at !== null) this.seek(at);
    if (play) audio.play().catch((error) => error.name !== "AbortError" && this.fail(take));
    else audio.pause();
    changed();
  },

  load(take) {
    const audio = this.loaded.get(take) ?? this.newAudio(take);
    this.loaded.delete(take);
    this.loaded.set(take, audio); // the latest stands last
    for (const [old, element] of this.loaded) {
      if (this.loaded.size <= KEPT_LOADED) break;
      element.removeAttribute("src");
      element.load();
      this.loaded.delete(old);
    }
    return audio;
  },

  newAudio(take) {
    const audio = new Audio();
    audio.preload = "auto";
    audio.volume = this.volume;
    for (const name of ["play", "pause", "seeked", "loadedmetadata"]) audio.addEventListener(name, changed);
    audio.addEventListener("ended", () => this.goesOn && this.step(1));
    audio.addEventListener("error", () => audio.hasAttribute("src") && this.fail(take));
    audio.src = take.href;
    return audio;
  },

  fail(take) {
    if (take !== this.current) return;
    this.fault = `${take.file}: this browser cannot play it`;
    changed();
  },

  toggle() {
    if (this.playing) this.audio.pause();
    else if (this.current) this.open(this.current);
    else this.step(1);
  },

  seek(seconds) {
    // A hair before the end, so that seeking alone never ends a song.
    this.audio.currentTime = Math.max(0, Math.min(seconds, this.length(this.current) - 0.05));
  },

  /** The next or previous take of those that are listed. */
  step(by) {
    const listed = listedTakes().filter(isPlayable);
    const next = listed[this.current ? listed.indexOf(this.current) + by : 0];
    if (next) this.open(next, { at: 0 });
  },

  /** Another take at the same position; playing if this one is. */
  compare(take) {
    if (take && take !== this.current) this.open(take, { at: this.position, play: this.playing });
  },

  setVolume(volume) {
    this.volume = volume;
    for (const audio of this.loaded.values()) audio.volume = volume;
  },
};

function changed() {
  dispatchEvent(new Event("player"));
}
