/**
 * @module /v1/contact-lists and the contacts on them: paths, schemas and one call each. Files have
 * routes of their own.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { changeList, createList, deleteList, MAX_LISTS } from '#features/setup/contact-store/change-list.ts'
import { listContacts, MAX_COUNTED } from '#features/setup/contact-store/find.ts'
import { getList, listContactLists, MAX_LISTED_BYTES } from '#features/setup/contact-store/lists.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { conflict, invalid, tooManyRequests } from '#platform/errors.ts'
import { errorResponses } from '#platform/http/access.ts'
import { dataBody, pageBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage, Text, TextOrNull } from '#platform/http/schemas.ts'
import { createCheck } from '#platform/http/validation.ts'
import { addContact, addContacts, auditContact, changeContact, getContact, removeContact } from './contacts.ts'
import * as model from './model.ts'
import {
  getConfirmationWaitMs,
  MAX_CONFIRMATIONS_PER_DAY,
  MIN_CONFIRMATION_INTERVAL_MS,
  requireConfirmable,
  scheduleConfirmation,
} from './subscription-mails.ts'

const tags = ['Contact lists']
const reads = describeWith('contacts:read')
const writes = describeWith('contacts:write')
const params = Type.Object({ id: Text('Id of the list.') })
const contactParams = Type.Object({
  id: Text('Id of the list.'),
  // Null when its percent-encoding is invalid; then it is not an address either.
  email: TextOrNull('The address, URL-encoded, in any spelling.'),
})
const SAME_NAME = 'The account already has a contact list with this name'
const WELCOME_SCOPE =
  'Enabling the welcome email, or changing it while it is enabled, also requires the scope `emails:send`.'
const TEMPLATE_ERRORS =
  'If a part of the welcome email can never be rendered, the response is a 422 `template_error` with the position of the error.'

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

export const contactListRoutes = (app: App) => {
  const findProblems = createCheck(model.ContactItem, 'contact')
  return new Elysia({ prefix: '/v1/contact-lists', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { lists, total } = listContactLists(app.db, actor.accountId, page)
        return pageById(lists, { ...page, total }, (row) => model.listRowWire(app.db, row, actor.accountUuid))
      },
      {
        query: PageQuery,
        response: PageBody(model.ContactListRow),
        detail: reads(
          'List contact lists',
          `Newest first. Bodies of welcome emails of more than ${MAX_LISTED_BYTES} bytes are left out.`,
        ),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const created = await createList(app, actor, model.toListInput(body))
        return status(201, dataBody(model.listWire(app.db, created, actor.accountUuid)))
      },
      {
        body: model.ContactListBody,
        response: { 201: DataBody(model.ContactListRecord) },
        detail: writes(
          'Create a contact list',
          `${WELCOME_SCOPE} ${TEMPLATE_ERRORS}`,
          errorResponses({ 409: ['contact_list_exists', `${SAME_NAME}, or ${MAX_LISTS} contact lists.`] }),
        ),
      },
    )
    .get(
      '/:id',
      ({ actor, params }) =>
        dataBody(model.listWire(app.db, getList(app.db, actor.accountId, params.id), actor.accountUuid)),
      {
        params,
        response: DataBody(model.ContactListRecord),
        detail: reads('Get a contact list'),
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) => {
        const changed = await changeList(app, actor, params.id, model.toListInput(body))
        return dataBody(model.listWire(app.db, changed, actor.accountUuid))
      },
      {
        params,
        body: model.ContactListBody,
        response: DataBody(model.ContactListRecord),
        detail: writes(
          'Change a contact list',
          `Fields that are left out keep their value. ${WELCOME_SCOPE} ${TEMPLATE_ERRORS}`,
          errorResponses({ 409: ['contact_list_exists', `${SAME_NAME}.`] }),
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteList(app, actor, params.id), {
      params,
      detail: writes(
        'Delete a contact list',
        'With its contacts and its signup form. Contacts that left it stay on the suppression list.',
      ),
    })
    .get(
      '/:id/contacts',
      ({ actor, params, query }) => {
        const page = parsePage(query)
        const of = getList(app.db, actor.accountId, params.id)
        const { status, email, starts_with: startsWith } = query
        if (email !== undefined && startsWith !== undefined)
          throw invalid('starts_with', 'Set either email, for one address, or starts_with, but not both.')
        const { contacts, total, lastKey } = listContacts(app.db, of, { status, email, startsWith }, page)
        const rows = contacts.map((contact) => model.contactWire(contact, of, actor.accountUuid))
        const isUncounted = total >= MAX_COUNTED && startsWith !== undefined
        const more = isUncounted && { hasMore: contacts.length === page.limit }
        return pageBody(rows, { ...page, total, ...more }, lastKey)
      },
      {
        params,
        query: model.ContactQuery,
        response: PageBody(model.ContactRecord),
        detail: reads('List contacts', 'Newest first; with `starts_with` in the order of the addresses.'),
      },
    )
    .post(
      '/:id/contacts',
      async ({ actor, params, body, status }) => {
        const { email, metadata, contacts, confirmed: isConfirmed = false } = body
        if (contacts) {
          if (email !== undefined || metadata !== undefined)
            throw invalid('contacts', 'Set either email, optionally with metadata, or contacts, but not both.')
          return status(201, await addContacts(app, actor, params.id, contacts, { isConfirmed, findProblems }))
        }
        if (email === undefined) throw invalid('email', 'Set email for one contact, or contacts for several.')
        const added = await addContact(app, actor, params.id, { email, metadata }, { isConfirmed })
        return status(201, dataBody(model.contactWire(added.contact, added.list, actor.accountUuid)))
      },
      {
        params,
        body: model.NewContactBody,
        response: { 201: model.AddedContacts },
        detail: writes(
          'Add contacts',
          `One by \`email\`, or up to ${model.MAX_CONTACTS_PER_REQUEST} by \`contacts\`. On a list with double opt-in they are pending and get a confirmation request by email, in bulk at a limited rate, unless \`confirmed\` is true. An address on the suppression list may be added; it gets no mail.`,
          errorResponses({ 409: ['contact_exists', 'The address of `email` is already on the list.'] }),
        ),
      },
    )
    .get(
      '/:id/contacts/:email',
      ({ actor, params }) => {
        const found = getContact(app.db, actor.accountId, params.id, params.email ?? '')
        return dataBody(model.contactWire(found.contact, found.list, actor.accountUuid))
      },
      {
        params: contactParams,
        response: DataBody(model.ContactRecord),
        detail: reads('Get a contact'),
      },
    )
    .patch(
      '/:id/contacts/:email',
      async ({ actor, params, body }) => {
        const changed = await changeContact(app, actor, params.id, params.email ?? '', body.metadata)
        return dataBody(model.contactWire(changed.contact, changed.list, actor.accountUuid))
      },
      {
        params: contactParams,
        body: model.ContactChangeBody,
        response: DataBody(model.ContactRecord),
        detail: writes(
          'Change the metadata of a contact',
          'The provided metadata replaces the previous; null or an empty object clears it.',
        ),
      },
    )
    .delete('/:id/contacts/:email', ({ actor, params }) => removeContact(app, actor, params.id, params.email ?? ''), {
      params: contactParams,
      detail: writes(
        'Remove a contact from a list',
        'It may be added again. If it unsubscribed, its address stays on the suppression list.',
      ),
    })
    .post(
      '/:id/contacts/:email/confirmation',
      async ({ actor, params, status }) => {
        await resendConfirmation(app, actor, params.id, params.email ?? '')
        return status(202, dataBody({ message: 'A confirmation request is being sent to the contact.' }))
      },
      {
        params: contactParams,
        response: { 202: DataBody(Type.Object({ message: Text('What happens now.') })) },
        detail: writes(
          'Send the confirmation again',
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
}
