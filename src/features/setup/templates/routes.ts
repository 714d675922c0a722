/** @module Routes of /v1/templates. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { dataBody, idKey, pageBody } from '#platform/http/envelope.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import {
  NewTemplate,
  RenderBody,
  RenderedTemplate,
  readRenderData,
  TemplateChangeBody,
  TemplateRecord,
  TemplateRow,
  toRenderedWire,
  toTemplateChange,
  toTemplateInput,
  toTemplateRowWire,
  toTemplateWire,
} from './model.ts'
import { previewTemplate } from './preview.ts'
import {
  changeTemplate,
  createTemplate,
  deleteTemplate,
  getTemplate,
  listTemplates,
  MAX_LISTED_BYTES,
  MAX_TEMPLATES,
} from './templates.ts'

const tags = ['Templates']
const params = Type.Object({ id: Type.String({ description: 'Id of the template.' }) })
const SAME_ALIAS = 'The account has a template with this alias'
const TEMPLATE_ERRORS =
  'A part that can never be rendered fails with 422 `template_error`, which says where the error is.'

export const templateRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/templates' })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { templates, total } = listTemplates(app.db, actor.accountId, page)
        return pageBody(
          templates.map((template) => toTemplateRowWire(template, actor.accountUuid)),
          { ...page, total },
          idKey(templates),
        )
      },
      {
        query: PageQuery,
        response: PageBody(TemplateRow),
        detail: {
          summary: 'List templates',
          description: `Newest first. Bodies of more than ${MAX_LISTED_BYTES} bytes are omitted.`,
          tags,
          ...requires('templates:read'),
        },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) =>
        status(
          201,
          dataBody(toTemplateWire(await createTemplate(app, actor, toTemplateInput(body)), actor.accountUuid)),
        ),
      {
        body: NewTemplate,
        response: { 201: DataBody(TemplateRecord) },
        detail: {
          summary: 'Create a template',
          description: TEMPLATE_ERRORS,
          tags,
          ...errorResponses({ 409: ['template_exists', `${SAME_ALIAS}, or ${MAX_TEMPLATES} templates.`] }),
          ...requires('templates:write'),
        },
      },
    )
    .get(
      '/:id',
      ({ actor, params }) =>
        dataBody(toTemplateWire(getTemplate(app.db, actor.accountId, params.id), actor.accountUuid)),
      {
        params,
        response: DataBody(TemplateRecord),
        detail: { summary: 'Get a template', tags, ...requires('templates:read') },
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) =>
        dataBody(
          toTemplateWire(await changeTemplate(app, actor, params.id, toTemplateChange(body)), actor.accountUuid),
        ),
      {
        params,
        body: TemplateChangeBody,
        response: DataBody(TemplateRecord),
        detail: {
          summary: 'Change a template',
          description: `Omitted fields keep their value. ${TEMPLATE_ERRORS} Mail already accepted does not change.`,
          tags,
          ...errorResponses({ 409: ['template_exists', `${SAME_ALIAS}.`] }),
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
          description: 'Emails made from it still refer to it; sends with its alias now fail.',
          tags,
          ...requires('templates:write'),
        },
      },
    )
    .post(
      '/:id/render',
      async ({ actor, params, body }) =>
        dataBody(toRenderedWire(await previewTemplate(app, actor, params.id, readRenderData(body)))),
      {
        params,
        body: RenderBody,
        response: DataBody(RenderedTemplate),
        detail: {
          summary: 'Render a template',
          description:
            'Renders the email for this template and data; nothing is sent. A missing variable fails with 422 `template_error`, which names it.',
          tags,
          ...requires('templates:read'),
        },
      },
    )
