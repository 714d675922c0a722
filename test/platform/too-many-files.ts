/**
 * @module A process with too many open files that posts to a port without a listener and prints the outcome. For
 * safe-fetch.test.ts, under `ulimit -n`.
 */
import { closeSync, openSync } from 'node:fs'
import { SafeFetch } from '#platform/net/safe-fetch.ts'
import { systemClock } from '#platform/time/clock.ts'

/** Of the service discard, below those that systems assign to servers: no test listens there. */
const CLOSED_PORT = 9

const fetch = new SafeFetch({
  clock: systemClock,
  lookUp: async () => ({ kind: 'ok', addresses: ['127.0.0.1'] }),
  findRefusal: () => undefined,
})
const post = async () => {
  const request = { headers: {}, body: '', timeoutMs: 5000, maxResponseBytes: 10 }
  const outcome = await fetch.post(`https://hooks.test:${CLOSED_PORT}/`, request)
  return outcome.kind === 'failed' ? outcome.cause : outcome.kind
}
const before = await post()
const files: number[] = []
try {
  for (;;) files.push(openSync('/dev/null', 'r'))
} catch {
  // No descriptor is left.
}
const full = await post()
for (const file of files) closeSync(file)
process.stdout.write(JSON.stringify([before, full, await post()]))
fetch.close()
