/** @module `tassis emails`: finds emails by the filters of GET /v1/emails, shows the history of one. Never writes. */
import { type Command, Option } from 'commander'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { createMaxAttempts } from '#features/sending/delivery/retry-schedule.ts'
import type { EmailRecipient, EmailRow } from '#features/sending/emails/model.ts'
import {
  findEmail,
  findOnlyEmail,
  listEmails,
  readEmailEvents,
  type StoredEmail,
} from '#features/sending/emails/read.ts'
import { MAX_COUNTED, parseSearch, type SearchText, searchEmails } from '#features/sending/emails/search-list.ts'
import { emailRowWire, recipientWire } from '#features/sending/emails/wire.ts'
import { ANY_TIME } from '#features/sending/queue/search.ts'
import { STATUSES, type Status } from '#features/sending/queue/status.ts'
import type { RowKey } from '#platform/db/row-window.ts'
import { notFound } from '#platform/errors.ts'
import { parseDateRange } from '#platform/http/date-filter.ts'
import { loadConfig } from '../settings.ts'
import { resolveOperator } from './accounts.ts'
import { defineAdminCommand } from './admin-command.ts'
import { withData } from './call.ts'
import { type AccountOption, type JsonOption, withAccount, withJson, withLimit } from './options.ts'
import { formatCount, formatTable, formatUtc, printResult, toPrintable, truncate } from './output.ts'
import { type EventView, formatEvent, toEventView } from './send.ts'

interface ListInput extends AccountOption, SearchText {
  readonly status?: Status
  readonly from_date?: string
  readonly to_date?: string
  readonly limit: number
}

/** Rows per page of a search. */
const PAGE_SIZE = 100

const list = defineAdminCommand('emails.list', async ({ opened: { app } }, input: ListInput) => {
  const { accountId } = resolveOperator(app, input.account)
  const { from = ANY_TIME.from, to = ANY_TIME.to } = removeUndefined(parseDateRange(input))
  const filter = { status: input.status, from, to }
  const search = parseSearch(app.db, accountId, input)
  const emails: EmailRow[] = []
  let total = 0
  let hasMore = false
  let after: RowKey | undefined
  // A page of a search may be short although there are more rows: see `search-list`.
  do {
    const page = { limit: Math.min(PAGE_SIZE, input.limit - emails.length), offset: 0, after }
    const found = search
      ? await searchEmails(app, accountId, { filter, search }, page)
      : listPage(app, accountId, filter, page)
    emails.push(...found.emails.map((email) => emailRowWire(email, getMaxAttempts(app))))
    if (after === undefined) total = found.total
    after = found.lastKey
    hasMore = found.hasMore
  } while (hasMore && after !== undefined && emails.length < input.limit)
  // With a status filter, a search counts only the rows it has scanned, so the total may be too low.
  const isExact = !search || (input.status === undefined && total < MAX_COUNTED)
  return { total, is_total_exact: isExact, has_more: hasMore, emails }
})

const removeUndefined = ({ from, to }: ReturnType<typeof parseDateRange>) => ({
  ...(from !== undefined && { from }),
  ...(to !== undefined && { to }),
})

const getMaxAttempts = ({ config }: App) => createMaxAttempts(config.retryExpiryHours)

function listPage(
  { db }: App,
  accountId: number,
  filter: Parameters<typeof listEmails>[2],
  page: Parameters<typeof listEmails>[3],
) {
  const { emails, total } = listEmails(db, accountId, filter, { ...page, limit: page.limit + 1 })
  const shown = emails.slice(0, page.limit)
  const last = shown.at(-1)
  const lastKey: RowKey | undefined = last && [last.createdAt, last.id]
  return { emails: shown, total, hasMore: emails.length > page.limit, lastKey }
}

interface EmailView extends EmailRow {
  readonly account: string
  readonly recipients: readonly EmailRecipient[]
  readonly history: readonly EventView[]
}

