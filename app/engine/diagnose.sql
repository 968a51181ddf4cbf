-- name: find_server
-- Which server this is, and as whom it is spoken to.
select
    current_setting('server_version_num')::int as version,
    current_setting('server_version') as spelled,
    pg_is_in_recovery() as is_standby,
    current_user::text as works_as,
    session_user::text as logged_in_as,
    coalesce(inet_client_addr() = inet_server_addr(), true) as is_here,
    pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all;

-- name: find_settings
-- Settings of the server. Those that this role may not see are left out.
select name, setting from pg_settings where name = any(:names);

-- name: commit_once
-- A commit of the smallest kind: it writes a record that nobody reads, in a transaction that is flushed as any other.
select pg_logical_emit_message(true, 'sinksweep doctor', '') is not null as written;

-- name: find_standbys
-- Who follows this server.
select count(*) as standbys, count(*) filter (where sync_state in ('sync', 'quorum')) as synchronous
from pg_stat_replication;

-- name: find_role
-- What the role that works may do beside its work. The owner of the tables may do anything with them.
select
    r.rolname::text as name,
    r.rolsuper as is_superuser,
    r.rolcreaterole as makes_roles,
    r.rolcreatedb as makes_databases,
    r.rolreplication as replicates,
    has_schema_privilege('sink', 'usage') as enters,
    has_schema_privilege('sink', 'create') as makes_tables,
    exists(
        select from pg_class as c
        where c.relnamespace = 'sink'::regnamespace and pg_has_role(c.relowner, 'usage')
    ) as owns_tables
from pg_roles as r
where r.rolname = current_user;

-- name: find_grants
-- What the role may do with each table, and what it lacks.
select
    c.relname::text as name,
    has_table_privilege(c.oid, 'select') as reads,
    has_table_privilege(c.oid, 'insert') as adds,
    has_table_privilege(c.oid, 'update') or has_table_privilege(c.oid, 'delete')
    or has_table_privilege(c.oid, 'truncate') as changes
from pg_class as c
where c.relnamespace = 'sink'::regnamespace and c.relkind in ('r', 'p')
order by c.relname
limit 200;

-- name: find_indexes
-- The indexes there are, and whether they can be used.
select c.relname::text as name, i.indisvalid and i.indisready as is_valid
from pg_class as c
inner join pg_index as i on i.indexrelid = c.oid
where c.relnamespace = 'sink'::regnamespace
order by c.relname
limit 1000;

-- name: find_tables
-- How much of each table is dead, as the statistics tell, and when it was cleaned last.
select
    s.relname::text as name,
    s.n_live_tup as live,
    s.n_dead_tup as dead,
    extract(epoch from clock_timestamp() - greatest(s.last_autovacuum, s.last_vacuum))::double precision
    as vacuumed_ago,
    coalesce((
        select option_value = 'false' from pg_options_to_table(c.reloptions) where option_name = 'autovacuum_enabled'
    ), false) as never_vacuumed
from pg_stat_user_tables as s
inner join pg_class as c on c.oid = s.relid
where s.schemaname = 'sink'
order by s.n_dead_tup desc
limit 200;

-- name: find_freeze_age
-- How many transactions ago this database was frozen: at two thousand million the server stops.
select age(datfrozenxid) as transactions from pg_database where datname = current_database();

-- name: find_backend
-- Which process of the server answers.
select pg_backend_pid() as pid;

-- name: find_overdue
-- What nobody puts back although its lease is over, in seconds: nothing where there is none.
select
    (
        select extract(epoch from sink.now() - t.lease_expires_at)::double precision from sink.turn as t
        where t.state = 'processing' and t.lease_expires_at <= sink.now()
        order by t.lease_expires_at, t.id limit 1
    ) as turn_seconds,
    (
        select extract(epoch from sink.now() - o.lease_expires_at)::double precision from sink.outbox as o
        where o.state = 'sending' and o.lease_expires_at <= sink.now()
        order by o.lease_expires_at, o.id limit 1
    ) as message_seconds,
    (
        select extract(epoch from sink.now() - t.due_at)::double precision from sink.turn as t
        where t.state = 'scheduled' and t.due_at <= sink.now()
        order by t.due_at, t.id limit 1
    ) as scheduled_seconds,
    -- What is held in a queue that is not known waits for somebody who knows it.
    (
        select extract(epoch from sink.now() - t.deadline_at)::double precision from sink.turn as t
        where
            t.state in ('parked', 'held', 'escalated') and t.deadline_at <= sink.now()
            and (t.state = 'parked' or t.queue = any(:queues::text[]))
        order by t.deadline_at, t.id limit 1
    ) as deadline_seconds;

-- name: find_open_breakers
-- The breakers that are not closed, and for how long.
select
    name, breaker as state, reason, extract(epoch from sink.now() - opened_at)::double precision as open_seconds
from sink.destination
where breaker <> 'closed'
order by name
limit 100;

-- name: find_kept_longest
-- How long ago the longest of the oldest turns ended that is over and still here.
select max(extract(epoch from sink.now() - last.at))::double precision as ended_seconds
from (select t.id, t.state from sink.turn as t order by t.id limit 1000) as old
cross join lateral (
    select e.at from sink.event as e
    where e.turn = old.id
    order by e.id desc limit 1
) as last
where old.state = 'replied';
