/**
 * @module Creates, changes and deletes webhooks on behalf of users, including reactivation after failures. The
 * dispatcher counts failures and deactivates webhooks. The webhook of an inbound route is a row of `webhooks` that its
 * route creates, changes and deletes, with the route's public id and a single event; it never appears under /v1/webhooks,
 * but the dispatcher treats it like any other.
 */
import { prepareCount, requirePlanCapacity } from '#features/core/accounts/limits.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange, describeChanges } from '#features/core/audit-logs/audit.ts'
import { EVENT_TYPES, readLastSeqIn } from '#features/core/events/record.ts'
import type { RouteFields } from '#features/receiving/route-rules/rows.ts'
import { insertSql, prepareStatements, type Tx } from '#platform/db/open.ts'
import { conflict, invalid, tooManyRequests } from '#platform/errors.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { Counts } from '#platform/queue/counts.ts'
import type { Millis } from '#platform/units.ts'
import {
  isWebhookEvent,
  type PayloadFormat,
  payloadFormatCode,
  RESEND_EVENTS,
  requireBodyScopes,
  requireEventsInFormat,
  WEBHOOK_EVENTS,
} from '../event-names.ts'
import { endPending, endPendingBatch } from './pending.ts'
import { createSealedSecret, ensureInboundSecret } from './secrets.ts'
import { findRouteWebhook, getWebhook, requireUnchanged, type Webhook } from './webhooks.ts'

/** Webhooks per account. */
const MAX_WEBHOOKS = 100

const sql = prepareStatements((db) => ({
  // Webhooks of inbound routes do not count: their routes create and delete them.
  existing: prepareCount(db, 'webhooks WHERE account_id = ? AND deleted_at IS NULL AND route_id IS NULL'),
  ofAccount: db.prepare<{ id: number }, [number]>(
    'SELECT id FROM webhooks WHERE account_id = ? AND deleted_at IS NULL',
  ),
  insert: db.prepare<{ id: number }, [Record<string, string | number | Uint8Array | null>]>(
    `${insertSql('webhooks', 'uuid accountId url description events format secret cursorSeq createdAt updatedAt isActive routeId')} RETURNING id`,
  ),
  // `updated_at` always increases, even while the clock stands still: a different value shows that the webhook was
  // changed since an attempt began.
  update: db.prepare(
    'UPDATE webhooks SET url = ?, events = ?, is_active = ?, description = ?, format = ?, updated_at = max(?, updated_at + 1) WHERE id = ?',
  ),
  reactivate: db.prepare(
    'UPDATE webhooks SET off_by_failures = 0, failure_count = 0, failing_since = NULL, last_failure_reason = NULL, cursor_seq = ? WHERE id = ?',
  ),
  forgetFailures: db.prepare('UPDATE webhooks SET failure_count = 0, failing_since = NULL WHERE id = ?'),
  // Marks a webhook as deactivated by its user, even if failures had deactivated it before.
  forgetOff: db.prepare('UPDATE webhooks SET off_by_failures = 0 WHERE id = ?'),
  delete: db.prepare('UPDATE webhooks SET deleted_at = ? WHERE id = ?'),
}))

export interface WebhookInput {
  readonly url: string
  readonly events: readonly string[]
  /** Null or blank: none. Undefined leaves it as it is. */
  readonly description?: string | null | undefined
  /** Undefined: `tassis` for a new webhook; otherwise it stays. */
  readonly format?: PayloadFormat | undefined
}

/**
 * Creates a webhook for events from now on. No later API response contains its secret in clear. Throws 422 for a
 * forbidden URL or unknown events, 403 `plan_limit_reached` and `insufficient_scope`, 409 `webhook_limit_reached`.
 */
export async function createWebhook(
  app: App,
  actor: Actor,
  input: WebhookInput,
): Promise<{ webhook: Webhook; secret: string }> {
  const events = parseEvents(input.events)
  const { format = 'tassis' } = input
  requireEventsInFormat(format, events)
  requireBodyScopes(actor, events)
  await requireCallable(app, actor, input.url)
  const uuid = newUuid()
  const id = formatUuid(uuid)
  const { clear, sealed } = createSealedSecret(app.keys, uuid)
  const webhook = await app.commit.write((tx) => {
    requirePlanCapacity(app, tx, actor.accountId, 'webhooks', sql(tx.db).existing)
    if ((sql(tx.db).existing.get(actor.accountId, MAX_WEBHOOKS)?.n ?? 0) >= MAX_WEBHOOKS)
      throw conflict(
        'webhook_limit_reached',
        `An account has at most ${MAX_WEBHOOKS} webhooks; delete one, or add the events to an existing one.`,
      )
    const { accountId } = actor
    const { url } = input
    const description = toDescription(input.description)
    insertWebhook(app, tx, { uuid, accountId, url, description, events, format, secret: sealed })
    auditChange(app, tx, actor, 'webhook.created', id, {
      url,
      events,
      ...(format !== 'tassis' && { format }),
      ...(description !== null && { description }),
    })
    return getWebhook(tx.db, accountId, id)
  })
  return { webhook, secret: clear }
}

