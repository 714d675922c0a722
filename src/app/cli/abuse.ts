/** @module `tassis accounts pause`, `resume`, `findings`, `show`: the operator's decision over an account, and what it rests on. */
import type { Command } from 'commander'
import { accountOfActor, monthOf, usedInMonth } from '#features/core/accounts/accounts.ts'
import { pauseOf, stopOf } from '#features/core/accounts/pause.ts'
import { UNLIMITED } from '#features/core/accounts/plans.ts'
import { newestFindings } from '#features/reporting/abuse/findings.ts'
import { isJudgedPlan } from '#features/reporting/abuse/judged.ts'
import { pauseAccount, resumeAccount } from '#features/reporting/abuse/pause.ts'
import { figuresOf } from '#features/reporting/abuse/rates.ts'
import { countHeld } from '#features/sending/emails/account-moves.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { loadConfig } from '../settings.ts'
import { operatorOf } from './accounts.ts'
import { withData } from './call.ts'
import { operation } from './operation.ts'
import { type JsonOption, withJson, withLimit } from './options.ts'
import { counted, print, printable, report, shortened, table, utc } from './output.ts'

const LONGEST_REASON = 300
/** Open recipients that are looked at to say how much is held: some 50 ms. */
const MOST_COUNTED = 20_000

interface ShownPause {
  readonly account: string
  readonly reason: string
}

const pause = operation(
  'accounts.pause',
  async ({ opened: { app } }, { account, reason: given }: { account: string; reason: string }): Promise<ShownPause> => {
    const reason = given.trim().replace(/\s+/g, ' ')
    if (reason === '' || reason.length > LONGEST_REASON)
      throw invalid('reason', `A reason has 1 to ${LONGEST_REASON} characters; the account's people read it.`)
    const actor = operatorOf(app, account)
    const isPaused = await app.commit.writeFromReserve((tx) =>
      pauseAccount(app, tx, actor, { source: 'admin', reason }),
    )
    const { name } = accountOfActor(app.config, app.db, actor.accountId)
    if (!isPaused)
      throw conflict('account_paused', `The account ${name} is paused already; \`tassis accounts show\` says why.`)
    return { account: name, reason }
  },
)

interface ShownResume {
  readonly account: string
  /** Recipients whose mail is released, as far as they were counted. */
  readonly released: number
  readonly released_is_at_least: boolean
  /** Why it may not send all the same; null: it may. */
  readonly still_stopped: string | null
}

const resume = operation(
  'accounts.resume',
  async ({ opened: { app } }, { account }: { account: string }): Promise<ShownResume> => {
    const actor = operatorOf(app, account)
    const { held, isAll } = countHeld(app.db, actor.accountId, MOST_COUNTED)
    const isResumed = await app.commit.writeFromReserve((tx) => resumeAccount(app, tx, actor))
    const { name } = accountOfActor(app.config, app.db, actor.accountId)
    if (!isResumed) throw conflict('account_not_paused', `The account ${name} is not paused.`)
    const stillStopped = stopOf(app.db, actor.accountId) ?? null
    return {
      account: name,
      released: stillStopped === null ? held : 0,
      released_is_at_least: !isAll,
      still_stopped: stillStopped,
    }
  },
)

interface ShownFinding {
  readonly account_id: string
  readonly account: string
  readonly source: string
  readonly reason: string
  readonly paused: boolean
  readonly email_id: string | null
  readonly detail: unknown
  readonly created_at: string
}

