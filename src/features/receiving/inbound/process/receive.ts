/** @module Stores a message of the listener: its raw form and queue entry are on disk before the reply may be 250. */
import type { App } from '#features/core/app/app.ts'
import { dropContentOnFailure } from '#features/core/content-gc/garbage.ts'
import type { CompleteMessage } from '#features/receiving/received/message.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { insufficientStorage } from '#platform/errors.ts'
import type { Millis } from '#platform/time/clock.ts'

const sql = prepareStatements((db) => ({
  insert: db.prepare(
    `INSERT INTO inbound_receipts (mail_from, destinations, source_ip, helo, tls, raw_ref, size_bytes, received_at, attempts)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ),
}))

/** A message whose raw form is stored. */
interface StoredRawMessage extends Omit<CompleteMessage, 'content'> {
  readonly rawRef: number
  readonly receivedAt: Millis
}

/**
 * Adds a message to the queue.
 * @param attempts as in the queue entry
 */
export function enqueue(app: App, tx: Tx, message: StoredRawMessage, attempts = 0): void {
  const { mailFrom, destinations, sourceIp, helo, tls, rawRef, sizeBytes, receivedAt } = message
  sql(tx.db).insert.run(
    mailFrom,
    JSON.stringify(destinations),
    sourceIp,
    helo,
    tls,
    rawRef,
    sizeBytes,
    receivedAt,
    attempts,
  )
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
