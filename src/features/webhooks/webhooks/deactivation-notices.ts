/**
 * @module Notifies an account by mail that failures deactivated one of its webhooks. The mail goes to the account's
 * address and to the owners of its team. A webhook causes at most one notice a day, and an account gets a limited
 * number per run and per day. Stores nothing: the webhook's row has the time of its deactivation, and the idempotency
 * key of the mail shows that it was sent.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { readFence } from '#features/core/fence/restored.ts'
import { listOwnerEmails } from '#features/people/team/users.ts'
import { sendSystemMailToEach } from '#features/sending/system-mail/send.ts'
import { type Millis, yieldToEventLoop } from '#platform/clock.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { days, minutes } from '#platform/units.ts'
import { ENDED_BY_FAILURES } from './outcome.ts'

/**
 * A deactivated webhook, and the time of the failure that deactivated it; that time does not change while it is
 * inactive.
 */
interface Deactivation {
  readonly id: number
  readonly accountId: number
  readonly since: Millis
}

interface DeactivatedWebhook {
  readonly uuid: UuidBytes
  readonly name: string
  readonly email: string
  readonly url: string
  readonly isOfRoute: number
}

const sql = prepareStatements((db) => ({
  // Reads by row id in batches: deactivated webhooks have no index, and an account may have thousands of routes.
  off: db.prepare<Deactivation, [number, number, Millis]>(
    `SELECT id, account_id AS accountId, last_failure_at AS since FROM webhooks
     WHERE id > ? AND id <= ? AND off_by_failures = 1 AND deleted_at IS NULL AND last_failure_at > ?`,
  ),
  // Skips ids that no row has: after a restored backup there are many.
  after: db.prepare<{ id: number }, [number]>('SELECT id FROM webhooks WHERE id > ? ORDER BY id LIMIT 1'),
  // Returns no row when the webhook was reactivated or deleted since then, or when its account is deleted or disabled.
  webhook: db.prepare<DeactivatedWebhook, [number, Millis]>(
    `SELECT webhooks.uuid, name, email, url, route_id IS NOT NULL AS isOfRoute FROM webhooks JOIN accounts ON accounts.id = account_id
     WHERE webhooks.id = ? AND off_by_failures = 1 AND webhooks.deleted_at IS NULL AND last_failure_at = ?
       AND accounts.deleted_at IS NULL AND accounts.disabled_at IS NULL`,
  ),
  // The error of the attempt that deactivated the webhook. Deliveries that were pending then also have the text
  // ENDED_BY_FAILURES after their own error, which is removed here.
  lastError: db.prepare<{ error: string }, [string, number, Millis]>(
    `SELECT replace(error, ' ' || ?, '') AS error FROM (SELECT * FROM webhook_deliveries WHERE webhook_id = ? ORDER BY id DESC LIMIT 1000)
     WHERE attempted_at = ? AND error IS NOT NULL AND event <> 'test' LIMIT 1`,
  ),
}))

/**
 * Notices per account in one run: webhooks that fail together may share a server, and the list of webhooks shows the
 * others.
 */
const MAX_NOTICES_PER_RUN = 3
/** Notices per account and day, so that creating failing webhooks does not cause more mail. */
const MAX_NOTICES_PER_DAY = 10
const BATCH_SIZE = 5000
const CHECK_INTERVAL_MS = minutes(1)
/** Older deactivations cause no notice: users know of them by now, or an earlier run of the service sent the notice. */
const MAX_NEWS_AGE_MS = days(2)

/** Starts the loop that sends due notices. It checks every minute. */
export function startDeactivationNotices(app: App): DueLoop {
  const sendDueNotices = createDeactivationNotifier(app)
  const step = async (ending: AbortSignal): Promise<Millis> => {
    // While restored mail waits, those due may have been sent before.
    if (!readFence(app.db)) await sendDueNotices(ending)
    return app.clock.now() + CHECK_INTERVAL_MS
  }
  return startDueLoop({ name: 'webhook deactivation notices', clock: app.clock, log: app.log, step })
}

/**
 * Creates the function that sends due notices. It caches the notices that it sent; after a restart, idempotency keys
 * prevent duplicates.
 */
