/**
 * @module What commands take: options that several share, times as an operator writes them, a file or standard input,
 * and a yes before a change. Also the errors with which they end.
 */
import { readFileSync } from 'node:fs'
import { type Command, InvalidArgumentError } from 'commander'
import { runAsCaller } from '#platform/disk/data-owner.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { toInstantRange } from '#platform/time/date-time.ts'
import { days, hours, type Millis, minutes, seconds } from '#platform/units.ts'
import { toPrintable } from './output.ts'

/** A failure in one sentence; the command ends with exit code 1. */
export class CommandError extends Error {
  readonly code: string

  /** @param code for programs: stable, in snake_case */
  constructor(message: string, code = 'command_failed') {
    super(message)
    this.code = code
  }
}

/** Options or arguments that make no sense, found before anything was done; the command ends with exit code 2. */
export class UsageError extends CommandError {
  constructor(message: string, code = 'wrong_usage') {
    super(message, code)
  }
}

export interface AccountOption {
  readonly account?: string | undefined
}

export const withJson = <C extends Command>(command: C): C => command.option('--json', 'print JSON')

export const MAX_ROWS = 1000

/** Creates a parser for an option that is a whole number within limits. */
export function createWholeNumberParser(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d{1,15}$/.test(text) || value < min || value > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
    return value
  }
}

/** Parser for options that are URLs. */
export function parseUrlOption(text: string): string {
  if (/^https?:/.test(text) && URL.canParse(text)) return text
  throw new InvalidArgumentError('It must be a URL such as https://mail.example.com.')
}

/** Parser for options that may be repeated. */
export const collectOption = (value: string, earlier: readonly string[] = []): readonly string[] => [...earlier, value]

/**
 * Never prompts.
 * @param path undefined or `-`: standard input
 * @param noun such as `key`
 */
export function readInput(path: string | undefined, noun: string): Buffer<ArrayBuffer> {
  const isStandardInput = path === undefined || path === '-'
  if (isStandardInput && process.stdin.isTTY) throw new UsageError(`No ${noun} given; pipe it in.`)
  try {
    return runAsCaller(() => Buffer.from(readFileSync(isStandardInput ? 0 : path)))
  } catch (error) {
    throw new CommandError(
      `${isStandardInput ? 'Standard input' : path} cannot be read: ${error instanceof Error ? error.message : String(error)}.`,
    )
  }
}

/** The API key in a file. */
export const readKeyFile = (path: string): string => readInput(path, 'key').toString().trim()

/**
 * Asks whether to go on; throws CommandError without a yes. Without a terminal, `--yes` is required.
 * @param facts what would be changed, without a full stop
 * @param action such as `bounce them`
 */
export function confirmAction({ yes }: { readonly yes?: boolean | undefined }, facts: string, action: string): void {
  if (yes) return
  if (!process.stdin.isTTY)
    throw new CommandError(`${facts}; nothing was changed. Add --yes to ${action}.`, 'not_confirmed')
  if (!globalThis.confirm(toPrintable(`${facts}. Do you want to ${action}?`)))
    throw new CommandError('Nothing was changed.', 'not_confirmed')
}

/** Follows what an option means in its help. */
export const TIME_FORMS = '2h, yesterday, 14:30, 2026-11-21 or 2026-11-21T14:30Z; UTC'

const AGO = /^(\d{1,6}) ?(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)( ago)?$/
const UNITS: Readonly<Record<string, (count: number) => Millis>> = {
  s: seconds,
  m: minutes,
  h: hours,
  d: days,
  w: (count) => days(7 * count),
}
const TIME_OF_DAY = /^([01]?\d|2[0-3]):([0-5]\d)$/

/**
 * Returns a date or a time (ISO 8601, UTC). Also understands `2h`, `3 days ago`, `today`, `yesterday`, and a time of day,
 * which is the last one before now. Throws UsageError for any other text.
 */
export function parseTimeOption(option: string, text: string, now: Millis): string {
  const words = text.trim().toLowerCase()
  if (words === 'now') return isoTime(now)
  if (words === 'today') return isoTime(now).slice(0, 10)
  if (words === 'yesterday') return isoTime(now - days(1)).slice(0, 10)
  const [, count, unit = ''] = AGO.exec(words) ?? []
  const toMillis = UNITS[unit.charAt(0)]
  if (toMillis) return isoTime(now - toMillis(Number(count)))
  const [, hour, minute] = TIME_OF_DAY.exec(words) ?? []
  if (hour !== undefined) {
    const at = now - (now % days(1)) + hours(Number(hour)) + minutes(Number(minute))
    return isoTime(at > now ? at - days(1) : at)
  }
  if (toInstantRange(text.trim())) return text.trim()
  throw new UsageError(`${option} must be a time such as ${TIME_FORMS}, not "${text}".`, 'invalid_time')
}

/** The same as an instant: of a date its first. Undefined without a text. */
export function parseInstantOption(option: string, text: string | undefined, now: Millis): Millis | undefined {
  return text === undefined ? undefined : toInstantRange(parseTimeOption(option, text, now))?.first
}
