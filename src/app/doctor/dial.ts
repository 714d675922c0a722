/** @module Connects to a mail server and hangs up: whether a connection is possible at all. */
import { connect } from 'node:net'
import { seconds } from '#platform/units.ts'
import type { DoctorContext } from './context.ts'

export interface DialTarget {
  readonly ip: string
  readonly port: number
  /** Address of this machine to connect from; undefined: the system chooses. */
  readonly from?: string | undefined
}

export type Dialled = { readonly kind: 'connected' } | { readonly kind: 'failed'; readonly reason: string }

/** What the operator reads in place of an error code. */
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused',
  ENETUNREACH: 'no route',
  EHOSTUNREACH: 'no route',
  ECONNRESET: 'reset',
  EACCES: 'forbidden by this machine',
  EPERM: 'forbidden by this machine',
  EADDRNOTAVAIL: 'the source is not an address of this machine',
}

/** A server that has not greeted after this time gets no QUIT. */
const GREETING_TIMEOUT_MS = seconds(3)

/** Resolves once the connection is established, or is not within `timeoutMs`. Sends no more than QUIT. */
export function dial(
  { clock, signal }: Pick<DoctorContext, 'clock' | 'signal'>,
  { ip, port, from }: DialTarget,
  timeoutMs: number,
): Promise<Dialled> {
  return new Promise((resolve) => {
    const socket = connect({ host: ip, port, ...(from !== undefined && { localAddress: from }) })
    const finish = (dialled: Dialled): void => {
      timer.cancel()
      signal.removeEventListener('abort', abort)
      if (dialled.kind === 'connected') {
        // QUIT before the greeting would look like a program that sends spam.
        socket.once('data', () => socket.end('QUIT\r\n'))
        clock.after(GREETING_TIMEOUT_MS, () => socket.destroy())
        socket.unref()
      } else socket.destroy()
      resolve(dialled)
    }
    const abort = () => finish({ kind: 'failed', reason: 'no answer' })
    const timer = clock.after(timeoutMs, abort)
    signal.addEventListener('abort', abort)
    socket.on('connect', () => finish({ kind: 'connected' }))
    socket.on('error', (error: NodeJS.ErrnoException) =>
      finish({ kind: 'failed', reason: REASONS[error.code ?? ''] ?? 'failed' }),
    )
  })
}
