/**
 * @module Stores inbound routes: which addresses of a domain belong together, and where their mail is posted.
 * `route-rules/rows.ts` matches addresses to routes; `webhooks` delivers events, through a webhook that each route
 * with a URL owns. Parses the pattern of a route, and states what would happen now to mail for an address.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange, createSystemActor } from '#features/core/audit-logs/audit.ts'
import { findMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import {
  deleteRouteRow,
  findRoute,
  insertRoute,
  isForwardTarget,
  type MatchType,
  matchTypeCode,
  matchTypeName,
  type RouteFields,
  toRouteKey,
  updateRoute,
} from '#features/receiving/route-rules/rows.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { type Domain, findDomain, findDomainByName } from '#features/setup/domains/domains.ts'
import {
  beforeRouteChange,
  deleteRouteWebhook,
  requireCallable,
  setRouteWebhook,
} from '#features/webhooks/webhooks/manage/change.ts'
import { findRouteWebhook, type Webhook } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { newestFirst, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { formatUuid, newUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'

type WebhookState = Pick<Webhook, 'failureCount' | 'lastFailureAt' | 'lastFailureReason' | 'lastSuccessAt'>

/** A route with its domain and the state of its webhook: without a URL no failures and no times. */
export interface InboundRoute extends Omit<RouteFields, 'forwardTo'>, WebhookState {
  readonly forwardTo: readonly string[]
  readonly id: number
  readonly uuid: UuidBytes
  readonly accountId: number
  readonly domainUuid: UuidBytes
  readonly domain: string
  readonly createdAt: Millis
  readonly updatedAt: Millis
}

interface Row extends Omit<InboundRoute, 'matchType' | 'isActive' | 'forwardTo'>, Pick<RouteFields, 'forwardTo'> {
  readonly matchType: number
  readonly isActive: number
}

/** Routes per account. */
export const MAX_ROUTES = 1000
/** Addresses that a route forwards to. */
export const MAX_TARGETS = 5

// Excludes routes of deleted domains, which accounts no longer see; `removeOrphanedRoutes` deletes their rows.
const TABLES = `inbound_routes r JOIN domains ON domains.id = r.domain_id AND domains.deleted_at IS NULL
  LEFT JOIN webhooks w ON w.route_id = r.id AND w.deleted_at IS NULL AND r.webhook_url IS NOT NULL`
const SELECT = `SELECT r.id, r.uuid, r.account_id AS accountId, r.domain_id AS domainId, domains.uuid AS domainUuid, domain, pattern,
  given_pattern AS givenPattern, match_type AS matchType, priority, webhook_url AS webhookUrl, forward_to AS forwardTo, r.is_active AS isActive, r.created_at AS createdAt,
  r.updated_at AS updatedAt, coalesce(failure_count, 0) AS failureCount, last_failure_at AS lastFailureAt,
  last_failure_reason AS lastFailureReason, last_success_at AS lastSuccessAt FROM ${TABLES}`

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Row, [Uint8Array, number]>(`${SELECT} WHERE r.uuid = ? AND r.account_id = ?`),
  byId: db.prepare<Row, [number]>(`${SELECT} WHERE r.id = ?`),
  list: newestFirst<Row, [number]>(db, SELECT, `${TABLES} WHERE r.account_id = ?`, 'r.id'),
  same: db.prepare<{ uuid: Uint8Array }, [number, string, number, number]>(
    'SELECT uuid FROM inbound_routes WHERE domain_id = ? AND pattern = ? AND match_type = ? AND id <> ?',
  ),
  orphaned: db.prepare<{ id: number; uuid: Uint8Array; accountId: number; accountUuid: Uint8Array }, [number]>(
    `SELECT r.id, r.uuid, r.account_id AS accountId, accounts.uuid AS accountUuid FROM inbound_routes r JOIN accounts ON accounts.id = r.account_id
     LEFT JOIN domains ON domains.id = r.domain_id AND domains.deleted_at IS NULL WHERE domains.id IS NULL LIMIT ?`,
  ),
}))

const parseTargets = ({ forwardTo }: Pick<RouteFields, 'forwardTo'>): string[] => JSON.parse(forwardTo ?? '[]')

const toRoute = (row: Row): InboundRoute => ({
  ...row,
  matchType: matchTypeName(row.matchType),
  isActive: row.isActive === 1,
  forwardTo: parseTargets(row),
})

