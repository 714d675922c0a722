/**
 * @module Runs one attack in its own process. Arguments: the id of the attack, its duration in seconds and its context
 * as JSON. Sends its parent a message when the attack begins, and prints the number of each reply as JSON at the end.
 * Exit code 1 if the attack could not start.
 */
import { writeSync } from 'node:fs'
import { seededRandom } from '#test/support/random.ts'
import { type AttackContext, attacks } from './attacks.ts'

const [id, seconds = '5', context = '{}'] = process.argv.slice(2)
const replies = new Map<string, number>()
const end = (): never => {
  writeSync(1, JSON.stringify([...replies].sort()))
  process.exit(0)
}
process.on('SIGTERM', end)
// Connections may end at any moment; that is not an error here.
process.on('uncaughtException', () => undefined)
process.on('unhandledRejection', () => undefined)
const signal = AbortSignal.timeout(Number(seconds) * 1000)
const parsedContext = JSON.parse(context) as Omit<AttackContext, 'random' | 'replies' | 'signal'>
process.send?.('attacking')
await attacks
  .find((attack) => attack.id === id)
  ?.run({ ...parsedContext, random: seededRandom(1), replies, signal })
  .catch((error: unknown) => {
    if (signal.aborted) return
    console.error(`attack ${id} could not start: ${String(error)}`)
    process.exit(1)
  })
end()