type NewWebhook = Pick<Webhook, 'uuid' | 'accountId' | 'url' | 'events' | 'secret'> &
  Partial<Pick<Webhook, 'description' | 'format' | 'isActive' | 'routeId'>>

/** Stores a webhook that gets events from now on, and notifies the dispatcher. */
function insertWebhook(
  app: App,
  tx: Tx,
  { events, format = 'tassis', isActive = true, description = null, routeId = null, ...webhook }: NewWebhook,
): void {
  const now = app.eventTime()
  const inserted = sql(tx.db).insert.get({
    ...webhook,
    description,
    events: JSON.stringify(events),
    format: payloadFormatCode(format),
    cursorSeq: readLastSeqIn(tx, webhook.accountId),
    createdAt: now,
    updatedAt: now,
    isActive: isActive ? 1 : 0,
    routeId,
  })
  if (inserted) tx.afterCommit(() => app.webhookChanged.emit({ webhookId: inserted.id }))
}

/**
 * Changes a webhook. Any change lets the next attempt begin immediately, and reactivates a webhook that failures
 * deactivated; otherwise `isActive` is stored as provided. Events from the inactive time are not sent, but can be
 * replayed. Throws 404 for an unknown webhook; 409 `webhook_changed` when it was changed since the user saw it; 403 and
 * 422 like `createWebhook`.
 */
export async function changeWebhook(
  app: App,
  actor: Actor,
  id: string,
  input: WebhookInput & {
    readonly isActive: boolean
    /** `updatedAt` as the user saw it; undefined: any. */
    readonly expectedUpdatedAt?: Millis | undefined
  },
): Promise<Webhook> {
  // The webhook of another account is always a 404, whatever the input, and causes no DNS lookup.
  getWebhook(app.db, actor.accountId, id)
  const events = parseEvents(input.events)
  // Required even when only the URL changes, because the URL decides where the bodies go.
  requireBodyScopes(actor, events)
  await requireCallable(app, actor, input.url)
  await endPending(app, getWebhook(app.db, actor.accountId, id))
  return await app.commit.write((tx) => {
    const before = getWebhook(tx.db, actor.accountId, id)
    requireUnchanged(before, input.expectedUpdatedAt)
    const { format = before.format } = input
    requireEventsInFormat(format, events)
    const isActive = input.isActive || before.offByFailures
    const description = input.description === undefined ? before.description : toDescription(input.description)
    writeChange(app, tx, before, { url: input.url, events, isActive, description, format })
    const shown = { url: input.url, events, is_active: isActive }
    auditChange(app, tx, actor, 'webhook.updated', before.uuid, {
      ...shown,
      ...(isActive && !before.isActive && { reactivated: true }),
      ...describeChanges({ ...before, is_active: before.isActive }, { ...shown, description, format }),
    })
    return getWebhook(tx.db, actor.accountId, id)
  })
}

/** Writes the new fields, and notifies the dispatcher. Call `endPending` first: what waits must not be sent later. */
function writeChange(
  app: App,
  tx: Tx,
  before: Webhook,
  change: Pick<Webhook, 'url' | 'events' | 'isActive'> & Partial<Pick<Webhook, 'description' | 'format'>>,
): void {
  const statements = sql(tx.db)
  const { url, events, isActive, description, format } = { ...before, ...change }
  if (!before.isActive) endPendingBatch(app, tx, before)
  const columns = [url, JSON.stringify(events), isActive, description, payloadFormatCode(format)]
  statements.update.run(...columns, app.eventTime(), before.id)
  if (isActive && !before.isActive) statements.reactivate.run(readLastSeqIn(tx, before.accountId), before.id)
  // Failures of the previous endpoint say nothing about the new one.
  else if (url !== before.url) statements.forgetFailures.run(before.id)
  tx.afterCommit(() => app.webhookChanged.emit({ webhookId: before.id }))
}

/** Deletes a webhook: nothing more is sent. `purgeWebhookHistory` removes its row and history. Throws 404. */
export async function deleteWebhook(app: App, actor: Actor, id: string): Promise<void> {
  await app.commit.writeFromReserve((tx) => {
    const webhook = getWebhook(tx.db, actor.accountId, id)
    writeDeletion(app, tx, webhook.id)
    auditChange(app, tx, actor, 'webhook.deleted', webhook.uuid, { url: webhook.url })
  })
}

/** Marks a webhook as deleted and notifies the dispatcher, which ends its pending deliveries. */
function writeDeletion(app: App, tx: Tx, webhookId: number): void {
  sql(tx.db).delete.run(app.eventTime(), webhookId)
  tx.afterCommit(() => app.webhookChanged.emit({ webhookId }))
}

