/** @module HTTP over a plain socket, for requests that no HTTP client would send. */
import { connect, type Socket } from 'node:net'

export interface RawConnection extends Disposable {
  readonly socket: Socket
  /** Everything received so far. */
  received(): string
  send(bytes: string | Uint8Array): void
  /** Resolves when the received text satisfies `condition`; rejects with the text when the connection ends before. */
  until(condition: (received: string) => boolean): Promise<string>
  /** Resolves with everything received when the other side closes. */
  readonly closed: Promise<string>
}

export async function openRawConnection(port: number): Promise<RawConnection> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  let isClosed = false
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const run of waiting) run()
  }
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
    wake()
  })
  socket.on('error', () => undefined)
  const closed = new Promise<string>((resolve) => {
    socket.on('close', () => {
      isClosed = true
      resolve(text)
      wake()
    })
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  return {
    socket,
    received: () => text,
    send: (bytes) => void socket.write(bytes),
    until: (condition) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (!condition(text) && !isClosed) return
          waiting.delete(look)
          if (condition(text)) resolve(text)
          else reject(new Error(`connection closed after: ${text}`))
        }
        waiting.add(look)
        look()
      }),
    closed,
    [Symbol.dispose]: () => void socket.destroy(),
  }
}

/** Status codes of the responses in `received`, in order. */
export const parseStatuses = (received: string): number[] =>
  [...received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]))

/** Resolves when `condition` holds. */
export async function waitUntil(condition: () => boolean): Promise<void> {
  while (!condition()) await Bun.sleep(1)
}
