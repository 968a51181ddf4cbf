// The page on which a person decides. It shows what waits, and binds the decision to the hash of what it has shown.
// The key is kept in this variable alone, and nothing is kept when the page is left.

import { isJson, make, shortly, visible, when } from "./reading.js";
import { HANDLE, Refused, call } from "./service.js";
import { asNode, bodyOf, edited, followUpCard, messageCard } from "./set.js";

const WAITING = ["held", "escalated"];
const DONE = {
  approve: "approved", edit: "approved with changes", reject: "rejected", revise: "sent back for a revision",
  cancel: "cancelled", send: "sent",
};
const SILENCE = {
  escalate: "Then somebody is called, and it can still be decided.",
  cancel: "Then it is cancelled, and nothing is sent.",
  send: "Then it is sent, decided by nobody.",
};
const EVENTS_MAX = 5000;

const $ = (id) => document.getElementById(id);
const linked = new URLSearchParams(location.search).get("hash");
let key = "";
let turn = null;
let shown = null;
let cards = [];
let editing = false;

function say(place, kind, ...paragraphs) {
  const words = paragraphs.map((one) => (typeof one === "string" ? make("p", {}, visible(one)) : one));
  $(place).replaceChildren(make("div", { class: `banner ${kind}` }, ...words));
  if (place === "alert") $(place).scrollIntoView({ block: "nearest" });
}

function quiet() {
  $("alert").replaceChildren();
  $("status").replaceChildren();
}

function forget() {
  key = "";
  turn = shown = null;
  cards = [];
  for (const id of ["facts", "messages", "follow-ups", "earlier-list", "story", "heading", "bound"]) $(id).replaceChildren();
  for (const id of ["key", "comment", "said"]) $(id).value = "";
  quiet();
  $("sure").close();
  $("turn").hidden = $("forget").hidden = true;
  $("door").hidden = false;
}

// Everything that is shown, anew.
async function load() {
  turn = await call(key, encodeURIComponent(HANDLE));
  shown = null;
  if (turn.seals && turn.seals.length) shown = await call(key, `${turn.id}/set`);
  const events = await story();
  editing = false;
  $("door").hidden = true;
  $("turn").hidden = $("forget").hidden = false;
  showFacts();
  showSet();
  showEarlier();
  showStory(events);
  const decidable = waits() && shown && shown.is_live;
  $("decide").hidden = !decidable;
  $("answer").hidden = turn.state !== "parked" || !turn.wait;
  $("bound").replaceChildren(decidable ? shown.payload_hash : "");
  $("comment").required = false;
  showEditing();
}

function waits() {
  return WAITING.includes(turn.state) && turn.hold && turn.hold.state !== "decided";
}

async function story() {
  const events = [];
  let path = `${turn.id}/events?limit=1000`;
  while (path && events.length < EVENTS_MAX) {
    const page = await call(key, path);
    events.push(...page.items);
    path = page.next_cursor === null ? null : `${turn.id}/events?limit=1000&cursor=${page.next_cursor}`;
  }
  return events;
}

function heading() {
  if (waits()) {
    return turn.state === "held" ? "A reply waits for your decision" : "A reply waits for your decision, past its deadline";
  }
  if (turn.state === "parked") return "A turn waits for an answer";
  if (turn.hold && turn.hold.decision) return `It was ${DONE[turn.hold.decision]}`;
  return "Nothing waits for a decision here";
}

function showFacts() {
  $("heading").textContent = document.title = heading();
  const facts = $("facts");
  facts.replaceChildren();
  const fact = (name, ...values) => {
    const given = values.filter((one) => one !== null && one !== undefined && one !== "");
    if (given.length) facts.append(make("dt", {}, name), make("dd", {}, ...given.map(asNode)));
  };
  const hold = turn.hold;
  if (hold && hold.decision) fact("Decided", decided(hold));
  if (waits()) {
    fact("Note", hold.note);
    fact("Deadline", when(hold.deadline_at), make("div", { class: "help" }, SILENCE[hold.on_deadline]));
    if (hold.reminders) fact("Called", hold.reminders === 1 ? "once since then" : `${hold.reminders} times since then`);
    fact("Held since", shortly(hold.held_at));
    fact("Asked for by", { seal: "the agent", queue: "the queue", destination: "a destination" }[hold.demanded_by]);
  }
  if (turn.state === "parked" && turn.wait) {
    fact("Waits for", turn.wait.name);
    fact("Note", turn.wait.note);
    fact("Deadline", when(turn.wait.deadline_at), make("div", { class: "help" }, "Then the agent goes on without."));
    fact("Hash", turn.wait.payload_hash);
  }
  fact("Queue", turn.queue);
  fact("Conversation", turn.conversation);
  fact("State", turn.reason ? `${turn.state}: ${turn.reason}` : turn.state);
  fact("Turn", make("span", { class: "code" }, turn.id));
}

