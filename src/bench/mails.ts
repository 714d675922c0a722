/**
 * @module The emails of the benchmark: 2 KiB of text and 8 KiB of HTML whose words compress like prose (to about 40 %).
 * Each email differs, so that the content store shares no blob.
 */
import { KiB } from '#platform/units.ts'

export const TEXT_BYTES = 2 * KiB
export const HTML_BYTES = 8 * KiB
export const SENDER_DOMAIN = 'sender.bench.test'
export const RECEIVER_DOMAIN = 'receiver.bench.test'

/** Distinct bodies; the number of an email makes each body unique. */
const BODY_COUNT = 64
const WORD_COUNT = 2000
const NUMBER_PLACEHOLDER = '0123456789'
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
  const random = createSequence()
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

/** Returns a function that fills in a pattern by the number of an email. */
export function createFiller(patterns: readonly string[]): (number: number) => string {
  return (number) => (patterns[number % patterns.length] ?? '').replaceAll(NUMBER_PLACEHOLDER, pad(number))
}

export interface RequestOptions {
  /** RFC 3339; sent immediately without it. */
  readonly sendAt?: string
  /** Recipient domains that take turns; 1 by default: `RECEIVER_DOMAIN`, else its subdomains. */
  readonly domains?: number
}

/** Returns a function that builds the HTTP request of an email by number. @param key API key */
export function createRequestBuilder(
  key: string,
  { sendAt, domains = 1 }: RequestOptions = {},
): (number: number) => string {
  const fill = createFiller(
    createMailPatterns().map((pattern) => {
      const to =
        domains === 1 ? pattern.to : pattern.to.replace(RECEIVER_DOMAIN, `d${DOMAIN_PLACEHOLDER}.${RECEIVER_DOMAIN}`)
      const body = JSON.stringify({ ...pattern, to, send_at: sendAt })
      return `POST /v1/emails HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
    }),
  )
  return domains === 1 ? fill : (number) => fill(number).replace(DOMAIN_PLACEHOLDER, pad(number % domains))
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

/** Creates a generator of numbers in [0, 1), which are the same in each run. */
function createSequence(): () => number {
  let count = 0
  return () => Number(Bun.hash(String(count++)) & 0xffffffffn) / 2 ** 32
}
