/** @module `tassis emails`: finds emails of all accounts, shows one, and retries, cancels or resends it. */
import { Option } from 'commander'
import type { Email, EmailEvent, EmailRecipient } from '#client/api.ts'
import type { OperatorEmail } from '#client/operator-api.ts'
import { STATUSES, type Status } from '#features/sending/queue/status.ts'
import { truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { type CommandApi, findAccountFilter, findOne, pageSize, readRows } from './api.ts'
import type { Command, Context } from './command.ts'
import { CommandError } from './errors.ts'
import { addExplainCommand } from './explain.ts'
import { confirmAction } from './input.ts'
import { collectOption, EMAIL_ARGUMENT } from './options.ts'
import { type Columns, formatCount, formatFields, formatPage, formatUtc, printResult, toPrintable } from './output.ts'
import { formatHeldAndInDelivery, formatInDelivery, formatSuspended } from './queue.ts'
import { parseTimeOption, TIME_FORMS } from './times.ts'

type Filter = 'to' | 'from' | 'subject' | 'tag' | 'stream' | 'domain' | 'messageId' | 'since' | 'until'
type ListOptions = Partial<Readonly<Record<Filter, string>>> & { readonly status?: Status; readonly limit: number }

export function addEmailCommands(program: Command): void {
  const emails = program.command('emails').description('find emails, explain them, and retry, cancel or resend one')
  addListCommand(emails)
  emails
    .add('show', 'show an email: its recipients, the replies of their servers, its events')
    .argument('<id>', EMAIL_ARGUMENT)
    .run(async ({ api, options }, id) => {
      const found = await findOne(api, 'email', id)
      printResult(options, await found.api.emails.get(found.id), ({ data }) => formatEmail(data, found.account))
    })
  addExplainCommand(emails)
  addEmailActionCommands(emails)
}

const addListCommand = (emails: Command): Command =>
  emails
    .add('list', 'list the newest emails of all accounts, by any of these filters')
    .accountFilter()
    .limit('emails', 30)
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
    .run(async ({ api, options }: Context<ListOptions>) => {
      const { to, from, subject, tag, stream, domain, status, messageId, since, until, limit } = options
      const now = systemClock.now()
      const query = {
        ...{ to, from, subject, tag, stream, domain, status, message_id: messageId },
        from_date: since && parseTimeOption('--since', since, now),
        to_date: until && parseTimeOption('--until', until, now),
        account_id: await findAccountFilter(api, options),
        per_page: pageSize(limit),
      }
      const found = await readRows(api.operator.listEmails(query), limit)
      // A search counts only what it has examined for a status.
      const shown = status === undefined ? found : { data: found.data, has_more: found.has_more }
      printResult(options, found, () => formatPage(shown, 'No emails found.', toColumns(found.data)))
    })

/** Enough for the millisecond of an id, and for the digits that tell emails of one millisecond apart. */
const SHOWN_ID_LENGTH = 18
const MAX_ADDRESS_LENGTH = 21
/** Of 80 columns, the width that the other table columns leave. */
const MAX_SUBJECT_LENGTH = 15
const MAX_ACCOUNT_LENGTH = 20

const toColumns = (emails: readonly OperatorEmail[]): Columns<OperatorEmail> => ({
  ID: ({ id }) => id.slice(0, SHOWN_ID_LENGTH),
  'DAY AND TIME': ({ created_at: at }) => at.slice(5, 16).replace('T', ' '),
  STATUS: ({ status }) => status,
  TO: ({ to }) => truncate(to, MAX_ADDRESS_LENGTH),
  SUBJECT: ({ subject }) => truncate(subject, MAX_SUBJECT_LENGTH),
  ...(emails.some(({ account_id: id }) => id !== emails[0]?.account_id) && {
    ACCOUNT: ({ account }) => truncate(account, MAX_ACCOUNT_LENGTH),
  }),
})

const joinOrNull = (texts: readonly string[]): string | null => (texts.length > 0 ? texts.join(', ') : null)

function formatEmail(email: Email, account: string): string {
  return [
    formatFields([
      ['Email', email.id],
      ['Account', `${account} (${email.account_id})`],
      ['From', email.from_address],
      ['To', email.to],
      ['Cc', joinOrNull(email.cc)],
      ['Bcc', joinOrNull(email.bcc)],
      ['Subject', email.subject],
      ['Tags', joinOrNull(email.tags)],
      ['Message-ID', email.message_id],
      ['Accepted', formatUtc(email.created_at)],
      ['Scheduled', email.scheduled_at ? formatUtc(email.scheduled_at) : null],
      ['State', `${email.state}. ${email.sentence}`],
      ['Sandbox', email.sandbox ? 'its domain was never verified, or its recipients are at the simulator' : null],
    ]),
    '',
    formatCount(email.recipients.length, 'recipient'),
    ...email.recipients.flatMap(formatRecipient),
    '',
    formatCount(email.events.length, 'event'),
    ...email.events.map(formatEvent),
  ].join('\n')
}

function formatRecipient(recipient: EmailRecipient): string[] {
  const { kind, address, status, attempts, smtp_response: reply, next_retry_at: nextAt } = recipient
  const details = [
    `${status} after ${formatCount(attempts, 'attempt')}`,
    joinOrNull([recipient.bounce_type, recipient.bounce_category].filter((part) => part !== null)),
    recipient.delivered_at && `delivered ${formatUtc(recipient.delivered_at)}`,
    nextAt && `next attempt ${formatUtc(nextAt)}`,
  ].filter((detail) => detail !== null)
  return [
    toPrintable(`  ${kind.padEnd(3)}  ${address}  ${details.join('; ')}`),
    ...(reply === null ? [] : [toPrintable(`       ${reply}`)]),
  ]
}

const formatEvent = ({ created_at: at, type, recipient, diagnostic_code: reply, remote_mta: server }: EmailEvent) =>
  toPrintable(
    [`  ${formatUtc(at)}`, type.padEnd(9), recipient, reply, server && `(${server})`].filter((part) => part).join('  '),
  )

interface ResendOptions {
  readonly to?: readonly string[]
  readonly yes?: boolean
}

/** @param emails the group `tassis emails` */
export function addEmailActionCommands(emails: Command): void {
  emails
    .add('retry', 'make an email due now that waits for another attempt; what is held stays held')
    .argument('<id>', EMAIL_ARGUMENT)
    .run(async ({ api, options }, text) => {
      const email = await readEmail(api, text)
      if (email.status === 'scheduled')
        throw new CommandError(
          `The email is scheduled for ${formatUtc(email.scheduled_at ?? '')}, so there is nothing to retry; \`tassis emails cancel ${email.id}\` cancels it.`,
          'email_scheduled',
        )
      await requireOpen(api, email)
      const done = await api.operator.retryQueue({ email_id: email.id })
      printResult(options, done, ({ data }) =>
        [
          `${data.changed + data.held + data.in_delivery === 0 ? 'Due already' : `${formatCount(data.changed, 'recipient')} due now`}${formatHeldAndInDelivery(data)}: ${formatName(email)}.${formatIfStopped(api)}`,
          ...(data.held > 0 ? ['`tassis queue` shows why, and what ends it.'] : []),
          ...data.suspended.map(formatSuspended),
          `\`tassis emails explain ${email.id}\` shows how it goes.`,
        ].join('\n'),
      )
    })

  emails
    .add('cancel', 'cancel an email that is scheduled or waits; no bounce, and its quota is given back')
    .argument('<id>', EMAIL_ARGUMENT)
    .run(async ({ api, options }, text) => {
      const email = await readEmail(api, text)
      if (!isOpen(email))
        throw new CommandError(`The email is ${email.status}: nothing of it waits any more.`, 'email_ended')
      const { id, recipients } = email
      const done =
        email.status === 'scheduled'
          ? await api.as(email.account_id).emails.cancel(id)
          : await api.operator.dropQueue({ email_id: id })
      const { changed, in_delivery: left } =
        'changed' in done.data ? done.data : { changed: recipients.length, in_delivery: 0 }
      printResult(
        options,
        done,
        () => `Cancelled for ${formatCount(changed, 'recipient')}${formatInDelivery(left)}: ${formatName(email)}.`,
      )
    })

  emails
    .add('resend', 'send a stored email that has ended again, as a new email')
    .argument('<id>', EMAIL_ARGUMENT)
    .option('--to <address>', 'only to this recipient of the email; repeat for several', collectOption)
    .option('--yes', 'do not ask, although a recipient may get it twice')
    .run(async ({ api, options }: Context<ResendOptions>, text) => {
      const email = await readEmail(api, text)
      confirmTwice(email, options)
      const done = await api.as(email.account_id).emails.resend(email.id, options.to ? { to: options.to } : {})
      printResult(options, done, ({ data: { id, warnings = [] } }) =>
        [
          ...warnings.map((warning) => `Warning: ${toPrintable(warning)}`),
          `Accepted as ${id}: ${formatName(email)}.${formatIfStopped(api)} \`tassis emails explain ${id}\` shows how it goes.`,
        ].join('\n'),
      )
    })
}

async function readEmail(api: CommandApi, text: string): Promise<Email> {
  const found = await findOne(api, 'email', text)
  return (await found.api.emails.get(found.id)).data
}

const OPEN = ['scheduled', 'queued', 'processing']

const isOpen = ({ recipients }: Email): boolean => recipients.some(({ status }) => OPEN.includes(status))

/** Says what sends an email again that has ended. */
async function requireOpen(api: CommandApi, email: Email): Promise<void> {
  if (isOpen(email)) return
  const { id, status } = email
  const { data: letters } = await api.operator.listDeadLetters({ email_id: id })
  const again = letters.length === 0 ? '' : `\`tassis dead-letters retry --email ${id}\` tries its dead letters again, `
  throw new CommandError(
    `The email is ${status} and waits for nothing; ${again}\`tassis emails resend ${id}\` sends it as a new email.`,
    'email_ended',
  )
}

/** Recipients named in the question. */
const MAX_NAMED = 10

/** Asks if a recipient may have got the first email. Not about those who got it: that is the purpose of a resend. */
function confirmTwice({ recipients }: Email, options: ResendOptions): void {
  const wanted = options.to?.map((address) => address.toLowerCase())
  const uncertain = recipients
    .filter(({ address, status }) => status === 'uncertain' && (wanted?.includes(address.toLowerCase()) ?? true))
    .map(({ address }) => toPrintable(address))
  if (uncertain.length === 0) return
  const named = uncertain.slice(0, MAX_NAMED).join(', ')
  const others = uncertain.length > MAX_NAMED ? `, and ${uncertain.length - MAX_NAMED} more` : ''
  confirmAction(options, `${named}${others} may have got the first email, so it may arrive twice`, 'send it again')
}

const MAX_NAMED_SUBJECT_LENGTH = 60

const formatName = ({ to_address: to, subject }: Email): string =>
  `"${truncate(toPrintable(subject), MAX_NAMED_SUBJECT_LENGTH)}" to ${toPrintable(to)}`

const formatIfStopped = ({ isServed }: CommandApi): string =>
  isServed ? '' : ' No service is running, so nothing is sent until one starts.'
