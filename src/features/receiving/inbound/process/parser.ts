/**
 * @module Parses and authenticates messages in Workers. A Worker parses one message at a time; parsed messages wait for
 * DNS concurrently. A message that ends a Worker, or blocks it for half a minute, fails alone. Large messages have
 * their own Worker, so that small ones never wait for them.
 *
 * waiting → parsing → authenticating → answered
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import { startWorker } from '#platform/process/workers.ts'
import type { Timer } from '#platform/time/clock.ts'
import { KiB, seconds } from '#platform/units.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'
import type { Answer, Resolver } from '#protocols/dns/resolver.ts'
import * as protocol from './parse-protocol.ts'
import { isLarge } from './queue.ts'

export type { ParseRequest, ParseResult } from './parse-protocol.ts'

/** The message is missing from the store of raw messages, or corrupt there. */
export class RawUnreadableError extends Error {}

/** Parsing is unavailable at present, whatever the message. */
export class ParserUnavailableError extends Error {}

export interface Parser {
  /**
   * Rejects when the message is not in the store, the Worker cannot start, or the parser is closed; a defect of the
   * message itself is a `problem` in the result. The caller then owns the files of large attachments, on the file
   * system of the content store: the store adopts them, or `releaseAttachments` deletes them.
   * @param onParsed called when the Worker is free for the next message, with the time that this one took
   */
  parse(request: protocol.ParseRequest, onParsed?: (parseMs: number) => void): Promise<protocol.ParseResult>
  close(): void
}

/** Parsed messages of a Worker that wait for DNS; each still takes memory there. */
const MAX_AUTHENTICATING = 128
const CHECK_INTERVAL_MS = seconds(10)
/** A Worker is dead after this many silent checks in a row; a long pause of the process counts as one check. */
const MAX_SILENT_CHECKS = 3
/** An idle Worker is ended, which frees the memory of large messages. */
const IDLE_MS = seconds(60)

interface Job {
  readonly id: number
  readonly request: protocol.ParseRequest
  readonly resolve: (answer: protocol.ParseResult) => void
  readonly reject: (error: Error) => void
  readonly onParsed: (parseMs: number) => void
  /** When it was sent to the Worker. */
  startMs: number
  /** Set while it is authenticated. */
  content?: protocol.ParsedContent
  /** The Worker died while parsing this message and authenticating others: parsing it alone shows the cause. */
  readonly isSuspect: boolean
}

interface RunningWorker {
  readonly worker: Worker
  isReady: boolean
  silentChecks: number
}

export interface ParserDependencies extends Pick<App, 'config' | 'clock' | 'log'> {
  readonly resolver: Resolver
}

export interface ParserOptions {
  /** Starts a Worker; replaced by tests that end it. */
  readonly createWorker?: () => Worker
  /** For large attachments; each parser of a process needs a folder of its own, which it empties. */
  readonly filesFolder?: string
}

export function createParser(app: ParserDependencies, options: ParserOptions = {}): Parser {
  return new WorkerParser(app, options)
}

class WorkerParser implements Parser {
  readonly #filesFolder: string
  readonly #createWorker: () => Worker
  readonly #small: WorkerQueue
  readonly #large: WorkerQueue
  #isFolderReady = false
  #lastId = 0

  constructor(app: ParserDependencies, { createWorker, filesFolder }: ParserOptions) {
    this.#filesFolder = filesFolder ?? join(app.config.dataDir, 'content', 'incoming')
    this.#createWorker = createWorker ?? (() => startWorker('parse'))
    const shared: SharedByQueues = {
      filesFolder: this.#filesFolder,
      startWorker: () => this.#startWorker(),
      nextId: () => ++this.#lastId,
    }
    this.#small = new WorkerQueue(app, shared)
    this.#large = new WorkerQueue(app, shared)
  }

