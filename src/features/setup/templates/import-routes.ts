/** @module `POST /v1/operator/accounts/{id}/templates`: a template of another provider, with its number there. For commands only. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { actForAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { commandsOnly } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody, StrictObject } from '#platform/http/schemas.ts'
import { NewTemplate, TemplateRecord, toTemplateInput, toTemplateWire } from './model.ts'
import { createTemplate } from './templates.ts'

const ImportedTemplate = StrictObject({
  ...NewTemplate.properties,
  foreign_id: Type.Integer({ description: 'Its number at the provider, by which clients may still name it.' }),
})

export const templateImportRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).post(
    '/accounts/:id/templates',
    async ({ actor, params, body: { foreign_id: foreignId, ...template }, status }) => {
      const owner = actForAccount(app, actor, params.id)
      const created = await createTemplate(app, owner, toTemplateInput(template), foreignId)
      return status(201, dataBody(toTemplateWire(created, owner.accountUuid)))
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the account.' }) }),
      body: ImportedTemplate,
      response: { 201: DataBody(TemplateRecord) },
      detail: {
        ...operatorRoute('Import a template', 'From another provider, converted into our syntax.', {
          404: ['account_not_found', 'No account has this id.'],
          409: ['template_exists', 'The account has a template with this alias or this number.'],
        }),
        ...commandsOnly,
      },
    },
  )
