/**
 * @module Opens an SMTP session that is ready for MAIL: TCP, greeting, EHLO, STARTTLS, AUTH (RFC 5321 §3.1 and §3.2,
 * RFC 3207, RFC 4954). One attempt at one address: no DNS, no retry.
 */
import { connect, type Socket } from 'node:net'
import type { SocksProxy } from '../socks/connect.ts'
import {
  type ChannelOptions,
  isReply,
  type ReplyOrFailure,
  type SecureOptions,
  SmtpChannel,
  type SmtpTls,
} from './channel.ts'
import { SmtpClient } from './client.ts'
import { formatGreetingCommand } from './commands.ts'
import { type SmtpFailure, TLS_FAILURE_CODES, toSmtpFailure } from './failures.ts'
import { NO_EXTENSIONS, parseExtensions, type SmtpExtensions, type SmtpReply } from './replies.ts'
import { DEFAULT_SMTP_TIMEOUTS, type OnPhaseEnd, type SmtpTimeouts } from './timeouts.ts'

export interface SmtpConnectOptions extends SecureOptions, ChannelOptions {
  /** The IP address to connect to, or a name that the system resolves. */
  readonly address: string
  readonly port: number
  readonly localAddress?: string
  /** Connects to `address`, which must be an IP address then; it has the `localAddress`. */
  readonly proxy?: SocksProxy | undefined
  /** The name of this client: a domain or an address literal. */
  readonly ehloName: string
  /** Timeouts in milliseconds; the defaults are those of RFC 5321 §4.5.3.2. */
  readonly timeouts?: Partial<SmtpTimeouts>
  /**
   * `opportunistic`: uses STARTTLS if the server offers it; continues in plaintext if the server then rejects STARTTLS
   * (454), but fails if the handshake fails. `implicit`: TLS from the first octet (RFC 8314).
   */
  readonly tls: 'never' | 'opportunistic' | 'required' | 'implicit'
  readonly auth?: SmtpCredentials
  /** Whether a password may be sent in plaintext. Default: no. */
  readonly allowPlaintextAuth?: boolean
  /**
   * When `signal` is aborted, the attempt ends with `failure`, in any phase. Has no effect once the session is open.
   */
  readonly abort?: { readonly signal: AbortSignal; readonly failure: SmtpFailure }
  /** Has no effect once the session is open. */
  readonly onPhaseEnd?: OnPhaseEnd
}

/**
 * `refused`: the server rejected the session. `failed`: the network or TLS failed, or the peer does not speak SMTP. In
 * both cases no connection stays open.
 */
export type ConnectResult =
  | { readonly kind: 'connected'; readonly client: SmtpClient }
  | {
      readonly kind: 'failed'
      /**
       * `proxy`: the proxy does nothing for us; `request`: it does not connect to this address. Then, and with a proxy also
       * after `connect`, the message is the rest of a sentence about the proxy.
       */
      readonly phase: 'proxy' | 'request' | 'connect' | 'greeting' | 'ehlo' | 'starttls' | 'tls' | 'auth'
      readonly failure: SmtpFailure
    }
  | { readonly kind: 'refused'; readonly phase: 'greeting' | 'ehlo' | 'starttls' | 'auth'; readonly reply: SmtpReply }

type NotConnected = Exclude<ConnectResult, { kind: 'connected' }>

/**
 * Opens a session. Throws only for invalid options, such as an `ehloName` with a line break, which are a bug in the
 * caller.
 *
 * Sends HELO to a server that rejects EHLO with 5xx (RFC 5321 §3.2); such a session has no extensions.
 */
export async function connectSmtp(options: SmtpConnectOptions): Promise<ConnectResult> {
  formatGreetingCommand('EHLO', options.ehloName)
  const timeouts = { ...DEFAULT_SMTP_TIMEOUTS, ...options.timeouts }
  const socket = await openPath(options, timeouts.connectMs)
  options.onPhaseEnd?.('connect')
  if ('kind' in socket) return socket
  const ends = options.proxy ? { remoteAddress: options.address, localAddress: options.localAddress } : socket
  const { remoteAddress = options.address, localAddress = '' } = ends
  const channel = new SmtpChannel(socket, { clock: options.clock, transcript: options.transcript })
  const { abort } = options
  const onAbort = () => abort && channel.fail(abort.failure)
  if (abort?.signal.aborted) onAbort()
  abort?.signal.addEventListener('abort', onAbort)
  const session = await openSession(channel, options, timeouts)
  abort?.signal.removeEventListener('abort', onAbort)
  if ('kind' in session) {
    // After a rejected greeting the client must send QUIT (RFC 5321 §3.1), but need not wait for the reply.
    if (session.kind === 'refused') channel.writeCommand('QUIT\r\n')
    channel.fail({ kind: 'closed', message: 'The session was not opened' })
    return session
  }
  return { kind: 'connected', client: new SmtpClient({ channel, timeouts, remoteAddress, localAddress, ...session }) }
}

