/**
 * @module Takes reports that name a person out of the operator's mail. What was written to the operator himself, as postmaster or about abuse, is his own
 * correspondence and stays until its age: no tenant may take away what somebody said of him.
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

/** Rows that are looked at in one turn of the event loop, with their messages: some 5 ms. */
const SCAN_BATCH_SIZE = 20
/** Of a message: a report names whom it is about before it returns the message. */
const MAX_SCANNED_BYTES = 64 * KiB

/**
 * Looks at some messages after a row for reports about somebody: in what is listed of them or in themselves. Who sent a report or got it is not whom it is about,
 * but for who asked to be unsubscribed: else a tenant could take away the reports of a provider about everybody. Row ids.
 * @param which.isIn whether a text names him
 * @returns `next` where to go on; undefined: all were looked at
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
    // Its month was dropped, and it with that.
    if (error instanceof MissingBlobError) return ''
    throw error
  }
}

/** Removes messages. Returns how many. */
export function eraseOperatorMail(app: Pick<App, 'contentDropped'>, tx: Tx, ids: readonly number[]): number {
  const removed = ids.flatMap((id) => sql(tx.db).delete.get(id) ?? [])
  dropContent(app, tx, { rawMail: removed.map(({ rawRef }) => rawRef) })
  return removed.length
}
