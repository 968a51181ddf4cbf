-- What operating takes. Nothing here makes a hot statement write one more row or index entry, but for the row of the
-- destination that a take and a settle count in, and the entries of searches that a row makes once in its life.
--
-- Indexes are made in place: no version with data to wait for was published before this one.
-- squawk-ignore-file require-concurrent-index-creation
--
-- Lock order, everywhere: idempotency_key, lane, turn, delivery_lane, outbox, destination; each sorted. Only a take
-- locks destinations first: it waits for nothing after them, since it skips the messages that somebody holds.

-- What people have stopped. Everything is one row: kind all, name ''. A paused source is still accepted from.
create table sink.pause (
    kind text collate "C" not null,
    name text collate "C" not null,
    paused_at timestamptz not null,
    paused_by text not null,
    reason text,
    primary key (kind, name),
    constraint kind_known check (kind in ('all', 'queue', 'source', 'destination')),
    constraint all_has_no_name check ((kind = 'all') = (name = ''))
);

-- What all replicas together know of a destination: how many messages are being sent, what its rate allows, and its
-- breaker. Made by whoever first takes for it.
create table sink.destination (
    name text collate "C" primary key,
    sending integer not null default 0,
    tokens double precision not null default 0,
    tokens_at timestamptz,
    breaker text collate "C" not null default 'closed',
    -- Attempts in vain since the last answer that was none, and openings since the last delivery.
    failures integer not null default 0,
    openings integer not null default 0,
    opened_at timestamptz,
    probe_at timestamptz,
    reason text,
    constraint breaker_known check (breaker in ('closed', 'open', 'probing', 'disabled')),
    constraint opened_unless_closed check ((breaker = 'closed') = (opened_at is null)),
    constraint sending_counts check (sending >= 0)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- When a destination stood still, by a pause or its breaker: a message's age does not count these. Everything stands
-- under the name ''.
create table sink.standstill (
    destination text collate "C" not null,
    cause text collate "C" not null,
    began_at timestamptz not null,
    ended_at timestamptz,
    primary key (destination, cause, began_at),
    constraint cause_known check (cause in ('pause', 'breaker'))
);
create unique index standstill_now on sink.standstill (destination, cause) where ended_at is null;
create index standstill_ended on sink.standstill (destination, ended_at);

-- What a queue's rate allows, over all replicas: handed out in small lots.
create table sink.allowance (
    queue text collate "C" primary key,
    tokens double precision not null,
    tokens_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- An operator's verb over everything that a filter finds: done in batches by any sweeper, watched and cancelled by
-- anybody who may, and gone on with after a restart. Ids after last_id are still to come.
create table sink.operation (
    id uuid primary key,
    kind text collate "C" not null,
    verb text collate "C" not null,
    filter jsonb not null,
    queues text[],
    reason text,
    state text collate "C" not null,
    created_at timestamptz not null,
    created_by text not null,
    ended_at timestamptz,
    last_id uuid,
    until_id uuid not null,
    found bigint not null default 0,
    changed bigint not null default 0,
    refused bigint not null default 0,
    failed bigint not null default 0,
    constraint kind_known check (kind in ('turn', 'message')),
    constraint state_known check (state in ('running', 'done', 'cancelled')),
    constraint ended_at_end check ((state = 'running') = (ended_at is null))
);
create index operation_running on sink.operation (id) where state = 'running';

-- That something was here, and what became of it, for as long as its key is remembered: purged turns, inbound, and
-- messages by their ids.
create table sink.tombstone (
    id uuid primary key,
    turn uuid not null,
    queue text collate "C" not null,
    state text collate "C" not null,
    purged_at timestamptz not null,
    expires_at timestamptz not null
);
create index tombstone_expiry on sink.tombstone (expires_at);

-- Until when the key that brought it is remembered at least: its tombstone stays as long. A key goes when its time is
-- over and neither its turn nor that tombstone is left: found by walking the table, so that an accept makes no entry.
alter table sink.inbound add column key_expires_at timestamptz;

-- Behind its own set, whatever the destination: order strict.
alter table sink.outbox add column strict boolean not null default false;
-- Whether its last attempt is not repeated without a person, should nobody know its outcome: as its destination said
-- when the attempt began, so that a sweep where that is not configured keeps to it.
alter table sink.outbox add column hold_unknown boolean not null default false;

-- A delivered message that somebody wants sent once more: it moves neither its message nor its turn. What is done is
-- deleted, and stands in the events of its message.
create table sink.resend (
    id uuid primary key,
    message uuid not null,
    turn uuid not null,
    destination text collate "C" not null,
    requested_at timestamptz not null,
    requested_by text not null,
    due_at timestamptz not null,
    attempts integer not null default 0,
    attempt_id uuid,
    hold_unknown boolean not null default false,
    lease_expires_at timestamptz,
    constraint lease_while_sending check ((attempt_id is null) = (lease_expires_at is null)),
    constraint attempts_count check (attempts >= 0 and (attempt_id is null or attempts > 0))
);
create index resend_due on sink.resend (destination, due_at, id) where attempt_id is null;
create index resend_sending on sink.resend (lease_expires_at, id) where attempt_id is not null;
-- Until it is begun, asking once more changes nothing.
create unique index resend_asked on sink.resend (message) where attempts = 0;

-- From when its input ages: null is from its creation. A redrive counts anew, and what is scheduled does not age.
alter table sink.turn add column ages_from timestamptz;
-- The paused source that holds it up: due at no time, without a place, until that goes on. Meanwhile ages_from keeps a
-- time of its own.
alter table sink.turn add column held_source text collate "C"
constraint held_before_due check (held_source is null or state in ('scheduled', 'cancelled'));
-- Empty, but for what paused sources hold up.
create index turn_held on sink.turn (held_source, created_at, id) where held_source is not null and state = 'scheduled';
create index turn_scheduled_queue on sink.turn (queue) where state = 'scheduled';

-- Where people look. By conversation through the inbound, which never move: a turn makes its entry once.
create index inbound_conversation on sink.inbound (queue, conversation, id) where conversation is not null;
create index turn_sealed on sink.turn (queue, id) where state = 'sealed';
create index turn_troubled on sink.turn (state, queue, id) where state in ('failed', 'undelivered', 'cancelled');
create index outbox_troubled on sink.outbox (state, destination, id) where state in ('dead', 'unknown', 'cancelled');

-- The audit stays append only for the service. It goes with its turn and not before: this is the only door.
create function sink.purge_events(turns uuid[]) returns bigint
language sql volatile security definer
set search_path = pg_catalog
as $$
    with gone as (
        delete from sink.event as e
        where
            e.turn = any(turns)
            and not exists (select from sink.turn as t where t.id = e.turn)
        returning 1
    )

    select count(*) from gone
$$;
revoke execute on function sink.purge_events(uuid[]) from public;

grant select, insert, update, delete on
sink.pause, sink.destination, sink.standstill, sink.allowance, sink.operation, sink.tombstone, sink.resend
to sinksweep_app;
grant execute on function sink.purge_events(uuid[]) to sinksweep_app;
