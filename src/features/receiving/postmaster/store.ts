/**
 * @module Stores, lists and deletes mail for the operator. Anyone can send such mail, so its amount is limited per
 * source and per kind. The only writer of `operator_mail`. The raw messages are in the store of raw messages and
 * expire at the same age as the rows.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { type AuditActor, auditChange, CLI_OPERATOR } from '#features/core/audit-logs/audit.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import type { Envelope } from '#features/receiving/received/message.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { insertSql, newestFirst, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { newUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import { networksOf } from '#platform/net/network.ts'
import { days, KiB, MiB } from '#platform/units.ts'
import { readPrefix } from '#protocols/mime/source.ts'
import type { operatorMail } from './tables.ts'

/** What a message is about: its address, or what it was classified as. */
export const OPERATOR_MAIL_KINDS = [
  'postmaster',
  'abuse',
  'bounce',
  'complaint',
  'unsubscribe',
  'report',
  'other',
] as const
export type OperatorMailKind = (typeof OPERATOR_MAIL_KINDS)[number]

export interface NewOperatorMail {
  readonly kind: OperatorMailKind
  readonly envelope: Envelope
  readonly rcptTo: readonly string[]
  /** From as in the header; null: no From. */
  readonly from: string | null
  readonly subject: string
  readonly reason: string
}

export interface OperatorMail
  extends Readonly<Omit<typeof operatorMail.$inferSelect, 'fromHeader' | 'network' | 'rcptTo'>> {
  readonly rcptTo: readonly string[]
  readonly from: string | null
}

interface Row extends Omit<OperatorMail, 'rcptTo'> {
  readonly rcptTo: string
}

interface DeletedRow {
  readonly rawRef: number
}

const COLUMNS = `id, uuid, kind, mail_from AS mailFrom, rcpt_to AS rcptTo, from_header AS "from", subject, reason, source_ip AS sourceIp, raw_ref AS rawRef,
  size_bytes AS sizeBytes, created_at AS createdAt`

const sql = prepareStatements((db) => ({
  insert: db.prepare<unknown, [Omit<typeof operatorMail.$inferSelect, 'id'>]>(
    insertSql(
      'operator_mail',
      'uuid kind mailFrom rcptTo fromHeader subject reason sourceIp network rawRef sizeBytes createdAt',
    ),
  ),
  ofNetwork: db.prepare<{ n: number; bytes: number }, [string, number]>(
    'SELECT COUNT(*) AS n, total(size_bytes) AS bytes FROM operator_mail WHERE network = ? AND created_at > ?',
  ),
  list: newestFirst<Row, [string | null]>(
    db,
    `SELECT ${COLUMNS} FROM operator_mail`,
    'operator_mail WHERE kind = coalesce(?, kind)',
  ),
  byUuid: db.prepare<Row, [UuidBytes]>(`SELECT ${COLUMNS} FROM operator_mail WHERE uuid = ?`),
  deleteOld: db.prepare<DeletedRow, [number, number]>(
    'DELETE FROM operator_mail WHERE id IN (SELECT id FROM operator_mail WHERE created_at < ? ORDER BY created_at LIMIT ?) RETURNING raw_ref AS rawRef',
  ),
  newestBeyond: db.prepare<{ id: number | null }, [string, number, number]>(
    `SELECT max(id) AS id FROM (SELECT id, count(*) OVER newer AS n, sum(size_bytes) OVER newer AS bytes FROM operator_mail
     WHERE kind = ? WINDOW newer AS (ORDER BY id DESC)) WHERE n > ? OR bytes > ?`,
  ),
  deleteUpTo: db.prepare<DeletedRow, [string, number, number]>(
    'DELETE FROM operator_mail WHERE id IN (SELECT id FROM operator_mail WHERE kind = ? AND id <= ? ORDER BY id LIMIT ?) RETURNING raw_ref AS rawRef',
  ),
  after: db.prepare<Row, [number, number]>(`SELECT ${COLUMNS} FROM operator_mail WHERE id > ? ORDER BY id LIMIT ?`),
  delete: db.prepare<DeletedRow, [number]>('DELETE FROM operator_mail WHERE id = ? RETURNING raw_ref AS rawRef'),
}))

