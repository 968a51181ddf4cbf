-- name: find_sealed
-- The messages of these sets, for an answer that is given again.
select o.id, o.turn, o.seal, o.state, p.key
from (select distinct turn, seal from unnest(:turns::uuid[], :seals::int[]) as t (turn, seal)) as chosen
inner join sink.outbox as o on o.turn = chosen.turn and o.seal = chosen.seal
inner join sink.outbox_payload as p on p.message = o.id
order by o.turn, o.seal, o.position;
