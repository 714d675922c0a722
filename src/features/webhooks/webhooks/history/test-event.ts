/**
 * @module Sends the test event of a webhook: a delivery like others, but sent only on request, not retried, and limited
 * to a few a minute.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
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

const sql = prepareStatements((db) => ({
  // Newest first and by index for each status, because a webhook may have a long history of tests.
  recent: db.prepare<{ createdAt: Millis }, [number, string, Millis, number]>(
    `SELECT created_at AS createdAt FROM (${[0, 1, 2]
      .map(
        (status) =>
          `SELECT * FROM (SELECT id, created_at FROM webhook_deliveries WHERE webhook_id = ?1 AND event = ?2 AND status = ${status} ORDER BY id DESC LIMIT ?4)`,
      )
      .join(' UNION ALL ')}) WHERE created_at > ?3 ORDER BY id DESC LIMIT ?4`,
  ),
}))

/**
 * Queues a test event for the webhook, active or not. Throws 404, and 429 `too_many_tests` for the sixth within a
 * minute, counting the tests of all users, keys and the operator.
 * @param find finds the webhook of `id`
 */
export function sendTestEvent(app: App, actor: Actor, id: string, find: FindWebhook = getWebhook): Promise<QueuedTest> {
  return app.commit.write((tx) => {
    const { id: webhookId, uuid, routeId, format } = find(tx.db, actor.accountId, id)
    const now = app.clock.now()
    requireTestAllowed(tx, webhookId, now)
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

/** Throws 429 when the webhook has had its maximum of tests in the last minute. */
export function requireTestAllowed(tx: Tx, webhookId: number, now: Millis): void {
  const recent = sql(tx.db)
    .recent.all(webhookId, TEST_EVENT, now - WINDOW_MS, MAX_TESTS)
    // Tests from before the clock was set back do not count; otherwise no test could be sent until it catches up.
    .filter(({ createdAt }) => createdAt <= now)
  const oldest = recent.at(-1)
  if (!oldest || recent.length < MAX_TESTS) return
  const waitSeconds = Math.max(1, Math.ceil((oldest.createdAt + WINDOW_MS - now) / 1000))
  throw tooManyRequests(
    'too_many_tests',
    `A webhook is sent at most ${MAX_TESTS} test events a minute; try again in ${waitSeconds} s.`,
    waitSeconds,
  )
}
