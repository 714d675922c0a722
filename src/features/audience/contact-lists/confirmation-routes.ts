/** @module /v1/contact-lists/{id}/contacts/{email}/confirmation: repeats a contact's confirmation request. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { conflict, tooManyRequests } from '#platform/errors.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody, Text, TextOrNull } from '#platform/http/schemas.ts'
import { auditContact } from './add.ts'
import { getContact } from './remove.ts'
import {
  getConfirmationWaitMs,
  MAX_CONFIRMATIONS_PER_DAY,
  MIN_CONFIRMATION_INTERVAL_MS,
  requireConfirmable,
  scheduleConfirmation,
} from './subscription-mails.ts'

/**
 * Sends another confirmation request to a contact that is not active; it replaces the earlier ones. Resolves when the
 * request is on disk. Throws 404 for list and contact, 409 `contact_active`, `contact_suppressed` and
 * `contact_unsubscribed`, 422 `no_verified_domain`, 429 `confirmation_too_often`.
 */
const resendConfirmation = (app: App, actor: Actor, listId: string, email: string): Promise<void> =>
  app.commit.write((tx) => {
    const { accountId } = actor
    const { contact, list } = getContact(tx.db, accountId, listId, email)
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
    auditContact(app, tx, actor, 'confirmation_requested', contact, list)
  })

const isUndeliverable = (status: string): boolean => status === 'bounced' || status === 'complained'

const MINUTES = MIN_CONFIRMATION_INTERVAL_MS / 60_000

export const contactConfirmationRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/contact-lists', tags: ['Contact lists'] }).use(authenticated).post(
    '/:id/contacts/:email/confirmation',
    async ({ actor, params, status }) => {
      await resendConfirmation(app, actor, params.id, params.email ?? '')
      return status(202, dataBody({ message: 'A confirmation request is being sent to the contact.' }))
    },
    {
      params: Type.Object({
        id: Text('Id of the list.'),
        // Null when its percent-encoding is invalid; then it is not an address either.
        email: TextOrNull('The address, URL-encoded, in any spelling.'),
      }),
      response: { 202: DataBody(Type.Object({ message: Text('What happens now.') })) },
      detail: describeRoute(
        'Send the confirmation again',
        requires('contacts:write'),
        `For a contact that is \`pending\`. The links of earlier confirmations no longer work. At most one in ${MINUTES} minutes and ${MAX_CONFIRMATIONS_PER_DAY} a day.`,
        errorResponses({
          409: [
            'contact_active',
            'The contact has confirmed, is suppressed (`contact_suppressed`), or has left (`contact_unsubscribed`).',
          ],
          429: ['confirmation_too_often', 'The last confirmation request was sent a short while ago.'],
        }),
      ),
    },
  )
