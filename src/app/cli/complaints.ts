/** @module `tassis complaints`: the complaint rate of each account, and the newest complaints. */

import type { Command } from 'commander'
import { type Account, getAccount, listAccounts } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { toComplaintWire } from '#features/receiving/complaints/model.ts'
import { listComplaints, readComplaintRate } from '#features/receiving/complaints/rate.ts'
import { formatUuid } from '#platform/ids.ts'
import { truncate } from '#platform/text.ts'
import { days } from '#platform/units.ts'
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
import { formatList, formatTable, formatUtc, printResult, toLimitedList } from './output.ts'

const WINDOW_DAYS = 30

function toRateView(app: App, account: Account) {
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

const show = defineAdminCommand('complaints', ({ opened: { app } }, { account, limit }: ComplaintsInput) => {
  const only = findAccountId(app, account)
  const accounts = only === undefined ? listAccounts(app.config, app.db) : [getAccount(app.config, app.db, only)]
  return {
    days: WINDOW_DAYS,
    accounts: accounts.map((owner) => toRateView(app, owner)),
    ...toLimitedList(
      listComplaints(app.db, only, { limit: limit + 1, offset: 0 }).complaints.map((complaint) =>
        toComplaintWire(app, complaint),
      ),
      limit,
    ),
  }
})

export const complaintAdminCommands = [show]

export function addComplaintsCommand(program: Command): void {
  withLimit(
    withAccount(
      addCommand(
        program,
        'complaints',
        `show complaint rates of the last ${WINDOW_DAYS} days and the newest complaints`,
      ),
      ONLY_ACCOUNT_DESCRIPTION,
    ),
    'complaints',
    20,
  ).action(async (options: JsonOption & AccountOption & { limit: number }) => {
    const { account, limit } = options
    const found = await runAdminCommand(show, { limit, account })
    printResult(options, found, formatComplaints)
  })
}

const MAX_REPORTER_LENGTH = 40

const formatRate = (rate: number | null): string => (rate === null ? '-' : `${(rate * 100).toFixed(3)} %`)

const formatComplaints = (found: Awaited<ReturnType<typeof show.run>>): string =>
  [
    `The last ${found.days} days, without sandbox mail:`,
    formatTable(
      ['ACCOUNT', 'DELIVERED', 'COMPLAINTS', 'RATE'],
      found.accounts.map((row) => [row.account, String(row.delivered), String(row.complaints), formatRate(row.rate)]),
    ),
    '',
    formatList(
      found,
      'No complaints.',
      ['WHEN', 'ACCOUNT', 'COMPLAINER', 'TYPE', 'LOOP', 'REPORTED BY', 'EMAIL'],
      (row) => [
        formatUtc(row.created_at),
        row.account ?? '',
        row.complainer ?? '(not reported)',
        row.feedback_type,
        row.feedback_loop ?? '(unproven)',
        truncate(row.reporter ?? '', MAX_REPORTER_LENGTH),
        row.email_id ?? '(deleted)',
      ],
    ),
  ].join('\n')
