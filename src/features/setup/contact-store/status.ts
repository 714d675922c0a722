/**
 * @module Inserts and deletes contacts and changes their status, with their counters, in the caller's transaction. The
 * only writer of `contacts.status`. A transition that is not in TRANSITIONS never happens.
 * Never sends anything and never writes the suppression list, which calls this module instead.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { count, NO_HOUR, readCounter } from '#features/core/events/record.ts'
import { codesOf, insertSql, prepareStatements, type Tx } from '#platform/db/open.ts'
import { newUuid, type UuidBytes } from '#platform/ids.ts'
import { days, type Millis } from '#platform/units.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import type { contacts } from './tables.ts'

/** The position is the stored code: only append. */
export const CONTACT_STATUSES = ['active', 'pending', 'unsubscribed', 'bounced', 'complained'] as const
export type ContactStatus = (typeof CONTACT_STATUSES)[number]

const STATUSES = codesOf<ContactStatus>('contact status', CONTACT_STATUSES)
export const toContactStatusCode = STATUSES.codeOf
/** The status of a stored code; throws for a code that no version has stored. */
export const toContactStatus = STATUSES.nameOf

/** A status in which a contact gets no mail. The name of the status is the cause. */
export type StoppedStatus = Exclude<ContactStatus, 'active' | 'pending'>

/**
 * For each status without mail: the statuses from which a contact can reach it. A complaint outranks every other cause;
 * a bounce adds nothing to an unsubscription.
 */
const TRANSITIONS: Readonly<Record<StoppedStatus, readonly ContactStatus[]>> = {
  unsubscribed: ['active', 'pending'],
  bounced: ['active', 'pending'],
  complained: ['active', 'pending', 'unsubscribed', 'bounced'],
}

type Row = Readonly<
  Pick<typeof contacts.$inferSelect, 'id' | 'accountId' | 'listId' | 'status' | 'confirmedAt' | 'optedInAt'>
>

const COLUMNS =
  'id, account_id AS accountId, list_id AS listId, status, confirmed_at AS confirmedAt, opted_in_at AS optedInAt'

const sql = prepareStatements((db) => ({
  insert: db.prepare<{ id: number }, [Record<string, string | number | Uint8Array | null>]>(
    `${insertSql('contacts', 'uuid accountId listId addressKey email metadata status subscribedAt confirmedAt createdAt')}
     ON CONFLICT DO NOTHING RETURNING id`,
  ),
  byId: db.prepare<Row & { confirmingSince: Millis | null; earlierRequests: string | null }, [number]>(
    `SELECT ${COLUMNS}, confirming_since AS confirmingSince, earlier_requests AS earlierRequests FROM contacts WHERE id = ?`,
  ),
  ofAddress: db.prepare<Row, [number, string]>(
    `SELECT ${COLUMNS} FROM contacts WHERE account_id = ? AND address_key = ?`,
  ),
  ofAddressOnList: db.prepare<Row, [number, string, number]>(
    `SELECT ${COLUMNS} FROM contacts WHERE account_id = ? AND address_key = ? AND list_id = ?`,
  ),
  // Clearing `confirming_since` makes earlier confirmation requests invalid.
  stop: db.prepare(
    'UPDATE contacts SET status = ?, confirming_since = NULL, opted_in_at = NULL, unsubscribed_at = coalesce(?, unsubscribed_at) WHERE id = ? AND status = ?',
  ),
  bringBack: db.prepare(
    'UPDATE contacts SET status = ?, unsubscribed_at = NULL, subscribed_at = coalesce(?, subscribed_at) WHERE id = ? AND status = ?',
  ),
  ask: db.prepare('UPDATE contacts SET confirming_since = ?, earlier_requests = ? WHERE id = ?'),
  confirm: db.prepare(
    `UPDATE contacts SET status = ?, confirming_since = NULL, earlier_requests = NULL, subscribed_at = ?, unsubscribed_at = NULL, confirmed_at = ?
     WHERE id = ? AND confirming_since = ?`,
  ),
  optIn: db.prepare('UPDATE contacts SET opted_in_at = ? WHERE id = ? AND status = ?'),
  setMetadata: db.prepare('UPDATE contacts SET metadata = ? WHERE id = ?'),
  welcomed: db.prepare('UPDATE contacts SET welcome_sent_at = ? WHERE id = ? AND welcome_sent_at IS NULL'),
  delete: db.prepare<Row, [number]>(`DELETE FROM contacts WHERE id = ? RETURNING ${COLUMNS}`),
  deleteSome: db.prepare<Row, [number, number]>(
    `DELETE FROM contacts WHERE id IN (SELECT id FROM contacts WHERE list_id = ? LIMIT ?) RETURNING ${COLUMNS}`,
  ),
  counters: db.prepare<{ n: number | null }, [number, string, string]>(
    'SELECT sum(value) AS n FROM counters WHERE account_id = ? AND metric >= ? AND metric < ? AND hour = 0',
  ),
}))

