/**
 * @module Unsubscribes and resubscribes the address of a token. Needs only the account: it works if email, recipient or
 * stream were deleted, and does nothing if the account was deleted, since nobody is left to send.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { auditChange, createSystemActor } from '#features/core/audit-logs/audit.ts'
import { countDaily, domainOfAddress } from '#features/core/events/daily-stats.ts'
import { countCaptured, record } from '#features/core/events/record.ts'
import { findContactById } from '#features/setup/contact-store/find.ts'
import { namedList } from '#features/setup/contact-store/lists.ts'
import { transitionContacts } from '#features/setup/contact-store/status.ts'
import {
  isOptedIn,
  suppressionOf,
  toSuppressionKey,
  toSuppressionScopeCode,
  UNSUBSCRIBE,
} from '#features/setup/suppression-store/check.ts'
import { resubscribeContacts } from '#features/setup/suppression-store/contacts.ts'
import { suppress, unsuppress } from '#features/setup/suppression-store/suppress.ts'
import {
  ERASED_ADDRESS,
  prepareErasedKey,
  suppressionListKey,
} from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import type { UnsubscribeFacts } from './headers.ts'

/** What the link stops: mail of its stream or list, or all mail of the account with `transactional: false`. */
export type Scope = 'named' | 'all'

/** How the recipient unsubscribed: with the mail program (RFC 8058), on the page, or by mail (RFC 2369 §3.2). */
export type UnsubscribeMethod = 'one-click' | 'page' | 'mailto'

/** Whether an address gets mail with `transactional: false`. */
export interface SubscriptionState {
  /** No mail at all may be sent (complaint, hard bounce, the account's decision); the recipient cannot change that. */
  readonly isBlocked: boolean
  readonly isOffNamed: boolean
  readonly isOffAll: boolean
  /** Name of the list or stream in the token; null if the token names none, or if the list or stream was deleted. */
  readonly partName: string | null
}

const sql = prepareStatements((db) => ({
  // Excludes accounts that are being deleted: rows written now might remain.
  account: db.prepare<{ id: number }, [Uint8Array]>('SELECT id FROM accounts WHERE uuid = ? AND deleted_at IS NULL'),
  rows: db.prepare<{ streamId: number; listId: number }, [number, string, number, string]>(
    'SELECT stream_id AS streamId, list_id AS listId FROM suppressions WHERE account_id = ? AND address = ? AND covers = ? AND reason = ?',
  ),
  welcome: db.prepare<EmailRecipientIds, [number, number, number, string]>(
    `SELECT emails.id AS emailId, recipients.id AS recipientId FROM emails JOIN recipients ON email_id = emails.id
     WHERE account_id = ? AND created_at = ? AND list_id = ? AND broadcast_id IS NULL AND address = ? LIMIT 1`,
  ),
  stream: db.prepare<{ name: string }, [number, number]>('SELECT name FROM streams WHERE id = ? AND account_id = ?'),
  email: db.prepare<{ slug: string; sandbox: number }, [number, number]>(
    'SELECT slug, sandbox FROM emails JOIN streams ON streams.id = stream_id WHERE emails.id = ? AND emails.account_id = ?',
  ),
  anyEmail: db.prepare<{ id: number }, [number]>('SELECT id FROM emails WHERE id = ?'),
  ownRecipient: db.prepare<{ address: string }, [number, number, number]>(
    'SELECT address FROM recipients JOIN emails ON emails.id = email_id WHERE recipients.id = ? AND email_id = ? AND account_id = ?',
  ),
  recipient: db.prepare<{ address: string }, [number, number]>(
    'SELECT address FROM recipients WHERE id = ? AND email_id = ?',
  ),
}))

/** Whether a token names a stream or list, instead of all mail of its account. */
export const isForStreamOrList = ({ streamId, listId }: UnsubscribeFacts): boolean => streamId !== 0 || listId !== 0

