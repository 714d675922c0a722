/**
 * @module The log: pino, JSON lines on standard error, with priorities when standard error is systemd's journal.
 * Redacts mail addresses in every line. Limits repeated warnings and errors to a few lines per second, then logs how
 * many were left out.
 */
import { type LogFn, type Logger, pino } from 'pino'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { addPriority, isJournal } from './journal.ts'
import { redactAddresses } from './redact.ts'

export type Log = Logger

const MAX_LINES_PER_WINDOW = 5
const WINDOW_MS = seconds(1)
/** Pino's number for `warn`. Lines of lower levels are never limited: each is an event that operators may count. */
const WARN = 40
const FATAL = 60

/** A logger at `level`; writes to standard error by default. @param onLine called with the level of each line */
export function createLog(
  level: string,
  destination: { write(line: string): void } = createStderrWriter(),
  clock: Pick<Clock, 'monotonicMs' | 'after'> = systemClock,
  onLine: (level: string) => void = () => undefined,
): Log {
  const limit = new LineLimiter(clock)
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      hooks: {
        logMethod(args, method, number) {
          const write = (...parts: Parameters<LogFn>) => method.apply(this, parts)
          // Flushed here, because the process ends after a fatal line.
          if (number >= FATAL) limit.flush()
          if (number < WARN || limit.admits(`${number} ${messageOf(args)}`, messageOf(args), write)) write(...args)
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

function messageOf([first, second]: readonly unknown[]): string {
  if (typeof second === 'string') return second
  return first instanceof Error ? first.message : String(first)
}

type Write = (fields: object, message: string) => void

/** Counts the lines of one kind within a window of one second. */
interface Window {
  lines: number
  leftOut: number
  readonly fromMs: number
  /** Closes the window: writes how many lines were left out. */
  readonly end: () => void
}

class LineLimiter {
  readonly #clock: Pick<Clock, 'monotonicMs' | 'after'>
  readonly #windows = new Map<string, Window>()

  constructor(clock: Pick<Clock, 'monotonicMs' | 'after'>) {
    this.#clock = clock
  }

  /** Whether a line of this kind may be written now; if lines are left out, `write` later reports how many. */
  admits(kind: string, message: string, write: Write): boolean {
    const nowMs = this.#clock.monotonicMs()
    const before = this.#windows.get(kind)
    const isExpired = before === undefined || nowMs - before.fromMs >= WINDOW_MS
    if (isExpired) before?.end()
    const window = isExpired ? this.#open(kind, message, write, nowMs) : before
    if (++window.lines <= MAX_LINES_PER_WINDOW) return true
    window.leftOut++
    return false
  }

  /** Closes all windows: writes now how many lines were left out. */
  flush(): void {
    for (const { end } of [...this.#windows.values()]) end()
  }

  #open(kind: string, message: string, write: Write, fromMs: number): Window {
    const end = () => {
      timer.cancel()
      if (this.#windows.get(kind) === window) this.#windows.delete(kind)
      const { leftOut } = window
      window.leftOut = 0
      if (leftOut > 0) write({ leftOut }, `${leftOut} more lines like this were suppressed: ${message}`)
    }
    const window: Window = { lines: 0, leftOut: 0, fromMs, end }
    const timer = this.#clock.after(WINDOW_MS, end)
    this.#windows.set(kind, window)
    return window
  }
}

function createStderrWriter(): { write(line: string): void } {
  const write = (line: string) => void process.stderr.write(line)
  return isJournal() ? { write: (line) => write(addPriority(levelOf(line), line)) } : { write }
}

/** Pino writes the level first. */
const levelOf = (line: string): string => /^\{"level":"([a-z]+)"/.exec(line)?.[1] ?? ''
