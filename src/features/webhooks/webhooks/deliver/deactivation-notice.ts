/**
 * @module The mail to owners that failures deactivated webhooks. A webhook causes at most one a day, and webhooks that
 * fail together, perhaps because they share a server, are in one mail.
 */
import type { App } from '#features/core/app/app.ts'
import { type OwnerNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days, hours, minutes } from '#platform/units.ts'

interface DeactivatedWebhook {
  readonly uuid: UuidBytes
  readonly url: string
  readonly isOfRoute: number
  /** Time of the failure that deactivated it, which does not change while it is inactive. */
  readonly since: Millis
}

const sql = prepareStatements((db) => ({
  // Returns no row when the webhook was reactivated or deleted since then.
  webhook: db.prepare<DeactivatedWebhook, [number, Millis]>(
    `SELECT uuid, url, route_id IS NOT NULL AS isOfRoute, last_failure_at AS since FROM webhooks
     WHERE id = ? AND off_by_failures = 1 AND deleted_at IS NULL AND last_failure_at > ?`,
  ),
  sentAt: db.prepare<{ at: Millis | null }, [number]>('SELECT notice_sent_at AS at FROM webhooks WHERE id = ?'),
  setSentAt: db.prepare('UPDATE webhooks SET notice_sent_at = ? WHERE id = ?'),
}))

/** So that one mail has all webhooks that fail together. */
const DELAY_MS = minutes(1)
const REPEAT_INTERVAL_MS = days(1)
/** Per account, so that creating failing webhooks does not cause more mail. */
const ACCOUNT_INTERVAL_MS = hours(3)
/** Older deactivations cause no notice: users know of them by now. */
const MAX_NEWS_AGE_MS = days(2)
/** Maximum number of webhooks described in one mail; the list of webhooks shows the others. */
const MAX_DESCRIBED = 3
const KIND = 'webhook_deactivated'

/** Schedules the mail about a webhook that a failure deactivates in this transaction. @param error the last failure */
export function scheduleDeactivationNotice(
  app: App,
  tx: Tx,
  accountId: number,
  webhookId: number,
  error: string | null,
): void {
  const now = app.clock.now()
  const sentAt = sql(tx.db).sentAt.get(webhookId)?.at ?? 0
  // At most a day ahead, because the clock may have been ahead when the last mail was sent.
  const dueAt = Math.min(Math.max(now + DELAY_MS, sentAt + REPEAT_INTERVAL_MS), now + REPEAT_INTERVAL_MS)
  scheduleNotice(app, tx, { accountId, kind: KIND, topic: webhookId, data: error, dueAt })
}

export const DEACTIVATION_NOTICE: OwnerNotice = {
  kind: KIND,
  intervalMs: ACCOUNT_INTERVAL_MS,
  aheadMs: DELAY_MS,
  compose({ clock, db }, { name }, notices) {
    const after = clock.now() - MAX_NEWS_AGE_MS
    const webhooks = notices.flatMap(({ topic, data }) => {
      const webhook = sql(db).webhook.get(topic, after)
      return webhook ? [{ ...webhook, error: data }] : []
    })
    const [first] = webhooks
    if (!first) return undefined
    const one = first.isOfRoute === 1 ? 'The webhook of an inbound route was deactivated' : 'A webhook was deactivated'
    const more = webhooks.length - MAX_DESCRIBED
    return {
      subject: webhooks.length === 1 ? one : `${webhooks.length} webhooks were deactivated`,
      text: [
        ...webhooks.slice(0, MAX_DESCRIBED).map((webhook) => formatWebhook(name, webhook)),
        ...(more > 0 ? [`And ${more} more; GET /v1/webhooks and GET /v1/inbound-routes list them.`] : []),
      ].join('\n\n'),
      onSent: (tx, { topic }) => void sql(tx.db).setSentAt.run(clock.now(), topic),
    }
  },
}

function formatWebhook(
  name: string,
  { uuid, url, isOfRoute, since, error }: DeactivatedWebhook & { readonly error: string | null },
): string {
  const time = `${isoTime(since).slice(0, 10)} at ${isoTime(since).slice(11, 16)} UTC`
  const { origin, pathname } = new URL(url)
  const what = isOfRoute === 1 ? 'The webhook of an inbound route' : `The webhook ${formatUuid(uuid)}`
  return [
    `${what} of the account ${name} was deactivated on ${time} after ten consecutive failed attempts. Its URL is:`,
    `${origin}${pathname}`,
    ...(error === null ? [] : [`The last failure: ${error}`]),
    'No events are lost: they are kept, but none is sent to this URL until the webhook is reactivated. Mail is sent and received as before.',
    isOfRoute === 1
      ? 'When your server responds again, update the route (PUT /v1/inbound-routes/{id}, even without a change), then replay missed mail (POST /v1/inbound-routes/{id}/replay).'
      : `When your server responds again: PUT /v1/webhooks/${formatUuid(uuid)} with its url, events and is_active reactivates it; POST /v1/webhooks/${formatUuid(uuid)}/replay sends missed events. GET /v1/webhooks/${formatUuid(uuid)}/deliveries shows the responses of your server.`,
  ].join('\n\n')
}