/** The state of a token's address; undefined if the account was deleted. */
export function readSubscriptionState(db: Database, facts: UnsubscribeFacts): SubscriptionState | undefined {
  const accountId = findAccountId(db, facts)
  if (accountId === undefined) return undefined
  const listed = suppressionListKey(db, accountId, toSuppressionKey(facts.address))
  const rows = sql(db).rows.all(accountId, listed, toSuppressionScopeCode('marketing'), UNSUBSCRIBE)
  const isOff = (streamId: number, listId: number): boolean =>
    rows.some((row) => row.streamId === streamId && row.listId === listId)
  const { address, streamId, listId } = facts
  const isOut = listId === 0 || !isOptedIn(db, { accountId, addressKey: toSuppressionKey(address), listId })
  return {
    isBlocked: suppressionOf(db, { accountId, address, transactional: true, streamId }) !== undefined,
    isOffNamed: isOff(streamId, listId),
    isOffAll: isOut && isOff(0, 0),
    // Also the name of a deleted list, as long as it is stored.
    partName: (listId === 0 ? sql(db).stream.get(streamId, accountId) : namedList(db, accountId, listId))?.name ?? null,
  }
}

/**
 * Unsubscribes the address of a token. Resolves with the new state of the address once it is on disk, or with undefined
 * if the account was deleted. Records an event the first time. Repeating it changes nothing.
 */
export function unsubscribe(
  app: App,
  facts: UnsubscribeFacts,
  method: UnsubscribeMethod,
  scope: Scope = 'named',
): Promise<SubscriptionState | undefined> {
  return app.commit.writeFromReserve((tx) =>
    unsubscribeInTransaction(app, tx, facts, method, scope) === undefined
      ? undefined
      : readSubscriptionState(tx.db, facts),
  )
}

/** `unsubscribe` in the caller's transaction: whether the address was subscribed; undefined without the account. */
export function unsubscribeInTransaction(
  app: App,
  tx: Tx,
  facts: UnsubscribeFacts,
  method: UnsubscribeMethod,
  scope: Scope = 'named',
): boolean | undefined {
  const accountId = findAccountId(tx.db, facts)
  if (accountId === undefined) return undefined
  const mail = findMail(tx.db, accountId, facts)
  const suppression = toSuppression(accountId, facts, scope)
  // An address that left all lists is already suppressed, even if it has confirmed one list since then. So the contact
  // of that list is changed, too.
  const hasLeftLists = unsubscribeContacts(app, tx, suppression)
  const isListed = suppress(app, tx, {
    ...suppression,
    // The token of an erased recipient still contains the address; the suppression stores the erased form.
    ...(isErased(tx.db, mail) && { address: prepareErasedKey(tx.db, accountId, toSuppressionKey(facts.address)) }),
    sourceEmailId: mail?.emailId,
  })
  const isNew = isListed || hasLeftLists
  if (isNew) recordUnsubscription(app, tx, accountId, facts, { mail, way: method, scope })
  return isNew
}

/** Whether there were contacts to unsubscribe. They belong to lists, so a stream alone unsubscribes none. */
function unsubscribeContacts(
  app: App,
  tx: Tx,
  { accountId, address, streamId, listId }: ReturnType<typeof toSuppression>,
): boolean {
  if (streamId !== 0) return false
  const addressKey = toSuppressionKey(address)
  return transitionContacts(app, tx, { accountId, addressKey, listId: listId || undefined, to: 'unsubscribed' }) > 0
}

/** Undoes one unsubscription only; resolves with the new state, undefined if the account was deleted. */
export function resubscribe(
  app: App,
  facts: UnsubscribeFacts,
  scope: Scope = 'named',
): Promise<SubscriptionState | undefined> {
  return app.commit.writeFromReserve((tx) => {
    const accountId = findAccountId(tx.db, facts)
    if (accountId === undefined) return undefined
    const suppression = toSuppression(accountId, facts, scope)
    if (unsuppress(tx, suppression)) {
      // Contacts belong to lists, so a stream alone unsubscribed none.
      if (!suppression.streamId) {
        const addressKey = toSuppressionKey(facts.address)
        resubscribeContacts(app, tx, { accountId, addressKey, listId: suppression.listId || undefined })
      }
      auditByRecipient(app, tx, accountId, facts, 'suppression.deleted')
    }
    return readSubscriptionState(tx.db, facts)
  })
}

