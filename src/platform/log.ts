/**
 * @module The log: pino, JSON lines on standard error. Mail addresses are shortened before they are written, whoever writes them.
 */
import { type Logger, pino } from 'pino'

export type Log = Logger

const ADDRESS = /([\p{L}\p{N}!#$%&'*+/=?^_`{|}~.-]{1,64})@([\p{L}\p{N}.-]{1,253})/gu

/** Keeps the first character of each local part: `a***@example.com`. */
export const redactAddresses = (text: string): string =>
  text.includes('@')
    ? text.replace(ADDRESS, (_, local: string, domain: string) => `${local.slice(0, 1)}***@${domain}`)
    : text

/** A logger at `level` that writes to `destination` (standard error unless told otherwise). */
export function createLog(level: string, destination: { write(line: string): void } = stderrLines): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => destination.write(redactAddresses(line)) },
  )
}

const stderrLines = { write: (line: string) => void process.stderr.write(line) }
