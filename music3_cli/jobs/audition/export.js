// Favourites as a list, to copy or to keep as a file.

const LISTS = {
  only: ["Ids, as flags for music3 batch", (chosen) => chosen.map((take) => `--only ${quoted(take.id)}`).join(" ")],
  files: ["File names, one a line", (chosen) => chosen.map((take) => take.file).join("\n")],
};

/** A word for a POSIX shell. */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function openExport() {
  const dialog = document.getElementById("favourites");
  const chosen = favourites.all();
  const field = element("textarea", { readonly: true, rows: 6, "aria-label": "The list", spellcheck: "false" });
  const said = element("p", { role: "status" });
  let kind = "only";
  const show = () => {
    field.value = LISTS[kind][1](chosen);
    said.textContent = "";
  };
  const radios = Object.entries(LISTS).map(([name, [label]]) => {
    const choose = () => {
      kind = name;
      show();
    };
    const radio = element("input", { type: "radio", name: "list", checked: name === kind, onchange: choose });
    return element("label", {}, radio, label);
  });
  const copy = async () => {
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
      said.textContent = "Copied.";
    } catch {
      said.textContent = "The browser did not allow copying; the list is selected.";
    }
  };
  const save = () => {
    const address = URL.createObjectURL(new Blob([`${field.value}\n`], { type: "text/plain" }));
    element("a", { href: address, download: "favourites.txt" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  const button = (label, press) => element("button", { type: "button", onclick: press }, label);
  const body = chosen.length
    ? [element("fieldset", {}, radios), field, said, element("div", { class: "row" }, button("Copy", copy), button("Download", save))]
    : [element("p", {}, "Nothing is marked yet. The star beside a take, or the key F, marks it.")];
  const close = element("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close");
  dialog.replaceChildren(element("h2", { id: "favourites-title" }, counted(chosen.length, "favourite")), ...body, close);
  show();
  dialog.showModal();
}
