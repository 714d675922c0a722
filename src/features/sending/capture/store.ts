/**
 * @module Stores captured messages in `capture.db`, with limits on their age and total bytes. The file is separate, so
 * that it may be deleted while the service is stopped. Above the byte limit, the owner who uses most loses the oldest
 * message. One row per recipient, because each recipient is a transaction of its own. Knows nothing of SMTP, accounts
 * or pages.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { decompress } from '#platform/content/frames.ts'
import { Committer, type CommitterOptions } from '#platform/db/commit.ts'
import { insertSql, openDatabase, prepareStatements, setSql, type Tx } from '#platform/db/open.ts'
import { Counts } from '#platform/queue/counts.ts'
import type { Clock } from '#platform/time/clock.ts'
import { hours, KiB, MiB, type Millis } from '#platform/units.ts'
import { addToInbox, INBOX_SCHEMA } from './inbox.ts'

/** A message as submitted for one recipient. */
export interface NewCapture {
  readonly recipientId: number
  readonly emailId: number
  /** The owner whose share of the stored bytes the message uses. */
  readonly ownerId: number
  /** The account whose inbox lists the message; undefined: none. */
  readonly accountId?: number | undefined
  readonly mailFrom: string
  readonly rcptTo: string
  /** The octets of the message without dot-stuffing. */
  readonly raw: Uint8Array
}

/** The capture of one recipient without its message. */
export interface CaptureSummary {
  readonly recipientId: number
  readonly emailId: number
  readonly mailFrom: string
  readonly rcptTo: string
  readonly receivedAt: Millis
  readonly sizeBytes: number
  /** The header fields, limited to the first 16 KiB. */
  readonly head: Uint8Array
}

/** The capture of one recipient with its message. */
export interface CapturedMessage extends CaptureSummary {
  readonly raw: Uint8Array
}

export interface CaptureStoreOptions {
  readonly dataDir: string
  readonly clock: Pick<Clock, 'now'>
  /** Default MAX_BYTES. */
  readonly maxBytes?: number
  /** Default MAX_AGE_MS. */
  readonly maxAgeMs?: number
  readonly committerOptions: CommitterOptions
}

