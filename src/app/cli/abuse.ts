/** @module `tassis accounts pause`, `resume`, `findings` and `show`: the operator pauses an account and sees why. */

import type { Command } from 'commander'
import { listFindings } from '#features/reporting/abuse/findings.ts'
import type { Finding, OperatorAccountStatus, ResumeResult } from '#features/reporting/abuse/model.ts'
import { toFindingWire } from '#features/reporting/abuse/model.ts'
import {
  parsePauseReason,
  pauseByOperator,
  readAccountStatus,
  resumeByOperator,
} from '#features/reporting/abuse/operator-accounts.ts'
import { truncate } from '#platform/text.ts'
import { findAccountId, resolveAccount, resolveOperator } from '../find-account.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { type AccountOption, addCommand, type JsonOption, withLimit } from './options.ts'
import { formatCount, formatUtc, type List, printList, printResult, toLimitedList, toPrintable } from './output.ts'

const pause = defineAdminCommand(
  'accounts.pause',
  async ({ opened: { app } }, { account, reason: requested }: { account: string; reason: string }) => {
    const reason = parsePauseReason(requested)
    const actor = resolveOperator(app, account)
    return { account: await pauseByOperator(app, actor, reason), reason }
  },
)

const resume = defineAdminCommand('accounts.resume', ({ opened: { app } }, { account }: { account: string }) =>
  resumeByOperator(app, resolveOperator(app, account)),
)

const findings = defineAdminCommand(
  'accounts.findings',
  ({ opened: { app } }, { account, limit }: AccountOption & { limit: number }): List<Finding> => {
    const only = findAccountId(app, account)
    return toLimitedList(listFindings(app.db, only, { limit: limit + 1, offset: 0 }).findings.map(toFindingWire), limit)
  },
)

const show = defineAdminCommand('accounts.show', ({ opened: { app } }, { account }: { account: string }) =>
  readAccountStatus(app, resolveAccount(app, account)),
)

export const abuseAdminCommands = [pause, resume, findings, show]

/** @param accounts the group `tassis accounts` */
export function addPauseCommands(accounts: Command): void {
  addCommand(accounts, 'pause', 'pause an account: it cannot send, and its queued mail is held')
    .argument('<account>', 'ID or name of the account')
    .requiredOption('--reason <sentence>', 'why; the users of the account read it')
    .action(async (account: string, options: JsonOption & { reason: string }) => {
      const done = await runAdminCommand(pause, { account, reason: options.reason })
      printResult(options, done, (shown) => `Paused ${toPrintable(shown.account)}: ${toPrintable(shown.reason)}`)
    })
  addCommand(accounts, 'resume', 'resume a paused account and release its held mail')
    .argument('<account>', 'ID or name of the account')
    .action(async (account: string, options: JsonOption) => {
      printResult(options, await runAdminCommand(resume, { account }), formatResumed)
    })
  withLimit(addCommand(accounts, 'findings', 'list abuse findings, newest first'), 'findings', 50)
    .argument('[account]', 'ID or name of the account; default: all accounts')
    .action(async (account: string | undefined, options: JsonOption & { limit: number }) => {
      printList(
        options,
        await runAdminCommand(findings, { account, limit: options.limit }),
        'No findings.',
        ['WHEN', 'ACCOUNT', 'SOURCE', '', 'REASON', 'DETAIL'],
        ({ created_at, account: name, source, paused, reason, detail }) => [
          formatUtc(created_at),
          truncate(name, 30),
          source,
          paused ? 'paused' : '',
          reason,
          detail === null ? '' : truncate(JSON.stringify(detail), 120),
        ],
      )
    })
  addCommand(accounts, 'show', 'show an account: plan, quota, rates and thresholds, and whether it may send')
    .argument('<account>', 'ID or name of the account')
    .action(async (account: string, options: JsonOption) => {
      printResult(options, await runAdminCommand(show, { account }), formatAccountStatus)
    })
}

function formatResumed({ account, released, released_is_at_least, still_stopped }: ResumeResult): string {
  const name = toPrintable(account)
  if (still_stopped !== null) return `Resumed ${name}, but it still may not send. ${toPrintable(still_stopped)}`
  if (released === 0 && !released_is_at_least) return `Resumed ${name}. No mail was held.`
  return `Resumed ${name}. ${released_is_at_least ? 'At least ' : ''}${formatCount(released, 'recipient')} with held mail ${
    released === 1 ? 'is' : 'are'
  } queued again.`
}

const formatRate = (rate: number | null, unit: string): string => (rate === null ? 'no data yet' : `${rate} ${unit}`)

function formatAccountStatus(shown: OperatorAccountStatus): string {
  const { last_24_hours: day, thresholds: limits } = shown
  const lines = [
    `${toPrintable(shown.name)} (${shown.id}), ${toPrintable(shown.email)}`,
    `Plan ${shown.plan}: ${shown.used_this_month} of ${shown.monthly_quota ?? 'unlimited'} recipients used this month.`,
    shown.stopped === null ? 'It may send.' : `It may not send. ${toPrintable(shown.stopped)}`,
    ...(shown.paused
      ? [
          `Paused since ${formatUtc(shown.paused.since)} by ${shown.paused.source}; \`tassis accounts resume\` resumes it.`,
        ]
      : []),
    ...(shown.disabled_at
      ? [
          `Disabled since ${formatUtc(shown.disabled_at)} by its parent, which can enable it: PATCH /v1/accounts/${shown.id} {"is_active": true}.`,
        ]
      : []),
    ...(shown.pool === null ? [] : [`Its mail leaves from the addresses of the pool ${shown.pool}.`]),
    ...shown.stream_pools.map(
      ({ stream, pool }) => `Mail of its stream ${stream} leaves from those of the pool ${pool}.`,
    ),
    ...(shown.held > 0 ? [`Mail to ${formatCount(shown.held, 'recipient')} is held.`] : []),
    `Last 24 hours, or since it was resumed: ${day.delivered} delivered, ${day.bounced} bounced, ${day.complained} complained.`,
    `Bounces: ${formatRate(day.bounce_percent, '%')} (paused at ${limits.bounce_percent} %). Complaints: ${formatRate(day.complaints_per_mille, 'per 1,000')} (paused at ${limits.complaints_per_mille}). Checked from ${limits.minimum_volume} recipients on.`,
    ...(shown.judged
      ? []
      : ['Its plan is not watched (abuse_watch in TASSIS_PLANS): only `tassis accounts pause` can pause it.']),
  ]
  return lines.join('\n')
}
