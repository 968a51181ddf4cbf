-- name: find_sessions
-- Transactions that are open for long, in this whole server: what they hold back is the cleaning of every table.
select
    pid,
    usename::text as login,
    application_name as application,
    coalesce(datname = current_database(), false) as is_here,
    state like 'idle in transaction%' as is_idle,
    extract(epoch from clock_timestamp() - xact_start)::double precision as open_seconds,
    extract(epoch from clock_timestamp() - state_change)::double precision as still_seconds
from pg_stat_activity
where
    xact_start is not null and pid <> pg_backend_pid() and backend_type = 'client backend'
    and clock_timestamp() - xact_start > make_interval(secs => :seconds)
order by xact_start
limit 10;

-- name: find_prepared
-- Transactions that were prepared and left: they hold locks for ever.
select
    gid,
    owner::text as login,
    extract(epoch from clock_timestamp() - prepared)::double precision as open_seconds
from pg_prepared_xacts
where clock_timestamp() - prepared > make_interval(secs => :seconds)
order by prepared
limit 10;

-- name: show_slots
-- Replication slots, and how much of the log each holds.
select
    slot_name::text as name,
    active as is_read,
    coalesce(wal_status in ('unreserved', 'lost'), false) as is_lost,
    case
        when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)
    end::bigint as held_bytes
from pg_replication_slots
order by held_bytes desc nulls last
limit 20;

-- name: find_connections
-- How many there may be, and how many there are.
select
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as allowed,
    (select rolconnlimit from pg_roles where rolname = session_user) as login_limit,
    (select datconnlimit from pg_database where datname = current_database()) as database_limit,
    count(*) filter (where backend_type = 'client backend') as used,
    count(*) filter (where backend_type = 'client backend' and datname = current_database()) as here,
    count(*) filter (where usename = session_user) as of_login,
    count(*) filter (where application_name like 'sinksweep%' and application_name not like '% doctor') as ours
from pg_stat_activity;
