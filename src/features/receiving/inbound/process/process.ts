/**
 * @module Processes accepted messages: parses each, authenticates its sender, stores its parts, and applies it in one
 * transaction that also deletes its queue entry. A crash before that transaction leaves only the counted attempt, and
 * the message is processed again from the start.
 *
 * queued (row in `inbound_receipts`) → begun (attempt counted) → applied (row deleted)
 *
 * An unparseable message is applied too, with its header and its raw form.
 */
import type { Database } from 'bun:sqlite'
import { findAccountLogId } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { isBehindFence, readFence } from '#features/core/fence/restored.ts'
import { autoRespond } from '#features/receiving/agent-mailboxes/auto-responder.ts'
import { classifyMessage } from '#features/receiving/agent-mailboxes/classify.ts'
import { findReportRefusal } from '#features/receiving/domain-reports/store.ts'
import type { Destination, Envelope, ReceivedMail, Rejection } from '#features/receiving/received/message.ts'
import { judgeReceived } from '#features/receiving/received/spam.ts'
import { findRecipientLogFields } from '#features/sending/queue/email.ts'
import { isStorageFailure, isTransientError } from '#platform/disk/storage-errors.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { Counts } from '#platform/queue/counts.ts'
import type { Owner } from '#platform/queue/fair-queue.ts'
import type { Timer } from '#platform/time/clock.ts'
import { KiB, MiB, minutes, seconds } from '#platform/units.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'
import { readPrefix } from '#protocols/mime/source.ts'
import { type AppliedEffects, applyEffects, findReader, NotReadyError, type PreparedMessage } from './effects.ts'
import { type PreparedForward, prepareForward, RESTORED } from './forward.ts'
import { createGivenUpResult } from './parse-protocol.ts'
import { type ParseResult, type Parser, ParserUnavailableError, releaseAttachments } from './parser.ts'
import * as queue from './queue.ts'
import { storeParts, storeReportContent } from './store.ts'

/** Messages in progress at the same time; mostly they wait for DNS. */
const MAX_IN_PROGRESS = 128
/**
 * Total size of the small messages in progress, and separately of the large ones; the last large one may exceed the
 * limit. A parsed message takes its size again in memory.
 */
const MAX_BYTES_IN_PROGRESS = 16 * MiB
/** Of the small messages that wait in the parser. Low, because their order can no longer change. */
const MAX_SMALL_BYTES_UNPARSED = 2 * MiB
const MAX_LARGE_UNPARSED = 1
/** Queue entries in the fair queue; later entries join it in order of arrival. */
const MAX_READ_AHEAD = 20_000
/**
 * Fraction of the free slots that one network may hold: 1,819 if it is the only one, 182 if it is one of a hundred. A
 * backlog of a few networks thus never blocks the others.
 */
const MAX_FRACTION_PER_NETWORK = 0.1
const queueFull: Rejection = {
  code: 452,
  text: '4.3.2 Too many queued messages from your network; try again later',
}
const READ_BATCH_SIZE = 500
/** For networks that have no slot yet, because messages hold slots for long when DNS is silent. */
const RESERVED_IN_PROGRESS = MAX_IN_PROGRESS / 4
/** After this many deaths of the process with a message alone in progress, it is stored with its header only. */
const MAX_DEATHS_ALONE = 3
/** After so many, a message is stored without its header: even reading that killed the process. */
const MAX_DEATHS_OVER_HEADER = MAX_DEATHS_ALONE + 2
/** After this many failures with working storage a message is stored unparsed. */
const MAX_FAULTS = 6
const RETRY_DELAYS = { minMs: seconds(5), maxMs: minutes(5) }
/** Attempts at a report that came early. With `RETRY_DELAYS` they take a quarter of an hour, longer than our sessions. */
const MAX_EARLY_ATTEMPTS = 8
/** While so many messages are in progress or wait, an early report goes to the operator at once. */
const MAX_WAITING = 1000
/** While so many wait for storage, no new message is begun: storage is the cause. */
const MAX_WAITING_FOR_STORAGE = 32
const STOP_GRACE_MS = seconds(8)
/** Octets read for the header of an unparseable message. */
const MAX_HEADER_BYTES = 64 * KiB

