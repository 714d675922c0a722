/**
 * @module An SMTP server that tests tell how to react at each step of a session. Stores no message.
 */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { systemClock } from '#platform/time/clock.ts'
import { MiB } from '#platform/units.ts'

/** `body`: in the middle of a message. `dot`: the reply to the end of a message. */
export type Step =
  | 'banner'
  | 'ehlo'
  | 'starttls'
  | 'handshake'
  | 'mail'
  | 'rcpt'
  | 'data'
  | 'body'
  | 'dot'
  | 'rset'
  | 'quit'

/** What is sent instead of the polite reply, and what follows. A string is a reply, without the last CRLF. */
export type Reaction =
  | string
  | {
      /** A reply, or octets that are sent as they are. Without `reply` and `end`, the polite reply is sent. */
      readonly reply?: string | Uint8Array
      /** Delay before anything is sent, in milliseconds. */
      readonly delayMs?: number
      /**
       * `close`: ends the connection with FIN. `reset`: ends it with RST. `silence`: reads and says nothing more.
       * `endless`: repeats `reply` until the client closes the connection, or up to `MAX_ENDLESS_BYTES`.
       */
      readonly end?: 'close' | 'reset' | 'silence' | 'endless'
    }

/** Where a session is. */
export interface StepContext {
  readonly step: Step
  /** Number of the connection, from 1. */
  readonly connection: number
  /** Address of RCPT, without angle brackets; '' before RCPT. */
  readonly rcptTo: string
  /** How often this pair of sender and recipient came to RCPT, with this time; 0 before RCPT. */
  readonly attempts: number
}

/** The reaction at a step; undefined for the polite reply. */
export type React = (at: StepContext) => Reaction | undefined

/** A message of which the final dot was received. */
export interface SeenMessage {
  readonly rcptTo: string
  /** Whether the reply to the final dot was a 2xx. */
  readonly isAccepted: boolean
}

export interface ReceiverOptions {
  readonly react: React
  /** Default: a free port of 127.0.0.1. */
  readonly address?: string
  readonly port?: number
  /** Certificate and key in PEM. Without them, STARTTLS is not offered. */
  readonly tls?: { readonly cert: string; readonly key: string }
  /** Drops the commands that follow another one in the same segment, although PIPELINING is offered. */
  readonly dropsPipelined?: boolean
  /** Called for each message of which the final dot was received, before the reply is sent. */
  readonly onMessage?: (message: SeenMessage) => void
}

/** The connection as the receiver sees it. */
interface SessionContext {
  /** Number of the connection, from 1. */
  readonly connection: number
  readonly countAttempt: (mailFrom: string, rcptTo: string) => number
  readonly onEnded: () => void
}

