/**
 * @module The bench's emails: 2 KiB of text and 8 KiB of HTML, of words that compress like prose, and different in every email, so that no part
 * is found again in the content store. Pure.
 */
import { KiB } from '#platform/units.ts'

export const TEXT_BYTES = 2 * KiB
export const HTML_BYTES = 8 * KiB

/** Different bodies before the number that makes each email's its own. */
const BODIES = 64
const WORDS = 2000
const NUMBER_PLACE = '0000000000'

export const SENDER_DOMAIN = 'sender.bench.test'
export const RECEIVER_DOMAIN = 'receiver.bench.test'

export interface BenchMail {
  readonly from: string
  readonly to: string
  readonly subject: string
  readonly text_body: string
  readonly html_body: string
}

/** Makes emails by number: the same number, the same email. */
export function benchMails(): (number: number) => BenchMail {
  const random = sequence(1)
  const words = Array.from({ length: WORDS }, () => wordOf(random))
  const bodies = Array.from({ length: BODIES }, () => ({
    text: fill(
      `Order ${NUMBER_PLACE}\n\n`,
      TEXT_BYTES,
      '',
      () => `${pick(words, random)}${random() < 0.08 ? '.\n' : ' '}`,
    ),
    html: fill(
      `<!doctype html><html><head><meta charset="utf-8"></head><body><h1>Order ${NUMBER_PLACE}</h1>`,
      HTML_BYTES,
      '</body></html>',
      () => `<p style="margin:0 0 12px">${Array.from({ length: 12 }, () => pick(words, random)).join(' ')}</p>\n`,
    ),
  }))
  return (number) => {
    const digits = String(number).padStart(NUMBER_PLACE.length, '0')
    const body = bodies[number % BODIES] ?? { text: '', html: '' }
    return {
      from: `Bench <orders@${SENDER_DOMAIN}>`,
      to: `user${number}@${RECEIVER_DOMAIN}`,
      subject: `Your order ${digits}`,
      text_body: body.text.replace(NUMBER_PLACE, digits),
      html_body: body.html.replace(NUMBER_PLACE, digits),
    }
  }
}

/** `start`, then pieces, then `end`, cut to exactly `sizeBytes` (all ASCII). */
function fill(start: string, sizeBytes: number, end: string, piece: () => string): string {
  let text = start
  while (text.length < sizeBytes) text += piece()
  return text.slice(0, sizeBytes - end.length) + end
}

const pick = (words: readonly string[], random: () => number): string =>
  words[Math.floor(random() * words.length)] ?? ''

const wordOf = (random: () => number): string =>
  Array.from({ length: 2 + Math.floor(random() * 8) }, () => String.fromCharCode(97 + Math.floor(random() * 26))).join(
    '',
  )

/** Numbers in [0, 1) that look random and are the same every time (a linear congruence modulo 2^32). */
function sequence(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
