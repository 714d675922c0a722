/** @module All routes of Mailgun's interface; here those of domains. */
import { Elysia } from 'elysia'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import type { Parser } from '#features/receiving/inbound/process/parser.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { requireAllowedDomain } from '#features/setup/api-keys/limits.ts'
import {
  createDomain,
  type Domain,
  findDomainByName,
  listDnsRecords,
  listDomains,
} from '#features/setup/domains/domains.ts'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { notFound } from '#platform/errors.ts'
import { acceptsBody, type BodyFormat } from '#platform/http/body.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { namesIgnored } from '../postmark/fields.ts'
import { PREFIXES } from './dialect.ts'
import { listEvents } from './events.ts'
import { addEntries, getEntry, LIST_NAMES, listEntries, removeAllEntries, removeEntry } from './lists.ts'
import { type SendContext, sendMessage, sendMime } from './send.ts'

/** Values from features that this one may not import; `src/app` passes them. */
interface MailgunOptions {
  readonly takeRate: TakeRate
  readonly parser: Pick<Parser, 'parse'>
  readonly deleteDomain: (app: App, actor: Actor, id: string) => Promise<void>
}

const needs = (scope: string, body: BodyFormat = 'json') => ({ detail: { ...requires(scope), ...acceptsBody(body) } })
const SENDS = needs('emails:send', 'form')
const READS = needs('emails:read')
const READS_LISTS = needs('suppressions:read')
const WRITES_LISTS = needs('suppressions:write', 'json-or-form')
const READS_DOMAINS = needs('domains:read')
const WRITES_DOMAINS = needs('domains:write', 'json-or-form')

const domainNotFound = (name: string) => notFound('domain_not_found', `Domain not found: ${name.slice(0, 253)}`)

/** The domain of a path: a registered one, or below one. Throws 404, and 403 where the key may not use it. */
function requireDomain({ db }: App, actor: Actor, text: string): string {
  const name = text.toLowerCase()
  if (!findSendingDomain(db, actor.accountId, name)) throw domainNotFound(name)
  requireAllowedDomain(actor, name)
  return name
}

/** Those below a domain. */
function mailRoutes(app: App, { takeRate, parser }: MailgunOptions, prefix: string) {
  const toUrl = (path: string) => `${trimTrailingSlashes(app.config.publicUrl)}${prefix}/v3/${path}`
  const below = (path: string) =>
    new Elysia({ prefix: `${prefix}/v3/:domain${path}` })
      .use(authenticated)
      .use(namesIgnored)
      .derive(({ actor, params, request }) => {
        const domain = requireDomain(app, actor, (params as { readonly domain: string }).domain)
        return {
          source: { app, actor, domain, url: toUrl(`${domain}${path}`), yieldFairly: () => yieldFairly(request) },
        }
      })
  const mail = below('').derive(({ source: { domain }, actor, body, request, set, ignored }) => {
    const header = request.headers.get('idempotency-key') ?? undefined
    const form = body instanceof FormData ? body : new FormData()
    const admit = () => Object.assign(set.headers, takeRate(actor))
    return { context: { app, actor, domain, ignored, admit, header, form } satisfies SendContext }
  })
  const lists = LIST_NAMES.map((list) =>
    below(`/${list}`)
      .get('/', ({ source, query }) => listEntries(app, source.actor.accountId, list, query, source.url), READS_LISTS)
      .get('/:address', ({ actor, params }) => getEntry(app, actor.accountId, list, params.address), READS_LISTS)
      .post('/', ({ actor, body, ignored }) => addEntries(app, actor, list, body, ignored), WRITES_LISTS)
      .delete('/', ({ actor }) => removeAllEntries(app, actor, list), WRITES_LISTS)
      .delete('/:address', ({ actor, params }) => removeEntry(app, actor, list, params.address), WRITES_LISTS),
  )
  return [
    mail
      .post('/messages', ({ context }) => sendMessage(context), SENDS)
      .post('/messages.mime', ({ context }) => sendMime(context, parser), SENDS),
    below('/events')
      .get('/', ({ source, query }) => listEvents(source, query), READS)
      .get('/:page', ({ source, query, params }) => listEvents(source, query, params.page), READS),
    ...lists,
  ]
}

const toDomain = ({ uuid, domain, verifiedAt, createdAt }: Domain) => ({
  ...{ id: formatUuid(uuid), name: domain, type: 'custom', state: verifiedAt === null ? 'unverified' : 'active' },
  ...{ created_at: new Date(createdAt).toUTCString(), is_disabled: false },
})

function toDomainDetail(app: App, domain: Domain) {
  const { spf, dkim, return_path, mx, tracking } = listDnsRecords(app, domain)
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

function domainRoutes(app: App, { deleteDomain }: MailgunOptions, prefix: string) {
  const get = ({ accountId }: Actor, name: string): Domain => {
    const domain = findDomainByName(app.db, accountId, name.toLowerCase())
    if (!domain) throw domainNotFound(name)
    return domain
  }
  const idOf = (actor: Actor, name: string): string => formatUuid(get(actor, name).uuid)
  return new Elysia({ prefix: `${prefix}/domains` })
    .use(authenticated)
    .use(namesIgnored)
    .get(
      '/',
      ({ actor, query }) => {
        const number = (name: string, fallback: number) =>
          parseQueryInteger(name, query[name], { fallback, minimum: 0, maximum: 1000 })
        const window = { limit: number('limit', 100), offset: number('skip', 0) }
        const { domains, total } = listDomains(app.db, actor.accountId, window)
        return { total_count: total, items: domains.map(toDomain) }
      },
      READS_DOMAINS,
    )
    .post(
      '/',
      async ({ actor, body, ignored }) => {
        const { name, ...others } = isJsonObject(body) ? body : {}
        const { domain } = await createDomain(app, actor, typeof name === 'string' ? name : '')
        for (const field of Object.keys(others)) ignored.add(field)
        return { message: 'Domain has been created', ...toDomainDetail(app, domain) }
      },
      WRITES_DOMAINS,
    )
    .get('/:name', ({ actor, params }) => toDomainDetail(app, get(actor, params.name)), READS_DOMAINS)
    .put(
      '/:name/verify',
      async ({ actor, params }) => {
        const { domain } = await verifyDomain(app, actor, idOf(actor, params.name))
        return { message: 'Domain DNS records have been updated', ...toDomainDetail(app, domain) }
      },
      WRITES_DOMAINS,
    )
    .delete(
      '/:name',
      async ({ actor, params }) => {
        await deleteDomain(app, actor, idOf(actor, params.name))
        return { message: 'Domain has been deleted' }
      },
      WRITES_DOMAINS,
    )
    .get(
      '/:name/tracking',
      ({ actor, params }) => {
        get(actor, params.name)
        const active = getAccount(app.config, app.db, actor.accountId).trackingDefault
        return { tracking: { click: { active }, open: { active }, unsubscribe: { active: false } } }
      },
      READS_DOMAINS,
    )
}

export function mailgunRoutes(app: App, options: MailgunOptions) {
  const routes = new Elysia({ name: 'mailgun' })
  for (const prefix of PREFIXES) {
    for (const plugin of mailRoutes(app, options, prefix)) routes.use(plugin)
    for (const version of ['v3', 'v4']) routes.use(domainRoutes(app, options, `${prefix}/${version}`))
  }
  return routes
}
