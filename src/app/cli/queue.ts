/**
 * @module `tassis queue`: what waits for delivery, why and until when; `hold`, `release`, `redirect`, `retry`, `bounce`
 * and `drop`: what the operator does with it. Each counts first and asks. `tassis providers`: limits, rates and
 * suspensions of receiving providers. `tassis operations`: batches, imports and broadcasts of all accounts.
 */
import type { Operation } from '#client/api.ts'
import type {
  OperatorQueueRecipient,
  OperatorQueueRule,
  OperatorReputation,
  ReleaseOperatorQueueWithoutContentResult,
  RetryOperatorQueueRequest,
  RetryOperatorQueueResult,
} from '#client/operator-api.ts'
import { OUTCOME_DAYS } from '#features/sending/delivery/providers/daily-outcomes.ts'
import { quoteShellWord } from '#platform/text.ts'
import { type CommandApi, findAccountFilter, findOne, readRows, sendAll } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { confirmAction, createWholeNumberParser } from './options.ts'
import * as output from './output.ts'

const MAX_PER_LANE = 10

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

function formatQueue(found: Awaited<ReturnType<typeof readQueue>>): string {
  const { data, recipients, rules, health, pagination } = found
  const { queue, webhooks, received, is_delivering: isDelivering } = health
  const destinations = `${output.formatCount(queue.waiting, 'message')} to ${output.formatCount(pagination.total, 'destination')}`
  return output.joinParagraphs(
    data.length === 0
      ? 'The queue is empty.'
      : `${destinations}${isDelivering ? '' : '; NO SERVICE IS RUNNING, so nothing is delivered'}`,
    output.formatPage(found, 'domain waiting first_due why', {
      domain: ({ label }) => label,
      first_due: ({ first_due_at: at }) => output.formatUtcFromNow(at),
      why: ({ reason }) => reason,
    }),
    output.formatPage(
      { data: recipients, has_more: queue.waiting > recipients.length },
      'recipient status attempts next_attempt email_id last_error',
      {
        next_attempt: ({ next_at: at, waits_for: last }) => (last ? `after the ${last}` : output.formatUtcFromNow(at)),
      },
    ),
    formatRules(rules),
    webhooks.waiting + webhooks.deactivated > 0 &&
      `Webhooks: deliveries that wait ${webhooks.waiting}, deactivated by failures ${webhooks.deactivated} (tassis webhooks list)`,
    received > 0 && `${output.formatCount(received, 'received message')} not processed yet`,
  )
}

const formatRules = (data: readonly OperatorQueueRule[], sentenceWithoutRows = ''): string =>
  output.formatPage(
    { data },
    'kind domain provider account email_id to created_at created_by reason',
    undefined,
    sentenceWithoutRows,
  )

interface MailOptions extends Partial<Readonly<Record<'domain' | 'provider' | 'email' | 'reason' | 'to', string>>> {
  readonly yes?: boolean
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
    add(name, description).option('--email <id>', 'this email alone: its ID, or the beginning of it')

  addForEmail('hold', 'hold mail, now and in future, until it is released; it does not expire')
    .option('--reason <sentence>', 'why; `tassis queue` shows it')
    .answer(
      async (context: MailContext) => {
        const selector = await selectMail(context, `hold them${context.options.email ? '' : ' and what comes later'}`)
        return context.api.operator.holdQueue({ ...selector, reason: context.options.reason })
      },
      ({ data }, { options }) =>
        `${output.formatFields(data)}\nAll of it${options.email ? '' : ', and mail that comes later,'} is held until \`tassis queue release ${describeMail(options)}\`.`,
    )
  addForEmail(
    'release',
    'end holds and redirects; without options, release mail that was held for missing content, after that content has been restored',
  )
    .choice('--only <kind>', 'end only holds, or only redirects; default: both', ['hold', 'redirect'])
    .answer(release, ({ data }) =>
      'released' in data
        ? `${output.formatCount(data.released, 'message')} released; messages whose content is still missing are held again.`
        : formatRules(data, 'No hold or redirect matches; `tassis queue` shows them.'),
    )
  add('redirect', 'send mail, now and in future, to another host than its MX, until `tassis queue release`')
    .option('--reason <sentence>', 'why; `tassis queue` shows it')
    .requiredOption(
      '--to <destination>',
      'example.com (its MX hosts), [mx.example.com] or an IP address; :PORT may follow',
    )
    .answer(
      async (context: MailContext) => {
        const { to = '', reason } = context.options
        const selector = await selectMail(context, `redirect them and what comes later to ${to}`)
        return context.api.operator.redirectQueue({ ...selector, to, reason })
      },
      ({ data }, { options }) =>
        `${output.formatFields(data)}\n\`tassis queue retry ${describeMail(options)}\` sends what waits for another attempt.`,
    )
  addForEmail('retry', 'make mail due now that waits for another attempt, except held and scheduled mail').answer(
    (context: MailContext) => changeAll(context, 'try them now', context.api.operator.retryQueue),
    formatChanged,
  )
  addForEmail('bounce', 'end mail as bounced (soft, expired), with dead letters; its senders are notified')
    .requiredOption('--reason <sentence>', 'why; the senders read it')
    .answer((context: MailContext) => {
      const { operator } = context.api
      const { reason = '' } = context.options
      return changeAll(context, 'bounce them', (body) => operator.bounceQueue({ ...body, reason }))
    }, formatChanged)
  addForEmail('drop', 'cancel mail without a bounce: an event says that you dropped it, and its quota is given back')
    .alias('cancel')
    .answer((context: MailContext) => changeAll(context, 'drop them', context.api.operator.dropQueue), formatChanged)
}

