-- The schema as it is: the sum of all revisions. Made by `make schema`, compared by a test; never edited by hand.

CREATE SCHEMA sink;

CREATE FUNCTION sink.now() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$select statement_timestamp()$$;

CREATE FUNCTION sink.purge_events(turns uuid[]) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
    with gone as (
        delete from sink.event as e
        where
            e.turn = any(turns)
            and not exists (select from sink.turn as t where t.id = e.turn)
        returning 1
    )

    select count(*) from gone
$$;

CREATE TABLE sink.alembic_version (
    version_num character varying(32) NOT NULL
);

CREATE TABLE sink.allowance (
    queue text NOT NULL COLLATE pg_catalog."C",
    tokens double precision NOT NULL,
    tokens_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');

CREATE TABLE sink.api_key (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    hash bytea NOT NULL,
    scopes text[] NOT NULL,
    queues text[],
    created_at timestamp with time zone DEFAULT sink.now() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT approves_apart CHECK ((NOT (('approve'::text = ANY (scopes)) AND (scopes && ARRAY['agent'::text, 'admin'::text])))),
    CONSTRAINT hash_is_sha256 CHECK ((octet_length(hash) = 32)),
    CONSTRAINT scopes_known CHECK (((scopes <@ ARRAY['accept'::text, 'agent'::text, 'approve'::text, 'read'::text, 'admin'::text]) AND (cardinality(scopes) > 0)))
);

CREATE TABLE sink.attempt (
    turn uuid NOT NULL,
    number integer NOT NULL,
    token uuid NOT NULL,
    agent text NOT NULL,
    code_version text,
    request uuid,
    claimed_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    ended text,
    reason text,
    request_hash bytea,
    usage jsonb,
    CONSTRAINT ended_at_once CHECK (((ended IS NULL) = (ended_at IS NULL))),
    CONSTRAINT ended_known CHECK ((ended = ANY (ARRAY['sealed'::text, 'released'::text, 'failed'::text, 'swept'::text, 'cancelled'::text, 'parked'::text]))),
    CONSTRAINT sealed_with_request CHECK (((ended IS DISTINCT FROM 'sealed'::text) OR (request_hash IS NOT NULL)))
)
WITH (fillfactor='80');

CREATE TABLE sink.claim_request (
    id uuid NOT NULL,
    principal text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    agent text NOT NULL COLLATE pg_catalog."C",
    request_id text NOT NULL COLLATE pg_catalog."C",
    parameters text NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

CREATE TABLE sink.delivery_lane (
    queue text NOT NULL COLLATE pg_catalog."C",
    conversation text NOT NULL COLLATE pg_catalog."C",
    destination text NOT NULL COLLATE pg_catalog."C",
    tail bigint NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE sink.destination (
    name text NOT NULL COLLATE pg_catalog."C",
    sending integer DEFAULT 0 NOT NULL,
    tokens double precision DEFAULT 0 NOT NULL,
    tokens_at timestamp with time zone,
    breaker text DEFAULT 'closed'::text NOT NULL COLLATE pg_catalog."C",
    failures integer DEFAULT 0 NOT NULL,
    openings integer DEFAULT 0 NOT NULL,
    opened_at timestamp with time zone,
    probe_at timestamp with time zone,
    reason text,
    CONSTRAINT breaker_known CHECK ((breaker = ANY (ARRAY['closed'::text, 'open'::text, 'probing'::text, 'disabled'::text]))),
    CONSTRAINT opened_unless_closed CHECK (((breaker = 'closed'::text) = (opened_at IS NULL))),
    CONSTRAINT sending_counts CHECK ((sending >= 0))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');

CREATE TABLE sink.differing (
    source text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    times bigint NOT NULL,
    bodies bytea[] NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    CONSTRAINT times_counts CHECK ((times >= cardinality(bodies)))
);

CREATE TABLE sink.event (
    id bigint NOT NULL,
    xact xid8 DEFAULT pg_current_xact_id() NOT NULL,
    at timestamp with time zone DEFAULT sink.now() NOT NULL,
    turn uuid NOT NULL,
    message uuid,
    verb text NOT NULL COLLATE pg_catalog."C",
    from_state text COLLATE pg_catalog."C",
    to_state text NOT NULL COLLATE pg_catalog."C",
    attempt integer,
    attempt_id uuid,
    reason text,
    detail jsonb
);

ALTER TABLE sink.event ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sink.event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE sink.follow_up (
    turn uuid NOT NULL,
    seal smallint NOT NULL,
    "position" smallint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    child uuid NOT NULL,
    inbound uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    conversation text COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    is_duplicate boolean DEFAULT false NOT NULL,
    content_type text NOT NULL,
    body bytea,
    strict_json boolean NOT NULL,
    delay_seconds double precision DEFAULT 0 NOT NULL,
    not_before timestamp with time zone,
    hash bytea NOT NULL,
    CONSTRAINT body_until_accepted CHECK (((state = 'accepted'::text) = (body IS NULL))),
    CONSTRAINT hash_is_sha256 CHECK ((octet_length(hash) = 32)),
    CONSTRAINT state_known CHECK ((state = ANY (ARRAY['held'::text, 'accepted'::text, 'cancelled'::text])))
);

CREATE TABLE sink.hold (
    turn uuid NOT NULL,
    seal smallint NOT NULL,
    attempt integer NOT NULL,
    payload_hash bytea NOT NULL,
    demanded_by text NOT NULL COLLATE pg_catalog."C",
    strict boolean NOT NULL,
    note text,
    on_deadline text NOT NULL COLLATE pg_catalog."C",
    held_at timestamp with time zone NOT NULL,
    deadline_at timestamp with time zone NOT NULL,
    reminders integer DEFAULT 0 NOT NULL,
    decision text COLLATE pg_catalog."C",
    decided_at timestamp with time zone,
    decided_by text,
    decided_with text,
    comment text,
    request_hash bytea,
    new_hash bytea,
    CONSTRAINT decided_at_once CHECK ((((decision IS NULL) = (decided_at IS NULL)) AND ((decision IS NULL) = (decided_by IS NULL)))),
    CONSTRAINT decision_known CHECK ((decision = ANY (ARRAY['approve'::text, 'edit'::text, 'reject'::text, 'revise'::text, 'cancel'::text, 'send'::text]))),
    CONSTRAINT demanded_by_known CHECK ((demanded_by = ANY (ARRAY['seal'::text, 'queue'::text, 'destination'::text]))),
    CONSTRAINT edited_with_hash CHECK (((NOT (decision IS DISTINCT FROM 'edit'::text)) = (new_hash IS NOT NULL))),
    CONSTRAINT hash_is_sha256 CHECK ((octet_length(payload_hash) = 32)),
    CONSTRAINT on_deadline_known CHECK ((on_deadline = ANY (ARRAY['escalate'::text, 'cancel'::text, 'send'::text])))
);

CREATE TABLE sink.idempotency_key (
    scope text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    body_hash bytea NOT NULL,
    inbound uuid NOT NULL,
    turn uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    last_state text,
    CONSTRAINT body_hash_is_sha256 CHECK ((octet_length(body_hash) = 32))
);

CREATE TABLE sink.inbound (
    id uuid NOT NULL,
    turn uuid NOT NULL,
    "position" integer DEFAULT 0 NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    conversation text COLLATE pg_catalog."C",
    received_at timestamp with time zone NOT NULL,
    content_type text NOT NULL,
    headers jsonb NOT NULL,
    metadata text,
    body bytea NOT NULL,
    strict_json boolean NOT NULL,
    reply bytea,
    reply_expires_at timestamp with time zone,
    key_expires_at timestamp with time zone,
    view text,
    CONSTRAINT reply_expires CHECK (((reply IS NULL) = (reply_expires_at IS NULL)))
);

CREATE TABLE sink.lane (
    queue text NOT NULL COLLATE pg_catalog."C",
    conversation text NOT NULL COLLATE pg_catalog."C",
    tail bigint NOT NULL,
    holder uuid
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE sink.loopback (
    key text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    conversation text COLLATE pg_catalog."C",
    destination text NOT NULL COLLATE pg_catalog."C",
    content_type text NOT NULL,
    headers jsonb NOT NULL,
    body bytea NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    times integer NOT NULL
);

CREATE TABLE sink.notice (
    id bigint NOT NULL,
    turn uuid NOT NULL,
    message uuid,
    queue text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL,
    noted_at timestamp with time zone NOT NULL,
    CONSTRAINT kind_known CHECK ((kind = ANY (ARRAY['escalation'::text, 'hold'::text, 'wait'::text])))
);

ALTER TABLE sink.notice ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sink.notice_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE sink.operation (
    id uuid NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    verb text NOT NULL COLLATE pg_catalog."C",
    filter jsonb NOT NULL,
    queues text[],
    reason text,
    state text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    ended_at timestamp with time zone,
    last_id uuid,
    until_id uuid NOT NULL,
    found bigint DEFAULT 0 NOT NULL,
    changed bigint DEFAULT 0 NOT NULL,
    refused bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    CONSTRAINT ended_at_end CHECK (((state = 'running'::text) = (ended_at IS NULL))),
    CONSTRAINT kind_known CHECK ((kind = ANY (ARRAY['turn'::text, 'message'::text]))),
    CONSTRAINT state_known CHECK ((state = ANY (ARRAY['running'::text, 'done'::text, 'cancelled'::text])))
);

CREATE TABLE sink.outbox (
    id uuid NOT NULL,
    turn uuid NOT NULL,
    seal smallint NOT NULL,
    "position" smallint NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    conversation text COLLATE pg_catalog."C",
    destination text NOT NULL COLLATE pg_catalog."C",
    place bigint,
    left_lane boolean DEFAULT false NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    reason text,
    blocked_by uuid,
    delay_seconds double precision DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    due_since timestamp with time zone,
    expires_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    attempts_used integer DEFAULT 0 NOT NULL,
    may_have_arrived boolean DEFAULT false NOT NULL,
    attempt_id uuid,
    lease_expires_at timestamp with time zone,
    cancel_asked boolean DEFAULT false NOT NULL,
    delivered_at timestamp with time zone,
    receipt text,
    strict boolean DEFAULT false NOT NULL,
    hold_unknown boolean DEFAULT false NOT NULL,
    pace_seconds double precision DEFAULT 0 NOT NULL,
    CONSTRAINT attempt_while_sending CHECK (((state = 'sending'::text) = (attempt_id IS NOT NULL))),
    CONSTRAINT attempts_add_up CHECK (((attempts_used >= 0) AND (attempts_used <= attempts))),
    CONSTRAINT blocked_while_pending CHECK (((blocked_by IS NULL) OR (state = 'pending'::text))),
    CONSTRAINT cancel_asked_while_sending CHECK (((NOT cancel_asked) OR (state = 'sending'::text))),
    CONSTRAINT dead_never_arrived CHECK (((state <> 'dead'::text) OR (NOT may_have_arrived))),
    CONSTRAINT delivered_with_time CHECK (((state = 'delivered'::text) = (delivered_at IS NOT NULL))),
    CONSTRAINT due_when_unblocked CHECK (((state = ANY (ARRAY['held'::text, 'cancelled'::text])) OR (blocked_by IS NOT NULL) OR (due_since IS NOT NULL))),
    CONSTRAINT ended_with_reason CHECK (((state <> ALL (ARRAY['dead'::text, 'unknown'::text])) OR (reason IS NOT NULL))),
    CONSTRAINT held_unmoved CHECK (((state <> 'held'::text) OR ((attempts = 0) AND (blocked_by IS NULL) AND (due_since IS NULL)))),
    CONSTRAINT lease_while_sending CHECK (((attempt_id IS NULL) = (lease_expires_at IS NULL))),
    CONSTRAINT place_in_lane CHECK (
CASE
    WHEN ((conversation IS NULL) OR (state = 'held'::text)) THEN (place IS NULL)
    WHEN (state = 'cancelled'::text) THEN true
    ELSE (place IS NOT NULL)
END),
    CONSTRAINT state_known CHECK ((state = ANY (ARRAY['held'::text, 'pending'::text, 'sending'::text, 'delivered'::text, 'dead'::text, 'unknown'::text, 'cancelled'::text])))
)
WITH (fillfactor='85', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');

CREATE TABLE sink.outbox_payload (
    message uuid NOT NULL,
    key text NOT NULL,
    recipient text,
    headers jsonb NOT NULL,
    content_type text NOT NULL,
    body bytea NOT NULL,
    hash bytea NOT NULL,
    sealed_at timestamp with time zone NOT NULL,
    address text,
    reply_of uuid,
    CONSTRAINT hash_is_sha256 CHECK ((octet_length(hash) = 32))
);

CREATE TABLE sink.pause (
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    paused_at timestamp with time zone NOT NULL,
    paused_by text NOT NULL,
    reason text,
    CONSTRAINT all_has_no_name CHECK (((kind = 'all'::text) = (name = ''::text))),
    CONSTRAINT kind_known CHECK ((kind = ANY (ARRAY['all'::text, 'queue'::text, 'source'::text, 'destination'::text])))
);

CREATE TABLE sink.resend (
    id uuid NOT NULL,
    message uuid NOT NULL,
    turn uuid NOT NULL,
    destination text NOT NULL COLLATE pg_catalog."C",
    requested_at timestamp with time zone NOT NULL,
    requested_by text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    attempt_id uuid,
    hold_unknown boolean DEFAULT false NOT NULL,
    lease_expires_at timestamp with time zone,
    CONSTRAINT attempts_count CHECK (((attempts >= 0) AND ((attempt_id IS NULL) OR (attempts > 0)))),
    CONSTRAINT lease_while_sending CHECK (((attempt_id IS NULL) = (lease_expires_at IS NULL)))
);

CREATE TABLE sink.schedule (
    source text NOT NULL COLLATE pg_catalog."C",
    looked_at timestamp with time zone NOT NULL
);

CREATE TABLE sink.signal (
    turn uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    number smallint NOT NULL,
    content_type text,
    body bytea,
    strict_json boolean DEFAULT false NOT NULL,
    payload_hash text,
    is_decision boolean NOT NULL,
    sent_by text,
    sent_with text NOT NULL,
    request_hash bytea NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    dropped_at timestamp with time zone,
    CONSTRAINT body_with_type CHECK (((body IS NULL) = (content_type IS NULL)))
);

CREATE TABLE sink.standstill (
    destination text NOT NULL COLLATE pg_catalog."C",
    cause text NOT NULL COLLATE pg_catalog."C",
    began_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT cause_known CHECK ((cause = ANY (ARRAY['pause'::text, 'breaker'::text])))
);

CREATE TABLE sink.tombstone (
    id uuid NOT NULL,
    turn uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    purged_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

CREATE TABLE sink.turn (
    id uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    conversation text COLLATE pg_catalog."C",
    lane_seq bigint,
    priority smallint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    reason text,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    attempts_used integer DEFAULT 0 NOT NULL,
    releases integer DEFAULT 0 NOT NULL,
    token uuid,
    lease_seconds integer,
    lease_expires_at timestamp with time zone,
    seal smallint DEFAULT 0 NOT NULL,
    payload_hash bytea,
    inbound_count integer DEFAULT 1 NOT NULL,
    input_bytes bigint NOT NULL,
    ages_from timestamp with time zone,
    held_source text COLLATE pg_catalog."C",
    deadline_at timestamp with time zone,
    about uuid,
    root uuid,
    depth smallint DEFAULT 0 NOT NULL,
    revisions smallint DEFAULT 0 NOT NULL,
    parks smallint DEFAULT 0 NOT NULL,
    said_bytes integer,
    CONSTRAINT attempts_add_up CHECK (((attempts_used >= 0) AND (releases >= 0) AND (attempt >= attempts_used))),
    CONSTRAINT counts CHECK (((depth >= 0) AND (revisions >= 0) AND (parks >= 0))),
    CONSTRAINT deadline_while_waiting CHECK (((state = ANY (ARRAY['parked'::text, 'held'::text, 'escalated'::text])) = (deadline_at IS NOT NULL))),
    CONSTRAINT ended_with_reason CHECK (((state = ANY (ARRAY['failed'::text, 'cancelled'::text])) = (reason IS NOT NULL))),
    CONSTRAINT held_before_due CHECK (((held_source IS NULL) OR (state = ANY (ARRAY['scheduled'::text, 'cancelled'::text])))),
    CONSTRAINT lane_place CHECK (
CASE
    WHEN (conversation IS NULL) THEN ((lane_seq IS NULL) AND (state <> 'waiting'::text))
    ELSE ((state = 'cancelled'::text) OR ((state = 'scheduled'::text) = (lane_seq IS NULL)))
END),
    CONSTRAINT lease_while_token CHECK ((((token IS NULL) = (lease_expires_at IS NULL)) AND ((token IS NULL) = (lease_seconds IS NULL)))),
    CONSTRAINT priority_bounds CHECK (((priority >= '-100'::integer) AND (priority <= 100))),
    CONSTRAINT root_below CHECK (((root IS NULL) = (depth = 0))),
    CONSTRAINT sealed_with_hash CHECK (
CASE
    WHEN (state = ANY (ARRAY['sealed'::text, 'replied'::text, 'undelivered'::text, 'held'::text, 'escalated'::text])) THEN ((payload_hash IS NOT NULL) AND (seal > 0))
    WHEN (state = 'cancelled'::text) THEN ((payload_hash IS NULL) OR (seal > 0))
    ELSE (payload_hash IS NULL)
END),
    CONSTRAINT state_known CHECK ((state = ANY (ARRAY['scheduled'::text, 'waiting'::text, 'queued'::text, 'processing'::text, 'parked'::text, 'held'::text, 'escalated'::text, 'sealed'::text, 'replied'::text, 'undelivered'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT token_while_processing CHECK (((state = 'processing'::text) = (token IS NOT NULL))),
    CONSTRAINT told_once CHECK (((about IS NULL) OR (root IS NULL)))
)
WITH (fillfactor='85', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');

CREATE TABLE sink.wait (
    turn uuid NOT NULL,
    attempt integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    note text,
    payload_hash text,
    asked_at timestamp with time zone NOT NULL,
    deadline_at timestamp with time zone NOT NULL,
    ended text COLLATE pg_catalog."C",
    ended_at timestamp with time zone,
    signal smallint,
    CONSTRAINT ended_at_once CHECK (((ended IS NULL) = (ended_at IS NULL))),
    CONSTRAINT ended_by_signal CHECK (((NOT (ended IS DISTINCT FROM 'signal'::text)) = (signal IS NOT NULL))),
    CONSTRAINT ended_known CHECK ((ended = ANY (ARRAY['signal'::text, 'deadline'::text, 'cancelled'::text])))
);

ALTER TABLE ONLY sink.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);

ALTER TABLE ONLY sink.allowance
    ADD CONSTRAINT allowance_pkey PRIMARY KEY (queue);

ALTER TABLE ONLY sink.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (id);

ALTER TABLE ONLY sink.attempt
    ADD CONSTRAINT attempt_pkey PRIMARY KEY (turn, number);

ALTER TABLE ONLY sink.claim_request
    ADD CONSTRAINT claim_request_pkey PRIMARY KEY (principal, queue, agent, request_id);

ALTER TABLE ONLY sink.delivery_lane
    ADD CONSTRAINT delivery_lane_pkey PRIMARY KEY (queue, conversation, destination);

ALTER TABLE ONLY sink.destination
    ADD CONSTRAINT destination_pkey PRIMARY KEY (name);

ALTER TABLE ONLY sink.differing
    ADD CONSTRAINT differing_pkey PRIMARY KEY (source, key);

ALTER TABLE ONLY sink.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (turn, id);

ALTER TABLE ONLY sink.follow_up
    ADD CONSTRAINT follow_up_pkey PRIMARY KEY (turn, seal, "position");

ALTER TABLE ONLY sink.hold
    ADD CONSTRAINT hold_pkey PRIMARY KEY (turn, seal);

ALTER TABLE ONLY sink.idempotency_key
    ADD CONSTRAINT idempotency_key_pkey PRIMARY KEY (scope, key);

ALTER TABLE ONLY sink.inbound
    ADD CONSTRAINT inbound_pkey PRIMARY KEY (id);

ALTER TABLE ONLY sink.lane
    ADD CONSTRAINT lane_pkey PRIMARY KEY (queue, conversation);

ALTER TABLE ONLY sink.loopback
    ADD CONSTRAINT loopback_pkey PRIMARY KEY (key);

ALTER TABLE ONLY sink.notice
    ADD CONSTRAINT notice_pkey PRIMARY KEY (id);

ALTER TABLE ONLY sink.operation
    ADD CONSTRAINT operation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY sink.outbox_payload
    ADD CONSTRAINT outbox_payload_pkey PRIMARY KEY (message);

ALTER TABLE ONLY sink.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY sink.pause
    ADD CONSTRAINT pause_pkey PRIMARY KEY (kind, name);

ALTER TABLE ONLY sink.resend
    ADD CONSTRAINT resend_pkey PRIMARY KEY (id);

ALTER TABLE ONLY sink.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (source);

ALTER TABLE ONLY sink.signal
    ADD CONSTRAINT signal_pkey PRIMARY KEY (turn, name, number);

ALTER TABLE ONLY sink.standstill
    ADD CONSTRAINT standstill_pkey PRIMARY KEY (destination, cause, began_at);

ALTER TABLE ONLY sink.tombstone
    ADD CONSTRAINT tombstone_pkey PRIMARY KEY (id);

ALTER TABLE ONLY sink.turn
    ADD CONSTRAINT turn_pkey PRIMARY KEY (id);

ALTER TABLE ONLY sink.wait
    ADD CONSTRAINT wait_pkey PRIMARY KEY (turn, attempt);

CREATE INDEX attempt_request ON sink.attempt USING btree (request) WHERE (request IS NOT NULL);

CREATE INDEX claim_request_expiry ON sink.claim_request USING btree (expires_at);

CREATE INDEX differing_last ON sink.differing USING btree (last_at);

CREATE INDEX follow_up_child ON sink.follow_up USING btree (child);

CREATE INDEX follow_up_conversation ON sink.follow_up USING btree (queue, conversation) WHERE (conversation IS NOT NULL);

CREATE INDEX inbound_conversation ON sink.inbound USING btree (queue, conversation, id) WHERE (conversation IS NOT NULL);

CREATE INDEX inbound_turn ON sink.inbound USING btree (turn);

CREATE INDEX loopback_recent ON sink.loopback USING btree (last_at DESC);

CREATE INDEX notice_queue ON sink.notice USING btree (queue, id);

CREATE INDEX notice_turn ON sink.notice USING btree (turn);

CREATE INDEX operation_running ON sink.operation USING btree (id) WHERE (state = 'running'::text);

CREATE INDEX outbox_blocked ON sink.outbox USING btree (blocked_by) WHERE (blocked_by IS NOT NULL);

CREATE INDEX outbox_due ON sink.outbox USING btree (destination, due_at, id) WHERE ((state = 'pending'::text) AND (blocked_by IS NULL));

CREATE INDEX outbox_lane ON sink.outbox USING btree (queue, conversation, destination, place) WHERE ((state = ANY (ARRAY['pending'::text, 'sending'::text])) AND (NOT left_lane) AND (conversation IS NOT NULL));

CREATE INDEX outbox_sending ON sink.outbox USING btree (lease_expires_at, id) WHERE (state = 'sending'::text);

CREATE UNIQUE INDEX outbox_set ON sink.outbox USING btree (turn, seal, "position");

CREATE INDEX outbox_troubled ON sink.outbox USING btree (state, destination, id) WHERE (state = ANY (ARRAY['dead'::text, 'unknown'::text, 'cancelled'::text]));

CREATE UNIQUE INDEX resend_asked ON sink.resend USING btree (message) WHERE (attempts = 0);

CREATE INDEX resend_due ON sink.resend USING btree (destination, due_at, id) WHERE (attempt_id IS NULL);

CREATE INDEX resend_sending ON sink.resend USING btree (lease_expires_at, id) WHERE (attempt_id IS NOT NULL);

CREATE UNIQUE INDEX signal_live ON sink.signal USING btree (turn, name) WHERE (dropped_at IS NULL);

CREATE INDEX standstill_ended ON sink.standstill USING btree (destination, ended_at);

CREATE UNIQUE INDEX standstill_now ON sink.standstill USING btree (destination, cause) WHERE (ended_at IS NULL);

CREATE INDEX tombstone_expiry ON sink.tombstone USING btree (expires_at);

CREATE INDEX turn_about ON sink.turn USING btree (about, id) WHERE (about IS NOT NULL);

CREATE INDEX turn_asking ON sink.turn USING btree (state, queue, id) WHERE (state = ANY (ARRAY['parked'::text, 'held'::text, 'escalated'::text]));

CREATE INDEX turn_deadline ON sink.turn USING btree (queue, deadline_at, id) WHERE (state = ANY (ARRAY['held'::text, 'escalated'::text]));

CREATE INDEX turn_held ON sink.turn USING btree (held_source, created_at, id) WHERE ((held_source IS NOT NULL) AND (state = 'scheduled'::text));

CREATE UNIQUE INDEX turn_lane_head ON sink.turn USING btree (queue, conversation) WHERE ((state = ANY (ARRAY['queued'::text, 'processing'::text])) AND (conversation IS NOT NULL));

CREATE INDEX turn_parked ON sink.turn USING btree (deadline_at, id) WHERE (state = 'parked'::text);

CREATE INDEX turn_processing ON sink.turn USING btree (lease_expires_at, id) WHERE (state = 'processing'::text);

CREATE INDEX turn_queued ON sink.turn USING btree (queue, priority DESC, due_at, id) WHERE (state = 'queued'::text);

CREATE INDEX turn_root ON sink.turn USING btree (root, id) WHERE (root IS NOT NULL);

CREATE INDEX turn_scheduled ON sink.turn USING btree (due_at, id) WHERE (state = 'scheduled'::text);

CREATE INDEX turn_scheduled_queue ON sink.turn USING btree (queue) WHERE (state = 'scheduled'::text);

CREATE INDEX turn_sealed ON sink.turn USING btree (queue, id) WHERE (state = 'sealed'::text);

CREATE INDEX turn_troubled ON sink.turn USING btree (state, queue, id) WHERE (state = ANY (ARRAY['failed'::text, 'undelivered'::text, 'cancelled'::text]));

CREATE INDEX turn_waiting ON sink.turn USING btree (queue, conversation, lane_seq) WHERE (state = 'waiting'::text);

GRANT USAGE ON SCHEMA sink TO sinksweep_app;

GRANT ALL ON FUNCTION sink.now() TO sinksweep_app;

REVOKE ALL ON FUNCTION sink.purge_events(turns uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION sink.purge_events(turns uuid[]) TO sinksweep_app;

GRANT SELECT ON TABLE sink.alembic_version TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.allowance TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.api_key TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.attempt TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.claim_request TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.delivery_lane TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.destination TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.differing TO sinksweep_app;

GRANT SELECT,INSERT ON TABLE sink.event TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.follow_up TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.hold TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.idempotency_key TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.inbound TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.lane TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.loopback TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.notice TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.operation TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.outbox TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.outbox_payload TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.pause TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.resend TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.schedule TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.signal TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.standstill TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.tombstone TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.turn TO sinksweep_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sink.wait TO sinksweep_app;
