/**
 * @module Accounts as the operator sees them, and their pause: for `tassis accounts` and the operator's routes. Knows
 * neither commands nor routes.
 */
import { type Account, findAccount, getAccount, monthOf, readMonthlyUsage } from '#features/core/accounts/accounts.ts'
import { findPause, findSendingBlock } from '#features/core/accounts/pause.ts'
import { getPlanTerms, UNLIMITED } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { type AuditActor, audit } from '#features/core/audit-logs/audit.ts'
import { pauseAccount, resumeAccount } from '#features/reporting/abuse/pause.ts'
import {
  MAX_BOUNCE_PERCENT,
  MAX_COMPLAINTS_PER_MILLE,
  MIN_VOLUME,
  readAbuseStats,
} from '#features/reporting/abuse/rates.ts'
import { wakeSelected } from '#features/sending/delivery/control/queue-control.ts'
import { countHeld } from '#features/sending/queue/hold-transitions.ts'
import { addRule, findPool, removeRules } from '#features/sending/queue/queue-rules.ts'
import { findStreamId, listStreamPools, setStreamPool } from '#features/setup/streams/streams.ts'
import type { Tx } from '#platform/db/commit.ts'
import { conflict, invalid, notFound } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { parseOutboundSource } from '#platform/settings/outbound-source.ts'
import {
  type AccountPools,
  MAX_PAUSE_REASON_LENGTH,
  type OperatorAccount,
  type OperatorAccountStatus,
  type ResumeResult,
} from './model.ts'

/**
 * Maximum number of recipients examined per email status to count the held ones; examining that many takes some 50 ms.
 */
const MAX_COUNTED_RECIPIENTS = 20_000

export function toAccountView(app: App, account: Account): OperatorAccount {
  return {
    id: formatUuid(account.uuid),
    name: account.name,
    email: account.email,
    plan: account.plan,
    parent_account_id: findParentUuid(app, account),
    disabled_at: isoTimeOrNull(account.disabledAt),
    monthly_quota: account.monthlyQuota >= UNLIMITED ? null : account.monthlyQuota,
    used_this_month: readMonthlyUsage(app.db, account.id, monthOf(app.clock.now())),
    paused_at: isoTimeOrNull(account.pausedAt),
    created_at: isoTime(account.createdAt),
  }
}

function findParentUuid(app: App, { parentId }: Account): string | null {
  const parent = parentId === null ? undefined : findAccount(app.config, app.db, parentId)
  return parent ? formatUuid(parent.uuid) : null
}

/** An account with what decides whether it may send. */
export function readAccountStatus(app: App, account: Account): OperatorAccountStatus {
  const { config, db, eventTime } = app
  const { delivered, bounced, complained } = readAbuseStats(db, account.id, eventTime())
  const paused = findPause(db, account.id)
  const toRate = (part: number, whole: number, of: number) =>
    whole <= 0 ? null : Math.round((part / whole) * of * 100) / 100
  return {
    ...toAccountView(app, account),
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

/** The pools of outgoing addresses of an account and of its streams. */
export const readPools = ({ db }: Pick<App, 'db'>, accountId: number): AccountPools => ({
  pool: findPool(db, accountId) ?? null,
  stream_pools: listStreamPools(db, accountId),
})

/**
 * Sets the pool of outgoing addresses of an account, or of one of its streams; null: none. Throws 422 for a pool that no
 * address is in: a typing error would send its mail from the addresses of all others. Throws 404 for an unknown stream.
 */
export async function setPool(
  app: App,
  actor: AuditActor,
  accountId: number,
  { stream, pool }: { readonly stream?: string | undefined; readonly pool: string | null },
): Promise<void> {
  const pools = app.config.outboundIps.flatMap((item) => parseOutboundSource(item)?.pool ?? [])
  if (pool !== null && !pools.includes(pool))
    throw invalid(
      'pool',
      `No address of TASSIS_OUTBOUND_IPS is in the pool "${pool}"; ${pools.length === 0 ? 'add one such as 192.0.2.1@news' : `there are ${[...new Set(pools)].join(', ')}`}.`,
    )
  const { uuid, name } = getAccount(app.config, app.db, accountId)
  await app.commit.writeFromReserve((tx) => {
    if (stream !== undefined) {
      const streamId = findStreamId(tx.db, accountId, stream)
      if (streamId === undefined)
        throw notFound('stream_not_found', `The account ${name} has no stream "${stream}"; use the slug of the stream.`)
      setStreamPool(tx, streamId, pool)
    } else setAccountPool(app, tx, actor, accountId, pool)
    audit(app, tx, actor, {
      action: 'operator.account_pool_set',
      resourceType: 'account',
      resourceId: formatUuid(uuid),
      metadata: { pool, ...(stream !== undefined && { stream }) },
    })
  })
  // Mail that waits for a suspended address may now leave from another one.
  await wakeSelected(app, { accountId })
}

function setAccountPool(app: App, tx: Tx, { id }: AuditActor, accountId: number, target: string | null): void {
  const selector = { accountId }
  if (target === null) removeRules(tx, selector, 'pool')
  else addRule(tx, { kind: 'pool', selector, target, reason: '', createdBy: id, createdAt: app.clock.now() })
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