function decided(hold) {
  const by = hold.decided_by === "system" ? "the deadline, and no person," : hold.decided_by;
  const line = make("span", {}, visible(`${DONE[hold.decision]} by ${by} on `), shortly(hold.decided_at));
  if (hold.comment) line.append(visible(`: “${hold.comment}”`));
  return line;
}

function showSet() {
  $("set").hidden = !shown;
  $("messages").replaceChildren();
  $("follow-ups").replaceChildren();
  cards = [];
  if (!shown) return;
  const isVoid = !shown.is_live || turn.state === "cancelled";
  const title = isVoid ? "What was to be said, and is void" : waits() ? "What is to be said" : "What it says";
  cards = shown.messages.map((message, n) => messageCard(message, {
    n, count: shown.messages.length, conversation: turn.conversation,
  }));
  $("messages").append(make("h2", {}, cards.length ? title : "It says nothing"), ...cards.map((card) => card.element));
  if (shown.order === "strict") $("messages").append(make("p", { class: "help" }, "They are sent one after the other."));
  if (shown.follow_ups.length) {
    $("follow-ups").append(make("h2", {}, "What is to follow"), ...shown.follow_ups.map(followUpCard));
  }
}

function showEarlier() {
  const before = (turn.seals || []).filter((one) => !shown || one.seal !== shown.seal);
  $("earlier").hidden = !before.length;
  $("earlier-list").replaceChildren(...before.map(earlier));
}

function earlier(one) {
  const place = make("div");
  const details = make("details", {}, make("summary", {}, `Version ${one.seal}`), place);
  details.addEventListener("toggle", async () => {
    if (!details.open || place.childNodes.length) return;
    try {
      const set = await call(key, `${turn.id}/set?seal=${one.seal}`);
      if (set.hold && set.hold.decision) place.append(make("p", {}, decided(set.hold)));
      place.append(...set.messages.map((message) => bodyOf(message.content_type, message.payload_base64).element));
    } catch (error) {
      explain(error);
    }
  });
  return details;
}

function showStory(events) {
  const numbers = new Map((shown ? shown.messages : []).map((message, n) => [message.id, n + 1]));
  $("story").replaceChildren(...events.map((event) => {
    const what = event.message ? `message ${numbers.get(event.message) || event.message}: ` : "";
    const who = event.detail.by || event.detail.agent;
    const words = `${what}${event.verb} → ${event.to}${event.reason ? ` (${event.reason})` : ""}${who ? `, by ${who}` : ""}`;
    return make("li", {}, shortly(event.at), make("span", {}, visible(words)));
  }));
}

function showEditing() {
  for (const card of cards) {
    card.edit.hidden = !editing;
    card.body.element.hidden = editing && card.body.text !== null;
  }
  $("edit").textContent = editing ? "Stop editing" : "Edit";
  $("edit").hidden = !cards.length;
  $("approve").textContent = editing ? "Approve with my changes" : "Approve";
  $("revise").disabled = $("reject").disabled = editing;
}

function sure(title, words, yes, danger) {
  $("sure-heading").textContent = title;
  $("sure-words").textContent = words;
  $("sure-yes").textContent = yes;
  $("sure-yes").classList.toggle("danger", danger);
  $("sure").returnValue = "";
  $("sure").showModal();
  return new Promise((resolve) => {
    $("sure").addEventListener("close", () => resolve($("sure").returnValue === "yes"), { once: true });
  });
}

async function decide(decision) {
  quiet();
  $("comment").required = decision === "revise";
  if (!$("decide-form").reportValidity()) return;
  let messages;
  try {
    messages = decision === "approve" && editing ? edited(cards) : null;
  } catch (error) {
    explain(error);
    return;
  }
  const count = (messages || cards).length;
  const many = `${count} message${count === 1 ? "" : "s"}`;
  const words = {
    approve: [messages ? "Approve it with your changes?" : "Approve it?", `${many} will be sent. It cannot be taken back.`, "Approve"],
    reject: ["Reject it?", "Nothing is sent, and the turn ends here.", "Reject"],
    revise: ["Ask for a revision?", "Nothing is sent. The agent gets your comment and tries again.", "Ask for it"],
  }[decision];
  if (!(await sure(...words, decision === "reject"))) return;
  const body = { decision, payload_hash: shown.payload_hash, by: $("by").value.trim() };
  if ($("comment").value.trim()) body.comment = $("comment").value;
  if (messages) body.messages = messages;
  await send(`${turn.id}/decision`, JSON.stringify(body));
}