export const CONTACT_METRIC_PREFIX = 'contacts:'

const toContactMetric = (listId: number, status: ContactStatus): string => `${CONTACT_METRIC_PREFIX}${listId}:${status}`

function countContact(
  tx: Tx,
  { accountId, listId }: { accountId: number; listId: number },
  code: number,
  delta: 1 | -1,
) {
  count(tx, accountId, toContactMetric(listId, toContactStatus(code)), NO_HOUR, delta)
}

function countTransition(tx: Tx, row: Row, to: number): void {
  countContact(tx, row, row.status, -1)
  countContact(tx, row, to, 1)
}

/** The number of contacts of a list, in one status or in all, from the counters as of the last commit. */
export function readContactCount(db: Database, accountId: number, listId: number, status?: ContactStatus): number {
  if (status !== undefined) return readCounter(db, accountId, toContactMetric(listId, status), NO_HOUR)
  // All names with this prefix: `;` follows `:` in ASCII.
  return (
    sql(db).counters.get(accountId, `${CONTACT_METRIC_PREFIX}${listId}:`, `${CONTACT_METRIC_PREFIX}${listId};`)?.n ?? 0
  )
}

export interface NewContact {
  readonly accountId: number
  readonly listId: number
  /** A valid address, in any spelling. */
  readonly email: string
  /** JSON object; undefined: empty. */
  readonly metadata?: string | undefined
  /** `pending`: the contact has to confirm first. */
  readonly status: 'active' | 'pending'
}

/**
 * Adds an address to a list. Returns undefined and changes nothing when the list already has the address, in any
 * status.
 */
export function insertContact(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  { accountId, listId, email, metadata, status }: NewContact,
): { id: number; uuid: UuidBytes } | undefined {
  const key = normaliseAddress(email)
  const uuid = newUuid()
  const now = app.eventTime()
  const code = toContactStatusCode(status)
  const inserted = sql(tx.db).insert.get({
    ...{ uuid, accountId, listId, addressKey: key, email: email === key ? null : email, status: code },
    metadata: toStoredMetadata(metadata),
    ...{ subscribedAt: now, confirmedAt: status === 'active' ? now : null, createdAt: now },
  })
  if (!inserted) return undefined
  countContact(tx, { accountId, listId }, code, 1)
  return { id: inserted.id, uuid }
}

const toStoredMetadata = (json: string | undefined): string | null =>
  json === undefined || json === '{}' ? null : json

/**
 * Replaces the metadata of a contact.
 * @param metadata JSON object
 */
export const setContactMetadata = (tx: Tx, id: number, metadata: string): void =>
  void sql(tx.db).setMetadata.run(toStoredMetadata(metadata), id)

/**
 * Records that a contact got its welcome email; the stored time is that of the email. False when the contact already
 * got one or is deleted: then it must not get another.
 */
export const markWelcomed = (tx: Tx, id: number, at: Millis): boolean => sql(tx.db).welcomed.run(at, id).changes === 1

/** How long the times of confirmation requests that a contact has not answered are stored. */
export const REQUEST_RETENTION_MS = days(180)

/** When a contact got earlier confirmation requests that it has not answered, oldest first. */
export const readEarlierRequests = (contact: { readonly earlierRequests: string | null }, now: Millis): Millis[] =>
  (JSON.parse(contact.earlierRequests ?? '[]') as Millis[]).filter((at) => at > now - REQUEST_RETENTION_MS)

/**
 * Opens a confirmation request and returns the time that its link must carry; earlier links no longer confirm. The
 * status stays. Throws for an active or deleted contact.
 */
export function requestConfirmation(app: Pick<App, 'eventTime'>, tx: Tx, contactId: number): Millis {
  const contact = sql(tx.db).byId.get(contactId)
  if (!contact) throw new Error(`contact ${contactId} does not exist`)
  if (toContactStatus(contact.status) === 'active') throw new Error(`contact ${contactId} is already active`)
  const now = app.eventTime()
  const { confirmingSince: last } = contact
  const earlier = [...readEarlierRequests(contact, now), ...(last === null ? [] : [last])]
  sql(tx.db).ask.run(now, earlier.length > 0 ? JSON.stringify(earlier) : null, contactId)
  return now
}