async function openPath(options: SmtpConnectOptions, timeoutMs: number): Promise<Socket | NotConnected> {
  const { address, port, proxy, clock, abort } = options
  const end = proxy ? { address: proxy.host, port: proxy.port, clock, abort } : options
  const socket = await openSocket(end, timeoutMs)
  if (!proxy) return 'kind' in socket ? toFailure('connect', socket) : socket
  if ('kind' in socket) {
    // Without its address, which those who read why their mail waits need not know.
    const silence = socket.kind === 'timeout' ? `did not answer within ${timeoutMs / 1000} s` : 'cannot be reached'
    return toFailure('proxy', { ...socket, message: socket.kind === 'refused' ? 'refuses connections' : silence })
  }
  // Loaded on demand, because few services have a proxy.
  const { requestConnection } = await import('../socks/connect.ts')
  const failed = await requestConnection(socket, proxy, { address, port }, { clock, timeoutMs, signal: abort?.signal })
  if (!failed) return socket
  const { by, kind, message } = failed
  return toFailure(by === 'target' ? 'connect' : by, { kind, message })
}

type SocketOptions = Pick<SmtpConnectOptions, 'address' | 'port' | 'localAddress' | 'clock'> & {
  readonly abort?: SmtpConnectOptions['abort'] | undefined
}

function openSocket(options: SocketOptions, timeoutMs: number): Promise<Socket | SmtpFailure> {
  return new Promise((resolve) => {
    const socket = connect({
      host: options.address,
      port: options.port,
      noDelay: true,
      ...(options.localAddress !== undefined && { localAddress: options.localAddress }),
    })
    const timer = options.clock.after(timeoutMs, () => {
      finish({ kind: 'timeout', message: `No connection to ${options.address} within ${timeoutMs / 1000} s` })
      socket.destroy()
    })
    const { abort } = options
    const onAbort = () => {
      if (abort) finish(abort.failure)
      socket.destroy()
    }
    abort?.signal.addEventListener('abort', onAbort)
    const finish = (result: Socket | SmtpFailure) => {
      timer.cancel()
      abort?.signal.removeEventListener('abort', onAbort)
      resolve(result)
    }
    socket.once('connect', () => finish(socket))
    // The error listener stays: without it, a second error of a failed socket would be an uncaught exception.
    socket.on('error', (error) => finish(toSmtpFailure(error)))
  })
}

type Session = Pick<SmtpClient, 'extensions' | 'tls'>

async function openSession(
  channel: SmtpChannel,
  options: SmtpConnectOptions,
  timeouts: SmtpTimeouts,
): Promise<Session | NotConnected> {
  const secure = () => channel.startTls(options, timeouts.tlsHandshakeMs)
  let tls: SmtpTls | undefined
  if (options.tls === 'implicit') {
    const secured = await secure()
    options.onPhaseEnd?.('tls')
    if ('kind' in secured) return toFailure('tls', secured)
    tls = secured
  }

  const greeting = await channel.readReply(timeouts.greetingMs, 'the connection (the greeting)')
  options.onPhaseEnd?.('greeting')
  const notGreeted = checkReply(220, 'greeting', greeting)
  if (notGreeted) return notGreeted
  let extensions = await sendGreeting(channel, options, timeouts)
  if ('kind' in extensions) return extensions

  if (options.tls === 'opportunistic' || options.tls === 'required') {
    const required = options.tls === 'required'
    if (extensions.startTls) {
      channel.writeCommand('STARTTLS\r\n')
      const answer = await channel.readReply(timeouts.ehloMs, 'STARTTLS')
      const notStarted = checkReply(220, 'starttls', answer)
      const continuesInPlaintext = !required && notStarted?.kind === 'refused' && notStarted.reply.code !== 421
      if (notStarted && !continuesInPlaintext) return notStarted
      if (!notStarted) {
        const secured = await secure()
        options.onPhaseEnd?.('tls')
        if ('kind' in secured) return toFailure(secured.kind === 'protocol' ? 'starttls' : 'tls', secured)
        tls = secured
        // Forgets the extensions that the server offered in plaintext, because anyone may have injected them (RFC 3207
        // §4.2).
        extensions = await sendGreeting(channel, options, timeouts)
        if ('kind' in extensions) return extensions
      }
    } else if (required) {
      return toFailure('starttls', {
        kind: 'tls',
        message: 'The server does not offer STARTTLS',
        code: TLS_FAILURE_CODES.notOffered,
      })
    }
  }

  if (options.auth) {
    if (!tls && options.allowPlaintextAuth !== true) {
      return toFailure('auth', { kind: 'tls', message: 'A password is not sent without TLS' })
    }
    const notAuthenticated = await authenticate(channel, extensions.auth, options.auth, timeouts.authMs)
    options.onPhaseEnd?.('auth')
    if (notAuthenticated) return notAuthenticated
  }
  return { extensions, tls }
}

