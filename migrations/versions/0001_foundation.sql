-- The two durable surfaces (inbound, outbox), the turn between them, and what orders, fences and remembers them.
--
-- A turn's life: accept writes idempotency_key, lane, inbound and turn in one statement; claim puts a lease token on
-- the turn and an attempt beside it; seal clears the token and writes outbox and outbox_payload; deliveries move the
-- outbox rows; the last confirmation makes the turn replied. Every move adds an event.
--
-- Immutable bytes (inbound, outbox_payload) stand apart from the narrow rows that move (turn, outbox), so that a move
-- rewrites a few hundred bytes. Every index that serves a loop is partial over the states that are alive, so that no
-- hot query depends on how much is finished. Hot tables have no foreign keys: the ids of a family are written by the
-- one statement that minted them (docs/decisions/0003).
--
-- Lock order, everywhere: idempotency_key, lane, turn, delivery_lane, outbox; each sorted.

-- Postgres is the only clock that decides. STABLE, so that an index can use it; tests replace it to move time.
create function sink.now() returns timestamptz
language sql stable parallel safe
as 'select statement_timestamp()';

-- One key, one inbound, one turn. An inbound may have several keys. Outlives the body it protects.
create table sink.idempotency_key (
    scope text collate "C" not null,
    key text collate "C" not null,
    body_hash bytea not null,
    inbound uuid not null,
    turn uuid not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    last_state text,
    primary key (scope, key),
    constraint body_hash_is_sha256 check (octet_length(body_hash) = 32)
);

-- One durable input: immutable. Its state is its turn's.
create table sink.inbound (
    id uuid primary key,
    turn uuid not null,
    -- The order in which its turn gathered it: given under the turn's lock, since no clock is everybody's.
    position integer not null default 0,
    queue text collate "C" not null,
    source text collate "C" not null,
    conversation text collate "C",
    received_at timestamptz not null,
    content_type text not null,
    headers jsonb not null,
    metadata text,
    body bytea not null,
    -- Whether body may stand in a JSON answer as it is; else it is answered in base64.
    strict_json boolean not null,
    -- A provider's capability to answer (a response URL, a reply token): short-lived, never shown.
    reply bytea,
    reply_expires_at timestamptz,
    constraint reply_expires check ((reply is null) = (reply_expires_at is null))
);
create index inbound_turn on sink.inbound (turn);

-- The order of a conversation, and who holds it. Sequences are given under this row's lock.
create table sink.lane (
    queue text collate "C" not null,
    conversation text collate "C" not null,
    tail bigint not null,
    holder uuid,
    primary key (queue, conversation)
) with (fillfactor = 70);

create table sink.turn (
    id uuid primary key,
    queue text collate "C" not null,
    conversation text collate "C",
    lane_seq bigint,
    priority smallint not null,
    state text collate "C" not null,
    reason text,
    created_at timestamptz not null,
    -- queued: not claimed before it; scheduled: becomes due then; else of no meaning.
    due_at timestamptz not null,
    -- Numbers the claims. attempts_used is what the cap compares: a release gives it back.
    attempt integer not null default 0,
    attempts_used integer not null default 0,
    releases integer not null default 0,
    token uuid,
    lease_seconds integer,
    lease_expires_at timestamptz,
    -- The live seal of this turn: 0 is none.
    seal smallint not null default 0,
    payload_hash bytea,
    -- How much it has to answer: joined inbound add to both.
    inbound_count integer not null default 1,
    input_bytes bigint not null,
    constraint state_known check (state in (
        'scheduled', 'waiting', 'queued', 'processing', 'sealed', 'replied', 'undelivered', 'failed', 'cancelled'
    )),
    constraint token_while_processing check ((state = 'processing') = (token is not null)),
    constraint lease_while_token check (
        (token is null) = (lease_expires_at is null) and (token is null) = (lease_seconds is null)
    ),
    constraint lane_place check (
        case
            when conversation is null then lane_seq is null and state <> 'waiting'
            else state = 'cancelled' or (state = 'scheduled') = (lane_seq is null)
        end
    ),
    constraint sealed_with_hash check (
        (state in ('sealed', 'replied', 'undelivered')) = (payload_hash is not null)
        and (payload_hash is null) = (seal = 0)
    ),
    constraint ended_with_reason check ((state in ('failed', 'cancelled')) = (reason is not null)),
    constraint attempts_add_up check (
        attempts_used >= 0 and releases >= 0 and attempt >= attempts_used
    ),
    constraint priority_bounds check (priority between -100 and 100)
) with (fillfactor = 85);
create index turn_queued on sink.turn (queue, priority desc, due_at, id) where state = 'queued';
create index turn_waiting on sink.turn (queue, conversation, lane_seq) where state = 'waiting';
create index turn_scheduled on sink.turn (due_at, id) where state = 'scheduled';
create index turn_processing on sink.turn (lease_expires_at, id) where state = 'processing';
-- The lane's rule once more, where no bug can pass it: one turn at a time.
create unique index turn_lane_head on sink.turn (queue, conversation)
where state in ('queued', 'processing') and conversation is not null;