/** The account's route; throws 404 when it has none with this id. */
export function getRoute(db: Database, accountId: number, id: string): InboundRoute {
  const uuid = parseUuid(id)
  const row = uuid && sql(db).byUuid.get(uuid, accountId)
  if (!row) throw notFoundById('inbound_route_not_found', 'inbound route')
  return toRoute(row)
}

/** The route with a row id, of any account; undefined once it is deleted. */
export function findRouteById(db: Database, id: number): InboundRoute | undefined {
  const row = sql(db).byId.get(id)
  return row ? toRoute(row) : undefined
}

/** The webhook of the account's route. Throws 404, and 409 `webhook_inactive` when it never had a URL. */
export function getRouteWebhook(db: Database, accountId: number, id: string): Webhook {
  const webhook = findRouteWebhook(db, getRoute(db, accountId, id).id)
  if (!webhook)
    throw conflict('webhook_inactive', 'The route has no webhook_url, so nothing is sent; set one with PUT first.')
  return webhook
}

export function listRoutes(db: Database, accountId: number, page: RowWindow) {
  const { rows, total } = sql(db).list(page, accountId)
  return { rows: rows.map(toRoute), total }
}

export interface RouteInput extends Omit<RouteFields, 'domainId' | 'givenPattern' | 'forwardTo'> {
  readonly domainId: string
  /** Absent: none. Those that are stored are not checked again, so that a route whose target left can be changed. */
  readonly forwardTo?: readonly string[] | undefined
  readonly storedTargets?: readonly string[]
}

/** The checked fields of a route, in stored form. */
interface CheckedRoute extends Omit<RouteFields, 'domainId'> {
  readonly domain: Domain
}

/**
 * Creates a route. Throws 403 for a route with a URL when the actor may not read received mail, 422 for an invalid
 * domain, pattern or URL, 409 `inbound_route_exists` when the domain has a route with the same pattern and match type,
 * 409 `inbound_route_limit_reached`.
 */
export async function createRoute(app: App, actor: Actor, input: RouteInput): Promise<InboundRoute> {
  checkRoute(app.db, actor, input)
  if (input.webhookUrl !== null) await requireCallable(app, actor, input.webhookUrl, 'webhook_url')
  return await app.commit.write((tx) => {
    // Checked again, because the domain may have been deleted since the first check.
    const checked = checkRoute(tx.db, actor, input)
    if (listRoutes(tx.db, actor.accountId, { limit: 0, offset: 0 }).total >= MAX_ROUTES)
      throw conflict(
        'inbound_route_limit_reached',
        `An account has at most ${MAX_ROUTES} inbound routes; delete one, or use match_type prefix or catch_all for several addresses.`,
      )
    requireUnique(tx.db, checked, 0)
    const uuid = newUuid()
    const now = app.eventTime()
    const routeId = insertRoute(tx, { uuid, accountId: actor.accountId, ...toRouteFields(checked) }, now)
    setRouteWebhook(app, tx, actor, { id: routeId, uuid }, checked)
    auditChange(app, tx, actor, 'inbound_route.created', uuid, toAuditMetadata(checked))
    return getRoute(tx.db, actor.accountId, formatUuid(uuid))
  })
}

/** Undefined fields keep their value. */
export type RouteChange = { readonly [Field in keyof RouteInput]?: RouteInput[Field] | undefined }

/**
 * Changes the provided fields; throws 422 when there are none. Any change reactivates a webhook that failures
 * deactivated. Throws 404 for an unknown route; 403, 422 and 409 like `createRoute`.
 */
export async function changeRoute(app: App, actor: Actor, id: string, change: RouteChange): Promise<InboundRoute> {
  const current = getRoute(app.db, actor.accountId, id)
  if (Object.values(change).every((value) => value === undefined))
    throw invalid(
      'body',
      'Provide at least one of domain_id, pattern, match_type, priority, webhook_url, forward_to and is_active.',
    )
  checkRoute(app.db, actor, applyChange(current, change))
  if (typeof change.webhookUrl === 'string') await requireCallable(app, actor, change.webhookUrl, 'webhook_url')
  await beforeRouteChange(app, current.id)
  return await app.commit.write((tx) => {
    const before = getRoute(tx.db, actor.accountId, id)
    const checked = checkRoute(tx.db, actor, applyChange(before, change))
    requireUnique(tx.db, checked, before.id)
    updateRoute(tx, before.id, toRouteFields(checked), app.eventTime())
    setRouteWebhook(app, tx, actor, before, checked)
    auditChange(app, tx, actor, 'inbound_route.updated', before.uuid, toAuditMetadata(checked))
    return getRoute(tx.db, actor.accountId, id)
  })
}

