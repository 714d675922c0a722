/**
 * @module A limit of messages in a window of time: in no window of that length, wherever it begins, are more tokens
 * taken than the limit. Knows no clock; the caller passes monotonic times.
 */

/**
 * Fraction of the limit that may be taken at once after a pause. The rest flows in evenly, so that a window that begins
 * with a burst still keeps the limit.
 */
const BURST_FRACTION = 0.1
/** Without a burst within the last window, so little may be taken at once that nearly the whole limit flows in. */
const STEADY_FRACTION = 0.02
const MIN_STEADY_TOKENS = 2

export class TokenBucket {
  readonly #windowMs: number
  #limit = 0
  /** The burst. */
  #capacity = 1
  /** With no more tokens than this for a window, they flow in at the steady rate. */
  #steadyCapacity = 1
  #tokens = 1
  #filledAtMs: number
  /** A window after the last moment with more tokens than the steady capacity. */
  #slowUntilMs: number

  /**
   * @param limit tokens in any window; may be a fraction
   * @param windowMs length of the window
   * @param hasBurst whether tokens may be taken at once
   */
  constructor(limit: number, windowMs: number, nowMs: number, hasBurst: boolean) {
    this.#windowMs = windowMs
    this.#filledAtMs = nowMs
    this.#slowUntilMs = nowMs + windowMs
    this.setLimit(limit, nowMs)
    this.#tokens = hasBurst ? this.#capacity : 0
  }

  /** Changes the limit. A lower one begins without a burst. */
  setLimit(limit: number, nowMs: number): void {
    this.#fill(nowMs)
    if (limit < this.#limit) this.#tokens = Math.min(this.#tokens, 0)
    this.#limit = limit
    this.#capacity = Math.max(1, Math.ceil(limit * BURST_FRACTION))
    this.#steadyCapacity = Math.min(this.#capacity, Math.max(MIN_STEADY_TOKENS, Math.ceil(limit * STEADY_FRACTION)))
    this.#tokens = Math.min(this.#tokens, this.#capacity)
  }

  /** Whole tokens that may be taken now. */
  available(nowMs: number): number {
    this.#fill(nowMs)
    // A sum of fractions may miss a whole number by a rounding error.
    return Math.max(0, Math.floor(this.#tokens + 1e-9))
  }

  /** Gives no token for a time, at most the window; then they flow in as before, without a burst. */
  pause(ms: number, nowMs: number): void {
    this.#fill(nowMs)
    this.#tokens = Math.min(this.#tokens, 0) - ms * this.#slowPerMs
    this.#slowUntilMs = nowMs + this.#windowMs
  }

  take(count: number, nowMs: number): void {
    this.#fill(nowMs)
    this.#tokens -= count
  }

  /** Milliseconds until a token is available. */
  msUntilToken(nowMs: number): number {
    this.#fill(nowMs)
    const missing = 1 - this.#tokens
    if (missing <= 1e-9) return 0
    const slowMs = Math.max(0, this.#slowUntilMs - nowMs)
    const inSlowMs = missing / this.#slowPerMs
    return Math.ceil(inSlowMs <= slowMs ? inSlowMs : slowMs + (missing - slowMs * this.#slowPerMs) / this.#steadyPerMs)
  }

  // A half-open window sees at most what is there, and after its first token what flows in: capacity - 1 + window * rate.
  get #slowPerMs(): number {
    return (this.#limit - this.#capacity + 1) / this.#windowMs
  }

  get #steadyPerMs(): number {
    return (this.#limit - this.#steadyCapacity + 1) / this.#windowMs
  }

  #fill(nowMs: number): void {
    const elapsedMs = Math.max(0, nowMs - this.#filledAtMs)
    const missing = Math.max(0, this.#steadyCapacity - this.#tokens)
    const isPastSlowMs = Math.min(elapsedMs, Math.max(0, nowMs - this.#slowUntilMs))
    const slowMs = elapsedMs - isPastSlowMs
    const steadyMs = Math.min(isPastSlowMs, Math.max(0, missing - slowMs * this.#slowPerMs) / this.#steadyPerMs)
    const flowed = steadyMs * this.#steadyPerMs + (elapsedMs - steadyMs) * this.#slowPerMs
    this.#tokens = Math.min(this.#capacity, this.#tokens + flowed)
    if (this.#tokens > this.#steadyCapacity) this.#slowUntilMs = nowMs + this.#windowMs
    this.#filledAtMs = nowMs
  }
}
