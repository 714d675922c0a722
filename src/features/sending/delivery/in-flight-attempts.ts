/**
 * @module The claimed recipients in hand and the last two commits of their attempts: begin and outcome. Never claims, and never decides what the
 * outcome is, except for what is still in hand when the service ends.
 */
import type { App } from '#features/core/app/app.ts'
import { beginDelivery } from '#features/sending/queue/attempt-transitions.ts'
import { findLogId } from '#features/sending/queue/names.ts'
import { NotProcessingError } from '#features/sending/queue/settle.ts'
import type { Millis } from '#platform/clock.ts'
import { StorageRetries, type WriteFailure } from '#platform/queue/retry.ts'
import { minutes, seconds } from '#platform/units.ts'
import { isSuppressed } from './claim.ts'
import { type AttemptState, type Verdict, writeOutcome } from './outcome.ts'
import type { AttemptSession } from './protocol.ts'
import type { Destination } from './sites.ts'

export interface InFlightAttempt extends AttemptState {
  readonly lane: string
  readonly destination: Destination
  readonly worker: number
  /** Not before it has memory, and is rendered. */
  sentToWorkerAt: Millis | undefined
  /** How long it may take from the beginning of its message while its slot or memory is wanted. */
  maxWantedBodyMs: Millis
  /** Resolves when its outcome is stored or given up; from then on nothing else is written of it. */
  settling: Promise<void> | undefined
  /** It was suppressed before its message began: released, it is due at once, and the next claim rejects it. */
  isSuppressed?: true
}

export interface InFlightAttemptsOptions {
  readonly app: App
  /** From then on nothing is begun, and what is released is due at once. */
  readonly stopping: AbortSignal
  /** Whether the message may leave. */
  readonly onBegun: (attempt: InFlightAttempt, ok: boolean) => void
  /** The attempt is over; its outcome is not stored yet. */
  readonly onAttemptEnded: (attempt: InFlightAttempt) => void
  /** The outcome is stored, and the recipient is due again. */
  readonly onDue: (lane: string, at: Millis) => void
}

const STORAGE_RELEASE_DELAY_MS = seconds(10)
/** How long begun transactions may go on after the service was told to stop. */
const STOP_GRACE_MS = minutes(1)

export class InFlightAttempts {
  readonly #options: InFlightAttemptsOptions
  readonly #app: App
  readonly #attempts = new Map<number, InFlightAttempt>()
  readonly #retries: StorageRetries
  /** The grace of stopping is over: an outcome that is refused once more is left to the recovery of the next start. */
  #hasGivenUp = false
  #onSettled: () => void = () => undefined

  constructor(options: InFlightAttemptsOptions) {
    this.#options = options
    this.#app = options.app
    this.#retries = new StorageRetries(options.app.clock)
  }

  /** Outcomes that the database has refused so far: while there are any, nothing more is claimed. */
  get unstored(): number {
    return this.#retries.refusedCount
  }

  add(attempt: InFlightAttempt): void {
    this.#attempts.set(attempt.recipientId, attempt)
  }

  /** For a log line. */
  #logFields({ emailId, recipientId }: InFlightAttempt): { email: string | null; recipient: number } {
    return { email: findLogId(this.#app.db, emailId), recipient: recipientId }
  }

  /** A recipient whose outcome is not known yet. */
  findUnsettled(recipientId: number): InFlightAttempt | undefined {
    const attempt = this.#attempts.get(recipientId)
    return attempt?.settling ? undefined : attempt
  }

  /** All whose outcome is not stored yet. */
  all(): InFlightAttempt[] {
    return [...this.#attempts.values()]
  }

  /**
   * The 354 is here: the message may leave once the start is on disk. Not to whom was suppressed while it waited for a connection or for the server.
   */
  async begin(attempt: InFlightAttempt): Promise<void> {
    const { onBegun, stopping } = this.#options
    if (stopping.aborted) return onBegun(attempt, false)
    const startedAt = this.#app.eventTime()
    attempt.startedAt = startedAt
    try {
      const begun = await this.#app.commit.writeFromReserve((tx) => {
        if (!isSuppressed(tx.db, attempt.recipientId)) return beginDelivery(tx, attempt.recipientId, startedAt)
        attempt.isSuppressed = true
        return false
      })
      if (!begun) attempt.startedAt = undefined
      onBegun(attempt, begun)
    } catch (error) {
      attempt.startedAt = undefined
      this.#app.log.error(
        { err: error, ...this.#logFields(attempt) },
        'the start of a delivery could not be stored; nothing was sent',
      )
      onBegun(attempt, false)
    }
  }

  /** Ends an attempt: its place is free from now on. Resolves when its outcome is stored or given up. */
  settle(attempt: InFlightAttempt, verdict: Verdict, session: AttemptSession | undefined): Promise<void> {
    this.#options.onAttemptEnded(attempt)
    attempt.settling = this.#store(attempt, verdict, session)
    return attempt.settling
  }

  /** Writes the verdict, again and again while the database refuses: an outcome is never dropped. */
  async #store(attempt: InFlightAttempt, verdict: Verdict, session: AttemptSession | undefined): Promise<void> {
    const { onDue, stopping } = this.#options
    const write = async (): Promise<true> => {
      const isDelayed = verdict.kind === 'released' && !stopping.aborted && !attempt.isSuppressed
      const releaseAt = this.#app.clock.now() + (isDelayed ? STORAGE_RELEASE_DELAY_MS : 0)
      const nextAt = await this.#app.commit.writeFromReserve((tx) =>
        writeOutcome(this.#app, tx, attempt, verdict, session, releaseAt),
      )
      this.#attempts.delete(attempt.recipientId)
      if (nextAt !== undefined) onDue(attempt.lane, nextAt)
      return true
    }
    const isStored = await this.#retries.store(write, (error) => this.#classifyFailure(attempt, error))
    if (!isStored) this.#attempts.delete(attempt.recipientId)
    this.#onSettled()
  }

  #classifyFailure(attempt: InFlightAttempt, error: unknown): WriteFailure {
    const isUnknown = error instanceof NotProcessingError
    const message = isUnknown
      ? 'an outcome came for a recipient that is not in delivery'
      : 'an outcome could not be stored; it is tried again'
    this.#app.log.error({ err: error, ...this.#logFields(attempt) }, message)
    return isUnknown || this.#hasGivenUp ? 'given-up' : 'storage'
  }

  /** Resolves when no begun transaction is in hand, or the grace of stopping, 60 s, is over. */
  waitForBegun(): Promise<void> {
    return new Promise((resolve) => {
      const check = () => {
        if (this.all().some((attempt) => attempt.startedAt !== undefined)) return
        timer.cancel()
        resolve()
      }
      const timer = this.#app.clock.after(STOP_GRACE_MS, resolve)
      this.#onSettled = check
      check()
    })
  }

  /** Settles whatever is still in hand when the service ends. What the database refuses once more is left to the next start. */
  async settleStopped(): Promise<void> {
    this.#hasGivenUp = true
    await Promise.all(
      this.all().map((attempt) => attempt.settling ?? this.settle(attempt, toShutdownVerdict(attempt), undefined)),
    )
  }
}

/** What becomes of a message that is still in hand when the service ends. */
const toShutdownVerdict = (attempt: InFlightAttempt): Verdict =>
  attempt.startedAt === undefined
    ? { kind: 'released' }
    : {
        kind: 'uncertain',
        reason: 'The service was stopped while the message was being sent, so the receiver may have it',
      }
