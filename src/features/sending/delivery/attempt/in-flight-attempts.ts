/** @module Tracks in-flight attempts and makes their last two commits: begin and outcome. Never claims. */
import type { App } from '#features/core/app/app.ts'
import { beginDelivery } from '#features/sending/queue/attempt-transitions.ts'
import { findAttemptLogFields } from '#features/sending/queue/email.ts'
import { NotProcessingError } from '#features/sending/queue/settle.ts'
import { collectPerTick } from '#platform/queue/collect-per-tick.ts'
import { StorageRetries, type WriteFailure } from '#platform/queue/retry.ts'
import { type Millis, minutes, seconds } from '#platform/units.ts'
import { type AttemptSession, type AttemptTraceData, isRecipientCategory } from '../protocol.ts'
import { type CountedOutcome, countOutcome } from '../providers/daily-outcomes.ts'
import type { Destination } from '../sites/sites.ts'
import { type AttemptState, type Verdict, writeOutcome } from '../verdict/outcome.ts'
import { type ClaimedMail, isUnwanted } from './claim.ts'
import type { TotalLimits } from './worker-pool.ts'

/**
 * How long an attempt may take while others wait for its slot or memory: the first limit applies until the message
 * begins, the second from then on. RFC 5321 §4.5.3.2 allows a server about 20 minutes before the message begins, and 10
 * minutes for its reply to the final dot. An attempt that ends before the message begins is deferred and retried; one
 * that ends later is `uncertain`, so the second limit is longer, although no healthy server needs that long.
 */
export const MAX_WANTED_ENVELOPE_MS = minutes(1)
const MAX_WANTED_BODY_MS = minutes(2)
/** Additional time for the octets of a message over a slow line: 64 kB a second. */
const MIN_BYTES_PER_MS = 64

/** How long a message of this size may take from its start while others wait for its slot or memory. */
export const computeMaxWantedBodyMs = (sizeBytes: number): Millis => MAX_WANTED_BODY_MS + sizeBytes / MIN_BYTES_PER_MS

export interface InFlightAttempt extends AttemptState {
  /** As it was when the recipient was claimed. */
  readonly mail: ClaimedMail
  readonly lane: string
  readonly destination: Destination
  /** State of the pair of the destination when the attempt was claimed. */
  readonly pairGeneration: number
  readonly limits: TotalLimits
  readonly worker: number
  /** Undefined until the attempt has memory and its message is rendered. */
  sentToWorkerAt: Millis | undefined
  /** How long the attempt may take from the start of its message while others wait for its slot or memory. */
  maxWantedBodyMs: Millis
  /** Resolves when the outcome of the attempt is stored or given up; nothing is written for the attempt after that. */
  settling: Promise<void> | undefined
  /** Suppressed, or past its deadline, before its message began: due again at once, and the next claim ends it. */
  isUnwanted?: boolean
  trace?: AttemptTraceData | undefined
}

export interface InFlightAttemptsOptions {
  readonly app: App
  /** Once aborted, nothing begins, and released recipients are due immediately. */
  readonly stopping: AbortSignal
  /** Called when the start of the message was stored or refused; `ok` is whether the message may be sent. */
  readonly onBegun: (attempt: InFlightAttempt, ok: boolean) => void
  /** Called when the attempt has ended, before its outcome is stored. */
  readonly onAttemptEnded: (attempt: InFlightAttempt) => void
  /** Called when the outcome is stored and the recipient is due again. */
  readonly onDue: (attempt: InFlightAttempt, at: Millis) => void
}

const STORAGE_RELEASE_DELAY_MS = seconds(10)
/** How long begun transactions may continue at shutdown. */
const STOP_GRACE_MS = minutes(1)

/**
 * Starts or outcomes stored in one write. Those of one tick share a write, because each write costs a savepoint, in
 * which SQLite copies every page that it changes; more would block the event loop for longer.
 */
const MAX_PER_WRITE = 32

interface Outcome {
  readonly attempt: InFlightAttempt
  readonly verdict: Verdict
  readonly session: AttemptSession | undefined
  readonly onStored: () => void
}

