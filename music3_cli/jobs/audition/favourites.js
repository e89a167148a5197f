// Stars. Each is an entry of its own in the browser's local storage, under the song's id and its sound's sha256: a song
// that is rendered anew with another sound starts without one, and two windows do not overwrite each other's.

const favourites = {
  memory: new Set(),
  stored: true,

  key(take) {
    return `music3-favourite:${take.id}:${take.sha256 ?? take.file}`;
  },

  has(take) {
    return this.memory.has(this.key(take));
  },

  load() {
    this.memory.clear();
    try {
      for (const take of takes) if (localStorage.getItem(this.key(take)) !== null) this.memory.add(this.key(take));
    } catch {
      this.stored = false; // refused by the browser's settings: stars then last as long as the page
    }
  },

  toggle(take) {
    const key = this.key(take);
    const chosen = !this.memory.has(key);
    if (chosen) this.memory.add(key);
    else this.memory.delete(key);
    try {
      if (chosen) localStorage.setItem(key, "1");
      else localStorage.removeItem(key);
    } catch {
      this.stored = false;
    }
    dispatchEvent(new Event("favourites"));
  },

  all() {
    return takes.filter((take) => this.has(take));
  },
};

favourites.load();
addEventListener("storage", () => {
  favourites.load();
  dispatchEvent(new Event("favourites"));
});
