/**
 * @module The queue of accepted messages. On disk: one entry per message, written with its raw form before the reply
 * may be 250, and deleted by the transaction that applies the message. In memory: the order in which entries are
 * processed, round-robin by source network and destination account, so that mail of one sender, or for one account,
 * delays only itself. Large messages have their own queue.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dropContentOnFailure } from '#features/core/content-gc/garbage.ts'
import type { CompleteMessage, Destination, Envelope } from '#features/receiving/received/message.ts'
import type { ContentRef } from '#platform/content/store.ts'
import { insertSql, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { insufficientStorage } from '#platform/errors.ts'
import { networksOf } from '#platform/net/network.ts'
import { FairQueue, type Owner } from '#platform/queue/fair-queue.ts'
import { KiB, type Millis } from '#platform/units.ts'
import type { inboundReceipts } from '../tables.ts'

export type QueueEntry = Readonly<typeof inboundReceipts.$inferSelect>

export type QueueEntrySummary = Pick<QueueEntry, 'id' | 'destinations' | 'sourceIp' | 'sizeBytes' | 'attempts'>

const SELECT = `SELECT id, mail_from AS mailFrom, destinations, source_ip AS sourceIp, helo, tls, raw_ref AS rawRef, size_bytes AS sizeBytes, attempts,
  received_at AS receivedAt FROM inbound_receipts`

const sql = prepareStatements((db) => ({
  after: db.prepare<QueueEntrySummary, [number, number]>(
    `SELECT id, destinations, source_ip AS sourceIp, size_bytes AS sizeBytes, attempts
     FROM inbound_receipts WHERE id > ? ORDER BY id LIMIT ?`,
  ),
  byId: db.prepare<QueueEntry, [number]>(`${SELECT} WHERE id = ?`),
  setAttempts: db.prepare('UPDATE inbound_receipts SET attempts = ? WHERE id = ?'),
  end: db.prepare('DELETE FROM inbound_receipts WHERE id = ?'),
  page: db.prepare<QueueEntry, [number, number]>(`${SELECT} ORDER BY id LIMIT ? OFFSET ?`),
  waiting: db.prepare<{ n: number }, []>('SELECT COUNT(*) AS n FROM inbound_receipts'),
  newestId: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM inbound_receipts'),
  oldestId: db.prepare<{ id: number | null }, []>('SELECT min(id) AS id FROM inbound_receipts'),
  oldestRef: db.prepare<{ ref: ContentRef | null }, []>('SELECT min(raw_ref) AS ref FROM inbound_receipts'),
  oldest: db.prepare<{ receivedAt: Millis }, []>(
    'SELECT received_at AS receivedAt FROM inbound_receipts ORDER BY id LIMIT 1',
  ),
  insert: db.prepare<unknown, [Omit<QueueEntry, 'id'>]>(
    insertSql('inbound_receipts', 'mailFrom destinations sourceIp helo tls rawRef sizeBytes receivedAt attempts'),
  ),
}))

export const countQueueEntries = (db: Database): number => sql(db).waiting.get()?.n ?? 0

export const findOldestEntryTime = (db: Database): Millis | undefined => sql(db).oldest.get()?.receivedAt

/** Id of the newest waiting message; 0: none. */
export const findNewestQueueEntryId = (db: Database): number => sql(db).newestId.get()?.id ?? 0

export const hasQueueEntryUpTo = (db: Database, lastId: number): boolean =>
  (sql(db).oldestId.get()?.id ?? Number.POSITIVE_INFINITY) <= lastId

export const findOldestWaitingRef = (db: Database): ContentRef | undefined => sql(db).oldestRef.get()?.ref ?? undefined

export const listQueueEntriesAfter = (db: Database, id: number, limit: number): QueueEntrySummary[] =>
  sql(db).after.all(id, limit)

/** A page of the entries, oldest first: they leave at the front, so pages are found by their offset. */
export const listQueueEntries = (db: Database, { limit, offset }: RowWindow): QueueEntry[] =>
  sql(db).page.all(limit, offset)

export const findQueueEntry = (db: Database, id: number): QueueEntry | undefined => sql(db).byId.get(id) ?? undefined

/**
 * Number of attempts of a message that was in progress with others when the process died: it may be the cause, so it is
 * next processed alone. Every attempt alone adds one; the increase persists only if the process dies.
 */
const ATTEMPTED_WITH_OTHERS = 1

/** Of a message that the operator retries: it is processed alone, and given up if the process dies once. */
export const LAST_ATTEMPT_COUNT = ATTEMPTED_WITH_OTHERS + 2

type AttemptCount = Pick<QueueEntry, 'id' | 'attempts'>

/** Whether the process died with the message in progress: then it is processed alone. */
export const isSuspect = ({ attempts }: Pick<QueueEntry, 'attempts'>): boolean => attempts >= ATTEMPTED_WITH_OTHERS

