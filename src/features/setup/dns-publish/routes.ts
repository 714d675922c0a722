/** @module Routes of /v1/domains/{id}/publish. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import * as S from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import { getDomain } from '../domains/domains.ts'
import { findDnsProvider, findZone } from '../domains/published-dns.ts'
import { findPublication, forgetCredentials } from './credentials.ts'
import { findDomainConnectUrl } from './domain-connect.ts'
import { PROVIDERS, PublishBody, Published } from './model.ts'
import { publishDomain } from './publish.ts'

const IdParam = Type.Object({ id: Type.String({ description: 'Id of the domain.' }) })

const Field = Type.Object({
  name: S.Text('As in `credentials`.'),
  label: S.Text('What it is.'),
  is_secret: Type.Boolean({ description: 'Whether it is never shown.' }),
  is_required: Type.Boolean({ description: 'Whether it must be given.' }),
  hint: S.TextOrNull('What to enter.'),
})

const Provider = Type.Object({
  name: S.Text('As in `provider`.'),
  title: S.Text('As people call it.'),
  rights: S.Text('The least rights that the credentials need.'),
  token_url: S.TextOrNull('Where they are created; null: no such page.'),
  fields: Type.Array(Field, { description: 'What `credentials` takes.' }),
})

const State = Type.Object({
  provider: S.TextOrNull('The DNS provider whose credentials are kept; null: none are.'),
  zone: S.TextOrNull('The zone that was changed last.'),
  kept_at: S.TimeOrNull('Since when the credentials are kept.'),
  published_at: S.TimeOrNull('When a record was published last.'),
  error: S.TextOrNull('Why the last attempt with kept credentials failed; null: it did not.'),
  suggested_provider: S.TextOrNull('Name of the provider that runs the name servers of the zone; null: unknown.'),
  domain_connect_url: S.TextOrNull('Where the provider itself publishes the records; null: it does not offer that.'),
  providers: Type.Array(Provider, { description: 'All providers that can be chosen.' }),
})
const problems = errorResponses({
  409: ['publish_in_progress', 'The records of the domain are being published.'],
  422: ['dns_unauthorised', 'The provider refuses the credentials, or has no such zone; the message says what to do.'],
  429: ['dns_rate_limited', 'The provider limits requests.'],
})

const UNPUBLISHED = { zone: null, keptAt: null, publishedAt: null, error: null }

export const dnsPublishRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/domains', tags: ['Domains'] })
    .use(authenticated)
    .post(
      '/:id/publish',
      ({ actor, params, body, request }) =>
        withoutTimeLimit(request, async () => dataBody(await publishDomain(app, actor, params.id, body))),
      {
        params: IdParam,
        body: PublishBody,
        response: S.DataBody(Published),
        detail: describeWith('domains:write')(
          'Publish the records of a domain at its DNS provider',
          'Creates or repairs the records that the domain needs, and no others: values of others stay, an SPF record is merged, and what cannot be decided here is a `conflict`. Then checks DNS. May be repeated at any time.',
          problems,
        ),
      },
    )
    .get(
      '/:id/publish',
      async ({ actor, params }) => {
        const domain = getDomain(app.db, actor.accountId, params.id)
        const known = findPublication(app.db, domain)
        const { name: zone, nameServers } = await findZone(app.resolver, domain.domain)
        const title = findDnsProvider(nameServers)?.name
        return dataBody(
          toWire(State, known ?? UNPUBLISHED, {
            provider: known?.fields ? known.provider : null,
            suggested_provider: PROVIDERS.find((one) => one.title === title)?.name ?? null,
            domain_connect_url: await findDomainConnectUrl(app, domain, zone),
            providers: PROVIDERS.map((entry) => {
              const fields = entry.fields.map((field) => toWire(Field, field, { hint: field.hint ?? null }))
              return toWire(Provider, entry, { fields })
            }),
          }),
        )
      },
      {
        params: IdParam,
        response: S.DataBody(State),
        detail: describeWith('domains:read')('Show how the records of a domain can be published'),
      },
    )
    .delete(
      '/:id/publish',
      ({ actor, params }) =>
        app.commit.writeFromReserve((tx) =>
          forgetCredentials(app, tx, actor, getDomain(tx.db, actor.accountId, params.id)),
        ),
      {
        params: IdParam,
        detail: describeWith('domains:write')(
          'Forget the credentials of a DNS provider',
          'The records stay; later changes are not published automatically.',
        ),
      },
    )
