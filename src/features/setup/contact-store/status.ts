/**
 * @module Contacts and their status: every insertion, every move from one status to another and every deletion passes here, with the counters, in the
 * caller's transaction. The only writer of `contacts.status`. Never sends anything, and never writes the suppression list: that tells it what to do.
 *
 * A move that is not in MOVES does not happen, whoever asks for it.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { count } from '#features/core/events/record.ts'
import type { Millis } from '#platform/clock.ts'
import { codesOf } from '#platform/db/codes.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { newUuid, type UuidBytes } from '#platform/ids.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'

/** Position = the stored code: only ever append. */
export const CONTACT_STATUSES = ['active', 'pending', 'unsubscribed', 'bounced', 'complained'] as const
export type ContactStatus = (typeof CONTACT_STATUSES)[number]

const STATUSES = codesOf<ContactStatus>('contact status', CONTACT_STATUSES)
/** The stored code of a status. */
export const toContactStatusCode = STATUSES.codeOf
/** The status of a stored code; throws for one that no version of ours has stored. */
export const toContactStatus = STATUSES.nameOf

/** What a contact that does not get mail became, and why it is so. */
export type StoppedStatus = Exclude<ContactStatus, 'active' | 'pending'>

/** From which status a contact comes to another. A complaint says more than whatever was before; a bounce says nothing new of who left. */
const TRANSITIONS: Readonly<Record<StoppedStatus, readonly ContactStatus[]>> = {
  unsubscribed: ['active', 'pending'],
  bounced: ['active', 'pending'],
  complained: ['active', 'pending', 'unsubscribed', 'bounced'],
}

interface Row {
  readonly id: number
  readonly accountId: number
  readonly listId: number
  readonly status: number
  readonly confirmedAt: Millis | null
  readonly optedInAt: Millis | null
}

const COLUMNS =
  'id, account_id AS accountId, list_id AS listId, status, confirmed_at AS confirmedAt, opted_in_at AS optedInAt'

