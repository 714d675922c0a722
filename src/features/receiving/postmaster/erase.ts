/**
 * @module Erases reports that name a person from the operator's mail. Mail written to the operator, as postmaster or
 * about abuse, is the operator's own correspondence and stays until it expires: no tenant may delete complaints about
 * itself.
 */
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { KiB } from '#platform/units.ts'
import type { OperatorMailKind } from './store.ts'

const ERASED_KINDS: readonly OperatorMailKind[] = ['bounce', 'complaint', 'unsubscribe']

interface Row {
  readonly id: number
  readonly kind: string
  readonly mailFrom: string
  readonly rcptTo: string
  readonly fromHeader: string | null
  readonly subject: string
  readonly reason: string
  readonly rawRef: number
}

const sql = prepareStatements((db) => ({
  after: db.prepare<Row, [number, number]>(
    `SELECT id, kind, mail_from AS mailFrom, rcpt_to AS rcptTo, from_header AS fromHeader, subject, reason, raw_ref AS rawRef FROM operator_mail
     WHERE id > ? ORDER BY id LIMIT ?`,
  ),
  delete: db.prepare<{ rawRef: number }, [number]>(
    'DELETE FROM operator_mail WHERE id = ? RETURNING raw_ref AS rawRef',
  ),
}))

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
    ({ kind, mailFrom, rcptTo, fromHeader, subject, reason, rawRef }) =>
      ERASED_KINDS.some((erasedKind) => erasedKind === kind) &&
      (kind === 'unsubscribe' || ![mailFrom, rcptTo, fromHeader ?? ''].some(search.isIn)) &&
      [mailFrom, fromHeader ?? '', subject, reason, readBeginning(app, rawRef)].some(search.isIn),
  )
  return { ids: matching.map(({ id }) => id), next: rows.length < SCAN_BATCH_SIZE ? undefined : rows.at(-1)?.id }
}

function readBeginning({ rawMail }: Pick<App, 'rawMail'>, rawRef: number): string {
  try {
    let text = ''
    for (const chunk of rawMail.chunks(rawRef)) {
      text += Buffer.from(chunk.subarray(0, MAX_SCANNED_BYTES)).toString('utf8')
      if (text.length >= MAX_SCANNED_BYTES) break
    }
    return text
  } catch (error) {
    // Raw messages are deleted by the month, possibly before the row.
    if (error instanceof MissingBlobError) return ''
    throw error
  }
}

/** Deletes messages. Returns their number. */
export function eraseOperatorMail(app: Pick<App, 'contentDropped'>, tx: Tx, ids: readonly number[]): number {
  const removed = ids.flatMap((id) => sql(tx.db).delete.get(id) ?? [])
  dropContent(app, tx, { rawMail: removed.map(({ rawRef }) => rawRef) })
  return removed.length
}
