/**
 * @module Makes, changes and deletes webhooks. What failures do to a webhook is the dispatcher's; what its user does to it is here, the way back
 * from failures included.
 */

import { prepareCount, requirePlanCapacity } from '#features/core/accounts/limits.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { EVENT_TYPES, readLastSeq } from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { conflict, invalid, tooManyRequests } from '#platform/errors.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { isWebhookEvent, requireBodyScopes, WEBHOOK_EVENTS } from './event-names.ts'
import { endPending, endPendingBatch } from './pending.ts'
import { createSealedSecret } from './secret.ts'
import { countWebhooks, getWebhook, type Webhook } from './webhooks.ts'

/** Webhooks of one account. */
const MAX_WEBHOOKS = 100

/** What the history says of deliveries that still waited. */
export const DEACTIVATED_REASON = 'The webhook was switched off.'
export const DELETED_REASON = 'The webhook was deleted.'

const sql = prepareStatements((db) => ({
  // Those of inbound routes come and go with their routes.
  existing: prepareCount(db, 'webhooks WHERE account_id = ? AND deleted_at IS NULL AND route_id IS NULL'),
  ofAccount: db.prepare<{ id: number }, [number]>(
    'SELECT id FROM webhooks WHERE account_id = ? AND deleted_at IS NULL',
  ),
  insert: db.prepare(
    'INSERT INTO webhooks (uuid, account_id, url, events, secret, cursor_seq, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  ),
  // Later than before even while the clock stands: by it an attempt knows that the webhook is not what it was when the attempt began.
  update: db.prepare(
    'UPDATE webhooks SET url = ?, events = ?, is_active = ?, updated_at = max(?, updated_at + 1) WHERE id = ?',
  ),
  reactivate: db.prepare(
    'UPDATE webhooks SET off_by_failures = 0, failure_count = 0, last_failure_reason = NULL, cursor_seq = ? WHERE id = ?',
  ),
  forgetFailures: db.prepare('UPDATE webhooks SET failure_count = 0 WHERE id = ?'),
  delete: db.prepare('UPDATE webhooks SET deleted_at = ? WHERE id = ?'),
}))

export interface WebhookInput {
  readonly url: string
  readonly events: readonly string[]
}

/**
 * Makes a webhook that is told what happens from now on; the answer holds its secret in clear, for the only time. 422
 * for a URL that may not be called and for events that do not exist, 403 `plan_limit_reached` and `insufficient_scope`,
 * 409 `webhook_limit_reached`.
 */
export async function createWebhook(
  app: App,
  actor: Actor,
  input: WebhookInput,
): Promise<{ webhook: Webhook; secret: string }> {
  const events = parseEvents(input.events)
  requireBodyScopes(actor, events)
  await requireCallable(app, actor, input.url)
  const uuid = newUuid()
  const id = formatUuid(uuid)
  const { clear, sealed } = createSealedSecret(app.keys, uuid)
  const webhook = await app.commit.write((tx) => {
    requirePlanCapacity(app, tx, actor.accountId, 'webhooks', sql(tx.db).existing)
    if (countWebhooks(tx.db, actor.accountId) >= MAX_WEBHOOKS)
      throw conflict(
        'webhook_limit_reached',
        `An account has at most ${MAX_WEBHOOKS} webhooks; delete one, or add the events to one that exists.`,
      )
    const now = app.eventTime()
    const cursorSeq = readLastSeq(tx.db, actor.accountId)
    sql(tx.db).insert.run(uuid, actor.accountId, input.url, JSON.stringify(events), sealed, cursorSeq, now, now)
    const created = getWebhook(tx.db, actor.accountId, id)
    audit(app, tx, actor, {
      action: 'webhook.created',
      resourceType: 'webhook',
      resourceId: id,
      metadata: { url: input.url, events },
    })
    tx.afterCommit(() => app.webhookChanged.emit({ webhookId: created.id }))
    return created
  })
  return { webhook, secret: clear }
}

/**
 * Changes a webhook. One that failures have switched off is active again after any change; otherwise `isActive` is taken as given. What happened
 * while it was off is not told, but can be replayed. Throws 404, and 403 and 422 as `createWebhook`.
 */
export async function changeWebhook(
  app: App,
  actor: Actor,
  id: string,
  input: WebhookInput & { readonly isActive: boolean },
): Promise<Webhook> {
  // A webhook of somebody else is a 404 whatever the input is, and nothing is looked up for it.
  getWebhook(app.db, actor.accountId, id)
  const events = parseEvents(input.events)
  // Also where only the URL changes: it is where the bodies go.
  requireBodyScopes(actor, events)
  await requireCallable(app, actor, input.url)
  await endPendingBeforeChange(app, getWebhook(app.db, actor.accountId, id))
  const changed = await app.commit.write((tx) => {
    const before = getWebhook(tx.db, actor.accountId, id)
    const isActive = input.isActive || before.offByFailures
    const isReactivated = isActive && !before.isActive
    writeChange(app, tx, before, { url: input.url, events, isActive })
    audit(app, tx, actor, {
      action: 'webhook.updated',
      resourceType: 'webhook',
      resourceId: formatUuid(before.uuid),
      metadata: { url: input.url, events, is_active: isActive, ...(isReactivated && { reactivated: true }) },
    })
    return getWebhook(tx.db, actor.accountId, id)
  })
  if (!changed.isActive) await tryEndPending(app, changed.id, DEACTIVATED_REASON)
  return changed
}

/** What waited when a webhook was switched off is ended before it is on again, or it would be told among what is new. */
export async function endPendingBeforeChange(app: App, { id, isActive }: Webhook): Promise<void> {
  if (!isActive) await endPending(app, id, DEACTIVATED_REASON)
}

/** Writes what a webhook is from now on, the way back from failures included, and tells the dispatcher. After `endPendingBeforeChange`. */
export function writeChange(
  app: App,
  tx: Tx,
  before: Webhook,
  { url, events, isActive }: { readonly url: string; readonly events: readonly string[]; readonly isActive: boolean },
): void {
  const statements = sql(tx.db)
  if (!before.isActive) endPendingBatch(app, tx, before.id, DEACTIVATED_REASON)
  statements.update.run(url, JSON.stringify(events), isActive ? 1 : 0, app.eventTime(), before.id)
  if (isActive && !before.isActive) statements.reactivate.run(readLastSeq(tx.db, before.accountId), before.id)
  // Failures of another endpoint say nothing of this one.
  else if (url !== before.url) statements.forgetFailures.run(before.id)
  tx.afterCommit(() => app.webhookChanged.emit({ webhookId: before.id }))
}

/** Deletes a webhook: nothing more is sent. Its row and its history go with `purgeWebhookHistory`. Throws 404. */
export async function deleteWebhook(app: App, actor: Actor, id: string): Promise<void> {
  const webhookId = await app.commit.writeFromReserve((tx) => {
    const webhook = getWebhook(tx.db, actor.accountId, id)
    writeDeletion(app, tx, webhook.id)
    audit(app, tx, actor, {
      action: 'webhook.deleted',
      resourceType: 'webhook',
      resourceId: formatUuid(webhook.uuid),
      metadata: { url: webhook.url },
    })
    return webhook.id
  })
  await tryEndPending(app, webhookId, DELETED_REASON)
}

/** Marks a webhook as deleted and tells the dispatcher; `tryEndPending` with DELETED comes after it. */
export function writeDeletion(app: App, tx: Tx, webhookId: number): void {
  sql(tx.db).delete.run(app.eventTime(), webhookId)
  tx.afterCommit(() => app.webhookChanged.emit({ webhookId }))
}

/** Marks all webhooks of an account as deleted, those of its routes too, because the account is. */
export function deleteAccountWebhooks(app: App, tx: Tx, accountId: number): void {
  for (const { id } of sql(tx.db).ofAccount.all(accountId)) writeDeletion(app, tx, id)
}

/** Ends what waits for a webhook that is off or deleted. That is on disk already; what is left of this is done by `purgeWebhookHistory`. */
export async function tryEndPending(app: App, webhookId: number, error: string): Promise<void> {
  try {
    await endPending(app, webhookId, error)
  } catch (reason) {
    app.log.warn(
      { err: reason, webhook: webhookId },
      'waiting deliveries of a webhook could not be ended; they are later',
    )
  }
}

/** The names without duplicates, in the order given. */
function parseEvents(events: readonly string[]): string[] {
  if (events.length === 0)
    throw invalid('events', `Name at least one event; the events are ${WEBHOOK_EVENTS.join(', ')}.`)
  return [...new Set(events.map(requireKnownEvent))]
}

/** The name; 422 that lists the known ones when it is none. */
export function requireKnownEvent(name: string): string {
  if (isWebhookEvent(name)) return name
  const problem = EVENT_TYPES.some((type) => type === name)
    ? `The event "${name}" is only in the feed (GET /v1/events)`
    : `There is no event "${name.slice(0, 60)}"`
  throw invalid('events', `${problem}; webhooks are told ${WEBHOOK_EVENTS.join(', ')}.`, 'unknown_event')
}

/** URLs of one account whose hosts are looked up at the same time: each may wait for seconds for a DNS server that says nothing. */
const MAX_CONCURRENT_CHECKS = 10
/** Look-ups that run now, by account. */
const getRunningChecks = perOwner((_: App) => new Map<number, number>())

/** Throws 422 for a URL that may not be called. A name that does not resolve now may do so later, so it is accepted. */
export async function requireCallable(app: App, { accountId }: Actor, url: string, field = 'url'): Promise<void> {
  const checks = getRunningChecks(app)
  const running = checks.get(accountId) ?? 0
  if (running >= MAX_CONCURRENT_CHECKS)
    throw tooManyRequests(
      'too_many_checks',
      `At most ${MAX_CONCURRENT_CHECKS} webhooks and routes of an account are made or changed at the same time; wait a little.`,
      1,
    )
  checks.set(accountId, running + 1)
  try {
    const check = await app.fetch.check(url)
    if (check.kind === 'invalid' || check.kind === 'refused') throw invalid(field, check.reason, 'invalid_url')
  } finally {
    const remaining = (checks.get(accountId) ?? 1) - 1
    if (remaining > 0) checks.set(accountId, remaining)
    else checks.delete(accountId)
  }
}
