-- name: find_origins
-- What a turn answers, the newest first, and what each of it may be answered with while that holds. An inbound joins no
-- turn that was ever claimed, so whoever seals has seen all of them.
select
    i.id, i.source,
    case when i.reply_expires_at > sink.now() then i.reply end as reply,
    i.reply_expires_at
from sink.inbound as i
where i.turn = :turn
order by i.position desc, i.id desc
limit :rows_max;
