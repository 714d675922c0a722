/** @module `scripts/provider-day`: runs a day of mail to ten imitated providers and prints what each saw. */
import { parseArgs } from 'node:util'
import { hours } from '#platform/units.ts'
import { runProviderDay } from './provider-day.ts'

const HELP = `scripts/provider-day [--messages N] [--hours H]

Sends a day of mail (200,000 messages in 24 hours) to ten imitated providers with rate limits, a hidden limit, a block of
two hours and a recovery, by an injected clock, and prints what each provider saw. Scheduler and database are real.
Exit code 1 when a provider saw more than its limit, or a message was not delivered exactly once.`

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '200000' },
    hours: { type: 'string', default: '24' },
    help: { type: 'boolean', default: false },
  },
})
const messages = Number(values.messages)
const lengthHours = Number(values.hours)
if (values.help || !Number.isInteger(messages) || messages < 1 || !(lengthHours >= 1 && lengthHours <= 24)) {
  console.log(HELP)
  process.exit(values.help ? 0 : 2)
}
const startedAt = performance.now()
const result = await runProviderDay(messages, lengthHours, (hour, open) =>
  console.log(`hour ${hour}: ${open} open, ${((performance.now() - startedAt) / 1000).toFixed(0)} s`),
)
console.table(result.rows)
const { user, system } = process.cpuUsage()
console.log(
  `${result.delivered} delivered, ${result.events} events, the last after ${(result.lastMs / hours(1)).toFixed(1)} h; ` +
    `${((performance.now() - startedAt) / 1000).toFixed(0)} s, ${((user + system) / 1e6).toFixed(0)} s of CPU`,
)
for (const violation of result.violations) console.log(`VIOLATION ${violation}`)
process.exit(result.violations.length > 0 ? 1 : 0)
