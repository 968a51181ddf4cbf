// A sealed set: every message and follow-up as they would leave, byte for byte, and as a reviewer wants them.

import { base64Of, bytesOf, hexOf, indented, isJson, lasting, make, saysJson, textOf, visible, when } from "./reading.js";
import { Refused } from "./service.js";

/** A text as nodes that show all of it; what is a node already stays. */
export function asNode(value) {
  return typeof value === "string" ? visible(value) : value;
}

/** A list of names and values, without those that are not there. */
export function facts(pairs) {
  const list = make("dl");
  for (const [name, value] of pairs) {
    if (value) list.append(make("dt", {}, name), make("dd", {}, asNode(value)));
  }
  return list;
}

/** A body as it can be read, and what it is. */
export function bodyOf(type, base64) {
  const bytes = bytesOf(base64);
  const text = textOf(bytes);
  const json = text !== null && saysJson(type) && isJson(text);
  const read = json ? indented(text) : text;
  const body = make("pre", {}, text === null ? hexOf(bytes) : visible(read));
  const help = text === null ? `${bytes.length} bytes that are no text` : `${bytes.length} bytes of ${type}`;
  return { text: read, json, element: make("div", {}, body, make("p", { class: "help" }, visible(help))) };
}

/** Where a channel takes a message, a part a line. */
function placeOf(address) {
  return Object.entries(address).map(([name, part]) => `${name}: ${part}`).join("\n");
}

/** A message as it waits, with what a reviewer may do to it. */
export function messageCard(message, { n, count, conversation }) {
  const headers = Object.entries(message.headers).map(([name, value]) => `${name}: ${value}`).join("\n");
  const body = bodyOf(message.content_type, message.payload_base64);
  const id = `payload-${n}`;
  const area = make("textarea", { id, class: "payload", spellcheck: "true", rows: "8" });
  const areaLabel = make("label", { for: id }, `Message ${n + 1}, as you want it`);
  const out = make("input", { type: "checkbox", id: `out-${n}` });
  const tick = make("label", { class: "tick", for: `out-${n}` }, out, "Leave this one out");
  const edit = make("div", { hidden: "" }, body.text === null ? null : areaLabel, body.text === null ? null : area, tick);
  if (body.text !== null) area.value = body.text;
  const element = make(
    "article", { class: "card", "aria-label": `Message ${n + 1} of ${count}` },
    make("div", { class: "top" }, make("h3", {}, `Message ${n + 1} of ${count}`), make("span", { class: "help" }, message.state)),
    facts([
      ["Destination", message.destination], ["To", message.to], ["Goes to", placeOf(message.address)],
      ["Conversation", message.conversation === conversation ? null : message.conversation],
      ["Delay", message.delay_seconds ? lasting(message.delay_seconds) : null], ["Headers", headers],
    ]),
    body.element, edit,
  );
  out.addEventListener("change", () => element.classList.toggle("out", out.checked));
  // A text area spells every line end its own way: only what was changed is taken from it.
  return { message, element, edit, area, out, body, before: area.value };
}

/** An input to come. */
export function followUpCard(one, n) {
  const begins = one.not_before ? when(one.not_before) : one.delay_seconds ? `${lasting(one.delay_seconds)} after the approval` : "at once";
  return make(
    "article", { class: "card", "aria-label": `Follow-up ${n + 1}` },
    make("div", { class: "top" }, make("h3", {}, `Follow-up ${n + 1}`), make("span", { class: "help" }, one.state)),
    facts([
      ["Begins", one.due_at ? when(one.due_at) : begins], ["Queue", one.queue], ["Conversation", one.conversation],
      ["Key", one.key], ["Turn", one.turn],
    ]),
    one.payload_base64 === null ? make("p", { class: "help" }, "It has become an input of its own.") : bodyOf(one.content_type, one.payload_base64).element,
  );
}

/** The set as the reviewer wants it; null while nothing is changed. Raises `Refused` about what cannot be. */
export function edited(cards) {
  if (!cards.some((card) => card.out.checked || card.area.value !== card.before)) return null;
  return cards.filter((card) => !card.out.checked).map((card) => {
    const { message, area, before, body } = card;
    const changed = body.text !== null && area.value !== before;
    if (changed && body.json && !isJson(area.value)) {
      throw new Refused(422, { code: "here", detail: `Message ${cards.indexOf(card) + 1} is no longer JSON, and its receiver expects that.` });
    }
    return {
      id: message.id, destination: message.destination, to: message.to, conversation: message.conversation,
      headers: message.headers, delay_seconds: message.delay_seconds, content_type: message.content_type,
      payload_base64: changed ? base64Of(area.value) : message.payload_base64,
    };
  });
}
