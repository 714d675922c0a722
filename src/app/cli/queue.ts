/** @module `tassis queue`: shows what waits for delivery, why and until when, with one line about webhooks. */
import type { Database } from 'bun:sqlite'
import type { Command } from 'commander'
import type { App } from '#features/core/app/app.ts'
import { countQueueEntries } from '#features/receiving/inbound/queue-entries.ts'
import { NOT_DUE_REASON } from '#features/sending/delivery/scheduler.ts'
import { releaseWithoutContent } from '#features/sending/delivery/without-content.ts'
import { accountOfLane, domainOfLane, laneLabel } from '#features/sending/queue/lanes.ts'
import { readOpenLanes } from '#features/sending/queue/queue.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import { type Millis, systemClock } from '#platform/clock.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand } from './admin-command.ts'
import { withData } from './call.ts'
import { type JsonOption, withJson, withLimit } from './options.ts'
import { formatCount, formatRelativeTime, formatTable, formatUtc, printResult, truncate } from './output.ts'

interface WaitingLane {
  readonly lane: string
  /** Name of the account whose mail waits; null if the account is deleted. */
  readonly account: string | null
  readonly waiting: number
  readonly first_due_at: string
  readonly reason: string
}

interface WaitingRecipient {
  readonly email_id: string
  readonly account: string
  readonly lane: string
  readonly recipient: string
  readonly status: Status
  readonly attempts: number
  readonly next_at: string
  readonly last_error: string | null
}

interface QueueView {
  /** Whether a running service delivers the queue. */
  readonly delivering: boolean
  readonly waiting: number
  /**
   * Number of lanes that wait; `lanes` has those with the earliest mail. A lane holds the mail of one account to one
   * domain; broadcasts have separate lanes.
   */
  readonly lane_count: number
  readonly domain_count: number
  readonly lanes: readonly WaitingLane[]
  /** The earliest recipients of each lane in `lanes`. */
  readonly recipients: readonly WaitingRecipient[]
  readonly webhooks: {
    /** Deliveries that wait for a retry, or for their first attempt after a replay. */
    readonly waiting: number
    /** Webhooks deactivated by failures. */
    readonly off_by_failures: number
  }
  /** Received messages that are not processed yet. */
  readonly received: number
}

interface RecipientRow {
  uuid: Uint8Array
  account: string
  lane: string
  recipient: string
  status: number
  attempts: number
  nextAt: number
  lastError: string | null
}

const sql = prepareStatements((db) => ({
  // Reads one lane, so that the queue's index returns the earliest recipients without a sort.
  ofLane: db.prepare<RecipientRow, [string, number]>(
    `SELECT emails.uuid, accounts.name AS account, lane, address AS recipient, recipients.status, attempts, next_at AS nextAt, last_error AS lastError
     FROM recipients JOIN emails ON emails.id = email_id JOIN accounts ON accounts.id = account_id
     WHERE lane = ? AND next_at IS NOT NULL ORDER BY next_at LIMIT ?`,
  ),
  accountName: db.prepare<{ name: string }, [number]>('SELECT name FROM accounts WHERE id = ?'),
  webhooks: db.prepare<{ waiting: number; offByFailures: number }, []>(
    `SELECT (SELECT COUNT(*) FROM webhook_deliveries WHERE next_at IS NOT NULL) AS waiting,
     (SELECT COUNT(*) FROM webhooks WHERE off_by_failures = 1 AND deleted_at IS NULL) AS offByFailures`,
  ),
}))

const MAX_PER_LANE = 10

/**
 * Describes why the mail of a lane waits although the lane is not due yet; takes the reason from its earliest
 * recipient.
 */
function describeWait({ db }: App, lane: string, now: Millis): string {
  const [first] = sql(db).ofLane.all(lane, 1)
  if (!first) return NOT_DUE_REASON
  if (statusName(first.status) === 'scheduled') return 'scheduled'
  const next = `next attempt ${formatRelativeTime(first.nextAt, now)}`
  return first.lastError === null ? next : `deferred: ${truncate(first.lastError, MAX_ERROR_LENGTH)}, ${next}`
}

const queue = defineAdminCommand(
  'queue',
  ({ opened: { app }, delivery }, { limit }: { readonly limit: number }): QueueView => {
    const now = app.clock.now()
    const states =
      delivery?.scheduler.states() ??
      readOpenLanes(app.db).map(({ lane, firstAt, waiting }) => ({
        lane,
        waiting,
        firstDue: firstAt,
        reason: firstAt > now ? NOT_DUE_REASON : 'no service is running',
      }))
    const shown = states.toSorted((a, b) => a.firstDue - b.firstDue).slice(0, limit)
    return {
      delivering: delivery !== undefined,
      waiting: states.reduce((sum, { waiting }) => sum + waiting, 0),
      lane_count: states.length,
      domain_count: new Set(states.map(({ lane }) => domainOfLane(lane))).size,
      lanes: shown.map(({ lane, waiting, firstDue, reason }) => ({
        lane,
        account: findAccountName(app.db, lane),
        waiting,
        first_due_at: isoTime(firstDue),
        reason: reason === NOT_DUE_REASON ? describeWait(app, lane, now) : reason,
      })),
      recipients: listRecipients(app.db, shown, limit),
      webhooks: countWebhooks(app.db),
      received: countQueueEntries(app.db),
    }
  },
)

