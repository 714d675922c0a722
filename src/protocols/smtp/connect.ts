/**
 * @module From an address and a port to a session that is ready for MAIL: TCP, greeting, EHLO, STARTTLS, AUTH (RFC 5321 §3.1 and §3.2,
 * RFC 3207, RFC 4954). One attempt at one address: no DNS, no second try.
 */
import { connect, type Socket } from 'node:net'
import type { Clock } from '#platform/clock.ts'
import { authenticate, type SmtpCredentials } from './auth.ts'
import { type Answer, isReply, SmtpChannel, type SmtpTls, type SmtpTranscript } from './channel.ts'
import { SmtpClient } from './client.ts'
import { greetingCommand } from './commands.ts'
import { extensionsOf, noExtensions, type SmtpExtensions } from './extensions.ts'
import { failureFromError, type SmtpFailure } from './failures.ts'
import { defaultMaxReplyBytes, type SmtpReply } from './replies.ts'
import { defaultSmtpTimeouts, type SmtpTimeouts } from './timeouts.ts'

export interface SmtpConnectOptions {
  /** The server's name: for SNI, the certificate check and messages. */
  readonly host: string
  /** The IP address to dial, or a name that the system resolves. */
  readonly address: string
  readonly port: number
  /** The IP address to dial from. */
  readonly localAddress?: string
  /** What this side calls itself: a domain or an address literal. */
  readonly ehloName: string
  readonly clock: Clock
  /** Milliseconds; what is absent is as in RFC 5321 §4.5.3.2. */
  readonly timeouts?: Partial<SmtpTimeouts>
  /**
   * `opportunistic`: STARTTLS when offered; goes on in the clear when the server then refuses it (454), fails when the handshake fails.
   * `implicit`: TLS from the first octet (RFC 8314).
   */
  readonly tls: 'never' | 'opportunistic' | 'required' | 'implicit'
  /** True: a bad certificate fails the connection. False: it is accepted, and `client.tls` says what is wrong with it. */
  readonly verifyCertificate: boolean
  /** Certificates in PEM that may issue the server's, instead of the system's. */
  readonly ca?: string
  readonly auth?: SmtpCredentials
  /** Whether a password may cross the network in the clear. Default: no. */
  readonly allowPlaintextAuth?: boolean
  /** Default 64 KiB. */
  readonly maxReplyBytes?: number
  /** Ends the attempt with this failure, in whatever phase it is. Does nothing any more once the session is open. */
  readonly abort?: { readonly signal: AbortSignal; readonly failure: SmtpFailure }
  /** Told of each line of the session; never of passwords or message octets. */
  readonly transcript?: SmtpTranscript
}

/** `refused`: the server said no. `failed`: the network, TLS or something that is no SMTP did. Either way no connection is left open. */
export type ConnectResult =
  | { readonly kind: 'connected'; readonly client: SmtpClient }
  | {
      readonly kind: 'failed'
      readonly phase: 'connect' | 'greeting' | 'ehlo' | 'starttls' | 'tls' | 'auth'
      readonly failure: SmtpFailure
    }
  | { readonly kind: 'refused'; readonly phase: 'greeting' | 'ehlo' | 'starttls' | 'auth'; readonly reply: SmtpReply }

type NotConnected = Exclude<ConnectResult, { kind: 'connected' }>

/**
 * Opens a session. Throws only for options that are a bug, such as an `ehloName` with a line break.
 *
 * A server that refuses EHLO with 5xx is greeted with HELO (RFC 5321 §3.2) and then offers no extension.
 */
export async function connectSmtp(options: SmtpConnectOptions): Promise<ConnectResult> {
  greetingCommand('EHLO', options.ehloName)
  const timeouts = { ...defaultSmtpTimeouts, ...options.timeouts }
  const socket = await dial(options, timeouts.connectMs)
  if ('kind' in socket) return failed('connect', socket)
  const { remoteAddress = options.address, localAddress = '' } = socket
  const channel = new SmtpChannel(socket, {
    clock: options.clock,
    maxReplyBytes: options.maxReplyBytes ?? defaultMaxReplyBytes,
    transcript: options.transcript,
  })
  const { abort } = options
  const onAbort = () => abort && channel.fail(abort.failure)
  if (abort?.signal.aborted) onAbort()
  abort?.signal.addEventListener('abort', onAbort)
  const session = await openSession(channel, options, timeouts)
  abort?.signal.removeEventListener('abort', onAbort)
  if ('kind' in session) {
    // A refused greeting asks for QUIT (RFC 5321 §3.1); who is refused need not wait for its reply.
    if (session.kind === 'refused') channel.command('QUIT\r\n')
    channel.fail({ kind: 'closed', message: 'The session was not opened' })
    return session
  }
  return { kind: 'connected', client: new SmtpClient({ channel, timeouts, remoteAddress, localAddress, ...session }) }
}