-- One claim of a turn. Keeps the token after the turn has dropped it, so that a repeated call finds its first answer.
create table sink.attempt (
    turn uuid not null,
    number integer not null,
    token uuid not null,
    agent text not null,
    code_version text,
    request uuid,
    claimed_at timestamptz not null,
    ended_at timestamptz,
    ended text,
    reason text,
    request_hash bytea,
    -- What the agent says it has used, a number for each field: only ever more.
    usage jsonb,
    primary key (turn, number),
    constraint ended_known check (ended in ('sealed', 'released', 'failed', 'swept', 'cancelled')),
    constraint ended_at_once check ((ended is null) = (ended_at is null)),
    constraint sealed_with_request check (ended is distinct from 'sealed' or request_hash is not null)
) with (fillfactor = 80);
create index attempt_request on sink.attempt (request) where request is not null;

-- A claim that its client may repeat: the same request gives what the first answer gave and still holds.
create table sink.claim_request (
    id uuid not null,
    principal text collate "C" not null,
    queue text collate "C" not null,
    agent text collate "C" not null,
    request_id text collate "C" not null,
    parameters text not null,
    expires_at timestamptz not null,
    primary key (principal, queue, agent, request_id)
);
create index claim_request_expiry on sink.claim_request (expires_at);

-- The order of one conversation at one destination, over the borders of turns. Apart from lane, so that settling
-- never meets accepting.
create table sink.delivery_lane (
    queue text collate "C" not null,
    conversation text collate "C" not null,
    destination text collate "C" not null,
    tail bigint not null,
    primary key (queue, conversation, destination)
) with (fillfactor = 70);

