/**
 * @module Limits the bytes that requests and messages in flight may hold. Callers reserve bytes before they hold them;
 * a reservation that would exceed the limit fails immediately. Never queues callers.
 */

export interface Reservation {
  readonly bytes: number
  /**
   * Grows or shrinks the reservation to `bytes`. Returns false, and changes nothing, when that would exceed the limit.
   */
  resize(bytes: number): boolean
  /** Returns the bytes to the budget; a second call does nothing. */
  release(): void
}

export class MemoryBudget {
  readonly limitBytes: number
  #inUseBytes = 0

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes
  }

  get inUseBytes(): number {
    return this.#inUseBytes
  }

  /** Reserves `bytes`; undefined when that would exceed the limit. */
  reserve(bytes: number): Reservation | undefined {
    if (!this.#add(bytes)) return undefined
    let heldBytes = bytes
    let isReleased = false
    return {
      get bytes() {
        return heldBytes
      },
      resize: (newBytes) => {
        if (isReleased || !this.#add(newBytes - heldBytes)) return false
        heldBytes = newBytes
        return true
      },
      release: () => {
        if (isReleased) return
        isReleased = true
        this.#inUseBytes -= heldBytes
        heldBytes = 0
      },
    }
  }

  #add(bytes: number): boolean {
    if (bytes > 0 && this.#inUseBytes + bytes > this.limitBytes) return false
    this.#inUseBytes += bytes
    return true
  }
}