/** The email whose id begins with `id`, or has this Message-ID, and its account. Throws a 404. */
export function requireEmail(
  app: App,
  id: string,
): { readonly email: StoredEmail; readonly accountId: number; readonly account: string } {
  const range = parseUuidRange(id)
  const key = range && findOnlyEmail(app.db, ...range)
  const email = key && findEmail(app.db, key.accountId, key.uuid)
  if (!key || !email)
    throw notFound(
      'email_not_found',
      `"${truncate(id, 80)}" matches no email or several; \`tassis emails list\` shows ids.`,
    )
  return { email, accountId: key.accountId, account: getAccount(app.config, app.db, key.accountId).name }
}

const show = defineAdminCommand('emails.show', ({ opened: { app } }, { id }: { readonly id: string }): EmailView => {
  const { email, accountId, account } = requireEmail(app, id)
  return {
    ...emailRowWire(email, getMaxAttempts(app)),
    account,
    recipients: email.recipients.map(recipientWire),
    history: readEmailEvents(app, accountId, email.id).map(toEventView),
  }
})

/** A UUIDv7 begins with its creation time: the first 8 digits cover 65.5 s, the first 12 one millisecond. */
const MIN_DIGITS = 8
const UUID_DIGITS = 32

/**
 * Returns the range of ids that begin with the digits of `text`, a prefix of an id or a Message-ID; undefined when the
 * digits are too few, too many or not hexadecimal.
 */
function parseUuidRange(text: string): readonly [first: Uint8Array, last: Uint8Array] | undefined {
  const [id = ''] = text.replace(/^</, '').split('@')
  const digits = id.replaceAll('-', '').toLowerCase()
  if (!/^[0-9a-f]+$/.test(digits) || digits.length < MIN_DIGITS || digits.length > UUID_DIGITS) return undefined
  return [Uint8Array.fromHex(digits.padEnd(UUID_DIGITS, '0')), Uint8Array.fromHex(digits.padEnd(UUID_DIGITS, 'f'))]
}

export const emailAdminCommands = [list, show]

interface ListOptions extends JsonOption, AccountOption, Omit<SearchText, 'message_id'> {
  readonly messageId?: string
  readonly status?: Status
  readonly since?: string
  readonly until?: string
  readonly limit: number
}

export function addEmailCommands(program: Command): void {
  const emails = program.command('emails').description('find emails and show the history of one')

  withLimit(
    withJson(withAccount(emails.command('list').description('list the newest emails'))),
    'maximum number of emails',
    30,
  )
    .option('--to <address>', 'only to this address, in To, Cc or Bcc; @example.com: to any address there')
    .option('--from <address>', 'only from this address; @example.com: from any address there')
    .option('--subject <words>', 'only with all of these words in the subject')
    .option('--tag <tag>', 'only with this tag')
    .option('--stream <slug>', 'only in this message stream')
    .option('--domain <name>', 'only signed by this sending domain')
    .option('--message-id <id>', 'only the email with this Message-ID')
    .addOption(new Option('--status <status>', 'only with this status').choices(STATUSES))
    .option('--since <date>', 'only accepted at or after this date or date-time (UTC)')
    .option('--until <date>', 'only accepted at or before this date or date-time (UTC)')
    .action(async ({ json, messageId, since, until, ...options }: ListOptions) => {
      const input: ListInput = {
        ...options,
        ...(messageId !== undefined && { message_id: messageId }),
        ...(since !== undefined && { from_date: since }),
        ...(until !== undefined && { to_date: until }),
      }
      const found = await withData(loadConfig().config, (call) => call(list, input))
      printResult({ json }, found, formatList)
    })

  withJson(
    emails.command('show').description('show an email: its recipients, the replies of their servers, its events'),
  )
    .argument('<id>', 'email ID, its beginning as shown by `tassis emails list`, or a Message-ID')
    .action(async (id: string, options: JsonOption) => {
      const shown = await withData(loadConfig().config, (call) => call(show, { id }))
      printResult(options, shown, formatEmail)
    })
}

/**
 * Number of characters of an id in the list: enough for its millisecond, and for the digits that distinguish emails of
 * one millisecond.
 */
const SHOWN_ID_LENGTH = 18
const MAX_ADDRESS_LENGTH = 22
/** Of 80 columns, the width that the other table columns leave. */
const MAX_SUBJECT_LENGTH = 15