export type ConfirmationResult = 'confirmed' | 'already' | 'refused'

/**
 * Activates a contact whose open confirmation request was made at `since`. Returns `already` when the contact is
 * active. Returns `refused` when the contact is deleted or the link is not from the last request, so that an old link
 * never undoes a later unsubscription. Does not change the suppression list: `confirmContact` of
 * `suppression-store/contacts.ts` updates contact and list.
 */
export function activateContact(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  contactId: number,
  since: Millis,
): ConfirmationResult {
  const contact = sql(tx.db).byId.get(contactId)
  if (!contact) return 'refused'
  if (toContactStatus(contact.status) === 'active') return 'already'
  if (contact.confirmingSince !== since) return 'refused'
  const now = app.eventTime()
  const active = toContactStatusCode('active')
  sql(tx.db).confirm.run(active, now, now, contactId, since)
  countTransition(tx, contact, active)
  return 'confirmed'
}

/**
 * Records that an active contact confirmed after its address had left all lists: that unsubscription does not stop mail
 * of its list.
 */
export const recordOptIn = (app: Pick<App, 'eventTime'>, tx: Tx, id: number): void =>
  void sql(tx.db).optIn.run(app.eventTime(), id, toContactStatusCode('active'))

export interface ContactsOfAddress {
  readonly accountId: number
  /** As `normaliseAddress` returns it. */
  readonly addressKey: string
  /** Row id; undefined: all lists of the account. */
  readonly listId?: number | undefined
}

export type ContactOfList = ContactsOfAddress & { readonly listId: number }

/**
 * Moves the contacts of an address to a status without mail, and returns how many changed. Their open confirmation
 * requests no longer confirm. Costs one index look-up when there is no contact.
 */
export function transitionContacts(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  { to, ...which }: ContactsOfAddress & { readonly to: StoppedStatus },
): number {
  let changed = 0
  for (const contact of findContactsOfAddress(tx.db, which)) {
    if (!TRANSITIONS[to].includes(toContactStatus(contact.status))) continue
    const code = toContactStatusCode(to)
    sql(tx.db).stop.run(code, to === 'unsubscribed' ? app.eventTime() : null, contact.id, contact.status)
    countTransition(tx, contact, code)
    changed++
  }
  return changed
}

/** The fields of a contact on which its status depends. */
export type StoppableContact = Pick<Row, 'listId' | 'optedInAt'>

/**
 * Changes contacts of an address that have one of the `from` statuses. They get the status that `stoppedBy` returns; if
 * it returns none, they become active again, or pending if they never confirmed. Returns how many changed.
 */
export function restoreContacts(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  which: ContactsOfAddress,
  from: readonly StoppedStatus[],
  stoppedBy: (contact: StoppableContact) => StoppedStatus | undefined,
): number {
  const contacts = findContactsOfAddress(tx.db, which).filter(({ status }) =>
    from.some((stopped) => toContactStatusCode(stopped) === status),
  )
  const now = app.eventTime()
  let changed = 0
  for (const contact of contacts) {
    const to = toContactStatusCode(stoppedBy(contact) ?? (contact.confirmedAt === null ? 'pending' : 'active'))
    if (to === contact.status) continue
    const wasUnsubscribed = toContactStatus(contact.status) === 'unsubscribed'
    sql(tx.db).bringBack.run(to, wasUnsubscribed ? now : null, contact.id, contact.status)
    countTransition(tx, contact, to)
    changed++
  }
  return changed
}

const findContactsOfAddress = (db: Database, { accountId, addressKey, listId }: ContactsOfAddress): Row[] =>
  listId === undefined
    ? sql(db).ofAddress.all(accountId, addressKey)
    : sql(db).ofAddressOnList.all(accountId, addressKey, listId)

/** Deletes a contact permanently; no error if it is already deleted. Rows that refer to it stay. */
export function deleteContact(tx: Tx, { id }: { readonly id: number }): void {
  const deleted = sql(tx.db).delete.get(id)
  if (deleted) countContact(tx, deleted, deleted.status, -1)
}

/** Deletes up to `limit` contacts of a list; returns their row ids. */
export function deleteContactsOfList(tx: Tx, listId: number, limit: number): number[] {
  const deleted = sql(tx.db).deleteSome.all(listId, limit)
  for (const row of deleted) countContact(tx, row, row.status, -1)
  return deleted.map(({ id }) => id)
}
