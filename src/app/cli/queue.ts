/**
 * @module `tassis queue`: what waits for delivery, why and until when; `hold`, `release`, `redirect`, `retry`, `bounce`
 * and `drop`: what the operator does with it. Each counts first and asks.
 */
import { Option } from 'commander'
import type {
  OperatorHealth,
  OperatorQueue,
  OperatorQueueRecipient,
  OperatorQueueRule,
  ReleaseOperatorQueueWithoutContentResult,
  RetryOperatorQueueRequest,
  RetryOperatorQueueResult,
} from '#client/operator-api.ts'
import { truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { type CommandApi, findAccountFilter, findOne, readRows } from './api.ts'
import type { Command, Context } from './command.ts'
import { confirmAction } from './input.ts'
import {
  type Columns,
  formatCount,
  formatFromNow,
  formatPage,
  formatUtc,
  formatUtcFromNow,
  print,
  quoteShellWord,
  toPrintable,
} from './output.ts'

const MAX_PER_LANE = 10
const MAX_SHOWN_RULES = 20
const MAX_ERROR_LENGTH = 120

export function addQueueCommand(program: Command): void {
  const queue = program
    .add('queue', 'show what waits for delivery, why and until when')
    .limit('destinations and of recipients', 30)
    .option('--all', 'every destination (domain and account), not only those with the earliest mail')
    .answer(async ({ api, options }: Context<{ limit: number; all?: boolean }>) => readQueue(api, options), formatQueue)
  addActions(queue)
}

async function readQueue(api: CommandApi, { limit, all }: { readonly limit: number; readonly all?: boolean }) {
  const lanes = await readRows(api.operator.getQueue({ per_page: 100 }), all ? Number.POSITIVE_INFINITY : limit)
  const recipients: OperatorQueueRecipient[] = []
  for (const { lane } of lanes.data) {
    const capacity = Math.min(MAX_PER_LANE, limit - recipients.length)
    if (capacity <= 0) break
    recipients.push(...(await api.operator.listQueueRecipients({ lane })).data.slice(0, capacity))
  }
  const { data: rules } = await api.operator.listQueueRules()
  const { data: health } = await api.operator.getHealth()
  return { ...lanes, recipients, rules, health }
}

type Queue = Awaited<ReturnType<typeof readQueue>>

const formatQueue = (found: Queue): string =>
  [
    formatMail(found),
    found.rules.slice(0, MAX_SHOWN_RULES).map(formatRule).join('\n'),
    found.rules.length > MAX_SHOWN_RULES ? `… and ${found.rules.length - MAX_SHOWN_RULES} more (--json)` : '',
    formatWebhooks(found.health),
    found.health.received === 0 ? '' : `${formatCount(found.health.received, 'received message')} not processed yet`,
  ]
    .filter((part) => part !== '')
    .join('\n\n')

/** At most one line; `tassis webhooks` shows the details. */
const formatWebhooks = ({ webhooks: { waiting, deactivated } }: OperatorHealth): string =>
  waiting + deactivated === 0
    ? ''
    : `Webhooks: deliveries that wait ${waiting}, deactivated by failures ${deactivated} (tassis webhooks list)`

/** The table of lanes says why mail that is due waits. */
function formatNextAttempt({ waits_for: waitsFor, next_at: at }: OperatorQueueRecipient): string {
  if (waitsFor !== null) return waitsFor === 'hold' ? 'held' : 'fenced'
  return Date.parse(at) > systemClock.now() ? formatUtcFromNow(at) : `due ${formatFromNow(at)}`
}

const LANE_COLUMNS: Columns<OperatorQueue> = {
  DOMAIN: ({ label }) => label,
  WAITING: ({ waiting }) => String(waiting),
  'FIRST DUE': ({ first_due_at: at }) => formatUtcFromNow(at),
  WHY: ({ reason }) => reason,
}

const RECIPIENT_COLUMNS: Columns<OperatorQueueRecipient> = {
  RECIPIENT: ({ recipient }) => recipient,
  STATUS: ({ status }) => status,
  ATTEMPTS: ({ attempts }) => String(attempts),
  'NEXT ATTEMPT': formatNextAttempt,
  EMAIL: ({ email_id: id }) => id,
  'LAST ERROR': ({ last_error: error }) => truncate(error ?? '', MAX_ERROR_LENGTH),
}

function formatMail(found: Queue): string {
  const { health, recipients, pagination, data } = found
  if (data.length === 0) return 'The queue is empty.'
  const { waiting } = health.queue
  const left = waiting - recipients.length
  return [
    `${formatCount(waiting, 'message')} to ${formatCount(pagination.total, 'destination')}${health.is_delivering ? '' : '; NO SERVICE IS RUNNING, so nothing is delivered'}`,
    formatPage(found, '', LANE_COLUMNS),
    `${formatPage({ data: recipients }, '', RECIPIENT_COLUMNS)}${left > 0 ? `\n… and ${formatCount(left, 'message')} more (--limit)` : ''}`,
  ].join('\n\n')
}

interface MailOptions {
  readonly domain?: string
  readonly provider?: string
  readonly email?: string
  readonly yes?: boolean
  readonly reason?: string
  readonly to?: string
  readonly only?: 'hold' | 'redirect'
}

type MailContext = Context<MailOptions>
type Selector = Omit<RetryOperatorQueueRequest, 'cursor'>

function addActions(queue: Command): void {
  /** A command that counts the mail that its options name, asks, and changes it. */
  const add = (name: string, description: string): Command =>
    queue
      .add(name, description)
      .account('mail of this account')
      .option('--domain <domain>', 'mail to this domain')
      .option('--provider <name>', 'mail to the domains of this provider, as `tassis providers` shows it')
      .option('--yes', 'do not ask')
  const addForEmail = (name: string, description: string): Command =>
    add(name, description).option(
      '--email <id>',
      'this email alone: its ID, or the beginning as shown by `tassis emails list`',
    )

  addForEmail('hold', 'hold mail, now and in future, until it is released; it does not expire')
    .option('--reason <sentence>', 'why; `tassis queue` shows it')
    .answer(
      async (context: MailContext) => {
        const selector = await selectMail(context, 'hold them and what comes later')
        return context.api.operator.holdQueue({ ...selector, reason: context.options.reason })
      },
      ({ data: { waiting, in_delivery } }, { options }) =>
        `${waiting} held${formatInDelivery(in_delivery)}${waiting === 0 ? ' (if you expected some, check the name)' : ''}. ${options.email === undefined ? 'Mail that comes later is held too, until' : 'It waits until'} \`tassis queue release ${describeMail(options)}\`.`,
    )
  addForEmail(
    'release',
    'end holds and redirects; without options, release mail that was held for missing content, after that content has been restored',
  )
    .addOption(
      new Option('--only <kind>', 'end only holds, or only redirects; default: both').choices(['hold', 'redirect']),
    )
    .answer(release, ({ data }) => {
      // Mail that waits for its content is released as a whole.
      if ('released' in data)
        return `${formatCount(data.released, 'message')} released; messages whose content is still missing are held again.`
      if (data.length === 0) return 'No hold or redirect matches; `tassis queue` shows them.'
      return data.map((rule) => `Ended: ${formatRule(rule)}`).join('\n')
    })
  add('redirect', 'send mail, now and in future, to another host than its MX, until `tassis queue release`')
    .option('--reason <sentence>', 'why; `tassis queue` shows it')
    .requiredOption(
      '--to <destination>',
      'example.com (its MX hosts), [mx.example.com] or an IP address, each with :PORT or without',
    )
    .answer(
      async (context: MailContext) => {
        const { to = '', reason } = context.options
        const selector = await selectMail(context, `redirect them and what comes later to ${to}`)
        return context.api.operator.redirectQueue({ ...selector, to, reason })
      },
      ({ data: { waiting, in_delivery } }, { options }) =>
        `${waiting} redirected to ${toPrintable(options.to ?? '')}${formatInDelivery(in_delivery)}. \`tassis queue retry ${describeMail(options)}\` sends what waits for another attempt.`,
    )
  addForEmail('retry', 'make mail due now that waits for another attempt, except held and scheduled mail').answer(
    (context: MailContext) => changeAll(context, 'try them now', 'due now', context.api.operator.retryQueue),
    ({ data }) => formatChanged(data, 'due now', ['Mail that was due already is tried now, too.']),
  )
  addForEmail('bounce', 'end mail as bounced (soft, expired), with dead letters; its senders are notified')
    .requiredOption('--reason <sentence>', 'why; the senders read it')
    .answer(
      (context: MailContext) => {
        const {
          api,
          options: { reason = '' },
        } = context
        return changeAll(context, 'bounce them', 'bounced', (body) => api.operator.bounceQueue({ ...body, reason }))
      },
      ({ data }) => formatChanged(data, 'bounced'),
    )
  addForEmail('drop', 'cancel mail without a bounce: an event says that you dropped it, and its quota is given back')
    .alias('cancel')
    .answer(
      (context: MailContext) => changeAll(context, 'drop them', 'dropped', context.api.operator.dropQueue),
      ({ data }) => formatChanged(data, 'dropped'),
    )
}

/** The options that name the mail, as a person writes them. */
const describeMail = ({ domain, provider, account, email }: MailContext['options']): string =>
  Object.entries({ domain, provider, account, email })
    .flatMap(([name, value]) => (value === undefined ? [] : [`--${name} ${quoteShellWord(toPrintable(value))}`]))
    .join(' ')

/** Counts the mail that the options name, and asks. @throws CommandError without a yes */
async function selectMail({ api, options }: MailContext, question: string): Promise<Selector> {
  const { domain, provider, email } = options
  const selector = {
    domain,
    provider,
    account_id: await findAccountFilter(api, options),
    email_id: email === undefined ? undefined : (await findOne(api, 'email', email)).id,
  }
  const { data: found } = await api.operator.getQueueSelection(selector)
  const matches = `${formatCount(found.waiting, 'waiting message')} ${found.waiting === 1 ? 'matches' : 'match'}`
  confirmAction(options, `${matches}, and ${found.in_delivery} in delivery`, question)
  return selector
}

async function release(
  context: MailContext,
): Promise<{ readonly data: readonly OperatorQueueRule[] | ReleaseOperatorQueueWithoutContentResult }> {
  const { api, options } = context
  const { only } = options
  if (only === undefined && describeMail(options) === '') return api.operator.releaseQueueWithoutContent()
  const question = only === undefined ? 'end their holds and redirects' : `end their ${only}s`
  return api.operator.releaseQueue({ ...(await selectMail(context, question)), kind: only })
}

type Changed = Omit<RetryOperatorQueueResult, 'next_cursor'>

/**
 * Repeats the request until all selected mail was examined, because each changes a limited number.
 * @param participle what the mail is afterwards
 */
async function changeAll(
  context: MailContext,
  question: string,
  participle: string,
  send: (body: RetryOperatorQueueRequest) => Promise<{ readonly data: RetryOperatorQueueResult }>,
): Promise<{ readonly data: Changed }> {
  const selector = await selectMail(context, question)
  const sum = { changed: 0, in_delivery: 0, held: 0, suspended: [] as readonly string[] }
  for (let cursor: string | undefined; ; ) {
    const { data: done } = await send({ ...selector, cursor })
    sum.changed += done.changed
    sum.in_delivery += done.in_delivery
    sum.held += done.held
    sum.suspended = [...new Set([...sum.suspended, ...done.suspended])]
    if (done.next_cursor === null) return { data: sum }
    cursor = done.next_cursor
    if (!context.options.json) print(`${sum.changed} ${participle} so far …`)
  }
}

const formatChanged = (changed: Changed, participle: string, advice: readonly string[] = []): string =>
  [
    `${changed.changed} ${participle}${formatHeldAndInDelivery(changed)}.`,
    ...advice,
    ...changed.suspended.map(formatSuspended),
  ].join('\n')

/** One line about a hold or redirect. */
function formatRule(rule: OperatorQueueRule): string {
  const { kind, domain, provider, account, account_id, email_id, to, reason, created_by, created_at } = rule
  const mail =
    email_id === null
      ? [
          'mail',
          ...(domain === null ? [] : [`to ${domain}`]),
          ...(provider === null ? [] : [`to provider ${provider}`]),
          ...(account_id === null ? [] : [`of ${account ?? 'a deleted account'}`]),
        ].join(' ')
      : `email ${email_id}`
  const what = kind === 'hold' ? `${mail} is held` : `${mail} goes to ${to}`
  return toPrintable(`${what} since ${formatUtc(created_at)} by ${created_by}${reason === '' ? '' : `: ${reason}`}`)
}

export const formatInDelivery = (count: number): string => (count === 0 ? '' : `, ${count} in delivery left alone`)

export const formatHeldAndInDelivery = ({
  held,
  in_delivery: inDelivery,
}: {
  readonly held: number
  readonly in_delivery: number
}): string => `${held === 0 ? '' : `, ${held} held left alone`}${formatInDelivery(inDelivery)}`

export const formatSuspended = (provider: string): string =>
  `${toPrintable(provider)} is suspended, so its mail waits for the probe; \`tassis providers resume ${quoteShellWord(toPrintable(provider))}\` ends that.`
