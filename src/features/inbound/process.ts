/**
 * @module Processes what the listener took: parses it, finds out who sent it, stores its parts, and applies it in one transaction that also takes it
 * out of the queue. What a crash interrupts is processed again from the beginning; nothing of it had happened.
 *
 * taken (row in the queue) → begun (attempt counted) → applied (row gone)
 */
import type { App } from '#features/app.ts'
import type { Destination, Envelope, Received, StoredMessage } from '#features/received.ts'
import type { Timer } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { MiB, seconds } from '#platform/units.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/unknown.ts'
import type { AggregateReport } from '#protocols/reports/report.ts'
import { autoRespond } from '../agent-mailboxes/auto-responder.ts'
import { classify } from '../agent-mailboxes/classify.ts'
import { findMailbox } from '../agent-mailboxes/deliver.ts'
import { applyEffects, type Effects, type Prepared, partsOf } from './effects.ts'
import { createParser, type ParseAnswer, type Parser } from './parser.ts'

interface Receipt {
  readonly id: number
  readonly mailFrom: string
  readonly destinations: string
  readonly sourceIp: string
  readonly helo: string
  readonly tls: string | null
  readonly rawRef: number
  readonly sizeBytes: number
  readonly attempts: number
  readonly receivedAt: number
}

const sql = prepared((db) => ({
  after: db.prepare<Receipt, [number, number]>(
    `SELECT id, mail_from AS mailFrom, destinations, source_ip AS sourceIp, helo, tls, raw_ref AS rawRef, size_bytes AS sizeBytes, attempts,
     received_at AS receivedAt FROM inbound_receipts WHERE id > ? ORDER BY id LIMIT ?`,
  ),
  begin: db.prepare('UPDATE inbound_receipts SET attempts = attempts + 1 WHERE id = ?'),
  end: db.prepare('DELETE FROM inbound_receipts WHERE id = ?'),
  waiting: db.prepare<{ n: number }, []>('SELECT COUNT(*) AS n FROM inbound_receipts'),
}))

/** Messages in hand at the same time: most of it is waiting for DNS. */
const MOST_AT_ONCE = 32
/** Octets of them; a larger message is processed alone. Parsed, a message takes several times its size. */
const MOST_BYTES_AT_ONCE = 24 * MiB
/** A message with which the process died so often is stored without being looked into. */
const MOST_ATTEMPTS = 3
const STORAGE_RETRY_MS = seconds(5)
const STOP_GRACE_MS = seconds(8)

/** Messages that wait to be processed, or are being processed. */
export const countWaiting = (db: App['db']): number => sql(db).waiting.get()?.n ?? 0

export class InboundProcessor {
  readonly #app: App
  readonly #parser: Parser
  readonly #running = new Set<Promise<void>>()
  /** The newest receipt that was taken in hand. */
  #lastTaken = 0
  #inHand = 0
  #bytesInHand = 0
  /** What has to be tried again, because it could not be stored. */
  readonly #again: Receipt[] = []
  /** Receipts whose attempt was counted in this run. */
  readonly #begun = new Set<number>()
  #timer: Timer | undefined
  #isStopping = false
  #isClosed = false
  /** Resolves when nobody waits for the parser any more. */
  readonly #closing = Promise.withResolvers<undefined>()
  #stopListening = () => {}

  /** @param parser in place of the Worker, for tests */
  constructor(app: App, parser: Parser = createParser(app)) {
    this.#app = app
    this.#parser = parser
  }

  /** Takes up what the last run left, then what comes in. */
  start(): void {
    this.#stopListening = this.#app.mailReceived.listen(() => this.#pump())
    this.#pump()
  }

  /** Takes up nothing more and waits for what is in hand; what takes longer is processed after the next start. */
  async stop(graceMs = STOP_GRACE_MS): Promise<void> {
    this.#isStopping = true
    this.#stopListening()
    this.#timer?.cancel()
    const grace = this.#app.clock.after(graceMs, () => this.#close())
    if (graceMs === 0) this.#close()
    await Promise.all(this.#running)
    grace.cancel()
    this.#close()
  }

  #close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#closing.resolve(undefined)
    this.#parser.close()
  }

  /** Never throws: it is called by a signal and a timer. */
  #pump(): void {
    try {
      while (!this.#isStopping) {
        const next = this.#again[0] ?? sql(this.#app.db).after.get(this.#lastTaken, 1) ?? undefined
        if (!next || !this.#hasRoom(next)) return
        if (this.#again[0] === next) this.#again.shift()
        else this.#lastTaken = next.id
        this.#background(next)
      }
    } catch (error) {
      this.#app.log.error({ err: error }, 'the queue of received mail could not be read; it is tried again')
      this.#pumpLater()
    }
  }

  #pumpLater(): void {
    this.#timer?.cancel()
    this.#timer = this.#app.clock.after(STORAGE_RETRY_MS, () => this.#pump())
  }

