/**
 * @module The contacts on lists as their account handles them: adds one, or many per request, changes their metadata, and
 * removes them, those of deleted lists in batches; and the contacts of an address on all its lists together. The
 * confirmation or welcome of a new contact is scheduled in the same transaction. `importer.ts` handles files, `subscribe.ts` forms.
 */
import type { Database } from 'bun:sqlite'
import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { findDeletedListAfter, markEmptied } from '#features/setup/contact-store/change-list.ts'
import {
  type Contact,
  findContactsOf as findAllContactsOf,
  findContact,
  findContactById,
} from '#features/setup/contact-store/find.ts'
import { type ContactList, findListById, getList } from '#features/setup/contact-store/lists.ts'
import {
  type ContactStatus,
  deleteContact,
  deleteContactsOfList,
  insertContact,
  type StoppedStatus,
  setContactMetadata,
  transitionContacts,
} from '#features/setup/contact-store/status.ts'
import {
  COMPLAINT,
  HARD_BOUNCE,
  type SuppressionScope,
  toSuppressionKey,
  UNSUBSCRIBE,
} from '#features/setup/suppression-store/check.ts'
import { findStoppedStatus } from '#features/setup/suppression-store/contacts.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { AppError, conflict, invalid, notFound } from '#platform/errors.ts'
import { mapFromPhp } from '#platform/http/schemas.ts'
import type { Check } from '#platform/http/validation.ts'
import { formatUuid } from '#platform/ids.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import { eraseContacts } from './erase.ts'
import { MAX_METADATA_BYTES } from './model.ts'
import {
  cancelSubscriptionMails,
  requireConfirmable,
  scheduleConfirmation,
  scheduleWelcome,
} from './subscription-mails.ts'

/** A contact as provided by the client. */
export interface ContactInput {
  readonly email: string
  /** `[]` is PHP's encoding of an empty object. */
  readonly metadata?: Record<string, unknown> | readonly unknown[] | null | undefined
}

/** A contact that can be added. */
export interface CheckedContact {
  readonly email: string
  /** JSON object. */
  readonly metadata: string
}

/** Contacts per transaction: about 6 ms if each gets a confirmation request; removing them takes 4 ms. */
const BATCH_SIZE = 250

/** Checks an input; throws 422 `invalid_address`, or a 422 on `metadata`. */
export function checkContact({ email, metadata }: ContactInput): CheckedContact {
  const parsed = parseMailbox(email)
  if (parsed.kind === 'invalid') throw invalid('email', parsed.reason, 'invalid_address')
  return { email: parsed.address, metadata: toMetadataJson(metadata) }
}

/** Metadata in its stored form; throws 422 when it is too large. */
export function toMetadataJson(metadata: ContactInput['metadata']): string {
  const json = JSON.stringify(mapFromPhp(metadata) ?? {})
  const sizeBytes = Buffer.byteLength(json)
  if (sizeBytes > MAX_METADATA_BYTES)
    throw invalid('metadata', `metadata has ${sizeBytes} bytes of JSON; at most ${MAX_METADATA_BYTES} are allowed.`)
  return json
}

export interface AddOptions {
  /** The contact has already agreed: no confirmation request is sent, even on a list with double opt-in. */
  readonly isConfirmed: boolean
  /** Added in bulk: its confirmation request is sent at the bulk rate. */
  readonly isBulk: boolean
  /** The contact's status at its previous service, if known. */
  readonly sourceStatus?: ContactStatus | undefined
}

/**
 * Adds a contact to a list, and schedules its mail, in the caller's transaction. Returns its row id, or undefined when
 * it is on the list already. A contact that left, bounced or complained, here or at its previous service, gets that
 * status and no email; such a status at the previous service also puts the address on the suppression list, which stops
 * the contact that is on the list already. A contact that was pending at its previous service is added as pending. For
 * contacts that may need a confirmation request, call `requireConfirmable` first.
 */
