// Node's timed waits; the same lines as `waits.c` prints.
'use strict';
const fs = require('fs');
const net = require('net');
const { spawn } = require('child_process');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

if (!isMainThread) {
  const word = new Int32Array(new SharedArrayBuffer(4));
  parentPort.once('message', () => {
    const begun = process.hrtime.bigint();
    const result = Atomics.wait(word, 0, 0, workerData);
    parentPort.postMessage([result, (process.hrtime.bigint() - begun).toString()]);
  });
  parentPort.postMessage('up');
  return;
}

const [gate, waitMs] = [process.argv[2], Number(process.argv[3])];
const say = (name, ret, lasted, want = waitMs * 1e6) =>
  process.stdout.write(`node_${name} ret=${ret} want_ns=${want} virtual_ns=${lasted}\n`);

const cases = {
  timeout: (done) => setTimeout(() => done('done'), waitMs),
  interval: (done) => {
    let left = 5;
    const timer = setInterval(() => { if (--left === 0) { clearInterval(timer); done('five'); } }, waitMs / 5);
  },
  socket_timeout: (done) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const socket = net.connect(server.address().port, '127.0.0.1');
      socket.setTimeout(waitMs, () => { socket.destroy(); server.close(); done('timeout'); });
    });
  },
  child: (done) => spawn('sleep', [`${waitMs / 1000}`]).on('exit', (code) => done(code)),
};

const worker = new Worker(__filename, { workerData: waitMs });
worker.on('message', (message) => {
  if (message !== 'up') {
    say('atomics_wait', message[0], message[1]);
    worker.terminate();
    return;
  }
  const opened = fs.openSync(gate, 'r');
  process.stdout.write('ready\n');
  fs.readFile(opened, () => {
    worker.postMessage('go');
    for (const [name, run] of Object.entries(cases)) {
      const begun = process.hrtime.bigint();
      // Node counts in milliseconds of its event loop's cached clock and may be early by one of
      // them, natively.
      run((ret) => say(name, ret, process.hrtime.bigint() - begun, (waitMs - 2) * 1e6));
    }
  });
});
