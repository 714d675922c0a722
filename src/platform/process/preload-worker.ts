/**
 * @module Runs first in every Worker: turns what its libraries print, even while they are loaded, into lines like those
 * of the log. It does without the log itself, which would take a tenth of a second to load.
 */
import { workerData } from 'node:worker_threads'
import { addPriority, isJournal } from '#platform/log/journal.ts'
import { redactAddresses } from '#platform/log/redact.ts'
import { captureStrayOutput } from '#platform/log/stray-output.ts'
import { systemClock } from '#platform/time/clock.ts'

// `startWithDescriptors` waits for this, for a limited time. An error here would end the Worker.
if (workerData instanceof Int32Array) {
  Atomics.store(workerData, 0, 1)
  Atomics.notify(workerData, 0)
}

const isPrioritised = isJournal()
// `startWorker` passes the name.
const [worker = ''] = process.argv.slice(2)

captureStrayOutput((text) => {
  const time = new Date(systemClock.now()).toISOString()
  const fields = { level: 'warn', time, worker, text: redactAddresses(text), msg: 'unexpected output' }
  const line = `${JSON.stringify(fields)}\n`
  process.stderr.write(isPrioritised ? addPriority('warn', line) : line)
})
