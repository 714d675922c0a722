/**
 * @module A receiving SMTP server for tests, on a real socket. It behaves well except where the test's script differs,
 * and records what it received. For tests only: it keeps all messages and checks no address.
 */
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/** A self-signed certificate for mx.example.test and 127.0.0.1, and its key. For tests only. */
export const testCertificate = {
  key: readFileSync(new URL('./tls/mx.example.test.key.pem', import.meta.url), 'utf8'),
  cert: readFileSync(new URL('./tls/mx.example.test.cert.pem', import.meta.url), 'utf8'),
}

/**
 * The server's reaction at a step. A string is sent with CRLF appended (lines of a longer reply are joined by CRLF; the
 * empty string sends nothing), bytes are sent as they are; `drop` then closes the connection: `end` orderly, `reset`
 * with RST.
 */
export type Reaction = string | Uint8Array | { readonly say?: string; readonly drop: 'end' | 'reset' }

/**
 * One reaction for every time; a list for the first, second, ... time, then good behaviour; or a function, which may be
 * asynchronous.
 */
export type Step =
  | Reaction
  | readonly Reaction[]
  | ((line: string, session: ScriptedSession) => Reaction | Promise<Reaction>)

/** Everything not listed here is accepted. */
export interface SmtpScript {
  readonly greeting?: Step
  /** The lines after the first one of the EHLO reply. */
  readonly extensions?: readonly string[]
  /** The complete EHLO reply, instead of `extensions`. */
  readonly ehlo?: Step
  readonly helo?: Step
  readonly starttls?: Step
  /** The reaction after a 220 to STARTTLS, or to the connection with `implicitTls`. Default: a handshake. */
  readonly handshake?: 'garbage' | 'drop' | 'silence'
  readonly implicitTls?: boolean
  readonly auth?: Step
  /** The lines after a 334. */
  readonly authLine?: Step
  readonly mail?: Step
  readonly rcpt?: Step
  readonly data?: Step
  /** Called when the first octets of a message arrive. */
  readonly onBody?: (session: ScriptedSession) => void
  /** The reply to the final dot. */
  readonly body?: Step
  /** Reacts once, in the middle of a message, after this many octets; then stops reading it. */
  readonly midBody?: { readonly afterBytes: number; readonly reaction: Reaction }
  /** Reads nothing after its 354. */
  readonly stopsReading?: boolean
  readonly rset?: Step
  readonly quit?: Step
}

type StepName =
  | 'greeting'
  | 'ehlo'
  | 'helo'
  | 'starttls'
  | 'auth'
  | 'authLine'
  | 'mail'
  | 'rcpt'
  | 'data'
  | 'body'
  | 'rset'
  | 'quit'

const DEFAULT_REPLIES: Readonly<Record<Exclude<StepName, 'ehlo'>, string>> = {
  greeting: '220 mx.example.test ESMTP',
  helo: '250 mx.example.test',
  starttls: '220 2.0.0 Go ahead',
  auth: '235 2.7.0 Accepted',
  authLine: '235 2.7.0 Accepted',
  mail: '250 2.1.0 Sender ok',
  rcpt: '250 2.1.5 Recipient ok',
  data: '354 End with a dot',
  body: '250 2.0.0 Queued as 1',
  rset: '250 2.0.0 Reset',
  quit: '221 2.0.0 Bye',
}

