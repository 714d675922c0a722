/**
 * @module Checks against the database whether a draft may be stored: account, domain, stream, suppressions, quota,
 * disk; and limits the send requests of an account per second. Throws on rejection; stores nothing. The transaction
 * that inserts the email checks again.
 */
import type { Database } from 'bun:sqlite'
import {
  consumeQuota,
  getSendingAccount,
  giveQuotaBack,
  readRemainingQuota,
  requireSendingAllowed,
  type SendingAccount,
} from '#features/core/accounts/accounts.ts'
import { getPlanTerms } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { NOT_TRACKED, type TrackedParts } from '#features/sending/queue/email.ts'
import type { Placement } from '#features/sending/queue/insert.ts'
import { simulatorDomain } from '#features/sending/queue/lanes.ts'
import { requireAllowedEmail } from '#features/setup/api-keys/limits.ts'
import { domainNotVerified, findSendingDomain, type SendingDomain } from '#features/setup/domains/sending.ts'
import { findStream, type StreamPriority, toPriorityName } from '#features/setup/streams/streams.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { AppError, insufficientStorage, invalid } from '#platform/errors.ts'
import { createRateLimiter } from '#platform/http/rate-limit.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Draft } from './draft.ts'

/**
 * Checks a draft against the database. Throws if the account is paused, the domain unknown or lapsed, the stream
 * unknown, or if only some recipients are at the simulator. Mail to the simulator is sandbox mail: it never leaves this
 * machine, so it does not count in quota and reputation.
 * @param options.isAccepted whether the draft belongs to mail that was accepted earlier; such mail is sent even if its
 * domain has lost its DNS records since then
 * @param options.isMass whether the draft is one of many
 */
export function requireSendable(app: App, actor: Actor, draft: Draft, { isAccepted = false, isMass = false } = {}) {
  const account = getSendingAccount(app.config, app.db, actor.accountId)
  requireSendingAllowed(account)
  requireAllowedEmail(app, actor, draft)
  const domain = requireRegisteredDomain(app.db, actor.accountId, 'from', draft.fromDomain)
  const isUnverified = !domain.isVerified && !domain.lapsed
  const isRejected = domain.lapsed !== undefined || (isUnverified && app.config.sendingUnverified === 'reject')
  if (isRejected && !isAccepted) throw domainNotVerified('from', domain)
  const stream = findStream(app.db, actor.accountId, draft.stream)
  if (!stream) {
    throw invalid(
      'stream',
      `There is no stream "${draft.stream}" on this account; POST /v1/streams creates one.`,
      'stream_not_found',
    )
  }
  return {
    account,
    domainId: domain.id,
    // In this order: mixed recipients are refused from an unverified domain as well, as later from a verified one.
    sandbox: isSimulated(app.config, draft) || isUnverified,
    streamId: stream.id,
    streamExpiresIn: stream.expiresIn,
    priority: toPriority(stream.priority, isMass || !draft.transactional || draft.extra.whole !== undefined),
    hasPool: stream.pool !== null,
    tracked: selectTracked(app.config, account, draft),
  }
}

/** Throws the 422 `domain_not_found` on `field` if the account has no such domain, verified or not. */
export function requireRegisteredDomain(db: Database, accountId: number, field: string, domain: string): SendingDomain {
  const found = findSendingDomain(db, accountId, domain)
  if (found) return found
  throw invalid(
    field,
    `The domain ${domain} is not registered on this account; add it with POST /v1/domains.`,
    'domain_not_found',
  )
}

/** By default, mail that is sent in masses, or that strangers cause (forwarded mail), does not delay the other mail of its account. */
const toPriority = (code: number, isMass: boolean): StreamPriority => {
  const priority = toPriorityName(code)
  return priority === 'normal' && isMass ? 'low' : priority
}

/** Whether the mail goes to the simulator. Throws if that is true of only some recipients. */
function isSimulated(config: Config, { recipients }: Draft): boolean {
  const domain = simulatorDomain(config)
  const count = recipients.filter((recipient) => recipient.domain === domain).length
  if (count > 0 && count < recipients.length)
    throw invalid(
      'to',
      `Recipients at the simulator (${domain}) cannot be combined with others; send them an email of their own.`,
      'simulator_mixed',
    )
  return count > 0
}

