-- What waits: for a person at the seal, for an event in the middle, for a time after it, and for somebody to be told. A
-- turn that does none of it has no row in any of these tables.
--
-- Constraints are checked in place: no version with data to wait for was published before this one.
-- squawk-ignore-file constraint-missing-not-valid, require-concurrent-index-creation, ban-drop-constraint
--
-- Lock order, everywhere: idempotency_key, lane, turn, delivery_lane, outbox, destination, and last the keys of
-- follow-ups, which no accept takes; each sorted. What hangs on a turn alone (hold, wait, signal, follow_up) is
-- written under its row's lock and needs none of its own.

alter table sink.turn
-- When what it waits for ends by itself: the deadline of a hold or a park, of an escalated one its next reminder.
add column deadline_at timestamptz,
-- The turn that an escalation or a notice tells of: such a turn is born sealed, and is never told of itself.
add column about uuid,
-- The turn that its chain of follow-ups began with, null for itself, and how many it is away from that.
add column root uuid,
add column depth smallint not null default 0,
add column revisions smallint not null default 0,
add column parks smallint not null default 0,
-- How long that is which the next claim tells besides the input: what a signal brought, or a reviewer sent back.
add column said_bytes integer,
drop constraint state_known,
drop constraint ended_with_reason,
drop constraint sealed_with_hash,
add constraint state_known check (
    state in (
        'scheduled', 'waiting', 'queued', 'processing', 'parked', 'held', 'escalated', 'sealed', 'replied',
        'undelivered', 'failed', 'cancelled'
    )
),
add constraint ended_with_reason check ((state in ('failed', 'cancelled')) = (reason is not null)),
-- A turn that was cancelled while it was held keeps what was not let go. One that is to be revised has no live set.
add constraint sealed_with_hash check (
    case
        when state in ('sealed', 'replied', 'undelivered', 'held', 'escalated')
            then payload_hash is not null and seal > 0
        when state = 'cancelled' then payload_hash is null or seal > 0
        else payload_hash is null
    end
),
add constraint deadline_while_waiting check ((state in ('parked', 'held', 'escalated')) = (deadline_at is not null)),
add constraint root_below check ((root is null) = (depth = 0)),
add constraint told_once check (about is null or root is null),
add constraint counts check (depth >= 0 and revisions >= 0 and parks >= 0);

-- Apart, so that of neither any number costs the other anything. A hold ends as its queue says, so whoever does not
-- know the queue passes it by.
create index turn_deadline on sink.turn (queue, deadline_at, id) where state in ('held', 'escalated');
create index turn_parked on sink.turn (deadline_at, id) where state = 'parked';
create index turn_about on sink.turn (about, id) where about is not null;
create index turn_root on sink.turn (root, id) where root is not null;
-- Where people look: what waits for them.
create index turn_asking on sink.turn (state, queue, id) where state in ('parked', 'held', 'escalated');

alter table sink.attempt
drop constraint ended_known,
add constraint ended_known check (ended in ('sealed', 'released', 'failed', 'swept', 'cancelled', 'parked'));

-- A held message has no place, blocks nobody and is due at no time: it gets all that when it is let go.
alter table sink.outbox
drop constraint state_known,
drop constraint place_in_lane,
drop constraint due_when_unblocked,
add constraint state_known check (
    state in ('held', 'pending', 'sending', 'delivered', 'dead', 'unknown', 'cancelled')
),
add constraint place_in_lane check (
    case
        when conversation is null or state = 'held' then place is null
        when state = 'cancelled' then true
        else place is not null
    end
),
add constraint due_when_unblocked check (
    state in ('held', 'cancelled') or blocked_by is not null or due_since is not null
),
add constraint held_unmoved check (state <> 'held' or (attempts = 0 and blocked_by is null and due_since is null));

