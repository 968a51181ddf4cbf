// graphile-worker, set as its page on performance says: a local queue of 500, ends in batches, 24 at once.
import { createRequire } from 'node:module';
import { connection, FRONT_CONNECTIONS, main, note, outgoing, send, task } from './program.mjs';

const require = createRequire(`${task.modules}/`);
const { Logger, makeWorkerUtils, run, runMigrations } = require('graphile-worker');
const { Pool } = require('pg');
const SETTINGS = {
  concurrentJobs: 24, maxPoolSize: 25, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0,
};
const logger = new Logger(() => (level, message) => { if (level === 'error') console.error(message); });
let utils;

const pool = max => new Pool({ ...connection, max }).on('error', error => console.error(error));
const open = async max => { utils = await makeWorkerUtils({ pgPool: pool(max), logger }); };
const jobs = (identifier, payloads) => payloads.map(payload => ({ identifier, payload }));

main({
  remaining: 'select count(*) from graphile_worker._private_jobs',
  install: () => runMigrations({ pgPool: pool(2), logger, preset: {} }),
  open: () => open(FRONT_CONNECTIONS),
  enqueue: (kind, payload) => utils.addJob(kind, payload),
  enqueueMany: (kind, payloads) => utils.addJobs(jobs(kind, payloads)),
  work: async () => {
    await open(10);
    await run({
      pgPool: pool(25), logger, preset: { worker: { ...SETTINGS, logger } },
      taskList: { turn: payload => utils.addJobs(jobs('send', outgoing(payload))), note, send },
    });
  },
});
