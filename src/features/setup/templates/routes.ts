/** @module /v1/templates: paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { idKey, list, one } from '#platform/http/envelope.ts'
import { refuses } from '#platform/http/refusals.ts'
import { ListOf, One, PageQuery, pageOf } from '#platform/http/schemas.ts'
import {
  NewTemplate,
  newTemplateOf,
  RenderBody,
  RenderedTemplate,
  renderDataOf,
  renderedWire,
  TemplateChangeBody,
  TemplateRecord,
  TemplateRow,
  templateChangeOf,
  templateRowWire,
  templateWire,
} from './model.ts'
import { previewTemplate } from './preview.ts'
import {
  changeTemplate,
  createTemplate,
  deleteTemplate,
  getTemplate,
  LARGEST_LISTED_BYTES,
  listTemplates,
  MOST_TEMPLATES,
} from './templates.ts'

const tags = ['Templates']
const params = Type.Object({ id: Type.String({ description: 'Id of the template.' }) })
const SAME_ALIAS = 'The account has a template with this alias'
const FAULTS = 'A part that can never be rendered is a 422 `template_error` that says where.'

export const templateRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/templates' })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = pageOf(query)
        const { templates, total } = listTemplates(app.db, actor.accountId, page)
        return list(
          templates.map((template) => templateRowWire(template, actor.accountUuid)),
          { ...page, total },
          idKey(templates),
        )
      },
      {
        query: PageQuery,
        response: ListOf(TemplateRow),
        detail: {
          summary: 'List templates',
          description: `Newest first. Bodies of more than ${LARGEST_LISTED_BYTES} bytes are left out.`,
          tags,
          ...requires('templates:read'),
        },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) =>
        status(201, one(templateWire(await createTemplate(app, actor, newTemplateOf(body)), actor.accountUuid))),
      {
        body: NewTemplate,
        response: { 201: One(TemplateRecord) },
        detail: {
          summary: 'Create a template',
          description: FAULTS,
          tags,
          ...refuses({ 409: ['template_exists', `${SAME_ALIAS}, or ${MOST_TEMPLATES} templates.`] }),
          ...requires('templates:write'),
        },
      },
    )
    .get(
      '/:id',
      ({ actor, params }) => one(templateWire(getTemplate(app.db, actor.accountId, params.id), actor.accountUuid)),
      {
        params,
        response: One(TemplateRecord),
        detail: { summary: 'Get a template', tags, ...requires('templates:read') },
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) =>
        one(templateWire(await changeTemplate(app, actor, params.id, templateChangeOf(body)), actor.accountUuid)),
      {
        params,
        body: TemplateChangeBody,
        response: One(TemplateRecord),
        detail: {
          summary: 'Change a template',
          description: `Fields that are left out keep their value. ${FAULTS} Mail that was accepted before stays as it is.`,
          tags,
          ...refuses({ 409: ['template_exists', `${SAME_ALIAS}.`] }),
          ...requires('templates:write'),
        },
      },
    )
    .delete(
      '/:id',
      async ({ actor, params, set }) => {
        await deleteTemplate(app, actor, params.id)
        set.status = 204
      },
      {
        params,
        detail: {
          summary: 'Delete a template',
          description: 'Emails that were made from it still name it; sends with its alias are refused from now on.',
          tags,
          ...requires('templates:write'),
        },
      },
    )
    .post(
      '/:id/render',
      async ({ actor, params, body }) =>
        one(renderedWire(await previewTemplate(app, actor, params.id, renderDataOf(body)))),
      {
        params,
        body: RenderBody,
        response: One(RenderedTemplate),
        detail: {
          summary: 'Render a template',
          description:
            'What an email with this template and data would say; nothing is sent. A missing variable is a 422 `template_error` that names it.',
          tags,
          ...requires('templates:read'),
        },
      },
    )
