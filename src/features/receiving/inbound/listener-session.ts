/**
 * @module One SMTP session with a stranger: smtp-server's, with the bounds, the address syntax and the reading of messages replaced by our own. Knows
 * nothing of the main thread; what it needs decided it asks `SessionHost`.
 */
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { SMTPServer, SMTPServerDataStream } from 'smtp-server'
import { SMTPConnection, type SMTPConnectionOptions } from 'smtp-server/lib/smtp-connection.js'
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js'
import type { Destination, Refusal } from '#features/receiving/received/message.ts'
import { KiB } from '#platform/units.ts'
import { DataDecoder } from './listener-data.ts'
import { parsePath } from './listener-path.ts'
import type { ListenerLimits } from './listener-protocol.ts'
import type { Stage } from './listener-slots.ts'
import type { Draft, Spool } from './listener-spool.ts'

export interface SessionHost {
  readonly limits: ListenerLimits
  readonly spool: Spool
  readonly maxMessageBytes: number
  /** That of the client, the largest that one customer may have. */
  readonly network: string
  isDraining(): boolean
  monotonicMs(): number
  /** Called with the number of octets of each piece that was read. */
  onOctets(count: number): void
  /** Called once, when the connection is gone. */
  onClosed(): void
}

/** What a reply is that smtp-server sends for us; the enhanced status code (RFC 3463) stands at the start of the text. */
export class SmtpReplyError extends Error {
  readonly responseCode: number

  constructor({ code, text }: Refusal) {
    super(text)
    this.responseCode = code
  }
}

const farTooLarge: Refusal = { code: 552, text: '5.3.4 The message is far too large' }
const tooFarAhead: Refusal = { code: 554, text: '5.5.0 Too much was said without waiting for replies' }
const IDLE = '4.4.2 No mail has come for too long'
/** What smtp-server calls the replies after which a client is closer to a message. */
const PROGRESS: ReadonlySet<unknown> = new Set(['MAIL_FROM_OK', 'RCPT_TO_OK', 'DATA_OK'])
const WITH_ENHANCED_CODE = /^[245]\.\d{1,3}\.\d{1,3} /

/** What a client that does not know when to stop may send beyond the largest message before it is cut off. */
const FLOOD_FACTOR = 2
/** About what is on its way when a client hears that it should stop. */
const MOST_UNHEARD_BYTES = 256 * KiB

export class InboundSession extends SMTPConnection {
  /** Who the message is for, by address as in the envelope. */
  readonly destinations = new Map<string, Destination>()
  /** `TLSv1.3 TLS_AES_256_GCM_SHA384`; null: in clear. */
  tls: string | null = null
  readonly #host: SessionHost
  #isReported = false
  readonly #openedAtMs: number
  #progressAtMs: number
  /** When the command came that has no reply yet. */
  #commandAtMs: number | undefined
  #commands = 0
  #mistakes = 0
  #refusedRecipients = 0

  constructor(
    server: SMTPServer,
    socket: Socket | TLSSocket,
    options: SMTPConnectionOptions | null,
    host: SessionHost,
  ) {
    super(server, socket, options)
    this.#host = host
    this.#openedAtMs = host.monotonicMs()
    this.#progressAtMs = this.#openedAtMs
    this.on('error', () => {})
  }

  /** The message that arrives or is being answered. */
  get draft(): Draft | undefined {
    return this._parser instanceof InboundParser ? this._parser.draft : undefined
  }

  /** Whether a message is under way: from its 354 to our reply. */
  get hasMessage(): boolean {
    return Boolean(this._dataStream)
  }

  /** RFC 5321 §4.1.1.4: the recipients are there, and the end of DATA is our turn. */
  get isOurTurn(): boolean {
    return this._handlerPending || (this.hasMessage && this._parser !== false && !this._parser._dataMode)
  }

  get socket(): Socket | TLSSocket {
    return this._socket
  }

  /** Undefined: it waits for us. */
  get stage(): Stage | undefined {
    if (this._closing || this._closed) return 'ended'
    if (this.isOurTurn) return undefined
    if (this.hasMessage) return 'message'
    return this.session.envelope?.mailFrom ? 'envelope' : 'idle'
  }

  /** When the client last came closer to a message; of one that arrives, when it began. */
  get progressAtMs(): number {
    return this.#progressAtMs
  }

  /** Gives the client time for its next step. What only keeps a connection open, such as NOOP and RSET, gives none. */
  recordProgress(): void {
    this.#progressAtMs = this.#host.monotonicMs()
  }

  /** A message was taken: what it took is forgiven, for those who bring many in one session. */
  forgive(): void {
    this.#commands = 0
    this.#mistakes = 0
  }

  refuseRecipient(): void {
    this.#refusedRecipients++
    // The reply that follows counts as a mistake, and this one is none.
    this.#mistakes--
  }

