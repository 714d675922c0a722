/** @module `tassis queue`: shows what waits for delivery, why and until when, with one line about webhooks. */
import type { Command } from 'commander'
import { findAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { readRules } from '#features/sending/delivery/control/operator-queue.ts'
import type { QueueRecipient, QueueRuleRecord } from '#features/sending/delivery/control/operator-queue-model.ts'
import {
  describeLanes,
  findProviderHolds,
  listLaneRecipients,
  MAX_ERROR_LENGTH,
  readLanes,
} from '#features/sending/delivery/control/queue-view.ts'
import { accountOfLane, domainOfLane, laneLabel } from '#features/sending/queue/lanes.ts'
import { countOpen, type OpenLane, QUEUE_START, type QueuePosition } from '#features/sending/queue/queue.ts'
import { countWaitingWebhooks } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatRelativeTime, truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import type { RunningDelivery } from '../create.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand } from './admin-command.ts'
import { type Call, withData } from './call.ts'
import { addCommand, type JsonOption, withLimit } from './options.ts'
import { formatCount, formatTable, formatUtc, printResult } from './output.ts'
import { addQueueControlCommands, formatRule, queueControlAdminCommands } from './queue-control.ts'

interface WaitingLane {
  readonly lane: string
  /** Name of the account whose mail waits; null if the account is deleted. */
  readonly account: string | null
  readonly waiting: number
  readonly first_due_at: string
  readonly reason: string
}

const MAX_PER_LANE = 10

const queue = defineAdminCommand(
  'queue',
  async ({ opened: { app }, delivery }, { limit }: { readonly limit: number }) => {
    const lanes = await readLanes(app)
    const domains = groupByDomain(lanes)
    const shownDomains = domains.slice(0, limit)
    const shownLanes = lanes.slice(0, limit)
    const firstLanes = await toLaneViews(
      app,
      delivery,
      shownDomains.map(({ first }) => first),
    )
    return {
      // Whether a running service delivers the queue.
      delivering: delivery !== undefined,
      waiting: lanes.reduce((sum, { waiting }) => sum + waiting, 0),
      // A lane holds the mail of one account to one domain; broadcasts have separate lanes.
      lane_count: lanes.length,
      domain_count: domains.length,
      // Those with the earliest mail.
      domains: shownDomains.flatMap(({ domain, laneCount, waiting }, i) => {
        const first = firstLanes[i]
        // The earliest lane, whose due time and reason are those of the domain.
        return first ? [{ domain, lane_count: laneCount, waiting, first }] : []
      }),
      lanes: await toLaneViews(app, delivery, shownLanes),
      recipients: await listRecipients(app, shownLanes, limit),
      webhooks: countWaitingWebhooks(app.db),
      received: countQueueEntries(app.db),
      rules: readRules(app),
    }
  },
)

type QueueView = Awaited<ReturnType<typeof queue.run>>

/** @param lanes the earliest first; so are the domains */
function groupByDomain(
  lanes: readonly OpenLane[],
): { readonly domain: string; laneCount: number; waiting: number; readonly first: OpenLane }[] {
  const domains = new Map<string, { domain: string; laneCount: number; waiting: number; first: OpenLane }>()
  for (const lane of lanes) {
    const domain = domainOfLane(lane.lane)
    const group = domains.get(domain)
    if (!group) {
      domains.set(domain, { domain, laneCount: 1, waiting: lane.waiting, first: lane })
      continue
    }
    group.laneCount++
    group.waiting += lane.waiting
  }
  return [...domains.values()]
}

async function toLaneViews(
  app: App,
  delivery: RunningDelivery | undefined,
  lanes: readonly OpenLane[],
): Promise<WaitingLane[]> {
  const reasons = await describeLanes(app, delivery?.scheduler, lanes)
  return lanes.map(({ lane, waiting, firstAt }, i) => ({
    lane,
    account: findAccount(app.config, app.db, accountOfLane(lane))?.name ?? null,
    waiting,
    first_due_at: isoTime(firstAt),
    reason: reasons[i] ?? '',
  }))
}

async function listRecipients(
  app: App,
  lanes: readonly { readonly lane: string }[],
  limit: number,
): Promise<QueueRecipient[]> {
  const holds = await findProviderHolds(
    app,
    lanes.map(({ lane }) => lane),
  )
  const found: QueueRecipient[] = []
  for (const { lane } of lanes) {
    const capacity = Math.min(MAX_PER_LANE, limit - found.length)
    if (capacity <= 0) break
    found.push(...listLaneRecipients(app.db, lane, capacity, holds.get(lane)))
  }
  return found
}

const RECIPIENTS_PER_PAGE = 2000

/** A page of all lanes, in the order of their names. The last lane may continue on the next page. */
const lanePage = defineAdminCommand('queue.lanes', async ({ opened: { app }, delivery }, after: QueuePosition) => {
  const { lanes, place } = countOpen(app.db, after, RECIPIENTS_PER_PAGE)
  return { lanes: await toLaneViews(app, delivery, lanes), next: place ?? null }
})

/** Every lane, the earliest first. */
async function readAllLanes(call: Call): Promise<WaitingLane[]> {
  const lanes: WaitingLane[] = []
  for (let after: QueuePosition | null = QUEUE_START; after; ) {
    const page: Awaited<ReturnType<typeof lanePage.run>> = await call(lanePage, after)
    const [first, ...others] = page.lanes
    const last = lanes.at(-1)
    if (first && last?.lane === first.lane) lanes[lanes.length - 1] = { ...last, waiting: last.waiting + first.waiting }
    else if (first) lanes.push(first)
    lanes.push(...others)
    after = page.next
  }
  return lanes.sort((a, b) => (a.first_due_at < b.first_due_at ? -1 : a.first_due_at > b.first_due_at ? 1 : 0))
}

export const queueAdminCommands = [queue, lanePage, ...queueControlAdminCommands]

export function addQueueCommand(program: Command): void {
  const queueCommand = withLimit(
    addCommand(program, 'queue', 'show what waits for delivery, why and until when'),
    'domains and of recipients',
    30,
  )
    .option('--all', 'every lane (account and domain), not only the domains with the earliest mail')
    .action(async ({ limit, all = false, ...options }: JsonOption & { limit: number; all?: boolean }) => {
      const found = await withData(loadConfig().config, async (call) => {
        const view = await call(queue, { limit })
        return all ? { ...view, lanes: await readAllLanes(call) } : view
      })
      printResult(options, found, (queued) => formatQueue(queued, systemClock.now(), all))
    })
  addQueueControlCommands(queueCommand)
}

const formatQueue = (found: QueueView, now: number, isAll: boolean): string =>
  [
    formatMail(found, now, isAll),
    ...formatRules(found.rules),
    ...formatWebhooks(found.webhooks),
    ...formatReceived(found.received),
  ].join('\n')

const MAX_SHOWN_RULES = 20

const formatRules = (rules: readonly QueueRuleRecord[]): string[] =>
  rules.length === 0
    ? []
    : [
        '',
        ...rules.slice(0, MAX_SHOWN_RULES).map(formatRule),
        ...(rules.length > MAX_SHOWN_RULES ? [`… and ${rules.length - MAX_SHOWN_RULES} more (--json)`] : []),
      ]

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

/** The table of domains says why mail that is due waits. */
function formatNextAttempt({ waits_for: waitsFor, next_at: nextAt }: QueueRecipient, due: string, now: number) {
  if (waitsFor !== null) return waitsFor === 'hold' ? 'held' : 'fenced'
  return Date.parse(nextAt) > now ? due : `due ${formatRelativeTime(Date.parse(nextAt), now)}`
}

function formatMail(found: QueueView, now: number, isAll: boolean): string {
  if (found.waiting === 0) return 'The queue is empty.'
  const formatDue = (iso: string) => `${formatUtc(iso)} (${formatRelativeTime(Date.parse(iso), now)})`
  const { domains, recipients } = found
  const rows = isAll
    ? found.lanes.map((lane) => ({ ...lane, label: laneLabel(lane.lane, lane.account) }))
    : domains.map(({ domain, lane_count: count, waiting, first }) => ({
        ...first,
        waiting,
        label: count === 1 ? laneLabel(first.lane, first.account) : `${domain} (${count} lanes)`,
      }))
  return [
    `${formatCount(found.waiting, 'message')} to ${formatCount(found.domain_count, 'domain')}${found.delivering ? '' : '; NO SERVICE IS RUNNING, so nothing is delivered'}`,
    '',
    formatTable(
      ['DOMAIN', 'WAITING', 'FIRST DUE', 'WHY'],
      rows.map(({ label, waiting, first_due_at, reason }) => [label, String(waiting), formatDue(first_due_at), reason]),
    ),
    ...(!isAll && domains.length < found.domain_count
      ? [`… and ${formatCount(found.domain_count - domains.length, 'domain')} more (--limit, --all)`]
      : []),
    '',
    formatTable(
      ['RECIPIENT', 'STATUS', 'ATTEMPTS', 'NEXT ATTEMPT', 'EMAIL', 'LAST ERROR'],
      recipients.map((recipient) => [
        recipient.recipient,
        recipient.status,
        String(recipient.attempts),
        formatNextAttempt(recipient, formatDue(recipient.next_at), now),
        recipient.email_id,
        truncate(recipient.last_error ?? '', MAX_ERROR_LENGTH),
      ]),
    ),
    ...(recipients.length < found.waiting
      ? [`… and ${formatCount(found.waiting - recipients.length, 'message')} more (--limit)`]
      : []),
  ].join('\n')
}
