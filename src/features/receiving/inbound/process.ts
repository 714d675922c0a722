/**
 * @module Processes what the listener took: parses it, finds out who sent it, stores its parts, and applies it in one transaction that also takes it
 * out of the queue. What a crash interrupts is processed again from the beginning; nothing of it had happened.
 *
 * taken (row in the queue) → begun (attempt counted) → applied (row gone)
 *
 * A message that cannot be parsed is applied all the same, with its header and its raw form.
 */
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { autoRespond } from '#features/receiving/agent-mailboxes/auto-responder.ts'
import { classify } from '#features/receiving/agent-mailboxes/classify.ts'
import { findMailbox } from '#features/receiving/agent-mailboxes/deliver.ts'
import { refusalOfReport } from '#features/receiving/domain-reports/store.ts'
import type { Destination, Envelope, Received, Refusal } from '#features/receiving/received/message.ts'
import type { Timer } from '#platform/clock.ts'
import type { Owner } from '#platform/queue/fair-queue.ts'
import { isPassingError, isStorageTrouble } from '#platform/storage-errors.ts'
import { KiB, MiB, minutes, seconds } from '#platform/units.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'
import { startOf } from '#protocols/mime/source.ts'
import { applyEffects, type Effects, type Prepared, partsOf, TooEarly } from './effects.ts'
import { givenUp } from './parse-protocol.ts'
import { type ParseAnswer, type Parser, ParserUnavailable, RawUnreadable, removeFiles } from './parser.ts'
import {
  isLarge,
  LARGE_MESSAGE_BYTES,
  networkOfOwner,
  ownerOf,
  type QueuedReceipt,
  ReceiptQueue,
  sourceNetworkOf,
} from './receipt-queue.ts'
import {
  beginAttempt,
  deathsAlone,
  endReceipt,
  findReceipt,
  isSuspect,
  type Receipt,
  receiptsAfter,
  uncountAttempt,
} from './receipts.ts'
import { release, storeParts, storeReport } from './store-parts.ts'

/** Messages in hand at the same time: most of it is waiting for DNS. */
const MOST_AT_ONCE = 128
/**
 * With so many in hand DNS has all the time that the checks take; with more it has less, down to an eighth. Whoever hands in mail whose names lead to
 * servers that say nothing would hold every place otherwise, and DNS that is dead would hold up all mail.
 */
const AT_LEISURE = 16
const LEISURELY_AUTHENTICATION_MS = seconds(20)
/** One that is processed alone holds up all others. */
const ALONE_AUTHENTICATION_MS = seconds(2)
/** A large one holds up other large ones. */
const LARGE_AUTHENTICATION_MS = seconds(5)
/** Octets of small messages in hand, and as much of large ones, of which the last one goes beyond. Parsed, a message takes as much again. */
const MAX_BYTES_IN_HAND = 16 * MiB
/** What is given to the parser before it is parsed: the order of it is fixed from there on. */
const MAX_SMALL_BYTES_UNPARSED = 2 * MiB
const MAX_LARGE_UNPARSED = 1
/** Receipts whose turns are known; of more than these the oldest come first. */
const MAX_READ_AHEAD = 20_000
/**
 * Of the slots that are left for receipts, as many as one network may have: alone 1,819, of a hundred networks each 182.
 * So a backlog of few networks never takes the turns of others.
 */
const MAX_FRACTION_OF_NETWORK = 0.1
const queueFull: Refusal = {
  code: 452,
  text: '4.3.2 Too many messages from your network wait to be processed; try again later',
}
const READ_BATCH_SIZE = 500
/** Of the messages in hand, which wait for DNS of strangers, the last ones are for networks that have none there. */
const RESERVED_HANDS = MOST_AT_ONCE / 4
/** A message with which alone in hand the process died so often is given up: stored with its header only. */
const MAX_DEATHS_ALONE = 3
/** A message that killed the process so often, even though it was only to be stored, is stored without its header too. */
const MAX_DEATHS_OVER_HEADER = MAX_DEATHS_ALONE + 2
/** A message whose raw form could not be read so often is stored without it. */
const MOST_READS = 5
/** A message that failed so often, though storage worked, is stored without being looked into. */
const MOST_FAULTS = 6
/** What could not be stored is tried again after this, then twice as long each time. */
const FIRST_RETRY_MS = seconds(5)
const LONGEST_RETRY_MS = minutes(5)
/** So often a report waits for the end of the delivery that it is about: with the delays above for a quarter of an hour, and no receiver is waited for longer. */
const MOST_EARLY_TRIES = 8
/** Reports that wait so; more are taken as they are. */
const MOST_EARLY = 1000
/** While so many wait for another try, nothing new is begun: it is not the messages that fail. */
const MOST_RESTING = 32
const STOP_GRACE_MS = seconds(8)
/** Of the header of a message that cannot be parsed. */
const MAX_HEADER_BYTES = 64 * KiB