  /** Ends the session when it broke a bound in time. */
  sweep(nowMs: number): void {
    if (this._closing || this._closed || this.isOurTurn) return
    const { limits } = this.#host
    const parser = this._parser
    if (parser instanceof InboundParser && parser._dataMode) {
      const openMs = nowMs - parser.dataSinceMs
      const isSlow = openMs > limits.slowGraceMs && parser.receivedBytes < (limits.leastBytesPerSecond * openMs) / 1000
      if (isSlow || openMs > limits.messageMs) this.send(421, '4.4.2 The message comes too slowly')
      return
    }
    if (nowMs - this.#openedAtMs > limits.sessionMs) this.send(421, '4.4.2 The session has lasted too long')
    else if (nowMs - this.#progressAtMs > limits.idleMs) this.send(421, IDLE)
  }

  /** No octet has come for `idleMs`, also of a message; `sweep` sees to those who let octets trickle. */
  override _onTimeout(): void {
    if (this._closing || this.isOurTurn) super._onTimeout()
    else this.send(421, IDLE)
  }

  /** RFC 5321 §3.8: a session is told before it ends. One with a message under way gets the reply to it first. */
  drain(): void {
    if (!this.hasMessage) this.send(421, '4.3.2 The service is stopping')
  }

  /** Says no more and reads to the end, so that our last words are heard; not from those who do not stop talking. */
  override close(): void {
    const wasClosing = this._closing
    super.close()
    if (wasClosing || this._upgrading || this._socket.destroyed) return
    const socket = this._socket
    let unheardBytes = 0
    socket.on('data', (chunk: Buffer) => {
      this.#host.onOctets(chunk.length)
      unheardBytes += chunk.length
      if (unheardBytes > MOST_UNHEARD_BYTES) socket.destroy()
    })
  }

  override send(code: number, data?: string | string[] | null, context?: string | false): void {
    // While a client waits for a reply its idle time stands still.
    if (this.#commandAtMs !== undefined) this.#progressAtMs += this.#host.monotonicMs() - this.#commandAtMs
    this.#commandAtMs = undefined
    if (code === 354 || PROGRESS.has(context)) this.recordProgress()
    if (code >= 500) this.#mistakes++
    const bringsItsCode = typeof data === 'string' && WITH_ENHANCED_CODE.test(data)
    super.send(code, data, bringsItsCode ? false : context)
  }

  override _onCommand(command: Buffer, callback?: () => void): void {
    // What came before the end of a handshake is thrown away there, without a word.
    const ending = this._upgrading ? undefined : this.#reasonToEnd()
    this.#commandAtMs = this.#host.monotonicMs()
    if (ending === undefined) super._onCommand(command, callback)
    else this.send(421, ending)
  }

  /** Why there is no answer to another command; counts it. */
  #reasonToEnd(): string | undefined {
    const { limits } = this.#host
    this.#commands++
    if (this.#host.isDraining()) return '4.3.2 The service is stopping'
    if (this.#commands > limits.commands) return '4.7.0 Too many commands in one session'
    if (this.#mistakes >= limits.mistakes) return '4.7.0 Too many mistakes in one session'
    if (this.#refusedRecipients >= limits.refusedRecipients) return '4.7.0 Too many unknown recipients in one session'
    return undefined
  }

  override _createParser(): SMTPStream {
    const parser = new InboundParser({
      maxCommandLength: this._server.options.maxCommandLength,
      // Called while the base class is made: the host is known only later.
      begin: () => ({ draft: this.#host.spool.begin(this.#host.network), nowMs: this.#host.monotonicMs() }),
      onOctets: (count) => this.#host.onOctets(count),
      mostMessageBytes: () => this.mostMessageBytes,
      mostBytes: () => this.#host.maxMessageBytes * FLOOD_FACTOR,
      mostAheadBytes: () => this.#host.limits.aheadBytes,
      onExcess: ({ code, text }) => {
        this.send(code, text)
        this.close()
      },
    })
    parser.oncommand = (command, callback) => this._onCommand(command, callback)
    parser.on('error', () => {
      this.send(500, '5.5.2 The command line is too long')
      this.close()
    })
    return parser
  }

  /** Largest message to the recipients that were accepted: smaller when none of them is a tenant's. */
  get mostMessageBytes(): number {
    const { maxMessageBytes, limits } = this.#host
    const isForTenant = this.destinations.values().some(({ kind }) => kind === 'domain')
    return isForTenant ? maxMessageBytes : Math.min(maxMessageBytes, limits.hostMessageBytes)
  }

  /** Octets that MAIL announced (RFC 1870); 0 when it did not. */
  get announcedBytes(): number {
    const { mailFrom } = this.session.envelope
    if (mailFrom === false) return 0
    const size = mailFrom.args ? mailFrom.args['SIZE'] : undefined
    return typeof size === 'string' ? Number(size) : 0
  }

  override _resetSession(): void {
    super._resetSession()
    this.destinations.clear()
  }

  override _onClose(): void {
    const { draft } = this
    // A whole message that waits for its answer is the main thread's already.
    if (this._parser !== false && this._parser._dataMode) draft?.drop()
    super._onClose()
    if (this.#isReported) return
    this.#isReported = true
    this.#host.onClosed()
  }

  override _parseAddressCommand(
    name: string,
    command: Buffer | string,
  ): ReturnType<SMTPConnection['_parseAddressCommand']> {
    const path = parsePath(name === 'mail from' ? 'MAIL' : 'RCPT', command.toString())
    return path.kind === 'ok' && { address: path.address, args: Object.fromEntries(path.parameters) }
  }

  override handler_MAIL(command: Buffer, callback: () => void): void {
    const path = parsePath('MAIL', command.toString())
    if (this.#refusesPath(path, path.kind === 'ok' && path.parameters.has('SMTPUTF8'))) callback()
    else super.handler_MAIL(command, callback)
  }

  override handler_RCPT(command: Buffer, callback: () => void): void {
    const path = parsePath('RCPT', command.toString())
    if (this.#refusesPath(path, this.session.envelope.smtpUtf8 === true)) callback()
    else super.handler_RCPT(command, callback)
  }

  #refusesPath(path: ReturnType<typeof parsePath>, hasSmtpUtf8: boolean): boolean {
    if (path.kind === 'unknown parameter') {
      this.send(555, `5.5.4 The parameter ${path.name} is not known here`)
      return true
    }
    // RFC 6531 §3.4.
    if (path.kind === 'ok' && path.needsSmtpUtf8 && !hasSmtpUtf8) {
      this.send(553, '5.6.7 An address that is not ASCII needs SMTPUTF8')
      return true
    }
    return false
  }

  override handler_DATA(command: Buffer, callback: () => void): void {
    // RFC 5321 §3.3: MAIL was there, and every RCPT was refused.
    if (this.session.envelope.mailFrom && this.session.envelope.rcptTo.length === 0) {
      this.send(554, '5.5.1 There is no valid recipient')
      callback()
    } else super.handler_DATA(command, callback)
  }
}

interface ParserOptions {
  readonly maxCommandLength: number | undefined
  readonly begin: () => { readonly draft: Draft; readonly nowMs: number }
  readonly onOctets: (count: number) => void
  /** Of a message that may be taken. */
  readonly mostMessageBytes: () => number
  /** Of one that is read. */
  readonly mostBytes: () => number
  /** Octets that may wait while no message is read. */
  readonly mostAheadBytes: () => number
  /** Ends the session. */
  readonly onExcess: (reply: Refusal) => void
}

/** Commands as smtp-server reads them; messages go into a `Draft` by our own reading, and their stream tells only that they began and ended. */
class InboundParser extends SMTPStream {
  draft: Draft | undefined
  dataSinceMs = 0
  /** Octets of this message as they came. */
  receivedBytes = 0
  readonly #options: ParserOptions
  #decoder = new DataDecoder()

  constructor(options: ParserOptions) {
    super(options.maxCommandLength === undefined ? {} : { maxCommandLength: options.maxCommandLength })
    this.#options = options
  }

  override startDataMode(): SMTPServerDataStream {
    const stream = super.startDataMode(this.#options.mostMessageBytes())
    const { draft, nowMs } = this.#options.begin()
    this.draft = draft
    this.dataSinceMs = nowMs
    this.receivedBytes = 0
    this.#decoder = new DataDecoder()
    return stream
  }

  /**
   * RFC 2920 §3.1: who sends DATA waits for its reply, so what waits outside of a message is a group of commands. Without this bound each session
   * could make us hold what one read of a socket brings, half a megabyte.
   */
  override write(chunk: Buffer, ...others: unknown[]): boolean {
    if (!this._dataMode) this.#options.onOctets(chunk.length)
    if (this._dataMode || this.isClosed || this.writableLength + chunk.length <= this.#options.mostAheadBytes())
      return Reflect.apply(super.write, this, [chunk, ...others])
    this.#options.onExcess(tooFarAhead)
    return true
  }

  override _feedDataStream(chunk: Buffer, done: (error?: Error | null) => void): void {
    this.receivedBytes += chunk.length
    this.#options.onOctets(chunk.length)
    const rest = this.#decoder.take(chunk, (content) => {
      this._countDataBytes(content.length)
      // Nothing of a message that is too large is kept; it is read to its end for the reply to be heard.
      if (this.dataBytes > this._maxBytes) this.draft?.drop()
      else this.draft?.write(content)
    })
    if (rest) {
      if (rest.length > this.#options.mostAheadBytes()) {
        this.#options.onExcess(tooFarAhead)
        done()
        return
      }
      // A copy: what was read in one piece with it must not wait for the reply to the message.
      this._endDataMode(false, Buffer.from(rest), done)
      return
    }
    if (this.dataBytes > this.#options.mostBytes()) this.#options.onExcess(farTooLarge)
    done()
  }

  /** What stands without its line end when the client is gone was no command. */
  override _flushData(): void {}
}