/** The options that name the mail, as a person writes them. */
const describeMail = ({ domain, provider, account, email }: MailContext['options']): string =>
  Object.entries({ domain, provider, account, email })
    .flatMap(([name, value]) => (value === undefined ? [] : [`--${name} ${quoteShellWord(value)}`]))
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
  const matches = `${output.formatCount(found.waiting, 'waiting message')} ${found.waiting === 1 ? 'matches' : 'match'}`
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

/** Repeats the request until all selected mail was examined, because each changes a limited number. */
async function changeAll(
  context: MailContext,
  question: string,
  send: (body: RetryOperatorQueueRequest) => Promise<{ readonly data: RetryOperatorQueueResult }>,
): Promise<{ readonly data: Changed }> {
  const selector = await selectMail(context, question)
  const sum = { changed: 0, in_delivery: 0, held: 0, suspended: [] as readonly string[] }
  for await (const done of sendAll((cursor) => send({ ...selector, cursor }))) {
    sum.changed += done.changed
    sum.in_delivery += done.in_delivery
    sum.held += done.held
    sum.suspended = [...new Set([...sum.suspended, ...done.suspended])]
    if (done.next_cursor !== null && !context.options.json) output.print(`${sum.changed} so far …`)
  }
  return { data: sum }
}

/** What was changed, and what was not. */
export const formatChanged = ({ data }: { readonly data: Changed }): string =>
  [
    output.formatFields(data),
    ...(data.held + data.in_delivery > 0
      ? ['What is held or in delivery was left alone; see `tassis queue`.']
      : data.changed === 0
        ? ['There was nothing to change: no mail matches, or it is due already.']
        : []),
    ...(data.suspended.length > 0
      ? ['Mail to a suspended provider waits for the probe; `tassis providers resume NAME` ends that.']
      : []),
  ].join('\n')

/** `all`: also the listed providers to which nothing was sent. */
type ListOptions = { readonly limit: number; readonly all?: boolean }

export function addProviderCommands(program: Command): void {
  const providers = program
    .add('providers', 'show limits, rates, suspensions and alerts of receiving providers')
    .option('--all', 'also listed providers to which nothing was sent')
    .limit('providers', 30)
    .answer(async ({ api, options }: Context<ListOptions>) => readProviders(api, options), formatProviders)
  providers
    .add('reputation', 'show bounces, blocks, deferrals and complaints by provider and outgoing address')
    .option('--days <number>', 'days up to today', createWholeNumberParser(1, OUTCOME_DAYS), 30)
    .answer(async ({ api, options: { days } }: Context<{ days: number }>) => {
      const { data } = await api.operator.getReputation({ days })
      // Fails when a rate is bad or an address is listed.
      if (data.alerts.length + data.listings.length > 0) process.exitCode = 1
      return { data }
    }, formatReputation)
  providers
    .add('resume <name>', 'lift the suspension of a provider, and restore a lowered rate', {
      name: 'name of the provider, as `tassis providers` shows it',
    })
    .answer(
      async ({ api }, name) => api.operator.resumeProvider(name),
      ({ data: { provider, resumed } }) =>
        resumed === 0
          ? `${provider} was neither suspended nor slowed down.`
          : `${provider} is back to its limits; mail that is due is tried now.\n\`tassis queue retry --provider ${quoteShellWord(provider)}\` also makes due what waits for another attempt. If it blocks us again, it is suspended again.`,
    )
}

