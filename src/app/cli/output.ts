/**
 * @module What commands print: aligned text for people, JSON for programs. What other servers or senders wrote can hold anything, so no control
 * character of it reaches the terminal.
 */
import type { Millis } from '#platform/clock.ts'

// C0 and C1 controls, line separators, and what turns the direction of writing.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g

// The same, without the C0 controls: those are escaped in JSON, or its own line ends.
const UNESCAPED = /[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g

/** Text from elsewhere on one line, without anything that a terminal obeys. */
export const toPrintable = (text: string): string => text.replace(UNPRINTABLE, ' ')

/** At most `most` characters, cut off with an ellipsis. */
export const truncate = (text: string, maxLength: number): string =>
  text.length > maxLength ? `${text.slice(0, maxLength - 1)}…` : text

export const print = (text: string): void => void process.stdout.write(`${text}\n`)

/** As JSON, with everything that a terminal obeys as `\\uXXXX`: `JSON.stringify` alone does so with C0 controls only. */
export const formatJson = (value: unknown): string =>
  JSON.stringify(value, null, 2).replace(
    UNESCAPED,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

export const printJson = (value: unknown): void => print(formatJson(value))

/** The value as JSON when programs read, else as text. */
export function printResult<T>(
  options: { readonly json?: boolean | undefined },
  value: T,
  text: (value: T) => string,
): void {
  if (options.json) printJson(value)
  else print(text(value))
}

/**
 * Something secret that is shown once, alone on standard output so that it can be piped into a file; what is to be said of it goes to standard error.
 * As JSON it is part of the value.
 */
export function printSecret<T>(
  options: { readonly json?: boolean | undefined },
  value: T,
  secret: string,
  sentence: string,
): void {
  if (options.json) {
    printJson(value)
  } else {
    print(secret)
    process.stderr.write(`${sentence}\n`)
  }
}

/** Rows in aligned columns under their headings; all cells are made printable. */
export function formatTable(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map(toPrintable))]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => Bun.stringWidth(line[column] ?? ''))))
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - Bun.stringWidth(cell)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** `2026-11-21 14:02:11Z`. */
export const formatUtc = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 19)}Z`

/** `in 4 min`, `2 h ago`, `now`. */
export function formatRelativeTime(at: Millis, now: Millis): string {
  const seconds = Math.round(Math.abs(at - now) / 1000)
  if (seconds === 0) return 'now'
  const size =
    seconds < 120
      ? `${seconds} s`
      : seconds < 7200
        ? `${Math.round(seconds / 60)} min`
        : seconds < 172_800
          ? `${Math.round(seconds / 3600)} h`
          : `${Math.round(seconds / 86_400)} d`
  return at > now ? `in ${size}` : `${size} ago`
}

/** `1 email`, `2 emails`. */
export const formatCount = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
