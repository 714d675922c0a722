/**
 * @module Erases one person from the emails of an account, inside the caller's transaction: cancels waiting mail to the
 * address, anonymises recipients, deletes the content of an email once no other recipient needs it, and takes the
 * address out of the To and Cc of mail that only others get. Rows stay, so
 * that quota, counters, operations and lists still agree. Handles emails only; the caller erases what refers to them.
 */
import type { Database } from 'bun:sqlite'
import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { deleteAttempts } from './attempt-transitions.ts'
import { type DraftExtra, hashIdempotencyKey } from './email.ts'
import { listContentRefs } from './retire.ts'
import { reindexEmail } from './search.ts'
import { requireEmail, settleEmail } from './settle.ts'
import { isOpen, OPEN_CODES, statusCode, statusName, WAITING_CODES } from './status.ts'
import type { emails, recipients } from './tables.ts'
import { cancelRecipient } from './waiting-transitions.ts'

type RecipientRow = Pick<typeof recipients.$inferSelect, 'id' | 'address' | 'status'>

type ContentRow = Pick<
  typeof emails.$inferSelect,
  'accountId' | 'htmlRef' | 'textRef' | 'attachments' | 'extra' | 'quotaMonth'
> & { readonly isOpen: number }

const sql = prepareStatements((db) => ({
  // Also selects addresses that are not ASCII or are quoted: these may have several spellings, which the caller
  // compares.
  like: db.prepare<{ id: number; emailId: number; address: string; accountId: number }, [number, number, string]>(
    `SELECT recipients.id, email_id AS emailId, address, account_id AS accountId FROM recipients JOIN emails ON emails.id = email_id
     WHERE recipients.id > ?1 AND recipients.id <= ?2 AND (lower(address) = ?3 OR address GLOB '*[^ -~]*' OR substr(address, 1, 1) = '"')
     ORDER BY recipients.id`,
  ),
  // Skips ids that no row has: after a restored backup there are many.
  after: db.prepare<{ id: number }, [number]>('SELECT id FROM recipients WHERE id > ? ORDER BY id LIMIT 1'),
  recipients: db.prepare<RecipientRow, [number]>(
    'SELECT id, address, status FROM recipients WHERE email_id = ? ORDER BY id',
  ),
  anonymise: db.prepare(
    `UPDATE recipients SET address = '${ERASED_ADDRESS}', mailbox = NULL, smtp_response = NULL, last_error = NULL, sending_ip = NULL
     WHERE id = ? AND status NOT IN ${OPEN_CODES}`,
  ),
  content: db.prepare<ContentRow, [number]>(
    `SELECT account_id AS accountId, html_ref AS htmlRef, text_ref AS textRef, attachments, extra, quota_month AS quotaMonth,
     EXISTS (SELECT 1 FROM recipients WHERE email_id = emails.id AND recipients.status IN ${OPEN_CODES}) AS isOpen FROM emails WHERE id = ?`,
  ),
  // From of forwarded mail is a person who wrote to the account.
  empty: db.prepare(
    `UPDATE emails SET subject = '', html_ref = NULL, text_ref = NULL, attachments = NULL, extra = NULL,
       from_address = CASE WHEN extra ->> '$.whole' IS NULL THEN from_address ELSE '${ERASED_ADDRESS}' END WHERE id = ?`,
  ),
  // Emails and their recipients are inserted together, so both are in the same order.
  withOthersInHeader: db.prepare<{ id: number; extra: string }, [number, number, number]>(
    `SELECT id, extra FROM emails WHERE id >= (SELECT email_id FROM recipients WHERE id > ?1 ORDER BY id LIMIT 1)
     AND id <= (SELECT email_id FROM recipients WHERE id <= ?2 ORDER BY id DESC LIMIT 1)
     AND +account_id = ?3 AND instr(extra, '"also_') > 0`,
  ),
  setExtra: db.prepare('UPDATE emails SET extra = ? WHERE id = ?'),
  forgetBody: db.prepare(
    'UPDATE idempotency_keys SET body_hash = zeroblob(16) WHERE account_id = ? AND key_hash = ? AND email_id = ?',
  ),
  waiting: db.prepare<{ id: number; quotaMonth: number | null }, [number, number]>(
    `SELECT id, quota_month AS quotaMonth FROM emails WHERE account_id = ? AND status IN ${OPEN_CODES}
     AND EXISTS (SELECT 1 FROM recipients WHERE email_id = emails.id AND ${IS_WAITING}) LIMIT ?`,
  ),
  end: db.prepare(
    `UPDATE recipients SET status = ${statusCode('cancelled')}, lane = NULL, next_at = NULL WHERE email_id = ? AND ${IS_WAITING}`,
  ),
  open: db.prepare<{ id: number }, [number]>(
    `SELECT id FROM emails WHERE account_id = ? AND status IN ${OPEN_CODES} LIMIT 1`,
  ),
}))