const DEFAULT_EXTENSIONS = ['PIPELINING', 'SIZE 52428800', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES']

/** A recorded connection. */
export interface ScriptedSession {
  /** Every command line, and the lines of AUTH. */
  readonly commands: string[]
  /** Data of each read outside of messages: commands sent in one write are in one segment. */
  readonly segments: string[]
  /** The messages up to their final dots, with dot-stuffing removed. */
  readonly messages: Buffer[]
  /** The same as received, with final dots; the last may be unfinished. */
  readonly rawMessages: Buffer[]
  readonly secure: boolean
  /** The name in SNI, if one came. */
  readonly serverName: string | undefined
  /** Where the connection comes from. */
  readonly remoteAddress: string | undefined
  /** Whether the connection has ended. */
  readonly closed: boolean
  /** When it ended, on the monotonic clock. */
  readonly closedAtMs: number | undefined
  /** Sends unsolicited data. */
  say(reaction: Reaction): void
  /** Reads nothing more until `resume`. */
  pause(): void
  resume(): void
}

export interface ScriptedSmtp extends AsyncDisposable {
  readonly port: number
  readonly sessions: readonly ScriptedSession[]
  /** The first session; throws when there is none. */
  readonly session: ScriptedSession
  /** Resolves when the condition holds; it is checked after all data that the server receives. */
  until(condition: () => boolean): Promise<void>
}

/** Starts a server on a free port of 127.0.0.1, or on a given address. */
export async function startScriptedSmtp(
  script: SmtpScript = {},
  { address = '127.0.0.1', port = 0 }: { readonly address?: string; readonly port?: number } = {},
): Promise<ScriptedSmtp> {
  const sessions: Session[] = []
  const waiting = new Set<() => void>()
  const changed = () => {
    for (const look of [...waiting]) look()
  }
  const server = createServer((socket) => {
    sessions.push(new Session(socket, script, changed))
    changed()
  })
  await new Promise<void>((resolve) => server.listen(port, address, resolve))
  return {
    port: (server.address() as AddressInfo).port,
    sessions,
    get session() {
      const first = sessions[0]
      if (!first) throw new Error('Nobody has connected')
      return first
    },
    until: (condition) =>
      new Promise((resolve) => {
        const look = () => {
          if (!condition()) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      }),
    async [Symbol.asyncDispose]() {
      for (const session of sessions) session.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

class Session implements ScriptedSession {
  readonly commands: string[] = []
  readonly segments: string[] = []
  readonly messages: Buffer[] = []
  readonly rawMessages: Buffer[] = []
  secure = false
  serverName: string | undefined
  closedAtMs: number | undefined
  readonly remoteAddress: string | undefined
  readonly #script: SmtpScript
  readonly #changed: () => void
  readonly #raw: Socket
  #socket: Socket
  #uses = new Map<StepName, number>()
  #mode: 'commands' | 'auth' | 'body' | 'deaf' = 'commands'
  #input = Buffer.alloc(0)
  #bodyChunks: Buffer[] = []
  #bodyBytes = 0
  /** Steps run one after the other, even asynchronous ones. */
  #work: Promise<void> = Promise.resolve()

  constructor(socket: Socket, script: SmtpScript, changed: () => void) {
    this.#raw = socket
    this.#socket = socket
    this.#script = script
    this.#changed = changed
    this.remoteAddress = socket.remoteAddress
    socket.on('error', () => {})
    this.#listenTo(socket)
    if (script.implicitTls) this.#handshake()
    if (!script.implicitTls || script.handshake === undefined) this.#then(() => this.#react('greeting', ''))
  }

  get closed(): boolean {
    return this.closedAtMs !== undefined
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  say(reaction: Reaction): void {
    if (typeof reaction === 'string') {
      if (reaction !== '') this.#socket.write(`${reaction}\r\n`)
      return
    }
    if (reaction instanceof Uint8Array) {
      this.#socket.write(reaction)
      return
    }
    if (reaction.say !== undefined) this.#socket.write(`${reaction.say}\r\n`)
    this.#mode = 'deaf'
    if (reaction.drop === 'end') this.#socket.end()
    else this.#raw.resetAndDestroy()
  }

  destroy(): void {
    this.#socket.destroy()
    this.#raw.destroy()
  }

  #listenTo(socket: Socket): void {
    socket.on('data', (chunk: Buffer) => {
      if (socket === this.#socket) this.#receive(chunk)
    })
    socket.on('close', () => {
      this.closedAtMs = performance.now()
      this.#changed()
    })
  }

  #then(work: () => Promise<void> | void): void {
    this.#work = this.#work.then(work)
  }

  #receive(chunk: Buffer): void {
    if (this.#mode !== 'body') this.segments.push(chunk.toString())
    this.#then(() => this.#consume(chunk))
  }

  async #consume(chunk: Buffer): Promise<void> {
    if (this.#mode === 'deaf') return
    if (this.#mode === 'body') {
      await this.#consumeBody(chunk)
      this.#changed()
      return
    }
    this.#input = Buffer.concat([this.#input, chunk])
    for (let end = this.#input.indexOf('\r\n'); end !== -1; end = this.#input.indexOf('\r\n')) {
      const line = this.#input.toString('utf8', 0, end)
      this.#input = this.#input.subarray(end + 2)
      await this.#command(line)
      if ((this.#mode as string) === 'body') {
        const rest = this.#input
        this.#input = Buffer.alloc(0)
        if (rest.length > 0) await this.#consumeBody(rest)
        break
      }
      if ((this.#mode as string) === 'deaf') break
    }
    this.#changed()
  }

  async #command(line: string): Promise<void> {
    this.commands.push(line)
    this.#changed()
    if (this.#mode === 'auth') {
      this.#mode = 'commands'
      await this.#react('authLine', line)
      return
    }
    const verb = line.split(' ')[0]?.toLowerCase() ?? ''
    if (isStepName(verb)) await this.#react(verb, line)
    else this.say('500 5.5.1 What?')
  }

  async #react(name: StepName, line: string): Promise<void> {
    const reaction = await this.#reactionFor(name, line)
    this.say(reaction)
    const replyText = typeof reaction === 'object' && 'drop' in reaction ? '' : String(reaction)
    if (name === 'data' && replyText.startsWith('354')) this.#startBody()
    if (name === 'starttls' && replyText.startsWith('220')) this.#handshake()
    if ((name === 'auth' || name === 'authLine') && replyText.startsWith('334')) this.#mode = 'auth'
    if (name === 'quit' && replyText !== '') this.#socket.end()
  }

  async #reactionFor(name: StepName, line: string): Promise<Reaction> {
    const use = this.#uses.get(name) ?? 0
    this.#uses.set(name, use + 1)
    const step = this.#script[name]
    if (typeof step === 'function') return step(line, this)
    const reaction = isList(step) ? step[use] : step
    if (reaction !== undefined) return reaction
    if (name !== 'ehlo') return DEFAULT_REPLIES[name]
    const lines = ['mx.example.test', ...(this.#script.extensions ?? DEFAULT_EXTENSIONS)]
    return lines.map((text, index) => `250${index < lines.length - 1 ? '-' : ' '}${text}`).join('\r\n')
  }

  #startBody(): void {
    this.#mode = 'body'
    this.#bodyChunks = []
    this.#bodyBytes = 0
    if (this.#script.stopsReading) this.#socket.pause()
  }

  async #consumeBody(chunk: Buffer): Promise<void> {
    if (this.#bodyChunks.length === 0) {
      this.rawMessages.push(chunk)
      this.#script.onBody?.(this)
    }
    this.#bodyChunks.push(chunk)
    this.#bodyBytes += chunk.length
    const { midBody } = this.#script
    if (midBody && this.#bodyBytes >= midBody.afterBytes) {
      this.rawMessages[this.rawMessages.length - 1] = Buffer.concat(this.#bodyChunks)
      this.#mode = 'deaf'
      this.#socket.pause()
      this.say(midBody.reaction)
      return
    }
    const tail = Buffer.concat(this.#bodyChunks.slice(-5)).subarray(-5).toString('latin1')
    if (tail !== '\r\n.\r\n' && !(this.#bodyBytes === 3 && tail === '.\r\n')) return
    const raw = Buffer.concat(this.#bodyChunks)
    this.rawMessages[this.rawMessages.length - 1] = raw
    const stuffed = raw.subarray(0, -3).toString('latin1')
    this.messages.push(Buffer.from(stuffed.replace(/(^|\r\n)\./g, '$1'), 'latin1'))
    this.#mode = 'commands'
    await this.#react('body', '')
  }

  #handshake(): void {
    const { handshake } = this.#script
    if (handshake === 'silence') this.#mode = 'deaf'
    else if (handshake === 'drop') this.say({ drop: 'end' })
    else if (handshake === 'garbage') {
      this.#mode = 'deaf'
      // Only after the ClientHello: earlier data would not be a handshake.
      this.#socket.once('data', () => this.#socket.write('This is not TLS\r\n'))
    } else {
      const socket = new TLSSocket(this.#raw, {
        isServer: true,
        ...testCertificate,
        SNICallback: (name, done) => {
          this.serverName = name
          done(null)
        },
      })
      socket.on('error', () => {})
      socket.on('secure', () => {
        this.secure = true
        this.#changed()
      })
      this.#socket = socket
      this.#listenTo(socket)
    }
  }
}

const isList = (step: Step | undefined): step is readonly Reaction[] => Array.isArray(step)

const isStepName = (verb: string): verb is StepName =>
  verb === 'ehlo' || (verb in DEFAULT_REPLIES && verb !== 'greeting')