const findings = operation(
  'accounts.findings',
  ({ opened: { app } }, { account, limit }: { account?: string; limit: number }): ShownFinding[] => {
    const only = account === undefined ? undefined : operatorOf(app, account).accountId
    return newestFindings(app.db, limit, only).map((finding) => ({
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

interface ShownStanding {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly plan: string
  readonly monthly_quota: number | null
  readonly used_this_month: number
  /** Why it may not send; null: it may. */
  readonly stopped: string | null
  readonly paused: { readonly since: string; readonly source: string; readonly reason: string } | null
  /** When its parent switched it off. */
  readonly disabled_at: string | null
  /** Recipients whose mail is held; up to some ten thousand are counted. */
  readonly held: number
  /** Whether its plan is among those that are paused by their figures. */
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

const show = operation('accounts.show', ({ opened: { app } }, { account }: { account: string }): ShownStanding => {
  const { config, db } = app
  const { accountId } = operatorOf(app, account)
  const found = accountOfActor(config, db, accountId)
  const figures = figuresOf(db, accountId, app.eventTime())
  const { delivered, bounced, complained } = figures
  const paused = pauseOf(db, accountId)
  const rate = (part: number, whole: number, of: number) =>
    whole <= 0 ? null : Math.round((part / whole) * of * 100) / 100
  return {
    id: formatUuid(found.uuid),
    name: found.name,
    email: found.email,
    plan: found.plan,
    monthly_quota: found.monthlyQuota >= UNLIMITED ? null : found.monthlyQuota,
    used_this_month: usedInMonth(db, accountId, monthOf(app.clock.now())),
    stopped: stopOf(db, accountId) ?? null,
    paused: paused ? { since: isoTime(paused.since), source: paused.source, reason: paused.reason } : null,
    disabled_at: isoTimeOrNull(found.disabledAt),
    held: countHeld(db, accountId, MOST_COUNTED).held,
    judged: isJudgedPlan(config, found.plan),
    last_24_hours: {
      delivered,
      bounced,
      complained,
      bounce_percent: rate(bounced, delivered + bounced, 100),
      complaints_per_mille: rate(complained, delivered, 1000),
    },
    thresholds: {
      minimum_volume: config.abuseMinimumVolume,
      bounce_percent: config.abuseBouncePercent,
      complaints_per_mille: config.abuseComplaintsPerMille,
    },
  }
})

export const abuseOperations = [pause, resume, findings, show]

/** @param accounts the group `tassis accounts` */
export function addPauseCommands(accounts: Command): void {
  withJson(accounts.command('pause').description('stop the sending of an account; what is queued is held'))
    .argument('<account>', 'its id or name')
    .requiredOption('--reason <sentence>', 'why; the people of the account read it')
    .action(async (account: string, options: JsonOption & { reason: string }) => {
      const done = await withData(loadConfig().config, (call) => call(pause, { account, reason: options.reason }))
      report(options, done, (shown) => `Paused ${printable(shown.account)}: ${printable(shown.reason)}`)
    })
  withJson(accounts.command('resume').description('let a paused account send again, what was held too'))
    .argument('<account>', 'its id or name')
    .action(async (account: string, options: JsonOption) => {
      const done = await withData(loadConfig().config, (call) => call(resume, { account }))
      report(options, done, resumed)
    })
  const findingsCommand = accounts
    .command('findings')
    .description('what the watch over accounts found, the newest first')
  withLimit(withJson(findingsCommand), 'most findings that are shown', 50)
    .argument('[account]', 'its id or name; all without it')
    .action(async (account: string | undefined, options: JsonOption & { limit: number }) => {
      const input = { limit: options.limit, ...(account !== undefined && { account }) }
      const found = await withData(loadConfig().config, (call) => call(findings, input))
      if (!options.json && found.length === 0) return print('Nothing was found.')
      report(options, found, (shown) =>
        table(
          ['WHEN', 'ACCOUNT', 'SOURCE', '', 'REASON', 'DETAIL'],
          shown.map(({ created_at, account: name, source, paused, reason, detail }) => [
            utc(created_at),
            shortened(printable(name), 30),
            source,
            paused ? 'paused' : '',
            printable(reason),
            detail === null ? '' : shortened(printable(JSON.stringify(detail)), 120),
          ]),
        ),
      )
    })
  withJson(
    accounts.command('show').description('one account: plan, quota, rates and thresholds, and whether it may send'),
  )
    .argument('<account>', 'its id or name')
    .action(async (account: string, options: JsonOption) => {
      const found = await withData(loadConfig().config, (call) => call(show, { account }))
      report(options, found, standing)
    })
}

function resumed({ account, released, released_is_at_least, still_stopped }: ShownResume): string {
  const name = printable(account)
  if (still_stopped !== null) return `Resumed ${name}, but it still may not send. ${printable(still_stopped)}`
  if (released === 0 && !released_is_at_least) return `Resumed ${name}. No mail was held.`
  return `Resumed ${name}. ${released_is_at_least ? 'At least ' : ''}${counted(released, 'recipient')} whose mail was held ${
    released === 1 ? 'is' : 'are'
  } sent to now.`
}

const figure = (rate: number | null, unit: string): string => (rate === null ? 'no figure yet' : `${rate} ${unit}`)

function standing(shown: ShownStanding): string {
  const { last_24_hours: day, thresholds: most } = shown
  const lines = [
    `${printable(shown.name)} (${shown.id}), ${printable(shown.email)}`,
    `Plan ${shown.plan}: ${shown.used_this_month} of ${shown.monthly_quota ?? 'unlimited'} recipients used this month.`,
    shown.stopped === null ? 'It may send.' : `It may not send. ${printable(shown.stopped)}`,
    ...(shown.paused
      ? [`Paused since ${utc(shown.paused.since)} by ${shown.paused.source}; \`tassis accounts resume\` lets it go on.`]
      : []),
    ...(shown.disabled_at
      ? [
          `Switched off since ${utc(shown.disabled_at)} by its parent, which switches it on: PATCH /v1/accounts/${shown.id} {"is_active": true}.`,
        ]
      : []),
    ...(shown.held > 0 ? [`Mail to ${counted(shown.held, 'recipient')} is held.`] : []),
    `Last 24 hours, or since it was resumed: ${day.delivered} delivered, ${day.bounced} bounced, ${day.complained} complained.`,
    `Bounces: ${figure(day.bounce_percent, '%')} (paused at ${most.bounce_percent} %). Complaints: ${figure(day.complaints_per_mille, 'per 1,000')} (paused at ${most.complaints_per_mille}). Judged from ${most.minimum_volume} recipients on.`,
    ...(shown.judged ? [] : ['Its plan is not in TASSIS_ABUSE_PLANS: nothing but `tassis accounts pause` pauses it.']),
  ]
  return lines.join('\n')
}
