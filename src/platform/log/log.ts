/**
 * @module The log: pino, JSON lines on standard error, with priorities when standard error is systemd's journal.
 * Redacts mail addresses in every line. Limits repeated warnings and errors to a few lines per second; the next line
 * of the kind says how many were left out.
 */
import { fstatSync } from 'node:fs'
import { type Logger, pino } from 'pino'
import { AppError, attempt } from '#platform/errors.ts'
import { readJournalStream } from '#platform/settings/config.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'

export type Log = Logger

const MAX_LINES_PER_WINDOW = 5
const WINDOW_MS = seconds(1)
/** Pino's number for `warn`. Lines of lower levels are never limited: each is an event that operators may count. */
const WARN = 40
const UNLIMITED = { isAdmitted: true, leftOut: 0 }
/** Kinds that are limited; at more, all begin again. */
const MAX_KINDS = 1000

/** A logger at `level`; writes to standard error by default. @param onLine called with the level of each line */
export function createLog(
  level: string,
  destination: { write(line: string): void } = createStderrWriter(),
  clock: Pick<Clock, 'monotonicMs'> = systemClock,
  onLine: (level: string) => void = () => undefined,
): Log {
  const limit = new LineLimiter(clock)
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      hooks: {
        logMethod(args, method, number) {
          const message = messageOf(args)
          const { isAdmitted, leftOut } = number < WARN ? UNLIMITED : limit.admit(`${number} ${message}`)
          if (leftOut > 0) method.apply(this, [{ leftOut }, `${leftOut} lines like the next one were suppressed`])
          if (isAdmitted) method.apply(this, args)
        },
      },
    },
    {
      write(line: string) {
        onLine(levelOf(line))
        destination.write(redactAddresses(line))
      },
    },
  )
}

/** An error made for its reader needs no stack, which would hide the sentence at night. */
const describeError = (error: Error): object =>
  error instanceof AppError && error.cause === undefined
    ? { code: error.code, message: error.message }
    : pino.stdSerializers.err(error)

function messageOf([first, second]: readonly unknown[]): string {
  if (typeof second === 'string') return second
  return first instanceof Error ? first.message : String(first)
}

/** The lines of one kind within a window of one second. */
interface Window {
  readonly fromMs: number
  lines: number
}

class LineLimiter {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #windows = new Map<string, Window>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  /** Whether a line of this kind may be written now; and how many were left out before it. */
  admit(kind: string): { readonly isAdmitted: boolean; readonly leftOut: number } {
    const nowMs = this.#clock.monotonicMs()
    const before = this.#windows.get(kind)
    if (before && nowMs - before.fromMs < WINDOW_MS)
      return { isAdmitted: ++before.lines <= MAX_LINES_PER_WINDOW, leftOut: 0 }
    if (this.#windows.size >= MAX_KINDS) this.#windows.clear()
    this.#windows.set(kind, { fromMs: nowMs, lines: 1 })
    return { isAdmitted: true, leftOut: Math.max(0, (before?.lines ?? 0) - MAX_LINES_PER_WINDOW) }
  }
}

function createStderrWriter(): { write(line: string): void } {
  const write = (line: string) => void process.stderr.write(line)
  return isJournal() ? { write: (line) => write(addPriority(levelOf(line), line)) } : { write }
}

const STDERR = 2

/**
 * Priorities of systemd's journal (sd-daemon(3)) by log level: it reads a line that begins with `<3>` as an error, and
 * records one without a priority as information. Terminals, files and containers get plain lines.
 */
const PRIORITIES: Readonly<Record<string, string>> = {
  fatal: '<2>',
  error: '<3>',
  warn: '<4>',
  debug: '<7>',
  trace: '<7>',
}

/**
 * Whether standard error is the journal. The variable alone does not prove this, because a child process of a service
 * inherits the variable but may write elsewhere.
 * @param stream device and inode of the journal's socket, `8:1234`
 */
export function isJournal(stream: string | undefined = readJournalStream(), fd = STDERR): boolean {
  const socket = stream === undefined ? undefined : attempt(() => fstatSync(fd))
  return socket !== undefined && stream === `${socket.dev}:${socket.ino}`
}

/** Prefixes each line of the text with the priority of a level. */
export const addPriority = (level: string, text: string): string => text.replace(/^(?=.)/gm, PRIORITIES[level] ?? '')

/** Pino writes the level first. */
const levelOf = (line: string): string => /^\{"level":"([a-z]+)"/.exec(line)?.[1] ?? ''

const ADDRESS = /([\p{L}\p{N}!#$%&'*+/=?^_`{|}~.-]{1,64})@([\p{L}\p{N}.-]{1,253})/gu

/** Redacts each local part to its first character: `a***@example.com`. */
export const redactAddresses = (text: string): string =>
  text.includes('@')
    ? text.replace(ADDRESS, (_, local: string, domain: string) => `${local.slice(0, 1)}***@${domain}`)
    : text
