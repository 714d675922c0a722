/**
 * @module One SMTP session (RFC 5321) with a remote client: a state machine over its socket, with limits on how much
 * and how slowly the client sends. Knows nothing of the main thread: `SessionHost` decides and stores.
 *
 * opening → ready ⇄ deciding → … → ready → message → storing → ready → … → closing → closed
 *
 * A submission server (RFC 6409) is the same machine with AUTH and BDAT: it takes mail only after a login, and then to
 * any address. With implicit TLS a session begins in `handshake`.
 *
 * STARTTLS leads from `ready` through `handshake` back to `ready`, with a new envelope and no greeting. Replies keep
 * the order of the commands, which run one at a time; octets that arrive in between wait in `CommandInput`.
 */
import type { Socket } from 'node:net'
import type { SecureContext, TLSSocket } from 'node:tls'
import type { CompleteMessage, Destination, Rejection } from '#features/receiving/received/message.ts'
import { type Clock, systemClock, type Timer, yieldToEventLoop } from '#platform/time/clock.ts'
import { KiB, seconds } from '#platform/units.ts'
import * as commands from './commands.ts'
import { ArrivingMessage, CommandInput, DataDecoder } from './input.ts'
import type { Credentials, ListenerSettings, SubmissionHandlers } from './protocol.ts'
import type { Spool } from './spool.ts'
import { describeTls, upgradeToTls } from './tls.ts'

export interface SessionHost {
  readonly isTlsImplicit: boolean
  /** Set for a submission server, which then calls neither `decide` nor `receive` nor `checkRates`. */
  readonly submission: SubmissionHandlers | undefined
  readonly settings: ListenerSettings
  readonly spool: Spool
  readonly clock: Clock
  /** The client's network: the largest that one customer may have. */
  readonly network: string
  secureContext(): SecureContext
  isDraining(): boolean
  /** Called at MAIL: why the client may not send now; undefined: it may. */
  checkRates(address: string): commands.Reply | undefined
  decide(address: string, sourceIp: string): Promise<Destination | Rejection>
  /** Null: the message is on disk. */
  receive(message: CompleteMessage): Promise<Rejection | null>
  onOctets(count: number): void
  onStoreFailed(error: unknown): void
  onError(error: Error): void
  onClosed(): void
}

/** Progress of a session, the most dispensable first. */
export type Stage =
  /** The last reply was sent, but the connection has not closed yet. */
  | 'ended'
  /** No accepted MAIL. */
  | 'idle'
  | 'envelope'
  /** A message is arriving. */
  | 'message'

type State =
  /** The greeting has not been sent: a client that sends a command now does not wait for replies. */
  | 'opening'
  | 'ready'
  | 'deciding'
  /** The client has not read its replies: no command runs. */
  | 'unread'
  /** Between the 354 and the final dot, or in a chunk. */
  | 'message'
  | 'storing'
  /** From the 220 for STARTTLS to the end of the TLS handshake. */
  | 'handshake'
  /** The last reply was sent; input is discarded. */
  | 'closing'
  | 'closed'

/** A chunk that is arriving (RFC 3030). */
interface Chunk extends commands.ChunkArguments {
  remainingBytes: number
  readonly rejection: commands.Reply | undefined
}

/** How long a client may take to read the last reply and close; nothing extends it. */
const CLOSE_TIMEOUT_MS = seconds(5)
/** Multiple of the maximum message size after which a client that keeps sending is cut off. */
const FLOOD_FACTOR = 2
/** About as many octets as are in flight when a client reads the last reply. */
const MAX_DISCARDED_BYTES = 256 * KiB
/** The socket is paused at this much unprocessed input, until all of it is processed. */
const PAUSE_BYTES = 16 * KiB
/** Commands run in a row before other sessions get a tick of the event loop. */
const MAX_COMMANDS_PER_TICK = 100
/** Replies to a step of the client towards a message. */
const PROGRESS: ReadonlySet<commands.Reply> = new Set([
  commands.REPLIES.loggedIn,
  commands.REPLIES.mailAccepted,
  commands.REPLIES.recipientAccepted,
  commands.REPLIES.startMessage,
])
/** Errors that are not reported outside a transaction, because they only mean that the client disconnected. */
const QUIET_ERRORS: ReadonlySet<unknown> = new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH'])

