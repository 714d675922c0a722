/** @module Routes of /v1/templates. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { actForAccount } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, commandRoute, describeWith } from '#features/core/app/http.ts'
import { errorResponses } from '#platform/http/access.ts'
import { dataBody, pageBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import type { RenderedParts } from '#platform/template/renderer.ts'
import { renderDraft } from './draft.ts'
import { parseLocale } from './locale.ts'
import * as model from './model.ts'
import type { PreviewStore } from './preview-store.ts'
import { serialiseData, startRenderSession } from './render.ts'
import {
  changeTemplate,
  createTemplate,
  deleteTemplate,
  getTemplate,
  listTemplates,
  MAX_LISTED_BYTES,
  MAX_TEMPLATES,
  requireTemplate,
  restoreVersion,
  type Template,
  toTemplateSource,
} from './templates.ts'
import { getVersion, listVersions } from './versions.ts'

/**
 * All parts of a template, or of the one with its alias for a locale, rendered with `data`, else its test data. Throws
 * 404 when the account has no such template, and 422 for template errors.
 */
export async function previewTemplate(
  app: App,
  actor: Actor,
  id: string,
  data: Readonly<Record<string, unknown>> | undefined,
  locale: string | null = null,
): Promise<RenderedParts> {
  const named = getTemplate(app.db, actor.accountId, id)
  const template = locale === null ? named : requireTemplate(app.db, actor.accountId, { alias: named.alias, locale })
  const source = toTemplateSource(template)
  const dataJson = serialiseData(data ?? model.readTestData(template) ?? {})
  using rendering = startRenderSession(app)
  return await rendering.render({ accountId: actor.accountId, urgency: 'now', source, dataJson })
}

const tags = ['Templates']
const reads = describeWith('templates:read')
const writes = describeWith('templates:write')
const params = Type.Object({ id: Type.String({ description: 'Id of the template.' }) })
const AccountParam = Type.Object({ id: Type.String({ description: 'Id of the account.' }) })
const versionParams = Type.Object({
  id: Type.String({ description: 'Id of the template.' }),
  version: Type.String({ description: 'Number of the version.' }),
})
const ONE = { params, response: DataBody(model.TemplateRecord) }
const CHANGED = '`template_changed`: the template has another version than `if_version`; `version` says which.'
const SAME_ALIAS = 'The account has a template with this alias and locale'
const TEMPLATE_ERRORS =
  'A part that can never be rendered fails with 422 `template_error`, which says where the error is.'

const toBody = (template: Template, { accountUuid }: Actor) => dataBody(model.toTemplateWire(template, accountUuid))

/** Number of a version in a path; no version has the number 0. */
const parseVersion = (text: string): number => (/^\d{1,9}$/.test(text) ? Number(text) : 0)

export interface TemplateRouteOptions {
  readonly previews: PreviewStore
}