/** Limit on the stored (compressed) bytes of all messages. A message that alone exceeds it is not retained. */
const MAX_BYTES = 64 * MiB
const MAX_AGE_MS = hours(72)
const MAX_HEAD_BYTES = 16 * KiB
/** Larger messages are compressed in the thread pool. */
const MAX_SYNC_COMPRESSED_BYTES = 64 * KiB
const ZSTD_LEVEL = 1
/** What one write deletes at most, so that it does not take long. */
const MAX_REMOVED_PER_BATCH = 200

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS captures (
    recipient_id INTEGER PRIMARY KEY, email_id INTEGER NOT NULL, mail_from TEXT NOT NULL, rcpt_to TEXT NOT NULL, received_at INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL, stored_bytes INTEGER NOT NULL, head BLOB NOT NULL, raw BLOB NOT NULL, owner_id INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS captures_email ON captures (email_id);
  CREATE INDEX IF NOT EXISTS captures_received ON captures (received_at);
  CREATE INDEX IF NOT EXISTS captures_owner ON captures (owner_id, received_at);
`

const SUMMARY_COLUMNS =
  'recipient_id AS recipientId, email_id AS emailId, mail_from AS mailFrom, rcpt_to AS rcptTo, received_at AS receivedAt, size_bytes AS sizeBytes, head'

interface StoredSize {
  readonly ownerId: number
  readonly storedBytes: number
}

interface OldCapture extends StoredSize {
  readonly recipientId: number
  readonly receivedAt: Millis
}

const SELECT_OLD =
  'SELECT recipient_id AS recipientId, received_at AS receivedAt, owner_id AS ownerId, stored_bytes AS storedBytes FROM captures'

const FIELDS = 'recipientId emailId ownerId mailFrom rcptTo receivedAt sizeBytes storedBytes head raw'

const sql = prepareStatements((db) => ({
  save: db.prepare(`${insertSql('captures', FIELDS)} ON CONFLICT (recipient_id) DO UPDATE SET ${setSql(FIELDS)}`),
  stored: db.prepare<StoredSize, [number]>(
    'SELECT owner_id AS ownerId, stored_bytes AS storedBytes FROM captures WHERE recipient_id = ?',
  ),
  byOwner: db.prepare<StoredSize, []>(
    'SELECT owner_id AS ownerId, sum(stored_bytes) AS storedBytes FROM captures GROUP BY owner_id',
  ),
  ofEmail: db.prepare<{ recipientId: number; rcptTo: string }, [number]>(
    'SELECT recipient_id AS recipientId, rcpt_to AS rcptTo FROM captures WHERE email_id = ? ORDER BY recipient_id',
  ),
  message: db.prepare<CapturedMessage, [number]>(`SELECT ${SUMMARY_COLUMNS}, raw FROM captures WHERE recipient_id = ?`),
  newest: db.prepare<CaptureSummary, [number]>(
    `SELECT ${SUMMARY_COLUMNS} FROM captures ORDER BY received_at DESC, recipient_id DESC LIMIT ?`,
  ),
  oldest: db.prepare<OldCapture, [number]>(`${SELECT_OLD} ORDER BY received_at, recipient_id LIMIT ?`),
  oldestOf: db.prepare<OldCapture, [number]>(
    `${SELECT_OLD} WHERE owner_id = ? ORDER BY received_at, recipient_id LIMIT 1`,
  ),
  remove: db.prepare('DELETE FROM captures WHERE recipient_id = ?'),
  removeOfEmail: db.prepare<StoredSize, [number]>(
    'DELETE FROM captures WHERE email_id = ? RETURNING owner_id AS ownerId, stored_bytes AS storedBytes',
  ),
}))

/** The store in the data directory, created if needed. Only the process that owns the directory may open it. */
export class CaptureStore {
  /** For tests that fill it. */
  readonly db: Database
  readonly path: string
  /** For maintenance of the file. */
  readonly committer: Committer
  readonly #options: Required<CaptureStoreOptions>
  /** Sums of the committed `stored_bytes` by owner. */
  readonly #bytes = new Counts()
  /** The last purge requested; never rejects. */
  #lastPurge: Promise<void> = Promise.resolve()

  constructor(options: CaptureStoreOptions) {
    this.path = join(options.dataDir, 'capture.db')
    this.#options = { maxBytes: MAX_BYTES, maxAgeMs: MAX_AGE_MS, ...options }
    this.db = openDatabase(this.path)
    try {
      this.db.run(SCHEMA)
      this.db.run(INBOX_SCHEMA)
      for (const { ownerId, storedBytes } of sql(this.db).byOwner.all()) this.#bytes.add(ownerId, storedBytes)
      this.committer = new Committer(this.db, this.path, options.committerOptions)
    } catch (error) {
      this.db.close()
      throw error
    }
  }

  /**
   * Stores a message; resolves when it is on disk. A message submitted again for the same recipient replaces the first.
   * Rejects with AppError 507 `insufficient_storage` if the disk is full or only the reserve is left: clients choose
   * how large captures are, and delivery is retried.
   */
  async save({ recipientId, emailId, ownerId, accountId, mailFrom, rcptTo, raw }: NewCapture): Promise<void> {
    const stored = await compress(raw)
    const head = readHead(raw)
    await this.committer.write((tx) => {
      const replaced = sql(tx.db).stored.get(recipientId)
      const receivedAt = this.#options.clock.now()
      const facts = { emailId, rcptTo, receivedAt, sizeBytes: raw.length, head }
      sql(tx.db).save.run({ ...facts, recipientId, ownerId, mailFrom, storedBytes: stored.length, raw: stored })
      if (accountId !== undefined) addToInbox(tx.db, { ...facts, accountId })
      tx.afterCommit(() => {
        if (replaced) this.#bytes.add(replaced.ownerId, -replaced.storedBytes)
        this.#bytes.add(ownerId, stored.length)
      })
    })
    // Not awaited: if the purge fails, the next one repeats its work.
    if (this.#bytes.total > this.#options.maxBytes) void this.purge().catch(() => undefined)
  }

  /** The envelope recipients of a captured email, in its order; empty if it is not captured. */
  recipients(emailId: number): string[] {
    return sql(this.db)
      .ofEmail.all(emailId)
      .map(({ rcptTo }) => rcptTo)
  }

  /** The message of the first recipient of an email; undefined if it is not captured. Throws if it is corrupt. */
  firstOf(emailId: number): CapturedMessage | undefined {
    const [first] = sql(this.db).ofEmail.all(emailId)
    return first && this.get(first.recipientId)
  }

  /**
   * The capture of an email; undefined if none exists or all were deleted. What differs between recipients is that of the
   * first; `raw` is the message as `decodeRaw` returns it.
   */
  find(emailId: number) {
    const first = this.firstOf(emailId)
    if (!first) return undefined
    const { mailFrom, receivedAt, sizeBytes, raw } = first
    return { mailFrom, rcptTo: this.recipients(emailId), receivedAt, sizeBytes, raw: decodeRaw(raw) }
  }

  /** The capture of one recipient. Throws MissingPart if it is corrupt. */
  get(recipientId: number): CapturedMessage | undefined {
    const row = sql(this.db).message.get(recipientId)
    return row ? { ...row, raw: decompress(row.raw as Uint8Array<ArrayBuffer>) } : undefined
  }

  /** The captures of all accounts, newest first. */
  list({ limit }: { limit: number }): CaptureSummary[] {
    return sql(this.db).newest.all(limit)
  }

  /** Deletes the captures of emails; resolves with the number of deleted captures once the deletion is on disk. */
  async remove(emailIds: readonly number[]): Promise<number> {
    // Avoids the write, because most emails have no capture.
    if (!emailIds.some((id) => sql(this.db).ofEmail.get(id) !== null)) return 0
    return this.committer.writeFromReserve((tx) => {
      const removed = emailIds.flatMap((id) => sql(tx.db).removeOfEmail.all(id))
      tx.afterCommit(() => {
        for (const { ownerId, storedBytes } of removed) this.#bytes.add(ownerId, -storedBytes)
      })
      return removed.length
    })
  }

  /**
   * Deletes messages that are too old. Then, until the byte limit is met, deletes the oldest message of the owner who
   * uses most. Resolves when the deletions are on disk.
   */
  purge(): Promise<void> {
    const done = this.#lastPurge.then(() => this.#purgeNow())
    this.#lastPurge = done.catch(() => undefined)
    return done
  }

  /** Waits for pending writes and closes the file. */
  async close(): Promise<void> {
    await this.#lastPurge
    await this.committer.close()
  }

  async #purgeNow(): Promise<void> {
    while (this.#isPurgeDue()) await this.committer.writeFromReserve((tx) => this.#removeBatch(tx))
  }

  #isPurgeDue(): boolean {
    if (this.#bytes.total > this.#options.maxBytes) return true
    const oldest = sql(this.db).oldest.get(1)
    return oldest !== null && this.#isExpired(oldest.receivedAt)
  }

  #isExpired(receivedAt: Millis): boolean {
    return receivedAt < this.#options.clock.now() - this.#options.maxAgeMs
  }

  #removeBatch(tx: Tx): void {
    const removed: StoredSize[] = []
    const bytes = new Map(this.#bytes)
    let leftBytes = this.#bytes.total
    const countRemoved = ({ ownerId, storedBytes }: StoredSize): void => {
      removed.push({ ownerId, storedBytes })
      bytes.set(ownerId, (bytes.get(ownerId) ?? 0) - storedBytes)
      leftBytes -= storedBytes
    }
    const remove = (row: OldCapture): void => {
      sql(tx.db).remove.run(row.recipientId)
      countRemoved(row)
    }
    sql(tx.db)
      .oldest.all(MAX_REMOVED_PER_BATCH)
      .filter(({ receivedAt }) => this.#isExpired(receivedAt))
      .forEach(remove)
    while (leftBytes > this.#options.maxBytes && removed.length < MAX_REMOVED_PER_BATCH) {
      const [ownerId, storedBytes] = [...bytes].reduce((most, each) => (each[1] > most[1] ? each : most))
      const oldest = sql(tx.db).oldestOf.get(ownerId)
      if (oldest) remove(oldest)
      // Another process has deleted the owner's messages: correct the counts.
      else countRemoved({ ownerId, storedBytes })
    }
    tx.afterCommit(() => {
      for (const { ownerId, storedBytes } of removed) this.#bytes.add(ownerId, -storedBytes)
    })
  }
}

/**
 * Decodes a message to text without losing an octet. Composed mail is 7-bit, or UTF-8 with SMTPUTF8. A message that is
 * not valid UTF-8 is decoded as ISO 8859-1, one character per octet; encoded as UTF-8, its text then has more than
 * `size_bytes` octets.
 */
export function decodeRaw(raw: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(raw)
  } catch {
    return Buffer.from(raw.buffer, raw.byteOffset, raw.length).toString('latin1')
  }
}

const compress = (raw: Uint8Array): Uint8Array | Promise<Uint8Array> =>
  raw.length > MAX_SYNC_COMPRESSED_BYTES
    ? Bun.zstdCompress(raw, { level: ZSTD_LEVEL })
    : Bun.zstdCompressSync(raw, { level: ZSTD_LEVEL })

function readHead(raw: Uint8Array): Uint8Array {
  const start = Buffer.from(raw.buffer, raw.byteOffset, Math.min(raw.length, MAX_HEAD_BYTES))
  const end = start.indexOf('\r\n\r\n')
  return end === -1 ? start : start.subarray(0, end + 2)
}
