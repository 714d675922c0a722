/** @module `tassis emails`: finds emails of all accounts, and shows one with its recipients and history. */
import { type Command, Option } from 'commander'
import type { Email, EmailEvent, EmailRecipient } from '#client/api.ts'
import type { OperatorEmail } from '#client/operator-api.ts'
import { STATUSES, type Status } from '#features/sending/queue/status.ts'
import { truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { apiAction, findAccountFilter, findOne, pageSize, readRows } from './api.ts'
import { addEmailActionCommands } from './email-actions.ts'
import { addExplainCommand } from './explain.ts'
import {
  type AccountOption,
  addCommand,
  EMAIL_ARGUMENT,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
  withLimit,
} from './options.ts'
import { type Columns, formatCount, formatFields, formatPage, formatUtc, printResult, toPrintable } from './output.ts'
import { parseTimeOption, TIME_FORMS } from './times.ts'

interface ListOptions
  extends JsonOption,
    AccountOption,
    Partial<
      Readonly<
        Record<'to' | 'from' | 'subject' | 'tag' | 'stream' | 'domain' | 'messageId' | 'since' | 'until', string>
      >
    > {
  readonly status?: Status | undefined
  readonly limit: number
}

export function addEmailCommands(program: Command): void {
  const emails = program.command('emails').description('find emails, explain them, and retry, cancel or resend one')
  addListCommand(emails)
  addCommand(emails, 'show', 'show an email: its recipients, the replies of their servers, its events')
    .argument('<id>', EMAIL_ARGUMENT)
    .action(
      apiAction(async ({ api, options }, id) => {
        const found = await findOne(api, 'email', id)
        printResult(options, await found.api.emails.get(found.id), ({ data }) => formatEmail(data, found.account))
      }),
    )
  addExplainCommand(emails)
  addEmailActionCommands(emails)
}

const addListCommand = (emails: Command): Command =>
  withLimit(
    withAccount(
      addCommand(emails, 'list', 'list the newest emails of all accounts, by any of these filters'),
      ONLY_ACCOUNT_DESCRIPTION,
    ),
    'emails',
    30,
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
    .action(
      apiAction<ListOptions>(async ({ api, options }) => {
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
      }),
    )

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
