/**
 * @module The emails of the benchmark: 2 KiB of text and 8 KiB of HTML whose words compress like prose (to about 40 %).
 * Each email differs, so that the content store shares no blob. Requests are prebuilt, because the generator shares the
 * machine with the service.
 */
import { KiB } from '#platform/units.ts'

export const TEXT_BYTES = 2 * KiB
export const HTML_BYTES = 8 * KiB
export const SENDER_DOMAIN = 'sender.bench.test'
export const RECEIVER_DOMAIN = 'receiver.bench.test'

/** Distinct bodies; the number of an email makes each body unique. */
const BODY_COUNT = 64
const WORD_COUNT = 2000
/** Placeholder for the number of an email. */
const NUMBER_PLACEHOLDER = '0123456789'
/** Placeholder for the number of a recipient domain. */
const DOMAIN_PLACEHOLDER = '9876543210'

export interface BenchMail {
  readonly from: string
  readonly to: string
  readonly subject: string
  readonly text_body: string
  readonly html_body: string
}

/** Creates the patterns of all emails, which differ only in their number. */
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
 * Returns a function that builds the HTTP request of an email by number. Numbers that differ by a multiple of 64 share
 * a buffer, so a request must be sent before the next one of its buffer is built.
 * @param sendAt RFC 3339 time; undefined for immediate sending
 * @param domains number of recipient domains, which take turns; 1: `RECEIVER_DOMAIN`, else its subdomains
 */
export function createRequestBuilder(
  host: string,
  key: string,
  sendAt: string | undefined,
  domains = 1,
): (number: number) => Buffer {
  const patterns = createMailPatterns().map((pattern) => {
    const mail =
      domains === 1
        ? pattern
        : { ...pattern, to: pattern.to.replace(RECEIVER_DOMAIN, `d${DOMAIN_PLACEHOLDER}.${RECEIVER_DOMAIN}`) }
    const body = JSON.stringify(sendAt === undefined ? mail : { ...mail, send_at: sendAt })
    const request = Buffer.from(
      `POST /v1/emails HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
    const offsets: number[] = []
    for (let at = request.indexOf(NUMBER_PLACEHOLDER); at >= 0; at = request.indexOf(NUMBER_PLACEHOLDER, at + 1))
      offsets.push(at)
    return { request, places: offsets, domainPlace: request.indexOf(DOMAIN_PLACEHOLDER) }
  })
  return (number) => {
    const pattern = patterns[number % BODY_COUNT]
    if (!pattern) throw new RangeError(`${number} is not the number of an email`)
    const digits = pad(number)
    for (const place of pattern.places) pattern.request.write(digits, place, 'latin1')
    if (domains > 1) pattern.request.write(pad(number % domains), pattern.domainPlace, 'latin1')
    return pattern.request
  }
}

const pad = (number: number): string => String(number).padStart(NUMBER_PLACEHOLDER.length, '0')

/** Joins `start`, pieces and `end` to exactly `sizeBytes` of ASCII. */
function fillText(start: string, sizeBytes: number, end: string, piece: () => string): string {
  let text = start
  while (text.length < sizeBytes) text += piece()
  return text.slice(0, sizeBytes - end.length) + end
}

const makeWord = (random: () => number): string =>
  Array.from({ length: 2 + Math.floor(random() * 8) }, () => String.fromCharCode(97 + Math.floor(random() * 26))).join(
    '',
  )

/** Creates a deterministic pseudorandom generator of numbers in [0, 1): linear congruential, modulo 2^32. */
function createSequence(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
