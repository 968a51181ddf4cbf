// How what strangers wrote is read and shown: as text and nothing else, and with what would deceive the eye made visible.

// Controls, halves of characters, and what turns, hides or joins the text around it.
const DECEIVING =
  /(?<![\p{Emoji}\ufe0f])[\u200d\ufe0f]|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\ud800-\udfff]/gu;

const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const short = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
export const ZONE = moment.resolvedOptions().timeZone;

/** An element with attributes and children; strings among them become text. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A text as nodes: every character of it that cannot be seen is named. */
export function visible(text) {
  const nodes = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(DECEIVING)) {
    nodes.append(text.slice(from, found.index));
    const code = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    nodes.append(make("mark", { title: "a character that cannot be seen" }, `U+${code}`));
    from = found.index + found[0].length;
  }
  nodes.append(text.slice(from));
  return nodes;
}

/** The bytes behind base64. */
export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** Base64 of a text in UTF-8. */
export function base64Of(text) {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/** The text that bytes are in UTF-8, with every one of them; null for what is none. */
export function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Bytes that are no text, for whoever knows what they are. */
export function hexOf(bytes) {
  const shown = Array.from(bytes.slice(0, 512), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  return bytes.length > 512 ? `${shown} …` : shown;
}

export function saysJson(type) {
  return /^application\/([^;]+\+)?json *(;|$)/i.test(type.trim());
}

export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// Letters are read as letters, however they are spelled. What ends a string, or is a control, stays spelled out.
function lettered(string) {
  return string.replace(/\\(?:u([0-9a-fA-F]{4})|.)/gs, (spelled, hex) => {
    const code = hex === undefined ? 0 : parseInt(hex, 16);
    return code < 0x20 || code === 0x22 || code === 0x5c ? spelled : String.fromCharCode(code);
  });
}

/** JSON on lines of its own, and its letters as letters: the same value, whose numbers and names nobody has read. */
export function indented(json) {
  const pieces = [];
  let depth = 0;
  let before = "";
  const newLine = () => `\n${"  ".repeat(Math.min(depth, 40))}`;
  for (const [part] of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gsu)) {
    const closes = part === "}" || part === "]";
    if (closes) depth -= 1;
    // What is empty stays on its line.
    const opened = before === "{" || before === "[";
    if (closes ? !opened : opened || before === ",") pieces.push(newLine());
    if (part === "{" || part === "[") depth += 1;
    pieces.push(part === ":" ? ": " : part[0] === '"' ? lettered(part) : part);
    before = part;
  }
  return pieces.join("");
}

/** A time in the reader's zone, with the zone and how far away it is. */
export function when(text) {
  const at = new Date(text);
  return make("time", { datetime: text, title: text }, `${moment.format(at)} (${ZONE}), ${distance(at)}`);
}

/** A time for a list. */
export function shortly(text) {
  return make("time", { datetime: text, title: `${text}, shown in ${ZONE}` }, short.format(new Date(text)));
}

function distance(at) {
  const seconds = (at - Date.now()) / 1000;
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(seconds) >= size * 1.5) return relative.format(Math.round(seconds / size), unit);
  }
  return relative.format(Math.round(seconds), "second");
}

/** A duration in words. */
export function lasting(seconds) {
  for (const [unit, size] of [["days", 86400], ["hours", 3600], ["minutes", 60]]) {
    if (seconds >= size * 2) return `${+(seconds / size).toFixed(1)} ${unit}`;
  }
  return `${+seconds.toFixed(1)} seconds`;
}