/** Deletes a route; the next matching one gets its mail. Mail that it received is kept. Throws 404. */
export async function deleteRoute(app: App, actor: Actor, id: string): Promise<void> {
  await app.commit.writeFromReserve((tx) => removeRoute(app, tx, actor, getRoute(tx.db, actor.accountId, id)))
}

function removeRoute(app: App, tx: Tx, actor: Actor, { id, uuid }: Pick<InboundRoute, 'id' | 'uuid'>): void {
  deleteRouteWebhook(app, tx, id)
  deleteRouteRow(tx, id)
  auditChange(app, tx, actor, 'inbound_route.deleted', uuid)
}

/** Routes removed in one transaction. */
const ORPHAN_BATCH_SIZE = 50

/** Removes the routes of deleted domains. Returns how many. Called about every hour, one run at a time. */
export async function removeOrphanedRoutes(app: App): Promise<number> {
  for (let removed = 0; ; ) {
    const count = await app.commit.writeFromReserve((tx) => {
      const rows = sql(tx.db).orphaned.all(ORPHAN_BATCH_SIZE)
      for (const row of rows) removeRoute(app, tx, createSystemActor(row), row)
      return rows.length
    })
    removed += count
    if (count < ORPHAN_BATCH_SIZE) return removed
  }
}

const applyChange = (route: InboundRoute, change: RouteChange): RouteInput => ({
  domainId: change.domainId ?? formatUuid(route.domainUuid),
  pattern: change.pattern ?? route.givenPattern,
  matchType: change.matchType ?? route.matchType,
  priority: change.priority ?? route.priority,
  webhookUrl: change.webhookUrl === undefined ? route.webhookUrl : change.webhookUrl,
  forwardTo: change.forwardTo ?? route.forwardTo,
  storedTargets: route.forwardTo,
  isActive: change.isActive ?? route.isActive,
})

/** Runs all checks that need no network. */
function checkRoute(db: Database, actor: Actor, input: RouteInput): CheckedRoute {
  const { accountId } = actor
  const { domainId, pattern, forwardTo = [], storedTargets = [], ...rest } = input
  if (rest.webhookUrl !== null || forwardTo.length > 0)
    requireScope(actor, 'inbound:read', 'for a route with a webhook_url or forward_to, which get received mail')
  const toTarget = (text: string) => (storedTargets.includes(text) ? text : requireTarget(db, accountId, text))
  const targets = new Map(forwardTo.map((text) => [normaliseAddress(text), toTarget(text)]))
  const uuid = parseUuid(domainId)
  const domain = uuid && findDomain(db, accountId, uuid)
  if (!domain)
    throw invalid(
      'domain_id',
      `${uuid ? 'This account has no domain with this id' : 'domain_id must be the id of a domain, not its name'}; GET /v1/domains lists them.`,
      'domain_not_found',
    )
  return {
    ...rest,
    domain,
    pattern: parsePattern(pattern, rest.matchType, domain.domain),
    givenPattern: pattern.trim(),
    forwardTo: targets.size > 0 ? JSON.stringify([...targets.values()]) : null,
  }
}

/** The address as it is stored. One that leads back here is found when a message comes back. */
function requireTarget(db: Database, accountId: number, text: string): string {
  const target = parseMailbox(text)
  if (target.kind === 'ok' && isForwardTarget(db, accountId, target)) return target.address
  const problem = target.kind === 'ok' ? 'it has not agreed to get mail of this account' : target.reason
  throw invalid(
    'forward_to',
    `${text} is no address to forward to: ${problem}. Invite it to the team first, or use one at a verified domain of the account.`,
    'forward_target_unknown',
  )
}

const toRouteFields = ({ domain, ...rest }: CheckedRoute): RouteFields => ({ ...rest, domainId: domain.id })

const toAuditMetadata = (route: CheckedRoute) => ({
  domain: route.domain.domain,
  pattern: route.givenPattern,
  match_type: route.matchType,
  priority: route.priority,
  webhook_url: route.webhookUrl,
  ...(route.forwardTo !== null && { forward_to: parseTargets(route) }),
  is_active: route.isActive,
})

function requireUnique(db: Database, { domain, pattern, matchType }: CheckedRoute, ownId: number): void {
  const existing = sql(db).same.get(domain.id, pattern, matchTypeCode(matchType), ownId)
  if (existing)
    throw conflict(
      'inbound_route_exists',
      `The domain ${domain.domain} has a ${matchType === 'catch_all' ? 'catch_all route' : 'route with this pattern and match_type'} already; change ${formatUuid(existing.uuid)} instead.`,
    )
}

