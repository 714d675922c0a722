/** @module Whether an account may send and why, and its pause by an operator. Knows neither commands nor routes. */
import { type Account, getAccount } from '#features/core/accounts/accounts.ts'
import { toOperatorAccount } from '#features/core/accounts/model.ts'
import { findPause, findSendingBlock } from '#features/core/accounts/pause.ts'
import { getPlanTerms } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { readPools } from '#features/sending/delivery/control/pools.ts'
import { countHeld } from '#features/sending/queue/hold-transitions.ts'
import type { Tx } from '#platform/db/commit.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
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

/** Throws 422 for an empty or too long reason. */
export function parsePauseReason(text: string): string {
  const reason = text.trim().replace(/\s+/g, ' ')
  if (reason === '' || reason.length > MAX_PAUSE_REASON_LENGTH)
    throw invalid(
      'reason',
      `The reason must have 1 to ${MAX_PAUSE_REASON_LENGTH} characters; the users of the account read it.`,
    )
  return reason
}

/**
 * Pauses the actor's account; resolves with its name. Throws 409 when it is paused already.
 * @param alsoWrite called in the transaction
 */
export async function pauseByOperator(
  app: App,
  actor: Actor,
  reason: string,
  alsoWrite: (tx: Tx) => void = () => undefined,
): Promise<string> {
  const isPaused = await app.commit.writeFromReserve((tx) => {
    if (!pauseAccount(app, tx, actor, { source: 'admin', reason })) return false
    alsoWrite(tx)
    return true
  })
  const { name } = getAccount(app.config, app.db, actor.accountId)
  if (!isPaused)
    throw conflict('account_paused', `The account ${name} is already paused; \`tassis accounts show\` shows why.`)
  return name
}

/**
 * Resumes the actor's account. Throws 409 when it is not paused.
 * @param alsoWrite called in the transaction
 */
export async function resumeByOperator(
  app: App,
  actor: Actor,
  alsoWrite: (tx: Tx) => void = () => undefined,
): Promise<ResumeResult> {
  const { held, isAll } = countHeld(app.db, actor.accountId, MAX_COUNTED_RECIPIENTS)
  const isResumed = await app.commit.writeFromReserve((tx) => {
    if (!resumeAccount(app, tx, actor)) return false
    alsoWrite(tx)
    return true
  })
  const { name } = getAccount(app.config, app.db, actor.accountId)
  if (!isResumed) throw conflict('account_not_paused', `The account ${name} is not paused.`)
  const sendingBlock = findSendingBlock(app.db, actor.accountId) ?? null
  return {
    account: name,
    released: sendingBlock === null ? held : 0,
    released_is_at_least: !isAll,
    still_stopped: sendingBlock,
  }
}
