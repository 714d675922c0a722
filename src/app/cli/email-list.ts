/** @module `tassis emails list`: finds emails of one account or of all. Never writes. */
import { type Command, Option } from 'commander'
import { listAccounts } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { createMaxAttempts } from '#features/sending/delivery/verdict/outcome.ts'
import type { EmailRow } from '#features/sending/emails/model.ts'
import { listEmails, type StoredEmail } from '#features/sending/emails/read.ts'
import { MAX_COUNTED, parseSearch, type SearchText, searchEmails } from '#features/sending/emails/search-list.ts'
import { emailRowWire } from '#features/sending/emails/wire.ts'
import { ANY_TIME } from '#features/sending/queue/search.ts'
import { STATUSES, type Status } from '#features/sending/queue/status.ts'
import type { RowKey } from '#platform/db/row-window.ts'
import { AppError, conflict } from '#platform/errors.ts'
import { parseDateRange } from '#platform/http/date-filter.ts'
import { truncate } from '#platform/text.ts'
import { systemClock, yieldToEventLoop } from '#platform/time/clock.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { findAccountId } from '../find-account.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import {
  type AccountOption,
  addCommand,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
  withLimit,
} from './options.ts'
import { formatTable, printResult, toPrintable } from './output.ts'
import { parseTimeOption, TIME_FORMS } from './times.ts'

interface Filters extends SearchText {
  readonly status?: Status | undefined
  readonly from_date?: string
  readonly to_date?: string
  readonly limit: number
}

interface ListInput extends AccountOption, Filters {}

const PAGE_SIZE = 100

interface OwnedEmail {
  readonly email: StoredEmail
  readonly account: string
}

interface Found {
  readonly emails: readonly OwnedEmail[]
  readonly total: number
  readonly isExact: boolean
  readonly hasMore: boolean
}

/** The newest emails that match, of these accounts. Throws 422 for an invalid filter. */
async function findEmails(
  app: App,
  accounts: readonly { readonly id: number; readonly name: string }[],
  filters: Filters,
): Promise<Found> {
  let emails: OwnedEmail[] = []
  let total = 0
  let isExact = true
  let hasMore = false
  let refusal: unknown
  let searched = 0
  for (const { id, name } of accounts) {
    if (searched++ > 0) await yieldToEventLoop()
    const found = await findEmailsOfAccount(app, id, filters).catch((error: unknown) => {
      // Another account may have the stream or the domain.
      if (!isOfOneAccount(error)) throw error
      refusal = error
      searched--
      return undefined
    })
    if (!found) continue
    total += found.total
    isExact &&= found.isExact
    emails = [...emails, ...found.emails.map((email) => ({ email, account: name }))]
    hasMore ||= found.hasMore || emails.length > filters.limit
    emails = emails.sort((a, b) => compareNewest(a.email, b.email)).slice(0, filters.limit)
  }
  if (searched === 0 && refusal !== undefined) throw refusal
  return { emails, total, isExact, hasMore }
}

const isOfOneAccount = (error: unknown): boolean =>
  error instanceof AppError && error.details.some(({ field }) => field === 'stream' || field === 'domain')

const compareNewest = (a: StoredEmail, b: StoredEmail): number => b.createdAt - a.createdAt || b.id - a.id

async function findEmailsOfAccount(app: App, accountId: number, filters: Filters) {
  const { from = ANY_TIME.from, to = ANY_TIME.to } = parseDateRange(filters)
  const filter = { status: filters.status, from, to }
  const search = parseSearch(app.db, accountId, filters, { allowsPrefixes: true })
  const emails: StoredEmail[] = []
  let total = 0
  let hasMore = false
  let after: RowKey | undefined
  // A page of a search may be short although there are more rows: see `search-list`.
  do {
    const page = { limit: Math.min(PAGE_SIZE, filters.limit - emails.length), offset: 0, after }
    const found = search
      ? await searchEmails(app, accountId, { filter, search }, page)
      : listPage(app, accountId, filter, page)
    emails.push(...found.emails)
    if (after === undefined) total = found.total
    after = found.lastKey
    hasMore = found.hasMore
  } while (hasMore && after !== undefined && emails.length < filters.limit)
  // With a status filter, a search counts only the rows it has scanned, so the total may be too low.
  const isExact = !search || (filters.status === undefined && total < MAX_COUNTED)
  return { emails, total, isExact, hasMore }
}

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

