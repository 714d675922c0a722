/**
 * @module The bench's emails: 2 KiB of text and 8 KiB of HTML, of words that compress like prose (to about 40 %), and different in every email, so
 * that no part is found again in the content store. As ready requests, because the generator shares the machine with what it measures.
 */
import { KiB } from '#platform/units.ts'

export const TEXT_BYTES = 2 * KiB
export const HTML_BYTES = 8 * KiB
export const SENDER_DOMAIN = 'sender.bench.test'
export const RECEIVER_DOMAIN = 'receiver.bench.test'

/** Different bodies, before the number that makes each email's its own. */
const BODY_COUNT = 64
const WORD_COUNT = 2000
/** Where the number of an email stands. */
const NUMBER_PLACEHOLDER = '0123456789'

export interface BenchMail {
  readonly from: string
  readonly to: string
  readonly subject: string
  readonly text_body: string
  readonly html_body: string
}

/** The emails of which all others differ in their number only. */
export function createMailPatterns(): BenchMail[] {
  const random = createSequence(1)
  const words = Array.from({ length: WORD_COUNT }, () => makeWord(random))
  const word = () => words[Math.floor(random() * words.length)] ?? ''
  return Array.from({ length: BODY_COUNT }, () => ({
    from: `Bench <orders@${SENDER_DOMAIN}>`,
    to: `user-${NUMBER_PLACEHOLDER}@${RECEIVER_DOMAIN}`,
    subject: `Your order ${NUMBER_PLACEHOLDER}`,
    text_body: fillText(
      `Order ${NUMBER_PLACEHOLDER}\n\n`,
      TEXT_BYTES,
      '\n',
      () => word() + (random() < 0.08 ? '.\n' : ' '),
    ),
    html_body: fillText(
      `<!doctype html><html><head><meta charset="utf-8"></head><body><h1>Order ${NUMBER_PLACEHOLDER}</h1>`,
      HTML_BYTES,
      '</p></body></html>',
      () => `<p style="margin:0 0 12px">${Array.from({ length: 12 }, word).join(' ')}</p>\n`,
    ),
  }))
}

/**
 * Makes the HTTP requests of emails by number. A buffer is used again for every 64th number.
 * @param sendAt RFC 3339; undefined: now
 */
export function createRequestBuilder(
  host: string,
  key: string,
  sendAt: string | undefined,
): (number: number) => Buffer {
  const patterns = createMailPatterns().map((mail) => {
    const body = JSON.stringify(sendAt === undefined ? mail : { ...mail, send_at: sendAt })
    const request = Buffer.from(
      `POST /v1/emails HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
    const offsets: number[] = []
    for (let at = request.indexOf(NUMBER_PLACEHOLDER); at >= 0; at = request.indexOf(NUMBER_PLACEHOLDER, at + 1))
      offsets.push(at)
    return { request, places: offsets }
  })
  return (number) => {
    const pattern = patterns[number % BODY_COUNT]
    if (!pattern) throw new RangeError(`${number} is no number of an email`)
    const digits = String(number).padStart(NUMBER_PLACEHOLDER.length, '0')
    for (const place of pattern.places) pattern.request.write(digits, place, 'latin1')
    return pattern.request
  }
}

/** `start`, then pieces, then `end`: exactly `sizeBytes` (all ASCII). */
function fillText(start: string, sizeBytes: number, end: string, piece: () => string): string {
  let text = start
  while (text.length < sizeBytes) text += piece()
  return text.slice(0, sizeBytes - end.length) + end
}

const makeWord = (random: () => number): string =>
  Array.from({ length: 2 + Math.floor(random() * 8) }, () => String.fromCharCode(97 + Math.floor(random() * 26))).join(
    '',
  )

/** Numbers in [0, 1) that look random and are the same every time: a linear congruence modulo 2^32. */
function createSequence(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
