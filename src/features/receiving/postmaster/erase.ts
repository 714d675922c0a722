/**
 * @module Takes reports that name a person out of the operator's mail. What was written to the operator himself, as postmaster or about abuse, is his own
 * correspondence and stays until its age: no tenant may take away what somebody said of him.
 */
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { MissingPart } from '#platform/content/read.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
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

const sql = prepared((db) => ({
  after: db.prepare<Row, [number, number]>(
    `SELECT id, kind, mail_from AS mailFrom, rcpt_to AS rcptTo, from_header AS fromHeader, subject, reason, raw_ref AS rawRef FROM operator_mail
     WHERE id > ? ORDER BY id LIMIT ?`,
  ),
  delete: db.prepare<{ rawRef: number }, [number]>(
    'DELETE FROM operator_mail WHERE id = ? RETURNING raw_ref AS rawRef',
  ),
}))

/** Rows that are looked at in one turn of the event loop, with their messages: some 5 ms. */
const WINDOW = 20
/** Of a message: a report names whom it is about before it returns the message. */
const MOST_BYTES = 64 * KiB

/**
 * Looks at some messages after a row for reports about somebody: in what is listed of them or in themselves. Who sent a report or got it is not whom it is about,
 * but for who asked to be unsubscribed: else a tenant could take away the reports of a provider about everybody. Row ids.
 * @param which.isIn whether a text names him
 * @returns `next` where to go on; undefined: all were looked at
 */
export function findReportsOf(
  app: Pick<App, 'db' | 'rawMail'>,
  which: { readonly after: number; readonly isIn: (text: string) => boolean },
): { readonly ids: readonly number[]; readonly next: number | undefined } {
  const rows = sql(app.db).after.all(which.after, WINDOW)
  const fitting = rows.filter(
    ({ kind, mailFrom, rcptTo, fromHeader, subject, reason, rawRef }) =>
      ERASED_KINDS.some((erased) => erased === kind) &&
      (kind === 'unsubscribe' || ![mailFrom, rcptTo, fromHeader ?? ''].some(which.isIn)) &&
      [mailFrom, fromHeader ?? '', subject, reason, beginningOf(app, rawRef)].some(which.isIn),
  )
  return { ids: fitting.map(({ id }) => id), next: rows.length < WINDOW ? undefined : rows.at(-1)?.id }
}

function beginningOf({ rawMail }: Pick<App, 'rawMail'>, rawRef: number): string {
  try {
    let text = ''
    for (const slice of rawMail.slices(rawRef)) {
      text += Buffer.from(slice.subarray(0, MOST_BYTES)).toString('utf8')
      if (text.length >= MOST_BYTES) break
    }
    return text
  } catch (error) {
    // Its month was dropped, and it with that.
    if (error instanceof MissingPart) return ''
    throw error
  }
}

/** Removes messages. Returns how many. */
export function eraseOperatorMail(app: Pick<App, 'contentDropped'>, tx: Tx, ids: readonly number[]): number {
  const removed = ids.flatMap((id) => sql(tx.db).delete.get(id) ?? [])
  dropContent(app, tx, { rawMail: removed.map(({ rawRef }) => rawRef) })
  return removed.length
}
