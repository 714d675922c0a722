/** @module The server of the simulator: receives mail on the loopback address and reacts as its mailboxes say. */
import { type AddressInfo, createServer } from 'node:net'
import type { App } from '#features/core/app/app.ts'
import { simulatorDomain } from '#features/sending/queue/lanes.ts'
import { reactAsSimulator } from './mailboxes.ts'
import { type ReceiverOptions, ReceiverSession } from './receiver-session.ts'

export interface Receiver extends AsyncDisposable {
  readonly host: string
  readonly port: number
  readonly connections: number
  /** Connections that are open now; and the most at one time that the receiver had not ended yet. */
  readonly open: number
  readonly maxOpen: number
  /** Ends all sessions and stops to listen. */
  close(): Promise<void>
}

/** Pairs of sender and recipient that are remembered; the oldest is evicted. */
const MAX_PAIRS = 10_000

export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const sessions = new Set<ReceiverSession>()
  const attempts = new Map<string, number>()
  let connections = 0
  let maxOpen = 0

  const countAttempt = (mailFrom: string, rcptTo: string): number => {
    const pair = `${mailFrom}\n${rcptTo}`
    const count = (attempts.get(pair) ?? 0) + 1
    // Deleted first, so that the pair becomes the newest.
    attempts.delete(pair)
    attempts.set(pair, count)
    const [oldest] = attempts.size > MAX_PAIRS ? attempts.keys() : []
    if (oldest !== undefined) attempts.delete(oldest)
    return count
  }

  const server = createServer((socket) => {
    connections++
    const session = new ReceiverSession(socket, options, {
      connection: connections,
      countAttempt,
      onEnded: () => sessions.delete(session),
    })
    sessions.add(session)
    // Counted after the other events of this tick: the end of an earlier connection may be read after a later one.
    setImmediate(() => {
      maxOpen = Math.max(maxOpen, [...sessions].filter(({ isClosing }) => !isClosing).length)
    })
    session.start()
  })
  const host = options.address ?? '127.0.0.1'
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const close = async (): Promise<void> => {
    for (const session of sessions) session.destroy()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
  return {
    host,
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    get open() {
      return sessions.size
    },
    get maxOpen() {
      return maxOpen
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Listens on a free port. Rejects with the system error. */
export const startSimulator = ({ clock, config }: Pick<App, 'clock' | 'config'>): Promise<Receiver> =>
  startReceiver({ clock, hostname: simulatorDomain(config), react: reactAsSimulator })