export class InFlightAttempts {
  readonly #options: InFlightAttemptsOptions
  readonly #app: App
  readonly #attempts = new Map<number, InFlightAttempt>()
  readonly #retries: StorageRetries
  /** After the shutdown grace, an outcome that the database refuses once more is left to the next start. */
  #hasGivenUp = false
  readonly #collectBegin = collectPerTick<InFlightAttempt>(
    queueMicrotask,
    (attempts) => void this.#storeBegin(attempts),
    MAX_PER_WRITE,
  )
  readonly #collectOutcome = collectPerTick<Outcome>(
    queueMicrotask,
    (outcomes) => void this.#storeOutcomes(outcomes),
    MAX_PER_WRITE,
  )
  #onSettled: () => void = () => undefined

  constructor(options: InFlightAttemptsOptions) {
    this.#options = options
    this.#app = options.app
    this.#retries = new StorageRetries(options.app.clock)
  }

  /** Outcomes that the database has refused; nothing is claimed while there are any. */
  get unstored(): number {
    return this.#retries.refusedCount
  }

  add(attempt: InFlightAttempt): void {
    this.#attempts.set(attempt.recipientId, attempt)
  }

  /** The attempt of a recipient if its outcome is not known yet. */
  findUnsettled(recipientId: number): InFlightAttempt | undefined {
    const attempt = this.#attempts.get(recipientId)
    return attempt?.settling ? undefined : attempt
  }

  /** All attempts whose outcome is not stored yet. */
  all(): InFlightAttempt[] {
    return [...this.#attempts.values()]
  }

  /**
   * Stores the start after the server's 354, then allows the message. Refuses when the recipient was suppressed, or its
   * deadline came, while the attempt waited for a connection or for the server.
   */
  begin(attempt: InFlightAttempt): void {
    if (this.#options.stopping.aborted) this.#options.onBegun(attempt, false)
    else this.#collectBegin(attempt)
  }

  async #storeBegin(attempts: readonly InFlightAttempt[]): Promise<void> {
    const startedAt = this.#app.eventTime()
    for (const attempt of attempts) attempt.startedAt = startedAt
    let begun: readonly boolean[] = []
    try {
      begun = await this.#app.commit.writeFromReserve((tx) =>
        attempts.map((attempt) => {
          attempt.isUnwanted = isUnwanted(this.#app, tx.db, attempt.mail)
          return !attempt.isUnwanted && beginDelivery(tx, attempt.recipientId, startedAt)
        }),
      )
    } catch (error) {
      for (const attempt of attempts) this.#logError(attempt, error, 'delivery start not stored; nothing was sent')
    }
    for (const [index, attempt] of attempts.entries()) {
      const isBegun = begun[index] ?? false
      if (!isBegun) attempt.startedAt = undefined
      this.#options.onBegun(attempt, isBegun)
    }
  }

  /** Ends an attempt and frees its slot. Resolves when its outcome is stored or given up. */
  settle(attempt: InFlightAttempt, verdict: Verdict, session: AttemptSession | undefined): Promise<void> {
    this.#options.onAttemptEnded(attempt)
    const { promise, resolve } = Promise.withResolvers<void>()
    attempt.settling = promise
    this.#collectOutcome({ attempt, verdict, session, onStored: resolve })
    return promise
  }

  /** In one commit, or each in its own if that is refused, until it is stored: no outcome is ever dropped. */
  async #storeOutcomes(outcomes: readonly Outcome[]): Promise<void> {
    const stored = outcomes.length > 1 ? await this.#write(outcomes).catch(() => undefined) : undefined
    if (stored) for (const [index, outcome] of outcomes.entries()) this.#finish(outcome, stored[index])
    else await Promise.all(outcomes.map((outcome) => this.#storeOutcome(outcome)))
  }

  async #storeOutcome(outcome: Outcome): Promise<void> {
    const { attempt } = outcome
    const stored = await this.#retries.store(
      () => this.#write([outcome]),
      (error) => this.#classifyFailure(attempt, error),
    )
    this.#finish(outcome, stored?.[0])
  }

  /** Returns when each recipient is due again; undefined when it is final. */
  #write(outcomes: readonly Outcome[]): Promise<(Millis | undefined)[]> {
    return this.#app.commit.writeFromReserve((tx) =>
      outcomes.map(({ attempt, verdict, session }) => {
        const counted = toCountedOutcome(verdict)
        if (counted) countOutcome(tx, attempt.destination.pair, { ...counted, session }, this.#app.clock.now())
        return writeOutcome(this.#app, tx, attempt, verdict, session, this.#computeReleaseAt(attempt, verdict))
      }),
    )
  }

  #computeReleaseAt({ isUnwanted: isImmediate }: InFlightAttempt, { kind }: Verdict): Millis {
    const isDelayed = kind === 'released' && !this.#options.stopping.aborted && !isImmediate
    return this.#app.clock.now() + (isDelayed ? STORAGE_RELEASE_DELAY_MS : 0)
  }

  #finish({ attempt, onStored }: Outcome, nextAt?: Millis): void {
    this.#attempts.delete(attempt.recipientId)
    if (nextAt !== undefined) this.#options.onDue(attempt, nextAt)
    onStored()
    this.#onSettled()
  }

  #classifyFailure(attempt: InFlightAttempt, error: unknown): WriteFailure {
    const isUnknown = error instanceof NotProcessingError
    const message = isUnknown ? 'outcome for a recipient that is not in delivery' : 'outcome not stored; retrying'
    this.#logError(attempt, error, message)
    return isUnknown || this.#hasGivenUp ? 'given-up' : 'storage'
  }

  #logError(attempt: InFlightAttempt, error: unknown, message: string): void {
    this.#app.log.error({ err: error, ...findAttemptLogFields(this.#app.db, attempt) }, message)
  }

  /** Resolves when no begun transaction is in flight, or after the shutdown grace of 60 s. */
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

  /** Settles what is still in flight. An outcome that the database refuses once more is left to the next start. */
  async settleStopped(): Promise<void> {
    this.#hasGivenUp = true
    await Promise.all(
      this.all().map((attempt) => attempt.settling ?? this.settle(attempt, toShutdownVerdict(attempt), undefined)),
    )
  }
}

/** What is counted for a verdict; undefined: it says nothing about the provider. */
export function toCountedOutcome(verdict: Verdict): CountedOutcome | undefined {
  if (verdict.kind === 'sent') return { outcome: 'accepted' }
  if (verdict.kind !== 'deferred' && verdict.kind !== 'bounced') return undefined
  const { kind, category, reply, rule, alert = false } = verdict
  // Replies about one recipient say nothing about our address, and often name the person.
  const cause = isRecipientCategory(category) ? category : (reply ?? rule ?? category)
  return { outcome: kind === 'deferred' ? 'deferred' : 'refused', reply: cause, isBlocked: alert }
}

const STOPPED = 'The service was stopped while the message was being sent, so the receiver may have it'

const toShutdownVerdict = ({ startedAt }: InFlightAttempt): Verdict =>
  startedAt === undefined ? { kind: 'released' } : { kind: 'uncertain', reason: STOPPED }
