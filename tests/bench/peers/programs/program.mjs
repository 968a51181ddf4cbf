// What the program of every peer in Node does: install, serve, fill, work. As program.py, with node:http as the front.
import http from 'node:http';

export const task = JSON.parse(process.argv[2]);
export const connection = { host: task.host, port: 5432, user: 'postgres', database: task.database };
export const FRONT_CONNECTIONS = 32;
const FILL_BATCH = 500;
const SAID = 'a reply of about three hundred bytes, as an agent may give one '.repeat(4);

const agent = new http.Agent({ keepAlive: true, maxSockets: 100 });

// The delivery: a POST under a key of its own.
export const send = payload => new Promise((resolve, reject) => {
  const body = JSON.stringify(payload);
  const headers = {
    'content-type': 'application/json', 'content-length': Buffer.byteLength(body),
    'idempotency-key': payload.key,
  };
  const options = { host: '127.0.0.1', port: task.receiver_port, path: '/hook', method: 'POST', agent, headers };
  const request = http.request(options, response => {
    response.resume();
    response.on('end', () => response.statusCode < 300 ? resolve() : reject(new Error(response.statusCode)));
  });
  request.on('error', reject);
  request.end(body);
});

// What the handler of a turn has to say: three messages.
export const outgoing = payload => [0, 1, 2].map(n => ({ key: `${payload.conversation}-${n}`, text: SAID }));

// How long it took until the handler ran, in seconds of the system's monotonic clock.
export const note = payload =>
  process.stdout.write(`started ${(Number(process.hrtime.bigint()) / 1e9 - payload.payload.sent).toFixed(6)}\n`);

const serve = program => http.createServer((request, response) => {
  const parts = [];
  request.on('data', part => parts.push(part));
  request.on('end', async () => {
    try {
      await program.enqueue(request.url.slice(1), JSON.parse(Buffer.concat(parts)));
      response.writeHead(202, { 'content-type': 'application/json', 'content-length': 17 });
      response.end('{"accepted":true}');
    } catch (error) {
      console.error(error);
      response.writeHead(500, { 'content-length': 0 }).end();
    }
  });
}).listen(task.port, '127.0.0.1');

const fill = async program => {
  await program.open();
  for (let n = 0; n < task.count; n += FILL_BATCH) {
    const size = Math.min(FILL_BATCH, task.count - n);
    await program.enqueueMany('send', Array.from({ length: size }, (_, i) => ({ key: `backlog-${n + i}`, text: SAID })));
  }
};

export const main = async program => {
  if (task.do === 'install') {
    await program.install();
    console.log(JSON.stringify({ remaining: program.remaining }));
    process.exit(0);
  } else if (task.do === 'serve') {
    await program.open();
    serve(program);
  } else if (task.do === 'fill') {
    await fill(program);
    process.exit(0);
  } else {
    await program.work();
  }
};
