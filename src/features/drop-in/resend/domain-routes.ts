/** @module Domains: create, read, list, change, verify, delete. */
import type { Static } from '@sinclair/typebox'
import type { Actor, App } from '#features/core/app/app.ts'
import * as domains from '#features/setup/domains/domains.ts'
import { listFormerDkimRecords } from '#features/setup/domains/model.ts'
import { findRegistrableDomain } from '#features/setup/domains/name.ts'
import { setTrackingDomain } from '#features/setup/domains/set-tracking.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { OptionalNullable, StringEnum } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { type Call, Fields, ignoreUnknown, on, takes } from '../dialects/routes.ts'
import { deletes, MAYBE_TEXT, pageOfRows, shows, TEXT, toReference } from './route.ts'

/** Deleting a domain also ends its mail; `app` passes the use case of another feature. */
export interface DomainRouteOptions {
  readonly deleteDomain: (app: App, actor: Actor, id: string) => Promise<void>
}

const READS = 'domains:read'
const WRITES = 'domains:write'

/** Region, TLS, return path and tracking by domain do not exist here. */
const CHANGES = Fields({
  capabilities: OptionalNullable(Fields({ receiving: OptionalNullable(StringEnum(['enabled', 'disabled'])) })),
  tracking_subdomain: MAYBE_TEXT,
})
const NEW_DOMAIN = Fields({ name: TEXT, ...CHANGES.properties })

export const domainRoutes = ({ deleteDomain }: DomainRouteOptions) => [
  on('GET /domains', READS, (call) =>
    pageOfRows(call, 'domains', domains.getDomain, (...of) => domains.listDomains(...of).domains, toListedDomain),
  ),
  takes('POST /domains', WRITES, NEW_DOMAIN, async (call) => {
    const { app, actor } = call
    const { domain } = await domains.createDomain(app, actor, call.body.name)
    const changed = await applyChanges(call, domain).catch(async (error: unknown) => {
      // A client that gets an error repeats the whole request.
      await deleteDomain(app, actor, formatUuid(domain.uuid))
      throw error
    })
    return { object: 'domain', ...toDomainDetail(changed, app) }
  }),
  on('GET /domains/:id', READS, shows('domain', domains.getDomain, toDomainDetail)),
  takes('PATCH /domains/:id', WRITES, CHANGES, async (call) =>
    toReference('domain', await applyChanges(call, domains.getDomain(call.db, call.accountId, call.id))),
  ),
  on('POST /domains/:id/verify', WRITES, async ({ app, actor, id }) =>
    toReference('domain', (await verifyDomain(app, actor, id)).domain),
  ),
  on('DELETE /domains/:id', WRITES, deletes('domain', deleteDomain)),
]

async function applyChanges(call: Call<Static<typeof CHANGES>>, { uuid, domain }: domains.Domain) {
  const { app, actor, body } = call
  const { capabilities, tracking_subdomain: subdomain } = body
  const id = formatUuid(uuid)
  const { receiving, ...others } = capabilities ?? {}
  ignoreUnknown(call, others, [], 'capabilities.')
  if (receiving) await domains.changeDomain(app, actor, id, { inboundEnabled: receiving === 'enabled' })
  if (subdomain) await setTrackingDomain(app, actor, id, `${subdomain}.${domain}`)
  return domains.getDomain(app.db, actor.accountId, id)
}

type Capability = 'enabled' | 'disabled'
const toCapability = (isEnabled: boolean): Capability => (isEnabled ? 'enabled' : 'disabled')

export const toListedDomain = (domain: domains.Domain) => ({
  id: formatUuid(domain.uuid),
  name: domain.domain,
  status: toStatus(domain),
  created_at: isoTime(domain.createdAt),
  // The only one of the clients' regions in which this service may be.
  region: 'eu-west-1' as const,
  capabilities: { sending: toCapability(true), receiving: toCapability(domain.inboundEnabled) },
  ...(domain.trackingDomain !== null && { tracking_subdomain: toSubdomain(domain.trackingDomain, domain.domain) }),
})

export const toDomainDetail = (domain: domains.Domain, app: domains.DnsSource & Pick<App, 'clock'>) => ({
  ...toListedDomain(domain),
  records: toRecords(app, domain, app.clock.now()),
})

function toStatus({ verifiedAt, recordsLostAt, checkedAt }: domains.Domain) {
  if (verifiedAt !== null) return recordsLostAt === null ? ('verified' as const) : ('partially_failed' as const)
  if (recordsLostAt !== null) return 'failed' as const
  return toOpenStatus({ checkedAt })
}

const toOpenStatus = ({ checkedAt }: Pick<domains.Domain, 'checkedAt'>) =>
  checkedAt === null ? ('not_started' as const) : ('pending' as const)

type DnsRecord = ReturnType<typeof domains.listDnsRecords>['spf']

/**
 * The records that the domain needs, named below its registrable domain, as DNS providers want them typed. During a
 * rotation of DKIM keys also those of the next keys, which wait, and of former ones, as long as they must stay.
 */
function toRecords(app: domains.DnsSource, domain: domains.Domain, now: Millis) {
  const { spf, return_path, dkim, dkim_next, dkim_ed25519_next, mx, tracking } = domains.listDnsRecords(app, domain)
  const dkimRecords = [
    dkim,
    dkim_next,
    domain.isEd25519Verified ? dkim_ed25519_next : undefined,
    ...listFormerDkimRecords(domain, now),
  ]
  const zone = findRegistrableDomain(domain.domain) ?? domain.domain
  const toRecord = ({ host, value, verified }: DnsRecord) => ({
    name: toSubdomain(host, zone),
    value,
    ttl: 'Auto',
    status: verified ? ('verified' as const) : toOpenStatus(domain),
  })
  const toMx = (record: DnsRecord) =>
    [record.value, ...(record.further_values ?? [])].map((value) => ({
      ...toRecord({ ...record, value }),
      type: 'MX' as const,
      priority: record.priority ?? 10,
    }))
  return [
    ...toMx(return_path).map((record) => ({ record: 'SPF' as const, ...record })),
    { record: 'SPF' as const, ...toRecord(spf), type: 'TXT' as const },
    ...dkimRecords
      .filter((record) => record !== undefined)
      .map((record) => ({ record: 'DKIM' as const, ...toRecord(record), type: 'TXT' as const })),
    ...(domain.inboundEnabled ? toMx(mx).map((record) => ({ record: 'Receiving' as const, ...record })) : []),
    ...(tracking ? [{ record: 'Tracking' as const, ...toRecord(tracking), type: 'CNAME' as const }] : []),
  ]
}

/** A name without the domain that it ends in; `@` for the domain itself. */
function toSubdomain(host: string, domain: string): string {
  if (host === domain) return '@'
  return host.endsWith(`.${domain}`) ? host.slice(0, -domain.length - 1) : host
}