const formatReputation = ({ data }: { readonly data: OperatorReputation }): string =>
  output.joinParagraphs(
    output.formatPage(
      { data: data.pairs },
      'provider source accepted bounce_rate block_rate deferral_rate complaint_rate',
      undefined,
      'Nothing was sent in these days.',
    ),
    ...data.alerts.map(({ message, advice }) => `Alert: ${message}\n  ${advice}`),
    ...data.listings,
  )

async function readProviders({ operator }: CommandApi, { limit, all }: ListOptions) {
  const providers = await readRows(operator.listProviders({ per_page: 100, used: all ? undefined : 'true' }), limit)
  const { data: alerts } = await readRows(operator.listAlerts(), limit)
  return { ...providers, alerts }
}

const formatProviders = (found: Awaited<ReturnType<typeof readProviders>>): string =>
  output.joinParagraphs(
    output.formatPage(
      found,
      'provider source in_delivery waiting_lanes connections rate_per_minute rate_factor last_hour warm_up suspension',
      {
        connections: ({ limits }) => limits.connections,
        warm_up: ({ warm_up: warmUp }) => warmUp && `${warmUp.used} of ${warmUp.budget}`,
        suspension: ({ suspension: now }) =>
          now && `until ${output.formatUtcFromNow(now.until)}, ${now.rule}: ${now.reason}`,
      },
      'Nothing was sent yet; --all shows the limits of all listed providers.',
    ),
    ...found.alerts.map(({ provider, source, rule, reply, count, first_at, last_at, advice }) => {
      const pair = `${provider}${source === null ? '' : ` from ${source}`}`
      const since = `${output.formatCount(count, 'attempt')} since ${output.formatUtc(first_at)}, the last ${output.formatFromNow(last_at)}`
      return `Alert: ${pair}, rule ${rule}: ${since}\n  ${reply}\n  ${advice}`
    }),
    found.data.some(({ suspension }) => suspension !== null) &&
      '`tassis providers resume NAME` ends a suspension at once; do so when its cause has ended.',
  )

const VERB_DESCRIPTIONS = {
  pause: 'pause a broadcast; attempts in flight finish',
  resume: 'resume a paused broadcast where it stopped',
  cancel: 'cancel a broadcast permanently; emails that were not attempted are not sent',
} as const

export function addOperationCommands(program: Command): void {
  const add = program.group('operations', 'show batches, imports and broadcasts; pause, resume or cancel a broadcast', {
    id: 'operation ID, as shown by `tassis operations`',
  })
  add('list', 'list the newest operations of all accounts', {}, { isDefault: true })
    .accountFilter()
    .limit('operations', 20)
    .option('--open', 'only operations in progress')
    .list(
      ({ api, options, query }: ListContext<{ open?: boolean }>) =>
        api.operator.listOperations({ ...query, open: options.open ? 'true' : undefined }),
      'id account operation_type list_name subject state total_items completed_items failed_items failed_emails created_at why',
      {
        subject: (row) => readDetails(row).subject,
        // That of a broadcast is more precise than the status of its operation.
        state: (row) => readDetails(row).state ?? row.status,
        why: ({ error_summary: error }) => error?.message,
      },
    )
  add('show <id>', 'show an operation and the status of its emails').answer(
    async ({ api: all }: Context, id: string) => {
      const { api, id: found } = await findOne(all, 'operation', id)
      return api.operations.get(found)
    },
    formatOperation,
  )
  for (const verb of ['pause', 'resume', 'cancel'] as const)
    add(`${verb} <id>`, VERB_DESCRIPTIONS[verb]).answer(
      async ({ api: all }: Context, id: string) => {
        const { api, id: found } = await findOne(all, 'operation', id)
        return api.operations[verb](found)
      },
      (done, { api }) =>
        `${formatOperation(done)}${api.isServed ? '' : '\nNo service is running; the broadcast continues when one starts.'}`,
    )
}

/** The metadata of a broadcast or import; other operations have none. */
const readDetails = ({ metadata }: Operation) =>
  (metadata ?? {}) as { readonly state?: string | undefined; readonly subject?: string | undefined }

const formatOperation = ({ data: { metadata, ...shown } }: { readonly data: Operation }): string =>
  output.formatFields({ ...shown, ...(metadata as object | null) })
