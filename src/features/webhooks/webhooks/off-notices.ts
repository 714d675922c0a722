/**
 * @module Tells the people of an account by mail that failures have switched a webhook of theirs off: the address of the account and the owners of its team.
 * Once a webhook and day, of the first few of an account only, and of no more than some in a day, whatever its webhooks do. Needs no note of its own: the
 * webhook says that it is off, and since when; the mail's idempotency key says that it was sent. Changes nothing.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { ownersOf } from '#features/people/team/users.ts'
import { sendToPeople } from '#features/sending/system-mail/send.ts'
import { giveWay, type Millis } from '#platform/clock.ts'
import { prepared } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { days, minutes } from '#platform/units.ts'
import { ENDED_BY_FAILURES } from './outcome.ts'

/** A webhook that is off, and since when: the failure that was one too many, which nothing changes while it is off. */
interface Off {
  readonly id: number
  readonly accountId: number
  readonly since: Millis
}

interface OffWebhook {
  readonly uuid: UuidBytes
  readonly name: string
  readonly email: string
  readonly url: string
  readonly isOfRoute: number
}

const sql = prepared((db) => ({
  // By row, a slice at a time: there is no index of those that are off, and of routes an account may have thousands.
  off: db.prepare<Off, [number, number, Millis]>(
    `SELECT id, account_id AS accountId, last_failure_at AS since FROM webhooks
     WHERE id > ? AND id <= ? AND off_by_failures = 1 AND deleted_at IS NULL AND last_failure_at > ?`,
  ),
  last: db.prepare<{ id: number | null }, []>('SELECT MAX(id) AS id FROM webhooks'),
  // Nothing when it was switched on again or deleted meanwhile, or its account is closed.
  webhook: db.prepare<OffWebhook, [number, Millis]>(
    `SELECT webhooks.uuid, name, email, url, route_id IS NOT NULL AS isOfRoute FROM webhooks JOIN accounts ON accounts.id = account_id
     WHERE webhooks.id = ? AND off_by_failures = 1 AND webhooks.deleted_at IS NULL AND last_failure_at = ?
       AND accounts.deleted_at IS NULL AND accounts.disabled_at IS NULL`,
  ),
  // What waited and was ended says so behind its own failure, which is not what is asked here.
  lastError: db.prepare<{ error: string }, [string, number, Millis]>(
    `SELECT replace(error, ' ' || ?, '') AS error FROM (SELECT * FROM webhook_deliveries WHERE webhook_id = ? ORDER BY id DESC LIMIT 1000)
     WHERE attempted_at = ? AND error IS NOT NULL AND event <> 'test' LIMIT 1`,
  ),
}))

/** Of an account at the same time, since all may lead to the same server; of the others its list of webhooks tells. */
const MOST_TOLD = 3
/** Of an account in a day: whoever makes webhooks and lets them fail has no more mails sent. */
const MOST_TOLD_A_DAY = 10
const ROWS_A_SLICE = 5000
const EVERY_MS = minutes(1)
/** What went off before is known by now, or would have been told by another run of the service. */
const NEWS_MS = days(2)

/** Looks every minute. */
export function startOffNotices(app: App): DueLoop {
  const look = createOffNotices(app)
  const step = async (ending: AbortSignal): Promise<Millis> => {
    await look(ending)
    return app.clock.now() + EVERY_MS
  }
  return startDueLoop({ name: 'notices of webhooks that are off', clock: app.clock, log: app.log, step })
}

/** What sends the notices that are due. It remembers those of its own; a new one finds by their keys what was sent before. */
export function createOffNotices(app: App): (ending: AbortSignal) => Promise<void> {
  /** Since when the webhooks that were told are off, by row id. */
  let told = new Map<number, Millis>()
  let day = ''
  /** Of this day, by account. */
  const toldOf = new Map<number, number>()
  return async (ending) => {
    const today = isoTime(app.clock.now()).slice(0, 10)
    if (today !== day) toldOf.clear()
    day = today
    const off = firstOfEach(await newlyOff(app))
    // What is on again, or no news any more, is forgotten.
    told = new Map(off.flatMap(({ id, since }) => (told.get(id) === since ? [[id, since] as const] : [])))
    for (const webhook of off) {
      if (ending.aborted) return
      const before = toldOf.get(webhook.accountId) ?? 0
      if (told.has(webhook.id) || before >= MOST_TOLD_A_DAY) continue
      const details = sql(app.db).webhook.get(webhook.id, webhook.since)
      if (!details) continue
      await tell(app, { ...webhook, ...details })
      toldOf.set(webhook.accountId, before + 1)
      told.set(webhook.id, webhook.since)
    }
  }
}

async function newlyOff({ db, clock }: App): Promise<Off[]> {
  const found: Off[] = []
  const lastId = sql(db).last.get()?.id ?? 0
  for (let id = 0; id < lastId; id += ROWS_A_SLICE) {
    if (id > 0) await giveWay()
    for (const off of sql(db).off.all(id, id + ROWS_A_SLICE, clock.now() - NEWS_MS)) found.push(off)
  }
  return found
}

/** Those of each account that went off first, and the first of all of them first. */
function firstOfEach(all: readonly Off[]): Off[] {
  const counts = new Map<number, number>()
  return all
    .toSorted((a, b) => a.since - b.since || a.id - b.id)
    .filter(({ accountId }) => {
      const count = (counts.get(accountId) ?? 0) + 1
      counts.set(accountId, count)
      return count <= MOST_TOLD
    })
}

async function tell(app: App, webhook: Off & OffWebhook): Promise<void> {
  const { id, accountId, email, since, isOfRoute } = webhook
  const subject = isOfRoute === 1 ? 'The webhook of an inbound route was switched off' : 'A webhook was switched off'
  await sendToPeople(
    app,
    [email, ...ownersOf(app.db, accountId)],
    { about: [accountId], subject, text: textOf(app.db, webhook) },
    (to) => `webhook off ${id} ${isoTime(since).slice(0, 10)} ${to}`,
  )
}

function textOf(db: Database, { id, uuid, name, url, isOfRoute, since }: Off & OffWebhook): string {
  const last = sql(db).lastError.get(ENDED_BY_FAILURES, id, since)?.error
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