const sql = prepareStatements((db) => ({
  insert: db.prepare<{ id: number }, (string | number | Uint8Array | null)[]>(
    `INSERT INTO contacts (uuid, account_id, list_id, address_key, email, metadata, status, subscribed_at, confirmed_at, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id`,
  ),
  byId: db.prepare<Row & { confirmingSince: Millis | null }, [number]>(
    `SELECT ${COLUMNS}, confirming_since AS confirmingSince FROM contacts WHERE id = ?`,
  ),
  ofAddress: db.prepare<Row, [number, string]>(
    `SELECT ${COLUMNS} FROM contacts WHERE account_id = ? AND address_key = ?`,
  ),
  ofAddressOnList: db.prepare<Row, [number, string, number]>(
    `SELECT ${COLUMNS} FROM contacts WHERE account_id = ? AND address_key = ? AND list_id = ?`,
  ),
  // Whatever was asked before no longer confirms.
  stop: db.prepare(
    'UPDATE contacts SET status = ?, confirming_since = NULL, opted_in_at = NULL, unsubscribed_at = coalesce(?, unsubscribed_at) WHERE id = ? AND status = ?',
  ),
  bringBack: db.prepare(
    'UPDATE contacts SET status = ?, unsubscribed_at = NULL, subscribed_at = coalesce(?, subscribed_at) WHERE id = ? AND status = ?',
  ),
  ask: db.prepare('UPDATE contacts SET confirming_since = ? WHERE id = ?'),
  confirm: db.prepare(
    `UPDATE contacts SET status = ?, confirming_since = NULL, subscribed_at = ?, unsubscribed_at = NULL, confirmed_at = ?
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
  counter: db.prepare<{ value: number }, [number, string]>(
    'SELECT value FROM counters WHERE account_id = ? AND metric = ? AND hour = 0',
  ),
}))

/** Counters do not belong to an hour here: how many there are now. */
const NO_HOUR: Millis = 0

/** Beginning of the counters of contacts. */
export const CONTACT_METRIC_PREFIX = 'contacts:'

/** Counter of the contacts of a list in one status. */
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

/** How many contacts a list has, in one status or in all: of the counters, as they were after the last transaction. */
export function readContactCount(db: Database, accountId: number, listId: number, status?: ContactStatus): number {
  if (status !== undefined) return sql(db).counter.get(accountId, toContactMetric(listId, status))?.value ?? 0
  // All names with this beginning: a semicolon is what follows the colon.
  return (
    sql(db).counters.get(accountId, `${CONTACT_METRIC_PREFIX}${listId}:`, `${CONTACT_METRIC_PREFIX}${listId};`)?.n ?? 0
  )
}

export interface NewContact {
  readonly accountId: number
  readonly listId: number
  /** A valid address, in any spelling. */
  readonly email: string
  /** JSON object; left out: empty. */
  readonly metadata?: string | undefined
  /** `pending`: it is to confirm first. */
  readonly status: 'active' | 'pending'
}

/** Puts an address on a list; undefined when it is there already, in whatever status: then nothing changes. */
export function insertContact(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  { accountId, listId, email, metadata, status }: NewContact,
): { id: number; uuid: UuidBytes } | undefined {
  const key = normaliseAddress(email)
  const uuid = newUuid()
  const now = app.eventTime()
  const code = toContactStatusCode(status)
  const inserted = sql(tx.db).insert.get(
    uuid,
    accountId,
    listId,
    key,
    email === key ? null : email,
    toStoredMetadata(metadata),
    code,
    now,
    status === 'active' ? now : null,
    now,
  )
  if (!inserted) return undefined
  countContact(tx, { accountId, listId }, code, 1)
  return { id: inserted.id, uuid }
}

const toStoredMetadata = (json: string | undefined): string | null =>
  json === undefined || json === '{}' ? null : json

/** Gives a contact other metadata in place of what it has. @param metadata JSON object */
export const setContactMetadata = (tx: Tx, id: number, metadata: string): void =>
  void sql(tx.db).setMetadata.run(toStoredMetadata(metadata), id)

/** Notes that a contact got its welcome, by the time of that email; false when it has one already, or is gone: then it must not get another. */
export const markWelcomed = (tx: Tx, id: number, at: Millis): boolean => sql(tx.db).welcomed.run(at, id).changes === 1

/**
 * Begins a confirmation: returns the time that its link has to carry; links from before no longer confirm. The status stays. Only of a contact that
 * is not active: throws for an active one, and for one that is gone.
 */
export function requestConfirmation(app: Pick<App, 'eventTime'>, tx: Tx, contactId: number): Millis {
  const contact = sql(tx.db).byId.get(contactId)
  if (!contact) throw new Error(`there is no contact ${contactId} to confirm`)
  if (toContactStatus(contact.status) === 'active') throw new Error(`contact ${contactId} is active already`)
  const now = app.eventTime()
  sql(tx.db).ask.run(now, contactId)
  return now
}

export type ConfirmationResult = 'confirmed' | 'already' | 'refused'

/**
 * Makes a contact active whose confirmation of this time is open; `already` when it is active, `refused` when it is gone or the link is not the one that
 * was last asked for, so that an old link never undoes a later unsubscription. Says nothing to the suppression list: `confirmContact` of
 * `suppression-store/contacts.ts` does both.
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

/** Notes that an active contact confirmed although its address had left all lists: mail of its list is not stopped by that. */
export const recordOptIn = (app: Pick<App, 'eventTime'>, tx: Tx, id: number): void =>
  void sql(tx.db).optIn.run(app.eventTime(), id, toContactStatusCode('active'))

export interface ContactsOfAddress {
  readonly accountId: number
  /** As `normaliseAddress` gives it. */
  readonly addressKey: string
  /** Row id; left out: in all lists of the account. */
  readonly listId?: number | undefined
}

/**
 * Moves the contacts of an address to a status in which they get no mail; returns how many moved. Costs one look-up in an index where there is none.
 * A link that asked one of them for a confirmation no longer confirms.
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

/** What decides on a contact beside its own row. */
export type StoppableContact = Pick<Row, 'listId' | 'optedInAt'>

/**
 * Gives contacts of an address that are in one of these statuses the status that `stoppedBy` returns, and where it returns none, the one that they had
 * before: active, or pending where they never confirmed. Returns how many moved.
 */
export function restoreContacts(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  which: ContactsOfAddress,
  {
    from,
    stoppedBy,
  }: {
    readonly from: readonly StoppedStatus[]
    readonly stoppedBy: (contact: StoppableContact) => StoppedStatus | undefined
  },
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

/** Takes a contact off its list for good; one that is gone is no error. What else names it is left alone. */
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
