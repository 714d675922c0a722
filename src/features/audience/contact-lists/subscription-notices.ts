/**
 * @module How notices to contacts become mail, and what becomes of those whose mail fails. Mail that an account cannot
 * send waits until it can, for three days at most. What is wrong with one mail is tried again for as long, or given up
 * with an audit entry.
 */
import { findAccountUuid } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { audit, createSystemActor } from '#features/core/audit-logs/audit.ts'
import { deleteNotice, deleteOverdueNotices, type NoticeKind, postponeNotice } from '#features/core/notices/notices.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isStorageFailure, toPublicReason } from '#platform/disk/storage-errors.ts'
import { AppError } from '#platform/errors.ts'
import { createRateLimiter, type Rate, type RateLimiter } from '#platform/http/rate-limit.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { type SubscriptionMail, sendSubscriptionMail } from './send-subscription-mail.ts'
import { SUBSCRIPTION_MAIL_KINDS, type SubscriptionMailKind } from './subscription-mails.ts'

const sql = prepareStatements((db) => ({
  contact: db.prepare<{ uuid: UuidBytes }, [number]>('SELECT uuid FROM contacts WHERE id = ?'),
}))

const BATCH_SIZE = 25
/** Bulk confirmations of an account leave at this pace. */
const BULK_PER_MINUTE = 600
const BULK_BATCH_SIZE = BULK_PER_MINUTE / 60
/** Welcomes that are rendered at the same time: each holds its bodies in memory. */
const MAX_CONCURRENT_RENDERS = 5
/** How long mail waits for its account: it may be paused over a weekend. */
const MAX_WAIT_MS = days(3)
const RETRY_DELAYS = { minMs: minutes(1), maxMs: hours(6) }
/** The retry delays of 1, 2, 4, … minutes up to 6 hours add up to about three days. */
const MAX_ATTEMPTS = 20
/** Maximum number of notices given up per transaction when an account cannot send. */
const GIVE_UP_BATCH_SIZE = 500
/** Rate of audit rows and warnings per account: a faulty template may fail for each of a million contacts. */
const FAILURE_LOG_RATE: Rate = { burst: 20, ratePerSecond: 20 / 3600 }

/** The kinds that `core/notices/notices.ts` sends. */
export function createSubscriptionKinds(app: App): readonly NoticeKind[] {
  const failureLogLimiter = createRateLimiter(app.clock)
  const batchSizes: Readonly<Record<SubscriptionMailKind, number>> = {
    confirmation: BATCH_SIZE,
    welcome: MAX_CONCURRENT_RENDERS,
    bulk_confirmation: BULK_BATCH_SIZE,
  }
  return SUBSCRIPTION_MAIL_KINDS.map((kind) => ({
    kind,
    batchSize: batchSizes[kind],
    async send(notices) {
      const now = app.clock.now()
      const accountId = notices[0]?.accountId ?? 0
      // Without an account there are no contacts either, so nothing is sent.
      const accountUuid = findAccountUuid(app.db, accountId) ?? new Uint8Array(16)
      const mails = notices.map((notice) => ({ ...notice, kind, accountUuid }))
      const errors = await Promise.all(mails.map((mail) => trySend(app, mail, failureLogLimiter)))
      const failure = errors.find((error) => error !== undefined && !isAccountError(error))
      if (failure !== undefined) throw failure
      const error = errors.find(isAccountError)
      if (mails[0] && error) {
        await giveUpOverdue(app, mails[0], error)
        return 'held'
      }
      return kind === 'bulk_confirmation' ? now + (notices.length * minutes(1)) / BULK_PER_MINUTE : undefined
    },
  }))
}

/** Resolves with the error of an account that cannot send, of a failing storage or of a bug; the notice then stays. */
async function trySend(app: App, mail: SubscriptionMail, failureLogLimiter: RateLimiter): Promise<unknown> {
  try {
    await sendSubscriptionMail(app, mail)
  } catch (error) {
    if (isStorageFailure(error) || isAccountError(error)) return error
    return retryOrGiveUp(app, mail, error, failureLogLimiter).then(
      () => undefined,
      (failure: unknown) => failure,
    )
  }
  return undefined
}

/** Whether the account as a whole cannot send, so that its other mail need not be tried. */
const isAccountError = (error: unknown): error is AppError =>
  error instanceof AppError && ['account_paused', 'quota_exceeded', 'no_verified_domain'].includes(error.code)

/** Whether the welcome itself is invalid, so that a retry would fail the same way. */
const isWelcomeError = (kind: SubscriptionMailKind, error: unknown): boolean =>
  kind === 'welcome' &&
  error instanceof AppError &&
  error.status === 422 &&
  !['domain_not_found', 'domain_not_verified'].includes(error.code)

async function retryOrGiveUp(
  app: App,
  mail: SubscriptionMail,
  error: unknown,
  failureLogLimiter: RateLimiter,
): Promise<void> {
  if (!isWelcomeError(mail.kind, error) && mail.attempts + 1 < MAX_ATTEMPTS) {
    // An error that the client can fix is not a bug of ours.
    if (!(error instanceof AppError)) app.log.error({ err: error, mail: mail.id }, 'subscription mail failed; retrying')
    const dueAt = app.clock.now() + backoffDelayMs(mail.attempts + 1, RETRY_DELAYS)
    return app.commit.writeFromReserve((tx) => postponeNotice(tx, mail, dueAt))
  }
  const reason = toPublicReason(error)
  const isLogged = failureLogLimiter.take(String(mail.accountId), 1, FAILURE_LOG_RATE).ok
  if (isLogged) app.log.warn({ contact: mail.topic, kind: mail.kind, reason }, 'subscription mail given up')
  return app.commit.writeFromReserve((tx) => {
    if (!deleteNotice(tx, mail) || !isLogged) return
    const contact = sql(tx.db).contact.get(mail.topic)
    auditFailure(app, tx, mail, { reason }, contact && formatUuid(contact.uuid))
  })
}

/** Deletes mail that has waited too long for its account, one batch at a time, with one audit row for all of it. */
const giveUpOverdue = (app: App, mail: SubscriptionMail, { message: reason }: AppError): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const count = deleteOverdueNotices(tx, mail, app.clock.now() - MAX_WAIT_MS, GIVE_UP_BATCH_SIZE)
    if (count === 0) return
    app.log.warn({ accountId: mail.accountId, kind: mail.kind, count, reason }, 'subscription mails given up')
    auditFailure(app, tx, mail, { count, reason })
  })

const auditFailure = (
  app: App,
  tx: Tx,
  mail: SubscriptionMail,
  metadata: Readonly<Record<string, unknown>>,
  resourceId?: string | null,
): void =>
  audit(app, tx, createSystemActor(mail), {
    action: mail.kind === 'welcome' ? 'contact.welcome_failed' : 'contact.confirmation_failed',
    resourceType: 'contact',
    ...(resourceId && { resourceId }),
    metadata,
  })