  #hasRoom({ sizeBytes }: Receipt): boolean {
    return this.#inHand === 0 || (this.#inHand < MOST_AT_ONCE && this.#bytesInHand + sizeBytes <= MOST_BYTES_AT_ONCE)
  }

  #background(receipt: Receipt): void {
    this.#inHand++
    this.#bytesInHand += receipt.sizeBytes
    const work = this.#process(receipt)
      .catch((error: unknown) => {
        if (this.#isStopping) return
        this.#app.log.error(
          { err: error, receipt: receipt.id },
          'a received message could not be processed; it is tried again',
        )
        this.#again.push(receipt)
        this.#pumpLater()
      })
      .finally(() => {
        this.#inHand--
        this.#bytesInHand -= receipt.sizeBytes
        this.#running.delete(work)
        // What failed waits for the timer, and holds nobody else up.
        if (this.#again.length === 0) this.#pump()
      })
    this.#running.add(work)
  }

  async #process(receipt: Receipt): Promise<void> {
    const app = this.#app
    const destinations = JSON.parse(receipt.destinations) as Destination[]
    const answer = await Promise.race([this.#parse(receipt), this.#closing.promise])
    // The service ends, and the answer was cut off: nothing is known, so nothing is stored.
    if (answer === undefined || this.#isClosed) return
    const ready = await this.#prepare(receipt, destinations, answer)
    const effects = await app.commit.write((tx) => {
      end(tx, receipt.id)
      return applyEffects(app, tx, destinations, ready)
    })
    this.#begun.delete(receipt.id)
    await this.#respond(effects, ready.received)
  }

  async #parse(receipt: Receipt): Promise<ParseAnswer> {
    const app = this.#app
    if (receipt.attempts >= MOST_ATTEMPTS)
      return {
        problem: 'The service ended several times while it was parsed.',
        strippedText: null,
        authentication: UNKNOWN_AUTHENTICATION,
      }
    // Once in a run: what could not be stored is no fault of the message.
    if (!this.#begun.has(receipt.id)) {
      await app.commit.write((tx) => {
        sql(tx.db).begin.run(receipt.id)
      })
      this.#begun.add(receipt.id)
    }
    return await this.#parser.parse({
      rawRef: receipt.rawRef,
      sizeBytes: receipt.sizeBytes,
      mailFrom: receipt.mailFrom,
      sourceIp: receipt.sourceIp,
      helo: receipt.helo,
      tls: receipt.tls,
      hostname: app.config.hostname,
      wantsReport: true,
    })
  }

  /** Stores the parts that somebody will ask for, and asks for what takes time. */
  async #prepare(receipt: Receipt, destinations: readonly Destination[], answer: ParseAnswer): Promise<Prepared> {
    const app = this.#app
    const envelope: Envelope = {
      mailFrom: receipt.mailFrom,
      sourceIp: receipt.sourceIp,
      helo: receipt.helo,
      tls: receipt.tls,
      receivedAt: receipt.receivedAt,
      rawRef: receipt.rawRef,
      sizeBytes: receipt.sizeBytes,
    }
    const isForTenants = destinations.some(({ kind }) => kind === 'domain')
    const message = answer.message && (await this.#storeParts(answer, isForTenants))
    const report = answer.report?.kind === 'aggregate' ? await this.#storeContent(answer.report.report) : undefined
    const received: Received = {
      envelope,
      message,
      problem: answer.message ? undefined : (answer.problem ?? 'It cannot be parsed.'),
      authentication: answer.authentication,
      report: answer.report,
    }
    const isForMailbox = destinations.some(
      (to) => to.kind === 'domain' && findMailbox(app.db, partsOf(to.address).domain, partsOf(to.address).localPart),
    )
    const classification = message && isForMailbox ? await classify(app, message) : undefined
    return { received, report, reportProblem: answer.reportProblem, classification }
  }

  async #storeParts({ message, strippedText }: ParseAnswer, isForTenants: boolean): Promise<StoredMessage | undefined> {
    if (!message) return undefined
    const { attachments, ...rest } = message
    if (!isForTenants)
      return {
        ...rest,
        headersRef: null,
        textRef: null,
        htmlRef: null,
        strippedText,
        strippedRef: null,
        attachments: [],
      }
    const texts = [JSON.stringify(message.headers), message.text, message.html, strippedText]
    const given = texts.map((text) => (text === null ? undefined : Buffer.from(text)))
    const parts = [...given, ...attachments.map(({ content }) => content)]
    const refs = await this.#app.content.put(
      parts.filter((part) => part !== undefined),
      this.#app.clock.now(),
    )
    // In the order of the parts, none for those that there are not.
    const stored = parts.map((part) => (part === undefined ? null : (refs.shift() ?? null)))
    const [headersRef = null, textRef = null, htmlRef = null, strippedRef = null] = stored
    return {
      ...rest,
      headersRef,
      textRef,
      htmlRef,
      strippedText,
      strippedRef,
      attachments: attachments.map(({ content, ...attachment }, index) => {
        const ref = stored[given.length + index]
        if (typeof ref !== 'number') throw new Error('an attachment was not stored')
        return { ...attachment, sizeBytes: content.length, ref }
      }),
    }
  }

  async #storeContent(report: AggregateReport): Promise<AggregateReport & { contentRef: number }> {
    const [contentRef] = await this.#app.content.put([report.content], this.#app.clock.now())
    if (contentRef === undefined) throw new Error('a report was not stored')
    return { ...report, contentRef }
  }

  /** A crash here loses an automatic answer, and never sends one twice. */
  async #respond({ mailboxes }: Effects, received: Received): Promise<void> {
    const { message } = received
    if (!message) return
    for (const { mailbox, threadId } of mailboxes)
      await autoRespond(this.#app, mailbox, { ...received, message }, threadId)
  }
}

function end(tx: Tx, receiptId: number): void {
  if (sql(tx.db).end.run(receiptId).changes !== 1) throw new Error(`receipt ${receiptId} is not in the queue`)
}
