/**
 * @module Entry of the listener's Worker: speaks SMTP with strangers, hands whole messages to the main thread and says 250 when it has the word of
 * the main thread that they are on disk. Decides nothing and opens no database.
 */

import type { Destination, Refusal } from '#features/receiving/received/message.ts'
import { systemClock } from '#platform/clock.ts'
import { seconds } from '#platform/units.ts'
import type { FromListener, ListenerSettings, ToListener } from './listener-protocol.ts'
import { createInboundServer, type InboundServer } from './listener-server.ts'

declare const self: Worker

/** A warning of one kind is said once in this time: strangers must not fill the log. */
const WARN_EVERY_MS = seconds(30)
/** Time for the last replies to leave. */
const STOP_MS = 100

let server: InboundServer | undefined
let lastId = 0
const deciding = new Map<number, (answer: Destination | Refusal) => void>()
const receiving = new Map<number, (refusal: Refusal | null) => void>()
const warnedAtMs = new Map<string, number>()

const post = (message: FromListener, transfer: ArrayBuffer[] = []): void => self.postMessage(message, transfer)

self.onmessage = ({ data }: MessageEvent<ToListener>) => {
  switch (data.type) {
    case 'start':
      void start(data.settings)
      return
    case 'certificate':
      server?.useCertificate(data.certificate)
      return
    case 'decided':
      deciding.get(data.id)?.(data.answer)
      deciding.delete(data.id)
      return
    case 'received':
      receiving.get(data.id)?.(data.refusal)
      receiving.delete(data.id)
      return
    case 'drain':
      void server?.drain().then(() => post({ type: 'drained' }))
      return
    case 'ping':
      post({ type: 'pong' })
      return
    case 'stop':
      server?.stop()
      systemClock.after(STOP_MS, () => post({ type: 'stopped' }))
      return
  }
}

async function start(settings: ListenerSettings): Promise<void> {
  try {
    server = createInboundServer({
      settings,
      clock: systemClock,
      decide: (address, sourceIp) =>
        new Promise((resolve) => {
          const id = ++lastId
          deciding.set(id, resolve)
          post({ type: 'decide', id, address, sourceIp })
        }),
      receive: (message) =>
        new Promise((resolve) => {
          const id = ++lastId
          receiving.set(id, resolve)
          const { content } = message
          const { buffer } = content.kind === 'bytes' ? content.bytes : { buffer: undefined }
          post({ type: 'receive', id, message }, buffer instanceof ArrayBuffer ? [buffer] : [])
        }),
      onWarning: warn,
      onDebug(event, detail) {
        if (settings.logsDebug) post({ type: 'log', level: 'debug', event, detail })
      },
    })
    post({ type: 'listening', ...(await server.listen()) })
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    post({ type: 'failed', code, reason: error instanceof Error ? error.message : String(error) })
  }
}

function warn(event: string, detail: string): void {
  const nowMs = systemClock.monotonicMs()
  if (nowMs - (warnedAtMs.get(event) ?? Number.NEGATIVE_INFINITY) < WARN_EVERY_MS) return
  warnedAtMs.set(event, nowMs)
  post({ type: 'log', level: 'warn', event, detail })
}
