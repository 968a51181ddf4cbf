-- What real sources and real channels take. Nothing here makes a hot statement write one more row or index entry.

-- The same few things of every message, as JSON in ASCII: not jsonb, which cannot hold every text.
alter table sink.inbound add column view text;

-- Bodies that came under a key of a source and were not the one that it stands for. Each was answered as the duplicate
-- that its key says it is; many under one key tell that the key is found wrongly.
create table sink.differing (
    source text collate "C" not null,
    key text collate "C" not null,
    times bigint not null,
    -- The hashes of the first few different ones.
    bodies bytea[] not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    constraint times_counts check (times >= cardinality(bodies)),
    primary key (source, key)
);
create index differing_last on sink.differing (last_at);
grant select, insert, update, delete on sink.differing to sinksweep_app;

-- Up to when the sources that the clock asks were looked at. Their scheduled times are keys: this only bounds a look.
create table sink.schedule (
    source text collate "C" primary key,
    looked_at timestamptz not null
);
grant select, insert, update, delete on sink.schedule to sinksweep_app;

-- Where a message goes, in its channel's words; and the inbound whose leave to answer it uses.
alter table sink.outbox_payload add column address text, add column reply_of uuid;
-- The rest between two messages of a conversation, as its provider wants it.
alter table sink.outbox add column pace_seconds double precision not null default 0;
