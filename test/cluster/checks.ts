/** @module What must hold after each round of the cluster test, on the node that leads now. */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { toEventCode } from '#features/core/events/record.ts'
import type { Arrival } from '#test/kill/endpoint.ts'
import type { SubmittedMessage } from '#test/kill/inbound-clients.ts'
import type { Transaction } from '#test/kill/sink.ts'
import { countOpen } from '#test/kill/stored-mail.ts'
import type { ClusterNode } from './node.ts'
import type { Ledger } from './traffic.ts'

/** States up to this one have recipients to be enqueued. */
const LAST_OPEN_BROADCAST_STATE = 5
const API_CLIENTS = 8

// Closing a database finalises the statements of this cache only, and one that is open would see files that a node, when it
// leads no longer, has replaced.
Database.MAX_QUERY_CACHE_SIZE = 1000

/** Opens the database of a running leader, read-only beside it. */
export function openBooks(node: ClusterNode): Database {
  const db = new Database(join(node.dataDir, 'tassis.db'), { readonly: true })
  db.run('PRAGMA busy_timeout = 5000')
  return db
}

const count = (db: Database, query: string, ...values: number[]): number =>
  db.query<{ n: number }, number[]>(query).get(...values)?.n ?? 0

/** Lists what is still to be done, in words; nothing when everything is final. */
export function listOpenWork(db: Database, now: number): string[] {
  const open = {
    recipients: countOpen(db, now),
    broadcasts: count(db, 'SELECT count(*) AS n FROM broadcasts WHERE state <= ?', LAST_OPEN_BROADCAST_STATE),
    'received messages': count(db, 'SELECT count(*) AS n FROM inbound_receipts'),
    'webhook deliveries': count(db, 'SELECT count(*) AS n FROM webhook_deliveries WHERE next_at IS NOT NULL'),
    'events before a webhook': count(
      db,
      'SELECT count(*) AS n FROM events JOIN webhooks ON webhooks.account_id = events.account_id WHERE seq > cursor_seq',
    ),
  }
  return Object.entries(open).flatMap(([what, n]) => (n > 0 ? [`${n} ${what}`] : []))
}

/** Recipients that may be uncertain: those whose outcome the nodes that lost the lead may not have stored. */
export const listExcused = (
  transactions: readonly Transaction[],
  addresses: ReadonlySet<string>,
  answeredSinceMs: number,
): string[] =>
  transactions
    .filter(
      ({ session, answeredAtMs = Number.POSITIVE_INFINITY }) =>
        addresses.has(session.remoteAddress?.replace('::ffff:', '') ?? '') && answeredAtMs >= answeredSinceMs,
    )
    .map(({ recipient }) => recipient)

/** Compares what is stored of each message from outside with the reply to it. */
export function judgeInbound(db: Database, submitted: Iterable<SubmittedMessage>): { broken: string[]; lost: number } {
  const stored = new Map(
    db
      .query<{ id: string; n: number; events: number }, []>(
        'SELECT message_id AS id, count(*) AS n, count(event_seq) AS events FROM inbound_emails GROUP BY 1',
      )
      .all()
      .map((row) => [row.id, row]),
  )
  const broken: string[] = []
  let lost = 0
  let total = 0
  for (const { id, outcome, isWhole } of submitted) {
    const { n = 0, events = 0 } = stored.get(`<${id}@hander.test>`) ?? {}
    total += n
    if (outcome === 'accepted' && n === 0) lost++
    if (outcome === 'accepted' && n !== 1) broken.push(`${id} got a 250 and is stored ${n} times`)
    if (outcome !== 'accepted' && n > (isWhole ? 1 : 0)) broken.push(`${id} got no 250 and is stored ${n} times`)
    if (events !== n) broken.push(`${id} is stored ${n} times with ${events} events`)
  }
  const events = count(db, 'SELECT count(*) AS n FROM events WHERE type = ?', toEventCode('email.inbound'))
  if (events !== total) broken.push(`${events} events for ${total} messages from outside`)
  return { broken, lost }
}

/** Asks the API of the leader for every email of these ids that was accepted. */
export async function judgeApi(url: string, ledger: Ledger, ids: readonly string[]): Promise<string[]> {
  const broken: string[] = []
  const wanted = ids.flatMap((id) => {
    const entry = ledger.sent.get(id)
    return entry?.outcome === 'accepted' && entry.emailId !== undefined ? [entry.emailId] : []
  })
  const ask = async (): Promise<void> => {
    for (let id = wanted.pop(); id !== undefined; id = wanted.pop()) {
      const answer = await fetch(`${url}/v1/emails/${id}`, { headers: { authorization: `Bearer ${ledger.key}` } })
      await answer.arrayBuffer()
      if (!answer.ok) broken.push(`email ${id} was accepted, and the new leader says ${answer.status}`)
    }
  }
  await Promise.all(Array.from({ length: API_CLIENTS }, ask))
  return broken
}

/** A time in which the lead may have been lost, on the monotonic clock. */
export interface Disturbance {
  readonly fromMs: number
  readonly toMs: number
}

/** Finds attempts of webhooks that were repeated although their outcome must have been stored. */
export function findRepeats(
  arrivals: readonly Arrival[],
  disturbances: readonly Disturbance[],
  storedWithinMs: number,
): string[] {
  const lastOf = new Map<string, Arrival>()
  const broken: string[] = []
  for (const arrival of arrivals) {
    const pair = `${arrival.eventId} ${arrival.attempt}`
    const before = lastOf.get(pair)
    lastOf.set(pair, arrival)
    if (!before) continue
    const isExplained = disturbances.some(
      ({ fromMs, toMs }) => before.atMs <= toMs && (before.answeredAtMs ?? toMs) >= fromMs - storedWithinMs,
    )
    if (!isExplained) broken.push(`${arrival.event} ${arrival.eventId}, attempt ${arrival.attempt}, was repeated`)
  }
  return broken
}
