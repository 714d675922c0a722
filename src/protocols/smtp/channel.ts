/**
 * @module One SMTP connection as commands and replies: writes with backpressure, matches replies to commands, limits
 * each wait, and starts TLS. Knows nothing about transactions and never reconnects.
 */
import { isIP, type Socket } from 'node:net'
import { type DetailedPeerCertificate, type SecureContext, type TLSSocket, connect as tlsConnect } from 'node:tls'
import type { Clock, Timer } from '#platform/time/clock.ts'
import { findTlsaMismatch, type TlsaRecord } from './dane.ts'
import { type SmtpFailure, TLS_FAILURE_CODES, toSmtpFailure } from './failures.ts'
import { ReplyParser, type SmtpReply } from './replies.ts'

export type ReplyOrFailure = SmtpReply | SmtpFailure

/** A failure of TLS has a `code` too. */
export const isReply = (result: ReplyOrFailure): result is SmtpReply => 'lines' in result

/** Called with every line of a session, but never with a password or the octets of a message. */
export type SmtpTranscript = (direction: 'client' | 'server', line: string) => void

export interface ChannelOptions {
  readonly clock: Clock
  readonly transcript?: SmtpTranscript | undefined
}

export interface SecureOptions {
  /**
   * The server's name, used for SNI, the certificate check and error messages. An IP address is only looked for in the
   * certificate, not sent (RFC 6066 §3).
   */
  readonly host: string
  /**
   * True: an invalid certificate makes the connection fail. False: an invalid certificate is accepted, and `client.tls`
   * states why it is invalid.
   */
  readonly verifyCertificate: boolean
  /**
   * Usable TLSA records of the server (RFC 7672 §3): the certificate must match one of them, and need not be valid
   * otherwise.
   */
  readonly tlsa?: readonly TlsaRecord[] | undefined
  /** CA certificates in PEM, instead of the system's. */
  readonly ca?: string | undefined
  /** Replaces the default TLS context, and `ca`. Created once, because it takes longer than a handshake. */
  readonly secureContext?: SecureContext | undefined
}

/** The TLS session of a connection. */
export interface SmtpTls {
  /** TLS version, such as `TLSv1.3`. */
  readonly protocol: string
  readonly cipher: string
  /** Whether the certificate is valid: its chain, its dates and its name. */
  readonly authorized: boolean
  /** Why the certificate is not valid, as OpenSSL or Node names the reason, such as `DEPTH_ZERO_SELF_SIGNED_CERT`. */
  readonly authorizationError?: string
  /** The certificate was checked against TLSA records, and matches. */
  readonly matchesTlsa?: true
}

/**
 * A connected socket that speaks SMTP. The first failure is stored and ends the connection; replies received before the
 * failure are still returned. A reply for which there was no command is such a failure (of kind `closed` if the reply
 * is a 421, RFC 5321 §3.8).
 */
export class SmtpChannel {
  readonly #options: ChannelOptions
  readonly #raw: Socket
  #socket: Socket | TLSSocket
  #parser: ReplyParser
  #replies: SmtpReply[] = []
  /** Number of replies that are still due to commands already written, at first 1 for the greeting. */
  #expectedReplies = 1
  #failure: SmtpFailure | undefined
  #unsolicitedReply: SmtpReply | undefined
  #isSecuring = false
  #onReplyOrFailure: ((result: ReplyOrFailure) => void) | undefined
  #onFlushed: ((flushed: boolean) => void) | undefined
  #onHandshakeFailed: ((failure: SmtpFailure) => void) | undefined
  #timer: Timer | undefined

  /** @param socket a connected socket, which the channel owns from now on */
  constructor(socket: Socket, options: ChannelOptions) {
    this.#options = options
    this.#raw = socket
    this.#socket = socket
    this.#parser = new ReplyParser(this.#onReply)
    // The socket below a TLS session also emits errors, which are ignored: only the session's own error counts.
    socket.on('error', ignore)
    this.#listenTo(socket)
  }

  get failure(): SmtpFailure | undefined {
    return this.#failure
  }

  /** The reply that ended the connection because there was no command for it; undefined when there was none. */
  get unsolicitedReply(): SmtpReply | undefined {
    return this.#unsolicitedReply
  }

  /** Whether a received reply has not been read with `readReply` yet. */
  get hasReply(): boolean {
    return this.#replies.length > 0
  }