export function addInTransaction(
  app: App,
  tx: Tx,
  list: ContactList,
  { email, metadata }: CheckedContact,
  { isConfirmed, isBulk, sourceStatus }: AddOptions,
): number | undefined {
  const { accountId, id: listId } = list
  const mustConfirm = list.doubleOptIn && !isConfirmed
  // A contact that left at its previous service was never active here. It starts as pending, so that it still has to
  // confirm if it is taken off the suppression list later.
  const status = mustConfirm || sourceStatus === 'pending' || isStopped(sourceStatus) ? 'pending' : 'active'
  const inserted = insertContact(app, tx, { accountId, listId, email, metadata, status })
  const addressKey = toSuppressionKey(email)
  if (isStopped(sourceStatus))
    suppress(app, tx, { accountId, address: addressKey, listId, ...SUPPRESSION_BY_STATUS[sourceStatus] })
  if (!inserted) return undefined
  const contactId = inserted.id
  // An existing suppression of the address takes precedence over the status in the file.
  const stopped =
    findStoppedStatus(tx.db, { accountId, addressKey, listId }) ?? (isStopped(sourceStatus) ? sourceStatus : undefined)
  if (stopped) transitionContacts(app, tx, { accountId, addressKey, listId, to: stopped })
  else if (mustConfirm) scheduleConfirmation(app, tx, { contactId, accountId, isBulk })
  else if (status === 'active') scheduleWelcome(app, tx, contactId, list)
  return contactId
}

const isStopped = (status: ContactStatus | undefined): status is StoppedStatus =>
  status !== undefined && status !== 'active' && status !== 'pending'

/** Keeps a status in effect: without it, adding the address again would create an active contact. */
const SUPPRESSION_BY_STATUS: Readonly<
  Record<StoppedStatus, { readonly reason: string; readonly covers: SuppressionScope }>
> = {
  unsubscribed: { reason: UNSUBSCRIBE, covers: 'marketing' },
  bounced: { reason: HARD_BOUNCE, covers: 'all' },
  complained: { reason: COMPLAINT, covers: 'all' },
}

/** Throws 422 `no_verified_domain` when the contacts must confirm and no sender could ask them. */
function requireAddable(app: App, list: ContactList, isConfirmed: boolean): void {
  if (list.doubleOptIn && !isConfirmed) requireConfirmable(app, list.accountId)
}

/** Adds one contact. Throws 404 for the list, 409 `contact_exists`, 422 `invalid_address` and `no_verified_domain`. */
export function addContact(
  app: App,
  actor: Actor,
  listId: string,
  input: ContactInput,
  { isConfirmed }: Pick<AddOptions, 'isConfirmed'>,
): Promise<{ contact: Contact; list: ContactList }> {
  getList(app.db, actor.accountId, listId)
  const checked = checkContact(input)
  return app.commit.write((tx) => {
    const list = getList(tx.db, actor.accountId, listId)
    requireAddable(app, list, isConfirmed)
    const id = storeWithinPlan(app, tx, actor.accountId, () =>
      addInTransaction(app, tx, list, checked, { isConfirmed, isBulk: false }),
    )
    const contact = id === undefined ? undefined : findContactById(tx.db, id)
    if (!contact) throw conflict('contact_exists', `${checked.email} is already on this list.`)
    auditContact(app, tx, actor, 'created', contact, list)
    return { contact, list }
  })
}

/** Writes the audit entry of what was done to a contact. */
export function auditContact(
  app: App,
  tx: Tx,
  actor: Actor,
  done: string,
  contact: Pick<Contact, 'uuid'>,
  list: ContactList,
  more: Readonly<Record<string, unknown>> = {},
): void {
  auditChange(app, tx, actor, `contact.${done}`, contact.uuid, { list_id: formatUuid(list.uuid), ...more })
}

/**
 * Adds many contacts in batches, so that other requests need not wait for all of them; contacts already on the list
 * stay as they are. After a failure the earlier batches stay on the list, and the request can be repeated. Throws 404
 * and 422 `no_verified_domain` before anything is added.
 * @param findProblems checks one provided contact
 */
