/**
 * @module Entry point of the listener's Worker: speaks SMTP with remote clients and passes complete messages to the
 * main thread, which decides on recipients and stores messages. Never opens a database, and replies 250 only when the
 * main thread reports the message on disk.
 */
import type { Destination, Rejection } from '#features/receiving/received/message.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import type { FromListener, ListenerSettings, Login, Question, ToListener } from './protocol.ts'
import { InboundServer, UnusableEndpointError } from './server.ts'

declare const self: Worker

/** Each kind of warning is logged once in this time, so that remote clients cannot fill the log. */
const WARN_INTERVAL_MS = seconds(30)
/** Time for the last replies to be sent. */
const STOP_DELAY_MS = 100

const post = (message: FromListener, transfer: ArrayBuffer[] = []): void => self.postMessage(message, transfer)

class ListenerWorker {
  #server: InboundServer | undefined
  #lastId = 0
  readonly #asked = new Map<number, (answer: unknown) => void>()
  readonly #warnedAtMs = new Map<string, number>()

  onMessage(message: ToListener): void {
    switch (message.type) {
      case 'start':
        void this.#start(message.settings)
        return
      case 'certificate':
        this.#server?.useCertificate(message.certificate)
        return
      case 'answer':
        this.#asked.get(message.id)?.(message.answer)
        this.#asked.delete(message.id)
        return
      case 'drain':
        void this.#server?.drain().then(() => post({ type: 'drained' }))
        return
      case 'ping':
        post({ type: 'pong', sessions: this.#server?.sessionCount ?? 0 })
        return
      case 'stop':
        this.#server?.stop()
        systemClock.after(STOP_DELAY_MS, () => post({ type: 'stopped' }))
        return
    }
  }

  async #start(settings: ListenerSettings): Promise<void> {
    try {
      this.#server = new InboundServer({
        settings,
        clock: systemClock,
        decide: (address, sourceIp) =>
          this.#ask<Destination | Rejection>((id) => ({ type: 'decide', id, address, sourceIp })),
        receive: (message) => this.#ask<Rejection | null>((id) => ({ type: 'receive', id, message })),
        submission: settings.isSubmission
          ? {
              logIn: (credentials, sourceIp) =>
                this.#ask<Login | Rejection>((id) => ({ type: 'logIn', id, credentials, sourceIp })),
              submit: (message) => this.#ask<Rejection>((id) => ({ type: 'submit', id, message })),
            }
          : undefined,
        onWarning: (event, detail) => this.#warn(event, detail),
        onDebug(event, detail) {
          if (settings.logsDebug) post({ type: 'log', level: 'debug', event, detail })
        },
      })
      post({ type: 'listening', endpoints: await this.#server.listen() })
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : ''
      const reason = error instanceof Error ? error.message : String(error)
      post({ type: 'failed', endpoint: error instanceof UnusableEndpointError ? error.index : 0, code, reason })
    }
  }

  /** Asks the main thread. `T` is the type that `Question` documents. */
  #ask<T>(createQuestion: (id: number) => Question): Promise<T> {
    return new Promise((resolve) => {
      const question = createQuestion(++this.#lastId)
      this.#asked.set(question.id, resolve as (answer: unknown) => void)
      const content = 'message' in question ? question.message.content : undefined
      const buffer = content?.kind === 'bytes' ? content.bytes.buffer : undefined
      post(question, buffer instanceof ArrayBuffer ? [buffer] : [])
    })
  }

  #warn(event: string, detail: string): void {
    const nowMs = systemClock.monotonicMs()
    if (nowMs - (this.#warnedAtMs.get(event) ?? Number.NEGATIVE_INFINITY) < WARN_INTERVAL_MS) return
    this.#warnedAtMs.set(event, nowMs)
    post({ type: 'log', level: 'warn', event, detail })
  }
}

const listenerWorker = new ListenerWorker()
self.onmessage = ({ data }: MessageEvent<ToListener>) => listenerWorker.onMessage(data)
