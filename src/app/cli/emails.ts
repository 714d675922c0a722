/**
 * @module `tassis emails`: finds emails of all accounts, shows one, and retries, cancels or resends it; `tassis explain`:
 * what happened to one, for each recipient: why, who must act, what comes next, and its attempts with their dialogue;
 * `tassis dead-letters`: lists what could not be sent, and sends it again.
 */
import type { Email, EmailAttempt } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import type { OperatorDeadLetter, OperatorEmail, OperatorEmailExplanation } from '#client/operator-api.ts'
import { DEAD_LETTER_REASONS, type DeadLetterReason } from '#features/sending/dead-letters/dead-letters.ts'
import { STATUSES, type Status } from '#features/sending/queue/status.ts'
import { truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { type CommandApi, findAccountFilter, findOne, pageSize, readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import {
  type AccountOption,
  CommandError,
  collectOption,
  confirmAction,
  parseTimeOption,
  TIME_FORMS,
  UsageError,
} from './options.ts'
import {
  formatCount,
  formatFields,
  formatPage,
  formatUtc,
  formatUtcFromNow,
  joinParagraphs,
  toPrintable,
} from './output.ts'
import { formatChanged } from './queue.ts'

type Add = ReturnType<Command['group']>

const EMAIL_ARGUMENT = { id: 'email ID, its beginning as shown by `tassis emails list`, or a Message-ID' }

type Filter = 'query' | 'to' | 'from' | 'subject' | 'tag' | 'stream' | 'domain' | 'messageId' | 'since' | 'until'
type ListOptions = Partial<Readonly<Record<Filter, string>>> & { readonly status?: Status; readonly limit: number }

/** Enough for the millisecond of an id, and for the digits that tell emails of one millisecond apart. */
const SHOWN_ID_LENGTH = 18
const MAX_ADDRESS_LENGTH = 21
/** Of 80 columns, the width that the other table columns leave. */
const MAX_SUBJECT_LENGTH = 15

export function addEmailCommands(program: Command): void {
  const add = program.group('emails', 'find emails, explain them, and retry, cancel or resend one', EMAIL_ARGUMENT)
  add('list', 'list the newest emails of all accounts, by any of these filters')
    .accountFilter()
    .limit('emails', 30)
    .option(
      '--query <words>',
      'only with all of these: how an address, its domain, or a word of a name or subject begins',
    )
    .option('--to <address>', 'only to this address, to any @example.com, or to any that begins so')
    .option('--from <address>', 'only from this address, from any @example.com, or from any that begins so')
    .option('--subject <words>', 'only with all of these words in the subject')
    .option('--tag <tag>', 'only with this tag')
    .option('--stream <slug>', 'only in this message stream')
    .option('--domain <name>', 'only signed by this sending domain')
    .option('--message-id <id>', 'only the email with this Message-ID')
    .choice('--status <status>', 'only with this status', STATUSES)
    .option('--since <time>', `only accepted at or after this time: ${TIME_FORMS}`)
    .option('--until <time>', 'only accepted at or before this time; a date includes its whole day')
    .answer(
      async ({ api, options }: Context<ListOptions>) => {
        const { query: q, to, from, subject, tag, stream, domain, status, messageId, since, until, limit } = options
        const now = systemClock.now()
        const filters = {
          ...{ q, to, from, subject, tag, stream, domain, status, message_id: messageId, per_page: pageSize(limit) },
          account_id: await findAccountFilter(api, options),
          from_date: since && parseTimeOption('--since', since, now),
          to_date: until && parseTimeOption('--until', until, now),
        }
        return readRows(api.operator.listEmails(filters), limit)
      },
      (page) => {
        const isOfSeveral = page.data.some(({ account_id: id }) => id !== page.data[0]?.account_id)
        const columns = 'id day_and_time status to subject' as const
        const cells = {
          id: ({ id }: OperatorEmail) => id.slice(0, SHOWN_ID_LENGTH),
          day_and_time: ({ created_at: at }: OperatorEmail) => at.slice(5, 16).replace('T', ' '),
          to: ({ to }: OperatorEmail) => truncate(to, MAX_ADDRESS_LENGTH),
          subject: ({ subject }: OperatorEmail) => truncate(subject, MAX_SUBJECT_LENGTH),
        }
        return formatPage(page, isOfSeveral ? `${columns} account` : columns, cells, 'There is none.')
      },
    )
  add('show <id>', 'show an email: its recipients, the replies of their servers, its events').answer(
    async ({ api: all }: Context, text: string) => {
      const { api, id } = await findOne(all, 'email', text)
      return api.emails.get(id)
    },
    formatEmail,
  )
  addExplainCommand(add)
  addEmailActionCommands(add)
}

function formatEmail({ data }: { readonly data: Email }): string {
  const { id: email, account_id, from_address: from, to, cc, bcc, subject, tags, message_id, created_at } = data
  const header = { email, account_id, from, to, cc, bcc, subject, tags, message_id, created_at }
  const { scheduled_at, state, sentence, sandbox } = data
  return joinParagraphs(
    formatFields({ ...header, scheduled_at, state: `${state}. ${sentence}`, sandbox: sandbox || null }),
    formatPage(
      { data: data.recipients },
      'kind address status attempts bounce_type bounce_category delivered_at next_retry_at smtp_response',
    ),
    formatPage({ data: data.events }, 'created_at type recipient remote_mta diagnostic_code'),
  )
}

interface ResendOptions {
  readonly to?: readonly string[]
  readonly yes?: boolean
}

function addEmailActionCommands(add: Add): void {
  add('retry <id>', 'make an email due now that waits for another attempt; what is held stays held').answer(
    async ({ api }: Context, text: string) => {
      const { id, status, scheduled_at: at } = await readOpenEmail(api, text)
      if (status === 'scheduled')
        throw new CommandError(
          `The email is scheduled for ${formatUtc(at ?? '')}, so there is nothing to retry; \`tassis emails cancel ${id}\` cancels it.`,
          'email_scheduled',
        )
      return api.operator.retryQueue({ email_id: id })
    },
    (done, { api }) => `${formatChanged(done)}${formatIfStopped(api)}`,
  )
  add('release <id>', 'release a draft: it is sent at its time, or now').answer(
    async ({ api }: Context, text: string) => {
      const { id, account_id: account } = await readOpenEmail(api, text)
      return api.as(account).emails.release(id)
    },
    ({ data: { status } }, { api }) => `Released: it is ${status}.${formatIfStopped(api)}`,
  )
  add('cancel <id>', 'cancel an email that is a draft, scheduled or waits: no bounce; its quota is given back').answer(
    async ({ api }: Context, text: string) => {
      const { id, status, account_id: account } = await readOpenEmail(api, text)
      const isHere = status === 'scheduled' || status === 'draft'
      return isHere ? api.as(account).emails.cancel(id) : api.operator.dropQueue({ email_id: id })
    },
    ({ data }) => ('changed' in data ? formatChanged({ data }) : 'Cancelled: nothing of it is sent.'),
  )
  add('resend <id>', 'send a stored email that has ended again, as a new email')
    .option('--to <address>', 'only to this recipient of the email; repeat for several', collectOption)
    .option('--yes', 'do not ask, although a recipient may get it twice')
    .answer(
      async ({ api, options }: Context<ResendOptions>, text: string) => {
        const email = await readEmail(api, text)
        confirmTwice(email, options)
        return api.as(email.account_id).emails.resend(email.id, options.to ? { to: options.to } : {})
      },
      ({ data: { id, warnings = [] } }, { api }) =>
        [
          ...warnings.map((warning) => `Warning: ${warning}`),
          `Accepted as ${id}; \`tassis emails explain ${id}\` shows how it goes.${formatIfStopped(api)}`,
        ].join('\n'),
    )
}

async function readEmail(api: CommandApi, text: string): Promise<Email> {
  const found = await findOne(api, 'email', text)
  return (await found.api.emails.get(found.id)).data
}

const OPEN = ['draft', 'scheduled', 'queued', 'processing']

/** @throws CommandError for an email that has ended, with what sends it again */
async function readOpenEmail(api: CommandApi, text: string): Promise<Email> {
  const email = await readEmail(api, text)
  const { id, status, recipients } = email
  if (recipients.some((recipient) => OPEN.includes(recipient.status))) return email
  throw new CommandError(
    `The email is ${status} and waits for nothing; \`tassis dead-letters retry --email ${id}\` tries dead letters again, \`tassis emails resend ${id}\` sends it as a new email.`,
    'email_ended',
  )
}

/** Asks if a recipient may have got the first email. Not about those who got it: that is the purpose of a resend. */
function confirmTwice({ recipients }: Email, options: ResendOptions): void {
  const wanted = options.to?.map((address) => address.toLowerCase())
  const uncertain = recipients.filter(
    ({ address, status }) => status === 'uncertain' && (wanted?.includes(address.toLowerCase()) ?? true),
  )
  if (uncertain.length === 0) return
  const named = uncertain.map(({ address }) => address).join(', ')
  confirmAction(options, `${named} may have got the first email, so it may arrive twice`, 'send it again')
}

const formatIfStopped = ({ isServed }: CommandApi): string =>
  isServed ? '' : '\nNo service is running, so nothing is sent until one starts.'

interface ExplainOptions {
  readonly limit: number
  readonly all?: boolean | undefined
}

/** @param add adds it to the program, or to the group `tassis emails` */
export function addExplainCommand(add: Add): void {
  add('explain <id>', 'explain an email: its attempts, what comes next, who must act', {
    id: `${EMAIL_ARGUMENT.id}; or an address or its beginning, for the newest email to it`,
  })
    .limit('recipients', 10)
    .option('--all', 'show the dialogue of each attempt, not only of the last')
    .answer(
      async ({ api }: Context<ExplainOptions>, text) => api.operator.getEmailExplanation(await findEmail(api, text)),
      ({ data }, { options }) => formatExplanation(data, options),
    )
}

/** Id of the email that `text` names, else of the newest one to that address, or to one that begins so. */
async function findEmail(api: CommandApi, text: string): Promise<string> {
  try {
    return (await findOne(api, 'email', text)).id
  } catch (error) {
    if (!(error instanceof TassisError) || error.status !== 404 || !/^[^@\s]{3,}(@\S*)?$/.test(text)) throw error
    const { data: newest } = await api.operator.listEmails({ to: text, per_page: 1 })
    if (!newest[0]) throw error
    return newest[0].id
  }
}

type Recipient = OperatorEmailExplanation['recipients'][number]

function formatExplanation(explained: OperatorEmailExplanation, { limit, all = false }: ExplainOptions): string {
  const { id, account, from_address: from, subject, created_at, recipients, state, sentence } = explained
  const whole = recipients.length === 1 ? state : `${state}. ${sentence}`
  return joinParagraphs(
    formatFields({ email: id, account, from, subject, accepted: created_at, state: whole }),
    ...recipients.slice(0, limit).map((recipient) => formatRecipient(recipient, all)),
    recipients.length > limit && `… and ${recipients.length - limit} more recipients (--limit)`,
  )
}

function formatRecipient(recipient: Recipient, isAll: boolean): string {
  const { address, kind, state, attempt_count: count, next_at: nextAt, expires_at: expiresAt } = recipient
  const shown = {
    why: recipient.sentence,
    to_do: recipient.advice,
    who_acts: recipient.who_must_act,
    next: formatNext(recipient),
    deadline: expiresAt !== null && nextAt !== null ? formatUtcFromNow(expiresAt) : null,
  }
  return joinParagraphs(
    `${address} (${kind}): ${state} after ${formatCount(count, 'attempt')}\n${formatFields(shown, 2)}`,
    ...recipient.attempts.map((attempt, index) => formatAttempt(attempt, isAll || index === 0)),
  )
}

function formatNext(recipient: Recipient): string {
  const { state, next_at: nextAt, expires_at: expiresAt, dead_letter_id: letterId } = recipient
  if (letterId !== null) return `nothing automatically; \`tassis dead-letters retry ${letterId}\` tries again`
  if (state === 'processing') return 'the attempt in progress ends'
  if (nextAt === null) return state === 'held' ? 'nothing, until that has ended' : 'nothing'
  return `${nextAt === expiresAt ? 'ends as expired' : 'attempt'} ${formatUtcFromNow(nextAt)}`
}

const MARKS = { client: '>', server: '<', note: '*' } as const

function formatAttempt(given: EmailAttempt, withDialogue: boolean): string {
  const { attempt, ended_at: endedAt, outcome, source, host, address, tls, timings, dialogue } = given
  const { smtp_response, reason: why, category, rule } = given
  const reason = why === smtp_response ? null : why
  const lines = (withDialogue && dialogue) || []
  return [
    `  Attempt ${attempt}, ${formatUtcFromNow(endedAt)}:`,
    formatFields({ outcome, source, host, address, tls, timings, smtp_response, reason, category, rule }, 4),
    ...(lines.length > 0 ? ['    Dialogue, in ms:'] : []),
    ...lines.map(({ at_ms: at, from, text }) => toPrintable(`${String(at).padStart(9)} ${MARKS[from]} ${text}`)),
  ].join('\n')
}

interface SelectOptions extends AccountOption {
  readonly reason?: DeadLetterReason | undefined
  readonly email?: string | undefined
}

type RetryOptions = SelectOptions & { readonly all?: boolean; readonly yes?: boolean }

const readSelection = async (api: CommandApi, options: SelectOptions) => ({
  reason: options.reason,
  account_id: await findAccountFilter(api, options),
  email_id: options.email === undefined ? undefined : (await findOne(api, 'email', options.email)).id,
})

export function addDeadLetterCommands(program: Command): void {
  const addToGroup = program.group(
    'dead-letters',
    'list recipients whose delivery expired, failed or is uncertain, and retry them',
    { id: 'ID of a dead letter, as shown by `tassis dead-letters list`' },
  )
  const add = (usage: string, description: string): Command =>
    addToGroup(usage, description)
      .accountFilter()
      .choice('--reason <reason>', 'only with this reason', DEAD_LETTER_REASONS)
      .option('--email <id>', 'only of this email: its ID, or the beginning as shown by `tassis emails list`')

  add('list', 'list the newest dead letters of all accounts')
    .limit('dead letters', 30)
    .list(async ({ api, options, query }: ListContext<SelectOptions & { readonly limit: number }>) => {
      const selection = { ...query, ...(await readSelection(api, options)) }
      return readRows(api.operator.listDeadLetters(selection), options.limit)
    }, 'id failed_at failure_reason to_address subject account email_id last_error')
  add('retry [id]', 'put dead letters back into the queue, due now; exit code 1 if one cannot be sent again')
    .option('--all', 'all that the other options select; without --reason, none that are uncertain')
    .option('--yes', 'do not ask')
    .answer(
      async ({ api, options }: Context<RetryOptions>, id?: string) => {
        if (Number(id !== undefined) + Number(options.all || options.email !== undefined) !== 1)
          throw new UsageError('Give the ID of a dead letter, --email with the ID of an email, or --all.')
        const letters =
          id === undefined ? await selectLetters(api, options) : [(await api.operator.getDeadLetter(id)).data]
        const isUncertain = letters.some(({ failure_reason: reason }) => reason === 'uncertain')
        const facts = `${formatCount(letters.length, 'dead letter')}${isUncertain ? ', which may arrive twice' : ''}`
        if (id === undefined || isUncertain) confirmAction(options, facts, 'send them again')
        const data = []
        for (const letter of letters) data.push(await retryLetter(api, letter))
        if (data.some(({ error }) => error !== null)) process.exitCode = 1
        return { data }
      },
      ({ data }) => {
        const failed = data.flatMap(({ id, error }) => (error ? [`${id} was not: ${error.message}`] : []))
        const done = `${formatCount(data.length - failed.length, 'dead letter')} put back into the queue, due now.`
        return [done, ...failed].join('\n')
      },
    )
}

/** What is safe to send again: no receiver has it. */
const UNDELIVERED: readonly DeadLetterReason[] = ['expired', 'failed']

async function selectLetters(api: CommandApi, options: RetryOptions): Promise<OperatorDeadLetter[]> {
  const { reason, ...selection } = await readSelection(api, options)
  const letters: OperatorDeadLetter[] = []
  for (const only of reason === undefined ? UNDELIVERED : [reason])
    for await (const letter of api.operator.listDeadLetters({ ...selection, reason: only, per_page: 100 }))
      letters.push(letter)
  if (letters.length > 0) return letters
  throw new CommandError(
    'No dead letter matches (uncertain ones only with --reason uncertain); `tassis dead-letters list` shows all.',
    'dead_letter_not_found',
  )
}

/** `error`: why it was not put back into the queue; null: it was. */
async function retryLetter(api: CommandApi, { id, account_id: account }: OperatorDeadLetter) {
  try {
    await api.as(account).deadLetters.retry(id)
    return { id, error: null }
  } catch (error) {
    if (!(error instanceof TassisError) || error.status < 400 || error.status >= 500) throw error
    return { id, error: { code: error.code, message: error.message } }
  }
}
