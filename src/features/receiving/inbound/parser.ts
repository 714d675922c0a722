/**
 * @module The parse Workers as the rest sees them: a message goes in, what is in it and who sent it come out. A Worker parses one message at a time; those
 * that are parsed wait for DNS beside each other. A message that ends a Worker, or keeps it busy for half a minute, is the only one that suffers. One
 * Worker never parses large messages, so that small ones do not wait for them.
 *
 * waiting → parsing → authenticating → answered
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import type { Timer } from '#platform/clock.ts'
import { seconds } from '#platform/units.ts'
import { startWorker } from '#platform/workers.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/unknown.ts'
import type { Answer, Resolver } from '#protocols/dns/resolver.ts'
import {
  type FromParseWorker,
  filePrefix,
  givenUp,
  type ParseAnswer,
  type ParsedContent,
  type ParseRequest,
  type QuestionKind,
  type ToParseWorker,
} from './parse-protocol.ts'
import { isLarge } from './receipt-queue.ts'

export type { ParseAnswer, ParseRequest } from './parse-protocol.ts'

/** The message is not in the store of raw messages, or is damaged there. */
export class RawUnreadable extends Error {}

/** Nothing can be parsed at present, whatever the message. */
export class ParserUnavailable extends Error {}

export interface Parser {
  /**
   * Rejects when the message is not in the store, the Worker cannot be started or the parser is closed; whatever the message itself does is a
   * `problem` in the answer. The files of large attachments are then the caller's: to be adopted by the content store, whose file system they are
   * on, or removed (`removeFiles`).
   * @param onParsed called when the Worker is free for the next message, with the time that it was not
   */
  parse(request: ParseRequest, onParsed?: (parseMs: number) => void): Promise<ParseAnswer>
  close(): void
}

/** Messages of a Worker that are parsed and wait for DNS; each still lies in its memory. */
const MOST_AUTHENTICATING = 128
/** A Worker is dead when it has said nothing in so many looks: one long pause of the process is one look. */
const LOOK_MS = seconds(10)
const MOST_SILENT_LOOKS = 3
/** A Worker with nothing to do ends, and with it the memory that a large message took. */
const IDLE_MS = seconds(60)

interface Job {
  readonly id: number
  readonly request: ParseRequest
  readonly resolve: (answer: ParseAnswer) => void
  readonly reject: (error: Error) => void
  readonly onParsed: (parseMs: number) => void
  /** When the Worker got it. */
  startMs: number
  /** Set while it is authenticated. */
  content?: ParsedContent
  /** The Worker died while this was parsed and others were authenticated: it has to show whose fault it was. */
  isSuspect: boolean
}

interface Running {
  readonly worker: Worker
  isReady: boolean
  silentLooks: number
}

export type ParserNeeds = Pick<App, 'config' | 'clock' | 'log' | 'resolver'>

/** @param newWorker starts a Worker; in its place for tests that want to end it */
export function createParser(app: ParserNeeds, newWorker: () => Worker = () => startWorker('parse')): Parser {
  const filesFolder = join(app.config.dataDir, 'content', 'incoming')
  let isFolderReady = false
  let lastId = 0
  const shared: SharedByLanes = {
    filesFolder,
    newWorker() {
      // What an earlier run left, before the first Worker of this one writes there.
      if (!isFolderReady) rmSync(filesFolder, { recursive: true, force: true })
      mkdirSync(filesFolder, { recursive: true, mode: 0o700 })
      isFolderReady = true
      return newWorker()
    },
    nextId: () => ++lastId,
  }
  const forSmall = createLane(app, shared)
  const forLarge = createLane(app, shared)
  return {
    parse: (request, onParsed = () => undefined) => (isLarge(request) ? forLarge : forSmall).parse(request, onParsed),
    close() {
      forSmall.close()
      forLarge.close()
    },
  }
}

interface SharedByLanes {
  readonly filesFolder: string
  newWorker(): Worker
  /** For a request: one number in all Workers, because files are named by it. */
  nextId(): number
}

interface Lane {
  parse(request: ParseRequest, onParsed: (parseMs: number) => void): Promise<ParseAnswer>
  close(): void
}

