/** @module `POST /v1/operator/accounts/{id}/domains/{domain_id}/verify-without-dns`: an operator vouches for a domain. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { actForAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { commandsOnly } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { DomainWire, toDomainWire } from './model.ts'
import { vouchForDomain } from './verify.ts'

export const operatorDomainRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).post(
    '/accounts/:id/domains/:domain_id/verify-without-dns',
    async ({ actor, params }) => {
      const owner = actForAccount(app, actor, params.id)
      return dataBody(toDomainWire(app, await vouchForDomain(app, owner, params.domain_id)))
    },
    {
      params: Type.Object({
        id: Type.String({ description: 'Id of the account.' }),
        domain_id: Type.String({ description: 'Id of the domain.' }),
      }),
      response: DataBody(DomainWire),
      detail: {
        ...operatorRoute(
          'Mark a domain verified without a DNS check',
          'For networks without DNS. Expires 72 hours after a check that finds no records.',
          { 404: ['domain_not_found', 'The account has no domain with this id, or there is no such account.'] },
        ),
        ...commandsOnly,
      },
    },
  )