export function createDeactivationNotifier(app: App): (ending: AbortSignal) => Promise<void> {
  /** Deactivation times of webhooks with a sent notice, by row id. */
  let notified = new Map<number, Millis>()
  let day = ''
  /** Notices of this day by account. */
  const noticesByAccount = new Map<number, number>()
  return async (ending) => {
    const today = isoTime(app.clock.now()).slice(0, 10)
    if (today !== day) noticesByAccount.clear()
    day = today
    const deactivations = limitPerAccount(await findRecentDeactivations(app))
    // Evicts webhooks that were reactivated or whose deactivation is old.
    notified = new Map(
      deactivations.flatMap(({ id, since }) => (notified.get(id) === since ? [[id, since] as const] : [])),
    )
    for (const webhook of deactivations) {
      if (ending.aborted) return
      const before = noticesByAccount.get(webhook.accountId) ?? 0
      if (notified.has(webhook.id) || before >= MAX_NOTICES_PER_DAY) continue
      const details = sql(app.db).webhook.get(webhook.id, webhook.since)
      if (!details) continue
      await sendNotice(app, { ...webhook, ...details })
      noticesByAccount.set(webhook.accountId, before + 1)
      notified.set(webhook.id, webhook.since)
    }
  }
}

async function findRecentDeactivations({ db, clock }: App): Promise<Deactivation[]> {
  const found: Deactivation[] = []
  for (let next = sql(db).after.get(0); next; next = sql(db).after.get(next.id + BATCH_SIZE - 1)) {
    const before = next.id - 1
    for (const deactivation of sql(db).off.all(before, before + BATCH_SIZE, clock.now() - MAX_NEWS_AGE_MS))
      found.push(deactivation)
    await yieldToEventLoop()
  }
  return found
}

/** The earliest deactivations of each account, oldest first. */
function limitPerAccount(all: readonly Deactivation[]): Deactivation[] {
  const counts = new Map<number, number>()
  return all
    .toSorted((a, b) => a.since - b.since || a.id - b.id)
    .filter(({ accountId }) => {
      const count = (counts.get(accountId) ?? 0) + 1
      counts.set(accountId, count)
      return count <= MAX_NOTICES_PER_RUN
    })
}

async function sendNotice(app: App, webhook: Deactivation & DeactivatedWebhook): Promise<void> {
  const { id, accountId, email, since, isOfRoute } = webhook
  const subject = isOfRoute === 1 ? 'The webhook of an inbound route was deactivated' : 'A webhook was deactivated'
  await sendSystemMailToEach(
    app,
    [email, ...listOwnerEmails(app.db, accountId)],
    { about: [accountId], subject, text: formatNotice(app.db, webhook) },
    (to) => `webhook off ${id} ${isoTime(since).slice(0, 10)} ${to}`,
  )
}

function formatNotice(
  db: Database,
  { id, uuid, name, url, isOfRoute, since }: Deactivation & DeactivatedWebhook,
): string {
  const last = sql(db).lastError.get(ENDED_BY_FAILURES, id, since)?.error
  const time = `${isoTime(since).slice(0, 10)} at ${isoTime(since).slice(11, 16)} UTC`
  const { origin, pathname } = new URL(url)
  const what = isOfRoute === 1 ? 'The webhook of an inbound route' : `The webhook ${formatUuid(uuid)}`
  return [
    `${what} of the account ${name} was deactivated on ${time} after ten consecutive failed attempts. Its URL is:`,
    `${origin}${pathname}`,
    ...(last === undefined ? [] : [`The last failure: ${last}`]),
    'No events are lost: they are kept, but none is sent to this URL until the webhook is reactivated. Mail is sent and received as before.',
    isOfRoute === 1
      ? 'When your server responds again, update the route (PUT /v1/inbound-routes/{id}, even without a change), then replay missed mail (POST /v1/inbound-routes/{id}/replay).'
      : `When your server responds again: PUT /v1/webhooks/${formatUuid(uuid)} with its url, events and is_active reactivates it; POST /v1/webhooks/${formatUuid(uuid)}/replay sends missed events. GET /v1/webhooks/${formatUuid(uuid)}/deliveries shows the responses of your server.`,
  ].join('\n\n')
}
