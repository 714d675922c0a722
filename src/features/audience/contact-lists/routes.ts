/**
 * @module /v1/contact-lists and the contacts on them: paths, schemas and one call each. Files and confirmations have
 * separate routes.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { changeList, createList, deleteList, MAX_LISTS } from '#features/setup/contact-store/change-list.ts'
import { listContacts, MAX_COUNTED } from '#features/setup/contact-store/find.ts'
import { getList, listContactLists, MAX_LISTED_BYTES } from '#features/setup/contact-store/lists.ts'
import { invalid } from '#platform/errors.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody, idKey, pageBody } from '#platform/http/envelope.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody, PageBody, PageQuery, parsePage, Text, TextOrNull } from '#platform/http/schemas.ts'
import { createCheck } from '#platform/http/validation.ts'
import { addContact, addContacts } from './add.ts'
import {
  AddedContacts,
  ContactChangeBody,
  ContactItem,
  ContactListBody,
  ContactListRecord,
  ContactListRow,
  ContactQuery,
  ContactRecord,
  contactWire,
  listRowWire,
  listWire,
  MAX_CONTACTS_PER_REQUEST,
  NewContactBody,
  toListInput,
} from './model.ts'
import { changeContact, getContact, removeContact } from './remove.ts'

const tags = ['Contact lists']
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

export const contactListRoutes = (app: App) => {
  const findProblems = createCheck(ContactItem, 'contact')
  return new Elysia({ prefix: '/v1/contact-lists', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { lists, total } = listContactLists(app.db, actor.accountId, page)
        const rows = lists.map((row) => listRowWire(app.db, row, actor.accountUuid))
        return pageBody(rows, { ...page, total }, idKey(lists))
      },
      {
        query: PageQuery,
        response: PageBody(ContactListRow),
        detail: describeRoute(
          'List contact lists',
          requires('contacts:read'),
          `Newest first. Bodies of welcome emails of more than ${MAX_LISTED_BYTES} bytes are left out.`,
        ),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const created = await createList(app, actor, toListInput(body))
        return status(201, dataBody(listWire(app.db, created, actor.accountUuid)))
      },
      {
        body: ContactListBody,
        response: { 201: DataBody(ContactListRecord) },
        detail: describeRoute(
          'Create a contact list',
          requires('contacts:write'),
          `${WELCOME_SCOPE} ${TEMPLATE_ERRORS}`,
          errorResponses({ 409: ['contact_list_exists', `${SAME_NAME}, or ${MAX_LISTS} contact lists.`] }),
        ),
      },
    )
    .get(
      '/:id',
      ({ actor, params }) => dataBody(listWire(app.db, getList(app.db, actor.accountId, params.id), actor.accountUuid)),
      {
        params,
        response: DataBody(ContactListRecord),
        detail: describeRoute('Get a contact list', requires('contacts:read')),
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) => {
        const changed = await changeList(app, actor, params.id, toListInput(body))
        return dataBody(listWire(app.db, changed, actor.accountUuid))
      },
      {
        params,
        body: ContactListBody,
        response: DataBody(ContactListRecord),
        detail: describeRoute(
          'Change a contact list',
          requires('contacts:write'),
          `Fields that are left out keep their value. ${WELCOME_SCOPE} ${TEMPLATE_ERRORS}`,
          errorResponses({ 409: ['contact_list_exists', `${SAME_NAME}.`] }),
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteList(app, actor, params.id), {
      params,
      detail: describeRoute(
        'Delete a contact list',
        requires('contacts:write'),
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
        const rows = contacts.map((contact) => contactWire(contact, of, actor.accountUuid))
        const isUncounted = total >= MAX_COUNTED && startsWith !== undefined
        const more = isUncounted && { hasMore: contacts.length === page.limit }
        return pageBody(rows, { ...page, total, ...more }, lastKey)
      },
      {
        params,
        query: ContactQuery,
        response: PageBody(ContactRecord),
        detail: describeRoute(
          'List contacts',
          requires('contacts:read'),
          'Newest first; with `starts_with` in the order of the addresses.',
        ),
      },
    )
    .post(
      '/:id/contacts',
      async ({ actor, params, body, status }) => {
        const { email, metadata, contacts, confirmed: isConfirmed = false } = body
        if (contacts) {
          if (email !== undefined || metadata !== undefined)
            throw invalid('contacts', 'Set either email, optionally with metadata, or contacts, but not both.')
          return status(
            201,
            await addContacts(app, actor, params.id, contacts, { isConfirmed, findProblems: findProblems }),
          )
        }
        if (email === undefined) throw invalid('email', 'Set email for one contact, or contacts for several.')
        const added = await addContact(app, actor, params.id, { email, metadata }, { isConfirmed })
        return status(201, dataBody(contactWire(added.contact, added.list, actor.accountUuid)))
      },
      {
        params,
        body: NewContactBody,
        response: { 201: AddedContacts },
        detail: describeRoute(
          'Add contacts',
          requires('contacts:write'),
          `One by \`email\`, or up to ${MAX_CONTACTS_PER_REQUEST} by \`contacts\`. On a list with double opt-in they are pending and get a confirmation request by email, in bulk at a limited rate, unless \`confirmed\` is true. An address on the suppression list may be added; it gets no mail.`,
          errorResponses({ 409: ['contact_exists', 'The address of `email` is already on the list.'] }),
        ),
      },
    )
    .get(
      '/:id/contacts/:email',
      ({ actor, params }) => {
        const found = getContact(app.db, actor.accountId, params.id, params.email ?? '')
        return dataBody(contactWire(found.contact, found.list, actor.accountUuid))
      },
      {
        params: contactParams,
        response: DataBody(ContactRecord),
        detail: describeRoute('Get a contact', requires('contacts:read')),
      },
    )
    .patch(
      '/:id/contacts/:email',
      async ({ actor, params, body }) => {
        const changed = await changeContact(app, actor, params.id, params.email ?? '', body.metadata)
        return dataBody(contactWire(changed.contact, changed.list, actor.accountUuid))
      },
      {
        params: contactParams,
        body: ContactChangeBody,
        response: DataBody(ContactRecord),
        detail: describeRoute(
          'Change the metadata of a contact',
          requires('contacts:write'),
          'The provided metadata replaces the previous; null or an empty object clears it.',
        ),
      },
    )
    .delete('/:id/contacts/:email', ({ actor, params }) => removeContact(app, actor, params.id, params.email ?? ''), {
      params: contactParams,
      detail: describeRoute(
        'Remove a contact from a list',
        requires('contacts:write'),
        'It may be added again. If it unsubscribed, its address stays on the suppression list.',
      ),
    })
}
