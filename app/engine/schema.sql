-- name: find_version_table
-- Whether migrations have ever run here.
select to_regclass('sink.alembic_version') is not null as present;

-- name: find_revision
-- The revision that the database is at.
select version_num from sink.alembic_version;

-- name: find_durability
-- What a commit stands on.
select name, setting from pg_catalog.pg_settings
where name in ('fsync', 'full_page_writes', 'synchronous_commit');