const list = defineAdminCommand('emails.list', async ({ opened: { app } }, { account, ...filters }: ListInput) => {
  const all = listAccounts(app.config, app.db)
  const only = findAccountId(app, account)
  const accounts = only === undefined ? all : all.filter(({ id }) => id === only)
  const { emails, total, isExact, hasMore } = await findEmails(app, accounts, filters)
  const maxAttempts = createMaxAttempts(app.config.retryExpiryHours)
  return {
    data: emails.map(({ email, account }): EmailRow & { account: string } => ({
      ...emailRowWire(email, maxAttempts),
      account,
    })),
    total,
    is_total_exact: isExact,
    has_more: hasMore,
  }
})

export const emailListAdminCommands = [list]

/**
 * The newest email of all accounts to an address, or to the one address that begins with `text`; undefined if there is
 * none. Throws 409 with the addresses if recent mail went to several that do.
 */
export async function findNewestEmailTo(app: App, text: string): Promise<StoredEmail | undefined> {
  const isAddress = parseMailbox(text).kind === 'ok'
  if (!isAddress && !/^[^@\s]{3,}@?$/.test(text)) return undefined
  const limit = isAddress ? 1 : PAGE_SIZE
  const { emails } = await findEmails(app, listAccounts(app.config, app.db), { to: text, limit })
  const start = text.toLowerCase()
  const addresses = new Set(
    isAddress
      ? []
      : emails
          .flatMap(({ email }) => email.recipients.map(({ address }) => address.toLowerCase()))
          .filter((address) => address.startsWith(start)),
  )
  if (addresses.size <= 1) return emails[0]?.email
  const shown = [...addresses].slice(0, MAX_SHOWN_ADDRESSES).map(toPrintable).join(', ')
  throw conflict(
    'email_ambiguous',
    `Mail went to several addresses that begin with "${toPrintable(text)}"; give one of them: ${shown}${addresses.size > MAX_SHOWN_ADDRESSES ? ', …' : ''}.`,
  )
}

const MAX_SHOWN_ADDRESSES = 5

interface ListOptions extends JsonOption, AccountOption, Omit<SearchText, 'message_id'> {
  readonly messageId?: string | undefined
  readonly status?: Status | undefined
  readonly since?: string | undefined
  readonly until?: string | undefined
  readonly limit: number
}

/** @param emails the group `tassis emails` */
export const addEmailListCommand = (emails: Command): Command =>
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
    .action(async ({ json, messageId, since, until, ...options }: ListOptions) => {
      const now = systemClock.now()
      const input: ListInput = {
        ...options,
        message_id: messageId,
        ...(since !== undefined && { from_date: parseTimeOption('--since', since, now) }),
        ...(until !== undefined && { to_date: parseTimeOption('--until', until, now) }),
      }
      const found = await runAdminCommand(list, input)
      printResult({ json }, found, formatList)
    })

/**
 * Number of characters of an id in the list: enough for its millisecond, and for the digits that distinguish emails of
 * one millisecond.
 */
const SHOWN_ID_LENGTH = 18
const MAX_ADDRESS_LENGTH = 22
/** Of 80 columns, the width that the other table columns leave. */
const MAX_SUBJECT_LENGTH = 15
const MAX_ACCOUNT_LENGTH = 20

function formatList({
  data: emails,
  total,
  is_total_exact: isExact,
  has_more: hasMore,
}: Awaited<ReturnType<(typeof list)['run']>>): string {
  const [first] = emails
  if (!first) return 'No emails found.'
  const hasSeveralAccounts = emails.some(({ account_id: id }) => id !== first.account_id)
  return [
    formatTable(
      ['ID', 'DAY AND TIME', 'STATUS', 'TO', 'SUBJECT', ...(hasSeveralAccounts ? ['ACCOUNT'] : [])],
      emails.map((email) => [
        email.id.slice(0, SHOWN_ID_LENGTH),
        email.created_at.slice(5, 16).replace('T', ' '),
        email.status,
        truncate(email.to, MAX_ADDRESS_LENGTH - 1),
        truncate(email.subject, MAX_SUBJECT_LENGTH),
        ...(hasSeveralAccounts ? [truncate(toPrintable(email.account), MAX_ACCOUNT_LENGTH)] : []),
      ]),
    ),
    ...(hasMore ? [`… and ${isExact ? '' : 'at least '}${Math.max(total - emails.length, 1)} older (--limit)`] : []),
  ].join('\n')
}
