-- name: find_own_backend
-- Which process of the server answers this time.
select pg_backend_pid() as pid;

-- name: find_session
-- Who works here, and where it looks.
select current_user::text as role, current_setting('search_path') as search_path;

-- name: echo_number
-- A statement to prepare, and to ask for later.
select :number::int as number;

-- name: say
-- Tell whoever listens.
select pg_notify(:channel, :payload);
