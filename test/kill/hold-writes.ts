/**
 * @module Preloaded into a service that a test kills: no write to the database of the service begins while HOLD_QUERY,
 * a query for `n`, returns at least the number that the file HOLD_FILE had at the start. So the service goes on beyond
 * the moment of the kill, but not to the end of its work, however late the kill comes.
 */
import { readFileSync } from 'node:fs'
import { Committer } from '#platform/db/commit.ts'

const { HOLD_QUERY = '', HOLD_FILE = '' } = process.env
const limit = Number(readFileSync(HOLD_FILE, 'utf8'))
const { write } = Committer.prototype

Committer.prototype.write = async function (run, options) {
  const isHeld =
    this.db.filename.endsWith('tassis.db') &&
    (this.db.query<{ n: number | null }, []>(HOLD_QUERY).get()?.n ?? 0) >= limit
  if (isHeld) await new Promise(() => undefined)
  return write.call(this, run, options) as never
}
