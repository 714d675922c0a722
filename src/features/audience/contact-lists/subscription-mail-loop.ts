/**
 * @module Sends the mail that waits in the subscription mail outbox. Each row is deleted in the transaction that
 * accepts its email, so that each mail is sent exactly once wherever the process ends. Whether a mail should still be
 * sent is decided when it is sent, not when it was queued. Each account has a queue per kind, and all queues are
 * served round-robin: no account waits for another's contacts.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { audit, createSystemActor } from '#features/core/audit-logs/audit.ts'
import { readFence } from '#features/core/fence/restored.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { createRateLimiter, type Rate, type RateLimiter } from '#platform/http/rate-limit.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { isStorageFailure, toPublicReason } from '#platform/storage-errors.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { NoVerifiedSenderError, type OutboxMail, sendSubscriptionMail } from './send-subscription-mail.ts'
import { type SubscriptionMailKind, toMailKind, toMailKindCode } from './subscription-mails.ts'

interface QueueHead {
  readonly accountId: number
  readonly kind: number
  /** Due time of its first row. */
  readonly dueAt: Millis
}

const sql = prepareStatements((db) => ({
  // All of these look only at mail that does not wait as restored, which has lower row ids.
  first: db.prepare<{ dueAt: Millis }, [number]>(
    'SELECT due_at AS dueAt FROM contact_mails WHERE +id > ? ORDER BY due_at LIMIT 1',
  ),
  // Finds the next queue in the order of the index, by its first row: one lookup, whatever the length of the queue.
  nextQueue: db.prepare<QueueHead, [number, number, number]>(
    `SELECT account_id AS accountId, kind, due_at AS dueAt FROM contact_mails WHERE (account_id, kind) > (?, ?) AND +id > ?
     ORDER BY account_id, kind, due_at LIMIT 1`,
  ),
  due: db.prepare<Omit<OutboxMail, 'kind' | 'accountUuid'>, [number, number, number, number, number]>(
    `SELECT id, account_id AS accountId, contact_id AS contactId, from_address AS "from", language, attempts FROM contact_mails
     WHERE account_id = ? AND kind = ? AND due_at <= ? AND +id > ? ORDER BY due_at LIMIT ?`,
  ),
  account: db.prepare<{ uuid: UuidBytes }, [number]>('SELECT uuid FROM accounts WHERE id = ?'),
  contact: db.prepare<{ uuid: UuidBytes }, [number]>('SELECT uuid FROM contacts WHERE id = ?'),
  remove: db.prepare<{ id: number }, [number]>('DELETE FROM contact_mails WHERE id = ? RETURNING id'),
  removeOf: db.prepare(
    'DELETE FROM contact_mails WHERE id IN (SELECT id FROM contact_mails WHERE account_id = ? AND kind = ? LIMIT ?)',
  ),
  removeOverdue: db.prepare(
    `DELETE FROM contact_mails WHERE id IN (SELECT id FROM contact_mails WHERE account_id = ? AND kind = ? AND due_at < ? ORDER BY due_at LIMIT ?)`,
  ),
  // For rows written while the clock was ahead: a new row keeps its delay, counted from now; a postponed row is due
  // now.
  mendTimes: db.prepare(
    `UPDATE contact_mails SET due_at = CASE WHEN created_at > ?1 + ?2 THEN due_at - (created_at - ?1) ELSE ?1 END, created_at = min(created_at, ?1)
     WHERE created_at > ?1 + ?2 OR due_at > ?1 + CASE kind WHEN ?3 THEN ?4 ELSE ?5 END`,
  ),
  removeRestored: db.prepare('DELETE FROM contact_mails WHERE id <= ?'),
  countRestored: db.prepare<{ n: number }, [number]>('SELECT count(*) AS n FROM contact_mails WHERE id <= ?'),
  later: db.prepare('UPDATE contact_mails SET attempts = attempts + 1, due_at = ? WHERE id = ?'),
}))

/** Queues served at the same time, so that one slow template does not stop the others. */
const MAX_CONCURRENT_QUEUES = 8
/** Rows taken from a queue at a time. */
const BATCH_SIZE = 25
/** Welcomes of one queue that are rendered at the same time: each holds its bodies in memory. */
const MAX_CONCURRENT_RENDERS = 5