function countWebhooks(db: Database): QueueView['webhooks'] {
  const row = sql(db).webhooks.get()
  return { waiting: row?.waiting ?? 0, off_by_failures: row?.offByFailures ?? 0 }
}

const findAccountName = (db: Database, lane: string): string | null =>
  sql(db).accountName.get(accountOfLane(lane))?.name ?? null

function listRecipients(db: Database, lanes: readonly { readonly lane: string }[], limit: number): WaitingRecipient[] {
  const found: WaitingRecipient[] = []
  for (const { lane } of lanes) {
    const capacity = Math.min(MAX_PER_LANE, limit - found.length)
    if (capacity <= 0) break
    for (const row of sql(db).ofLane.all(lane, capacity)) {
      found.push({
        email_id: formatUuid(row.uuid),
        account: row.account,
        lane: row.lane,
        recipient: row.recipient,
        status: statusName(row.status),
        attempts: row.attempts,
        next_at: isoTime(row.nextAt),
        last_error: row.lastError,
      })
    }
  }
  return found
}

const release = defineAdminCommand('queue.release', async ({ opened: { app } }, _: null) => ({
  released: await releaseWithoutContent(app),
}))

export const queueAdminCommands = [queue, release]

export function addQueueCommand(program: Command): void {
  const queueCommand = withLimit(
    withJson(program.command('queue').description('show what waits for delivery, why and until when')),
    'maximum number of domains and of recipients',
    30,
  ).action(async (options: JsonOption & { limit: number }) => {
    const found = await withData(loadConfig().config, (call) => call(queue, { limit: options.limit }))
    printResult(options, found, (queued) => formatQueue(queued, systemClock.now()))
  })
  withJson(
    queueCommand
      .command('release')
      .description('release mail that was held for missing content, after that content has been restored'),
  ).action(async (_, command: Command) => {
    // The parent command `queue` has `--json` too and parses it first.
    const options = command.optsWithGlobals<JsonOption>()
    const done = await withData(loadConfig().config, (call) => call(release, null))
    printResult(
      options,
      done,
      ({ released }) =>
        `${formatCount(released, 'message')} released; messages whose content is still missing are held again.`,
    )
  })
}

const MAX_ERROR_LENGTH = 120

const formatQueue = (found: QueueView, now: number): string =>
  [formatMail(found, now), ...formatWebhooks(found.webhooks), ...formatReceived(found.received)].join('\n')

/** Formats at most one line; `tassis webhooks` shows the details. */
function formatWebhooks({ waiting, off_by_failures: off }: QueueView['webhooks']): string[] {
  const parts = [
    ...(waiting > 0
      ? [
          waiting === 1
            ? '1 webhook delivery waits for an attempt'
            : `${waiting} webhook deliveries wait for an attempt`,
        ]
      : []),
    ...(off > 0
      ? [off === 1 ? '1 webhook is deactivated by failures' : `${off} webhooks are deactivated by failures`]
      : []),
  ]
  return parts.length === 0 ? [] : ['', `${parts.join(', ')}: tassis webhooks list`]
}

const formatReceived = (received: number): string[] =>
  received === 0 ? [] : ['', `${formatCount(received, 'received message')} not processed yet`]

function formatMail(found: QueueView, now: number): string {
  if (found.waiting === 0) return 'The queue is empty.'
  const formatDue = (iso: string) => `${formatUtc(iso)} (${formatRelativeTime(Date.parse(iso), now)})`
  const { lanes, recipients } = found
  return [
    `${formatCount(found.waiting, 'message')} to ${formatCount(found.domain_count, 'domain')}${found.delivering ? '' : '; NO SERVICE IS RUNNING, so nothing is delivered'}`,
    '',
    formatTable(
      ['DOMAIN', 'WAITING', 'FIRST DUE', 'WHY'],
      lanes.map((lane) => [
        laneLabel(lane.lane, lane.account),
        String(lane.waiting),
        formatDue(lane.first_due_at),
        lane.reason,
      ]),
    ),
    ...(lanes.length < found.lane_count ? [`… and ${found.lane_count - lanes.length} more`] : []),
    '',
    formatTable(
      ['RECIPIENT', 'STATUS', 'ATTEMPTS', 'NEXT ATTEMPT', 'EMAIL', 'LAST ERROR'],
      recipients.map((recipient) => [
        recipient.recipient,
        recipient.status,
        String(recipient.attempts),
        formatDue(recipient.next_at),
        recipient.email_id,
        truncate(recipient.last_error ?? '', MAX_ERROR_LENGTH),
      ]),
    ),
    ...(recipients.length < found.waiting
      ? [`… and ${formatCount(found.waiting - recipients.length, 'message')} more (--limit)`]
      : []),
  ].join('\n')
}