const findAccountId = (db: Database, { accountUuid }: UnsubscribeFacts): number | undefined =>
  sql(db).account.get(accountUuid)?.id

const toSuppression = (accountId: number, { address, streamId, listId }: UnsubscribeFacts, scope: Scope) => ({
  accountId,
  address,
  reason: UNSUBSCRIBE,
  covers: 'marketing' as const,
  streamId: scope === 'named' ? streamId : 0,
  listId: scope === 'named' ? listId : 0,
})

interface EmailRecipientIds {
  readonly emailId: number
  readonly recipientId: number
}

/**
 * The email of the link; undefined if it was deleted, or if its row id now belongs to another email: restoring a backup
 * makes new mail reuse the row ids of mail sent after that backup. The link in the text of a welcome email was created
 * before that email was stored, so it names the contact instead of the recipient. Its email is the one that was
 * accepted for the list when the contact was welcomed.
 */
function findMail(db: Database, accountId: number, { emailId, recipientId, listId, address }: UnsubscribeFacts) {
  if (emailId !== 0) {
    const kept = sql(db).ownRecipient.get(recipientId, emailId, accountId)?.address
    const isOther =
      kept === undefined ? sql(db).anyEmail.get(emailId) !== null : kept !== address && kept !== ERASED_ADDRESS
    return isOther ? undefined : { emailId, recipientId }
  }
  const contact = findContactById(db, recipientId)
  if (!contact || contact.accountId !== accountId || contact.listId !== listId || contact.welcomeSentAt === null)
    return undefined
  return sql(db).welcome.get(accountId, contact.welcomeSentAt, listId, address) ?? undefined
}

const isErased = (db: Database, mail: EmailRecipientIds | undefined): boolean =>
  mail !== undefined && sql(db).recipient.get(mail.recipientId, mail.emailId)?.address === ERASED_ADDRESS

/** Records the unsubscription in the audit log, and as an event if the email is still stored. */
function recordUnsubscription(
  app: App,
  tx: Tx,
  accountId: number,
  facts: UnsubscribeFacts,
  {
    mail,
    way,
    scope,
  }: { readonly mail: EmailRecipientIds | undefined; readonly way: UnsubscribeMethod; readonly scope: Scope },
): void {
  const stopped = scope === 'all' || !isForStreamOrList(facts) ? 'all' : facts.listId === 0 ? 'stream' : 'list'
  auditByRecipient(app, tx, accountId, facts, 'suppression.created')
  const email = mail && sql(tx.db).email.get(mail.emailId, accountId)
  if (!email) return
  const list = namedList(tx.db, accountId, facts.listId)
  const at = app.eventTime()
  const recipient = sql(tx.db).recipient.get(mail.recipientId, mail.emailId)
  const domain = recipient ? domainOfAddress(recipient.address) : undefined
  if (email.sandbox === 0) countDaily(tx, { accountId, domain, at }, 'unsubscribes', 1)
  else countCaptured(tx, accountId, 'unsubscribed', at)
  record(tx, {
    accountId,
    type: 'unsubscribed',
    at,
    ...mail,
    data: { stream: email.slug, list_id: list ? formatUuid(list.uuid) : null, scope: stopped, reason: way },
  })
}

function auditByRecipient(
  app: App,
  tx: Tx,
  accountId: number,
  { accountUuid, address }: UnsubscribeFacts,
  action: 'suppression.created' | 'suppression.deleted',
): void {
  const key = suppressionListKey(tx.db, accountId, toSuppressionKey(address))
  const actor = createSystemActor({ accountId, accountUuid })
  auditChange(app, tx, actor, action, key, { reason: UNSUBSCRIBE, by: 'recipient' }, 'suppression')
}
