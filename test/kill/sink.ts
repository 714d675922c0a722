/**
 * @module The receiver of the kill test: an SMTP server on node:net that tracks the state of every transaction and can
 * hold sessions inside DATA. A message counts as received once its final dot is read, even if the sender got no reply.
 */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import type { Random } from '#test/support/random.ts'

/** A transaction that got its 354. */
export interface Transaction {
  readonly recipient: string
  readonly session: number
  /** Whether octets of the message arrived, so the sender had stored the beginning. */
  bodyBegan: boolean
  /** Whether the final dot was read. */
  received: boolean
  /** When the 250 to the final dot was written, on the monotonic clock. */
  answeredAtMs: number | undefined
  /** Whether the receiver cut the connection after the dot, without a reply. */
  cut: boolean
  /** Value of X-Test-Id in the message. */
  testId: string | undefined
  /** Whether the text ended with the line `End of <id>`, so nothing is missing. */
  isWhole: boolean
}

/** Probabilities per transaction of each behaviour. */
export interface Behaviour {
  /** Held inside DATA until `release`. */
  readonly hold: number
  /** A pause before the reply to the final dot. */
  readonly slow: number
  /** The connection is closed instead of the 354; at most once per recipient. */
  readonly drop: number
  /** The connection is closed instead of the reply to the final dot; the message counts as received. */
  readonly cut: number
}

export interface KillSnapshot {
  /** Time on the monotonic clock. */
  readonly atMs: number
  /** Transactions between their 354 and the reply to their final dot. */
  readonly inData: readonly Transaction[]
  /**
   * By session, the transactions whose outcome the sender may not have stored: the last one whose body had begun, and
   * one that got its 354 after it. A sender stores each outcome before it sends the next body, so at most one per
   * session may stay uncertain.
   */
  readonly undecided: ReadonlyMap<number, readonly Transaction[]>
}

export interface KillSink extends AsyncDisposable {
  readonly port: number
  readonly transactions: readonly Transaction[]
  behave(behaviour: Behaviour): void
  /** Returns the transactions that are now between 354 and their reply. */
  inData(): Transaction[]
  /** Call it in the same tick as the kill. Clears the sessions, because later ones belong to another process. */
  atKill(): KillSnapshot
  /** Releases held sessions; resolves when every session of the dead process is closed. */
  releaseAfterKill(): Promise<void>
}

/** A sender stores the outcome of a transaction within this time after its session is closed. */
const STORED_WITHIN_MS = 2000
const MAX_REPLY_DELAY_MS = 300
const END_OF_DATA = Buffer.from('\r\n.\r\n')
/** Recipients with this prefix are always deferred: 450 at RCPT. */
export const DEFERRED_PREFIX = 'later-'
/** Recipients with this prefix do not exist: 550 at RCPT. */
export const REFUSED_PREFIX = 'nobody-'

interface Session {
  readonly id: number
  readonly socket: Socket
  current: Transaction | undefined
  undecided: Transaction[]
  closedAtMs: number | undefined
  release: (() => void) | undefined
}