/** The addresses of a route as one label: `support@example.com`, `sales-*@example.com`, `*@example.com`. */
export const formatRouteLabel = ({ pattern, matchType, domain }: InboundRoute): string =>
  `${pattern}${matchType === 'exact' ? '' : '*'}@${domain}`

/** Longer than any address. */
export const MAX_PATTERN_LENGTH = 320

/**
 * The local part, or its prefix, that a pattern names, in the form that `matchRoute` compares; `''` for catch_all,
 * which ignores it. `support`, `support@` and `support@example.com` are equal. Throws 422 for patterns that match no
 * valid address of the domain.
 * @param domain of the route, A-labels
 */
export function parsePattern(pattern: string, matchType: MatchType, domain: string): string {
  if (matchType === 'catch_all') return ''
  const text = pattern.trim()
  if (text === '')
    throw invalid(
      'pattern',
      `pattern must not be empty unless match_type is catch_all; provide the part of the addresses before the @, such as support.`,
    )
  if (text.includes('*'))
    throw invalid(
      'pattern',
      'Wildcards are not supported; use match_type catch_all for all addresses of the domain, or match_type prefix with the common start of the addresses as the pattern.',
    )
  const at = findLocalPartEnd(text)
  const localPart = text.slice(0, at)
  const isPrefix = matchType === 'prefix'
  // A prefix may be what no local part is: only dots.
  const address = parseMailbox(`${localPart}${isPrefix ? 'x' : ''}@${domain}`)
  if (address.kind === 'invalid')
    throw invalid('pattern', `The pattern is not a valid address: ${lowerFirstLetter(address.reason)}`)
  const namedDomain = text.slice(at + 1)
  if (namedDomain !== '' && parseDomain(namedDomain) !== domain)
    throw invalid(
      'pattern',
      `The pattern names the domain ${namedDomain.slice(0, 100)}, but the route belongs to ${domain}; provide only the part before the @.`,
    )
  return isPrefix ? toRouteKey(`${localPart}x`).slice(0, -1) : toRouteKey(localPart)
}

/**
 * Position of the @ after the local part; the end of the text when there is none. A quoted local part may contain an @.
 */
function findLocalPartEnd(text: string): number {
  const at = text.lastIndexOf('@')
  return at === -1 || (text.startsWith('"') && text.endsWith('"')) ? text.length : at
}

const lowerFirstLetter = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1)

/** A-labels in lower case; undefined when the text is not a domain. */
function parseDomain(text: string): string | undefined {
  const parsed = parseMailbox(`x@${text}`)
  return parsed.kind === 'ok' ? parsed.domain : undefined
}

/** Why mail to an address would not arrive. */
export const REJECTION_REASONS = [
  'unknown_domain',
  'domain_not_verified',
  'inbound_disabled',
  'server_not_receiving',
] as const
type RejectionReason = (typeof REJECTION_REASONS)[number]

/** What would happen now to mail for an address. Throws 422 for a text that is not one. */
export function matchAddress(app: Pick<App, 'config' | 'db'>, accountId: number, text: string) {
  const parsed = parseMailbox(text)
  if (parsed.kind === 'invalid') throw invalid('address', `address must be an email address. ${parsed.reason}`)
  const { address, localPart, domain: name } = parsed
  const domain = findDomainByName(app.db, accountId, name)
  const rejection: RejectionReason | undefined = domain ? findRejection(app, domain) : 'unknown_domain'
  const mailbox = domain && findMailbox(app.db, name, localPart)
  // A mailbox of another registration of the name gets none of this account's mail.
  const own = mailbox?.domainId === domain?.id ? mailbox : undefined
  const route = domain && !own ? findRoute(app.db, domain.id, localPart) : undefined
  const idOf = (found: { readonly uuid: UuidBytes } | undefined) => (found ? formatUuid(found.uuid) : null)
  return {
    address,
    is_accepted: rejection === undefined,
    rejection: rejection ?? null,
    domain_id: idOf(domain),
    mailbox_id: idOf(own),
    route_id: idOf(route),
  }
}

function findRejection(
  { config }: Pick<App, 'config'>,
  { verifiedAt, inboundEnabled }: { readonly verifiedAt: number | null; readonly inboundEnabled: boolean },
): RejectionReason | undefined {
  if (verifiedAt === null) return 'domain_not_verified'
  if (!inboundEnabled) return 'inbound_disabled'
  return config.inboundAddr === '' ? 'server_not_receiving' : undefined
}
