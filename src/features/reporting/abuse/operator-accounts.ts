/** @module Whether an account may send and why, and its pause by an operator. Knows neither commands nor routes. */
import type { Account } from '#features/core/accounts/accounts.ts'
import { toOperatorAccount } from '#features/core/accounts/model.ts'
import { findPause, findSendingBlock } from '#features/core/accounts/pause.ts'
import { getPlanTerms } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { toServiceActor } from '#features/core/audit-logs/view-log.ts'
import { readPools } from '#features/sending/delivery/control/pools.ts'
import { countHeld } from '#features/sending/queue/hold-transitions.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { MAX_PAUSE_REASON_LENGTH, type OperatorAccountStatus, type ResumeResult } from './model.ts'
import { pauseAccount, resumeAccount } from './pause.ts'
import { MAX_BOUNCE_PERCENT, MAX_COMPLAINTS_PER_MILLE, MIN_VOLUME, readAbuseStats } from './rates.ts'

/**
 * Maximum number of recipients examined per email status to count the held ones; examining that many takes some 50 ms.
 */
const MAX_COUNTED_RECIPIENTS = 20_000

/** An account with what decides whether it may send. */
export function readAccountStatus(app: App, account: Account): OperatorAccountStatus {
  const { config, db, eventTime } = app
  const { delivered, bounced, complained } = readAbuseStats(db, account.id, eventTime())
  const paused = findPause(db, account.id)
  const toRate = (part: number, whole: number, of: number) =>
    whole <= 0 ? null : Math.round((part / whole) * of * 100) / 100
  return {
    ...toOperatorAccount(app, account),
    ...readPools(app, account.id),
    stopped: findSendingBlock(db, account.id) ?? null,
    paused: paused ? { since: isoTime(paused.since), source: paused.source, reason: paused.reason } : null,
    held: countHeld(db, account.id, MAX_COUNTED_RECIPIENTS).held,
    judged: getPlanTerms(config, account.plan).isWatched,
    last_24_hours: {
      delivered,
      bounced,
      complained,
      bounce_percent: toRate(bounced, delivered + bounced, 100),
      complaints_per_mille: toRate(complained, delivered, 1000),
    },
    thresholds: {
      minimum_volume: MIN_VOLUME,
      bounce_percent: MAX_BOUNCE_PERCENT,
      complaints_per_mille: MAX_COMPLAINTS_PER_MILLE,
    },
  }
}

/** Pauses an account. Throws 422 for an empty or too long reason, 409 when it is paused already. */
export async function pauseByOperator(app: App, operator: Actor, account: Account, text: string): Promise<void> {
  const reason = text.trim().replace(/\s+/g, ' ')
  if (reason === '' || reason.length > MAX_PAUSE_REASON_LENGTH)
    throw invalid(
      'reason',
      `The reason must have 1 to ${MAX_PAUSE_REASON_LENGTH} characters; the users of the account read it.`,
    )
  const isPaused = await app.commit.writeFromReserve((tx) => {
    if (!pauseAccount(app, tx, toAccountActor(operator, account), { source: 'admin', reason })) return false
    // The entry of the service, which names the person.
    const actor = toServiceActor(operator)
    auditChange(app, tx, actor, 'operator.account_paused', account.uuid, { reason }, 'account')
    return true
  })
  if (!isPaused)
    throw conflict(
      'account_paused',
      `The account ${account.name} is already paused; \`tassis accounts show\` shows why.`,
    )
}

/** Resumes an account. Throws 409 when it is not paused. */
export async function resumeByOperator(app: App, operator: Actor, account: Account): Promise<ResumeResult> {
  const { held, isAll } = countHeld(app.db, account.id, MAX_COUNTED_RECIPIENTS)
  const isResumed = await app.commit.writeFromReserve((tx) => {
    if (!resumeAccount(app, tx, toAccountActor(operator, account))) return false
    const actor = toServiceActor(operator)
    auditChange(app, tx, actor, 'operator.account_resumed', account.uuid, undefined, 'account')
    return true
  })
  if (!isResumed) throw conflict('account_not_paused', `The account ${account.name} is not paused.`)
  const sendingBlock = findSendingBlock(app.db, account.id) ?? null
  return {
    account: account.name,
    released: sendingBlock === null ? held : 0,
    released_is_at_least: !isAll,
    still_stopped: sendingBlock,
  }
}

/** The operator in the audit log of the account, which its users read: it does not name the person. */
const toAccountActor = ({ type, id }: Actor, account: Account): Actor => ({
  accountId: account.id,
  accountUuid: formatUuid(account.uuid),
  type: 'operator',
  id: type === 'operator' ? id : 'dashboard',
  scopes: new Set(),
})