export async function startKillSink(random: Random): Promise<KillSink> {
  const transactions: Transaction[] = []
  const dropped = new Set<string>()
  const open = new Set<Session>()
  /** Sessions of the current process, including ended ones. */
  let lived: Session[] = []
  let behaviour: Behaviour = { hold: 0, slow: 0, drop: 0, cut: 0 }
  let lastSession = 0

  const server = createServer({ noDelay: true }, (socket) => {
    const session: Session = {
      id: ++lastSession,
      socket,
      current: undefined,
      undecided: [],
      closedAtMs: undefined,
      release: undefined,
    }
    open.add(session)
    lived.push(session)
    socket.on('close', () => {
      open.delete(session)
      session.closedAtMs = performance.now()
    })
    socket.on('error', () => undefined)
    void converse(session).catch(() => socket.destroy())
  })

  async function converse(session: Session): Promise<void> {
    const { socket } = session
    const input = createReader(socket)
    let recipient = ''
    socket.write('220 mx.test ESMTP\r\n')
    for (;;) {
      const line = await input.line()
      if (line === undefined) return
      const verb = line.slice(0, 4).toUpperCase()
      if (verb === 'EHLO') socket.write('250-mx.test\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SIZE 52428800\r\n')
      else if (verb === 'RCPT') {
        recipient = /<([^@>]+)@/.exec(line)?.[1] ?? ''
        const isDeferred = recipient.startsWith(DEFERRED_PREFIX)
        const isRefused = recipient.startsWith(REFUSED_PREFIX)
        if (isDeferred || isRefused) recipient = ''
        socket.write(isDeferred ? '450 4.2.1 later\r\n' : isRefused ? '550 5.1.1 nobody\r\n' : '250 2.1.5 ok\r\n')
      } else if (verb === 'DATA') {
        if (recipient === '') socket.write('503 5.5.1 no recipient\r\n')
        else if (!(await takeMessage(session, input, recipient))) return
        recipient = ''
      } else if (verb === 'QUIT') {
        socket.end('221 2.0.0 bye\r\n')
        return
      } else socket.write('250 2.0.0 ok\r\n')
    }
  }

  /** Handles a transaction from the 354 to the reply. Returns false when the session has ended. */
  async function takeMessage(session: Session, input: Reader, recipient: string): Promise<boolean> {
    const { socket } = session
    if (!dropped.has(recipient) && random.chance(behaviour.drop)) {
      dropped.add(recipient)
      socket.destroy()
      return false
    }
    const isHeld = random.chance(behaviour.hold)
    // Half of the held transactions leave the message unread, so most of a large one is still at the sender.
    const isHeldUnread = isHeld && random.chance(0.5)
    const isSlow = random.chance(behaviour.slow)
    const isCut = random.chance(behaviour.cut)
    const transaction: Transaction = {
      recipient,
      session: session.id,
      bodyBegan: false,
      received: false,
      answeredAtMs: undefined,
      cut: false,
      testId: undefined,
      isWhole: false,
    }
    transactions.push(transaction)
    session.current = transaction
    session.undecided.push(transaction)
    socket.write('354 go on\r\n')
    if (!(await input.more())) return false
    transaction.bodyBegan = true
    // The sender stored the previous outcome before it wrote this body.
    session.undecided = [transaction]
    if (isHeldUnread) await held(session, input)
    const message = await input.until(END_OF_DATA)
    if (!message) return false
    transaction.received = true
    const text = message.toString('latin1')
    transaction.testId = /^X-Test-Id: (\S+)\r$/m.exec(text)?.[1]
    transaction.isWhole = transaction.testId !== undefined && text.includes(`End of ${transaction.testId}.`)
    if (isHeld && !isHeldUnread) await held(session, input)
    if (isCut) {
      transaction.cut = true
      session.current = undefined
      socket.destroy()
      return false
    }
    if (isSlow) await Bun.sleep(random.between(1, MAX_REPLY_DELAY_MS))
    if (socket.destroyed) return false
    transaction.answeredAtMs = performance.now()
    session.current = undefined
    socket.write('250 2.0.0 taken\r\n')
    return true
  }

  const held = (session: Session, input: Reader): Promise<void> =>
    new Promise((resolve) => {
      input.pause()
      session.release = () => {
        session.release = undefined
        input.resume()
        resolve()
      }
    })

  const inData = () => [...open].flatMap(({ current }) => current ?? [])

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    transactions,
    behave: (next) => {
      behaviour = next
    },
    inData,
    atKill() {
      const since = performance.now() - STORED_WITHIN_MS
      const recent = lived.filter(({ closedAtMs }) => closedAtMs === undefined || closedAtMs > since)
      const undecided = new Map(recent.filter((s) => s.undecided.length > 0).map((s) => [s.id, [...s.undecided]]))
      return { atMs: performance.now(), inData: inData(), undecided }
    },
    async releaseAfterKill() {
      lived = []
      const closed = [...open].map(({ socket }) => (socket.destroyed ? undefined : once(socket, 'close')))
      for (const session of open) session.release?.()
      await Promise.all(closed)
    },
    async [Symbol.asyncDispose]() {
      for (const { socket } of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

interface Reader {
  /** Returns the next line without its end; undefined when the connection is closed. */
  line(): Promise<string | undefined>
  /** Waits for at least one octet; false when the connection is closed. */
  more(): Promise<boolean>
  /** Reads up to and including `end`; a message that is only a dot counts as empty. */
  until(end: Buffer): Promise<Buffer | undefined>
  pause(): void
  resume(): void
}

function createReader(socket: Socket): Reader {
  let buffered: Buffer = Buffer.alloc(0)
  let chunks: Buffer[] = []
  let ended = false
  let wake: () => void = () => undefined
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    wake()
  })
  socket.on('close', () => {
    ended = true
    wake()
  })
  /** Reads buffered data, or waits for more. Returns false when the connection is closed. */
  const take = async (): Promise<boolean> => {
    while (chunks.length === 0) {
      if (ended) return false
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
    buffered = Buffer.concat([buffered, ...chunks])
    chunks = []
    return true
  }
  const upTo = async (end: string | Buffer): Promise<Buffer | undefined> => {
    let searchFrom = 0
    for (;;) {
      const at = buffered.indexOf(end, searchFrom)
      if (at >= 0) {
        const found = buffered.subarray(0, at)
        buffered = buffered.subarray(at + end.length)
        return found
      }
      searchFrom = Math.max(buffered.length - end.length + 1, 0)
      if (!(await take())) return undefined
    }
  }
  return {
    line: async () => (await upTo('\r\n'))?.toString('latin1'),
    more: async () => buffered.length > 0 || (await take()),
    until: (end) => upTo(end),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
  }
}