const ERASED = { lastError: 'It was erased.', data: { reason: 'erased' }, isErasure: true } as const

/** Rows of `recipients` examined per tick; this takes some 4 ms. */
const ROW_ID_WINDOW = 5000

/**
 * Finds emails to an address by scanning a limited window of recipients after a row. There is no index over addresses,
 * because it would slow every send.
 * @param search.isMatch whether an address is the searched one, in any spelling
 * @param search.limit maximum number of emails found per call
 * @returns row ids, each once, and the last recipient examined, to continue after it; undefined if all were
 */
export function findEmailsTo(
  db: Database,
  search: {
    readonly accountId: number
    readonly addressKey: string
    readonly isMatch: (address: string) => boolean
    readonly after: number
    readonly limit: number
  },
): { readonly ids: readonly number[]; readonly next: number | undefined } {
  const upTo = search.after + ROW_ID_WINDOW
  const emailIds = new Set<number>()
  for (const row of sql(db).like.iterate(search.after, upTo, search.addressKey)) {
    if (row.accountId !== search.accountId || !search.isMatch(row.address)) continue
    // Stops only at the first recipient of another email. Otherwise the next call could find the last email again.
    if (emailIds.size === search.limit && !emailIds.has(row.emailId)) return { ids: [...emailIds], next: row.id - 1 }
    emailIds.add(row.emailId)
  }
  const following = sql(db).after.get(upTo)
  return { ids: [...emailIds], next: following ? following.id - 1 : undefined }
}

/** Emails whose To or Cc shows an address that is none of their recipients, after one recipient and up to another. */
export const findEmailsShowing = (
  db: Database,
  search: {
    readonly accountId: number
    readonly isMatch: (address: string) => boolean
    readonly after: number
    readonly upTo: number | undefined
  },
): number[] =>
  sql(db)
    .withOthersInHeader.all(search.after, search.upTo ?? Number.MAX_SAFE_INTEGER, search.accountId)
    .filter(({ extra }) => listShown(JSON.parse(extra) as DraftExtra).some((mailbox) => isOf(mailbox, search.isMatch)))
    .map(({ id }) => id)

const listShown = ({ also_to: to = [], also_cc: cc = [] }: DraftExtra): readonly string[] => [...to, ...cc]

function isOf(mailbox: string, isMatch: (address: string) => boolean): boolean {
  const parsed = parseMailbox(mailbox)
  return parsed.kind === 'ok' && isMatch(parsed.address)
}

/** Takes an address out of the To and Cc of an email that others get; returns whether it was there. */
export function eraseShown(tx: Tx, emailId: number, isMatch: (address: string) => boolean): boolean {
  const {
    also_to: to = [],
    also_cc: cc = [],
    ...extra
  } = JSON.parse(sql(tx.db).content.get(emailId)?.extra ?? '{}') as DraftExtra
  const [keptTo, keptCc] = [to, cc].map((list) => list.filter((mailbox) => !isOf(mailbox, isMatch)))
  if (keptTo?.length === to.length && keptCc?.length === cc.length) return false
  const kept: DraftExtra = {
    ...extra,
    ...(keptTo?.length && { also_to: keptTo }),
    ...(keptCc?.length && { also_cc: keptCc }),
  }
  sql(tx.db).setExtra.run(JSON.stringify(kept), emailId)
  return true
}