/** Only HTML can be tracked, and only on a plan with tracking. */
function selectTracked(config: Config, account: SendingAccount, { html, tracking }: Draft): TrackedParts {
  if (html === undefined || !getPlanTerms(config, account.plan).trackingEnabled) return NOT_TRACKED
  const { opens = account.trackingDefault, clicks = account.trackingDefault } = tracking ?? {}
  return { opens, clicks }
}

/** The suppression reason of each recipient, in the order of the draft; undefined for a recipient that may get mail. */
export const findSuppressions = (db: Database, actor: Actor, draft: Draft, streamId: number): (string | undefined)[] =>
  draft.recipients.map(
    ({ address }) =>
      suppressionOf(db, {
        accountId: actor.accountId,
        address,
        transactional: draft.transactional,
        streamId,
        listId: draft.listId,
      })?.reason,
  )

/** Counts the recipients that are not suppressed; only they count against the quota. */
export const countSendable = ({ suppressions }: Pick<Placement, 'suppressions'>): number =>
  suppressions.filter((reason) => reason === undefined).length

/** Throws a 507 if the disk is low: new mail is rejected so that accepted mail can still be delivered. */
export async function requireDiskSpace(app: Pick<App, 'disk'>): Promise<void> {
  if (await app.disk.isLow()) throw insufficientStorage()
}

/**
 * Throws the 429 before anything is stored, so rejected mail cannot fill the disk. The transaction that inserts the
 * email checks again. If the quota looks exceeded, a transaction consumes and immediately refunds it: this throws the
 * 429 if the quota is in fact exceeded.
 * @param max upper limit of what `count` may return; with 0, nothing is checked
 * @param count counts the recipients without suppressed ones; called only if `max` exceeds the quota
 * @param left recipients left in the quota of the account
 */
export async function requireQuota(
  app: App,
  account: SendingAccount,
  max: number,
  count: () => number,
  left = readRemainingQuota(app.db, account, app.clock.now()),
): Promise<void> {
  if (max === 0 || max <= left) return
  const now = app.clock.now()
  const recipients = count()
  if (recipients === 0 || recipients <= left) return
  await app.commit.write((tx) => giveQuotaBack(tx, account.id, consumeQuota(tx, account, recipients, now), recipients))
}

/** The headers `RateLimit-*` of a response; none where no limit applies. */
export type RateHeaders = Readonly<Record<string, string>>

/** For the `detail` of routes whose responses have them. */
export const RATE_HEADERS = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'] as const

/** Counts one request; throws a 429 `rate_limited` if it exceeds the rate. */
export type TakeRate = (actor: Actor) => RateHeaders

/** The plan `unlimited` has no limit. */
export function createSendRateLimiter(app: Pick<App, 'clock' | 'config' | 'db'>): TakeRate {
  const limiter = createRateLimiter(app.clock)
  return (actor) => {
    const account = getSendingAccount(app.config, app.db, actor.accountId)
    if (account.plan === 'unlimited') return {}
    const { sendRatePerSecond: ratePerSecond, sendBurst: burst } = app.config
    const taken = limiter.take(String(actor.accountId), 1, { ratePerSecond, burst })
    if (!taken.ok)
      throw new AppError(
        429,
        'rate_limited',
        `More than ${ratePerSecond} send requests per second; wait, or send batches.`,
        {
          retryAfterSeconds: taken.retryAfterSeconds,
          headers: describeRate(burst, 0, taken.retryAfterSeconds),
        },
      )
    return describeRate(burst, taken.remaining, Math.ceil((burst - taken.remaining) / ratePerSecond))
  }
}

/** @param resetSeconds until more is allowed, at the latest */
const describeRate = (limit: number, remaining: number, resetSeconds: number): RateHeaders => ({
  'ratelimit-limit': String(limit),
  'ratelimit-remaining': String(remaining),
  'ratelimit-reset': String(resetSeconds),
})