/** How long mail that cannot be sent is retried: an account may be paused over a weekend. */
const MAX_RETRY_AGE_MS = days(3)
const MAX_WAIT_MS = hours(6)
const RETRY_DELAYS = { minMs: minutes(1), maxMs: MAX_WAIT_MS }
/** Delays while an account cannot send. */
const HOLD_DELAYS = { minMs: minutes(1), maxMs: hours(1) }
/** The retry delays of 1, 2, 4, … minutes up to 6 hours add up to about three days. */
const MAX_ATTEMPTS = 20
/** The longest delay of a welcome. */
const MAX_DELAY_MS = days(30)
/** A stored creation time counts as wrong only if it is later than the clock by more than this. */
const CLOCK_TOLERANCE_MS = minutes(1)
const MEND_PARAMETERS = [CLOCK_TOLERANCE_MS, toMailKindCode('welcome'), MAX_DELAY_MS, MAX_WAIT_MS] as const
/** Delay while the disk is full, or the database fails. */
const STORAGE_WAIT_MS = seconds(30)
/** Maximum number of rows given up per transaction, when an account cannot send or was deleted. */
const GIVE_UP_BATCH_SIZE = 500

/** Rate of audit rows and warnings per account: a faulty template may fail for each of a million contacts. */
const FAILURE_LOG_RATE: Rate = { burst: 20, ratePerSecond: 20 / 3600 }

/** An account that cannot send is skipped until `until`; `times` counts its consecutive holds. */
interface Hold {
  readonly until: Millis
  readonly times: number
}

/** The last row that waits as restored; 0 if none does. */
const readLastRestoredId = (db: Database): number => readFence(db)?.lastIds['contact_mails'] ?? 0

/** Deletes the mail that waits as restored, because the operator dropped it; returns how many. */
export const dropRestoredMails = (tx: Tx): number => sql(tx.db).removeRestored.run(readLastRestoredId(tx.db)).changes

/** How many mails wait as restored. */
export const countRestoredMails = (db: Database): number => sql(db).countRestored.get(readLastRestoredId(db))?.n ?? 0

/** Sends from its construction until `stop`; `app.contactMailDue` wakes it. */
export class SubscriptionMailLoop implements DueLoop {
  readonly #app: App
  readonly #holds = new Map<number, Hold>()
  /** When an account's next bulk confirmations may be sent. */
  readonly #bulkResumeTimes = new Map<number, Millis>()
  readonly #activeQueues = new Map<string, Promise<void>>()
  readonly #failureLogLimiter: RateLimiter
  /** Where the last round stopped. */
  #lastQueue: { readonly accountId: number; readonly kind: number } = { accountId: 0, kind: -1 }
  #storageUntil: Millis = 0
  /** True at the start and after the clock was set back: stored due times may come from a clock that was ahead. */
  #areTimesSuspect = true
  readonly #loop: DueLoop
  readonly #stopListening: () => void

