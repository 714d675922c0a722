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
import { MAX_PAUSE_REASON_LENGTH } from './model.ts'

/**
 * Maximum number of recipients examined per email status to count the held ones; examining that many takes some 50 ms.
 */
const MAX_COUNTED_RECIPIENTS = 20_000

export interface AccountView {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly plan: string
  /** Id of the parent account; null unless this is a sub-account. */
  readonly parent_account_id: string | null
  /** When its parent account disabled it. */
  readonly disabled_at: string | null
  /** Recipients per month; null if unlimited. */
  readonly monthly_quota: number | null
  readonly used_this_month: number
  readonly paused_at: string | null
  readonly created_at: string
}

export function toAccountView(app: App, account: Account): AccountView {
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

export interface AccountStatusView extends PoolView {
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

/** An account with what decides whether it may send. */
export function readAccountStatus({ config, db, clock, eventTime }: App, accountId: number): AccountStatusView {
  const found = getAccount(config, db, accountId)
  const figures = readAbuseStats(db, accountId, eventTime())
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
    used_this_month: readMonthlyUsage(db, accountId, monthOf(clock.now())),
    stopped: findSendingBlock(db, accountId) ?? null,
    paused: paused ? { since: isoTime(paused.since), source: paused.source, reason: paused.reason } : null,
    disabled_at: isoTimeOrNull(found.disabledAt),
    held: countHeld(db, accountId, MAX_COUNTED_RECIPIENTS).held,
    ...readPools({ db }, accountId),
    judged: getPlanTerms(config, found.plan).isWatched,
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

export interface PoolView {
  /** Null: its mail leaves from the addresses of its parent account's pool, or from those without a pool. */
  readonly pool: string | null
  /** The streams with a pool of their own. */
  readonly stream_pools: { readonly stream: string; readonly pool: string }[]
}

/** The pools of outgoing addresses of an account and of its streams. */
export const readPools = ({ db }: Pick<App, 'db'>, accountId: number): PoolView => ({
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

export interface ResumeView {
  readonly account: string
  /** Recipients whose mail is released, as far as they are counted. */
  readonly released: number
  readonly released_is_at_least: boolean
  /** Why the account still may not send; null if it may. */
  readonly still_stopped: string | null
}

/**
 * Resumes the actor's account. Throws 409 when it is not paused.
 * @param alsoWrite called in the transaction
 */
export async function resumeByOperator(
  app: App,
  actor: Actor,
  alsoWrite: (tx: Tx) => void = () => undefined,
): Promise<ResumeView> {
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
