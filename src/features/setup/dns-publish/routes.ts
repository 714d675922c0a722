/** @module Routes of /v1/domains/{id}/publish. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { errorResponses } from '#platform/http/access.ts'
import { dataBody, toWire } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import * as S from '#platform/http/schemas.ts'
import { parseJsonObject } from '#platform/json-object.ts'
import { KiB, seconds } from '#platform/units.ts'
import { runDnsCheck, TOO_MANY_CHECKS } from '../domains/dns-check-slots.ts'
import { type Domain, getDomain } from '../domains/domains.ts'
import { checkRecords, findDnsProvider, findZone, listUsedRecords } from '../domains/published-dns.ts'
import { findPublication, forgetCredentials } from './credentials.ts'
import { PROVIDERS, PublishBody, Published } from './model.ts'
import { isWithin } from './plan.ts'
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
        detail: describeWith('domains:read')(
          'Show how the records of a domain can be published',
          undefined,
          TOO_MANY_CHECKS,
        ),
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

const LIMITS = { timeoutMs: seconds(4), maxResponseBytes: 64 * KiB }

/**
 * The link of Domain Connect (domainconnect.org, version 2): a page of the DNS provider, on which its customer accepts
 * the records of our template. Links are not signed, so providers that demand `syncPubKeyDomain` have no template of ours.
 * Null: the provider of the zone has none, or did not answer. The link has the records that are missing: each is a group
 * of the template, with its value and its host as variables. What is in conflict would be replaced there.
 */
async function findDomainConnectUrl(app: App, domain: Domain, zone: string): Promise<string | null> {
  const [providerId, serviceId] = app.config.domainConnect.split('/')
  const records = listUsedRecords(app, domain)
  if (!serviceId || records.every(([, { verified }]) => verified)) return null
  const answer = await app.resolver.txt(`_domainconnect.${zone}`)
  const [host = ''] = answer.kind === 'ok' ? answer.records : []
  const read = async (url: string) => {
    const outcome = await app.fetch.get(url, { headers: { accept: 'application/json' }, ...LIMITS })
    return outcome.kind === 'response' && outcome.status === 200 ? outcome.body : undefined
  }
  const settings = parseJsonObject((await read(`https://${host}/v2/${zone}/settings`)) ?? '')
  const [apiUrl, pageUrl] = [String(settings?.['urlAPI']), String(settings?.['urlSyncUX'])]
  const path = `/v2/domainTemplates/providers/${providerId}/services/${serviceId}`
  if (!pageUrl.startsWith('https://') || (await read(`${apiUrl}${path}`)) === undefined) return null
  // Hosts in a template are relative to this name.
  const base = domain.domain
  const query = new URLSearchParams({ domain: zone, ...(base !== zone && { host: base.slice(0, -zone.length - 1) }) })
  const groups: string[] = []
  const checks = await runDnsCheck(app, domain.accountId, () => checkRecords(app, domain, app.freshResolver))
  for (const [key, { host: name, value, further_values: further }] of records) {
    if (further || !isWithin(name, base) || checks[key]?.outcome !== 'missing') continue
    if ((await app.freshResolver.cname(name)).kind === 'ok') continue
    groups.push(key)
    query.set(`${key}_host`, name === base ? '@' : name.slice(0, -base.length - 1))
    // The provider merges SPF terms, and adds version and `all` itself.
    query.set(key, key === 'spf' ? value.split(' ').slice(1, -1).join(' ') : value)
  }
  query.set('groupId', groups.join(','))
  // Not every provider reads `+` as a space.
  return groups.length > 0 ? `${pageUrl}${path}/apply?${`${query}`.replaceAll('+', '%20')}` : null
}
