/**
 * @module Runs one task of a webhook from its payload to its stored outcome: builds the body, makes the attempt, and
 * writes the outcome, repeatedly while the database refuses writes. Knows neither order nor limits; the dispatcher
 * decides when a task begins.
 */

import { SQLiteError } from 'bun:sqlite'
import { findAccountLogId } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { deriveEventUuid } from '#features/core/events/record.ts'
import { findEventLogFields } from '#features/sending/queue/email.ts'
import { isTransientError } from '#platform/disk/storage-errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { retry, STORAGE_RETRY_MS, StorageRetries, type WriteFailure } from '#platform/queue/retry.ts'
import { seconds } from '#platform/units.ts'
import { TEST_EVENT } from '../event-names.ts'
import type { Webhook } from '../manage/webhooks.ts'
import { readPostedBody, toMessageId } from '../payload/payload.ts'
import { type AttemptResult, classifyResponse, makeAttempt } from './attempt.ts'
import { OwnFailureDetector, type Streak } from './failures.ts'
import { endDelivery, writeAttempt } from './outcome.ts'
import type { Slot } from './slots.ts'
import type { DueDelivery, Task, WebhookQueue } from './webhook-queue.ts'

/** An endpoint that takes longer than this has few concurrent attempts; one that failed has one. */
const SLOW_MS = seconds(1)
/** Reads of an event before the attempt fails, and writes of an outcome that alone is rejected. */
const MAX_ATTEMPTS = 5
const UNREADABLE = 'unreadable'
/** For a reason that passes: of the storage, not of the event. */
const UNREAD = 'unread'
type NoBody = typeof UNREADABLE | typeof UNREAD

/** `written`: the stored outcome with its cursor; missing when the task ended without an attempt. */
export interface TaskResult {
  readonly written?: { readonly isDeactivated: boolean; readonly cursor: number }
}

/** The attempt failed because of us: nothing is stored, and it is repeated after the webhook's backoff. */
export const PUT_BACK = 'put-back'

/** The state that all tasks of one service run share. */
export class TaskRunner {
  readonly #app: App
  readonly #aborting = new AbortController()
  #isStopping = false
  readonly #retries: StorageRetries
  readonly #ownFailures: OwnFailureDetector

  /** @param onStorageRecovered called when the last refused outcome is stored */
  constructor(app: App, onStorageRecovered: () => void) {
    this.#app = app
    this.#retries = new StorageRetries(app.clock, onStorageRecovered)
    this.#ownFailures = new OwnFailureDetector(app)
  }

  /** True while the database refuses outcomes; then nothing more may begin. */
  get isStorageFailing(): boolean {
    return this.#retries.refusedCount > 0
  }

  stop(): void {
    this.#isStopping = true
  }

  /** Aborts the attempts in flight; nothing is stored for them. */
  abort(): void {
    this.#aborting.abort()
  }