export class InboundSession {
  readonly #host: SessionHost
  readonly #address: string
  readonly #openedAtMs: number
  #socket: Socket | TLSSocket
  #state: State = 'opening'
  #input: CommandInput
  #isPaused = false
  #timer: Timer | undefined
  #discardedBytes = 0
  #tls: string | null = null
  #helo: string | undefined
  #envelope: commands.MailTransaction | undefined
  /** Accepted recipients by lower-case address. */
  readonly #recipients = new Map<string, Destination | { readonly kind: 'any'; readonly address: string }>()
  #message: ArrivingMessage | undefined
  #chunk: Chunk | undefined
  #auth: commands.AuthExchange | undefined
  #login: Credentials | undefined
  #failedLogins = 0
  #progressAtMs: number
  #commandAtMs: number | undefined
  #commands = 0
  #errors = 0
  #rejectedRecipients = 0

  constructor(socket: Socket, host: SessionHost) {
    this.#host = host
    this.#socket = socket
    this.#address = (socket.remoteAddress ?? '').replace(/^::ffff:/i, '').toLowerCase()
    this.#openedAtMs = host.clock.monotonicMs()
    this.#progressAtMs = this.#openedAtMs
    this.#input = new CommandInput(host.settings.limits.commandLineBytes)
    // Otherwise the reply to a pipelined command waits for the TCP acknowledgement of the previous reply.
    socket.setNoDelay(true)
    if (host.isTlsImplicit) {
      this.#startTls()
      return
    }
    this.#listenTo(socket)
    if (host.submission) {
      this.#greet()
      return
    }
    // The system clock even in a test with its own clock, because clients that send early do so in real time.
    this.#timer = systemClock.after(host.settings.limits.greetingDelayMs, () => this.#greet())
  }

  get socket(): Socket | TLSSocket {
    return this.#socket
  }

