/** @module Forms of texts and times for people: in commands, reasons and findings. */
import type { Millis } from './units.ts'

/** Cuts text to `maxLength` characters, between two of them, with an ellipsis. */
export const truncate = (text: string, maxLength: number): string =>
  text.length <= maxLength ? text : `${text.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`

/** Formats a time as `in 4 min`, `2 h ago` or `now`. */
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

/** Quotes a word for a shell when it needs that. */
export const quoteShellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
