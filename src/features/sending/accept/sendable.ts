/**
 * @module Decides with the database whether a draft may be stored: account, domain, stream, suppressions, quota, disk.
 * Throws the refusals; stores nothing. The transaction that inserts decides again.
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
import { hasTracking } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import type { Placement } from '#features/sending/queue/insert.ts'
import { domainNotVerified, findSendingDomain } from '#features/setup/domains/sending.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import type { Config } from '#platform/config.ts'
import { insufficientStorage, invalid } from '#platform/errors.ts'
import type { Draft } from './draft.ts'

/**
 * What the database decides about a draft; throws the refusal: paused account, unknown or lapsed domain, unknown
 * stream.
 * @param options.isAccepted it belongs to what was accepted before, which is sent although its domain has lost its
 * records since then
 */
export function requireSendable(app: App, actor: Actor, draft: Draft, { isAccepted = false } = {}) {
  const account = getSendingAccount(app.config, app.db, actor.accountId)
  requireSendingAllowed(account)
  const domain = findSendingDomain(app.db, actor.accountId, draft.fromDomain)
  if (!domain) {
    throw invalid(
      'from',
      `The domain ${draft.fromDomain} is not registered on this account; add it with POST /v1/domains.`,
      'domain_not_found',
    )
  }
  const sandbox = !domain.isVerified && !domain.lapsed
  const isRejected = domain.lapsed !== undefined || (sandbox && app.config.sendingUnverified === 'reject')
  if (isRejected && !isAccepted) throw domainNotVerified('from', domain)
  const streamId = findStreamId(app.db, actor.accountId, draft.stream)
  if (streamId === undefined)
    throw invalid('stream', `There is no stream "${draft.stream}" on this account.`, 'stream_not_found')
  return { account, domainId: domain.id, sandbox, streamId, tracked: isTracked(app.config, account, draft) }
}

/** Only HTML can be tracked, and only on a plan that has tracking. */
const isTracked = (config: Config, account: SendingAccount, draft: Draft): boolean =>
  draft.html !== undefined && hasTracking(config, account.plan) && (draft.tracking ?? account.trackingDefault)

/** Why each recipient of a draft, in their order, may not be sent to; undefined for those who may. */
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

/** Recipients that may be sent to, which are those that the quota counts. */
export const countSendable = ({ suppressions }: Pick<Placement, 'suppressions'>): number =>
  suppressions.filter((reason) => reason === undefined).length

/** Throws 507 `insufficient_storage` when the disk is low: new mail is refused while accepted mail can still be finished. */
export async function requireDiskSpace(app: Pick<App, 'disk'>): Promise<void> {
  if (await app.disk.isLow()) throw insufficientStorage()
}

/**
 * Throws the 429 before anything is stored, so that what is refused cannot fill the disk. The transaction that inserts decides again; this one
 * runs only when there is something to refuse, and leaves the quota as it was.
 * @param most recipients that are counted at most; 0: none
 * @param count those that are counted, suppressed ones taken out; asked only when the most are too many
 * @param left recipients that the account can still send to
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