/** State of an entry in this process, from its first attempt until the message is applied. */
interface Progress {
  /** The entry before the attempt that is counted now; undefined: no attempt is counted. */
  counted: queue.QueueEntry | undefined
  /** Failed attempts of any cause; the delay grows with them. */
  failures: number
  /** Failed attempts while storage worked. */
  faults: number
  /** Set while the entry waits for its next attempt. */
  retry: Timer | undefined
}

export class InboundProcessor {
  readonly #app: App
  readonly #parser: Parser
  readonly #running = new Set<Promise<void>>()
  readonly #queue = new queue.ProcessingQueue()
  /** Id of the newest entry in the queue. */
  #lastReadId = 0
  #hasUnread = true
  /** Entries that were in progress when the process died: each is processed alone, to find the cause. */
  readonly #suspects: queue.QueuedMessage[] = []
  readonly #waitingByNetwork = new Counts<string>()
  readonly #inProgressByNetwork = new Counts<string>()
  readonly #loads = {
    small: { bytes: 0, unparsed: 0, unparsedBytes: 0 },
    large: { bytes: 0, unparsed: 0, unparsedBytes: 0 },
  }
  readonly #due: queue.QueuedMessage[] = []
  /** By entry id. */
  readonly #progress = new Map<number, Progress>()
  /**
   * Entries that wait for another attempt because of storage or the parser. Only they keep new messages from being begun:
   * the fault of one message must not block all mail.
   */
  #waitingForStorage = 0
  #timer: Timer | undefined
  #isSuspectInProgress = false
  #isStopping = false
  #isClosed = false
  /** Ends the waits for the parser, one per message. */
  readonly #waits = new Set<() => void>()
  #stopListening = () => {}

  constructor(app: App, parser: Parser) {
    this.#app = app
    this.#parser = parser
  }

  start(): void {
    this.#stopListening = this.#app.mailReceived.listen(() => {
      this.#hasUnread = true
      this.#startReady()
    })
    this.#startReady()
  }

  /** Why mail from an address is rejected now: its network has too many messages waiting. Undefined: it is accepted. */
  findRejection(sourceIp: string): Rejection | undefined {
    const waiting = this.#waitingByNetwork.of(queue.sourceNetworkOf(sourceIp))
    return waiting >= (MAX_READ_AHEAD - this.#waitingByNetwork.total) * MAX_FRACTION_PER_NETWORK ? queueFull : undefined
  }

  /** Begins nothing more and waits for messages in progress; unfinished ones are processed after the next start. */
  async stop(graceMs = STOP_GRACE_MS): Promise<void> {
    this.#isStopping = true
    this.#stopListening()
    this.#timer?.cancel()
    for (const { retry } of this.#progress.values()) retry?.cancel()
    const graceTimer = this.#app.clock.after(graceMs, () => this.#close())
    if (graceMs === 0) this.#close()
    await Promise.all(this.#running)
    graceTimer.cancel()
    this.#close()
    await this.#uncount([...this.#progress.values()])
  }

  /** Only the death of the process counts against a message, so other attempts are uncounted. */
  async #uncount(all: readonly Progress[]): Promise<void> {
    const counted = all.filter((progress) => progress.counted !== undefined)
    if (counted.length === 0) return
    try {
      await this.#app.commit.writeFromReserve((tx) => {
        for (const { counted: entry } of counted) if (entry) queue.uncountAttempt(tx, entry)
      })
      for (const progress of counted) progress.counted = undefined
    } catch (error) {
      // The attempts stay marked as counted, so the next failure or the stop of the service tries again.
      this.#app.log.warn({ err: error }, 'attempt count of received messages not reset')
    }
  }

  #close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const end of this.#waits) end()
    this.#parser.close()
  }

  /** Begins messages while there is capacity. Never throws: signals and timers call it. */
  #startReady(): void {
    try {
      this.#readQueue()
      while (!this.#isStopping) {
        const next = this.#next()
        if (!next) return
        this.#begin(next)
      }
    } catch (error) {
      this.#app.log.error({ err: error }, 'queue of received mail not readable; retrying')
      this.#scheduleStart()
    }
  }

  #readQueue(): void {
    const capacity = Math.min(READ_BATCH_SIZE, MAX_READ_AHEAD - this.#queue.size)
    if (!this.#hasUnread || capacity <= 0) return
    const entries = queue.listQueueEntriesAfter(this.#app.db, this.#lastReadId, capacity)
    this.#hasUnread = entries.length === capacity
    for (const entry of entries) {
      const { id, sizeBytes, attempts } = entry
      const queued = { id, sizeBytes, attempts, owner: queue.ownerOf(entry) }
      if (queue.isSuspect(entry)) this.#suspects.push(queued)
      else this.#queue.push(queued)
      this.#waitingByNetwork.add(queue.networkOfOwner(queued.owner), 1)
      this.#lastReadId = id
    }
  }

  #next(): queue.QueuedMessage | undefined {
    if (this.#suspects.length > 0) return this.#inProgressByNetwork.total === 0 ? this.#nextSuspect() : undefined
    if (this.#isSuspectInProgress) return undefined
    const dueIndex = this.#due.findIndex((entry) => this.#hasCapacity(queue.isLarge(entry)))
    if (dueIndex !== -1) return this.#due.splice(dueIndex, 1)[0]
    if (this.#waitingForStorage >= MAX_WAITING_FOR_STORAGE) return undefined
    return (
      (this.#hasCapacity(false) ? this.#queue.shift('small', this.#canBegin) : undefined) ??
      (this.#hasCapacity(true) ? this.#queue.shift('large', this.#canBegin) : undefined)
    )
  }

  /** The one with the fewest deaths alone, so that the message that causes them comes last. */
  #nextSuspect(): queue.QueuedMessage | undefined {
    let next = 0
    for (const [index, { attempts }] of this.#suspects.entries())
      if (attempts < (this.#suspects[next]?.attempts ?? 0)) next = index
    return this.#suspects.splice(next, 1)[0]
  }

  readonly #canBegin = (owner: Owner): boolean =>
    this.#inProgressByNetwork.total < MAX_IN_PROGRESS - RESERVED_IN_PROGRESS ||
    this.#inProgressByNetwork.of(queue.networkOfOwner(owner)) === 0

  #hasCapacity(isForLarge: boolean): boolean {
    if (this.#inProgressByNetwork.total >= MAX_IN_PROGRESS) return false
    const { bytes, unparsed, unparsedBytes } = this.#loads[isForLarge ? 'large' : 'small']
    if (isForLarge) return bytes < MAX_BYTES_IN_PROGRESS && unparsed < MAX_LARGE_UNPARSED
    return (
      bytes + queue.LARGE_MESSAGE_BYTES <= MAX_BYTES_IN_PROGRESS &&
      unparsedBytes + queue.LARGE_MESSAGE_BYTES <= MAX_SMALL_BYTES_UNPARSED
    )
  }

  #scheduleStart(): void {
    this.#timer?.cancel()
    this.#timer = this.#app.clock.after(RETRY_DELAYS.minMs, () => this.#startReady())
  }

  /** Retries an entry after a delay that grows with each failure; other messages do not wait for it. */
  #retryLater(entry: queue.QueuedMessage, cause: 'storage' | 'fault' | 'early'): void {
    const progress = this.#progressOf(entry.id)
    progress.failures++
    if (cause === 'storage') this.#waitingForStorage++
    else if (cause === 'fault') progress.faults++
    progress.retry = this.#app.clock.after(backoffDelayMs(progress.failures, RETRY_DELAYS), () => {
      progress.retry = undefined
      if (cause === 'storage') this.#waitingForStorage--
      if (queue.isSuspect(entry)) this.#suspects.push(entry)
      else this.#due.push(entry)
      this.#startReady()
    })
  }

  #progressOf(id: number): Progress {
    return this.#progress.getOrInsertComputed(id, () => ({
      counted: undefined,
      failures: 0,
      faults: 0,
      retry: undefined,
    }))
  }

  #begin(queued: queue.QueuedMessage): void {
    let entry: queue.QueueEntry | undefined
    try {
      entry = queue.findQueueEntry(this.#app.db, queued.id)
    } catch (error) {
      this.#due.push(queued)
      throw error
    }
    if (entry) {
      this.#run(queued, entry)
      return
    }
    this.#progress.delete(queued.id)
    this.#waitingByNetwork.add(queue.networkOfOwner(queued.owner), -1)
  }

  #run(queued: queue.QueuedMessage, entry: queue.QueueEntry): void {
    const { sizeBytes } = queued
    const load = this.#loads[queue.isLarge(queued) ? 'large' : 'small']
    this.#countInProgress(queued, 1)
    load.unparsed++
    load.unparsedBytes += sizeBytes
    let isParsed = false
    const markParsed = (): void => {
      if (isParsed) return
      isParsed = true
      load.unparsed--
      load.unparsedBytes -= sizeBytes
    }
    const onParsed = (parseMs: number): void => {
      markParsed()
      this.#queue.charge(queued, parseMs)
      this.#startReady()
    }
    const work = this.#process(entry, onParsed)
      .catch((error: unknown) => this.#onFailed(queued, entry, error))
      .finally(() => {
        markParsed()
        this.#countInProgress(queued, -1)
        this.#running.delete(work)
        this.#startReady()
      })
    this.#running.add(work)
  }

  #countInProgress(queued: queue.QueuedMessage, change: 1 | -1): void {
    this.#inProgressByNetwork.add(queue.networkOfOwner(queued.owner), change)
    this.#loads[queue.isLarge(queued) ? 'large' : 'small'].bytes += change * queued.sizeBytes
    if (queue.isSuspect(queued)) this.#isSuspectInProgress = change === 1
  }

  async #onFailed(queued: queue.QueuedMessage, entry: queue.QueueEntry, error: unknown): Promise<void> {
    if (this.#isStopping) return
    const progress = this.#progressOf(queued.id)
    await this.#uncount([progress])
    if (this.#isStopping) return
    if (error instanceof NotReadyError) {
      this.#retryLater(queued, 'early')
      return
    }
    const { db, log } = this.#app
    log.error({ err: error, ...toLogFields(db, entry) }, 'received message not processed; retrying')
    // Failures of storage or the parser delay the other messages, which would fail as well.
    const isLocalFailure = isStorageFailure(error) || error instanceof ParserUnavailableError
    this.#retryLater(queued, isLocalFailure ? 'storage' : 'fault')
  }

  async #process(entry: queue.QueueEntry, onParsed: (parseMs: number) => void): Promise<void> {
    const destinations = JSON.parse(entry.destinations) as Destination[]
    const result = await this.#waitUntilClosed(this.#parse(entry, onParsed))
    // The service is stopping and the result was cut off: nothing is known, so nothing is stored.
    if (result === undefined || this.#isClosed) return
    try {
      await this.#apply(entry, destinations, result)
    } finally {
      await releaseAttachments(result)
    }
  }

  async #apply(entry: queue.QueueEntry, destinations: readonly Destination[], result: ParseResult): Promise<void> {
    const app = this.#app
    const prepared = await this.#prepare(entry, destinations, result)
    const effects = await app.commit.writeFromReserve((tx) => {
      queue.deleteQueueEntry(tx, entry.id)
      // The sweep deletes the blob unless a row refers to it.
      if (!destinations.some(({ kind }) => kind === 'domain')) dropContent(app, tx, { rawMail: [entry.rawRef] })
      return applyEffects(app, tx, destinations, prepared)
    })
    this.#waitingByNetwork.add(queue.sourceNetworkOf(entry.sourceIp), -1)
    if (result.isGivenUp)
      app.log.error(
        { ...toLogFields(app.db, entry), messages: effects.storedIds, problem: result.problem },
        effects.storedIds.length > 0
          ? 'received message stored unparsed, with its header and raw form; `tassis inbound retry` parses it again'
          : 'received message stored as operator mail; `tassis mail retry` processes it again',
      )
    else if (app.log.isLevelEnabled('debug'))
      app.log.debug({ ...toLogFields(app.db, entry), messages: effects.storedIds }, 'received message processed')
    this.#progress.delete(entry.id)
    if (!this.#isRestored(entry)) await this.#respond(effects, prepared.received)
  }

  /** Whether it may have been answered and forwarded before its data were restored. */
  #isRestored({ id }: queue.QueueEntry): boolean {
    return isBehindFence(readFence(this.#app.db), 'inbound_receipts', id)
  }

  /** Undefined when the service stops. One promise for all would retain every result. */
  async #waitUntilClosed<T>(work: Promise<T>): Promise<T | undefined> {
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

  async #parse(entry: queue.QueueEntry, onParsed: (parseMs: number) => void): Promise<ParseResult> {
    const app = this.#app
    const progress = this.#progressOf(entry.id)
    if (progress.counted === undefined) {
      await app.commit.writeFromReserve((tx) => queue.beginAttempt(tx, entry))
      progress.counted = entry
    }
    if (queue.countDeathsAlone(entry) >= MAX_DEATHS_ALONE)
      return createGivenUpResult('The service crashed several times while parsing it.')
    if (progress.faults >= MAX_FAULTS) return createGivenUpResult('It could not be processed; see the service log.')
    const { hostname } = app.config
    return await this.#parser.parse({ ...toEnvelope(entry), hostname, wantsReport: true }, onParsed)
  }

  /** The slow work before the transaction: stores the parts that clients can read, classifies the message. */
  async #prepare(
    entry: queue.QueueEntry,
    destinations: readonly Destination[],
    result: ParseResult,
  ): Promise<PreparedMessage> {
    const app = this.#app
    const canWait =
      this.#progress.size < MAX_WAITING &&
      this.#progressOf(entry.id).failures < MAX_EARLY_ATTEMPTS &&
      destinations.every(({ kind }) => kind === 'bounce')
    const isForTenants = destinations.some(({ kind }) => kind === 'domain')
    const message = await storeParts(
      app,
      result.message ?? (await this.#readHeader(entry)),
      result.strippedText,
      isForTenants,
    )
    const aggregate = result.report?.kind === 'aggregate' ? result.report.report : undefined
    const origin = result.authentication
    const reportRefusal = aggregate && findReportRefusal(app, { ...aggregate, origin }, app.eventTime())
    const stored = aggregate && reportRefusal === undefined ? await storeReportContent(app, aggregate) : undefined
    const report = stored && { ...stored, origin }
    const envelope = toEnvelope(entry)
    const rcptTo = destinations.map(({ address }) => address)
    const received: ReceivedMail = {
      envelope,
      message,
      problem: result.message ? undefined : (result.problem ?? 'It cannot be parsed.'),
      authentication: result.authentication,
      report: result.report,
      spam: isForTenants && result.message ? await judgeReceived(app, envelope, rcptTo) : null,
    }
    const forwards = new Map<number, PreparedForward>()
    const isRestored = this.#isRestored(entry)
    let isForMailbox = false
    for (const to of destinations.filter((to) => to.kind === 'domain')) {
      const { mailbox, route } = findReader(app.db, to)
      if (mailbox) isForMailbox = true
      if (route?.forwardTo && !forwards.has(route.id))
        forwards.set(route.id, isRestored ? RESTORED : await prepareForward(app, route, to.address, received))
    }
    const classification = result.message && isForMailbox ? await classifyMessage(app, message) : undefined
    return { received, report, reportRefusal, reportProblem: result.reportProblem, classification, forwards, canWait }
  }

  /** The readable header of an unparseable message. Throws only for transient storage failures. */
  async #readHeader(entry: queue.QueueEntry): Promise<ParsedMessage> {
    const { rawRef, mailFrom } = entry
    // Loaded on demand: the main thread parses nothing else.
    const { parseHeader } = await import('#protocols/mime/parse.ts')
    try {
      if (queue.countDeathsAlone(entry) < MAX_DEATHS_OVER_HEADER)
        return parseHeader(readPrefix({ chunks: () => this.#app.rawMail.chunks(rawRef) }, MAX_HEADER_BYTES), {
          mailFrom,
        })
    } catch (error) {
      if (isTransientError(error)) throw error
      this.#app.log.warn(
        { err: error, ...toLogFields(this.#app.db, entry) },
        'header of a received message not readable',
      )
    }
    return parseHeader(new Uint8Array(), { mailFrom })
  }

  /** A crash here loses an automatic reply, and never sends one twice. */
  async #respond({ mailboxes }: AppliedEffects, received: ReceivedMail): Promise<void> {
    // The unparsed part may contain a request not to be answered automatically.
    if (received.problem !== undefined) return
    for (const { mailbox, threadId } of mailboxes) await autoRespond(this.#app, mailbox, received, threadId)
  }
}

const toEnvelope = ({ id: _, destinations: __, attempts: ___, ...envelope }: queue.QueueEntry): Envelope => envelope

/** Identifies a received message in a log line: the email that it is about, and the account that it is about or for. */
function toLogFields(db: Database, { id, destinations }: queue.QueueEntry) {
  const all = JSON.parse(destinations) as Destination[]
  const about = all.find((destination) => 'recipientId' in destination)
  if (about) return { receipt: id, ...findRecipientLogFields(db, about.recipientId) }
  const accounts = [...new Set(all.flatMap((to) => (to.kind === 'domain' ? [to.accountId] : [])))]
  const [first] = accounts
  return {
    receipt: id,
    account: first === undefined ? null : findAccountLogId(db, first),
    ...(accounts.length > 1 && { otherAccounts: accounts.length - 1 }),
  }
}