/** A remote client's header can have a mebibyte; a list shows one line. */
const MAX_FIELD_LENGTH = 500

const truncate = (text: string): string => text.slice(0, MAX_FIELD_LENGTH)

/** Limits of one source within a day, so that a flood does not bury other mail. */
const MAX_MESSAGES_OF_SOURCE_PER_DAY = 200
const MAX_BYTES_OF_SOURCE_PER_DAY = 64 * MiB

/** Stores a message for the operator in the caller's transaction, or drops it when its source exceeds a limit. */
export function storeOperatorMail(app: App, tx: Tx, mail: NewOperatorMail): void {
  const { envelope } = mail
  const network = networksOf(envelope.sourceIp).at(-1) ?? envelope.sourceIp
  const { n, bytes } = sql(tx.db).ofNetwork.get(network, envelope.receivedAt - days(1)) ?? { n: 0, bytes: 0 }
  if (n >= MAX_MESSAGES_OF_SOURCE_PER_DAY || bytes + envelope.sizeBytes > MAX_BYTES_OF_SOURCE_PER_DAY) {
    tx.afterCommit(() =>
      app.log.warn(
        { network },
        `operator mail dropped: its source has sent ${MAX_MESSAGES_OF_SOURCE_PER_DAY} messages or ${MAX_BYTES_OF_SOURCE_PER_DAY / MiB} MiB within a day`,
      ),
    )
    return
  }
  sql(tx.db).insert.run({
    ...envelope,
    uuid: newUuid(),
    kind: mail.kind,
    rcptTo: JSON.stringify(mail.rcptTo),
    fromHeader: mail.from === null ? null : truncate(mail.from),
    subject: truncate(mail.subject),
    reason: truncate(mail.reason),
    network,
    createdAt: envelope.receivedAt,
  })
}

const toOperatorMail = ({ rcptTo, ...row }: Row): OperatorMail => ({ ...row, rcptTo: JSON.parse(rcptTo) as string[] })

/** Messages, newest first, optionally of one kind, with the number of all. */
export function listOperatorMail(
  db: Database,
  { kind, ...window }: Partial<RowWindow> & { kind?: OperatorMailKind | undefined; limit: number },
) {
  const { rows, total } = sql(db).list({ offset: 0, ...window }, kind ?? null)
  return { mail: rows.map(toOperatorMail), total }
}

/** Throws 404 for an unknown id. */
export function findOperatorMail(db: Database, id: string): OperatorMail {
  const uuid = parseUuid(id)
  const row = uuid && sql(db).byUuid.get(uuid)
  if (!row) throw notFound('operator_mail_not_found', 'Message not found; `tassis mail list` lists all messages.')
  return toOperatorMail(row)
}

/** Deletes a message at the operator's request. Throws 404 for an unknown id. */
export const deleteOperatorMail = (app: App, id: string, actor: AuditActor = CLI_OPERATOR): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const mail = takeOperatorMail(tx, id)
    dropContent(app, tx, { rawMail: [mail.rawRef] })
    auditChange(app, tx, actor, 'operator_mail.deleted', mail.uuid)
  })

/** Deletes the row of a message; the caller now owns its raw content. Throws 404. */
export function takeOperatorMail(tx: Tx, id: string): OperatorMail {
  const mail = findOperatorMail(tx.db, id)
  sql(tx.db).delete.run(mail.id)
  return mail
}

/** Drops the references of deleted rows to raw messages; returns the number of rows. */
function dropMessages(app: Pick<App, 'contentDropped'>, tx: Tx, deleted: readonly DeletedRow[]): number {
  dropContent(app, tx, { rawMail: deleted.map(({ rawRef }) => rawRef) })
  return deleted.length
}

/** Limits for each kind. */
export const MAX_OPERATOR_MAIL = 10_000
export const MAX_OPERATOR_MAIL_BYTES = 512 * MiB
const BATCH_SIZE = 500