  constructor(app: App) {
    this.#app = app
    this.#failureLogLimiter = createRateLimiter(app.clock)
    this.#loop = startDueLoop({
      name: 'emails to contacts',
      clock: app.clock,
      log: app.log,
      wokenBy: [app.contactMailDue],
      step: (ending) => this.#step(ending),
    })
    this.#stopListening = app.clockSetBack.listen(() => this.#resetTimes())
  }

  #resetTimes(): void {
    // These times were computed with the clock that was ahead.
    this.#holds.clear()
    this.#bulkResumeTimes.clear()
    this.#storageUntil = 0
    this.#areTimesSuspect = true
    this.#loop.wake()
  }

  #hold(accountId: number, now: Millis): void {
    const known = this.#holds.get(accountId)
    if (known && known.until > now) return
    const times = (known?.times ?? 0) + 1
    this.#holds.set(accountId, { until: now + backoffDelayMs(times, HOLD_DELAYS), times })
  }

  #availableAt({ accountId, kind, dueAt }: QueueHead): Millis {
    return Math.max(
      dueAt,
      this.#storageUntil,
      this.#holds.get(accountId)?.until ?? 0,
      toMailKind(kind) === 'bulk_confirmation' ? (this.#bulkResumeTimes.get(accountId) ?? 0) : 0,
    )
  }

  /** Starts the queues that are due, at most MAX_CONCURRENT_QUEUES at a time. Resolves with the next due time. */
  async #step(ending: AbortSignal): Promise<Millis | undefined> {
    const now = this.#app.clock.now()
    if (this.#areTimesSuspect) {
      await this.#app.commit.writeFromReserve((tx) => void sql(tx.db).mendTimes.run(now, ...MEND_PARAMETERS))
      this.#areTimesSuspect = false
    }
    const restoredId = readLastRestoredId(this.#app.db)
    const first = sql(this.#app.db).first.get(restoredId)
    if (!first || first.dueAt > now) return first?.dueAt
    if (this.#storageUntil > now) return this.#storageUntil
    let next = Number.POSITIVE_INFINITY
    const begin = this.#lastQueue
    let hasWrapped = false
    while (this.#activeQueues.size < MAX_CONCURRENT_QUEUES && !ending.aborted) {
      const head = sql(this.#app.db).nextQueue.get(this.#lastQueue.accountId, this.#lastQueue.kind, restoredId)
      if (!head) {
        if (hasWrapped) break
        hasWrapped = true
        this.#lastQueue = { accountId: 0, kind: -1 }
        continue
      }
      // The queue where the round began comes last.
      if (hasWrapped && isAfter(head, begin)) break
      this.#lastQueue = head
      const key = `${head.accountId}:${head.kind}`
      const at = this.#availableAt(head)
      if (this.#activeQueues.has(key)) continue
      if (at > now) next = Math.min(next, at)
      else
        this.#activeQueues.set(
          key,
          this.#sendQueue(head, ending).finally(() => this.#onQueueEnded(key)),
        )
    }
    // If no queue waits for a time, the end of a running queue wakes the loop.
    return Number.isFinite(next) ? next : undefined
  }

  #onQueueEnded(key: string): void {
    this.#activeQueues.delete(key)
    this.#loop.wake()
  }

  /** Sends the first mails of a queue. Never rejects. */
  async #sendQueue({ accountId, kind: code }: QueueHead, ending: AbortSignal): Promise<void> {
    const kind = toMailKind(code)
    const isBulk = kind === 'bulk_confirmation'
    const now = this.#app.clock.now()
    try {
      const accountUuid = sql(this.#app.db).account.get(accountId)?.uuid
      if (!accountUuid) {
        // The next step removes the remaining rows.
        await this.#app.commit.writeFromReserve(
          (tx) => void sql(tx.db).removeOf.run(accountId, code, GIVE_UP_BATCH_SIZE),
        )
        return
      }
      const pace = toBulkPace(this.#app)
      const rows = sql(this.#app.db).due.all(
        accountId,
        code,
        now,
        readLastRestoredId(this.#app.db),
        isBulk ? pace.count : BATCH_SIZE,
      )
      if (isBulk) this.#bulkResumeTimes.set(accountId, now + rows.length * pace.intervalMs)
      const atOnce = kind === 'welcome' ? MAX_CONCURRENT_RENDERS : BATCH_SIZE
      const canContinue = () =>
        !ending.aborted && this.#storageUntil <= now && (this.#holds.get(accountId)?.until ?? 0) <= now
      for (let done = 0; done < rows.length && canContinue(); done += atOnce) {
        const batch = rows.slice(done, done + atOnce).map((row) => ({ ...row, accountUuid, kind }))
        await Promise.all(batch.map((mail) => this.#trySend(mail, now)))
      }
    } catch (error) {
      this.#onQueueFailed(error, accountId, now)
    }
  }

  /** Sends one mail and handles its failure. Never rejects. */
  async #trySend(mail: OutboxMail, now: Millis): Promise<void> {
    try {
      await sendSubscriptionMail(this.#app, mail)
      this.#holds.delete(mail.accountId)
    } catch (error) {
      await this.#onSendFailed(mail, error, now).catch((secondError: unknown) =>
        this.#onQueueFailed(secondError, mail.accountId, now),
      )
    }
  }

  async #onSendFailed(mail: OutboxMail, error: unknown, now: Millis): Promise<void> {
    if (isStorageFailure(error)) throw error
    if (!isAccountError(error)) return this.#retryOrGiveUp(mail, error, now)
    this.#hold(mail.accountId, now)
    await giveUpOverdue(this.#app, mail, error, now)
  }

  /** Storage failed, or there is a bug: the rows stay. */
  #onQueueFailed(error: unknown, accountId: number, now: Millis): void {
    if (isStorageFailure(error)) this.#storageUntil = now + STORAGE_WAIT_MS
    else this.#hold(accountId, now)
    this.#app.log.error({ err: error, accountId }, 'subscription mails not sent; retrying')
  }

  async #retryOrGiveUp(mail: OutboxMail, error: unknown, now: Millis): Promise<void> {
    const isFinal = error instanceof AppError && isWelcomeError(mail.kind, error)
    if (!isFinal && mail.attempts + 1 < MAX_ATTEMPTS) {
      // An error that the client can fix is not a bug of ours.
      if (!(error instanceof AppError))
        this.#app.log.error({ err: error, mail: mail.id }, 'subscription mail failed; retrying')
      const dueAt = now + backoffDelayMs(mail.attempts + 1, RETRY_DELAYS)
      await this.#app.commit.writeFromReserve((tx) => void sql(tx.db).later.run(dueAt, mail.id))
      return
    }
    const message = toPublicReason(error)
    const isLogged = this.#failureLogLimiter.take(String(mail.accountId), 1, FAILURE_LOG_RATE).ok
    if (isLogged)
      this.#app.log.warn({ contact: mail.contactId, kind: mail.kind, reason: message }, 'subscription mail given up')
    await this.#app.commit.writeFromReserve((tx) => {
      if (!sql(tx.db).remove.get(mail.id) || !isLogged) return
      const contact = sql(tx.db).contact.get(mail.contactId)
      audit(this.#app, tx, createSystemActor(mail), {
        action: mail.kind === 'welcome' ? 'contact.welcome_failed' : 'contact.confirmation_failed',
        resourceType: 'contact',
        ...(contact && { resourceId: formatUuid(contact.uuid) }),
        metadata: { reason: message },
      })
    })
  }

  wake(): void {
    this.#loop.wake()
  }

  async stop(): Promise<void> {
    this.#stopListening()
    await this.#loop.stop()
    await Promise.all(this.#activeQueues.values())
  }
}

