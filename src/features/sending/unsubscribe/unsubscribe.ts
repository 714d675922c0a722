/**
 * @module Unsubscribing and the way back, from what a token says. The only thing it needs is the account: when email, recipient or stream are gone it
 * works all the same, and when the account is gone there is nobody left to send, so there is nothing to write.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { audit, createSystemActor } from '#features/core/audit-logs/audit.ts'
import { countDaily, domainOfAddress } from '#features/core/events/daily-stats.ts'
import { record } from '#features/core/events/record.ts'
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
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import type { UnsubscribeFacts } from './token.ts'

/** What is stopped: mail of the stream or list that the token names, or all mail with `transactional: false` of the account. */
export type Scope = 'named' | 'all'

/** How somebody unsubscribed: by the mail program (RFC 8058), on the page, or by mail (RFC 2369 §3.2). */
export type UnsubscribeMethod = 'one-click' | 'page' | 'mailto'

/** Whether an address gets mail with `transactional: false`. */
export interface SubscriptionState {
  /** No mail of the account is sent to it at all (a complaint, a hard bounce, its own choice), which is not the recipient's to change. */
  readonly isBlocked: boolean
  readonly isOffNamed: boolean
  readonly isOffAll: boolean
  /** Name of the list or stream that the token names; null when it names none, or that is gone. */
  readonly partName: string | null
}

const sql = prepareStatements((db) => ({
  // One that is being deleted is gone: what was written now might stay.
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

/** Whether a token names less than all mail of its account. */
export const isForStreamOrList = ({ streamId, listId }: UnsubscribeFacts): boolean => streamId !== 0 || listId !== 0

/** How the address of a token stands; undefined when the account is gone. */
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
    partName: (listId === 0 ? findStreamName(db, accountId, streamId) : findListName(db, accountId, listId)) ?? null,
  }
}

const findStreamName = (db: Database, accountId: number, streamId: number): string | undefined =>
  sql(db).stream.get(streamId, accountId)?.name

/** Whoever left a list that was deleted since then reads its name as long as there is one. */
const findListName = (db: Database, accountId: number, listId: number): string | undefined =>
  namedList(db, accountId, listId)?.name

/**
 * Unsubscribes the address of a token; resolves with how it stands when that is on disk, undefined when the account is gone. An event tells it the
 * first time. To do it again changes nothing.
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

/** `unsubscribe` inside the caller's transaction. Whether the address was not unsubscribed before; undefined when the account is gone. */
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
  // Whoever confirmed one list after leaving all is on the suppression list already, and leaves that one with this.
  const hasLeftLists = unsubscribeContacts(app, tx, suppression)
  const isListed = suppress(app, tx, {
    ...suppression,
    // The token outlives an erasure; the address that it brings back is kept as that left it.
    ...(isErased(tx.db, mail) && { address: prepareErasedKey(tx.db, accountId, toSuppressionKey(facts.address)) }),
    sourceEmailId: mail?.emailId,
  })
  const isNew = isListed || hasLeftLists
  if (isNew) recordUnsubscription(app, tx, accountId, facts, { mail, way: method, scope })
  return isNew
}

/** Moves the contacts that an unsubscription takes off their lists; whether there were any. Contacts have a list, so a stream alone stops none of them. */
function unsubscribeContacts(
  app: App,
  tx: Tx,
  { accountId, address, streamId, listId }: ReturnType<typeof toSuppression>,
): boolean {
  if (streamId !== 0) return false
  const addressKey = toSuppressionKey(address)
  return transitionContacts(app, tx, { accountId, addressKey, listId: listId || undefined, to: 'unsubscribed' }) > 0
}

/**
 * Takes back one unsubscription and nothing else of the suppression list; resolves with how the address stands then, undefined when the account is
 * gone.
 */
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
      // Contacts have a list, so a stream alone has stopped none of them.
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

/** An email and one of its recipients. Row ids. */
interface EmailRecipientIds {
  readonly emailId: number
  readonly recipientId: number
}

/**
 * The email whose link it is. That in the text of a welcome was made before its email was stored, and names the contact in place of the recipient: it is
 * the email of its list that was accepted when the contact was welcomed. Undefined when that is gone, and when its number is that of another email by
 * now: after a restored backup, what was sent since the backup shares its numbers with what is sent later.
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

/** In the audit log, as every change, and as an event of its email while that is kept. */
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
  audit(app, tx, createSystemActor({ accountId, accountUuid }), {
    action,
    resourceType: 'suppression',
    resourceId: suppressionListKey(tx.db, accountId, toSuppressionKey(address)),
    metadata: { reason: UNSUBSCRIBE, by: 'recipient' },
  })
}