export const templateRoutes = (app: App, options: TemplateRouteOptions) =>
  new Elysia({ prefix: '/v1/templates', tags })
    .use(authenticated)
    .use(versionRoutes(app))
    .use(draftRoutes(app, options))
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { rows, total } = listTemplates(app.db, actor.accountId, page, query.search, query.alias)
        return pageById(rows, { ...page, total }, (template) => model.toTemplateRowWire(template, actor.accountUuid))
      },
      {
        query: model.TemplateListQuery,
        response: PageBody(model.TemplateRow),
        detail: reads('List templates', `Newest first. Bodies of more than ${MAX_LISTED_BYTES} bytes are omitted.`),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) =>
        status(201, toBody(await createTemplate(app, actor, model.toTemplateInput(body)), actor)),
      {
        body: model.NewTemplate,
        response: { 201: DataBody(model.TemplateRecord) },
        detail: writes(
          'Create a template',
          TEMPLATE_ERRORS,
          errorResponses({ 409: ['template_exists', `${SAME_ALIAS}, or ${MAX_TEMPLATES} templates.`] }),
        ),
      },
    )
    .get('/:id', ({ actor, params }) => toBody(getTemplate(app.db, actor.accountId, params.id), actor), {
      ...ONE,
      detail: reads('Get a template'),
    })
    .put(
      '/:id',
      async ({ actor, params, body: { if_version: ifVersion, ...body } }) =>
        toBody(await changeTemplate(app, actor, params.id, model.toTemplateChange(body), { ifVersion }), actor),
      {
        ...ONE,
        body: model.TemplateChangeBody,
        detail: writes(
          'Change a template',
          `Omitted fields keep their value. ${TEMPLATE_ERRORS} Mail already accepted does not change.`,
          errorResponses({ 409: ['template_exists', `${SAME_ALIAS}; or ${CHANGED}`] }),
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteTemplate(app, actor, params.id), {
      params,
      detail: writes('Delete a template', 'Emails made from it still refer to it; sends with its alias now fail.'),
    })
    .post(
      '/:id/render',
      async ({ actor, params, body }) => {
        const data = model.readRenderData(body)
        return dataBody(
          model.toRenderedWire(await previewTemplate(app, actor, params.id, data, parseLocale(body.locale))),
        )
      },
      {
        params,
        body: model.RenderBody,
        response: DataBody(model.RenderedTemplate),
        detail: reads(
          'Render a template',
          'Renders the email for this template and data; nothing is sent. A missing variable fails with 422 `template_error`, which names it.',
        ),
      },
    )

const versionRoutes = (app: App) =>
  new Elysia({ tags })
    .use(authenticated)
    .get(
      '/:id/versions',
      ({ actor, params, query }) => {
        const page = parsePage(query)
        const template = getTemplate(app.db, actor.accountId, params.id)
        const { versions, total } = listVersions(app.db, template.id, page)
        return pageBody(versions.map(model.toVersionRowWire), { page: page.page, perPage: page.perPage, total })
      },
      {
        params,
        query: PageQuery,
        response: PageBody(model.TemplateVersionRow),
        detail: reads('List the versions of a template', `Newest first. ${model.VERSIONS_DESCRIPTION}`),
      },
    )
    .get(
      '/:id/versions/:version',
      ({ actor, params }) => {
        const template = getTemplate(app.db, actor.accountId, params.id)
        return dataBody(model.toVersionWire(getVersion(app.db, template.id, parseVersion(params.version))))
      },
      {
        params: versionParams,
        response: DataBody(model.TemplateVersionRecord),
        detail: reads('Get a version of a template'),
      },
    )
    .post(
      '/:id/versions/:version/restore',
      async ({ actor, params, body }) => {
        const version = parseVersion(params.version)
        const restored = await restoreVersion(app, actor, params.id, version, body.if_version)
        return toBody(restored, actor)
      },
      {
        params: versionParams,
        body: model.RestoreBody,
        response: DataBody(model.TemplateRecord),
        detail: writes(
          'Restore a version of a template',
          'Its subject and bodies become a new version; alias and name stay.',
          errorResponses({ 409: ['template_changed', CHANGED] }),
        ),
      },
    )

const draftRoutes = (app: App, { previews }: TemplateRouteOptions) =>
  new Elysia({ tags }).use(authenticated).post(
    '/render',
    async ({ actor, body }) => {
      const { subject, html_body: html, text_body: text } = body
      const draft = { subject: subject ?? undefined, html: html ?? undefined, text: text ?? undefined }
      const rendered = await renderDraft(app, actor, draft, model.readRenderData(body) ?? {})
      const shown = actor.type === 'user' ? rendered.html_body : null
      return dataBody({ ...rendered, preview_id: shown === null ? null : previews.add(actor.accountId, shown) })
    },
    {
      body: model.DraftBody,
      response: DataBody(model.DraftResult),
      detail: reads(
        'Render unsaved text',
        'Renders each part for itself, as a send would, and reports problems with their line. Nothing is stored or sent. An endless loop ends with a problem after a moment, and does not delay your mail.',
      ),
    },
  )

/** `POST /v1/operator/accounts/{id}/templates`: a template of another provider, with its number there. */
export const templateImportRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).post(
    '/accounts/:id/templates',
    async ({ actor, params, body: { foreign_id: foreignId, ...template }, status }) => {
      const owner = actForAccount(app, actor, params.id)
      return status(201, toBody(await createTemplate(app, owner, model.toTemplateInput(template), foreignId), owner))
    },
    {
      params: AccountParam,
      body: model.ImportedTemplate,
      response: { 201: DataBody(model.TemplateRecord) },
      detail: commandRoute('Import a template', 'From another provider, converted into our syntax.', {
        404: ['account_not_found', 'No account has this id.'],
        409: ['template_exists', 'The account has a template with this alias or this number.'],
      }),
    },
  )