const isAfter = (head: QueueHead, { accountId, kind }: Pick<QueueHead, 'accountId' | 'kind'>): boolean =>
  head.accountId > accountId || (head.accountId === accountId && head.kind > kind)

/** How many bulk confirmations an account sends at a time, and the interval per confirmation. */
function toBulkPace({ config }: Pick<App, 'config'>): { readonly count: number; readonly intervalMs: number } {
  const perMinute = config.confirmationsPerMinute
  return { count: Math.max(1, Math.min(BATCH_SIZE, Math.floor(perMinute / 60))), intervalMs: minutes(1) / perMinute }
}

/** Whether the account as a whole cannot send, so that its other mail need not be tried. */
const isAccountError = (error: unknown): error is Error =>
  error instanceof NoVerifiedSenderError ||
  (error instanceof AppError && (error.code === 'account_paused' || error.code === 'quota_exceeded'))

/** Whether the welcome itself is invalid, so that a retry would fail the same way. */
const isWelcomeError = (kind: SubscriptionMailKind, error: AppError): boolean =>
  kind === 'welcome' && error.status === 422 && !['domain_not_found', 'domain_not_verified'].includes(error.code)

/** Deletes mail that has waited too long for its account, one batch at a time, with one audit row for all of it. */
function giveUpOverdue(app: App, mail: OutboxMail, error: Error, now: Millis): Promise<void> {
  const before = now - MAX_RETRY_AGE_MS
  return app.commit.writeFromReserve((tx) => {
    const { accountId } = mail
    const count = sql(tx.db).removeOverdue.run(accountId, toMailKindCode(mail.kind), before, GIVE_UP_BATCH_SIZE).changes
    if (count === 0) return
    app.log.warn({ accountId, kind: mail.kind, count, reason: error.message }, 'subscription mails given up')
    audit(app, tx, createSystemActor(mail), {
      action: mail.kind === 'welcome' ? 'contact.welcome_failed' : 'contact.confirmation_failed',
      resourceType: 'contact',
      metadata: { count, reason: error.message },
    })
  })
}
