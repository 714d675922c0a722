/** @module `tassis queue`: shows what waits for delivery, why and until when, with one line about webhooks. */
import type { Database } from 'bun:sqlite'
import type { Command } from 'commander'
import { countQueueEntries } from '#features/receiving/inbound/queue-entries.ts'
import { releaseWithoutContent } from '#features/sending/delivery/without-content.ts'
import { domainOfLane, laneLabel } from '#features/sending/queue/lanes.ts'
import { systemClock } from '#platform/clock.ts'
import { isoTime } from '#platform/http/envelope.ts'
import {
  countWebhooks,
  describeWait,
  findLaneAccount,
  listLaneRecipients,
  MAX_ERROR_LENGTH,
  readLanes,
  type WaitingRecipient,
} from '../operator/queue.ts'
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

const MAX_PER_LANE = 10

const queue = defineAdminCommand(
  'queue',
  ({ opened: { app }, delivery }, { limit }: { readonly limit: number }): QueueView => {
    const now = app.clock.now()
    const states = readLanes(app, delivery)
    const shown = states.slice(0, limit)
    return {
      delivering: delivery !== undefined,
      waiting: states.reduce((sum, { waiting }) => sum + waiting, 0),
      lane_count: states.length,
      domain_count: new Set(states.map(({ lane }) => domainOfLane(lane))).size,
      lanes: shown.map((state) => ({
        lane: state.lane,
        account: findLaneAccount(app.db, state.lane)?.name ?? null,
        waiting: state.waiting,
        first_due_at: isoTime(state.firstDue),
        reason: describeWait(app, state, now),
      })),
      recipients: listRecipients(app.db, shown, limit),
      webhooks: countWebhooks(app.db),
      received: countQueueEntries(app.db),
    }
  },
)

function listRecipients(db: Database, lanes: readonly { readonly lane: string }[], limit: number): WaitingRecipient[] {
  const found: WaitingRecipient[] = []
  for (const { lane } of lanes) {
    const capacity = Math.min(MAX_PER_LANE, limit - found.length)
    if (capacity <= 0) break
    found.push(...listLaneRecipients(db, lane, capacity))
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
