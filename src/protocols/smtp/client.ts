/**
 * @module An SMTP session and its transactions, one recipient each (RFC 5321 §3.3, RFC 2920). Reports for each
 * transaction whether the message was accepted, certainly not accepted, or possibly accepted; never retries.
 */
import { isReply, type ReplyOrFailure, type SmtpChannel, type SmtpTls } from './channel.ts'
import { countBytes, formatMailCommand, formatRcptCommand, rejectBeforeSending, type SmtpEnvelope } from './commands.ts'
import { generateDataBlocks } from './dot-stuffing.ts'
import type { SmtpFailure } from './failures.ts'
import type { SmtpExtensions, SmtpReply } from './replies.ts'
import type { OnPhaseEnd, SmtpTimeouts } from './timeouts.ts'

export interface SmtpTransaction extends SmtpEnvelope {
  /**
   * Called when the server has answered DATA with 354. The first octet of the message is sent only after the promise
   * resolves; when it rejects, no octet is sent. `send` waits for the promise even if the connection ends.
   */
  readonly beforeBody: () => Promise<void>
  readonly onPhaseEnd?: OnPhaseEnd
}

export type TransactionResult =
  /** The server replied to the final dot with 2xx. */
  | { readonly kind: 'accepted'; readonly reply: SmtpReply }
  /**
   * The server replied with 4xx or 5xx, so the message was not accepted. In phase `body`, this is the reply to the
   * final dot, or one that came while the message was being sent.
   */
  | { readonly kind: 'refused'; readonly phase: 'mail' | 'rcpt' | 'data' | 'body'; readonly reply: SmtpReply }
  /** The connection ended before the first octet of the message: not accepted. */
  | { readonly kind: 'lost'; readonly phase: 'mail' | 'rcpt' | 'data'; readonly failure: SmtpFailure }
  /**
   * After the first octet of the message, the connection ended or an invalid reply came, so it is unknown whether the
   * message was accepted.
   */
  | { readonly kind: 'uncertain'; readonly failure: SmtpFailure }
  /** `beforeBody` rejected. The message was not accepted, and the connection is closed. */
  | { readonly kind: 'aborted'; readonly error: unknown }

/**
 * `before-body`: 354 was received and `beforeBody` has not resolved yet. `body`: octets of the message may have been
 * sent.
 */
export type SmtpPhase = 'idle' | 'mail' | 'rcpt' | 'data' | 'before-body' | 'body' | 'quit' | 'closed'

interface SmtpClientParts extends Pick<SmtpClient, 'extensions' | 'tls' | 'remoteAddress' | 'localAddress'> {
  readonly channel: SmtpChannel
  readonly timeouts: SmtpTimeouts
}

/** A session after EHLO, STARTTLS and AUTH, created by `connectSmtp`. Runs one transaction at a time. */
export class SmtpClient {
  readonly extensions: SmtpExtensions
  /** Undefined: plaintext. */
  readonly tls: SmtpTls | undefined
  readonly remoteAddress: string
  readonly localAddress: string
  readonly #channel: SmtpChannel
  readonly #timeouts: SmtpTimeouts
  #phase: SmtpPhase = 'idle'
  #transactionCount = 0
  /** Whether the server may still hold the envelope of a transaction that was not accepted. */
  #needsReset = false

  constructor(parts: SmtpClientParts) {
    this.extensions = parts.extensions
    this.tls = parts.tls
    this.remoteAddress = parts.remoteAddress
    this.localAddress = parts.localAddress
    this.#channel = parts.channel
    this.#timeouts = parts.timeouts
  }

  /** Number of transactions for which MAIL was written. */
  get transactionCount(): number {
    return this.#transactionCount
  }

  get phase(): SmtpPhase {
    return this.#channel.failure ? 'closed' : this.#phase
  }

  /** Whether a transaction can begin now. */
  get isUsable(): boolean {
    return this.phase === 'idle'
  }

