/**
 * @module Gathers the messages of one tick of the event loop for another thread and sends them as one JSON text: each
 * text costs both threads a wake-up, and many small parts transfer faster as one string.
 */

export class Outbox<T> {
  readonly #send: (text: string) => void
  #messages: T[] = []

  /** @param send called after the tick in which the first message was pushed */
  constructor(send: (text: string) => void) {
    this.#send = send
  }

  push(message: T): void {
    // setImmediate runs after the current poll phase, so what arrived together is sent together.
    if (this.#messages.push(message) === 1) setImmediate(() => this.#flush())
  }

  #flush(): void {
    const messages = this.#messages
    this.#messages = []
    this.#send(JSON.stringify(messages))
  }
}
