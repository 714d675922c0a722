/** @module `tassis accounts pause`, `resume`, `findings` and `show`: the operator pauses an account and sees why. */
import type { Command } from 'commander'
import { getAccount, monthOf, readMonthlyUsage } from '#features/core/accounts/accounts.ts'
import { findPause, findSendingBlock } from '#features/core/accounts/pause.ts'
import { UNLIMITED } from '#features/core/accounts/plans.ts'
import { listNewestFindings } from '#features/reporting/abuse/findings.ts'
import { isMonitoredPlan } from '#features/reporting/abuse/monitored.ts'
import { pauseAccount, resumeAccount } from '#features/reporting/abuse/pause.ts'
import { readAbuseStats } from '#features/reporting/abuse/rates.ts'
import { countHeld } from '#features/sending/queue/account-transitions.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { loadConfig } from '../settings.ts'
import { resolveOperator } from './accounts.ts'
import { defineAdminCommand } from './admin-command.ts'
import { withData } from './call.ts'
import { type JsonOption, withJson, withLimit } from './options.ts'
import { formatCount, formatTable, formatUtc, print, printResult, toPrintable, truncate } from './output.ts'

const MAX_REASON_LENGTH = 300
/**
 * Maximum number of recipients examined per email status to count the held ones; examining that many takes some 50 ms.
 */
const MAX_COUNTED_RECIPIENTS = 20_000

interface PauseView {
  readonly account: string
  readonly reason: string
}

const pause = defineAdminCommand(
  'accounts.pause',
  async (
    { opened: { app } },
    { account, reason: providedReason }: { account: string; reason: string },
  ): Promise<PauseView> => {
    const reason = providedReason.trim().replace(/\s+/g, ' ')
    if (reason === '' || reason.length > MAX_REASON_LENGTH)
      throw invalid(
        'reason',
        `The reason must have 1 to ${MAX_REASON_LENGTH} characters; the users of the account read it.`,
      )
    const actor = resolveOperator(app, account)
    const isPaused = await app.commit.writeFromReserve((tx) =>
      pauseAccount(app, tx, actor, { source: 'admin', reason }),
    )
    const { name } = getAccount(app.config, app.db, actor.accountId)
    if (!isPaused)
      throw conflict('account_paused', `The account ${name} is already paused; \`tassis accounts show\` shows why.`)
    return { account: name, reason }
  },
)

interface ResumeView {
  readonly account: string
  /** Recipients whose mail is released, as far as they are counted. */
  readonly released: number
  readonly released_is_at_least: boolean
  /** Why the account still may not send; null if it may. */
  readonly still_stopped: string | null
}

const resume = defineAdminCommand(
  'accounts.resume',
  async ({ opened: { app } }, { account }: { account: string }): Promise<ResumeView> => {
    const actor = resolveOperator(app, account)
    const { held, isAll } = countHeld(app.db, actor.accountId, MAX_COUNTED_RECIPIENTS)
    const isResumed = await app.commit.writeFromReserve((tx) => resumeAccount(app, tx, actor))
    const { name } = getAccount(app.config, app.db, actor.accountId)
    if (!isResumed) throw conflict('account_not_paused', `The account ${name} is not paused.`)
    const sendingBlock = findSendingBlock(app.db, actor.accountId) ?? null
    return {
      account: name,
      released: sendingBlock === null ? held : 0,
      released_is_at_least: !isAll,
      still_stopped: sendingBlock,
    }
  },
)

interface FindingView {
  readonly account_id: string
  readonly account: string
  readonly source: string
  readonly reason: string
  readonly paused: boolean
  readonly email_id: string | null
  readonly detail: unknown
  readonly created_at: string
}

const findings = defineAdminCommand(
  'accounts.findings',
  ({ opened: { app } }, { account, limit }: { account?: string; limit: number }): FindingView[] => {
    const only = account === undefined ? undefined : resolveOperator(app, account).accountId
    return listNewestFindings(app.db, limit, only).map((finding) => ({
      account_id: formatUuid(finding.accountUuid),
      account: finding.accountName,
      source: finding.source,
      reason: finding.reason,
      paused: finding.paused === 1,
      email_id: finding.emailUuid && formatUuid(finding.emailUuid),
      detail: finding.detail === null ? null : JSON.parse(finding.detail),
      created_at: isoTime(finding.createdAt),
    }))
  },
)

interface AccountStatusView {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly plan: string
  readonly monthly_quota: number | null
  readonly used_this_month: number
  /** Why the account may not send; null if it may. */
  readonly stopped: string | null
  readonly paused: { readonly since: string; readonly source: string; readonly reason: string } | null
  /** When its parent account disabled it. */
  readonly disabled_at: string | null
  /** Recipients whose mail is held, counted as far as MAX_COUNTED_RECIPIENTS allows. */
  readonly held: number
  /** Whether its rates can pause it automatically, which depends on its plan. */
  readonly judged: boolean
  readonly last_24_hours: {
    readonly delivered: number
    readonly bounced: number
    readonly complained: number
    readonly bounce_percent: number | null
    readonly complaints_per_mille: number | null
  }
  readonly thresholds: {
    readonly minimum_volume: number
    readonly bounce_percent: number
    readonly complaints_per_mille: number
  }
}

