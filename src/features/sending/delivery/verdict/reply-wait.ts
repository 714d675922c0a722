/**
 * @module Reads the wait that a reply asks for: "try again in 10 minutes", "retry after 300 seconds", "come back in
 * 00:05:00", "in 10 Minuten erneut versuchen". Pure; examines a limited part of the reply.
 */
import { hours, minutes, seconds } from '#platform/units.ts'

/** Limits of a wait: a shorter one asks for nothing, and a longer one would be obeyed by a mistake of the server. */
const MIN_REPLY_WAIT_MS = minutes(1)
export const MAX_REPLY_WAIT_MS = hours(2)
/** Waits are named within this many characters. */
const EXAMINED_LENGTH = 1000

/** Words that ask to come back. A number without them is a limit, such as "100 messages in 60 minutes". */
const ASKING =
  '(?:again|retry(?:ing)?|re-?send|reconnect|come back|return|wait(?:ing)?|later|erneut|wieder|warten|r[eé]essayer?|plus tard|nochmals?)'
const AMOUNT =
  '(\\d{1,6}) ?(seconds?|secs?|sekunden?|s|minutes?|mins?|minuten?|m|hours?|hrs?|stunden?|heures?|h)(?![\\p{L}\\d])'
const CLOCK = '(\\d{1,2}):(\\d\\d):(\\d\\d)(?![\\d:])'
/** Between the words and the number: no digit, and no end of a sentence. */
const GAP = '[^\\d.;!?]{0,30}'

const ASKED_THEN_AMOUNT = new RegExp(`(?<![\\p{L}\\d])${ASKING}(?!\\p{L})${GAP}(?<![\\d.:])${AMOUNT}`, 'iu')
const ASKED_THEN_CLOCK = new RegExp(`(?<![\\p{L}\\d])${ASKING}(?!\\p{L})${GAP}(?<![\\d.:])${CLOCK}`, 'iu')
const AMOUNT_THEN_ASKED = new RegExp(
  `(?<![\\p{L}\\d])(?:in|nach|after|dans|for) (?:about |ca\\.? |etwa )?${AMOUNT} (?:try )?(?:erneut|wieder|nochmals?|again|warten|before (?:re)?trying)(?!\\p{L})`,
  'iu',
)

function toMs(amount: string, unit: string): number {
  const count = Number(amount)
  switch (unit.charAt(0).toLowerCase()) {
    case 's':
      // "Stunde" begins like "Sekunde".
      return unit.toLowerCase().startsWith('st') ? hours(count) : seconds(count)
    case 'm':
      return minutes(count)
    default:
      return hours(count)
  }
}

/** The wait that a reply asks for, in ms, within limits; undefined when it asks for none. */
export function findNamedWait(text: string): number | undefined {
  const examined = text.slice(0, EXAMINED_LENGTH)
  const [, amount, unit] = ASKED_THEN_AMOUNT.exec(examined) ?? AMOUNT_THEN_ASKED.exec(examined) ?? []
  const [, hour, minute, second] = ASKED_THEN_CLOCK.exec(examined) ?? []
  const asked =
    amount !== undefined && unit !== undefined
      ? toMs(amount, unit)
      : hour !== undefined
        ? hours(Number(hour)) + minutes(Number(minute)) + seconds(Number(second))
        : undefined
  return asked === undefined ? undefined : Math.min(Math.max(asked, MIN_REPLY_WAIT_MS), MAX_REPLY_WAIT_MS)
}
