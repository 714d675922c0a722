/**
 * @module `tassis emails`: finds emails of all accounts, shows one, and retries, cancels or resends it; `tassis explain`:
 * what happened to one, for each recipient: why, who must act, what comes next, and its attempts with their dialogue.
 */
import { Option } from 'commander'
import type { Email, EmailAttempt, EmailEvent, EmailRecipient } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import type { OperatorEmail, OperatorEmailExplanation } from '#client/operator-api.ts'
import { STATUSES, type Status } from '#features/sending/queue/status.ts'
import { truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { type CommandApi, findOne, readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { CommandError } from './errors.ts'
import { collectOption, confirmAction, EMAIL_ARGUMENT, parseTimeOption, TIME_FORMS } from './options.ts'
import {
  type Columns,
  fields,
  formatCount,
  formatFields,
  formatPage,
  formatUtc,
  formatUtcFromNow,
  joinParagraphs,
  toPrintable,
} from './output.ts'
import { formatChanged } from './queue.ts'

type Filter = 'query' | 'to' | 'from' | 'subject' | 'tag' | 'stream' | 'domain' | 'messageId' | 'since' | 'until'
type ListOptions = Partial<Readonly<Record<Filter, string>>> & { readonly status?: Status; readonly limit: number }

export function addEmailCommands(program: Command): void {
  const emails = program.command('emails').description('find emails, explain them, and retry, cancel or resend one')
  addListCommand(emails)
  emails
    .add('show', 'show an email: its recipients, the replies of their servers, its events')
    .argument('<id>', EMAIL_ARGUMENT)
    .answer(async ({ api: all }: Context, text: string) => {
      const { api, id } = await findOne(all, 'email', text)
      return api.emails.get(id)
    }, formatEmail)
  addExplainCommand(emails)
  addEmailActionCommands(emails)
}

const addListCommand = (emails: Command): Command =>
  emails
    .add('list', 'list the newest emails of all accounts, by any of these filters')
    .accountFilter()
    .limit('emails', 30)
    .option(
      '--query <words>',
      'only with all of these: how an address, its domain, or a word of a name or subject begins',
    )
    .option(
      '--to <address>',
      'only to this address, in To, Cc or Bcc; @example.com: to any address there; bob: to any that begins so',
    )
    .option('--from <address>', 'only from this address; @example.com and the beginning of an address as for --to')
    .option('--subject <words>', 'only with all of these words in the subject')
    .option('--tag <tag>', 'only with this tag')
    .option('--stream <slug>', 'only in this message stream')
    .option('--domain <name>', 'only signed by this sending domain')
    .option('--message-id <id>', 'only the email with this Message-ID')
    .addOption(new Option('--status <status>', 'only with this status').choices(STATUSES))
    .option('--since <time>', `only accepted at or after this time: ${TIME_FORMS}`)
    .option('--until <time>', 'only accepted at or before this time; a date includes its whole day')
    .list(
      async ({ api, options, query }: ListContext<ListOptions>) => {
        const { query: q, to, from, subject, tag, stream, domain, status, messageId, since, until, limit } = options
        const now = systemClock.now()
        const filters = {
          ...{ ...query, q, to, from, subject, tag, stream, domain, status, message_id: messageId },
          from_date: since && parseTimeOption('--since', since, now),
          to_date: until && parseTimeOption('--until', until, now),
        }
        return readRows(api.operator.listEmails(filters), limit)
      },
      'No emails found.',
      toColumns,
    )

/** Enough for the millisecond of an id, and for the digits that tell emails of one millisecond apart. */
const SHOWN_ID_LENGTH = 18
const MAX_ADDRESS_LENGTH = 21
/** Of 80 columns, the width that the other table columns leave. */
const MAX_SUBJECT_LENGTH = 15

const toColumns = (emails: readonly OperatorEmail[]): Columns<OperatorEmail> => ({
  ID: ({ id }) => id.slice(0, SHOWN_ID_LENGTH),
  'DAY AND TIME': ({ created_at: at }) => at.slice(5, 16).replace('T', ' '),
  STATUS: ({ status }) => status,
  TO: ({ to }) => truncate(to, MAX_ADDRESS_LENGTH),
  SUBJECT: ({ subject }) => truncate(subject, MAX_SUBJECT_LENGTH),
  ...(emails.some(({ account_id: id }) => id !== emails[0]?.account_id) && { ACCOUNT: ({ account }) => account }),
})

const RECIPIENTS = fields<EmailRecipient>()(
  'kind address status attempts bounce_type bounce_category delivered_at next_retry_at smtp_response',
)

const EVENTS = fields<EmailEvent>()('created_at type recipient remote_mta diagnostic_code')

function formatEmail({ data }: { readonly data: Email }): string {
  const { id, account_id, from_address, to, cc, bcc, subject, tags, message_id, created_at, scheduled_at } = data
  const { state, sentence, sandbox } = data
  const header = { account_id, from: from_address, to, cc, bcc, subject, tags, message_id, created_at, scheduled_at }
  return joinParagraphs(
    formatFields({ email: id, ...header, state: `${state}. ${sentence}`, sandbox: sandbox || null }),
    formatPage({ data: data.recipients }, '', RECIPIENTS),
    formatPage({ data: data.events }, '', EVENTS),
  )
}

interface ResendOptions {
  readonly to?: readonly string[]
  readonly yes?: boolean
}

/** @param emails the group `tassis emails` */
export function addEmailActionCommands(emails: Command): void {
  const add = (name: string, description: string): Command =>
    emails.add(name, description).argument('<id>', EMAIL_ARGUMENT)

  add('retry', 'make an email due now that waits for another attempt; what is held stays held').answer(
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

  add('cancel', 'cancel an email that is scheduled or waits; no bounce, and its quota is given back').answer(
    async ({ api }: Context, text: string) => {
      const { id, status, account_id: account } = await readOpenEmail(api, text)
      return status === 'scheduled' ? api.as(account).emails.cancel(id) : api.operator.dropQueue({ email_id: id })
    },
    ({ data }) => ('changed' in data ? formatChanged({ data }) : 'Cancelled: nothing of it is sent.'),
  )

  add('resend', 'send a stored email that has ended again, as a new email')
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

const OPEN = ['scheduled', 'queued', 'processing']

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

/** @param parent the program, or the group `tassis emails` */
export function addExplainCommand(parent: Command): void {
  parent
    .add('explain', 'explain an email: its attempts, what comes next, who must act')
    .limit('recipients', 10)
    .argument('<id>', `${EMAIL_ARGUMENT}; or an address or its beginning, for the newest email to it`)
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
  return [
    formatFields({ email: id, account, from, subject, accepted: created_at, state: whole }),
    ...recipients.slice(0, limit).flatMap((recipient) => ['', ...formatRecipient(recipient, all)]),
    ...(recipients.length > limit ? ['', `… and ${recipients.length - limit} more recipients (--limit)`] : []),
  ].join('\n')
}

function formatRecipient(recipient: Recipient, isAll: boolean): string[] {
  const { address, kind, state, attempt_count: count, next_at: nextAt, expires_at: expiresAt } = recipient
  const shown = {
    why: recipient.sentence,
    to_do: recipient.advice,
    who_acts: recipient.who_must_act,
    next: formatNext(recipient),
    deadline: expiresAt !== null && nextAt !== null ? formatUtcFromNow(expiresAt) : null,
  }
  return [
    `${address} (${kind}): ${state} after ${formatCount(count, 'attempt')}`,
    formatFields(shown, 2),
    ...recipient.attempts.flatMap((attempt, index) => ['', ...formatAttempt(attempt, isAll || index === 0)]),
  ]
}

function formatNext(recipient: Recipient): string {
  const { state, next_at: nextAt, expires_at: expiresAt, dead_letter_id: letterId } = recipient
  if (letterId !== null) return `nothing automatically; \`tassis dead-letters retry ${letterId}\` tries again`
  if (state === 'processing') return 'the attempt in progress ends'
  if (nextAt === null) return state === 'held' ? 'nothing, until that has ended' : 'nothing'
  return `${nextAt === expiresAt ? 'ends as expired' : 'attempt'} ${formatUtcFromNow(nextAt)}`
}

function formatAttempt(attempt: EmailAttempt, withDialogue: boolean): string[] {
  const { attempt: number, ended_at: endedAt, outcome, source, host, address, tls, timings, dialogue } = attempt
  const { smtp_response, reason: why, category, rule } = attempt
  const reason = why === smtp_response ? null : why
  return [
    `  Attempt ${number}, ${formatUtcFromNow(endedAt)}:`,
    formatFields({ outcome, source, host, address, tls, timings, smtp_response, reason, category, rule }, 4),
    ...(withDialogue && dialogue ? ['    Dialogue, in ms:', ...dialogue.map(formatLine)] : []),
  ]
}

const MARKS = { client: '>', server: '<', note: '*' } as const

const formatLine = ({ at_ms: at, from, text }: NonNullable<EmailAttempt['dialogue']>[number]): string =>
  toPrintable(`${String(at).padStart(9)} ${MARKS[from]} ${text}`)
