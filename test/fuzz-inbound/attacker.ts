/** @module Runs one attack in a process of its own, so that its memory and time do not distort the measurement. */
import { seededRandom } from '#test/support/random.ts'
import { attacks } from './attacks.ts'

const [index = '0', port = '0', seed = '1'] = process.argv.slice(2)
// The connection can end at any moment; that is not an error here.
process.on('uncaughtException', () => {})
await attacks[Number(index)]?.run(Number(port), seededRandom(Number(seed) + Number(index)))
process.exit(0)