export async function addContacts(
  app: App,
  actor: Actor,
  listId: string,
  provided: readonly unknown[],
  { isConfirmed, findProblems }: Pick<AddOptions, 'isConfirmed'> & { readonly findProblems: Check },
) {
  const list = getList(app.db, actor.accountId, listId)
  if (provided.length === 0) throw invalid('contacts', 'contacts must have at least one contact.')
  requireAddable(app, list, isConfirmed)
  app.workBudget.spend(actor.accountId, provided.length)
  const owner = getTenantId(app.db, actor.accountId)
  const errors: { index: number; error: string }[] = []
  let inserted = 0
  for (let from = 0; from < provided.length; from += BATCH_SIZE) {
    const checked: CheckedContact[] = []
    await app.fairScheduler.forEach(
      owner,
      provided.slice(from, from + BATCH_SIZE).entries(),
      ([offset, item]) => {
        const result = checkItem(item, findProblems)
        if (typeof result === 'string') errors.push({ index: from + offset, error: result })
        else checked.push(result)
      },
      { isNew: from === 0 },
    )
    inserted += await app.commit.write(
      (tx) => {
        const list = getList(tx.db, actor.accountId, listId)
        // The last verified domain may have been deleted since the first check.
        requireAddable(app, list, isConfirmed)
        const metadata = { contacts: provided.length, confirmed: isConfirmed }
        if (from === 0) auditChange(app, tx, actor, 'contact.imported', list.uuid, metadata, 'contact_list')
        const options = { isConfirmed, isBulk: true }
        const isAdded = (contact: CheckedContact) => addInTransaction(app, tx, list, contact, options) !== undefined
        return storeWithinPlan(app, tx, actor.accountId, () => checked.filter(isAdded).length)
      },
      { owner },
    )
  }
  const duplicates = provided.length - errors.length - inserted
  return { data: { inserted, duplicates, total_requested: provided.length }, errors }
}

/** One contact of a bulk request, or why it cannot be added. */
function checkItem(item: unknown, findProblems: Check): CheckedContact | string {
  const problems = findProblems(item)
  if (problems.length > 0) return problems.map(({ field, message }) => `${field} ${message}`).join('; ')
  try {
    return checkContact(item as ContactInput)
  } catch (error) {
    if (error instanceof AppError && error.status === 422) return error.message
    throw error
  }
}

/** Finds a contact by its address, in any spelling; throws 404 `contact_list_not_found`, `contact_not_found`. */
export function getContact(
  db: Database,
  accountId: number,
  listId: string,
  email: string,
): { contact: Contact; list: ContactList } {
  const list = getList(db, accountId, listId)
  const contact = findContact(db, list.id, email)
  if (!contact) throw notFound('contact_not_found', 'There is no contact with this address on the list.')
  return { contact, list }
}

/** Deletes a contact permanently, with its waiting mail. It may be added again. Throws 404. */
export const removeContact = (app: App, actor: Actor, listId: string, email: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const { contact, list } = getContact(tx.db, actor.accountId, listId, email)
    cancelSubscriptionMails(tx, contact.id)
    deleteContact(tx, contact)
    auditContact(app, tx, actor, 'deleted', contact, list)
  })

/** Replaces the metadata of a contact. Throws 404, and 422 when it is too large. */
export function changeContact(
  app: App,
  actor: Actor,
  listId: string,
  email: string,
  metadata: ContactInput['metadata'],
): Promise<{ contact: Contact; list: ContactList }> {
  const json = toMetadataJson(metadata)
  return app.commit.write((tx) => {
    const before = getContact(tx.db, actor.accountId, listId, email)
    storeWithinPlan(app, tx, actor.accountId, () => setContactMetadata(tx, before.contact.id, json))
    auditContact(app, tx, actor, 'updated', before.contact, before.list)
    return getContact(tx.db, actor.accountId, listId, email)
  })
}

/**
 * Deletes the contacts of deleted lists; returns how many lists are empty now. Call it every minute or so, one run at a
 * time: it continues where the last one stopped.
 * @param ending once it is aborted, no further batch is started
 */