/** One Worker, and what waits for it. */
function createLane(app: ParserNeeds, { filesFolder, newWorker, nextId }: SharedByLanes): Lane {
  const waiting: Job[] = []
  const authenticating = new Map<number, Job>()
  let parsing: Job | undefined
  let running: Running | undefined
  let timer: Timer | undefined
  let isWatchingWork = false
  let isClosed = false

  const isBusy = (): boolean => parsing !== undefined || authenticating.size > 0

  const say = (worker: Worker, message: ToParseWorker): void => worker.postMessage(message)

  const start = (): Running => {
    const started: Running = { worker: newWorker(), isReady: false, silentLooks: 0 }
    const { worker } = started
    worker.onmessage = ({ data }: MessageEvent<FromParseWorker>) => {
      if (running !== started) return
      started.silentLooks = 0
      hear(started, data)
    }
    const died = (reason: string): void => {
      if (running === started) bury(started, reason, 'The parser broke down over it.')
    }
    worker.onerror = (event) => died(event.message)
    worker.addEventListener('close', () => died('closed'))
    say(worker, { type: 'settings', rawFolder: join(app.config.dataDir, 'raw-mail'), filesFolder })
    return started
  }

  const hear = (from: Running, message: FromParseWorker): void => {
    switch (message.type) {
      case 'ready':
        from.isReady = true
        return
      case 'dns':
        void answerQuestion(from, message.id, message.kind, message.name)
        return
      case 'warning':
        app.log.warn({ error: message.error, rawRef: jobOf(message.id)?.request.rawRef }, 'received message')
        return
      case 'unreadable': {
        const job = jobOf(message.id)
        freeOf(job)
        job?.reject(
          message.isOfRaw
            ? new RawUnreadable(`the raw message could not be read: ${message.error}`)
            : Object.assign(new Error(`a message could not be taken apart: ${message.error}`), { code: message.code }),
        )
        break
      }
      case 'parsed':
        if (parsing?.id !== message.id) return
        parsing.content = message.content
        authenticating.set(message.id, parsing)
        freeOf(parsing)
        break
      case 'authenticated': {
        const job = authenticating.get(message.id)
        authenticating.delete(message.id)
        if (job?.content) job.resolve({ ...job.content, authentication: message.authentication })
        break
      }
    }
    pump()
  }

  const freeOf = (job: Job | undefined): void => {
    if (job !== parsing) return
    parsing = undefined
    job?.onParsed(app.clock.monotonicMs() - job.startMs)
  }

  const jobOf = (id: number): Job | undefined => (parsing?.id === id ? parsing : authenticating.get(id))

  const answerQuestion = async (from: Running, id: number, kind: QuestionKind, name: string): Promise<void> => {
    let answer: Answer<unknown>
    try {
      answer = await (app.resolver as Pick<Resolver, QuestionKind>)[kind](name)
    } catch (error) {
      app.log.error({ err: error, name }, 'a question of the parse worker could not be asked')
      answer = { kind: 'servfail' }
    }
    if (running === from) say(from.worker, { type: 'dns', id, answer })
  }

  /** Answers for all that a dead Worker had in hand, and goes on with a new one. */
  const bury = (dead: Running, reason: string, problem: string): void => {
    running = undefined
    dead.worker.terminate()
    const guilty = parsing
    const others = [...authenticating.values()]
    parsing = undefined
    authenticating.clear()
    app.log.error({ reason, rawRef: guilty?.request.rawRef }, 'parse worker died')
    for (const job of others) if (job.content) job.resolve({ ...job.content, authentication: UNKNOWN_AUTHENTICATION })
    if (guilty) {
      removeLeftOver(guilty.id)
      // Says nothing of the message, and would be the same for the next one.
      if (!dead.isReady) guilty.reject(new ParserUnavailable(`the parse worker could not be started: ${reason}`))
      // Whoever was tried alone has no others.
      else if (others.length > 0) waiting.unshift({ ...guilty, isSuspect: true })
      else guilty.resolve(givenUp(problem))
    }
    pump()
  }

  /** What a dead Worker had begun to write. */
  const removeLeftOver = (id: number): void => {
    for (const name of readdirSync(filesFolder))
      if (name.startsWith(filePrefix(id))) rmSync(join(filesFolder, name), { force: true })
  }

  const pump = (): void => {
    const next = waiting[0]
    const mostBeside = next?.isSuspect ? 0 : MOST_AUTHENTICATING - 1
    if (next && !isClosed && parsing === undefined && authenticating.size <= mostBeside) {
      waiting.shift()
      parsing = next
      next.startMs = app.clock.monotonicMs()
      running ??= start()
      say(running.worker, { type: 'parse', id: next.id, request: next.request })
    }
    watch()
  }

  /** Looks at the Worker from time to time while it has something to do, and once when it has not had anything for a while. */
  const watch = (): void => {
    // A timer that runs goes on: under a steady stream of messages it would never fire otherwise.
    if (timer && running && isWatchingWork === isBusy()) return
    timer?.cancel()
    isWatchingWork = isBusy()
    timer = running && app.clock.after(isWatchingWork ? LOOK_MS : IDLE_MS, look)
  }

  const look = (): void => {
    timer = undefined
    if (!running) return
    if (!isBusy()) {
      running.worker.terminate()
      running = undefined
      return
    }
    running.silentLooks++
    if (running.silentLooks < MOST_SILENT_LOOKS) watch()
    else bury(running, 'it has said nothing for 30 seconds', 'It takes longer than 30 seconds to parse.')
  }

  return {
    parse(request, onParsed) {
      if (isClosed) return Promise.reject(new Error('the parser is closed'))
      return new Promise((resolve, reject) => {
        waiting.push({ id: nextId(), request, resolve, reject, onParsed, startMs: 0, isSuspect: false })
        pump()
      })
    },
    close() {
      isClosed = true
      timer?.cancel()
      running?.worker.terminate()
      running = undefined
      const open = [...waiting.splice(0), ...(parsing ? [parsing] : []), ...authenticating.values()]
      parsing = undefined
      authenticating.clear()
      for (const job of open) job.reject(new Error('the parser is closed'))
    },
  }
}

/** Removes the files of an answer that nobody adopted. */
export async function removeFiles({ message }: ParsedContent): Promise<void> {
  for (const { file } of message?.attachments ?? []) if (file) await rm(file.path, { force: true })
}
