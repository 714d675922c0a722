/** @module All routes of Mailgun's interface; here those of domains. */
import type { Actor, App } from '#features/core/app/app.ts'
import type { Parser } from '#features/receiving/inbound/process/parser.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import * as domains from '#features/setup/domains/domains.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { listEvents } from './events.ts'
import { listRoutes } from './lists.ts'
import { type Call, createRoutes, domainNotFound, on } from './route.ts'
import { sendMessage, sendMime } from './send.ts'

/** Values from features that this one may not import; `src/app` passes them. */
interface MailgunOptions {
  readonly takeRate: TakeRate
  readonly parser: Pick<Parser, 'parse'>
  readonly deleteDomain: (app: App, actor: Actor, id: string) => Promise<void>
}

const READS = 'domains:read'
const WRITES = 'domains:write'

function domainRoutes(path: string, deleteDomain: MailgunOptions['deleteDomain']) {
  return [
    on(`GET ${path}`, READS, ({ app, actor, query }) => {
      const number = (name: string, fallback: number) =>
        parseQueryInteger(name, query[name], { fallback, minimum: 0, maximum: 1000 })
      const window = { limit: number('limit', 100), offset: number('skip', 0) }
      const listed = domains.listDomains(app.db, actor.accountId, window)
      return { total_count: listed.total, items: listed.domains.map(toDomain) }
    }),
    on(`POST ${path}`, WRITES, async ({ app, actor, body, ignored }) => {
      const { name, ...others } = isJsonObject(body) ? body : {}
      const { domain } = await domains.createDomain(app, actor, typeof name === 'string' ? name : '')
      for (const field of Object.keys(others)) ignored.add(field)
      return { message: 'Domain has been created', ...toDomainDetail(app, domain) }
    }),
    on(`GET ${path}/:name`, READS, (call) => toDomainDetail(call.app, getDomain(call))),
    on(`PUT ${path}/:name/verify`, WRITES, async (call) => {
      const { domain } = await verifyDomain(call.app, call.actor, formatUuid(getDomain(call).uuid))
      return { message: 'Domain DNS records have been updated', ...toDomainDetail(call.app, domain) }
    }),
    on(`DELETE ${path}/:name`, WRITES, async (call) => {
      await deleteDomain(call.app, call.actor, formatUuid(getDomain(call).uuid))
      return { message: 'Domain has been deleted' }
    }),
  ]
}

function getDomain({ app, actor, name = '' }: Call): domains.Domain {
  const domain = domains.findDomainByName(app.db, actor.accountId, name.toLowerCase())
  if (!domain) throw domainNotFound(name)
  return domain
}

const toDomain = ({ uuid, domain, verifiedAt, createdAt }: domains.Domain) => ({
  ...{ id: formatUuid(uuid), name: domain, type: 'custom', state: verifiedAt === null ? 'unverified' : 'active' },
  ...{ created_at: new Date(createdAt).toUTCString(), is_disabled: false },
})

function toDomainDetail(app: App, domain: domains.Domain) {
  const { spf, dkim, return_path, mx, tracking } = domains.listDnsRecords(app, domain)
  const toRecord = ({ type, host, value, priority, verified }: typeof spf) => ({
    ...{ record_type: type, name: host, value, priority: String(priority ?? '') },
    ...{ valid: verified ? 'valid' : 'unknown', cached: [] },
  })
  return {
    domain: toDomain(domain),
    sending_dns_records: [spf, dkim, return_path, ...(tracking ? [tracking] : [])].map(toRecord),
    receiving_dns_records: domain.inboundEnabled ? [toRecord(mx)] : [],
  }
}

export function mailgunRoutes(app: App, { takeRate, parser, deleteDomain }: MailgunOptions) {
  const admits = (call: Call) => () => void Object.assign(call.headers, takeRate(call.actor))
  return createRoutes(app, [
    on('POST /v3/:domain/messages', 'emails:send', (call) => sendMessage(call, admits(call)), 'form'),
    on('POST /v3/:domain/messages.mime', 'emails:send', (call) => sendMime(call, parser, admits(call)), 'form'),
    on('GET /v3/:domain/events', 'emails:read', listEvents),
    on('GET /v3/:domain/events/:name', 'emails:read', listEvents),
    ...listRoutes,
    ...['/v3/domains', '/v4/domains'].flatMap((path) => domainRoutes(path, deleteDomain)),
  ])
}