export async function removeDeletedLists(app: App, ending?: AbortSignal): Promise<number> {
  let emptied = 0
  for (let after = 0; ; ) {
    const list = findDeletedListAfter(app.db, after)
    if (!list) return emptied
    after = list.id
    do {
      await yieldToEventLoop()
      if (ending?.aborted) return emptied
    } while (!(await app.commit.writeFromReserve((tx) => removeBatch(app, tx, list.id))))
    app.log.info({ list: formatUuid(list.uuid) }, 'contacts of a deleted list removed')
    emptied++
  }
}

/** Deletes a batch; true when nothing is left. */
function removeBatch(app: App, tx: Tx, listId: number): boolean {
  const ids = deleteContactsOfList(tx, listId, BATCH_SIZE)
  for (const id of ids) cancelSubscriptionMails(tx, id)
  if (ids.length === BATCH_SIZE) return false
  markEmptied(app, tx, listId)
  return true
}

/** Not of deleted lists. */
const OF_LISTS =
  'FROM contacts WHERE account_id = ? AND EXISTS (SELECT 1 FROM contact_lists WHERE id = list_id AND deleted_at IS NULL)'

const sql = prepareStatements((db) => ({
  // The index has all that these read.
  after: db.prepare<{ id: string }, [number, string, number]>(
    `SELECT DISTINCT address_key AS id ${OF_LISTS} AND address_key > ? ORDER BY address_key LIMIT ?`,
  ),
  before: db.prepare<{ id: string }, [number, string, number]>(
    `SELECT DISTINCT address_key AS id ${OF_LISTS} AND address_key < ? ORDER BY address_key DESC LIMIT ?`,
  ),
}))

/** The contacts with an address, in any spelling; the oldest first. Not of deleted lists. */
export const findContactsOf = (db: Database, accountId: number, address: string): Contact[] =>
  findAllContactsOf(db, accountId, address).filter(({ listId }) => findListById(db, listId))

/** Addresses (`id`) on any list of an account, in their order, after one of them or right before it. */
export const listAddresses = (db: Database, accountId: number, side: 'after' | 'before', of: string, limit: number) =>
  side === 'after' ? sql(db).after.all(accountId, of, limit) : sql(db).before.all(accountId, of, limit).toReversed()

/**
 * Adds an address to lists, unless it is on them, and sets entries of the metadata of its contacts; null removes one. Who
 * is stopped on all lists is so on a new one, too. Throws 422 for an invalid address and too much metadata.
 */
export function changeAddress(
  app: App,
  actor: Actor,
  address: string,
  lists: readonly ContactList[],
  metadata: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const { email } = checkContact({ email: address })
  const { accountId } = actor
  return app.commit.write((tx) => {
    const contacts = findContactsOf(tx.db, accountId, email)
    for (const contact of Object.keys(metadata).length > 0 ? contacts : []) {
      storeWithinPlan(app, tx, accountId, () => setContactMetadata(tx, contact.id, merge(contact, metadata)))
      auditChange(app, tx, actor, 'contact.updated', contact.uuid)
    }
    const isMailed = contacts.some(({ status }) => status === 'active' || status === 'pending')
    const options = { isConfirmed: false, isBulk: false, sourceStatus: isMailed ? undefined : contacts[0]?.status }
    for (const { uuid } of lists) {
      const list = getList(tx.db, accountId, formatUuid(uuid))
      requireAddable(app, list, false)
      const contact = { email, metadata: merge(contacts[0], metadata) }
      const id = storeWithinPlan(app, tx, accountId, () => addInTransaction(app, tx, list, contact, options))
      const added = id === undefined ? undefined : findContactById(tx.db, id)
      if (added) auditContact(app, tx, actor, 'created', added, list)
    }
  })
}

function merge(contact: Contact | undefined, change: Readonly<Record<string, unknown>>): string {
  const merged = { ...(JSON.parse(contact?.metadata ?? '{}') as object), ...change }
  return toMetadataJson(Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null)))
}

/** Deletes the contacts of an address on all lists; what it unsubscribed from stays. */
export const removeAddress = (app: App, actor: Actor, address: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const { accountId } = actor
    for (const { uuid } of findContactsOf(tx.db, accountId, address))
      auditChange(app, tx, actor, 'contact.deleted', uuid)
    eraseContacts(tx, { accountId, addressKey: normaliseAddress(address) })
  })
