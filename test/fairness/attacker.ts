/**
 * @module Runs one attack in a process of its own: its arguments are the attack's id, the seconds that it has, and its context as JSON. Prints at the end
 * how often each reply came, as JSON. Exit code 1: the attack could not begin.
 */
import { writeSync } from 'node:fs'
import { seededRandom } from '../kill/random.ts'
import { type AttackContext, attacks } from './attacks.ts'

const [id, seconds = '5', context = '{}'] = process.argv.slice(2)
const replies = new Map<string, number>()
const end = (): never => {
  writeSync(1, JSON.stringify([...replies].sort()))
  process.exit(0)
}
process.on('SIGTERM', end)
// The end of a connection can come at any moment; none of them is an error here.
process.on('uncaughtException', () => undefined)
process.on('unhandledRejection', () => undefined)
const signal = AbortSignal.timeout(Number(seconds) * 1000)
const given = JSON.parse(context) as Omit<AttackContext, 'random' | 'replies' | 'signal'>
await attacks
  .find((attack) => attack.id === id)
  ?.run({ ...given, random: seededRandom(1), replies, signal })
  .catch((error: unknown) => {
    if (signal.aborted) return
    console.error(`attack ${id} could not begin: ${String(error)}`)
    process.exit(1)
  })
end()