-- A sealed set that waits for a person, and what was decided about it: one row for each seal that was held, the first
-- decision stays. payload_hash is what was shown; new_hash what an edit made of it.
create table sink.hold (
    turn uuid not null,
    seal smallint not null,
    attempt integer not null,
    payload_hash bytea not null,
    demanded_by text collate "C" not null,
    strict boolean not null,
    note text,
    on_deadline text collate "C" not null,
    held_at timestamptz not null,
    deadline_at timestamptz not null,
    -- How often somebody was told after the deadline.
    reminders integer not null default 0,
    decision text collate "C",
    decided_at timestamptz,
    -- A person's name as he gave it, or system; and the id of the key it was decided with.
    decided_by text,
    decided_with text,
    comment text,
    -- Of the decision as it was asked for: tells the same again from another.
    request_hash bytea,
    new_hash bytea,
    primary key (turn, seal),
    constraint hash_is_sha256 check (octet_length(payload_hash) = 32),
    constraint demanded_by_known check (demanded_by in ('seal', 'queue', 'destination')),
    constraint on_deadline_known check (on_deadline in ('escalate', 'cancel', 'send')),
    -- approve, edit, reject and revise are a person's; cancel and send are the deadline's or an operator's.
    constraint decision_known check (decision in ('approve', 'edit', 'reject', 'revise', 'cancel', 'send')),
    constraint decided_at_once check (
        (decision is null) = (decided_at is null) and (decision is null) = (decided_by is null)
    ),
    constraint edited_with_hash check ((decision is not distinct from 'edit') = (new_hash is not null))
);

-- A park: the pause that an attempt ended with. payload_hash is what a person was asked about.
create table sink.wait (
    turn uuid not null,
    attempt integer not null,
    name text collate "C" not null,
    note text,
    payload_hash text,
    asked_at timestamptz not null,
    deadline_at timestamptz not null,
    ended text collate "C",
    ended_at timestamptz,
    -- The number of the signal of that name that ended it.
    signal smallint,
    primary key (turn, attempt),
    constraint ended_known check (ended in ('signal', 'deadline', 'cancelled')),
    constraint ended_at_once check ((ended is null) = (ended_at is null)),
    constraint ended_by_signal check ((ended is not distinct from 'signal') = (signal is not null))
);

-- What a turn was told under a name: the first wins, and is kept for who asks later. One that does not answer what is
-- asked of a person is dropped when that is asked, and stays for the record; the next one has another number.
create table sink.signal (
    turn uuid not null,
    name text collate "C" not null,
    number smallint not null,
    content_type text,
    body bytea,
    strict_json boolean not null default false,
    payload_hash text,
    -- Sent with the right to decide.
    is_decision boolean not null,
    sent_by text,
    sent_with text not null,
    request_hash bytea not null,
    sent_at timestamptz not null,
    dropped_at timestamptz,
    primary key (turn, name, number),
    constraint body_with_type check ((body is null) = (content_type is null))
);
create unique index signal_live on sink.signal (turn, name) where dropped_at is null;

-- What a seal committed for later. Its turn and its inbound have their ids from the seal on; they come to be when the
-- set is let go, and the body moves to the inbound then. With a key that was known it stands for an earlier one's turn.
create table sink.follow_up (
    turn uuid not null,
    seal smallint not null,
    position smallint not null,
    state text collate "C" not null,
    child uuid not null,
    inbound uuid not null,
    queue text collate "C" not null,
    conversation text collate "C",
    -- A key that was given is unique in its queue. One of its own stands apart: no key that is given can be it.
    scope text collate "C" not null,
    key text collate "C" not null,
    is_duplicate boolean not null default false,
    content_type text not null,
    body bytea,
    strict_json boolean not null,
    delay_seconds double precision not null default 0,
    not_before timestamptz,
    hash bytea not null,
    primary key (turn, seal, position),
    constraint hash_is_sha256 check (octet_length(hash) = 32),
    constraint state_known check (state in ('held', 'accepted', 'cancelled')),
    constraint body_until_accepted check ((state = 'accepted') = (body is null))
);
create index follow_up_child on sink.follow_up (child);
-- A conversation that is erased is looked for wherever it is named.
create index follow_up_conversation on sink.follow_up (queue, conversation) where conversation is not null;

-- That somebody is to be told, committed with what he is told of. Whoever sweeps makes a sealed turn of it.
create table sink.notice (
    id bigint generated always as identity primary key,
    turn uuid not null,
    message uuid,
    queue text collate "C" not null,
    kind text collate "C" not null,
    reason text not null,
    noted_at timestamptz not null,
    constraint kind_known check (kind in ('escalation', 'hold', 'wait'))
);
create index notice_queue on sink.notice (queue, id);
create index notice_turn on sink.notice (turn);

grant select, insert, update, delete on
sink.hold, sink.wait, sink.signal, sink.follow_up, sink.notice
to sinksweep_app;

-- Whoever proposes never decides, and a key with admin may do all that an agent may.
alter table sink.api_key
add constraint approves_apart check (not ('approve' = any(scopes) and scopes && array['agent', 'admin']));
