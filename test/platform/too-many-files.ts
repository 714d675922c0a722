/**
 * @module A process with too many open files that posts to a port (argument) and prints the outcome. For
 * safe-fetch.test.ts, under `ulimit -n`.
 */
import { closeSync, openSync } from 'node:fs'
import { systemClock } from '#platform/clock.ts'
import { SafeFetch } from '#platform/safe-fetch.ts'

const fetch = new SafeFetch({
  clock: systemClock,
  lookUp: async () => ({ kind: 'ok', addresses: ['127.0.0.1'] }),
  findRefusal: () => undefined,
})
const post = async () => {
  const request = { headers: {}, body: '', timeoutMs: 5000, maxResponseBytes: 10 }
  const outcome = await fetch.post(`https://hooks.test:${process.argv[2]}/`, request)
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