/** Marks all webhooks of a deleted account as deleted, including those of its routes. */
export function deleteAccountWebhooks(app: App, tx: Tx, accountId: number): void {
  for (const { id } of sql(tx.db).ofAccount.all(accountId)) writeDeletion(app, tx, id)
}

const toDescription = (text: string | null | undefined): string | null => text?.trim() || null

/** The names without duplicates, in the provided order. */
function parseEvents(events: readonly string[]): string[] {
  if (events.length === 0)
    throw invalid('events', `Name at least one event; the events are ${WEBHOOK_EVENTS.join(', ')}.`)
  return [...new Set(events.map(requireKnownEvent))]
}

/** The name itself. Throws 422, which lists the known names, for an unknown one. */
export function requireKnownEvent(name: string): string {
  if (isWebhookEvent(name)) return name
  const ofResend = new Map<string, string>(Object.entries(RESEND_EVENTS)).get(name)
  if (ofResend !== undefined)
    throw invalid(
      'events',
      `"${name}" is the name of Resend for ${ofResend}; write ${ofResend}, and "format": "resend" for payloads in Resend's form.`,
      'unknown_event',
    )
  const problem = EVENT_TYPES.some((type) => type === name)
    ? `The event "${name}" is available only in the feed (GET /v1/events)`
    : `There is no event "${name.slice(0, 60)}"`
  throw invalid('events', `${problem}; webhooks support ${WEBHOOK_EVENTS.join(', ')}.`, 'unknown_event')
}

/** URLs of one account that are checked at the same time: each may wait seconds for a silent DNS server. */
const MAX_CONCURRENT_CHECKS = 10
const getRunningChecks = perOwner((_: App) => new Counts())

/** Throws 422 for a URL that may not be called. Accepts a name that does not resolve now, because it may later. */
export async function requireCallable(app: App, { accountId }: Actor, url: string, field = 'url'): Promise<void> {
  const checks = getRunningChecks(app)
  if (checks.of(accountId) >= MAX_CONCURRENT_CHECKS)
    throw tooManyRequests(
      'too_many_checks',
      `At most ${MAX_CONCURRENT_CHECKS} webhooks and routes of an account may be created or changed at the same time; try again shortly.`,
      1,
    )
  checks.add(accountId, 1)
  try {
    const check = await app.fetch.check(url)
    if (check.kind === 'invalid' || check.kind === 'refused')
      throw invalid(field, `${check.reason}${describeLocal(url)}`, 'invalid_url')
  } finally {
    checks.add(accountId, -1)
  }
}

const LOCAL_HOSTS: readonly (string | undefined)[] = ['localhost', '127.0.0.1', '[::1]']

/** What to do instead of a webhook to a program in development. The URL may be too long to be parsed as a whole. */
const describeLocal = (url: string): string =>
  LOCAL_HOSTS.includes(URL.parse(url.slice(0, 200))?.hostname)
    ? ' To get events on the machine you develop on, run `tassis listen` there.'
    : ''

/** The events of a route's webhook. */
export const ROUTE_EVENTS = ['email.inbound'] as const

/**
 * Makes the webhook of a route match the route: new URL, active or inactive. Without a URL nothing is posted: pending
 * deliveries are ended, and the history stays. Reactivation resets its failures; events from the inactive time are not
 * sent, but can be replayed. Call `beforeRouteChange` first.
 */
export function setRouteWebhook(
  app: App,
  tx: Tx,
  actor: Actor,
  { id: routeId, uuid }: { readonly id: number; readonly uuid: UuidBytes },
  { webhookUrl: url, ...route }: Pick<RouteFields, 'webhookUrl' | 'isActive'>,
): void {
  const before = findRouteWebhook(tx.db, routeId)
  const isActive = route.isActive && url !== null
  const { accountId } = actor
  if (before) {
    writeChange(app, tx, before, { url: url ?? before.url, events: ROUTE_EVENTS, isActive })
    if (!isActive) sql(tx.db).forgetOff.run(before.id)
  } else if (url !== null)
    insertWebhook(app, tx, { uuid, accountId, url, events: ROUTE_EVENTS, secret: new Uint8Array(), isActive, routeId })
  if (url !== null) ensureInboundSecret(app, tx, actor)
}

/** Ends the pending deliveries of an inactive route webhook, before the route is changed. */
export async function beforeRouteChange(app: App, routeId: number): Promise<void> {
  const webhook = findRouteWebhook(app.db, routeId)
  if (webhook) await endPending(app, webhook)
}

/** Deletes the webhook of a deleted route. */
export function deleteRouteWebhook(app: App, tx: Tx, routeId: number): void {
  const webhook = findRouteWebhook(tx.db, routeId)
  if (webhook) writeDeletion(app, tx, webhook.id)
}
