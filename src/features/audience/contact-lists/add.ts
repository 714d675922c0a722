/**
 * @module Puts contacts on a list because its account says so: one, or many in one request. What follows from a contact that is new (a confirmation, a
 * welcome) is scheduled in its transaction. Files are `importer.ts`, forms `subscribe.ts`.
 */

import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { type Contact, findContactById } from '#features/setup/contact-store/find.ts'
import { type ContactList, getList } from '#features/setup/contact-store/lists.ts'
import {
  type ContactStatus,
  insertContact,
  type StoppedStatus,
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
import type { Tx } from '#platform/db/commit.ts'
import { AppError, conflict, invalid } from '#platform/errors.ts'
import { mapFromPhp } from '#platform/http/schemas.ts'
import type { Check } from '#platform/http/validation.ts'
import { formatUuid } from '#platform/ids.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { requireConfirmable, scheduleConfirmation, scheduleWelcome } from './subscription-mails.ts'

/** A contact as it is given. */
export interface ContactInput {
  readonly email: string
  /** `[]` is what PHP sends for an empty one. */
  readonly metadata?: Record<string, unknown> | readonly unknown[] | null | undefined
}

/** A contact that can be added. */
export interface CheckedContact {
  readonly email: string
  /** JSON object. */
  readonly metadata: string
}

/** Contacts in one transaction: some 6 ms where each is asked to confirm. */
const BATCH_SIZE = 250

/** What can be added of an input; throws 422 `invalid_address`, or one on `metadata`. */
export function checkContact({ config }: Pick<App, 'config'>, { email, metadata }: ContactInput): CheckedContact {
  const parsed = parseMailbox(email)
  if (parsed.kind === 'invalid') throw invalid('email', parsed.reason, 'invalid_address')
  return { email: parsed.address, metadata: toMetadataJson(config, metadata) }
}

/** Metadata as it is stored; throws the 422 of one that is too large. */
export function toMetadataJson(
  { maxMetadataBytes }: Pick<App['config'], 'maxMetadataBytes'>,
  metadata: ContactInput['metadata'],
): string {
  const json = JSON.stringify(mapFromPhp(metadata) ?? {})
  const sizeBytes = Buffer.byteLength(json)
  if (sizeBytes > maxMetadataBytes)
    throw invalid('metadata', `metadata has ${sizeBytes} bytes of JSON; at most ${maxMetadataBytes} are allowed.`)
  return json
}

export interface AddOptions {
  /** They have said that they want it: nobody is asked, whatever the list says. */
  readonly isConfirmed: boolean
  /** One of many: confirmations leave at a rate of their own. */
  readonly isBulk: boolean
  /** The status that it had where it comes from, if that is known. */
  readonly sourceStatus?: ContactStatus | undefined
}

/**
 * Puts a contact on a list, with what follows from it, in the caller's transaction; its row id, or undefined when it is on the list already. One that left,
 * bounced or complained, here before or where it comes from, is on the list as such and gets no email; what happened where it comes from is then on the
 * suppression list too, as if it had happened here. One that had not confirmed where it comes from is not confirmed by being added. Whoever may have to be
 * asked calls `requireConfirmable` before.
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
  // Whoever left elsewhere was never active here: taken off the suppression list, it has still to confirm.
  const status = mustConfirm || sourceStatus === 'pending' || isStopped(sourceStatus) ? 'pending' : 'active'
  const inserted = insertContact(app, tx, { accountId, listId, email, metadata, status })
  if (!inserted) return undefined
  const contactId = inserted.id
  const addressKey = toSuppressionKey(email)
  if (isStopped(sourceStatus))
    suppress(app, tx, { accountId, address: addressKey, listId, ...SUPPRESSION_BY_STATUS[sourceStatus] })
  // What its account noted of the address may stand in the place of what the file says.
  const stopped =
    findStoppedStatus(tx.db, { accountId, addressKey, listId }) ?? (isStopped(sourceStatus) ? sourceStatus : undefined)
  if (stopped) transitionContacts(app, tx, { accountId, addressKey, listId, to: stopped })
  else if (mustConfirm) scheduleConfirmation(app, tx, { contactId, accountId, isBulk })
  else if (status === 'active') scheduleWelcome(app, tx, { contactId, accountId, list })
  return contactId
}

const isStopped = (status: ContactStatus | undefined): status is StoppedStatus =>
  status !== undefined && status !== 'active' && status !== 'pending'

/** What keeps a status: without it, whatever brings the address back would bring back a contact that nothing had happened to here. */
const SUPPRESSION_BY_STATUS: Readonly<
  Record<StoppedStatus, { readonly reason: string; readonly covers: SuppressionScope }>
> = {
  unsubscribed: { reason: UNSUBSCRIBE, covers: 'marketing' },
  bounced: { reason: HARD_BOUNCE, covers: 'all' },
  complained: { reason: COMPLAINT, covers: 'all' },
}

/** Throws 422 `no_verified_domain` when the list's contacts are to confirm and nobody can ask them. */
function requireAddable(app: App, list: ContactList, isConfirmed: boolean): void {
  if (list.doubleOptIn && !isConfirmed) requireConfirmable(app, list.accountId)
}

/** Adds one contact. 404 for the list, 409 `contact_exists`, 422 `invalid_address` and `no_verified_domain`. */
export function addContact(
  app: App,
  actor: Actor,
  listId: string,
  input: ContactInput,
  { isConfirmed }: Pick<AddOptions, 'isConfirmed'>,
): Promise<{ contact: Contact; list: ContactList }> {
  getList(app.db, actor.accountId, listId)
  const checked = checkContact(app, input)
  return app.commit.write((tx) => {
    const list = getList(tx.db, actor.accountId, listId)
    requireAddable(app, list, isConfirmed)
    const id = storeWithinPlan(app, tx, actor.accountId, () =>
      addInTransaction(app, tx, list, checked, { isConfirmed, isBulk: false }),
    )
    const contact = id === undefined ? undefined : findContactById(tx.db, id)
    if (!contact) throw conflict('contact_exists', `${checked.email} is on this list already.`)
    audit(app, tx, actor, {
      action: 'contact.created',
      resourceType: 'contact',
      resourceId: formatUuid(contact.uuid),
      metadata: { list_id: listId },
    })
    return { contact, list }
  })
}

export interface AddResult {
  readonly data: { readonly inserted: number; readonly duplicates: number; readonly total_requested: number }
  readonly errors: { index: number; error: string }[]
}

/**
 * Adds many contacts, slice by slice, so that nobody waits for all of them; one that is on the list already is left alone. A failure in between leaves
 * those before it on the list, and the same request can be made again. 404, 422 `no_verified_domain` before anything is added.
 * @param findProblems of one that is given
 */
export async function addContacts(
  app: App,
  actor: Actor,
  listId: string,
  given: readonly unknown[],
  { isConfirmed, findProblems }: Pick<AddOptions, 'isConfirmed'> & { readonly findProblems: Check },
): Promise<AddResult> {
  const list = getList(app.db, actor.accountId, listId)
  if (given.length === 0) throw invalid('contacts', 'contacts must have at least one contact.')
  requireAddable(app, list, isConfirmed)
  app.workBudget.spend(actor.accountId, given.length)
  const owner = getTenantId(app.db, actor.accountId)
  const errors: AddResult['errors'] = []
  let inserted = 0
  for (let from = 0; from < given.length; from += BATCH_SIZE) {
    const checked: CheckedContact[] = []
    await app.fairScheduler.forEach(
      owner,
      given.slice(from, from + BATCH_SIZE).entries(),
      ([offset, item]) => {
        const result = checkItem(app, item, findProblems)
        if (typeof result === 'string') errors.push({ index: from + offset, error: result })
        else checked.push(result)
      },
      { isNew: from === 0 },
    )
    inserted += await app.commit.write(
      (tx) => {
        const list = getList(tx.db, actor.accountId, listId)
        // The last verified domain may have gone in between.
        requireAddable(app, list, isConfirmed)
        if (from === 0)
          audit(app, tx, actor, {
            action: 'contact.imported',
            resourceType: 'contact_list',
            resourceId: formatUuid(list.uuid),
            metadata: { contacts: given.length, confirmed: isConfirmed },
          })
        const options = { isConfirmed, isBulk: true }
        const isAdded = (contact: CheckedContact) => addInTransaction(app, tx, list, contact, options) !== undefined
        return storeWithinPlan(app, tx, actor.accountId, () => checked.filter(isAdded).length)
      },
      { owner },
    )
  }
  const duplicates = given.length - errors.length - inserted
  return { data: { inserted, duplicates, total_requested: given.length }, errors }
}

/** One of many, or why it cannot be added. */
function checkItem(app: App, item: unknown, findProblems: Check): CheckedContact | string {
  const problems = findProblems(item)
  if (problems.length > 0) return problems.map(({ field, message }) => `${field} ${message}`).join('; ')
  try {
    return checkContact(app, item as ContactInput)
  } catch (error) {
    if (error instanceof AppError && error.status === 422) return error.message
    throw error
  }
}
