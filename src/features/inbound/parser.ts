/**
 * @module The parse Worker as the rest sees it: a message goes in, what is in it and who sent it come out. One message is parsed at a time; those that
 * are parsed wait for DNS beside each other. A message that ends the Worker, or keeps it busy for half a minute, is the only one that suffers.
 *
 * waiting → parsing → authenticating → answered
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Timer } from '#platform/clock.ts'
import { seconds } from '#platform/units.ts'
import { startWorker } from '#platform/workers.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/unknown.ts'
import type { Answer, Resolver } from '#protocols/dns/resolver.ts'
import type { App } from '../app.ts'
import {
  type FromParseWorker,
  filePrefix,
  type ParseAnswer,
  type ParsedContent,
  type ParseRequest,
  type QuestionKind,
  type ToParseWorker,
} from './parse-protocol.ts'

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
   */
  parse(request: ParseRequest): Promise<ParseAnswer>
  close(): void
}

/** Messages that are parsed and wait for DNS; each still lies in the Worker's memory. */
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

/** @param newWorker starts the Worker; in its place for tests that want to end it */
export function createParser(app: ParserNeeds, newWorker: () => Worker = () => startWorker('parse')): Parser {
  const waiting: Job[] = []
  const authenticating = new Map<number, Job>()
  let parsing: Job | undefined
  let running: Running | undefined
  let timer: Timer | undefined
  let isWatchingWork = false
  let isFolderReady = false
  let isClosed = false
  let lastId = 0
  const filesFolder = join(app.config.dataDir, 'content', 'incoming')

  const isBusy = (): boolean => parsing !== undefined || authenticating.size > 0

  const say = (worker: Worker, message: ToParseWorker): void => worker.postMessage(message)

  const start = (): Running => {
    // What an earlier run left, before the first Worker of this one writes there.
    if (!isFolderReady) rmSync(filesFolder, { recursive: true, force: true })
    mkdirSync(filesFolder, { recursive: true, mode: 0o700 })
    isFolderReady = true
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
        parsing = undefined
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
        parsing = undefined
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
      else guilty.resolve({ problem, strippedText: null, authentication: UNKNOWN_AUTHENTICATION })
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
    parse(request) {
      if (isClosed) return Promise.reject(new Error('the parser is closed'))
      return new Promise((resolve, reject) => {
        waiting.push({ id: ++lastId, request, resolve, reject, isSuspect: false })
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