  /** How dispensable the session is; undefined: it waits for the host. */
  get stage(): Stage | undefined {
    if (this.#isEnded()) return 'ended'
    if (this.#isProcessing()) return undefined
    if (this.#state === 'message') return 'message'
    return this.#envelope || this.#login ? 'envelope' : 'idle'
  }

  /** When the client last made progress towards a message; for an arriving message, when it began. */
  get progressAtMs(): number {
    return this.#progressAtMs
  }

  sweep(nowMs: number): void {
    if (this.#isEnded() || this.#isProcessing()) return
    const { limits } = this.#host.settings
    const idleMs = this.#login ? limits.loggedInIdleMs : limits.idleMs
    if (this.#message) {
      const { startedAtMs, lastOctetsAtMs, receivedBytes } = this.#message
      const openMs = nowMs - startedAtMs
      const isSlow = openMs > limits.slowGraceMs && receivedBytes < (limits.minBytesPerSecond * openMs) / 1000
      if (isSlow || openMs > limits.messageMs) this.end(commands.REPLIES.tooSlow)
      else if (nowMs - lastOctetsAtMs > idleMs) this.end(commands.REPLIES.idle)
    } else if (!this.#login && nowMs - this.#openedAtMs > limits.sessionMs) this.end(commands.REPLIES.sessionTooLong)
    else if (nowMs - this.#progressAtMs > idleMs) this.end(commands.REPLIES.idle)
  }

  /** Announces the end of the session (RFC 5321 §3.8). A message in progress still gets its reply. */
  drain(): void {
    if (this.#state !== 'message' && this.#state !== 'storing') this.end(commands.REPLIES.stopping)
  }

  /** Sends a last reply and closes the connection. */
  end(reply: commands.Reply): void {
    this.#reply(reply)
    this.#close()
  }

  #isEnded(): boolean {
    return this.#state === 'closing' || this.#state === 'closed'
  }

  /** Whether the client can only wait: for a decision, or for the reply to a complete message. */
  #isProcessing(): boolean {
    return this.#state === 'deciding' || this.#state === 'storing'
  }

  // Socket

  #listenTo(socket: Socket | TLSSocket): void {
    socket.on('data', (octets: Buffer) => this.#onOctets(octets))
    socket.on('error', (error) => this.#onError(error))
    socket.on('close', () => this.#onClosed())
  }

  #onOctets(octets: Buffer): void {
    this.#host.onOctets(octets.length)
    if (this.#isEnded()) {
      this.#discardedBytes += octets.length
      if (this.#discardedBytes > MAX_DISCARDED_BYTES) this.#socket.destroy()
    } else if (this.#state === 'message') this.#readContent(octets)
    // RFC 2920 §3.1: a client that sends DATA waits for its reply, so octets outside a message are pipelined commands.
    // Without this limit each session could make us hold a whole socket read of half a megabyte.
    else if (this.#input.size + octets.length > this.#maxPipelinedBytes()) this.end(commands.REPLIES.tooMuchPipelined)
    else {
      this.#input.add(octets)
      this.#runCommands()
    }
  }

  #maxPipelinedBytes(): number {
    const { limits } = this.#host.settings
    return this.#login ? limits.pipelinedChunkBytes : limits.pipelinedBytes
  }

  #onError(error: Error): void {
    const code = 'code' in error ? error.code : undefined
    if (!QUIET_ERRORS.has(code) || this.#envelope) this.#host.onError(error)
    this.#close()
  }

  #onClosed(): void {
    if (this.#state === 'closed') return
    this.#dropMessage()
    this.#timer?.cancel()
    this.#state = 'closed'
    this.#host.onClosed()
  }

  #reply(reply: commands.Reply, isProgress = PROGRESS.has(reply)): void {
    this.#send(reply.code, [reply.text], isProgress)
  }

  #send(code: number, lines: readonly string[], isProgress = false): void {
    // The idle time does not grow while the client waits for a reply.
    if (this.#commandAtMs !== undefined) this.#progressAtMs += this.#host.clock.monotonicMs() - this.#commandAtMs
    this.#commandAtMs = undefined
    if (isProgress) this.#recordProgress()
    if (code >= 500) this.#errors++
    // During a handshake a reply would be clear text between TLS records.
    if (this.#isEnded() || this.#state === 'handshake' || !this.#socket.writable) return
    this.#socket.write(commands.formatReply(code, lines))
  }

  /** Restarts the time for the client's next step; not for NOOP, RSET and the like. */
  #recordProgress(): void {
    this.#progressAtMs = this.#host.clock.monotonicMs()
  }

  /** Sends nothing more and discards input, so that the client can read the last reply. */
  #close(): void {
    if (this.#isEnded()) return
    const wasHandshake = this.#state === 'handshake'
    this.#dropMessage()
    this.#state = 'closing'
    this.#input.takeAll()
    this.#timer?.cancel()
    const socket = this.#socket
    if (wasHandshake || socket.destroyed) {
      socket.destroy()
      return
    }
    socket.end()
    socket.resume()
    const delayMs = Math.min(this.#host.settings.limits.idleMs, CLOSE_TIMEOUT_MS)
    this.#timer = this.#host.clock.after(delayMs, () => socket.destroy())
  }

  /** An incomplete message is lost with its session; one that is being stored already belongs to the main thread. */
  #dropMessage(): void {
    this.#message?.spoolEntry.drop()
    this.#message = undefined
    this.#chunk = undefined
  }

  #greet(): void {
    if (this.#state !== 'opening') return
    this.#state = 'ready'
    this.#send(220, [`${this.#host.settings.hostname} ESMTP`])
    this.#runCommands()
  }

  // Commands

  #runCommands(): void {
    for (let count = 0; this.#state === 'ready' || this.#state === 'opening'; count++) {
      if (count === MAX_COMMANDS_PER_TICK) {
        void yieldToEventLoop().then(() => this.#runCommands())
        break
      }
      const line = this.#input.takeLine()
      if (line === undefined) {
        this.#setPaused(false)
        return
      }
      if (line === 'too long') this.end(commands.REPLIES.lineTooLong)
      else this.#onLine(line)
      this.#waitForDrain()
    }
    if (this.#input.size >= PAUSE_BYTES) this.#setPaused(true)
  }

  /** A client that does not read its replies must not make us buffer many of them. */
  #waitForDrain(): void {
    if (this.#state !== 'ready' || !this.#socket.writableNeedDrain) return
    this.#state = 'unread'
    this.#socket.once('drain', () => {
      if (this.#state === 'unread') this.#continue()
    })
  }

  #continue(): void {
    this.#state = 'ready'
    this.#waitForDrain()
    this.#runCommands()
  }

  #setPaused(isPaused: boolean): void {
    if (this.#isEnded() || this.#isPaused === isPaused) return
    this.#isPaused = isPaused
    if (isPaused) this.#socket.pause()
    else this.#socket.resume()
  }

  #onLine(line: string): void {
    const command = commands.parseCommand(line)
    const endReply = this.#findEndReply(command, line)
    this.#commandAtMs = this.#host.clock.monotonicMs()
    if (endReply) {
      this.end(endReply)
      return
    }
    try {
      const reply = this.#auth ? this.#onAuthStep(this.#auth.read(line)) : this.#onCommand(command, line)
      if (reply) this.#reply(reply)
    } catch (error) {
      this.#host.onError(error instanceof Error ? error : new Error(String(error)))
      this.#reply(commands.REPLIES.internalError)
    }
  }

  /** The reply that ends the session in place of the command; undefined: the command runs. Counts the command. */
  #findEndReply(command: string, line: string): commands.Reply | undefined {
    const { limits, hostname } = this.#host.settings
    this.#commands++
    if (this.#host.isDraining()) return commands.REPLIES.stopping
    if (this.#commands > limits.commands) return commands.REPLIES.tooManyCommands
    if (this.#errors >= limits.protocolErrors) return commands.REPLIES.tooManyErrors
    if (this.#rejectedRecipients >= limits.rejectedRecipients) return commands.REPLIES.tooManyRejectedRecipients
    if (this.#state === 'opening') return commands.createEarlyTalkerReply(hostname, command)
    return commands.isHttpRequest(line) ? commands.REPLIES.httpRequest : undefined
  }

  /** Returns the reply; undefined: it was sent, or follows later. */
  #onCommand(command: string, line: string): commands.Reply | undefined {
    if (this.#helo === undefined && /^(?:MAIL|RCPT|DATA)$/.test(command)) return commands.REPLIES.needsHelo
    switch (command) {
      case 'EHLO':
      case 'HELO':
        return this.#onHelo(command, line)
      case 'STARTTLS':
        return this.#onStartTls(line)
      case 'MAIL':
        return this.#onMail(line)
      case 'RCPT':
        return this.#onRcpt(line)
      case 'DATA':
        return this.#onData()
      case 'RSET':
        this.#reset()
        return commands.REPLIES.reset
      case 'NOOP':
        return commands.REPLIES.noop
      case 'HELP':
        return commands.REPLIES.help
      case 'VRFY':
        return commands.countArguments(line) > 0 ? commands.REPLIES.notVerified : commands.REPLIES.vrfySyntax
      case 'QUIT':
        this.end(commands.REPLIES.bye)
        return undefined
      case 'AUTH':
        return this.#host.submission ? this.#onAuth(line) : commands.REPLIES.unknownCommand
      case 'BDAT':
        return this.#host.submission ? this.#onBdat(line) : commands.REPLIES.unknownCommand
      default:
        return commands.REPLIES.unknownCommand
    }
  }

  #onHelo(command: 'EHLO' | 'HELO', line: string): commands.Reply | undefined {
    const name = commands.parseHelo(command, line)
    if (typeof name !== 'string') return name
    const { settings, submission } = this.#host
    const { hostname, maxMessageBytes } = settings
    this.#helo = name
    this.#reset()
    if (command === 'HELO') return { code: 250, text: hostname }
    const extensions = ['PIPELINING', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES']
    if (this.#tls === null) extensions.push('STARTTLS')
    if (submission) extensions.push('CHUNKING')
    if (submission && this.#tls !== null) extensions.push('AUTH PLAIN LOGIN')
    this.#send(250, [hostname, ...extensions, `SIZE ${maxMessageBytes}`])
    return undefined
  }

  #reset(): void {
    this.#dropMessage()
    this.#envelope = undefined
    this.#recipients.clear()
  }

  #onAuth(line: string): commands.Reply | undefined {
    const begun = this.#findAuthRejection() ?? commands.AuthExchange.begin(line)
    if ('code' in begun) return begun
    this.#auth = begun.exchange
    return this.#onAuthStep(begun.step)
  }

  #findAuthRejection(): commands.Reply | undefined {
    if (this.#tls === null) return commands.REPLIES.needsTlsToLogIn
    if (this.#login) return commands.REPLIES.alreadyLoggedIn
    return this.#envelope ? commands.REPLIES.authInTransaction : undefined
  }

  #onAuthStep(step: commands.AuthStep): commands.Reply | undefined {
    if (step.kind === 'challenge') return { code: 334, text: step.text }
    this.#auth = undefined
    if (step.kind === 'rejected') return step.reply
    const { credentials } = step
    const login = this.#host.submission?.logIn(credentials, this.#address)
    if (login) this.#ask(login, (answer) => this.#onLoggedIn(credentials, 'code' in answer ? answer : undefined))
    return undefined
  }

  /** Runs no command until the host has answered; a failure counts as a rejection. */
  #ask<T>(question: Promise<T>, onAnswer: (answer: T | commands.Reply) => void): void {
    this.#state = 'deciding'
    const answered = question.catch((error: Error) => {
      this.#host.onError(error)
      return commands.REPLIES.internalError
    })
    void answered.then((answer) => {
      if (this.#state !== 'deciding') return
      onAnswer(answer)
      if (!this.#isEnded()) this.#continue()
    })
  }

  #onLoggedIn(credentials: Credentials, rejection: commands.Reply | undefined): void {
    if (!rejection) {
      this.#login = credentials
      this.#reply(commands.REPLIES.loggedIn)
    } else if (rejection.code === 421) this.end(rejection)
    else {
      this.#reply(rejection)
      if (++this.#failedLogins >= this.#host.settings.limits.failedLogins) this.end(commands.REPLIES.tooManyLogins)
    }
  }

  #onMail(line: string): commands.Reply | undefined {
    const { submission, settings } = this.#host
    if (submission && !this.#login) return this.#tls === null ? commands.REPLIES.needsTls : commands.REPLIES.needsLogin
    // The reverse-path of a submitted message has no effect, so it may be a local name.
    const mail = commands.parseMail(submission ? line.replace(/<[^<>@]+>/, '<>') : line, settings.maxMessageBytes)
    if ('code' in mail) return mail
    if (this.#envelope) return commands.REPLIES.nestedMail
    const rejection = submission ? undefined : this.#host.checkRates(this.#address)
    if (rejection) return rejection
    this.#envelope = mail
    return commands.REPLIES.mailAccepted
  }

  #onRcpt(line: string): commands.Reply | undefined {
    const { submission, settings } = this.#host
    const parse = submission ? commands.parseSubmittedRcpt : commands.parseRcpt
    const address = parse(line, this.#envelope?.hasSmtpUtf8 === true)
    if (typeof address !== 'string') {
      // A client that has logged in is not guessing names, and its other recipients shall get the message.
      if (this.#login) this.#errors--
      return address
    }
    const key = address.toLowerCase()
    if (!this.#envelope) return commands.REPLIES.needsMail
    if (this.#message) return commands.REPLIES.chunksBegun
    if (this.#recipients.size >= settings.maxRecipients && !this.#recipients.has(key))
      return commands.REPLIES.tooManyRecipients
    if (submission) {
      this.#recipients.set(key, { kind: 'any', address })
      return commands.REPLIES.recipientAccepted
    }
    this.#ask(this.#host.decide(address, this.#address), (decision) => this.#onDecided(key, decision))
    return undefined
  }

  #onDecided(key: string, decision: Destination | Rejection): void {
    if ('code' in decision) {
      if (decision.code >= 500) {
        this.#rejectedRecipients++
        // `#reply` counts a 5xx as an error, but a rejected recipient is not a protocol error.
        this.#errors--
      }
      this.#reply(decision)
    } else {
      this.#recipients.set(key, decision)
      this.#reply(commands.REPLIES.recipientAccepted)
    }
  }

  #onStartTls(line: string): commands.Reply | undefined {
    if (commands.countArguments(line) > 0) return commands.REPLIES.startTlsSyntax
    if (this.#tls !== null) return commands.REPLIES.alreadyTls
    this.#reply(commands.REPLIES.startTls)
    this.#startTls()
    return undefined
  }

  #startTls(): void {
    this.#state = 'handshake'
    // RFC 3207 §4.2: clear text after the command is discarded.
    this.#input = new CommandInput(this.#host.settings.limits.commandLineBytes)
    this.#isPaused = false
    this.#socket = upgradeToTls(this.#socket, this.#host.secureContext(), {
      onSecure: (socket) => this.#onSecure(socket),
      onError: (error) => this.#onError(error),
      onClosed: () => this.#onClosed(),
    })
  }

  #onSecure(socket: TLSSocket): void {
    if (this.#state !== 'handshake') return
    this.#state = 'ready'
    this.#tls = describeTls(socket)
    this.#helo = undefined
    this.#reset()
    this.#recordProgress()
    socket.on('data', (octets: Buffer) => this.#onOctets(octets))
    if (!this.#host.isTlsImplicit) return
    this.#state = 'opening'
    this.#greet()
  }

  // Messages

  #onData(): commands.Reply | undefined {
    if (this.#recipients.size === 0) return this.#noRecipientReply()
    if (this.#message) return commands.REPLIES.chunksBegun
    this.#message = this.#createMessage(new DataDecoder())
    this.#state = 'message'
    this.#reply(commands.REPLIES.startMessage)
    const octets = this.#input.takeAll()
    this.#setPaused(false)
    if (octets.length > 0) this.#readMessage(this.#message, octets)
    return undefined
  }

  /** RFC 5321 §3.3: 554 when MAIL was accepted and every RCPT rejected. */
  #noRecipientReply(): commands.Reply {
    return this.#envelope ? commands.REPLIES.noValidRecipient : commands.REPLIES.needsRecipient
  }

  #createMessage(decoder: DataDecoder): ArrivingMessage {
    const { spool, network, settings, clock } = this.#host
    const { maxMessageBytes } = settings
    const limits = { maxBytes: maxMessageBytes, maxReadBytes: maxMessageBytes * FLOOD_FACTOR }
    return new ArrivingMessage(spool.createEntry(network), limits, clock.monotonicMs(), decoder)
  }

  /** RFC 3030: the octets of the chunk follow immediately, even when it is rejected. */
  #onBdat(line: string): commands.Reply | undefined {
    const chunk = commands.parseBdat(line)
    if ('code' in chunk || chunk.sizeBytes > this.#host.settings.maxMessageBytes * FLOOD_FACTOR) {
      // After a syntax error it is unknown how many octets follow.
      this.end('code' in chunk ? chunk : commands.REPLIES.farTooLarge)
      return undefined
    }
    const rejection = this.#recipients.size > 0 ? undefined : this.#noRecipientReply()
    if (!rejection) this.#message ??= this.#createMessage(new DataDecoder({ isDotStuffed: false }))
    this.#chunk = { ...chunk, remainingBytes: chunk.sizeBytes, rejection }
    this.#state = 'message'
    const octets = this.#input.takeAll()
    this.#setPaused(false)
    this.#readChunk(this.#chunk, octets)
    return undefined
  }

  /** Octets of the message; ends the state `message` with the last of them. */
  #readContent(octets: Buffer): void {
    if (this.#chunk) {
      this.#readChunk(this.#chunk, octets)
      if (this.#isReady()) this.#continue()
    } else if (this.#message) this.#readMessage(this.#message, octets)
  }

  /** A function, because the compiler takes the state for unchanged by other methods. */
  #isReady(): boolean {
    return this.#state === 'ready'
  }

  #readChunk(chunk: Chunk, octets: Buffer): void {
    const content = octets.subarray(0, chunk.remainingBytes)
    chunk.remainingBytes -= content.length
    const message = chunk.rejection ? undefined : this.#message
    message?.read(content, this.#host.clock.monotonicMs())
    if (message?.isFarTooLarge) {
      this.end(commands.REPLIES.farTooLarge)
      return
    }
    if (chunk.remainingBytes > 0) return
    this.#chunk = undefined
    // A copy, as in `#readMessage`.
    if (octets.length > content.length) this.#input.add(Buffer.from(octets.subarray(content.length)))
    if (message && chunk.isLast) this.#beginStoring(message)
    else {
      this.#state = 'ready'
      this.#reply(chunk.rejection ?? commands.createChunkReply(chunk.sizeBytes), chunk.rejection === undefined)
    }
  }

  #readMessage(message: ArrivingMessage, octets: Buffer): void {
    const remaining = message.read(octets, this.#host.clock.monotonicMs())
    if (remaining === undefined) {
      if (message.isFarTooLarge) this.end(commands.REPLIES.farTooLarge)
      return
    }
    if (remaining.length > this.#maxPipelinedBytes()) {
      this.end(commands.REPLIES.tooMuchPipelined)
      return
    }
    // A copy: the buffer from which the octets came must not stay in memory until the reply to the message.
    if (remaining.length > 0) this.#input.add(Buffer.from(remaining))
    this.#beginStoring(message)
  }

  #beginStoring(message: ArrivingMessage): void {
    this.#state = 'storing'
    this.#message = undefined
    void this.#store(message).then((reply) => this.#onStored(reply))
  }

  /** Resolves with the reply to the message; 250 only when it is on disk. */
  async #store(message: ArrivingMessage): Promise<commands.Reply> {
    const { spoolEntry } = message
    try {
      if (message.isTooLarge) return commands.createTooLargeReply(this.#host.settings.maxMessageBytes)
      return await this.#passOn({
        mailFrom: this.#envelope?.mailFrom ?? '',
        sourceIp: this.#address,
        helo: this.#helo ?? '',
        tls: this.#tls,
        sizeBytes: spoolEntry.sizeBytes,
        content: await spoolEntry.finish(),
      })
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      this.#host.onStoreFailed(error)
      return code === 'ENOSPC' || code === 'EDQUOT' ? commands.REPLIES.noSpace : commands.REPLIES.notStored
    } finally {
      spoolEntry.drop()
    }
  }

  async #passOn(message: Omit<CompleteMessage, 'destinations'>): Promise<commands.Reply> {
    const { submission } = this.#host
    const recipients = [...this.#recipients.values()]
    if (submission && this.#login)
      return submission.submit({
        ...message,
        password: this.#login.password,
        recipients: recipients.map(({ address }) => address),
      })
    const destinations = recipients.filter((recipient) => recipient.kind !== 'any')
    return (await this.#host.receive({ ...message, destinations })) ?? commands.REPLIES.messageAccepted
  }

  #onStored(reply: commands.Reply): void {
    // In the meantime, the client may have disconnected or been told that the service stops.
    if (this.#state !== 'storing') return
    this.#recordProgress()
    const isAccepted = reply.code === 250
    if (isAccepted) {
      // An accepted message resets the counters, so that a client can send many messages in one session.
      this.#commands = 0
      this.#errors = 0
    }
    this.#reset()
    // A message of a client of ours that is rejected is no protocol error, and the next one may be good.
    if (this.#login && reply.code >= 500) this.#errors--
    this.#reply(reply, isAccepted)
    this.#state = 'ready'
    if (this.#host.isDraining()) this.drain()
    else this.#continue()
  }
}
