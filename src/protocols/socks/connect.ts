/**
 * @module Has a SOCKS5 proxy connect to an IP address (RFC 1928, RFC 1929), over a socket that is connected to the proxy, and
 * says whose fault it is if that fails. Never gives the proxy a name to look up, and repeats no password in a failure.
 */
import type { Socket } from 'node:net'
import { SocksClient } from 'socks'
import type { Clock } from '#platform/time/clock.ts'

export interface SocksProxy {
  readonly host: string
  readonly port: number
  readonly login?: { readonly user: string; readonly password: string } | undefined
}

/**
 * Whose fault a failure is. `proxy`: it does nothing for us, whatever the target. `request`: it does not make this
 * connection. `target`: it says that the target refuses or cannot be reached, or gets no connection in time.
 */
export interface SocksFailure {
  readonly by: 'proxy' | 'request' | 'target'
  readonly kind: 'refused' | 'unreachable' | 'timeout' | 'closed' | 'protocol'
  /** The rest of a sentence whose subject is the proxy. */
  readonly message: string
}

const fail = (by: SocksFailure['by'], kind: SocksFailure['kind'], message: string): SocksFailure => ({
  by,
  kind,
  message,
})

/** By the names that the library gives to the reply codes of RFC 1928 §6. */
const REPLIES: Readonly<Record<string, SocksFailure>> = {
  Failure: fail('request', 'unreachable', 'failed to connect, and does not say why'),
  NotAllowed: fail('request', 'unreachable', 'does not allow the connection'),
  NetworkUnreachable: fail('target', 'unreachable', 'has no route to its network'),
  HostUnreachable: fail('target', 'unreachable', 'cannot reach it'),
  ConnectionRefused: fail('target', 'refused', 'was refused by it'),
  // Proxies answer so when the target did not answer them.
  TTLExpired: fail('target', 'timeout', 'got no answer from it'),
  CommandNotSupported: fail('request', 'unreachable', 'makes no connections'),
  AddressNotSupported: fail('request', 'unreachable', 'does not know this kind of address'),
}

/**
 * Resolves once the socket leads to the target; otherwise with the failure, and the socket is closed.
 * @param target its address is IPv4 or IPv6
 */
export async function requestConnection(
  socket: Socket,
  { host, port, login }: SocksProxy,
  target: { readonly address: string; readonly port: number },
  {
    clock,
    timeoutMs,
    signal,
  }: { readonly clock: Clock; readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
): Promise<SocksFailure | undefined> {
  let beginning: Buffer = Buffer.alloc(0)
  const record = (data: Buffer) => {
    beginning = Buffer.concat([beginning, data]).subarray(0, 4)
  }
  let hasTimedOut = false
  const end = () => socket.destroy()
  const timer = clock.after(timeoutMs, () => {
    hasTimedOut = true
    end()
  })
  signal?.addEventListener('abort', end)
  if (signal?.aborted) end()
  socket.prependListener('data', record)
  try {
    const { remoteHost } = await SocksClient.createConnection({
      command: 'connect',
      proxy: { host, port, type: 5, ...(login && { userId: login.user, password: login.password }) },
      destination: { host: target.address, port: target.port },
      existing_socket: socket,
      // Its timer cannot be cancelled, so it only ends what ours has missed.
      timeout: timeoutMs + 1000,
    })
    // The library takes a reply with an unknown type of address for a success.
    if (remoteHost) return undefined
    end()
    return fail('request', 'protocol', NOT_SOCKS)
  } catch (error) {
    // Without the error itself, which has the password.
    const text = error instanceof Error ? error.message : ''
    // It has chosen no login, or has accepted ours: from then on it is busy with the target.
    const [version, method, , status] = beginning
    const isAccepted = version === 5 && (method === 0 || (method === 2 && status === 0))
    const within = hasTimedOut ? `within ${timeoutMs / 1000} s` : undefined
    return isAccepted ? toRequestFailure(text, within) : toProxyFailure(text, within)
  } finally {
    timer.cancel()
    signal?.removeEventListener('abort', end)
    socket.removeListener('data', record)
  }
}

const NOT_SOCKS = 'does not speak SOCKS5'

function toRequestFailure(text: string, within: string | undefined): SocksFailure {
  if (within) return fail('target', 'timeout', `got no connection to it ${within}`)
  const [, reply] = text.split('rejected connection - ')
  if (reply === undefined) return fail('request', 'closed', 'closed the connection without an answer')
  return REPLIES[reply] ?? fail('request', 'protocol', NOT_SOCKS)
}

function toProxyFailure(text: string, within: string | undefined): SocksFailure {
  if (within) return fail('proxy', 'timeout', `did not answer ${within}`)
  if (/Authentication failed|no accepted/.test(text)) return fail('proxy', 'refused', 'refuses the user and password')
  if (text.startsWith('Received invalid')) return fail('proxy', 'protocol', NOT_SOCKS)
  return fail('proxy', 'closed', 'closed the connection before it had answered')
}
