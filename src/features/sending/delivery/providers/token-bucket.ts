/**
 * @module A limit of messages in a window of time: in no window of that length, wherever it begins, are more tokens
 * taken than the limit. Knows no clock; the caller passes monotonic times.
 */

/**
 * Fraction of the limit that may be taken at once after a pause. The rest flows in evenly, so that a window that begins
 * with a burst still keeps the limit.
 */
const BURST_FRACTION = 0.1

export class TokenBucket {
  readonly #windowMs: number
  #limit = 0
  #capacity = 1
  #perMs = 0
  #tokens = 1
  #filledAtMs: number

  /**
   * @param limit tokens in any window; may be a fraction
   * @param windowMs length of the window
   * @param hasBurst whether tokens may be taken at once
   */
  constructor(limit: number, windowMs: number, nowMs: number, hasBurst: boolean) {
    this.#windowMs = windowMs
    this.#filledAtMs = nowMs
    this.setLimit(limit, nowMs)
    this.#tokens = hasBurst ? this.#capacity : 0
  }

  /** Changes the limit. A lower one begins without a burst. */
  setLimit(limit: number, nowMs: number): void {
    this.#fill(nowMs)
    if (limit < this.#limit) this.#tokens = Math.min(this.#tokens, 0)
    this.#limit = limit
    this.#capacity = Math.max(1, Math.ceil(limit * BURST_FRACTION))
    // A half-open window sees at most the burst, and after its first token what flows in: capacity - 1 + window * rate.
    this.#perMs = (limit - this.#capacity + 1) / this.#windowMs
    this.#tokens = Math.min(this.#tokens, this.#capacity)
  }

  /** Whole tokens that may be taken now. */
  available(nowMs: number): number {
    this.#fill(nowMs)
    // A sum of fractions may miss a whole number by a rounding error.
    return Math.floor(this.#tokens + 1e-9)
  }

  take(count: number, nowMs: number): void {
    this.#fill(nowMs)
    this.#tokens -= count
  }

  /** Milliseconds until this many tokens are available, at most the burst. */
  msUntil(count: number, nowMs: number): number {
    this.#fill(nowMs)
    const missing = Math.min(count, this.#capacity) - this.#tokens
    return missing <= 1e-9 ? 0 : Math.ceil(missing / this.#perMs)
  }

  #fill(nowMs: number): void {
    this.#tokens = Math.min(this.#capacity, this.#tokens + Math.max(0, nowMs - this.#filledAtMs) * this.#perMs)
    this.#filledAtMs = nowMs
  }
}