  /**
   * Sends one message to one recipient. On a session that has ended, returns `lost` in phase `mail`; if the session was
   * used before, the server probably just closed it because it was idle. A message above the server's SIZE, or one that
   * needs SMTPUTF8 from a server without it, is not sent; the result is `refused` in phase `mail`, with a reply that
   * was created locally.
   *
   * Throws when a transaction is already running, and for addresses with line breaks or the like.
   */
  async send(transaction: SmtpTransaction): Promise<TransactionResult> {
    if (this.#phase !== 'idle' && this.#phase !== 'closed') throw new Error(`send() during phase ${this.#phase}`)
    const mail = formatMailCommand(transaction, this.extensions)
    const rcpt = formatRcptCommand(transaction)
    const refusal = rejectBeforeSending(transaction, this.extensions)
    if (refusal) return { kind: 'refused', phase: 'mail', reply: refusal }
    if (this.#channel.failure) return { kind: 'lost', phase: 'mail', failure: this.#channel.failure }
    this.#transactionCount++
    try {
      const { beforeBody, message, onPhaseEnd = ignorePhase } = transaction
      const notSent = await this.#sendEnvelope(mail, rcpt, onPhaseEnd)
      if (notSent) return notSent
      const notBegun = await this.#runBeforeBody(beforeBody)
      onPhaseEnd('begin')
      if (notBegun) return notBegun
      const result = await this.#sendBody(message)
      onPhaseEnd('body')
      return result
    } finally {
      this.#phase = this.#channel.failure ? 'closed' : 'idle'
    }
  }

  /**
   * Ends the session with QUIT and waits for the reply, but no longer than `quitMs`. During a transaction, does the
   * same as `destroy`.
   */
  async quit(): Promise<void> {
    if (this.isUsable) {
      this.#phase = 'quit'
      this.#channel.writeCommand('QUIT\r\n')
      await this.#channel.readReply(this.#timeouts.quitMs, 'QUIT')
    }
    this.destroy()
  }

  /** Closes the connection immediately. A running transaction ends as `lost` or `uncertain`, with this failure. */
  destroy(failure: SmtpFailure = { kind: 'closed', message: 'The client closed the connection' }): void {
    this.#channel.fail(failure)
    if (this.#phase === 'idle' || this.#phase === 'quit') this.#phase = 'closed'
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.quit()
  }

  /**
   * Sends MAIL, RCPT and DATA, in a single write if the server offers PIPELINING. Returns undefined after the 354,
   * otherwise the result of the transaction.
   */
  async #sendEnvelope(mail: string, rcpt: string, onPhaseEnd: OnPhaseEnd): Promise<TransactionResult | undefined> {
    const channel = this.#channel
    const { pipelining } = this.extensions
    const needsReset = this.#needsReset
    this.#phase = 'mail'
    if (pipelining) channel.writeCommand(`${needsReset ? 'RSET\r\n' : ''}${mail}${rcpt}DATA\r\n`, needsReset ? 4 : 3)
    if (needsReset) {
      if (!pipelining) channel.writeCommand('RSET\r\n')
      const answer = await channel.readReply(this.#timeouts.ehloMs, 'RSET')
      if (!isReply(answer)) return { kind: 'lost', phase: 'mail', failure: answer }
      // Without a RSET the server could still have the previous recipient in its list, who would get this message.
      if (!isPositive(answer)) return this.#failReset(answer)
    }
    this.#needsReset = true

    if (!pipelining) channel.writeCommand(mail)
    const toMail = await channel.readReply(this.#timeouts.mailMs, 'MAIL')
    onPhaseEnd('mail')
    if (!isReply(toMail) || !isPositive(toMail)) return this.#resolveRejection('mail', toMail, pipelining ? 2 : 0)

    this.#phase = 'rcpt'
    if (!pipelining) channel.writeCommand(rcpt)
    const toRcpt = await channel.readReply(this.#timeouts.rcptMs, 'RCPT')
    onPhaseEnd('rcpt')
    if (!isReply(toRcpt) || !isPositive(toRcpt)) return this.#resolveRejection('rcpt', toRcpt, pipelining ? 1 : 0)

    this.#phase = 'data'
    if (!pipelining) channel.writeCommand('DATA\r\n')
    const toData = await channel.readReply(this.#timeouts.dataInitiationMs, 'DATA')
    onPhaseEnd('data')
    if (!isReply(toData) || toData.code !== 354) return this.#resolveRejection('data', toData, 0)
    return undefined
  }

  #failReset(reply: SmtpReply): TransactionResult {
    if (reply.code === 421) return this.#endSession('mail', reply)
    const failure = this.#failProtocol(`The server answered RSET with ${reply.text}`)
    return { kind: 'lost', phase: 'mail', failure }
  }

  /** Reads the replies to the commands that are already written, then returns the result for an unexpected reply. */
  async #resolveRejection(
    phase: 'mail' | 'rcpt' | 'data',
    answer: ReplyOrFailure,
    pendingReplies: number,
  ): Promise<TransactionResult> {
    if (!isReply(answer)) return { kind: 'lost', phase, failure: answer }
    if (answer.code === 421) return this.#endSession(phase, answer)
    if (answer.code < 400) {
      return {
        kind: 'lost',
        phase,
        failure: this.#failProtocol(`The server answered ${phase.toUpperCase()} with ${answer.text}`),
      }
    }
    for (let left = pendingReplies; left > 0; left--) {
      const isToData = left === 1
      const timeoutMs = isToData ? this.#timeouts.dataInitiationMs : this.#timeouts.rcptMs
      const next = await this.#channel.readReply(timeoutMs, isToData ? 'DATA' : 'RCPT')
      if (!isReply(next)) break
      if (next.code === 421) return this.#endSession(phase, answer)
      // A server may answer 354 although it accepted no recipient, and then expects a lone dot (RFC 2920 §3.1). We
      // close the connection, because a server with such an error might deliver the empty message.
      if (isToData && next.code < 400)
        this.#failProtocol(`The server answered DATA with ${next.text} after rejecting the envelope`)
    }
    return { kind: 'refused', phase, reply: answer }
  }

  async #runBeforeBody(beforeBody: () => Promise<void>): Promise<TransactionResult | undefined> {
    this.#phase = 'before-body'
    try {
      await beforeBody()
    } catch (error) {
      this.destroy()
      return { kind: 'aborted', error }
    }
    const { failure, unsolicitedReply: unasked } = this.#channel
    if (!failure) return undefined
    if (unasked?.code === 421) return { kind: 'refused', phase: 'data', reply: unasked }
    return { kind: 'lost', phase: 'data', failure }
  }

  async #sendBody(message: readonly Uint8Array[]): Promise<TransactionResult> {
    const channel = this.#channel
    this.#phase = 'body'
    channel.expectReply(`[message of ${countBytes(message)} bytes]`)
    const blocks = generateDataBlocks(message)
    let block = blocks.next()
    let flushed = true
    while (flushed && !block.done && !channel.hasReply) {
      flushed = channel.write(block.value) || (await channel.waitForDrain(this.#timeouts.dataBlockMs))
      block = blocks.next()
    }
    const answer = await channel.readReply(this.#timeouts.finalDotMs, 'the final dot')
    if (!isReply(answer)) return { kind: 'uncertain', failure: answer }
    if (block.done && isPositive(answer)) {
      this.#needsReset = false
      return { kind: 'accepted', reply: answer }
    }
    if (answer.code < 400) {
      const failure = this.#failProtocol(
        `The server answered the ${block.done ? 'final dot' : 'incomplete message'} with ${answer.text}`,
      )
      return { kind: 'uncertain', failure }
    }
    if (answer.code === 421) return this.#endSession('body', answer)
    // The message was rejected before its end was sent. It cannot be accepted without its end, and the session cannot
    // continue.
    if (!flushed || !block.done) this.#failProtocol(`The server rejected the message before its end: ${answer.text}`)
    return { kind: 'refused', phase: 'body', reply: answer }
  }

  /** The rejection is a 421, or a 421 follows it: the server is closing the session (RFC 5321 §3.8). */
  #endSession(phase: 'mail' | 'rcpt' | 'data' | 'body', reply: SmtpReply): TransactionResult {
    this.#channel.fail({ kind: 'closed', message: `The server ended the session: ${reply.text}` })
    return { kind: 'refused', phase, reply }
  }

  #failProtocol(message: string): SmtpFailure {
    return this.#channel.fail({ kind: 'protocol', message })
  }
}

const ignorePhase: OnPhaseEnd = () => undefined

const isPositive = (reply: SmtpReply): boolean => reply.code < 300