  /** Runs a task to its stored outcome; undefined: nothing was stored, and the next start repeats it. */
  async run(queue: WebhookQueue, task: Task, slot: Slot): Promise<TaskResult | typeof PUT_BACK | undefined> {
    const stored = task.kind === 'stored' ? task : undefined
    if (stored && stored.event !== TEST_EVENT && !queue.webhook.events.includes(stored.event))
      return await this.#endStored(queue.webhook, stored, `The webhook no longer subscribes to ${stored.event}.`)
    const webhook = queue.webhook
    const body = await this.#readBody(queue, task, slot)
    if (body === UNREADABLE) return await this.#storeUnreadable(queue, webhook, task)
    // Counted as the attempt before it, so that trouble of our own uses up none.
    if (body === UNREAD)
      return await this.#storeUnreadable(queue, webhook, {
        ...task,
        ...(stored && stored.attempts > 1 && { attempts: stored.attempts - 1 }),
      })
    // The subject of the event was deleted, for example erased. If the event has no delivery yet, it is skipped.
    if (body === undefined) return stored ? await this.#endStored(webhook, stored, 'The event was deleted.') : {}
    const isTest = stored?.event === TEST_EVENT
    const { streak } = queue
    const attemptNumber = isTest ? undefined : streak.begin(this.#app.clock.monotonicMs())
    const result = await makeAttempt(this.#app, {
      url: webhook.url,
      format: webhook.format,
      secrets: queue.secrets,
      id: this.#messageIdOf(webhook, task),
      event: task.event,
      body: body.text,
      attempt: (stored?.attempts ?? 0) + 1,
      signal: this.#aborting.signal,
    })
    // Aborted by the shutdown: the result is unknown, so nothing is stored.
    if (result.kind === 'transient' && this.#aborting.signal.aborted) return undefined
    this.#app.metrics.webhookAttempted(result.kind, result.durationMs)
    if (isTest && result.kind === 'delivered') streak.resume()
    const isFailure = attemptNumber !== undefined && this.#recordResult(queue, streak, attemptNumber, result)
    if (result.kind !== 'delivered') this.#logFailure(webhook, task, result)
    if (isFailure === PUT_BACK) return PUT_BACK
    // A failure keeps its slot until it is counted, so that no attempt begins after the one that deactivates the
    // webhook.
    if (result.kind === 'delivered') slot.release()
    return await this.#storeResult(queue, webhook, task, result, isFailure)
  }

  #storeResult(
    queue: WebhookQueue,
    webhook: Webhook,
    task: Task,
    result: AttemptResult,
    isFailure: boolean,
  ): Promise<TaskResult | undefined> {
    return this.#store(() =>
      this.#app.commit.writeFromReserve((tx): TaskResult => {
        const { cursor } = queue
        const isDeactivated = writeAttempt(this.#app, tx, webhook, task, result, isFailure, cursor)
        return { written: { isDeactivated, cursor } }
      }),
    )
  }

  /** Updates streak, backoff and latency class of the webhook. Returns whether the attempt counts as a failure. */
  #recordResult(
    queue: WebhookQueue,
    streak: Streak,
    attemptNumber: number,
    result: AttemptResult,
  ): boolean | typeof PUT_BACK {
    const { clock } = this.#app
    if (result.cause === null) this.#ownFailures.recordResponse()
    if (result.kind === 'delivered') {
      streak.succeed(attemptNumber)
      queue.lastSuccessAt = result.at
      queue.latencyClass = result.durationMs <= SLOW_MS ? 'fast' : 'slow'
      return false
    }
    if (streak.isRefuted(attemptNumber)) return false
    queue.latencyClass = 'unproven'
    const { cause, error } = result
    const isOwnFailure =
      cause !== null &&
      this.#ownFailures.isOwnFailure(queue.webhook.url, { cause, reason: error ?? '' }, queue.lastSuccessAt)
    if (!isOwnFailure) return streak.fail(attemptNumber, result, clock.monotonicMs())
    streak.excuse(clock.monotonicMs())
    return PUT_BACK
  }

  /** Stores an attempt that failed because of us: it is repeated like others, and does not count against the webhook. */
  async #storeUnreadable(queue: WebhookQueue, webhook: Webhook, task: Task): Promise<TaskResult | undefined> {
    if (this.#isStopping) return undefined
    const at = this.#app.clock.now()
    const outcome = { kind: 'failed', reason: 'The event could not be read.', cause: 'own', durationMs: 0 } as const
    const result = { at, durationMs: 0, ...classifyResponse(outcome, webhook.format, at) }
    return await this.#storeResult(queue, webhook, task, result, false)
  }

  /** Ends a stored delivery without an attempt; undefined when the service is stopping. */
  async #endStored(webhook: Webhook, delivery: DueDelivery, reason: string): Promise<TaskResult | undefined> {
    return await this.#store(() =>
      this.#app.commit.writeFromReserve((tx): TaskResult => {
        endDelivery(this.#app, tx, webhook, delivery, reason)
        return {}
      }),
    )
  }

  /** Reads the body, repeatedly for a while when that fails, and counts its length immediately. */
  async #readBody(
    queue: WebhookQueue,
    task: Task,
    slot: Slot,
  ): Promise<{ readonly text: string } | NoBody | undefined> {
    const read = () => {
      const text = readPostedBody(this.#app, queue.webhook, task)
      slot.holdBody(text?.length ?? 0)
      return text === undefined ? undefined : { text }
    }
    const isRetried = (error: unknown, failures: number): boolean => {
      this.#app.log.error({ err: error, ...this.#logFields(queue.webhook, task) }, 'event not read for a webhook')
      return failures < MAX_ATTEMPTS && !this.#isStopping
    }
    try {
      return await retry(read, { clock: this.#app.clock, delayMs: STORAGE_RETRY_MS, isRetried })
    } catch (error) {
      return isTransientError(error) ? UNREAD : UNREADABLE
    }
  }

  #messageIdOf({ accountId }: Webhook, task: Task): string {
    const { keys } = this.#app
    return task.kind === 'stored' ? toMessageId(keys, accountId, task) : deriveEventUuid(keys, accountId, task.seq)
  }

  /**
   * Writes an outcome, repeatedly while the database refuses. An error of this outcome alone delays nothing else, and
   * the write is abandoned after MAX_ATTEMPTS. Undefined when it was abandoned or when the service is stopping; the
   * next start repeats the attempt.
   */
  #store<T>(write: () => Promise<T>): Promise<T | undefined> {
    return this.#retries.store(write, (error, failures): WriteFailure => {
      const isOwn = isDataError(error)
      const isLast = this.#isStopping || (isOwn && failures >= MAX_ATTEMPTS)
      const nextStep = isLast ? 'the next start repeats it' : 'retrying'
      this.#app.log.error({ err: error }, `webhook outcome not stored; ${nextStep}`)
      if (isLast) return 'given-up'
      return isOwn ? 'own' : 'storage'
    })
  }

  #logFailure(webhook: Webhook, task: Task, { kind, error, statusCode, durationMs }: AttemptResult): void {
    const attempts = task.kind === 'event' ? 1 : task.attempts + 1
    this.#app.log.info(
      { ...this.#logFields(webhook, task), attempt: attempts, kind, error, statusCode, durationMs },
      'webhook attempt failed',
    )
  }

  #logFields(webhook: Webhook, task: Task) {
    const { event, seq } = task
    const { db } = this.#app
    return {
      webhook: formatUuid(webhook.uuid),
      account: findAccountLogId(db, webhook.accountId),
      ...findEventLogFields(db, seq),
      event,
      seq,
    }
  }
}

/** Whether the written data is at fault and not the database: another outcome would succeed. */
const isDataError = (error: unknown): boolean =>
  error instanceof SyntaxError ||
  error instanceof TypeError ||
  error instanceof RangeError ||
  (error instanceof SQLiteError && (error.code ?? '').startsWith('SQLITE_CONSTRAINT'))