create table sink.outbox (
    id uuid primary key,
    turn uuid not null,
    seal smallint not null,
    position smallint not null,
    queue text collate "C" not null,
    conversation text collate "C",
    destination text collate "C" not null,
    -- The place in the delivery lane; a message that has left it no longer stops other sets, nor they it.
    place bigint,
    left_lane boolean not null default false,
    state text collate "C" not null,
    reason text,
    blocked_by uuid,
    delay_seconds double precision not null default 0,
    due_at timestamptz not null,
    -- First due: age counts from here. Null while something else has to end first.
    due_since timestamptz,
    -- A message that nobody wants after this time (a reply capability that ends); null is never.
    expires_at timestamptz,
    attempts integer not null default 0,
    attempts_used integer not null default 0,
    -- Whether an attempt may have arrived: then it never ends dead.
    may_have_arrived boolean not null default false,
    attempt_id uuid,
    lease_expires_at timestamptz,
    -- Somebody wants no next attempt of what is being sent.
    cancel_asked boolean not null default false,
    delivered_at timestamptz,
    receipt text,
    constraint state_known check (state in ('pending', 'sending', 'delivered', 'dead', 'unknown', 'cancelled')),
    constraint attempt_while_sending check ((state = 'sending') = (attempt_id is not null)),
    constraint lease_while_sending check ((attempt_id is null) = (lease_expires_at is null)),
    constraint cancel_asked_while_sending check (not cancel_asked or state = 'sending'),
    constraint blocked_while_pending check (blocked_by is null or state = 'pending'),
    constraint due_when_unblocked check (blocked_by is not null or due_since is not null),
    constraint delivered_with_time check ((state = 'delivered') = (delivered_at is not null)),
    constraint ended_with_reason check (state not in ('dead', 'unknown') or reason is not null),
    constraint dead_never_arrived check (state <> 'dead' or not may_have_arrived),
    constraint place_in_lane check ((conversation is null) = (place is null)),
    constraint attempts_add_up check (attempts_used between 0 and attempts)
) with (fillfactor = 85);
create unique index outbox_set on sink.outbox (turn, seal, position);
create index outbox_due on sink.outbox (destination, due_at, id)
where state = 'pending' and blocked_by is null;
create index outbox_sending on sink.outbox (lease_expires_at, id) where state = 'sending';
create index outbox_blocked on sink.outbox (blocked_by) where blocked_by is not null;
create index outbox_lane on sink.outbox (queue, conversation, destination, place)
where state in ('pending', 'sending') and not left_lane and conversation is not null;

-- What a message says and where: immutable, with the hash that each dispatch checks again.
create table sink.outbox_payload (
    message uuid primary key,
    key text not null,
    recipient text,
    headers jsonb not null,
    content_type text not null,
    body bytea not null,
    hash bytea not null,
    sealed_at timestamptz not null,
    constraint hash_is_sha256 check (octet_length(hash) = 32)
);

-- One committed move. Append only. xact orders events as they became visible: an event whose transaction is below
-- every running one has nobody left who could come before it.
create table sink.event (
    id bigint generated always as identity primary key,
    xact xid8 not null default pg_current_xact_id(),
    at timestamptz not null default sink.now(),
    turn uuid not null,
    message uuid,
    verb text collate "C" not null,
    from_state text collate "C",
    to_state text collate "C" not null,
    attempt integer,
    attempt_id uuid,
    reason text,
    detail jsonb
);
create index event_turn on sink.event (turn, id);

-- Only a hash: the key is shown once, when it is made.
create table sink.api_key (
    id text collate "C" primary key,
    name text not null,
    hash bytea not null,
    scopes text[] not null,
    queues text[],
    created_at timestamptz not null default sink.now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    constraint scopes_known check (
        scopes <@ array['accept', 'agent', 'approve', 'read', 'admin'] and cardinality(scopes) > 0
    ),
    constraint hash_is_sha256 check (octet_length(hash) = 32)
);

-- What the loopback channel received: a receiver without a receiver. times counts arrivals of one key.
create table sink.loopback (
    key text collate "C" primary key,
    queue text collate "C" not null,
    conversation text collate "C",
    destination text collate "C" not null,
    content_type text not null,
    headers jsonb not null,
    body bytea not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    times integer not null
);
create index loopback_recent on sink.loopback (last_at desc);

-- Live tables are small and churn: vacuum them by what changed, not by what they hold.
alter table sink.turn set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
alter table sink.outbox set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
alter table sink.lane set (autovacuum_vacuum_scale_factor = 0.02);
alter table sink.delivery_lane set (autovacuum_vacuum_scale_factor = 0.02);

-- The service runs as this role: it reads and writes rows, and owns nothing.
grant usage on schema sink to sinksweep_app;
grant execute on function sink.now() to sinksweep_app;
grant select, insert, update, delete on
sink.idempotency_key, sink.inbound, sink.lane, sink.turn, sink.attempt, sink.claim_request, sink.delivery_lane,
sink.outbox, sink.outbox_payload, sink.api_key, sink.loopback
to sinksweep_app;
-- The audit is append only, for the service too.
grant select, insert on sink.event to sinksweep_app;
