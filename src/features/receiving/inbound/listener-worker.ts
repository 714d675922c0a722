/**
 * @module Entry point of the listener's Worker: speaks SMTP with remote clients and passes complete messages to the
 * main thread, which decides on recipients and stores messages. Never opens a database, and replies 250 only when the
 * main thread reports the message on disk.
 */
import type { CompleteMessage, Destination, Rejection } from '#features/receiving/received/message.ts'
import { systemClock } from '#platform/clock.ts'
import { seconds } from '#platform/units.ts'
import type { FromListener, ListenerSettings, ToListener } from './listener-protocol.ts'
import { InboundServer } from './listener-server.ts'

declare const self: Worker

/** Each kind of warning is logged once in this time, so that remote clients cannot fill the log. */
const WARN_INTERVAL_MS = seconds(30)
/** Time for the last replies to be sent. */
const STOP_DELAY_MS = 100

const post = (message: FromListener, transfer: ArrayBuffer[] = []): void => self.postMessage(message, transfer)

/** The Worker's side of the protocol with the main thread. */
class ListenerWorker {
  #server: InboundServer | undefined
  #lastId = 0
  readonly #deciding = new Map<number, (decision: Destination | Rejection) => void>()
  readonly #receiving = new Map<number, (rejection: Rejection | null) => void>()
  readonly #warnedAtMs = new Map<string, number>()

  onMessage(message: ToListener): void {
    switch (message.type) {
      case 'start':
        void this.#start(message.settings)
        return
      case 'certificate':
        this.#server?.useCertificate(message.certificate)
        return
      case 'decided':
        this.#deciding.get(message.id)?.(message.decision)
        this.#deciding.delete(message.id)
        return
      case 'received':
        this.#receiving.get(message.id)?.(message.rejection)
        this.#receiving.delete(message.id)
        return
      case 'drain':
        void this.#server?.drain().then(() => post({ type: 'drained' }))
        return
      case 'ping':
        post({ type: 'pong' })
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
        decide: (address, sourceIp) => this.#decide(address, sourceIp),
        receive: (message) => this.#receive(message),
        onWarning: (event, detail) => this.#warn(event, detail),
        onDebug(event, detail) {
          if (settings.logsDebug) post({ type: 'log', level: 'debug', event, detail })
        },
      })
      post({ type: 'listening', ...(await this.#server.listen()) })
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : ''
      post({ type: 'failed', code, reason: error instanceof Error ? error.message : String(error) })
    }
  }

  #decide(address: string, sourceIp: string): Promise<Destination | Rejection> {
    return new Promise((resolve) => {
      const id = ++this.#lastId
      this.#deciding.set(id, resolve)
      post({ type: 'decide', id, address, sourceIp })
    })
  }

  #receive(message: CompleteMessage): Promise<Rejection | null> {
    return new Promise((resolve) => {
      const id = ++this.#lastId
      this.#receiving.set(id, resolve)
      const { content } = message
      const { buffer } = content.kind === 'bytes' ? content.bytes : { buffer: undefined }
      post({ type: 'receive', id, message }, buffer instanceof ArrayBuffer ? [buffer] : [])
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
