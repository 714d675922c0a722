/**
 * @module Repeats a contact's confirmation request when its account asks for that. The limits of forms apply: the
 * mailbox belongs to someone else.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { conflict, tooManyRequests } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { getContact } from './remove.ts'
import { getConfirmationWaitMs, requireConfirmable, scheduleConfirmation } from './subscription-mails.ts'

/**
 * Sends another confirmation request to a contact that is not active; it replaces the earlier ones. Resolves when the
 * request is on disk. Throws 404 for list and contact, 409 `contact_active`, `contact_suppressed` and
 * `contact_unsubscribed`, 422 `no_verified_domain`, 429 `confirmation_too_often`.
 */
export const resendConfirmation = (app: App, actor: Actor, listId: string, email: string): Promise<void> =>
  app.commit.write((tx) => {
    const { accountId } = actor
    const { contact } = getContact(tx.db, accountId, listId, email)
    if (contact.status === 'active')
      throw conflict('contact_active', 'The contact is active: it needs no confirmation.')
    const suppression = suppressionOf(tx.db, { accountId, address: contact.email, transactional: true, streamId: 0 })
    const reason = suppression?.reason ?? (isUndeliverable(contact.status) ? contact.status : undefined)
    if (reason !== undefined)
      throw conflict('contact_suppressed', `This address is suppressed (${reason}), so no confirmation is sent.`)
    if (contact.status === 'unsubscribed')
      throw conflict(
        'contact_unsubscribed',
        'The contact left the list. Only the person can resubscribe: with a signup form of the list, or with the unsubscribe link in a message of the list.',
      )
    requireConfirmable(app, accountId)
    const waitMs = getConfirmationWaitMs(tx.db, contact, app.eventTime())
    if (waitMs > 0)
      throw tooManyRequests(
        'confirmation_too_often',
        'The last confirmation request was sent a short while ago; try again later.',
        waitMs / 1000,
      )
    scheduleConfirmation(app, tx, { contactId: contact.id, accountId, isBulk: false })
    audit(app, tx, actor, {
      action: 'contact.confirmation_requested',
      resourceType: 'contact',
      resourceId: formatUuid(contact.uuid),
      metadata: { list_id: listId },
    })
  })

const isUndeliverable = (status: string): boolean => status === 'bounced' || status === 'complained'
