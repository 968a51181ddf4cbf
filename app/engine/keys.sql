-- name: add_key
-- Keep a key's hash; the key itself is shown once and kept by nobody.
insert into sink.api_key (id, name, hash, scopes, queues, expires_at)
values (
    :id, :name, :hash, :scopes, :queues,
    sink.now() + make_interval(secs => :life_seconds::double precision)
);

-- name: find_key
-- A key that is neither revoked nor over.
select id, hash, scopes, queues
from sink.api_key
where id = :id and revoked_at is null and (expires_at is null or expires_at > sink.now());

-- name: list_keys
-- Every key, without its hash.
select id, name, scopes, queues, created_at, expires_at, revoked_at
from sink.api_key
order by created_at, id;

-- name: revoke_key
-- From now on the key is nobody's. Repeatable.
update sink.api_key set revoked_at = coalesce(revoked_at, sink.now())
where id = :id
returning id;
