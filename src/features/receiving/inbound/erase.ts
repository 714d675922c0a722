/** @module Takes the inbound emails from and to a person away, inside the caller's transaction, and says what of received mail is still to be processed. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { inboundById, removeInbound } from './inbound-emails.ts'

interface Row {
  readonly id: number
  readonly accountId: number
  readonly mailFrom: string
  readonly rcptTo: string
  readonly fromAddress: string | null
  readonly toAddresses: string
  readonly fromHeader: string | null
  readonly toHeader: string | null
  readonly ccHeader: string | null
}

const sql = prepared((db) => ({
  after: db.prepare<Row, [number, number, number]>(
    `SELECT id, account_id AS accountId, mail_from AS mailFrom, rcpt_to AS rcptTo, from_address AS fromAddress, to_addresses AS toAddresses,
     from_header AS fromHeader, to_header AS toHeader, cc_header AS ccHeader
     FROM inbound_emails INDEXED BY inbound_emails_account WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
  newestReceipt: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM inbound_receipts'),
  oldestReceipt: db.prepare<{ id: number | null }, []>('SELECT min(id) AS id FROM inbound_receipts'),
}))

/** Rows that are looked at in one turn of the event loop: some 5 ms. */
const WINDOW = 1000

/**
 * Looks at some inbound emails of an account after a row for those from or to somebody. Row ids.
 * @param which.isIn whether a header, or JSON of addresses, names him
 * @returns `next` where to go on; undefined: all were looked at
 */
export function findInboundOf(
  db: Database,
  which: {
    readonly accountId: number
    readonly after: number
    readonly isIn: (header: string) => boolean
    readonly most: number
  },
): { readonly ids: readonly number[]; readonly next: number | undefined } {
  const rows = sql(db).after.all(which.accountId, which.after, WINDOW)
  const fitting = rows.filter(({ id: _, accountId: __, ...texts }) =>
    Object.values(texts).some((text) => text !== null && which.isIn(text)),
  )
  const ids = fitting.slice(0, which.most).map(({ id }) => id)
  if (fitting.length > which.most) return { ids, next: ids.at(-1) }
  return { ids, next: rows.length < WINDOW ? undefined : rows.at(-1)?.id }
}

/** Removes inbound emails with their content. Returns how many. */
export function eraseInbound(app: Pick<App, 'contentDropped'>, tx: Tx, ids: readonly number[]): number {
  let removed = 0
  for (const id of ids) {
    const email = inboundById(tx.db, id)
    if (!email) continue
    removeInbound(app, tx, email)
    removed++
  }
  return removed
}

/** The newest message that waits to be processed; 0: none does. */
export const newestReceipt = (db: Database): number => sql(db).newestReceipt.get()?.id ?? 0

/** Whether a message up to this one still waits to be processed. */
export const isReceiptWaiting = (db: Database, upTo: number): boolean =>
  (sql(db).oldestReceipt.get()?.id ?? Number.POSITIVE_INFINITY) <= upTo