/** How often the process died with only this message in progress. */
export const countDeathsAlone = ({ attempts }: Pick<QueueEntry, 'attempts'>): number =>
  Math.max(0, attempts - ATTEMPTED_WITH_OTHERS)

/** Records that a message is in progress, among others or alone as a suspect, in case the process dies. */
export function beginAttempt(tx: Tx, { id, attempts }: AttemptCount): void {
  sql(tx.db).setAttempts.run(attempts + 1, id)
}

/** Undoes `beginAttempt` with the entry before it: the attempt ended without the death of the process. */
export function uncountAttempt(tx: Tx, { id, attempts }: AttemptCount): void {
  sql(tx.db).setAttempts.run(attempts, id)
}

/** Deletes the entry of a processed message; throws when there is none. */
export function deleteQueueEntry(tx: Tx, entryId: number): void {
  if (sql(tx.db).end.run(entryId).changes !== 1) throw new Error(`queue entry ${entryId} does not exist`)
}

/** Adds a message to the queue. */
export function enqueue(app: App, tx: Tx, message: Envelope & Pick<CompleteMessage, 'destinations'>, attempts = 0) {
  sql(tx.db).insert.run({ ...message, destinations: JSON.stringify(message.destinations), attempts })
  tx.afterCommit(() => app.mailReceived.emit())
}

/**
 * Resolves when the message and its queue entry are on disk. Rejects with 507 when storage is full, otherwise with the
 * storage error; then the message is not processed.
 */
export async function receiveMessage(app: App, message: CompleteMessage): Promise<void> {
  if (await app.disk.isLow()) throw insufficientStorage()
  const now = app.clock.now()
  const { content, sizeBytes } = message
  const rawRef =
    content.kind === 'bytes'
      ? (await app.rawMail.put([content.bytes], now))[0]
      : await app.rawMail.adopt({ path: content.path, hash: content.hash, sizeBytes }, now)
  if (rawRef === undefined) throw new Error('a raw message was not stored')
  const write = (tx: Tx): void => enqueue(app, tx, { ...message, rawRef, receivedAt: app.eventTime() })
  await dropContentOnFailure(app, { rawMail: [rawRef] }, () => app.commit.write(write))
}

/** Messages above this size are large: small ones never wait for them. */
export const LARGE_MESSAGE_BYTES = 512 * KiB

export const isLarge = ({ sizeBytes }: { readonly sizeBytes: number }): boolean => sizeBytes > LARGE_MESSAGE_BYTES

/** Estimated cost of a message until it is parsed; the actual time is charged afterwards. */
const BYTES_PER_MS = 64 * KiB

export interface QueuedMessage {
  readonly id: number
  readonly sizeBytes: number
  /** As in the queue entry when it was read. */
  readonly attempts: number
  /** Owner in the round-robin: network and account. */
  readonly owner: string
}

export class ProcessingQueue {
  readonly #small = createQueue()
  readonly #large = createQueue()

  get size(): number {
    return this.#small.size + this.#large.size
  }

  push(message: QueuedMessage): void {
    this.#select(message).push(message.owner, message, 1 + message.sizeBytes / BYTES_PER_MS)
  }

  /** @param mayBegin returns false for owners that cannot be served now */
  shift(size: 'small' | 'large', mayBegin: (owner: Owner) => boolean): QueuedMessage | undefined {
    return (size === 'large' ? this.#large : this.#small).shift(mayBegin)?.item
  }

  charge(message: QueuedMessage, parseMs: number): void {
    this.#select(message).charge(message.owner, parseMs)
  }

  #select(message: QueuedMessage): FairQueue<QueuedMessage> {
    return isLarge(message) ? this.#large : this.#small
  }
}

const createQueue = (): FairQueue<QueuedMessage> => new FairQueue({ sharesOf: (owner) => String(owner).split(' ') })

/** The largest network that the customer with this address may have. */
export const sourceNetworkOf = (sourceIp: string): string => networksOf(sourceIp).at(-1) ?? sourceIp

/** The owner of a message: the largest network that its source may have, and its destination account. */
export const ownerOf = ({ sourceIp, destinations }: Pick<QueueEntrySummary, 'sourceIp' | 'destinations'>): string =>
  `${sourceNetworkOf(sourceIp)} ${accountOf(JSON.parse(destinations) as Destination[])}`

export const networkOfOwner = (owner: Owner): string => String(owner).split(' ')[0] ?? ''

/** Mail for several accounts has none as owner: its sender would use up the turns of all of them. */
function accountOf(destinations: readonly Destination[]): string {
  const accounts = new Set(destinations.map((to) => (to.kind === 'domain' ? to.accountId : to.kind)))
  const [account] = accounts
  return accounts.size === 1 ? `account:${account}` : 'several'
}