/**
 * Deletes messages older than `inboundRawDays`, and of each kind all but the newest MAX_OPERATOR_MAIL messages and
 * MAX_OPERATOR_MAIL_BYTES; returns their number. Called about hourly, never concurrently.
 */
export async function purgeOperatorMail(app: App): Promise<number> {
  const before = app.confirmedNow() - days(app.config.inboundRawDays)
  let removed = await deleteInBatches(app, (tx) => dropMessages(app, tx, sql(tx.db).deleteOld.all(before, BATCH_SIZE)))
  for (const kind of OPERATOR_MAIL_KINDS) {
    const beyond = sql(app.db).newestBeyond.get(kind, MAX_OPERATOR_MAIL, MAX_OPERATOR_MAIL_BYTES)?.id
    if (beyond)
      removed += await deleteInBatches(app, (tx) =>
        dropMessages(app, tx, sql(tx.db).deleteUpTo.all(kind, beyond, BATCH_SIZE)),
      )
  }
  return removed
}

async function deleteInBatches(app: App, remove: (tx: Tx) => number): Promise<number> {
  for (let removed = 0; ; ) {
    const count = await app.commit.writeFromReserve(remove)
    removed += count
    if (count < BATCH_SIZE) return removed
  }
}

/**
 * Erasure removes these. Mail written to the operator, as postmaster or about abuse, is the operator's own
 * correspondence and stays until it expires: no tenant may delete complaints about itself.
 */
const ERASED_KINDS: readonly OperatorMailKind[] = ['bounce', 'complaint', 'unsubscribe']

/** Rows scanned in one tick of the event loop, with their messages: about 5 ms. */
const SCAN_BATCH_SIZE = 20
/** Scanned octets of a message: a report names the recipient before the returned message begins. */
const MAX_SCANNED_BYTES = 64 * KiB

/**
 * Scans messages after a row for reports about a person, in the listed fields and in the content. The sender or
 * recipient of a report is not its subject, except in unsubscribe requests: otherwise a tenant could delete a
 * provider's reports about everyone. Returns row ids.
 * @param which.isIn whether a text names the person
 * @returns `next`: where the next scan starts; undefined: all rows were scanned
 */
export function findReportsAbout(
  app: Pick<App, 'db' | 'rawMail'>,
  search: { readonly after: number; readonly isIn: (text: string) => boolean },
): { readonly ids: readonly number[]; readonly next: number | undefined } {
  const rows = sql(app.db).after.all(search.after, SCAN_BATCH_SIZE)
  const matching = rows.filter(
    ({ kind, mailFrom, rcptTo, from, subject, reason, rawRef }) =>
      ERASED_KINDS.some((erasedKind) => erasedKind === kind) &&
      (kind === 'unsubscribe' || ![mailFrom, rcptTo, from ?? ''].some(search.isIn)) &&
      [mailFrom, from ?? '', subject, reason, readScanned(app, rawRef)].some(search.isIn),
  )
  return { ids: matching.map(({ id }) => id), next: rows.length < SCAN_BATCH_SIZE ? undefined : rows.at(-1)?.id }
}

const readScanned = (app: Pick<App, 'rawMail'>, rawRef: number): string =>
  Buffer.from(readBeginning(app, rawRef, MAX_SCANNED_BYTES) ?? []).toString('utf8')

/** The first bytes of a raw message; undefined if it is no longer stored: these are deleted by the month. */
export function readBeginning(
  { rawMail }: Pick<App, 'rawMail'>,
  rawRef: number,
  maxBytes: number,
): Uint8Array | undefined {
  try {
    // One byte less: what follows the last of them is not read, because it may be damaged.
    return readPrefix({ chunks: () => rawMail.chunks(rawRef) }, maxBytes - 1).subarray(0, maxBytes)
  } catch (error) {
    if (error instanceof MissingBlobError) return undefined
    throw error
  }
}

export function eraseOperatorMail(app: Pick<App, 'contentDropped'>, tx: Tx, ids: readonly number[]): number {
  const deleted = ids.flatMap((id) => sql(tx.db).delete.get(id) ?? [])
  return dropMessages(app, tx, deleted)
}