  /** Writes commands, each line ending in CRLF. The transcript gets `transcriptText` instead, which hides secrets. */
  writeCommand(lines: string, replyCount = 1, transcriptText = lines): void {
    if (this.#failure) return
    if (this.#parser.isPartial) {
      this.fail({ kind: 'protocol', message: 'The server began an unsolicited reply' })
      return
    }
    this.#expectedReplies += replyCount
    if (this.#options.transcript) {
      for (const line of transcriptText.trimEnd().split('\r\n')) this.#options.transcript('client', line)
    }
    this.#socket.write(lines)
  }

  /**
   * Announces that the server will reply to what `write` is going to send. Puts `note` into the transcript instead of
   * the octets.
   */
  expectReply(note: string): void {
    this.#expectedReplies++
    this.#options.transcript?.('client', note)
  }

  /**
   * Writes octets of a message. Returns false when the socket has to buffer them; then call `waitForDrain` before
   * writing more.
   */
  write(block: Uint8Array): boolean {
    return this.#failure === undefined && this.#socket.write(block)
  }

  /**
   * Waits until the socket has passed on what was written. Resolves to false when a reply or a failure, including a
   * timeout, comes first.
   */
  waitForDrain(timeoutMs: number): Promise<boolean> {
    if (this.#failure || this.#replies.length > 0) return Promise.resolve(false)
    return new Promise((resolve) => {
      this.#startTimer(timeoutMs, 'The server accepted no more of the message')
      this.#onFlushed = resolve
    })
  }

  /** Returns the next reply. `awaited` names the command, for the timeout message. */
  readReply(timeoutMs: number, awaited: string): ReplyOrFailure | Promise<ReplyOrFailure> {
    const reply = this.#replies.shift()
    if (reply) return reply
    if (this.#failure) return this.#failure
    return new Promise((resolve) => {
      this.#startTimer(timeoutMs, `No reply to ${awaited}`)
      this.#onReplyOrFailure = resolve
    })
  }

  /**
   * Starts TLS and waits for the end of the handshake. Octets received in plaintext after the reply to STARTTLS end the
   * connection: anyone may have injected them (RFC 3207 §5, CVE-2011-0411).
   */
  async startTls(options: SecureOptions, timeoutMs: number): Promise<SmtpTls | SmtpFailure> {
    if (this.#parser.isPartial) this.fail({ kind: 'protocol', message: 'The server sent plaintext data before TLS' })
    if (this.#failure) return this.#failure
    this.#stopListeningTo(this.#raw)
    this.#parser = new ReplyParser(this.#onReply)
    this.#isSecuring = true
    const host = options.host.replace(/\.$/, '')
    let socket: TLSSocket
    try {
      socket = tlsConnect({
        socket: this.#raw,
        host,
        ...(isIP(host) === 0 && { servername: host }),
        ...(options.ca !== undefined && { ca: options.ca }),
        ...(options.secureContext && { secureContext: options.secureContext }),
        rejectUnauthorized: options.verifyCertificate,
      })
    } catch (error) {
      // OpenSSL parses `ca` here, and throws if it is invalid.
      return this.fail(toSmtpFailure(error, true))
    }
    this.#socket = socket
    this.#listenTo(socket)
    const failure = await new Promise<SmtpFailure | undefined>((resolve) => {
      this.#startTimer(timeoutMs, 'The TLS handshake did not end')
      this.#onHandshakeFailed = resolve
      socket.once('secureConnect', () => resolve(undefined))
    })
    this.#stopTimer()
    this.#onHandshakeFailed = undefined
    this.#isSecuring = false
    return failure ?? this.#failure ?? this.#checkPeer(socket, host, options) ?? describeTls(socket, options.tlsa)
  }

  /**
   * Ends the connection and returns why, if a checked session is older than TLS 1.2 (RFC 8461 §4.2, RFC 7672 §3) or the
   * certificate does not match the records.
   */
  #checkPeer(socket: TLSSocket, host: string, { tlsa, verifyCertificate }: SecureOptions): SmtpFailure | undefined {
    const isOld = (verifyCertificate || tlsa) && !MODERN_TLS.has(socket.getProtocol() ?? '')
    const mismatch = isOld
      ? { code: TLS_FAILURE_CODES.oldVersion, message: 'The TLS version is older than 1.2' }
      : tlsa && findTlsaMismatch(readChain(socket), tlsa, host, this.#options.clock.now())
    return mismatch && this.fail({ kind: 'tls', ...mismatch })
  }

  /**
   * Ends the connection. All waiting calls end with this failure, or with an earlier one if there was one.
   * @returns this failure
   */
  fail(failure: SmtpFailure): SmtpFailure {
    if (this.#failure) return failure
    this.#failure = failure
    this.#stopTimer()
    this.#socket.destroy()
    this.#raw.destroy()
    const onAnswer = this.#onReplyOrFailure
    const onFlushed = this.#onFlushed
    this.#onReplyOrFailure = undefined
    this.#onFlushed = undefined
    onAnswer?.(failure)
    onFlushed?.(false)
    this.#onHandshakeFailed?.(failure)
    return failure
  }

  #listenTo(socket: Socket): void {
    for (const [event, listener] of Object.entries(this.#listeners)) socket.on(event, listener)
  }

  #stopListeningTo(socket: Socket): void {
    for (const [event, listener] of Object.entries(this.#listeners)) socket.off(event, listener)
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#failure) return
    const problem = this.#parser.push(chunk)
    if (problem !== undefined) this.fail({ kind: 'protocol', message: `The server sent ${problem}` })
  }

  readonly #onReply = (reply: SmtpReply): void => {
    if (this.#failure) return
    if (this.#options.transcript) recordReply(this.#options.transcript, reply)
    if (this.#expectedReplies === 0) {
      this.#unsolicitedReply = reply
      const kind = reply.code === 421 ? 'closed' : 'protocol'
      this.fail({ kind, message: `The server sent an unsolicited reply: ${reply.text}` })
      return
    }
    this.#expectedReplies--
    const onAnswer = this.#onReplyOrFailure
    if (onAnswer) {
      this.#onReplyOrFailure = undefined
      this.#stopTimer()
      onAnswer(reply)
      return
    }
    this.#replies.push(reply)
    this.#resolveFlush(false)
  }

  #resolveFlush(flushed: boolean): void {
    const onFlushed = this.#onFlushed
    if (!onFlushed) return
    this.#onFlushed = undefined
    this.#stopTimer()
    onFlushed(flushed)
  }

  readonly #onEnd = () => this.fail({ kind: 'closed', message: 'The server closed the connection' })

  /** Of the socket, by event. */
  readonly #listeners = {
    data: this.#onData,
    drain: () => this.#resolveFlush(true),
    end: this.#onEnd,
    close: this.#onEnd,
    error: (error: unknown) => this.fail(toSmtpFailure(error, this.#isSecuring)),
  }

  #startTimer(timeoutMs: number, what: string): void {
    this.#timer = this.#options.clock.after(timeoutMs, () => {
      this.fail({ kind: 'timeout', message: `${what} within ${timeoutMs / 1000} s` })
    })
  }

  #stopTimer(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }
}

function ignore(): void {}

function recordReply(transcript: SmtpTranscript, reply: SmtpReply): void {
  for (const [index, line] of reply.lines.entries()) {
    transcript('server', `${reply.code}${index < reply.lines.length - 1 ? '-' : ' '}${line}`)
  }
}

const MODERN_TLS: ReadonlySet<string> = new Set(['TLSv1.2', 'TLSv1.3'])
/** Limits the certificates of a server that are looked at. */
const MAX_CHAIN_LENGTH = 10

/** The certificates of the server in DER: its own first, then the issuer of each, as far as known. */
function readChain(socket: TLSSocket): Buffer[] {
  const chain: Buffer[] = []
  let certificate: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true)
  while (certificate?.raw && chain.length < MAX_CHAIN_LENGTH) {
    chain.push(certificate.raw)
    // A self-signed certificate is its own issuer.
    certificate = certificate.issuerCertificate === certificate ? undefined : certificate.issuerCertificate
  }
  return chain
}

function describeTls(socket: TLSSocket, tlsa: SecureOptions['tlsa']): SmtpTls {
  const session = {
    protocol: socket.getProtocol() ?? 'unknown',
    cipher: socket.getCipher()?.name ?? 'unknown',
    authorized: socket.authorized,
    ...(tlsa && { matchesTlsa: true as const }),
  }
  // The type is Error, but Node and Bun set a string.
  const error: unknown = socket.authorizationError
  if (socket.authorized || !error) return session
  return { ...session, authorizationError: error instanceof Error ? error.message : String(error) }
}
