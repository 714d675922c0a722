/**
 * @module Tells the people of an account by mail that failures have switched a webhook of theirs off: the address of the account and the owners of its team.
 * Once a webhook and day, and of the first few of an account only. Needs no note of its own: the webhook says that it is off, and since when; the mail's
 * idempotency key says that it was sent. Changes nothing.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import { prepared } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { days, minutes } from '#platform/units.ts'
import { sendSystemMail } from '../system-mail/send.ts'
import { ownersOf } from '../team/users.ts'
import { ENDED_BY_FAILURES } from './outcome.ts'

interface OffWebhook {
  readonly id: number
  readonly uuid: UuidBytes
  readonly accountId: number
  readonly name: string
  readonly email: string
  readonly url: string
  readonly isOfRoute: number
  readonly since: Millis
}

const sql = prepared((db) => ({
  // Of routes an account may have thousands, which all lead to the same server.
  off: db.prepare<OffWebhook, [number, number, number]>(
    `SELECT * FROM (
       SELECT webhooks.id, webhooks.uuid, account_id AS accountId, name, email, url, route_id IS NOT NULL AS isOfRoute, webhooks.updated_at AS since,
         row_number() OVER (PARTITION BY account_id ORDER BY webhooks.updated_at, webhooks.id) AS place
       FROM webhooks JOIN accounts ON accounts.id = account_id
       WHERE off_by_failures = 1 AND webhooks.deleted_at IS NULL AND webhooks.updated_at > ?
         AND accounts.deleted_at IS NULL AND accounts.disabled_at IS NULL
     ) WHERE place <= ? ORDER BY id LIMIT ?`,
  ),
  lastError: db.prepare<{ error: string }, [number, string]>(
    `SELECT error FROM (SELECT error FROM webhook_deliveries WHERE webhook_id = ? ORDER BY id DESC LIMIT 200) WHERE error <> ? LIMIT 1`,
  ),
}))

/** Of an account at the same time; of the others its list of webhooks tells. */
const MOST_TOLD = 3
/** Of all accounts, at once. */
const MOST_AT_ONCE = 200
const EVERY_MS = minutes(1)
/** What went off before is known by now, or would have been told by another run of the service. */
const NEWS_MS = days(2)

/** Looks every minute. */
export function startOffNotices(app: App): DueLoop {
  let told: Told = new Map()
  const step = async (ending: AbortSignal): Promise<Millis> => {
    told = await tellOfOff(app, told, ending)
    return app.clock.now() + EVERY_MS
  }
  return startDueLoop({ name: 'notices of webhooks that are off', clock: app.clock, log: app.log, step })
}

/** Since when the webhooks that this run has told of are off, by row id. */
type Told = ReadonlyMap<number, Millis>

/** Sends what is due, and says what is told then. */
export async function tellOfOff(app: App, before: Told, ending: AbortSignal): Promise<Told> {
  const told = new Map<number, Millis>()
  for (const webhook of sql(app.db).off.all(app.clock.now() - NEWS_MS, MOST_TOLD, MOST_AT_ONCE)) {
    const isTold = before.get(webhook.id) === webhook.since
    if (!isTold && ending.aborted) break
    if (!isTold) await tell(app, webhook)
    told.set(webhook.id, webhook.since)
  }
  return told
}

async function tell(app: App, webhook: OffWebhook): Promise<void> {
  const { id, accountId, email, since, isOfRoute } = webhook
  const subject = isOfRoute === 1 ? 'The webhook of an inbound route was switched off' : 'A webhook was switched off'
  for (const to of new Set([email, ...ownersOf(app.db, accountId)].map((address) => address.toLowerCase()))) {
    try {
      await sendSystemMail(app, {
        about: [accountId],
        to,
        subject,
        text: textOf(app.db, webhook),
        idempotencyKey: `webhook off ${id} ${isoTime(since).slice(0, 10)} ${to}`,
      })
    } catch (error) {
      // An address that no mail can be sent to keeps nobody else's notice waiting.
      if (!(error instanceof AppError) || error.status !== 422) throw error
      app.log.warn({ to, err: error }, 'nobody was told at this address that a webhook is off')
    }
  }
}

function textOf(db: Database, { id, uuid, name, url, isOfRoute, since }: OffWebhook): string {
  const last = sql(db).lastError.get(id, ENDED_BY_FAILURES)?.error
  const time = `${isoTime(since).slice(0, 10)} at ${isoTime(since).slice(11, 16)} UTC`
  const { origin, pathname } = new URL(url)
  const what = isOfRoute === 1 ? 'The webhook of an inbound route' : `The webhook ${formatUuid(uuid)}`
  return [
    `${what} of the account ${name} was switched off on ${time}, because ten attempts in a row had failed. It led to:`,
    `${origin}${pathname}`,
    ...(last === undefined ? [] : [`The last failure: ${last}`]),
    'Nothing is lost: events are kept, but this address is told of none until the webhook is switched on again. Mail is sent and received as before.',
    isOfRoute === 1
      ? 'When your server answers again: change the route (PUT /v1/inbound-routes/{id}, even without any change), then replay what was missed (POST /v1/inbound-routes/{id}/replay).'
      : `When your server answers again: PUT /v1/webhooks/${formatUuid(uuid)} with its url, events and is_active switches it on; POST /v1/webhooks/${formatUuid(uuid)}/replay sends what was missed. GET /v1/webhooks/${formatUuid(uuid)}/deliveries shows what your server answered.`,
  ].join('\n\n')
}
