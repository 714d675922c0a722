/** @module Runs one attack in a process of its own: its arguments are the attack's id, the seconds that it has, and its context as JSON. */
import { seededRandom } from '../kill/random.ts'
import { type AttackContext, attacks } from './attacks.ts'

const [id, seconds = '5', context = '{}'] = process.argv.slice(2)
// The end of a connection can come at any moment; none of them is an error here.
process.on('uncaughtException', () => undefined)
process.on('unhandledRejection', () => undefined)
const signal = AbortSignal.timeout(Number(seconds) * 1000)
const given = JSON.parse(context) as Omit<AttackContext, 'random' | 'signal'>
await attacks
  .find((attack) => attack.id === id)
  ?.run({ ...given, random: seededRandom(1), signal })
  .catch((error: unknown) => {
    if (!signal.aborted) console.error(`attack ${id} ended early: ${String(error)}`)
  })
process.exit(0)
