/**
 * @module Records one attempt for the sender and the operator: the duration of each phase, and the dialogue with the
 * servers, without passwords and message octets. Runs in a Worker. Bounded, whatever a server sends.
 */
import type { Clock } from '#platform/time/clock.ts'
import { KiB } from '#platform/units.ts'
import type { OnPhaseEnd } from '#protocols/smtp/phases.ts'
import type { AttemptTimings, AttemptTraceData } from '../model/protocol.ts'

/** Maximum length of a line of the dialogue, in characters; the rest is replaced by its length. */
const MAX_LINE_LENGTH = 1000
/** Of a long dialogue, the first and the last lines are recorded: up to this size each, in bytes of UTF-8. */
const MAX_END_BYTES = 8 * KiB

const CONTROLS = /[\x00-\x1f\x7f]/g

/** Who wrote a line of the dialogue; `*` is a remark of our own. */
export type DialogueMark = '>' | '<' | '*'

export class AttemptTrace {
  readonly #clock: Clock
  readonly #startedMs: number
  #phaseStartedMs: number
  #timings: AttemptTimings = {}
  #target: Pick<AttemptTraceData, 'host' | 'address'> = {}
  readonly #first: string[] = []
  #firstBytes = 0
  readonly #last: string[] = []
  #lastBytes = 0
  #omitted = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#startedMs = clock.monotonicMs()
    this.#phaseStartedMs = this.#startedMs
  }

  /** Begins with another server; the timings are those of the last one. */
  beginServer(host: string, address: string, how: 'connecting to' | 'reusing the session with'): void {
    this.#target = { host, address }
    this.#timings = {}
    this.#phaseStartedMs = this.#clock.monotonicMs()
    this.note(`${how} ${host} [${address}]`)
  }

  readonly endPhase: OnPhaseEnd = (phase) => {
    const now = this.#clock.monotonicMs()
    this.#timings[phase] = (this.#timings[phase] ?? 0) + Math.round(now - this.#phaseStartedMs)
    this.#phaseStartedMs = now
  }

  /** Adds a line of the session: the transcript of `protocols/smtp`. */
  readonly record = (direction: 'client' | 'server', line: string): void =>
    this.#add(direction === 'client' ? '>' : '<', line)

  note(text: string): void {
    this.#add('*', text)
  }

  toData(): AttemptTraceData {
    const omitted = this.#omitted > 0 ? [`${this.#elapsedMs()} * ${this.#omitted} lines omitted here`] : []
    return {
      ...this.#target,
      timings: this.#timings,
      dialogue: [...this.#first, ...omitted, ...this.#last].join('\n'),
    }
  }

  #elapsedMs(): number {
    return Math.round(this.#clock.monotonicMs() - this.#startedMs)
  }

  #add(mark: DialogueMark, text: string): void {
    const rest = text.length - MAX_LINE_LENGTH
    const shown = rest > 0 ? `${text.slice(0, MAX_LINE_LENGTH).toWellFormed()} [${rest} more characters]` : text
    const line = `${this.#elapsedMs()} ${mark} ${shown.replace(CONTROLS, ' ')}`
    const bytes = Buffer.byteLength(line) + 1
    if (this.#last.length === 0 && this.#firstBytes + bytes <= MAX_END_BYTES) {
      this.#first.push(line)
      this.#firstBytes += bytes
      return
    }
    this.#last.push(line)
    this.#lastBytes += bytes
    while (this.#lastBytes > MAX_END_BYTES) {
      this.#lastBytes -= Buffer.byteLength(this.#last.shift() ?? '') + 1
      this.#omitted++
    }
  }
}
