// pg-boss: batches of a hundred, two workers a queue, LISTEN/NOTIFY on, and no pause while batches come back full.
import { createRequire } from 'node:module';
import { connection, FRONT_CONNECTIONS, main, note, outgoing, send, task } from './program.mjs';

const { PgBoss } = createRequire(`${task.modules}/`)('pg-boss');
const QUEUES = ['turn', 'note', 'send'];
// A notification that comes amid a fetch would otherwise wait for its default of thirty seconds.
const FETCH = {
  batchSize: 100, localConcurrency: 2, burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5,
};
let boss;

const start = async options => {
  boss = new PgBoss({ ...connection, max: FRONT_CONNECTIONS, ...options });
  boss.on('error', error => console.error(error));
  await boss.start();
};

main({
  remaining: "select count(*) from pgboss.job where state in ('created', 'retry', 'active')",
  install: async () => {
    await start({});
    for (const queue of QUEUES) await boss.createQueue(queue, { notify: true });
  },
  open: () => start({ supervise: false, schedule: false }),
  enqueue: (kind, payload) => boss.send(kind, payload),
  enqueueMany: (kind, payloads) => boss.insert(kind, payloads.map(data => ({ data }))),
  work: async () => {
    await start({ useListenNotify: true });
    await boss.work('turn', FETCH, jobs => boss.insert('send', jobs.flatMap(job => outgoing(job.data)).map(data => ({ data }))));
    await boss.work('note', FETCH, async jobs => { for (const job of jobs) note(job.data); });
    await boss.work('send', FETCH, async jobs => { await Promise.all(jobs.map(job => send(job.data))); });
  },
});
