/** @module `tassis complaints`: the complaint rate of each account, and the newest complaints. */
import type { Command } from 'commander'
import type { OperatorComplaint, OperatorComplaintRate } from '#client/operator-api.ts'
import { truncate } from '#platform/text.ts'
import { apiAction, findAccountFilter, readRows } from './api.ts'
import {
  type AccountOption,
  addCommand,
  type JsonOption,
  MAX_ROWS,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
  withLimit,
} from './options.ts'
import { type Columns, formatPage, formatUtc, printResult } from './output.ts'

const MAX_REPORTER_LENGTH = 40

const RATES: Columns<OperatorComplaintRate> = {
  ACCOUNT: ({ account }) => account,
  DELIVERED: ({ delivered }) => String(delivered),
  COMPLAINTS: ({ complaints }) => String(complaints),
  RATE: ({ rate }) => (rate === null ? '-' : `${(rate * 100).toFixed(3)} %`),
}

const COMPLAINTS: Columns<OperatorComplaint> = {
  WHEN: (row) => formatUtc(row.created_at),
  ACCOUNT: ({ account }) => account ?? '',
  COMPLAINER: ({ complainer }) => complainer ?? '(not reported)',
  TYPE: (row) => row.feedback_type,
  LOOP: (row) => row.feedback_loop ?? '(unproven)',
  'REPORTED BY': ({ reporter }) => truncate(reporter ?? '', MAX_REPORTER_LENGTH),
  EMAIL: (row) => row.email_id ?? '(deleted)',
}

export function addComplaintsCommand(program: Command): void {
  withLimit(
    withAccount(
      addCommand(program, 'complaints', 'show complaint rates of the last 30 days and the newest complaints'),
      ONLY_ACCOUNT_DESCRIPTION,
    ),
    'complaints',
    20,
  ).action(
    apiAction<JsonOption & AccountOption & { limit: number }>(async ({ api, options }) => {
      const only = await findAccountFilter(api, options)
      const rates = await readRows(api.operator.listComplaintRates({ per_page: 100 }), MAX_ROWS)
      const shown = rates.data.filter((row) => only === undefined || row.account_id === only)
      const found = await readRows(api.operator.listComplaints({ account_id: only }), options.limit)
      printResult(options, { ...found, rates: shown }, () =>
        [
          'The last 30 days, without sandbox mail:',
          formatPage({ data: shown }, '', RATES),
          '',
          formatPage(found, 'No complaints.', COMPLAINTS),
        ].join('\n'),
      )
    }),
  )
}