async function answer() {
  quiet();
  const said = $("said").value;
  if (!(await sure("Send this answer?", "The agent goes on with it. It cannot be taken back.", "Send it", false))) return;
  // JSON goes as it was typed: no number in it is read.
  const fields = [`"by": ${JSON.stringify($("said-by").value.trim())}`];
  if (said.trim()) fields.push(`"payload": ${isJson(said) ? said : JSON.stringify(said)}`);
  if (turn.wait.payload_hash) fields.push(`"payload_hash": ${JSON.stringify(turn.wait.payload_hash)}`);
  await send(`${turn.id}/signals/${encodeURIComponent(turn.wait.name)}`, `{${fields.join(", ")}}`);
}

async function send(path, body) {
  const buttons = [...document.querySelectorAll("#turn button")].filter((button) => !button.disabled);
  for (const button of buttons) button.disabled = true;
  try {
    await call(key, path, body);
    await load();
    const hold = turn.hold;
    if (path.endsWith("/decision") && hold && hold.decision) say("status", "good", make("p", {}, "This is decided: ", decided(hold)));
    else say("status", "good", "It is done.");
    $("heading").focus();
  } catch (error) {
    await explain(error);
  } finally {
    for (const button of buttons) button.disabled = false;
    if (turn) showEditing();
  }
}

// What happened, in words. What is stale is loaded anew, and never decided by itself.
async function explain(error) {
  if (!(error instanceof Refused)) throw error;
  const again = make("button", { type: "button" }, "Load it again");
  again.addEventListener("click", () => { quiet(); load().catch(explain); });
  const stale = ["payload_changed", "already_decided", "not_held", "already_signalled", "turn_ended", "not_cancellable"];
  if (stale.includes(error.code)) {
    await load().catch(() => {});
    const hold = turn && turn.hold;
    if (error.code === "payload_changed" && turn && waits()) {
      say("alert", "warning", "Somebody changed it since this page was loaded, so your decision was not taken. Below is what waits now: read it again.");
    } else if (hold && hold.decision) {
      say("alert", "warning", make("p", {}, "Somebody was faster, so your decision was not taken. It was already ", decided(hold)));
    } else {
      say("alert", "warning", `Your decision was not taken: ${error.message}`, "Below is how it stands now.");
    }
    return;
  }
  const words = {
    unauthorized: ["This key is not valid, or not any more."],
    scope_missing: ["This key may look, but not decide: a key with the scope approve is needed."],
    not_found: ["There is no such turn, or this key may not see it."],
    purged: ["It ended long ago, and was removed."],
    revisions_exhausted: ["It was sent back as often as it may be. Approve, edit or reject it."],
    integrity: ["What is stored is not what was sealed, so nothing was sent. Somebody who looks after the service has been called."],
    here: [error.message],
  }[error.code];
  if (error.status === 0 || (error.status >= 500 && error.code !== "overloaded")) {
    say("alert", "bad", "No answer came, so it is not known whether it counted. Do the same again: it counts once.", again);
  } else if (words) {
    say("alert", "bad", ...words);
  } else {
    const wrong = (error.problem.errors || []).map((one) => `${one.pointer}: ${one.detail || one.code}`);
    say("alert", "bad", `It was not taken: ${error.message}`, ...wrong, again);
  }
}

$("door-turn").textContent = HANDLE;
$("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  quiet();
  key = $("key").value.trim();
  try {
    await load();
    $("key").value = "";
    const now = turn.wait && turn.state === "parked" ? turn.wait.payload_hash : turn.payload_hash;
    if (linked && now !== linked) {
      say("alert", "warning", "The link was about another version. Below is how it stands now.");
    }
    $("heading").focus();
  } catch (error) {
    key = "";
    explain(error);
  }
});
$("decide-form").addEventListener("submit", (event) => {
  event.preventDefault();
  decide("approve");
});
$("answer-form").addEventListener("submit", (event) => {
  event.preventDefault();
  answer();
});
$("reject").addEventListener("click", () => decide("reject"));
$("revise").addEventListener("click", () => decide("revise"));
$("edit").addEventListener("click", () => {
  editing = !editing;
  showEditing();
});
$("sure-yes").addEventListener("click", () => $("sure").close("yes"));
$("sure-no").addEventListener("click", () => $("sure").close(""));
$("forget").addEventListener("click", forget);
addEventListener("pagehide", forget);
