// Making elements. Text becomes text nodes: nothing that a user wrote is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (`on…` are listeners, null and false are left out) and children (text or elements). */
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function drawing(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child instanceof Node || (child && child !== true)));
  return made;
}

const ICONS = {
  play: "M8 5.2v13.6a.9.9 0 0 0 1.4.75l10.4-6.8a.9.9 0 0 0 0-1.5L9.4 4.45A.9.9 0 0 0 8 5.2z",
  pause: "M7 4.5h3.4v15H7zM13.6 4.5H17v15h-3.4z",
  star: "M12 3.2l2.72 5.62 6.18.86-4.5 4.32 1.1 6.14L12 17.2l-5.5 2.94 1.1-6.14-4.5-4.32 6.18-.86z",
  previous: "M6 5h2.4v14H6zM19 5.8v12.4a.7.7 0 0 1-1.1.57L9.6 12.6a.7.7 0 0 1 0-1.2l8.3-6.17A.7.7 0 0 1 19 5.8z",
  next: "M15.6 5H18v14h-2.4zM5 5.8v12.4a.7.7 0 0 0 1.1.57l8.3-6.17a.7.7 0 0 0 0-1.2L6.1 5.23A.7.7 0 0 0 5 5.8z",
  swap: "M7.5 4L3 8.5 7.5 13V9.7H21V7.3H7.5zM16.5 11v3.3H3v2.4h13.5V20l4.5-4.5z",
};

function icon(name) {
  const path = drawing("path", { d: ICONS[name] });
  return drawing("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, path);
}

function setIcon(button, name) {
  button.replaceChildren(icon(name));
}

/** How long a sound is, as the summary of a run says it too. */
function lengthClock(seconds) {
  return clock(Math.round(seconds));
}

/** Where in a sound one is: `3:05`, or `1:02:05`. */
function clock(seconds) {
  const whole = Math.floor(seconds + 1e-6);
  const two = (value) => String(value).padStart(2, "0");
  const minutes = Math.floor(whole / 60) % 60;
  return whole >= 3600
    ? `${Math.floor(whole / 3600)}:${two(minutes)}:${two(whole % 60)}`
    : `${minutes}:${two(whole % 60)}`;
}

function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