/** Sends EHLO, or HELO if the server does not know EHLO. */
async function sendGreeting(
  channel: SmtpChannel,
  options: SmtpConnectOptions,
  timeouts: SmtpTimeouts,
): Promise<SmtpExtensions | NotConnected> {
  channel.writeCommand(formatGreetingCommand('EHLO', options.ehloName))
  const ehlo = await channel.readReply(timeouts.ehloMs, 'EHLO')
  options.onPhaseEnd?.('ehlo')
  if (isReply(ehlo) && ehlo.code >= 500) {
    channel.writeCommand(formatGreetingCommand('HELO', options.ehloName))
    const helo = await channel.readReply(timeouts.ehloMs, 'HELO')
    options.onPhaseEnd?.('ehlo')
    return checkReply(250, 'ehlo', helo) ?? NO_EXTENSIONS
  }
  return checkReply(250, 'ehlo', ehlo) ?? (isReply(ehlo) ? parseExtensions(ehlo) : NO_EXTENSIONS)
}

/** Returns how the session ends if the reply is not the expected one; undefined if it is. */
function checkReply(
  code: number,
  phase: 'greeting' | 'ehlo' | 'starttls',
  answer: ReplyOrFailure,
): NotConnected | undefined {
  if (!isReply(answer)) return toFailure(phase, answer)
  if (answer.code === code) return undefined
  if (answer.code >= 400) return { kind: 'refused', phase, reply: answer }
  return toFailure(phase, { kind: 'protocol', message: `The server answered ${answer.text} instead of ${code}` })
}

type FailurePhase = Extract<ConnectResult, { kind: 'failed' }>['phase']

const toFailure = (phase: FailurePhase, failure: SmtpFailure): NotConnected => ({ kind: 'failed', phase, failure })

interface SmtpCredentials {
  readonly user: string
  readonly password: string
}

/**
 * Authenticates with the first of PLAIN (RFC 4616) and LOGIN that the server offers. Passwords never reach the transcript.
 * Returns how the session ends if that fails.
 */
async function authenticate(
  channel: SmtpChannel,
  mechanisms: readonly string[],
  credentials: SmtpCredentials,
  timeoutMs: number,
): Promise<NotConnected | undefined> {
  const { user, password } = credentials
  let steps: Step[]
  if (mechanisms.includes('PLAIN')) {
    const response = encodeBase64(`\0${user}\0${password}`)
    steps = [{ line: `AUTH PLAIN ${response}`, transcriptText: 'AUTH PLAIN [credentials]' }]
  } else if (mechanisms.includes('LOGIN')) {
    steps = [
      { line: 'AUTH LOGIN', transcriptText: 'AUTH LOGIN' },
      { line: encodeBase64(user), transcriptText: '[user]' },
      { line: encodeBase64(password), transcriptText: '[password]' },
    ]
  } else {
    return toFailure('auth', { kind: 'other', message: 'The server offers neither AUTH PLAIN nor AUTH LOGIN' })
  }
  for (const [index, step] of steps.entries()) {
    channel.writeCommand(`${step.line}\r\n`, 1, step.transcriptText)
    const answer = await channel.readReply(timeoutMs, 'AUTH')
    if (!isReply(answer)) return toFailure('auth', answer)
    if (answer.code >= 400) return { kind: 'refused', phase: 'auth', reply: answer }
    if (answer.code !== (index < steps.length - 1 ? 334 : 235))
      return toFailure('auth', { kind: 'protocol', message: `The server answered AUTH with ${answer.text}` })
  }
  return undefined
}

interface Step {
  readonly line: string
  readonly transcriptText: string
}

const encodeBase64 = (text: string): string => Buffer.from(text).toString('base64')
