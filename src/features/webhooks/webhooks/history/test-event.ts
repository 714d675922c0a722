/**
 * @module Sends the test event of a webhook: a delivery like others, but sent only on request, not retried, and limited
 * to a few a minute.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import { TEST_EVENT } from '../event-names.ts'
import { insertPending } from '../manage/pending.ts'
import { auditedKindOf, type FindWebhook, getWebhook } from '../manage/webhooks.ts'
import type { PayloadFormat } from '../payload/payload-format.ts'

/** Maximum number of test events per webhook and minute. */
export const MAX_TESTS = 5
const WINDOW_MS = minutes(1)

export interface TestPayload {
  readonly event: typeof TEST_EVENT
  readonly account_id: string
  readonly timestamp: string
  readonly data: { readonly message: string }
}

export interface QueuedTest {
  readonly payload: TestPayload
  /** Public id of its delivery. */
  readonly deliveryId: string
}

/** Times of the last tests of each webhook, by its public id. */
const getRecentTests = perOwner((_: App) => new Map<string, readonly Millis[]>())

/**
 * Queues a test event for the webhook, active or not. Throws 404, and 429 `too_many_tests` for the sixth within a
 * minute, counting the tests of all users, keys and the operator.
 * @param find finds the webhook of `id`
 */
export function sendTestEvent(app: App, actor: Actor, id: string, find: FindWebhook = getWebhook): Promise<QueuedTest> {
  return app.commit.write((tx) => {
    const { id: webhookId, uuid, routeId, format } = find(tx.db, actor.accountId, id)
    const now = app.clock.now()
    requireTestAllowed(app, uuid, now)
    const payload: TestPayload = {
      event: TEST_EVENT,
      account_id: actor.accountUuid,
      timestamp: isoTime(now),
      data: { message: 'This is a test event: the webhook is set up, and its receiver can be reached.' },
    }
    const delivery = { webhookId, seq: null, event: TEST_EVENT, payload: JSON.stringify(toFormat(format, payload)) }
    const deliveryId = formatUuid(insertPending(tx, delivery, now))
    auditChange(app, tx, actor, `${auditedKindOf({ routeId })}.tested`, uuid, { delivery_id: deliveryId })
    tx.afterCommit(() => app.webhookChanged.emit({ webhookId, isTest: true }))
    return { payload, deliveryId }
  })
}

/** The posted body. Other providers have no such event, but the receiver must find the fields that it reads first. */
function toFormat(format: PayloadFormat, { event, timestamp, data, ...rest }: TestPayload): object {
  if (format === 'resend') return { type: event, created_at: timestamp, data }
  if (format === 'postmark') return { RecordType: 'Test', ServerID: 1, Message: data.message }
  return { event, ...rest, timestamp, data }
}

/** Counts a test of the webhook. Throws 429 when it has had its maximum in the last minute. */
export function requireTestAllowed(app: App, uuid: UuidBytes, now: Millis): void {
  const tests = getRecentTests(app)
  const id = formatUuid(uuid)
  // Tests from before the clock was set back do not count; otherwise no test could be sent until it catches up.
  const recent = (tests.get(id) ?? []).filter((at) => at > now - WINDOW_MS && at <= now)
  const [oldest] = recent
  if (oldest === undefined || recent.length < MAX_TESTS) {
    tests.set(id, [...recent, now])
    return
  }
  const waitSeconds = Math.max(1, Math.ceil((oldest + WINDOW_MS - now) / 1000))
  throw tooManyRequests(
    'too_many_tests',
    `A webhook is sent at most ${MAX_TESTS} test events a minute; try again in ${waitSeconds} s.`,
    waitSeconds,
  )
}
