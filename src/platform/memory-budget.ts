/**
 * @module A bound on the bytes that requests and messages in flight may hold. Who is about to hold many bytes reserves them first and is
 * told no when the sum would pass the limit; nobody waits here.
 */

export interface Reservation {
  readonly bytes: number
  /** Grows or shrinks the reservation to `bytes`. False, and unchanged, when that would pass the limit. */
  resize(bytes: number): boolean
  /** Gives the bytes back; a second call does nothing. */
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

  /** Reserves `bytes`, or undefined when that would pass the limit. */
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