const HOSTNAME = 'mx.receiver.test'
const EXTENSIONS = ['PIPELINING', 'SIZE 104857600', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES']
/** Most octets of an endless reply; clients give up earlier. */
const MAX_ENDLESS_BYTES = 16 * MiB
const POLITE_REPLIES: Readonly<Record<Exclude<Step, 'banner' | 'ehlo' | 'handshake' | 'body'>, string>> = {
  starttls: '220 2.0.0 Ready to start TLS',
  mail: '250 2.1.0 Ok',
  rcpt: '250 2.1.5 Ok',
  data: '354 End data with <CR><LF>.<CR><LF>',
  dot: '250 2.0.0 Simulated: accepted and discarded',
  rset: '250 2.0.0 Ok',
  quit: '221 2.0.0 Bye',
}

const COMMANDS: Readonly<Record<string, Exclude<keyof typeof POLITE_REPLIES, 'dot'> | 'ehlo'>> = {
  EHLO: 'ehlo',
  HELO: 'ehlo',
  STARTTLS: 'starttls',
  MAIL: 'mail',
  RCPT: 'rcpt',
  DATA: 'data',
  RSET: 'rset',
  QUIT: 'quit',
}

class ReceiverSession {
  readonly #raw: Socket
  readonly #options: ReceiverOptions
  readonly #context: SessionContext
  #socket: Socket
  /** `ended`: nothing more is read. */
  #mode: 'commands' | 'message' | 'ended' = 'commands'
  #input: Buffer = Buffer.alloc(0)
  /** The last octets of a message before the next chunk. */
  #tail: Buffer = Buffer.alloc(0)
  #hasReactedInBody = false
  #isSecure = false
  #mailFrom = ''
  #rcptTo = ''
  #attempts = 0
  #hasRecipient = false
  /** Chunks are handled one after the other, because a reply may be delayed. */
  #work: Promise<void> = Promise.resolve()

  constructor(socket: Socket, options: ReceiverOptions, context: SessionContext) {
    this.#raw = socket
    this.#socket = socket
    this.#options = options
    this.#context = context
  }

  start(): void {
    this.#raw.on('error', () => undefined)
    this.#raw.on('close', () => {
      this.#mode = 'ended'
      this.#context.onEnded()
    })
    this.#listenTo(this.#raw)
    this.#work = this.#react('banner')
  }

  destroy(): void {
    this.#mode = 'ended'
    this.#socket.destroy()
    this.#raw.destroy()
  }

  #listenTo(socket: Socket): void {
    socket.on('data', (chunk: Buffer) => {
      if (socket !== this.#socket || this.#mode === 'ended') return
      // Reading pauses while a reply is delayed, so that a client cannot make us buffer.
      socket.pause()
      this.#work = this.#work
        .then(() => this.#consume(chunk))
        .catch(() => this.destroy())
        .finally(() => socket.resume())
    })
  }

  async #consume(chunk: Buffer): Promise<void> {
    let rest: Buffer | undefined = chunk
    while (rest && rest.length > 0 && this.#mode !== 'ended')
      rest = this.#mode === 'message' ? await this.#readMessage(rest) : await this.#readCommand(rest)
  }

  /** Handles one command. Returns what follows it; undefined when the line has not ended. */
  async #readCommand(chunk: Buffer): Promise<Buffer | undefined> {
    const input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk])
    const end = input.indexOf('\n')
    if (end === -1) {
      this.#input = input
      return undefined
    }
    this.#input = Buffer.alloc(0)
    await this.#handleCommand(input.toString('latin1', 0, end).trimEnd())
    return this.#options.dropsPipelined ? undefined : input.subarray(end + 1)
  }

  async #handleCommand(line: string): Promise<void> {
    const verb = line.slice(0, 8).split(' ', 1)[0]?.toUpperCase() ?? ''
    const step = Object.hasOwn(COMMANDS, verb) ? COMMANDS[verb] : undefined
    switch (step) {
      case undefined:
        return this.#perform('502 5.5.2 Command not recognised', '')
      case 'mail':
        this.#mailFrom = readAddress(line)
        this.#reset()
        return this.#react('mail')
      case 'rcpt':
        this.#rcptTo = readAddress(line)
        this.#attempts = this.#context.countAttempt(this.#mailFrom, this.#rcptTo)
        this.#hasRecipient = await this.#isAccepted('rcpt')
        return
      case 'data':
        if (!this.#hasRecipient && this.#options.react(this.#at('data')) === undefined)
          return this.#perform('503 5.5.1 No valid recipients', '')
        if (!(await this.#isAccepted('data')) || this.#mode === 'ended') return
        this.#mode = 'message'
        // A message that is only a dot ends too.
        this.#tail = Buffer.from('\r\n')
        this.#hasReactedInBody = false
        return
      case 'starttls':
        if (!this.#options.tls || this.#isSecure) return this.#perform('503 5.5.1 TLS is not available', '')
        if ((await this.#isAccepted('starttls')) && (this.#mode as string) !== 'ended') await this.#startTls()
        return
      case 'rset':
        this.#reset()
        return this.#react('rset')
      case 'quit':
        await this.#react('quit')
        return this.#perform({ end: 'close' }, '')
      default:
        return this.#react(step)
    }
  }

  /** Reads octets of a message. Returns what follows its end; undefined when it has not ended. */
  async #readMessage(chunk: Buffer): Promise<Buffer | undefined> {
    if (!this.#hasReactedInBody) {
      this.#hasReactedInBody = true
      const reaction = this.#options.react(this.#at('body'))
      if (reaction !== undefined) await this.#perform(reaction, '')
      if (this.#mode === 'ended') return undefined
    }
    const octets = Buffer.concat([this.#tail, chunk])
    const end = octets.indexOf(END)
    if (end === -1) {
      this.#tail = octets.subarray(1 - END.length)
      return undefined
    }
    this.#mode = 'commands'
    const reaction = this.#options.react(this.#at('dot'))
    this.#options.onMessage?.({
      rcptTo: this.#rcptTo,
      isAccepted: readReplyOf(reaction, POLITE_REPLIES.dot).startsWith('2'),
    })
    await this.#perform(reaction ?? {}, POLITE_REPLIES.dot)
    return octets.subarray(end + END.length)
  }

  #reset(): void {
    this.#rcptTo = ''
    this.#attempts = 0
    this.#hasRecipient = false
  }

  #at(step: Step): StepContext {
    return {
      step,
      connection: this.#context.connection,
      rcptTo: this.#rcptTo,
      attempts: this.#attempts,
    }
  }

  #react(step: Exclude<Step, 'handshake' | 'body'>): Promise<void> {
    return this.#perform(this.#options.react(this.#at(step)) ?? {}, this.#getPoliteReply(step))
  }

  /** Like `#react`; resolves with whether the reply was positive (RFC 5321 §4.2.1). */
  async #isAccepted(step: 'rcpt' | 'data' | 'starttls'): Promise<boolean> {
    const reaction = this.#options.react(this.#at(step))
    await this.#perform(reaction ?? {}, POLITE_REPLIES[step])
    return /^[23]/.test(readReplyOf(reaction, POLITE_REPLIES[step]))
  }

  #getPoliteReply(step: Exclude<Step, 'handshake' | 'body'>): string {
    const { tls } = this.#options
    if (step === 'banner') return `220 ${HOSTNAME} ESMTP`
    if (step !== 'ehlo') return POLITE_REPLIES[step]
    const lines = [HOSTNAME, ...EXTENSIONS, ...(tls && !this.#isSecure ? ['STARTTLS'] : [])]
    return lines.map((text, index) => `250${index < lines.length - 1 ? '-' : ' '}${text}`).join('\r\n')
  }

  async #perform(reaction: Reaction, politeReply: string): Promise<void> {
    const { reply, delayMs = 0, end } = typeof reaction === 'string' ? { reply: reaction } : reaction
    if (delayMs > 0) await systemClock.sleep(delayMs)
    if (this.#mode === 'ended' || this.#raw.destroyed) return
    const said = reply ?? (end === undefined ? politeReply : '')
    const octets = typeof said === 'string' ? Buffer.from(said === '' ? '' : `${said}\r\n`) : said
    if (end === 'endless') {
      this.#mode = 'ended'
      return this.#repeat(octets)
    }
    if (octets.length > 0) await this.#write(octets)
    if (end === undefined) return
    this.#mode = 'ended'
    if (end === 'reset') this.#raw.resetAndDestroy()
    else if (end === 'close') this.#socket.end()
  }

  /** Resolves when the octets were passed on, or when the connection has ended. */
  #write(octets: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const socket = this.#socket
      const finish = (): void => {
        socket.off('close', finish)
        resolve()
      }
      socket.once('close', finish)
      socket.write(octets, finish)
    })
  }

  async #repeat(octets: Uint8Array): Promise<void> {
    for (let sent = 0; sent < MAX_ENDLESS_BYTES && !this.#raw.destroyed; sent += octets.length)
      await this.#write(octets)
    this.destroy()
  }

  /** Runs the TLS handshake. What was sent before it in plaintext is dropped (RFC 3207 §4.2). */
  async #startTls(): Promise<void> {
    const { tls, react } = this.#options
    const reaction = react(this.#at('handshake'))
    if (reaction !== undefined) {
      // Only after the ClientHello: before it, the client takes octets for an injection in plaintext.
      await new Promise((resolve) => this.#raw.once('data', resolve).once('close', resolve).resume())
      await this.#perform(reaction, '')
      this.#mode = 'ended'
      return
    }
    const socket = new TLSSocket(this.#raw, { isServer: true, ...tls })
    socket.on('error', () => this.destroy())
    socket.on('secure', () => {
      this.#isSecure = true
    })
    this.#socket = socket
    this.#input = Buffer.alloc(0)
    this.#listenTo(socket)
  }
}

/** The address of a MAIL or RCPT command, without angle brackets and parameters. */
const readAddress = (line: string): string => /^[^<]*<([^>]*)>/.exec(line)?.[1] ?? ''

/** The reply that a reaction sends; '' if none is sent. */
function readReplyOf(reaction: Reaction | undefined, politeReply: string): string {
  if (reaction === undefined) return politeReply
  if (typeof reaction === 'string') return reaction
  const { reply, end } = reaction
  return typeof reply === 'string' ? reply : reply === undefined && end === undefined ? politeReply : ''
}

const END = Buffer.from('\r\n.\r\n')

export interface Receiver extends AsyncDisposable {
  readonly port: number
  readonly connections: number
  /** Connections that are open now. */
  readonly open: number
  /** Ends all sessions and stops to listen. */
  close(): Promise<void>
}

export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const sessions = new Set<ReceiverSession>()
  const attempts = new Map<string, number>()
  let connections = 0

  const countAttempt = (mailFrom: string, rcptTo: string): number => {
    const pair = `${mailFrom}\n${rcptTo}`
    const count = (attempts.get(pair) ?? 0) + 1
    attempts.set(pair, count)
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
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    get open() {
      return sessions.size
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}
