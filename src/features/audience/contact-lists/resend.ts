/** @module Asks a contact to confirm once more, because its account says so. Within the same bounds as forms: the mailbox is somebody else's. */
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { conflict, tooManyRequests } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { getContact } from './remove.ts'
import { getConfirmationWaitMs, requireConfirmable, scheduleConfirmation } from './subscription-mails.ts'

/**
 * Sends a contact that is not active another confirmation, in place of those before; resolves when it is on disk that it leaves. 404 for list and contact,
 * 409 `contact_active`, `contact_suppressed` and `contact_unsubscribed`, 422 `no_verified_domain`, 429 `confirmation_too_often`.
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
      throw conflict('contact_suppressed', `Nothing is sent to this address (${reason}), so it cannot be asked.`)
    if (contact.status === 'unsubscribed')
      throw conflict(
        'contact_unsubscribed',
        'The contact left the list. Only the person can come back: by a signup form of the list, or by the unsubscribe link in a message it has.',
      )
    requireConfirmable(app, accountId)
    const waitMs = getConfirmationWaitMs(tx.db, contact, app.eventTime())
    if (waitMs > 0)
      throw tooManyRequests(
        'confirmation_too_often',
        'The contact was asked to confirm a short while ago; ask it again later.',
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
