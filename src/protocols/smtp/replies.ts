/**
 * @module SMTP replies (RFC 5321 §4.2), their incremental parser, and the extensions in the reply to EHLO (§4.1.1.1).
 * Limits the size of a reply. The only errors that the parser tolerates are a bare LF at the end of a line, and lines
 * with different codes: the last one counts.
 */

/** A complete reply of one or more lines. */
export interface SmtpReply {
  /** The reply code, 200 to 599. */
  readonly code: number
  /** The enhanced status code, such as `5.1.1` (RFC 2034), if the first line has one of the same class as `code`. */
  readonly enhanced?: string
  /** The text after the code on each line, as sent, with control characters replaced by spaces. */
  readonly lines: readonly string[]
  /** The reply on one line, with the code first. An enhanced code that is repeated on each line appears only once. */
  readonly text: string
}

export const DEFAULT_MAX_REPLY_BYTES = 64 * 1024

const LF = 10
const REPLY_LINE = /^([2-5]\d\d)(?:([ -])(.*))?$/s
const ENHANCED_CODE = /^([245])\.\d{1,3}\.\d{1,3}(?= |$)/
const CONTROL = /[\x00-\x1f\x7f]/
const CONTROLS = /[\x00-\x1f\x7f]/g

/** Creates a reply from its code and the text of its lines. Also used for replies that no server sent. */
export function makeReply(code: number, lines: readonly string[]): SmtpReply {
  const first = lines[0] ?? ''
  const match = ENHANCED_CODE.exec(first)
  // RFC 2034 §4: the class of the enhanced code must match the reply code. An enhanced code of another class is
  // dropped, because it would mislead a classifier.
  const enhanced = match && Number(match[1]) === Math.floor(code / 100) ? match[0] : undefined
  const text = formatReplyText(code, lines, enhanced)
  return enhanced === undefined ? { code, lines, text } : { code, enhanced, lines, text }
}

function formatReplyText(code: number, lines: readonly string[], enhanced: string | undefined): string {
  let text = String(code)
  for (const [index, line] of lines.entries()) {
    const repeated = index > 0 && enhanced !== undefined && line.startsWith(`${enhanced} `)
    const part = (repeated ? line.slice(enhanced.length) : line).trim()
    if (part !== '') text += ` ${part}`
  }
  return text
}

/**
 * Parses the bytes of a connection into replies. A parser serves one connection, in plaintext or under TLS. Do not use
 * a parser again after `push` has returned a problem.
 */
export class ReplyParser {
  readonly #onReply: (reply: SmtpReply) => void
  readonly #maxReplyBytes: number
  #partial: Buffer[] = []
  #lines: string[] = []
  /** Bytes of the current reply, including its unfinished line. */
  #replyBytes = 0

  constructor(onReply: (reply: SmtpReply) => void, maxReplyBytes: number = DEFAULT_MAX_REPLY_BYTES) {
    this.#onReply = onReply
    this.#maxReplyBytes = maxReplyBytes
  }

  /** Whether a reply has begun but not ended. */
  get isPartial(): boolean {
    return this.#replyBytes > 0
  }

  /**
   * Parses received bytes and calls `onReply` for each reply that they complete.
   *
   * @returns the problem when the stream is not SMTP or a reply exceeds the limit; `onReply` has been called for the
   * replies before it
   */
  push(chunk: Buffer): string | undefined {
    let start = 0
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, start)) {
      this.#replyBytes += end + 1 - start
      if (this.#replyBytes > this.#maxReplyBytes) return this.#describeOverlong()
      const problem = this.#parseLine(this.#readLine(chunk, start, end))
      if (problem !== undefined) return problem
      start = end + 1
    }
    if (start < chunk.length) {
      this.#replyBytes += chunk.length - start
      if (this.#replyBytes > this.#maxReplyBytes) return this.#describeOverlong()
      this.#partial.push(chunk.subarray(start))
    }
    return undefined
  }

  #describeOverlong(): string {
    return `a reply of more than ${this.#maxReplyBytes} bytes`
  }

  #readLine(chunk: Buffer, start: number, end: number): string {
    let line: string
    if (this.#partial.length === 0) line = chunk.toString('utf8', start, end)
    else {
      line = Buffer.concat([...this.#partial, chunk.subarray(start, end)]).toString('utf8')
      this.#partial = []
    }
    return line.endsWith('\r') ? line.slice(0, -1) : line
  }

  #parseLine(line: string): string | undefined {
    const match = REPLY_LINE.exec(line)
    const code = match?.[1]
    if (!match || code === undefined) return `a line that is not an SMTP reply: ${quoteExcerpt(line)}`
    const text = match[3] ?? ''
    this.#lines.push(CONTROL.test(text) ? text.replace(CONTROLS, ' ') : text)
    if (match[2] === '-') return undefined
    const lines = this.#lines
    this.#lines = []
    this.#replyBytes = 0
    this.#onReply(makeReply(Number(code), lines))
    return undefined
  }
}

function quoteExcerpt(line: string): string {
  return JSON.stringify(line.length > 80 ? `${line.slice(0, 80)}...` : line)
}

/** The extensions of a server that the client can use. */
export interface SmtpExtensions {
  /** The size of the largest message that the server accepts (RFC 1870); absent when the server states no limit. */
  readonly sizeBytes?: number
  /** Whether the server offers SIZE, with or without a limit. Only then may MAIL have this parameter. */
  readonly size: boolean
  /** RFC 2920. */
  readonly pipelining: boolean
  /** RFC 6152. */
  readonly eightBitMime: boolean
  /** RFC 6531. */
  readonly smtpUtf8: boolean
  /** RFC 3207. */
  readonly startTls: boolean
  /** SASL mechanisms in upper case (RFC 4954), in the server's order. */
  readonly auth: readonly string[]
}

/**
 * Parses the extensions in a 250 reply to EHLO. Ignores the case of keywords and mechanisms; accepts the old form
 * `AUTH=LOGIN`.
 */
export function parseExtensions(ehlo: SmtpReply): SmtpExtensions {
  const offered = new Map<string, string[]>()
  for (const line of ehlo.lines.slice(1)) {
    const [keyword = '', ...parameters] = line
      .trim()
      .toUpperCase()
      .replace(/^AUTH=/, 'AUTH ')
      .split(/\s+/)
    offered.set(keyword, [...(offered.get(keyword) ?? []), ...parameters])
  }
  const limit = offered.get('SIZE')?.[0] ?? ''
  const sizeBytes = /^\d{1,15}$/.test(limit) ? Number(limit) : 0
  return {
    // RFC 1870 §4: zero means no fixed limit.
    ...(sizeBytes > 0 && { sizeBytes }),
    size: offered.has('SIZE'),
    pipelining: offered.has('PIPELINING'),
    eightBitMime: offered.has('8BITMIME'),
    smtpUtf8: offered.has('SMTPUTF8'),
    startTls: offered.has('STARTTLS'),
    auth: [...new Set(offered.get('AUTH') ?? [])],
  }
}

/** The extensions of a server that knows only HELO: none. */
export const NO_EXTENSIONS: SmtpExtensions = parseExtensions(makeReply(250, []))