function dial(options: SmtpConnectOptions, timeoutMs: number): Promise<Socket | SmtpFailure> {
  return new Promise((resolve) => {
    const socket = connect({
      host: options.address,
      port: options.port,
      noDelay: true,
      ...(options.localAddress !== undefined && { localAddress: options.localAddress }),
    })
    const timer = options.clock.after(timeoutMs, () => {
      end({ kind: 'timeout', message: `No connection to ${options.address} within ${timeoutMs / 1000} s` })
      socket.destroy()
    })
    const { abort } = options
    const onAbort = () => {
      if (abort) end(abort.failure)
      socket.destroy()
    }
    abort?.signal.addEventListener('abort', onAbort)
    const end = (result: Socket | SmtpFailure) => {
      timer.cancel()
      abort?.signal.removeEventListener('abort', onAbort)
      resolve(result)
    }
    socket.once('connect', () => end(socket))
    // Stays: a second error of a socket that failed must not become an exception.
    socket.on('error', (error) => end(failureFromError(error)))
  })
}

interface Session {
  readonly extensions: SmtpExtensions
  readonly tls: SmtpTls | undefined
}

async function openSession(
  channel: SmtpChannel,
  options: SmtpConnectOptions,
  timeouts: SmtpTimeouts,
): Promise<Session | NotConnected> {
  const secure = () => {
    const { host, verifyCertificate, ca } = options
    return channel.secure({ host, verifyCertificate, ca, timeoutMs: timeouts.tlsHandshakeMs })
  }
  let tls: SmtpTls | undefined
  if (options.tls === 'implicit') {
    const secured = await secure()
    if ('kind' in secured) return failed('tls', secured)
    tls = secured
  }

  const greeting = await channel.reply(timeouts.greetingMs, 'the connection (the greeting)')
  const notGreeted = unless(220, 'greeting', greeting)
  if (notGreeted) return notGreeted
  let extensions = await greet(channel, options, timeouts)
  if ('kind' in extensions) return extensions

  if (options.tls === 'opportunistic' || options.tls === 'required') {
    const required = options.tls === 'required'
    if (extensions.startTls) {
      channel.command('STARTTLS\r\n')
      const answer = await channel.reply(timeouts.ehloMs, 'STARTTLS')
      const notStarted = unless(220, 'starttls', answer)
      const goesOnInTheClear = !required && notStarted?.kind === 'refused' && notStarted.reply.code !== 421
      if (notStarted && !goesOnInTheClear) return notStarted
      if (!notStarted) {
        const secured = await secure()
        if ('kind' in secured) return failed(secured.kind === 'protocol' ? 'starttls' : 'tls', secured)
        tls = secured
        // What was offered in the clear is forgotten: anybody may have written it (RFC 3207 §4.2).
        extensions = await greet(channel, options, timeouts)
        if ('kind' in extensions) return extensions
      }
    } else if (required) {
      return failed('starttls', { kind: 'tls', message: 'The server does not offer STARTTLS' })
    }
  }

  if (options.auth) {
    if (!tls && options.allowPlaintextAuth !== true) {
      return failed('auth', { kind: 'tls', message: 'A password is not sent without TLS' })
    }
    const login = await authenticate(channel, extensions.auth, options.auth, timeouts.authMs)
    if (login.kind === 'refused') return { kind: 'refused', phase: 'auth', reply: login.reply }
    if (login.kind === 'failed') return failed('auth', login.failure)
  }
  return { extensions, tls }
}

/** EHLO, or HELO where EHLO is not known. */
async function greet(
  channel: SmtpChannel,
  options: SmtpConnectOptions,
  timeouts: SmtpTimeouts,
): Promise<SmtpExtensions | NotConnected> {
  channel.command(greetingCommand('EHLO', options.ehloName))
  const ehlo = await channel.reply(timeouts.ehloMs, 'EHLO')
  if (isReply(ehlo) && ehlo.code >= 500) {
    channel.command(greetingCommand('HELO', options.ehloName))
    const helo = await channel.reply(timeouts.ehloMs, 'HELO')
    return unless(250, 'ehlo', helo) ?? noExtensions
  }
  return unless(250, 'ehlo', ehlo) ?? (isReply(ehlo) ? extensionsOf(ehlo) : noExtensions)
}

/** How the session ends when the answer is not the reply it needs; undefined when it is. */
function unless(code: number, phase: 'greeting' | 'ehlo' | 'starttls', answer: Answer): NotConnected | undefined {
  if (!isReply(answer)) return failed(phase, answer)
  if (answer.code === code) return undefined
  if (answer.code >= 400) return { kind: 'refused', phase, reply: answer }
  return failed(phase, { kind: 'protocol', message: `The server answered ${answer.text} where ${code} was due` })
}

type FailurePhase = Extract<ConnectResult, { kind: 'failed' }>['phase']

const failed = (phase: FailurePhase, failure: SmtpFailure): NotConnected => ({ kind: 'failed', phase, failure })