export class InboundProcessor {
  readonly #app: App
  readonly #parser: Parser
  readonly #running = new Set<Promise<void>>()
  readonly #queue = new ReceiptQueue()
  /** The newest receipt that was read into the queue. */
  #lastRead = 0
  #hasUnread = true
  /** Receipts that were in hand when the process died: each is processed alone, so that it is known whose fault it was. */
  readonly #suspects: QueuedReceipt[] = []
  #inHand = 0
  /** Receipts that were read and are still there, by network. */
  readonly #waitingOf = new Map<string, number>()
  #waiting = 0
  /** By network. */
  readonly #inHandOf = new Map<string, number>()
  readonly #hands = {
    small: { bytes: 0, unparsed: 0, unparsedBytes: 0 },
    large: { bytes: 0, unparsed: 0, unparsedBytes: 0 },
  }
  /** What is due to be tried again. */
  readonly #again: QueuedReceipt[] = []
  /** Receipts that wait for another try, and how often each has failed. */
  readonly #failures = new Map<number, number>()
  readonly #resting = new Map<number, Timer>()
  /** The same of those that fail while storage works: they keep nothing from being begun. */
  readonly #faulty = new Map<number, Timer>()
  /** Receipts that came too early. They keep nothing from being begun: a receiver that means us ill could have many of them. */
  readonly #early = new Map<number, Timer>()
  /** How often a receipt failed while storage worked. */
  readonly #faults = new Map<number, number>()
  /** How often the raw form of a receipt could not be read. */
  readonly #unreadable = new Map<number, number>()
  /** Receipts whose attempt is counted now, as they were before it. */
  readonly #begun = new Map<number, Receipt>()
  #timer: Timer | undefined
  #isSuspectInHand = false
  #isStopping = false
  #isClosed = false
  /** Ends the wait for the parser, one for each message that waits. */
  readonly #waits = new Set<() => void>()
  #stopListening = () => {}

  constructor(app: App, parser: Parser) {
    this.#app = app
    this.#parser = parser
  }

  /** Takes up what the last run left, then what comes in. */
  start(): void {
    this.#stopListening = this.#app.mailReceived.listen(() => {
      this.#hasUnread = true
      this.#pump()
    })
    this.#pump()
  }

  /** Why no message of an address is accepted now, since its network has too many that wait; undefined: it is. */
  refusalFor(sourceIp: string): Refusal | undefined {
    const waiting = this.#waitingOf.get(sourceNetworkOf(sourceIp)) ?? 0
    return waiting >= (MAX_READ_AHEAD - this.#waiting) * MAX_FRACTION_OF_NETWORK ? queueFull : undefined
  }

  #countWaiting(network: string, change: 1 | -1): void {
    this.#waiting += change
    const waiting = (this.#waitingOf.get(network) ?? 0) + change
    if (waiting > 0) this.#waitingOf.set(network, waiting)
    else this.#waitingOf.delete(network)
  }

  /** Takes up nothing more and waits for what is in hand; what takes longer is processed after the next start. */
  async stop(graceMs = STOP_GRACE_MS): Promise<void> {
    this.#isStopping = true
    this.#stopListening()
    this.#timer?.cancel()
    for (const waiting of [this.#resting, this.#faulty, this.#early])
      for (const timer of waiting.values()) timer.cancel()
    const grace = this.#app.clock.after(graceMs, () => this.#close())
    if (graceMs === 0) this.#close()
    await Promise.all(this.#running)
    grace.cancel()
    this.#close()
    await this.#uncount([...this.#begun.keys()])
  }

  /** An attempt that ends without the death of the process says nothing against a message, however it ended. */
  async #uncount(ids: readonly number[]): Promise<void> {
    const begun = ids.map((id) => this.#begun.get(id)).filter((receipt) => receipt !== undefined)
    if (begun.length === 0) return
    try {
      await this.#app.commit.writeFromReserve((tx) => {
        for (const receipt of begun) uncountAttempt(tx, receipt)
      })
      for (const { id } of begun) this.#begun.delete(id)
    } catch (error) {
      // They are still in `#begun`: the next failure or the end of the service tries again.
      this.#app.log.warn({ err: error }, 'attempts at received messages stay counted: their end could not be stored')
    }
  }

  #close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const end of this.#waits) end()
    this.#parser.close()
  }

  /** Never throws: it is called by a signal and a timer. */
  #pump(): void {
    try {
      this.#readQueue()
      while (!this.#isStopping) {
        const next = this.#next()
        if (!next) return
        this.#begin(next)
      }
    } catch (error) {
      this.#app.log.error({ err: error }, 'the queue of received mail could not be read; it is tried again')
      this.#pumpLater()
    }
  }

  #readQueue(): void {
    const capacity = Math.min(READ_BATCH_SIZE, MAX_READ_AHEAD - this.#queue.size)
    if (!this.#hasUnread || capacity <= 0) return
    const receipts = receiptsAfter(this.#app.db, this.#lastRead, capacity)
    this.#hasUnread = receipts.length === capacity
    for (const receipt of receipts) {
      const { id, sizeBytes, attempts } = receipt
      const queued = { id, sizeBytes, attempts, owner: ownerOf(receipt) }
      if (isSuspect(receipt)) this.#suspects.push(queued)
      else this.#queue.push(queued)
      this.#countWaiting(networkOfOwner(queued.owner), 1)
      this.#lastRead = id
    }
  }

  #next(): QueuedReceipt | undefined {
    if (this.#suspects.length > 0) return this.#inHand === 0 ? this.#nextSuspect() : undefined
    if (this.#isSuspectInHand) return undefined
    const again = this.#again.findIndex((receipt) => this.#hasRoom(isLarge(receipt)))
    if (again !== -1) return this.#again.splice(again, 1)[0]
    if (this.#resting.size >= MOST_RESTING) return undefined
    return (
      (this.#hasRoom(false) ? this.#queue.shiftSmall(this.#mayBegin) : undefined) ??
      (this.#hasRoom(true) ? this.#queue.shiftLarge(this.#mayBegin) : undefined)
    )
  }

  /** Who has been alone at the fewest deaths: several kills of the process then never meet the same innocent message, and a guilty one comes last. */
  #nextSuspect(): QueuedReceipt | undefined {
    let next = 0
    for (const [index, { attempts }] of this.#suspects.entries())
      if (attempts < (this.#suspects[next]?.attempts ?? 0)) next = index
    return this.#suspects.splice(next, 1)[0]
  }

  readonly #mayBegin = (owner: Owner): boolean =>
    this.#inHand < MOST_AT_ONCE - RESERVED_HANDS || !this.#inHandOf.has(networkOfOwner(owner))

  #hasRoom(isForLarge: boolean): boolean {
    if (this.#inHand >= MOST_AT_ONCE) return false
    const { bytes, unparsed, unparsedBytes } = this.#hands[isForLarge ? 'large' : 'small']
    if (isForLarge) return bytes < MAX_BYTES_IN_HAND && unparsed < MAX_LARGE_UNPARSED
    return (
      bytes + LARGE_MESSAGE_BYTES <= MAX_BYTES_IN_HAND &&
      unparsedBytes + LARGE_MESSAGE_BYTES <= MAX_SMALL_BYTES_UNPARSED
    )
  }

  #pumpLater(): void {
    this.#timer?.cancel()
    this.#timer = this.#app.clock.after(FIRST_RETRY_MS, () => this.#pump())
  }

  /** One that fails again and again waits longer each time, and holds nobody else up. */
  #rest(receipt: QueuedReceipt, waiting = this.#resting): void {
    const failures = (this.#failures.get(receipt.id) ?? 0) + 1
    this.#failures.set(receipt.id, failures)
    const delayMs = Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LONGEST_RETRY_MS)
    const timer = this.#app.clock.after(delayMs, () => {
      waiting.delete(receipt.id)
      if (isSuspect(receipt)) this.#suspects.push(receipt)
      else this.#again.push(receipt)
      this.#pump()
    })
    waiting.set(receipt.id, timer)
  }

  #begin(queued: QueuedReceipt): void {
    let receipt: Receipt | undefined
    try {
      receipt = findReceipt(this.#app.db, queued.id)
    } catch (error) {
      this.#again.push(queued)
      throw error
    }
    if (receipt) this.#background(queued, receipt)
    else this.#countWaiting(networkOfOwner(queued.owner), -1)
  }

  #background(queued: QueuedReceipt, receipt: Receipt): void {
    const { sizeBytes } = queued
    const isAlone = isSuspect(queued)
    const hands = this.#hands[isLarge(queued) ? 'large' : 'small']
    const network = networkOfOwner(queued.owner)
    this.#inHand++
    this.#inHandOf.set(network, (this.#inHandOf.get(network) ?? 0) + 1)
    this.#isSuspectInHand = isAlone
    hands.bytes += sizeBytes
    hands.unparsed++
    hands.unparsedBytes += sizeBytes
    let isParsed = false
    const parsed = (): void => {
      if (isParsed) return
      isParsed = true
      hands.unparsed--
      hands.unparsedBytes -= sizeBytes
    }
    const work = this.#process(receipt, (parseMs) => {
      parsed()
      this.#queue.charge(queued, parseMs)
      this.#pump()
    })
      .catch(async (error: unknown) => {
        if (this.#isStopping) return
        await this.#uncount([receipt.id])
        if (this.#isStopping) return
        if (error instanceof TooEarly) return this.#rest(queued, this.#early)
        this.#app.log.error(
          { err: error, receipt: receipt.id },
          'a received message could not be processed; it is tried again',
        )
        // Only when storage fails do the others wait: they would fail as well.
        if (isStorageTrouble(error) || error instanceof ParserUnavailable) return this.#rest(queued)
        this.#faults.set(receipt.id, (this.#faults.get(receipt.id) ?? 0) + 1)
        this.#rest(queued, this.#faulty)
      })
      .finally(() => {
        parsed()
        this.#inHand--
        const left = (this.#inHandOf.get(network) ?? 0) - 1
        if (left > 0) this.#inHandOf.set(network, left)
        else this.#inHandOf.delete(network)
        hands.bytes -= sizeBytes
        if (isAlone) this.#isSuspectInHand = false
        this.#running.delete(work)
        this.#pump()
      })
    this.#running.add(work)
  }

  async #process(receipt: Receipt, onParsed: (parseMs: number) => void): Promise<void> {
    const destinations = JSON.parse(receipt.destinations) as Destination[]
    const answer = await this.#untilClosed(this.#parse(receipt, onParsed))
    // The service ends, and the answer was cut off: nothing is known, so nothing is stored.
    if (answer === undefined || this.#isClosed) return
    try {
      await this.#apply(receipt, destinations, answer)
    } finally {
      for (const { content } of answer.message?.attachments ?? []) release(content)
      await removeFiles(answer)
    }
  }

  /** What fails again and again, though storage works, is kept without being looked into. */
  #hasFailedOften({ id }: Receipt): boolean {
    return (this.#faults.get(id) ?? 0) >= MOST_FAULTS
  }

  async #apply(receipt: Receipt, destinations: readonly Destination[], answer: ParseAnswer): Promise<void> {
    const app = this.#app
    const ready = await this.#prepare(receipt, destinations, answer)
    const effects = await app.commit.writeFromReserve((tx) => {
      endReceipt(tx, receipt.id)
      // Unless a row holds it from now on, which the sweep finds out.
      if (!destinations.some(({ kind }) => kind === 'domain')) dropContent(app, tx, { rawMail: [receipt.rawRef] })
      return applyEffects(app, tx, destinations, ready)
    })
    this.#countWaiting(sourceNetworkOf(receipt.sourceIp), -1)
    if (answer.isGivenUp)
      app.log.error(
        { receipt: receipt.id, messages: effects.filed, problem: answer.problem },
        effects.filed.length > 0
          ? 'a received message was given up: it is stored with its header and its raw form only; `tassis inbound retry` parses it again'
          : 'a received message was given up: it is in `tassis mail list`, and `tassis mail retry` processes it again',
      )
    for (const known of [this.#begun, this.#failures, this.#faults, this.#unreadable]) known.delete(receipt.id)
    await this.#respond(effects, ready.received)
  }

  /** Undefined at the end of the service. Not by a race with one promise for all: that one would hold every answer as long as the service runs. */
  async #untilClosed<T>(work: Promise<T>): Promise<T | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<T | undefined>()
    const end = () => resolve(undefined)
    this.#waits.add(end)
    work.then(resolve, reject)
    try {
      return await promise
    } finally {
      this.#waits.delete(end)
    }
  }

  async #parse(receipt: Receipt, onParsed: (parseMs: number) => void): Promise<ParseAnswer> {
    const app = this.#app
    if (!this.#begun.has(receipt.id)) {
      await app.commit.writeFromReserve((tx) => beginAttempt(tx, receipt))
      this.#begun.set(receipt.id, receipt)
    }
    if (deathsAlone(receipt) >= MAX_DEATHS_ALONE) return givenUp('The service ended several times while it was parsed.')
    if (this.#hasFailedOften(receipt)) return givenUp('It could not be processed; the log of the service says why.')
    try {
      const request = {
        rawRef: receipt.rawRef,
        sizeBytes: receipt.sizeBytes,
        mailFrom: receipt.mailFrom,
        sourceIp: receipt.sourceIp,
        helo: receipt.helo,
        tls: receipt.tls,
        hostname: app.config.hostname,
        wantsReport: true,
        authenticationMs: this.#authenticationMs(receipt),
      }
      return await this.#parser.parse(request, onParsed)
    } catch (error) {
      if (!(error instanceof RawUnreadable)) throw error
      const reads = (this.#unreadable.get(receipt.id) ?? 0) + 1
      this.#unreadable.set(receipt.id, reads)
      if (this.#isStopping || reads < MOST_READS) throw error
      return givenUp('The raw message cannot be read.')
    }
  }

  #authenticationMs(receipt: Receipt): number {
    if (isSuspect(receipt)) return ALONE_AUTHENTICATION_MS
    const ms = Math.round(LEISURELY_AUTHENTICATION_MS * Math.min(1, AT_LEISURE / this.#inHand))
    return isLarge(receipt) ? Math.min(ms, LARGE_AUTHENTICATION_MS) : ms
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
    const mayWait =
      this.#early.size < MOST_EARLY &&
      (this.#failures.get(receipt.id) ?? 0) < MOST_EARLY_TRIES &&
      destinations.every(({ kind }) => kind === 'bounce')
    const isForTenants = destinations.some(({ kind }) => kind === 'domain')
    const message = await storeParts(
      app,
      answer.message ?? (await this.#headerOf(receipt)),
      answer.strippedText,
      isForTenants,
    )
    const aggregate = answer.report?.kind === 'aggregate' ? answer.report.report : undefined
    const reportRefusal = aggregate && refusalOfReport(app, aggregate, app.eventTime())
    const report = aggregate && reportRefusal === undefined ? await storeReport(app, aggregate) : undefined
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
    const classification = answer.message && isForMailbox ? await classify(app, message) : undefined
    return { received, report, reportRefusal, reportProblem: answer.reportProblem, classification, mayWait }
  }

  /** What is shown of a message that cannot be parsed: its header, as far as it can be read. Throws only for passing trouble with the storage. */
  async #headerOf(receipt: Receipt): Promise<ParsedMessage> {
    const { rawRef, mailFrom } = receipt
    // Loaded here: the main thread parses nothing else.
    const { parseHeader } = await import('#protocols/mime/parse.ts')
    try {
      if (deathsAlone(receipt) < MAX_DEATHS_OVER_HEADER)
        return parseHeader(startOf({ slices: () => this.#app.rawMail.slices(rawRef) }, MAX_HEADER_BYTES), { mailFrom })
    } catch (error) {
      if (isPassingError(error)) throw error
      this.#app.log.warn({ err: error, receipt: receipt.id }, 'the header of a received message cannot be read')
    }
    return parseHeader(new Uint8Array(), { mailFrom })
  }

  /** A crash here loses an automatic answer, and never sends one twice. */
  async #respond({ mailboxes }: Effects, received: Received): Promise<void> {
    // What a message says of itself further below may be that nobody should answer it.
    if (received.problem !== undefined) return
    for (const { mailbox, threadId } of mailboxes) await autoRespond(this.#app, mailbox, received, threadId)
  }
}
