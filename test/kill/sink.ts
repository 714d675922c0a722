/**
 * @module The receiver of the kill test: an SMTP server that tracks the state of every transaction and can hold sessions
 * inside DATA. A message counts as received once its final dot is read, even if the sender got no reply.
 */
import type { Random } from '#test/support/random.ts'
import { type Reaction, type ScriptedSession, startScriptedSmtp } from '#test/support/scripted-smtp.ts'

/** A transaction that got its 354. */
export interface Transaction {
  readonly recipient: string
  readonly session: ScriptedSession
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
  readonly undecided: ReadonlyMap<ScriptedSession, readonly Transaction[]>
}

export interface KillSink {
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
/** Recipients with this prefix are always deferred: 450 at RCPT. */
export const DEFERRED_PREFIX = 'later-'
/** Recipients with this prefix do not exist: 550 at RCPT. */
export const REFUSED_PREFIX = 'nobody-'

/** What the receiver does with a transaction. */
interface Plan {
  readonly transaction: Transaction
  /** Half of those that are held leave the message unread, so most of a large one is still at the sender. */
  readonly hold: 'unread' | 'read' | undefined
  readonly isSlow: boolean
  readonly isCut: boolean
}

export async function startKillSink(random: Random): Promise<KillSink> {
  const transactions: Transaction[] = []
  const dropped = new Set<string>()
  /** Of the current process. */
  const current = new Map<ScriptedSession, Plan>()
  const undecided = new Map<ScriptedSession, Transaction[]>()
  const held = new Set<() => void>()
  let behaviour: Behaviour = { hold: 0, slow: 0, drop: 0, cut: 0 }

  const nameRecipient = (line: string): string => /<([^@>]+)@/.exec(line)?.[1] ?? ''
  const isRefused = (recipient: string): boolean =>
    recipient.startsWith(DEFERRED_PREFIX) || recipient.startsWith(REFUSED_PREFIX)
  const begin = (session: ScriptedSession): Reaction => {
    const recipient = nameRecipient(session.commands.findLast((line) => line.startsWith('RCPT')) ?? '')
    if (isRefused(recipient)) return '503 5.5.1 no recipient'
    if (!dropped.has(recipient) && random.chance(behaviour.drop)) {
      dropped.add(recipient)
      return { drop: 'end' }
    }
    const transaction: Transaction = {
      recipient,
      session,
      received: false,
      answeredAtMs: undefined,
      cut: false,
      testId: undefined,
      isWhole: false,
    }
    const hold = random.chance(behaviour.hold) ? (random.chance(0.5) ? 'unread' : 'read') : undefined
    const isSlow = random.chance(behaviour.slow)
    current.set(session, { transaction, hold, isSlow, isCut: random.chance(behaviour.cut) })
    transactions.push(transaction)
    undecided.set(session, [...(undecided.get(session) ?? []), transaction])
    return '354 go on'
  }
  /** The sender stored the previous outcome before it wrote this body. */
  const onBody = (session: ScriptedSession): void => {
    const plan = current.get(session)
    if (!plan) return
    undecided.set(session, [plan.transaction])
    if (plan.hold !== 'unread') return
    session.pause()
    held.add(() => session.resume())
  }
  const end = async (session: ScriptedSession): Promise<Reaction> => {
    const plan = current.get(session)
    if (!plan) return { drop: 'end' }
    const { transaction, hold, isSlow, isCut } = plan
    transaction.received = true
    const text = session.messages.at(-1)?.toString('latin1') ?? ''
    transaction.testId = /^X-Test-Id: (\S+)\r$/m.exec(text)?.[1]
    transaction.isWhole = transaction.testId !== undefined && text.includes(`End of ${transaction.testId}.`)
    // All messages of a long run do not fit into memory.
    session.messages.length = 0
    session.rawMessages.length = 0
    if (hold === 'read') await new Promise<void>((resolve) => held.add(resolve))
    if (isSlow && !isCut) await Bun.sleep(random.between(1, MAX_REPLY_DELAY_MS))
    current.delete(session)
    transaction.cut = isCut
    if (isCut || session.closed) return { drop: 'end' }
    transaction.answeredAtMs = performance.now()
    return '250 2.0.0 taken'
  }
  const server = await startScriptedSmtp({
    rcpt(line) {
      const recipient = nameRecipient(line)
      if (recipient.startsWith(DEFERRED_PREFIX)) return '450 4.2.1 later'
      return recipient.startsWith(REFUSED_PREFIX) ? '550 5.1.1 nobody' : '250 2.1.5 ok'
    },
    data: (_, session) => begin(session),
    onBody,
    body: (_, session) => end(session),
  })
  const inData = () => [...current].flatMap(([session, { transaction }]) => (session.closed ? [] : [transaction]))
  return {
    port: server.port,
    transactions,
    behave: (next) => {
      behaviour = next
    },
    inData,
    atKill() {
      const atMs = performance.now()
      const recent = [...undecided].filter(([{ closedAtMs = atMs }]) => closedAtMs > atMs - STORED_WITHIN_MS)
      return { atMs, inData: inData(), undecided: new Map(recent) }
    },
    async releaseAfterKill() {
      undecided.clear()
      for (const release of held) release()
      held.clear()
      await server.until(() => server.sessions.every(({ closed }) => closed))
      current.clear()
    },
  }
}