  parse(
    request: protocol.ParseRequest,
    onParsed: (parseMs: number) => void = () => undefined,
  ): Promise<protocol.ParseResult> {
    return (isLarge(request) ? this.#large : this.#small).parse(request, onParsed)
  }

  close(): void {
    this.#small.close()
    this.#large.close()
  }

  #startWorker(): Worker {
    // Deletes the files of an earlier run before the first Worker writes there.
    if (!this.#isFolderReady) rmSync(this.#filesFolder, { recursive: true, force: true })
    mkdirSync(this.#filesFolder, { recursive: true, mode: 0o700 })
    this.#isFolderReady = true
    return this.#createWorker()
  }
}

interface SharedByQueues {
  readonly filesFolder: string
  startWorker(): Worker
  /** Request ids are unique among all Workers, because files are named by them. */
  nextId(): number
}

class WorkerQueue {
  readonly #app: ParserDependencies
  readonly #shared: SharedByQueues
  readonly #waiting: Job[] = []
  readonly #authenticating = new Map<number, Job>()
  #parsing: Job | undefined
  #running: RunningWorker | undefined
  #timer: Timer | undefined
  #isWatchingBusyWorker = false
  #isClosed = false

  constructor(app: ParserDependencies, shared: SharedByQueues) {
    this.#app = app
    this.#shared = shared
  }

  parse(request: protocol.ParseRequest, onParsed: (parseMs: number) => void): Promise<protocol.ParseResult> {
    if (this.#isClosed) return Promise.reject(new Error('the parser is closed'))
    return new Promise((resolve, reject) => {
      const id = this.#shared.nextId()
      this.#waiting.push({ id, request, resolve, reject, onParsed, startMs: 0, isSuspect: false })
      this.#startNext()
    })
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
    this.#running?.worker.terminate()
    this.#running = undefined
    const unfinished = [
      ...this.#waiting.splice(0),
      ...(this.#parsing ? [this.#parsing] : []),
      ...this.#authenticating.values(),
    ]
    this.#parsing = undefined
    this.#authenticating.clear()
    for (const job of unfinished) job.reject(new Error('the parser is closed'))
  }

  #startNext(): void {
    const next = this.#waiting[0]
    const maxAuthenticating = next?.isSuspect ? 0 : MAX_AUTHENTICATING - 1
    if (next && !this.#isClosed && this.#parsing === undefined && this.#authenticating.size <= maxAuthenticating) {
      this.#waiting.shift()
      this.#parsing = next
      next.startMs = this.#app.clock.monotonicMs()
      this.#running ??= this.#start()
      sendToWorker(this.#running.worker, { type: 'parse', id: next.id, request: next.request })
    }
    this.#scheduleCheck()
  }

  #start(): RunningWorker {
    const started: RunningWorker = { worker: this.#shared.startWorker(), isReady: false, silentChecks: 0 }
    const { worker } = started
    worker.onmessage = ({ data }: MessageEvent<protocol.FromParseWorker>) => {
      if (this.#running !== started) return
      started.silentChecks = 0
      this.#onMessage(started, data)
    }
    const onDied = (reason: string): void => {
      if (this.#running === started) this.#replaceWorker(started, reason, 'The parser crashed on it.')
    }
    worker.onerror = (event) => onDied(event.message)
    worker.addEventListener('close', () => onDied('closed'))
    const rawFolder = join(this.#app.config.dataDir, 'raw-mail')
    sendToWorker(worker, { type: 'settings', rawFolder, filesFolder: this.#shared.filesFolder })
    return started
  }

  #onMessage(from: RunningWorker, message: protocol.FromParseWorker): void {
    switch (message.type) {
      case 'ready':
        from.isReady = true
        return
      case 'dns':
        void this.#answerQuery(from, message.id, message.kind, message.name)
        return
      case 'warning': {
        const rawRef = this.#findJob(message.id)?.request.rawRef
        this.#app.log.warn({ error: message.error, rawRef }, 'problem while parsing a received message')
        return
      }
      case 'unreadable': {
        const job = this.#findJob(message.id)
        this.#endParsing(job)
        job?.reject(toUnreadableError(message))
        break
      }
      case 'parsed': {
        const job = this.#parsing
        if (job?.id !== message.id) return
        job.content = message.content
        this.#authenticating.set(message.id, job)
        this.#endParsing(job)
        break
      }
      case 'authenticated': {
        const job = this.#authenticating.get(message.id)
        this.#authenticating.delete(message.id)
        if (job?.content) job.resolve({ ...job.content, authentication: message.authentication })
        break
      }
    }
    this.#startNext()
  }

  #endParsing(job: Job | undefined): void {
    if (job !== this.#parsing) return
    this.#parsing = undefined
    job?.onParsed(this.#app.clock.monotonicMs() - job.startMs)
  }

  #findJob(id: number): Job | undefined {
    return this.#parsing?.id === id ? this.#parsing : this.#authenticating.get(id)
  }

  async #answerQuery(from: RunningWorker, id: number, kind: protocol.DnsQueryKind, name: string): Promise<void> {
    let answer: Answer<unknown>
    try {
      answer = await (this.#app.resolver as Pick<Resolver, protocol.DnsQueryKind>)[kind](name)
    } catch (error) {
      this.#app.log.error({ err: error, name }, 'DNS query of the parse worker failed')
      answer = { kind: 'servfail' }
    }
    if (this.#running === from) sendToWorker(from.worker, { type: 'dns', id, answer })
  }

  /** Resolves the messages of a dead Worker, and continues with a new one. The one that it was parsing is given up. */
  #replaceWorker(dead: RunningWorker, reason: string, problem: string): void {
    this.#running = undefined
    dead.worker.terminate()
    const parsing = this.#parsing
    const others = [...this.#authenticating.values()]
    this.#parsing = undefined
    this.#authenticating.clear()
    this.#app.log.error({ reason, rawRef: parsing?.request.rawRef }, 'parse worker died')
    for (const job of others) if (job.content) job.resolve({ ...job.content, authentication: UNKNOWN_AUTHENTICATION })
    if (parsing) {
      this.#removeLeftovers(parsing.id)
      // If the Worker never started, its death says nothing about the message, and its successor would fail the same
      // way.
      if (!dead.isReady) parsing.reject(new ParserUnavailableError(`the parse worker could not be started: ${reason}`))
      // A suspect is parsed while nothing else is in the Worker, so if the Worker dies again, the suspect is the cause.
      else if (others.length > 0) this.#waiting.unshift({ ...parsing, isSuspect: true })
      else parsing.resolve(protocol.createGivenUpResult(problem))
    }
    this.#startNext()
  }

  /** Deletes the files of a dead Worker for a request. */
  #removeLeftovers(id: number): void {
    const { filesFolder } = this.#shared
    for (const name of readdirSync(filesFolder))
      if (name.startsWith(protocol.filePrefix(id))) rmSync(join(filesFolder, name), { force: true })
  }

  /** Checks a busy Worker at intervals. An idle Worker is checked once, after IDLE_MS, to end it. */
  #scheduleCheck(): void {
    // A running timer is kept: a steady stream of messages would otherwise postpone it forever.
    if (this.#timer && this.#running && this.#isWatchingBusyWorker === this.#isBusy()) return
    this.#timer?.cancel()
    this.#isWatchingBusyWorker = this.#isBusy()
    const delayMs = this.#isWatchingBusyWorker ? CHECK_INTERVAL_MS : IDLE_MS
    this.#timer = this.#running && this.#app.clock.after(delayMs, () => this.#check())
  }

  #check(): void {
    this.#timer = undefined
    const running = this.#running
    if (!running) return
    if (!this.#isBusy()) {
      running.worker.terminate()
      this.#running = undefined
      return
    }
    running.silentChecks++
    if (running.silentChecks < MAX_SILENT_CHECKS) this.#scheduleCheck()
    else this.#replaceWorker(running, 'silent for 30 seconds', 'Parsing takes longer than 30 seconds.')
  }

  #isBusy(): boolean {
    return this.#parsing !== undefined || this.#authenticating.size > 0
  }
}

const sendToWorker = (worker: Worker, message: protocol.ToParseWorker): void => worker.postMessage(message)

function toUnreadableError({
  isRawLost,
  error,
  code,
}: Extract<protocol.FromParseWorker, { type: 'unreadable' }>): Error {
  if (isRawLost) return new RawUnreadableError(`the raw message could not be read: ${error}`)
  return Object.assign(new Error(`a message could not be parsed: ${error}`), { code })
}

/** Frees the memory of a result's attachments, and deletes their files that the content store did not adopt. */
export async function releaseAttachments({ message }: protocol.ParsedContent): Promise<void> {
  for (const { content } of message?.attachments ?? []) releaseBuffer(content)
  for (const { file } of message?.attachments ?? []) if (file) await rm(file.path, { force: true })
}

/** Smaller buffers are left to the garbage collector. */
const MIN_RELEASED_BYTES = 16 * KiB

/** Frees the memory of an attachment immediately: the collector ignores the size of buffers. */
function releaseBuffer({ buffer, length }: Uint8Array): void {
  if (length >= MIN_RELEASED_BYTES && buffer instanceof ArrayBuffer && buffer.byteLength === length) buffer.transfer(0)
}
