/** @module /v1/signup-forms: paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { errorResponses } from '#platform/http/access.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage, Text } from '#platform/http/schemas.ts'
import { FormChangeBody, FormRecord, formWire, NewForm, toFormChange, toFormInput } from './model.ts'
import { changeForm, createForm, deleteForm, getForm, listForms, type SignupForm, toggleForm } from './signup-forms.ts'

const tags = ['Signup forms']
const reads = describeWith('contacts:read')
const writes = describeWith('contacts:write')
const params = Type.Object({ id: Text('Id of the signup form.') })

export const signupFormRoutes = (app: App) => {
  const wire = (form: SignupForm) => formWire(form, app.config)
  return new Elysia({ prefix: '/v1/signup-forms', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { forms, total } = listForms(app.db, actor.accountId, page)
        return pageById(forms, { ...page, total }, wire)
      },
      {
        query: PageQuery,
        response: PageBody(FormRecord),
        detail: reads('List signup forms', 'Newest first.'),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const form = await createForm(app, actor, body.list_id, toFormInput(body))
        return status(201, dataBody(wire(form)))
      },
      {
        body: NewForm,
        response: { 201: DataBody(FormRecord) },
        detail: writes(
          'Create a signup form',
          'The page of a contact list, active immediately; a list has at most one. Its address is `form_url`, and `embed_code` embeds it in another page.',
          errorResponses({
            404: ['contact_list_not_found', 'Contact list not found.'],
            409: ['signup_form_exists', 'The contact list already has a signup form.'],
          }),
        ),
      },
    )
    .get('/:id', ({ actor, params }) => dataBody(wire(getForm(app.db, actor.accountId, params.id))), {
      params,
      response: DataBody(FormRecord),
      detail: reads('Get a signup form'),
    })
    .put(
      '/:id',
      async ({ actor, params, body }) => dataBody(wire(await changeForm(app, actor, params.id, toFormChange(body)))),
      {
        params,
        body: FormChangeBody,
        response: DataBody(FormRecord),
        detail: writes(
          'Change a signup form',
          'Fields that are left out keep their value; theme, messages and custom fields are replaced as a whole. The slug stays.',
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteForm(app, actor, params.id), {
      params,
      detail: writes('Delete a signup form', 'Its page is no longer available; contacts that it added stay.'),
    })
    .post('/:id/toggle', async ({ actor, params }) => dataBody(wire(await toggleForm(app, actor, params.id))), {
      params,
      response: DataBody(FormRecord),
      detail: writes(
        'Activate or deactivate a signup form',
        'The page of an inactive form says that the form is not available.',
      ),
    })
}
