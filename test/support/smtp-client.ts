/**
 * @module A client for raw SMTP dialogues: sends what a test specifies, octet by octet, including what no mailer would
 * send. For tests only.
 */
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'

export interface RawSmtp extends AsyncDisposable {
  readonly socket: Socket
  /** Writes raw octets; resolves when the system has them or the connection is gone. */
  write(data: string | Uint8Array): Promise<void>
  /** The next whole reply, its lines joined by `\n`; `''` when the connection ended before one. */
  reply(): Promise<string>
  /** Sends a line with CRLF and returns the reply. */
  say(line: string): Promise<string>
  /** Like `say`; throws unless the reply begins with `code`, also when the connection ended. */
  ask(line: string, code: string): Promise<void>
  /** Sends `STARTTLS` and does the handshake; the socket is then secure. */
  startTls(): Promise<TLSSocket>
  /** Resolves when the connection has ended, with all unread data. */
  closed(): Promise<string>
  /** Stops reading, as a silent client does. */
  destroy(): void
}

export interface RawSmtpOptions {
  /** Source address, for tests of limits by address. */
  readonly localAddress?: string
  /** For a client that stays open when the server closes. */
  readonly allowHalfOpen?: boolean
  /** Encrypts from the first octet, and trusts any certificate. */
  readonly isTlsImplicit?: boolean
}

/** Connects to 127.0.0.1, or to `host`. The greeting is the first reply. */
export async function connectSmtp(port: number, host = '127.0.0.1', options: RawSmtpOptions = {}): Promise<RawSmtp> {
  const { isTlsImplicit, ...others } = options
  const socket = isTlsImplicit
    ? connectTls({ port, host, rejectUnauthorized: false })
    : connectTcp({ port, host, ...others })
  await new Promise<void>((resolve, reject) => {
    socket.once(isTlsImplicit ? 'secureConnect' : 'connect', resolve)
    socket.once('error', reject)
  })
  return new Client(socket)
}

class Client implements RawSmtp {
  socket: Socket
  #text = ''
  #isOver = false
  #waiting = new Set<() => void>()

  constructor(socket: Socket) {
    this.socket = socket
    this.#listenTo(socket)
  }

  write(data: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      if (this.#isOver || this.socket.destroyed) return resolve()
      const done = () => {
        this.#waiting.delete(check)
        resolve()
      }
      const check = () => {
        if (this.#isOver) done()
      }
      this.#waiting.add(check)
      this.socket.write(data, done)
    })
  }

  async reply(): Promise<string> {
    // RFC 5321 §4.2.1: the last line has a space, or nothing, after the code.
    const last = /^\d{3}(?: .*)?\r\n/m
    await this.#until(() => last.test(this.#text))
    const found = last.exec(this.#text)
    if (!found) return ''
    const end = found.index + found[0].length
    const reply = this.#text.slice(0, end)
    this.#text = this.#text.slice(end)
    return reply.trimEnd().replaceAll('\r\n', '\n')
  }

  async say(line: string): Promise<string> {
    await this.write(`${line}\r\n`)
    return this.reply()
  }

  async ask(line: string, code: string): Promise<void> {
    const reply = await this.say(line)
    if (!reply.startsWith(code)) throw new Error(`${line}: ${reply || 'the connection has ended'}`)
  }

  async startTls(): Promise<TLSSocket> {
    const reply = await this.say('STARTTLS')
    if (!reply.startsWith('220')) throw new Error(`no TLS: ${reply}`)
    const plain = this.socket
    plain.removeAllListeners()
    plain.on('error', () => {})
    const secure = connectTls({ socket: plain, rejectUnauthorized: false })
    await new Promise<void>((resolve, reject) => {
      secure.once('secureConnect', resolve)
      secure.once('error', reject)
    })
    this.socket = secure
    this.#listenTo(secure)
    return secure
  }

  async closed(): Promise<string> {
    await this.#until(() => false)
    return this.#text
  }

  destroy(): void {
    this.socket.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy()
  }

  #listenTo(socket: Socket): void {
    const over = () => {
      this.#isOver = true
      this.#look()
    }
    socket.on('data', (chunk: Buffer) => {
      this.#text += chunk.toString()
      this.#look()
    })
    socket.on('error', over)
    socket.on('end', over)
    socket.on('close', over)
  }

  #look(): void {
    for (const look of [...this.#waiting]) look()
  }

  /** Resolves when the condition holds or the connection has ended. */
  #until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!this.#isOver && !condition()) return
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
      look()
    })
  }
}