/**
 * Cancels the matching waiting recipients of an email, whether or not they were attempted before: one event each, and a
 * refund of their quota. Cannot cancel a recipient in flight, whose session must end first; `isInFlight` reports it.
 */
export function cancelRecipients(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  emailId: number,
  isMatch: (address: string) => boolean,
): { readonly cancelled: number; readonly isInFlight: boolean } {
  let cancelled = 0
  let isInFlight = false
  for (const { id, address, status } of sql(tx.db).recipients.all(emailId)) {
    if (!isOpen(statusName(status)) || !isMatch(address)) continue
    if (cancelRecipient(tx, { recipientId: id, emailId, now: app.eventTime() }, ERASED)) cancelled++
    else isInFlight = true
  }
  const email = cancelled === 0 ? null : sql(tx.db).content.get(emailId)
  if (email && email.quotaMonth !== null) giveQuotaBack(tx, email.accountId, email.quotaMonth, cancelled)
  return { cancelled, isInFlight }
}

/** Anonymises the matching recipients that have ended; returns their row ids, and whether these are all. */
export function anonymiseRecipients(
  tx: Tx,
  emailId: number,
  isMatch: (address: string) => boolean,
): { readonly recipientIds: number[]; readonly isAll: boolean } {
  const all = sql(tx.db).recipients.all(emailId)
  const recipientIds = all
    .filter(({ address }) => isMatch(address))
    .filter(({ id }) => sql(tx.db).anonymise.run(id).changes === 1)
    .map(({ id }) => id)
  if (recipientIds.length > 0) {
    // All of the email, because a reply to another recipient may name the person.
    deleteAttempts(tx, emailId)
    reindexEmail(tx, emailId)
  }
  return { recipientIds, isAll: recipientIds.length === all.length }
}

/**
 * Deletes the content of an email: subject, bodies, attachments, headers, tags and data. Returns false while a
 * recipient is still open, and true if the email no longer exists. Its idempotency key stays, so that nothing is sent
 * twice, but the hash of the request is cleared.
 */
export function eraseEmailContent(app: Pick<App, 'contentDropped'>, tx: Tx, emailId: number): boolean {
  const row = sql(tx.db).content.get(emailId)
  if (!row) return true
  if (row.isOpen === 1) return false
  const extra = JSON.parse(row.extra ?? '{}') as DraftExtra
  sql(tx.db).empty.run(emailId)
  reindexEmail(tx, emailId)
  if (extra.idempotency_key !== undefined)
    sql(tx.db).forgetBody.run(row.accountId, hashIdempotencyKey('idempotency_key', extra.idempotency_key), emailId)
  dropContent(app, tx, { content: listContentRefs(row) })
  return true
}

const IS_WAITING = `recipients.status IN ${WAITING_CODES}`
/** Emails per transaction; this takes some 5 ms. */
const BATCH_SIZE = 100

/** Cancels a batch of waiting mail; returns the number of emails, 0 when none is left. */
export function cancelWaitingMail(tx: Tx, accountId: number, now: Millis): number {
  const emails = sql(tx.db).waiting.all(accountId, BATCH_SIZE)
  for (const { id, quotaMonth } of emails) {
    const cancelled = sql(tx.db).end.run(id).changes
    if (quotaMonth !== null) giveQuotaBack(tx, accountId, quotaMonth, cancelled)
    settleEmail(tx, requireEmail(tx, id), 'cancelled', now)
  }
  return emails.length
}

/** Whether the account has open mail. Once `cancelWaitingMail` has returned 0, all open mail is in delivery. */
export const hasMailInFlight = (db: Database, accountId: number): boolean => sql(db).open.get(accountId) !== null