function formatList({
  emails,
  total,
  is_total_exact: isExact,
  has_more: hasMore,
}: Awaited<ReturnType<(typeof list)['run']>>): string {
  if (emails.length === 0) return 'No emails found.'
  return [
    formatTable(
      ['ID', 'DAY AND TIME', 'STATUS', 'TO', 'SUBJECT'],
      emails.map((email) => [
        email.id.slice(0, SHOWN_ID_LENGTH),
        email.created_at.slice(5, 16).replace('T', ' '),
        email.status,
        truncate(email.to, MAX_ADDRESS_LENGTH - 1),
        truncate(email.subject, MAX_SUBJECT_LENGTH),
      ]),
    ),
    ...(hasMore ? [`… and ${isExact ? '' : 'at least '}${Math.max(total - emails.length, 1)} older (--limit)`] : []),
  ].join('\n')
}

/** Explains each status to the operator. */
const STATUS_MEANINGS: Readonly<Record<Status, string>> = {
  queued: 'waiting for its first attempt or a retry',
  scheduled: 'waiting for its scheduled time',
  processing: 'being sent, or only some recipients are final',
  sent: 'accepted by the receiving server',
  bounced: 'rejected permanently, or not delivered in time',
  failed: 'could not be sent; see the dead letters',
  rejected: 'not sent, because its recipients are suppressed',
  cancelled: 'cancelled before it was sent',
  uncertain: 'the connection broke before the final reply, so the receiver may have it; see the dead letters',
}

/** @param isSandbox whether it was captured or simulated; then no receiving server accepted it */
export const describeStatus = (status: Status, isSandbox: boolean): string =>
  `${status}: ${isSandbox && status === 'sent' ? 'captured or simulated on this machine, not sent' : STATUS_MEANINGS[status]}`

function formatEmail(email: EmailView): string {
  const lines: [name: string, value: string][] = [
    ['Email', email.id],
    ['Account', `${email.account} (${email.account_id})`],
    ['From', email.from_address],
    ['To', email.to],
    ...(email.cc.length > 0 ? [['Cc', email.cc.join(', ')] as [string, string]] : []),
    ...(email.bcc.length > 0 ? [['Bcc', email.bcc.join(', ')] as [string, string]] : []),
    ['Subject', email.subject],
    ...(email.tags.length > 0 ? [['Tags', email.tags.join(', ')] as [string, string]] : []),
    ['Message-ID', email.message_id],
    ['Accepted', formatUtc(email.created_at)],
    ...(email.scheduled_at ? [['Scheduled', formatUtc(email.scheduled_at)] as [string, string]] : []),
    ['Status', describeStatus(email.status as Status, email.sandbox)],
    ...(email.sandbox
      ? [['Sandbox', 'its domain was never verified, or its recipients are at the simulator'] as [string, string]]
      : []),
  ]
  return [
    ...lines.map(([name, value]) => `${`${name}:`.padEnd(12)}${toPrintable(value)}`),
    '',
    formatCount(email.recipients.length, 'recipient'),
    ...email.recipients.flatMap(formatRecipient),
    '',
    formatCount(email.history.length, 'event'),
    ...email.history.map((event) => `  ${event.at.slice(0, 10)} ${formatEvent(event)}`),
  ].join('\n')
}

function formatRecipient(recipient: EmailRecipient): string[] {
  const { kind, address, status, attempts, smtp_response: reply, next_retry_at: nextAt } = recipient
  const bounce = [recipient.bounce_type, recipient.bounce_category].filter((part) => part !== null).join(', ')
  const details = [
    `${status} after ${formatCount(attempts, 'attempt')}`,
    ...(bounce === '' ? [] : [bounce]),
    ...(recipient.delivered_at === null ? [] : [`delivered ${formatUtc(recipient.delivered_at)}`]),
    ...(nextAt === null ? [] : [`next attempt ${formatUtc(nextAt)}`]),
  ]
  return [
    toPrintable(`  ${kind.padEnd(3)}  ${address}  ${details.join('; ')}`),
    ...(reply === null ? [] : [toPrintable(`       ${reply}`)]),
  ]
}
