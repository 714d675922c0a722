/**
 * @module `tassis queue`: what waits for delivery, why and until when; `hold`, `release`, `redirect`, `retry`, `bounce`
 * and `drop`: what the operator does with it. Each counts first and asks.
 */
import { type Command, Option } from 'commander'
import type {
  OperatorHealth,
  OperatorQueue,
  OperatorQueueRecipient,
  OperatorQueueRule,
  OperatorQueueSelection,
  RetryOperatorQueueRequest,
  RetryOperatorQueueResult,
} from '#client/operator-api.ts'
import { truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { apiAction, type CommandApi, findOne, readRows } from './api.ts'
import { confirmAction } from './input.ts'
import { type AccountOption, addCommand, type JsonOption, withLimit } from './options.ts'
import {
  type Columns,
  formatCount,
  formatFromNow,
  formatPage,
  formatUtc,
  formatUtcFromNow,
  print,
  printResult,
  quoteShellWord,
  toPrintable,
} from './output.ts'

const MAX_PER_LANE = 10
const MAX_SHOWN_RULES = 20
const MAX_ERROR_LENGTH = 120

export function addQueueCommand(program: Command): void {
  const queue = withLimit(
    addCommand(program, 'queue', 'show what waits for delivery, why and until when'),
    'destinations and of recipients',
    30,
  )
    .option('--all', 'every destination (domain and account), not only those with the earliest mail')
    .action(
      apiAction<JsonOption & { limit: number; all?: boolean }>(async ({ api, options }) =>
        printResult(options, await readQueue(api, options), formatQueue),
      ),
    )
  withReason(withEmail(addAction(queue, 'hold', HOLD)))
  withEmail(addAction(queue, 'release', RELEASE)).addOption(
    new Option('--only <kind>', 'end only holds, or only redirects; default: both').choices(['hold', 'redirect']),
  )
  withReason(addAction(queue, 'redirect', REDIRECT)).requiredOption(
    '--to <destination>',
    'example.com (its MX hosts), [mx.example.com] or an IP address, each with :PORT or without',
  )
  withEmail(addAction(queue, 'retry', RETRY))
  withEmail(addAction(queue, 'bounce', BOUNCE)).requiredOption('--reason <sentence>', 'why; the senders read it')
  withEmail(addAction(queue, 'drop', DROP)).alias('cancel')
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

interface MailOptions extends JsonOption, AccountOption {
  readonly domain?: string
  readonly provider?: string
  readonly email?: string
  readonly yes?: boolean
  readonly reason?: string
  readonly to?: string
  readonly only?: 'hold' | 'redirect'
}

type Selector = Omit<RetryOperatorQueueRequest, 'cursor'>

interface Action<Done> {
  readonly description: string
  readonly question: (options: MailOptions) => string
  readonly send: (api: CommandApi, selector: Selector, options: MailOptions) => Promise<Done>
  readonly format: (done: Done, options: MailOptions) => string
}

/** Adds a command that counts the mail that its options name, asks, and changes it. */
const addAction = <Done>(
  queue: Command,
  name: string,
  { description, question, send, format }: Action<Done>,
): Command =>
  addCommand(queue, name, description)
    .option('--domain <domain>', 'mail to this domain')
    .option('--provider <name>', 'mail to the domains of this provider, as `tassis providers` shows it')
    .option('--account <id|name>', 'mail of this account')
    .option('--yes', 'do not ask')
    .action(
      apiAction<MailOptions>(async ({ api, options }) => {
        // Mail that waits for its content is released as a whole.
        if (name === 'release' && isUnnamed(options)) return releaseRestored(api, options)
        const selector = await selectMail(api, options, question(options))
        printResult(options, await send(api, selector, options), (done) => format(done, options))
      }),
    )

const withEmail = (command: Command): Command =>
  command.option('--email <id>', 'this email alone: its ID, or the beginning as shown by `tassis emails list`')

const withReason = (command: Command): Command => command.option('--reason <sentence>', 'why; `tassis queue` shows it')

/** The options that name the mail, as a person writes them. */
const describeMail = ({ domain, provider, account, email }: MailOptions): string =>
  Object.entries({ domain, provider, account, email })
    .flatMap(([name, value]) => (value === undefined ? [] : [`--${name} ${quoteShellWord(toPrintable(value))}`]))
    .join(' ')

const isUnnamed = (options: MailOptions): boolean => options.only === undefined && describeMail(options) === ''

/** Counts the mail that the options name, and asks. @throws CommandError without a yes */
async function selectMail(api: CommandApi, options: MailOptions, question: string): Promise<Selector> {
  const { domain, provider, account, email } = options
  const selector = {
    domain,
    provider,
    account_id: account === undefined ? undefined : (await api.account.get()).data.id,
    email_id: email === undefined ? undefined : (await findOne(api, 'email', email)).id,
  }
  const { data: found } = await api.operator.getQueueSelection(selector)
  const matches = `${formatCount(found.waiting, 'waiting message')} ${found.waiting === 1 ? 'matches' : 'match'}`
  confirmAction(options, `${matches}, and ${found.in_delivery} in delivery`, question)
  return selector
}

const HOLD: Action<{ readonly data: OperatorQueueSelection }> = {
  description: 'hold mail, now and in future, until it is released; it does not expire',
  question: () => 'hold them and what comes later',
  send: ({ operator }, selector, { reason }) => operator.holdQueue({ ...selector, reason }),
  format: ({ data: { waiting, in_delivery } }, options) =>
    `${waiting} held${formatInDelivery(in_delivery)}${waiting === 0 ? ' (if you expected some, check the name)' : ''}. ${options.email === undefined ? 'Mail that comes later is held too, until' : 'It waits until'} \`tassis queue release ${describeMail(options)}\`.`,
}

const REDIRECT: Action<{ readonly data: OperatorQueueSelection }> = {
  description: 'send mail, now and in future, to another host than its MX, until `tassis queue release`',
  question: ({ to }) => `redirect them and what comes later to ${to}`,
  send: ({ operator }, selector, { to = '', reason }) => operator.redirectQueue({ ...selector, to, reason }),
  format: ({ data: { waiting, in_delivery } }, options) =>
    `${waiting} redirected to ${toPrintable(options.to ?? '')}${formatInDelivery(in_delivery)}. \`tassis queue retry ${describeMail(options)}\` sends what waits for another attempt.`,
}

const RELEASE: Action<{ readonly data: readonly OperatorQueueRule[] }> = {
  description:
    'end holds and redirects; without options, release mail that was held for missing content, after that content has been restored',
  question: ({ only }) => (only === undefined ? 'end their holds and redirects' : `end their ${only}s`),
  send: ({ operator }, selector, { only }) => operator.releaseQueue({ ...selector, kind: only }),
  format: ({ data: ended }) =>
    ended.length === 0
      ? 'No hold or redirect matches; `tassis queue` shows them.'
      : ended.map((rule) => `Ended: ${formatRule(rule)}`).join('\n'),
}

const releaseRestored = async (api: CommandApi, options: JsonOption): Promise<void> =>
  printResult(
    options,
    await api.operator.releaseQueueWithoutContent(),
    ({ data: { released } }) =>
      `${formatCount(released, 'message')} released; messages whose content is still missing are held again.`,
  )

const RETRY = createChange({
  description: 'make mail due now that waits for another attempt, except held and scheduled mail',
  question: 'try them now',
  participle: 'due now',
  advice: ['Mail that was due already is tried now, too.'],
  send: ({ operator }, body) => operator.retryQueue(body),
})
const BOUNCE = createChange({
  description: 'end mail as bounced (soft, expired), with dead letters; its senders are notified',
  question: 'bounce them',
  participle: 'bounced',
  send: ({ operator }, body, reason) => operator.bounceQueue({ ...body, reason }),
})
const DROP = createChange({
  description: 'cancel mail without a bounce: an event says that you dropped it, and its quota is given back',
  question: 'drop them',
  participle: 'dropped',
  send: ({ operator }, body) => operator.dropQueue(body),
})

type Changed = Omit<RetryOperatorQueueResult, 'next_cursor'>

/** An action that repeats its request until all selected mail was examined, because each changes a limited number. */
function createChange({
  description,
  question,
  participle,
  advice = [],
  send,
}: {
  readonly description: string
  readonly question: string
  /** What the mail is afterwards. */
  readonly participle: string
  readonly advice?: readonly string[]
  readonly send: (
    api: CommandApi,
    body: RetryOperatorQueueRequest,
    reason: string,
  ) => Promise<{ readonly data: RetryOperatorQueueResult }>
}): Action<{ readonly data: Changed }> {
  const sendAll = async (api: CommandApi, selector: Selector, { reason = '', json }: MailOptions) => {
    const sum = { changed: 0, in_delivery: 0, held: 0, suspended: [] as readonly string[] }
    for (let cursor: string | undefined; ; ) {
      const { data: done } = await send(api, { ...selector, cursor }, reason)
      sum.changed += done.changed
      sum.in_delivery += done.in_delivery
      sum.held += done.held
      sum.suspended = [...new Set([...sum.suspended, ...done.suspended])]
      if (done.next_cursor === null) return { data: sum }
      cursor = done.next_cursor
      if (!json) print(`${sum.changed} ${participle} so far …`)
    }
  }
  const format = ({ data }: { readonly data: Changed }): string =>
    [
      `${data.changed} ${participle}${formatHeldAndInDelivery(data)}.`,
      ...advice,
      ...data.suspended.map(formatSuspended),
    ].join('\n')
  return { description, question: () => question, send: sendAll, format }
}

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
