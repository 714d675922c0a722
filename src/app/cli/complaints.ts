/** @module `tassis complaints`: how many recipients complain, against how many got mail, by account; and who the newest were. */
import type { Command } from 'commander'
import { type Account, accountOfActor, listAccounts } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { complaintRate, newestComplaints } from '#features/receiving/complaints/rate.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { loadConfig } from '../settings.ts'
import { operatorOf } from './accounts.ts'
import { withData } from './call.ts'
import { operation } from './operation.ts'
import { type AccountOption, type JsonOption, ONLY_ACCOUNT, withAccount, withJson, withLimit } from './options.ts'
import { report, shortened, table, utc } from './output.ts'

const WINDOW_DAYS = 30

interface ShownRate {
  readonly account_id: string
  readonly account: string
  /** Recipients, over the window. */
  readonly delivered: number
  readonly complaints: number
  /** 0..1; null when nothing was delivered. */
  readonly rate: number | null
}

interface ShownComplaint {
  readonly account: string
  /** Null when the email is gone. */
  readonly email_id: string | null
  /** Null when the report did not say who it was. */
  readonly complainer: string | null
  readonly feedback_type: string
  /** Null when nothing proves who reported it; such a complaint pauses nobody. */
  readonly feedback_loop: string | null
  readonly reporter: string | null
  readonly created_at: string
}

interface ShownComplaints {
  readonly days: number
  readonly accounts: readonly ShownRate[]
  readonly newest: readonly ShownComplaint[]
}

function shownRate(app: App, account: Account): ShownRate {
  const to = app.clock.now()
  return {
    account_id: formatUuid(account.uuid),
    account: account.name,
    ...complaintRate(app.db, account.id, { from: to - days(WINDOW_DAYS), to }),
  }
}

interface Input extends AccountOption {
  readonly limit: number
}

const show = operation('complaints', ({ opened: { app } }, { account, limit }: Input): ShownComplaints => {
  const only = account === undefined ? undefined : operatorOf(app, account).accountId
  const accounts = only === undefined ? listAccounts(app.config, app.db) : [accountOfActor(app.config, app.db, only)]
  const names = new Map(accounts.map(({ id, name }) => [id, name]))
  return {
    days: WINDOW_DAYS,
    accounts: accounts.map((owner) => shownRate(app, owner)),
    newest: newestComplaints(app.db, limit, only).map((complaint) => ({
      account: names.get(complaint.accountId) ?? '',
      email_id: complaint.emailUuid === null ? null : formatUuid(complaint.emailUuid),
      complainer: complaint.address,
      feedback_type: complaint.feedbackType,
      feedback_loop: complaint.feedbackLoop,
      reporter: complaint.reporter,
      created_at: isoTime(complaint.createdAt),
    })),
  }
})

export const complaintOperations = [show]

export function addComplaintsCommand(program: Command): void {
  withLimit(
    withJson(
      withAccount(
        program
          .command('complaints')
          .description(
            `show who marked mail as spam, of all accounts unless one is given; the rate is of the last ${WINDOW_DAYS} days`,
          ),
        ONLY_ACCOUNT,
      ),
    ),
    'most complaints that are shown',
    20,
  ).action(async (options: JsonOption & AccountOption & { limit: number }) => {
    const { account, limit } = options
    const input = { limit, ...(account !== undefined && { account }) }
    const found = await withData(loadConfig().config, (call) => call(show, input))
    report(options, found, complaintsText)
  })
}

const LONGEST_REPORTER = 40

const rateText = (rate: number | null): string => (rate === null ? '-' : `${(rate * 100).toFixed(3)} %`)

const complaintsText = ({ accounts, newest, days: span }: ShownComplaints): string =>
  [
    `The last ${span} days, without sandbox mail:`,
    table(
      ['ACCOUNT', 'DELIVERED', 'COMPLAINTS', 'RATE'],
      accounts.map((row) => [row.account, String(row.delivered), String(row.complaints), rateText(row.rate)]),
    ),
    '',
    newest.length === 0
      ? 'Nobody has complained.'
      : table(
          ['WHEN', 'ACCOUNT', 'COMPLAINER', 'TYPE', 'LOOP', 'REPORTED BY', 'EMAIL'],
          newest.map((row) => [
            utc(row.created_at),
            row.account,
            row.complainer ?? '(not told)',
            row.feedback_type,
            row.feedback_loop ?? '(unproven)',
            shortened(row.reporter ?? '', LONGEST_REPORTER),
            row.email_id ?? '(gone)',
          ]),
        ),
  ].join('\n')
