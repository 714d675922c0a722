/** @module Routes of /v1/domains/{id}/publish. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import * as S from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import { getDomain } from '../domains/domains.ts'
import { findDnsProvider, findZone } from '../domains/published-dns.ts'
import { findPublication, forgetCredentials } from './credentials.ts'
import { findDomainConnectUrl } from './domain-connect.ts'
import { PROVIDERS } from './providers.ts'
import { publishDomain } from './publish.ts'

const IdParam = Type.Object({ id: Type.String({ description: 'Id of the domain.' }) })

const Request = S.StrictObject({
  provider: Type.Optional(
    S.StringEnum(
      PROVIDERS.map(({ name }) => name),
      { description: 'Left out: the one whose credentials are kept.' },
    ),
  ),
  credentials: Type.Optional(
    Type.Record(Type.String({ maxLength: 64 }), Type.String({ maxLength: 8192 }), {
      maxProperties: 10,
      description: 'Values by name of field, as `GET` lists them. Left out: those that are kept.',
    }),
  ),
  dry_run: Type.Optional(
    Type.Boolean({ description: 'Plans only: writes nothing, neither at the provider nor here. Default false.' }),
  ),
  keep: Type.Optional(
    Type.Boolean({
      description: 'Whether to keep the credentials, sealed, for later changes of this domain. Default true.',
    }),
  ),
})

const Values = (description: string) => Type.Array(Type.String(), { description })

const PublishedRecord = Type.Object({
  key: S.Text('As in `dns_records` of the domain.'),
  type: S.StringEnum(['TXT', 'MX', 'CNAME'], { description: 'Type of the record.' }),
  name: S.Text('Full name, without a trailing dot.'),
  action: S.StringEnum(['create', 'change', 'leave', 'conflict'], {
    description: '`conflict`: it is for you to decide, as `reason` says; never written.',
  }),
  before: Values('All values at the name when it was read.'),
  after: Values('All values that are to be there; those of others stay.'),
  reason: S.Text('Why this is done, or not.'),
  state: S.StringEnum(['planned', 'published', 'failed', 'unchanged'], {
    description: '`published`: the provider has it.',
  }),
  error: S.TextOrNull('Why it failed; null: it did not.'),
})

const Published = Type.Object({
  provider: S.Text('The DNS provider.'),
  zone: S.Text('The zone that has the records.'),
  dry_run: Type.Boolean({ description: 'Whether nothing was written.' }),
  is_kept: Type.Boolean({ description: 'Whether the credentials are kept.' }),
  records: Type.Array(PublishedRecord, { description: 'In the order in which they are written.' }),
  summary: S.Text('What was done, and what the name servers of the zone show.'),
})
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
  error: S.TextOrNull('Why the last attempt failed; null: it did not.'),
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

/** @param providers others, for tests */
export const dnsPublishRoutes = (app: App, providers = PROVIDERS) =>
  new Elysia({ prefix: '/v1/domains', tags: ['Domains'] })
    .use(authenticated)
    .post(
      '/:id/publish',
      async ({ actor, params, body }) => {
        const { provider, credentials, dry_run: isDryRun, keep: keeps } = body
        const done = await publishDomain(app, actor, params.id, { provider, credentials, isDryRun, keeps }, providers)
        const records = done.records.map((record) => toWire(PublishedRecord, record, {}))
        return dataBody(toWire(Published, done, { dry_run: done.isDryRun, records }))
      },
      {
        params: IdParam,
        body: Request,
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
            suggested_provider: providers.find((one) => one.title === title)?.name ?? null,
            domain_connect_url: await findDomainConnectUrl(app, domain, zone),
            providers: providers.map((entry) => {
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
