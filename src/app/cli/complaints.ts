/** @module `tassis complaints`: the complaint rate of each account, and the newest complaints. */
import type { Command } from 'commander'
import { type Account, getAccount, listAccounts } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { listNewestComplaints, readComplaintRate } from '#features/receiving/complaints/rate.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { resolveOperator } from './accounts.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import {
  type AccountOption,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
  withJson,
  withLimit,
} from './options.ts'
import { formatTable, formatUtc, type List, MORE_LINE, printResult, toLimitedList, truncate } from './output.ts'

const WINDOW_DAYS = 30

interface RateView {
  readonly account_id: string
  readonly account: string
  /** Recipients to whom mail was delivered in the last WINDOW_DAYS days. */
  readonly delivered: number
  readonly complaints: number
  /** From 0 to 1; null if nothing was delivered. */
  readonly rate: number | null
}

interface ComplaintView {
  readonly account: string
  /** Null if the email was deleted. */
  readonly email_id: string | null
  /** Null if the report does not name the recipient. */
  readonly complainer: string | null
  readonly feedback_type: string
  /** Null if no feedback loop authenticates the report; such a complaint pauses no account. */
  readonly feedback_loop: string | null
  readonly reporter: string | null
  readonly created_at: string
}

interface ComplaintsView extends List<ComplaintView> {
  readonly days: number
  readonly accounts: readonly RateView[]
}

function toRateView(app: App, account: Account): RateView {
  const to = app.clock.now()
  return {
    account_id: formatUuid(account.uuid),
    account: account.name,
    ...readComplaintRate(app.db, account.id, { from: to - days(WINDOW_DAYS), to }),
  }
}

interface ComplaintsInput extends AccountOption {
  readonly limit: number
}

const show = defineAdminCommand(
  'complaints',
  ({ opened: { app } }, { account, limit }: ComplaintsInput): ComplaintsView => {
    const only = account === undefined ? undefined : resolveOperator(app, account).accountId
    const accounts = only === undefined ? listAccounts(app.config, app.db) : [getAccount(app.config, app.db, only)]
    const names = new Map(accounts.map(({ id, name }) => [id, name]))
    return {
      days: WINDOW_DAYS,
      accounts: accounts.map((owner) => toRateView(app, owner)),
      ...toLimitedList(
        listNewestComplaints(app.db, limit + 1, only).map((complaint) => ({
          account: names.get(complaint.accountId) ?? '',
          email_id: complaint.emailUuid === null ? null : formatUuid(complaint.emailUuid),
          complainer: complaint.address,
          feedback_type: complaint.feedbackType,
          feedback_loop: complaint.feedbackLoop,
          reporter: complaint.reporter,
          created_at: isoTime(complaint.createdAt),
        })),
        limit,
      ),
    }
  },
)

export const complaintAdminCommands = [show]

export function addComplaintsCommand(program: Command): void {
  withLimit(
    withJson(
      withAccount(
        program
          .command('complaints')
          .description(`show complaint rates of the last ${WINDOW_DAYS} days and the newest complaints`),
        ONLY_ACCOUNT_DESCRIPTION,
      ),
    ),
    'maximum number of complaints',
    20,
  ).action(async (options: JsonOption & AccountOption & { limit: number }) => {
    const { account, limit } = options
    const found = await runAdminCommand(show, { limit, ...(account !== undefined && { account }) })
    printResult(options, found, formatComplaints)
  })
}

const MAX_REPORTER_LENGTH = 40

const formatRate = (rate: number | null): string => (rate === null ? '-' : `${(rate * 100).toFixed(3)} %`)

const formatComplaints = ({ accounts, data: newest, has_more, days: span }: ComplaintsView): string =>
  [
    `The last ${span} days, without sandbox mail:`,
    formatTable(
      ['ACCOUNT', 'DELIVERED', 'COMPLAINTS', 'RATE'],
      accounts.map((row) => [row.account, String(row.delivered), String(row.complaints), formatRate(row.rate)]),
    ),
    '',
    newest.length === 0
      ? 'No complaints.'
      : formatTable(
          ['WHEN', 'ACCOUNT', 'COMPLAINER', 'TYPE', 'LOOP', 'REPORTED BY', 'EMAIL'],
          newest.map((row) => [
            formatUtc(row.created_at),
            row.account,
            row.complainer ?? '(not reported)',
            row.feedback_type,
            row.feedback_loop ?? '(unproven)',
            truncate(row.reporter ?? '', MAX_REPORTER_LENGTH),
            row.email_id ?? '(deleted)',
          ]),
        ),
    ...(has_more ? [MORE_LINE] : []),
  ].join('\n')