const show = defineAdminCommand(
  'accounts.show',
  ({ opened: { app } }, { account }: { account: string }): AccountStatusView => {
    const { config, db } = app
    const { accountId } = resolveOperator(app, account)
    const found = getAccount(config, db, accountId)
    const figures = readAbuseStats(db, accountId, app.eventTime())
    const { delivered, bounced, complained } = figures
    const paused = findPause(db, accountId)
    const toRate = (part: number, whole: number, of: number) =>
      whole <= 0 ? null : Math.round((part / whole) * of * 100) / 100
    return {
      id: formatUuid(found.uuid),
      name: found.name,
      email: found.email,
      plan: found.plan,
      monthly_quota: found.monthlyQuota >= UNLIMITED ? null : found.monthlyQuota,
      used_this_month: readMonthlyUsage(db, accountId, monthOf(app.clock.now())),
      stopped: findSendingBlock(db, accountId) ?? null,
      paused: paused ? { since: isoTime(paused.since), source: paused.source, reason: paused.reason } : null,
      disabled_at: isoTimeOrNull(found.disabledAt),
      held: countHeld(db, accountId, MAX_COUNTED_RECIPIENTS).held,
      judged: isMonitoredPlan(config, found.plan),
      last_24_hours: {
        delivered,
        bounced,
        complained,
        bounce_percent: toRate(bounced, delivered + bounced, 100),
        complaints_per_mille: toRate(complained, delivered, 1000),
      },
      thresholds: {
        minimum_volume: config.abuseMinimumVolume,
        bounce_percent: config.abuseBouncePercent,
        complaints_per_mille: config.abuseComplaintsPerMille,
      },
    }
  },
)

export const abuseAdminCommands = [pause, resume, findings, show]

/** @param accounts the group `tassis accounts` */
export function addPauseCommands(accounts: Command): void {
  withJson(accounts.command('pause').description('pause an account: it cannot send, and its queued mail is held'))
    .argument('<account>', 'ID or name of the account')
    .requiredOption('--reason <sentence>', 'why; the users of the account read it')
    .action(async (account: string, options: JsonOption & { reason: string }) => {
      const done = await withData(loadConfig().config, (call) => call(pause, { account, reason: options.reason }))
      printResult(options, done, (shown) => `Paused ${toPrintable(shown.account)}: ${toPrintable(shown.reason)}`)
    })
  withJson(accounts.command('resume').description('resume a paused account and release its held mail'))
    .argument('<account>', 'ID or name of the account')
    .action(async (account: string, options: JsonOption) => {
      const done = await withData(loadConfig().config, (call) => call(resume, { account }))
      printResult(options, done, formatResumed)
    })
  const findingsCommand = accounts.command('findings').description('list abuse findings, newest first')
  withLimit(withJson(findingsCommand), 'maximum number of findings', 50)
    .argument('[account]', 'ID or name of the account; default: all accounts')
    .action(async (account: string | undefined, options: JsonOption & { limit: number }) => {
      const input = { limit: options.limit, ...(account !== undefined && { account }) }
      const found = await withData(loadConfig().config, (call) => call(findings, input))
      if (!options.json && found.length === 0) return print('No findings.')
      printResult(options, found, (shown) =>
        formatTable(
          ['WHEN', 'ACCOUNT', 'SOURCE', '', 'REASON', 'DETAIL'],
          shown.map(({ created_at, account: name, source, paused, reason, detail }) => [
            formatUtc(created_at),
            truncate(toPrintable(name), 30),
            source,
            paused ? 'paused' : '',
            toPrintable(reason),
            detail === null ? '' : truncate(toPrintable(JSON.stringify(detail)), 120),
          ]),
        ),
      )
    })
  withJson(
    accounts.command('show').description('show an account: plan, quota, rates and thresholds, and whether it may send'),
  )
    .argument('<account>', 'ID or name of the account')
    .action(async (account: string, options: JsonOption) => {
      const found = await withData(loadConfig().config, (call) => call(show, { account }))
      printResult(options, found, formatAccountStatus)
    })
}

function formatResumed({ account, released, released_is_at_least, still_stopped }: ResumeView): string {
  const name = toPrintable(account)
  if (still_stopped !== null) return `Resumed ${name}, but it still may not send. ${toPrintable(still_stopped)}`
  if (released === 0 && !released_is_at_least) return `Resumed ${name}. No mail was held.`
  return `Resumed ${name}. ${released_is_at_least ? 'At least ' : ''}${formatCount(released, 'recipient')} with held mail ${
    released === 1 ? 'is' : 'are'
  } queued again.`
}

const formatRate = (rate: number | null, unit: string): string => (rate === null ? 'no data yet' : `${rate} ${unit}`)

function formatAccountStatus(shown: AccountStatusView): string {
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
    ...(shown.held > 0 ? [`Mail to ${formatCount(shown.held, 'recipient')} is held.`] : []),
    `Last 24 hours, or since it was resumed: ${day.delivered} delivered, ${day.bounced} bounced, ${day.complained} complained.`,
    `Bounces: ${formatRate(day.bounce_percent, '%')} (paused at ${limits.bounce_percent} %). Complaints: ${formatRate(day.complaints_per_mille, 'per 1,000')} (paused at ${limits.complaints_per_mille}). Checked from ${limits.minimum_volume} recipients on.`,
    ...(shown.judged ? [] : ['Its plan is not in TASSIS_ABUSE_PLANS: only `tassis accounts pause` can pause it.']),
  ]
  return lines.join('\n')
}
