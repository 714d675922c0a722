/**
 * @module SMTP replies (RFC 5321 §4.2) and their incremental parser. Bounded, and tolerant only of a bare LF at the end of a line.
 */

/** A whole reply, of one line or several. */
export interface SmtpReply {
  /** 200 to 599. */
  readonly code: number
  /** The enhanced status code such as `5.1.1` (RFC 2034), when the first line has one of the same class as `code`. */
  readonly enhanced?: string
  /** What follows the code on each line, as sent except that control characters became spaces. */
  readonly lines: readonly string[]
  /** The reply on one line, the code first; an enhanced code that is repeated on each line stands once. */
  readonly text: string
}

export const DEFAULT_MAX_REPLY_BYTES = 64 * 1024

const LF = 10
const REPLY_LINE = /^([2-5]\d\d)(?:([ -])(.*))?$/s
const ENHANCED_CODE = /^([245])\.\d{1,3}\.\d{1,3}(?= |$)/
const CONTROL = /[\x00-\x1f\x7f]/
const CONTROLS = /[\x00-\x1f\x7f]/g

/** Builds a reply from its code and the text of its lines; also for replies that no server sent. */
export function makeReply(code: number, lines: readonly string[]): SmtpReply {
  const first = lines[0] ?? ''
  const match = ENHANCED_CODE.exec(first)
  // RFC 2034 §4: the class of the enhanced code must agree with the reply code; one that contradicts it would mislead a classifier.
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
 * Turns the bytes of a connection into replies. One parser serves one connection in the clear or one under TLS; after a fault it must not be
 * used again.
 */
export class ReplyParser {
  readonly #onReply: (reply: SmtpReply) => void
  readonly #maxReplyBytes: number
  /** The bytes of a line whose end has not come. */
  #partial: Buffer[] = []
  #lines: string[] = []
  #code = ''
  /** Bytes of the reply at hand, its unfinished line included. */
  #replyBytes = 0

  constructor(onReply: (reply: SmtpReply) => void, maxReplyBytes: number = DEFAULT_MAX_REPLY_BYTES) {
    this.#onReply = onReply
    this.#maxReplyBytes = maxReplyBytes
  }

  /** Whether part of a reply has come and its end has not. */
  get isPartial(): boolean {
    return this.#replyBytes > 0
  }

  /**
   * Takes what the connection delivered and calls `onReply` for each reply that it completes.
   *
   * @returns what is wrong with the stream, when it is no SMTP or a reply is longer than the bound; the replies before it were delivered
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
    if (!match || code === undefined) return `a line that is no SMTP reply: ${quoteExcerpt(line)}`
    // RFC 5321 §4.2.1: every line of a reply has the same code.
    if (this.#code !== '' && code !== this.#code)
      return `a reply that begins with ${this.#code} and goes on with ${code}`
    const text = match[3] ?? ''
    this.#lines.push(CONTROL.test(text) ? text.replace(CONTROLS, ' ') : text)
    if (match[2] === '-') {
      this.#code = code
      return undefined
    }
    const lines = this.#lines
    this.#lines = []
    this.#code = ''
    this.#replyBytes = 0
    this.#onReply(makeReply(Number(code), lines))
    return undefined
  }
}

function quoteExcerpt(line: string): string {
  return JSON.stringify(line.length > 80 ? `${line.slice(0, 80)}...` : line)
}
