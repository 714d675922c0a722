/**
 * @module Writes the Authentication-Results field (RFC 8601), and removes fields that forge our results from a message as
 * it streams through: of authentication (§5) and of a check for spam. Never reads the results of other hosts. Holds at
 * most the beginning of one field, so memory depends on the size of neither the message nor its header.
 */
import { toComparableDomain } from '../address/domain.ts'
import type { AuthenticationResult } from './result.ts'

/** A token as RFC 2045 §5.1 defines it. */
const TOKEN = /^[!#$%&'*+\-.0-9A-Z^_`a-z{|}~]+$/
/** Printable ASCII without the semicolon: careless readers split a field at any semicolon, even a quoted one. */
const HARMLESS = /^[\x20-:<-\x7e]*$/
/** Maximum length of a value. Longer values are left out, because they could not be folded. */
const MAX_VALUE_LENGTH = 255
const MAX_LINE_LENGTH = 78

/** RFC 8601 §2.2: `ptype.property` and its value; a comment when the name is empty. */
type ResultProperty = readonly [name: string, value: string | null]

/**
 * Returns the field's value, without its name, in ASCII and folded at 78 characters: `mail.example; spf=pass
 * smtp.mailfrom=…`. Leaves out checks whose verdict RFC 8601 does not define.
 *
 * @param hostname the authserv-id, in A-labels
 */
export function formatAuthenticationResults(result: AuthenticationResult, hostname: string): string {
  const { spf, dkim, dmarc, arc, iprev } = result.details
  const found = [
    formatStatement('iprev', iprev.result, [
      ['policy.iprev', spf.client_ip],
      ['', iprev.name],
    ]),
    formatStatement('spf', spf.result, [[spf.identity === 'helo' ? 'smtp.helo' : 'smtp.mailfrom', spf.domain]]),
    ...(dkim.length === 0 ? [formatStatement('dkim', 'none', [])] : []),
    ...dkim.map((signature) =>
      formatStatement('dkim', signature.result, [
        ['', signature.comment],
        ['header.d', signature.domain],
        ['header.s', signature.selector],
        ['header.a', signature.algorithm],
      ]),
    ),
    formatStatement('dmarc', dmarc.result, [
      ['', dmarc.comment],
      ['policy.dmarc', dmarc.policy],
      ['header.from', dmarc.domain],
    ]),
    ...(['none', 'pass', 'fail'].includes(arc.result)
      ? [formatStatement('arc', arc.result, [['', arc.instances > 0 ? `i=${arc.instances}` : null]])]
      : []),
  ]
  return [hostname, ...found.map((words) => ` ${words.reduce(appendFolded)}`)].join(';\r\n')
}

const formatStatement = (method: string, verdict: string, properties: readonly ResultProperty[]): string[] => [
  `${method}=${verdict}`,
  ...properties.flatMap(([name, value]) => {
    const text = name === '' ? value?.replaceAll(';', ',') : value
    if (!text || text.length > MAX_VALUE_LENGTH || !HARMLESS.test(text)) return []
    return name === '' ? toCommentWords(text) : [`${name}=${TOKEN.test(text) ? text : quote(text)}`]
  }),
]

const quote = (value: string): string => `"${value.replace(/["\\]/g, '\\$&')}"`

/** Returns the words of a comment, with parentheses and backslashes escaped. */
const toCommentWords = (text: string): string[] => `(${text.replace(/[()\\]/g, '\\$&')})`.split(/ +/)

function appendFolded(text: string, word: string): string {
  const lineLength = text.length - (text.lastIndexOf('\n') + 1)
  // In addition to the word, counts the space before it, the semicolon after it, and the space before the value on the
  // first line.
  return text + (lineLength + 1 + word.length + 2 > MAX_LINE_LENGTH ? '\r\n  ' : ' ') + word
}

/**
 * Returns whether an Authentication-Results field claims to be ours (RFC 8601 §5), in any spelling of our name. Also
 * returns true when the authserv-id is unreadable, because more tolerant readers might see our name in it. A field for
 * which this is true must not pass.
 *
 * @param value with or without its folding, decoded or not
 * @param isJudged whether we have a verdict on spam, in whose place readers would see that of the sender (X-Spam-Status)
 */
export function isForgedResult(name: string, value: string, hostname: string, isJudged = false): boolean {
  const field = name.trim().toLowerCase()
  if (field !== 'authentication-results') return isJudged && field.startsWith('x-spam-')
  const claimed = parseAuthservId(value)
  return claimed === undefined || toComparableDomain(claimed) === toComparableDomain(hostname)
}

/**
 * Returns the authserv-id (RFC 8601 §2.2), which is a token or a quoted string at the start; undefined when there is
 * neither.
 */
function parseAuthservId(value: string): string | undefined {
  const text = value.slice(skipComments(value))
  if (text.startsWith('"')) {
    const [, inside] = /^"((?:[^"\\]|\\[\s\S])*)"/.exec(text) ?? []
    return inside?.replace(/\\([\s\S])/g, '$1').trim()
  }
  // Includes characters beyond ASCII: RFC 8601 §2.5 with RFC 6532.
  const [claimed = ''] = /^[^\s;()<>@,:\\"/[\]?=]*/.exec(text) ?? []
  const after = text.charAt(claimed.length)
  return claimed !== '' && (after === '' || /[\s;(]/.test(after)) ? claimed : undefined
}

/** Returns where the white space and comments at the start of a value end. Comments may be nested (RFC 5322 §3.2.2). */
function skipComments(value: string): number {
  let depth = 0
  let at = 0
  for (; at < value.length; at++) {
    const character = value.charAt(at)
    if (character === '(') depth++
    else if (character === ')' && depth > 0) depth--
    else if (character === '\\' && depth > 0) at++
    else if (depth === 0 && !/\s/.test(character)) break
  }
  return at
}

/** Maximum octets of a field that are examined. This is enough, because the claimed authserv-id comes first. */
const MAX_HELD_BYTES = 64 * 1024
/** RFC 5322 §2.2.3: a line end that no white space follows. After a lone CR some readers would see a new field. */
const FIELD_END = /(?:\r\n|\n|\r(?!\n))(?![ \t])/g
const EMPTY_LINE = /\r?\n/y

/**
 * Yields the message without forged fields, and otherwise unchanged.
 * @param hostname our authserv-id
 * @param isJudged as in `isForgedResult`
 */
export function* removeForgedResults(chunks: Iterable<Uint8Array>, hostname: string, isJudged = false) {
  let held: Buffer = Buffer.alloc(0)
  let isInHeader = true
  /** Whether the field that began before `held` is removed; undefined at the start of a field. */
  let isForged: boolean | undefined

  function* scan(bytes: Buffer, isLast: boolean): Generator<Uint8Array> {
    const text = bytes.toString('latin1')
    let at = 0
    while (at < bytes.length) {
      if (isForged === undefined && find(EMPTY_LINE, text, at) !== undefined) {
        isInHeader = false
        yield bytes.subarray(at)
        return
      }
      const found = find(FIELD_END, text, at)
      // Only what follows shows whether a line end at the end of the text ends the field.
      const end = isLast ? (found ?? bytes.length) : found === bytes.length ? undefined : found
      if (end === undefined && isForged === undefined && bytes.length - at < MAX_HELD_BYTES) break
      const readEnd = Math.min(end ?? bytes.length, at + MAX_HELD_BYTES)
      isForged ??= isForgedField(bytes.toString('utf8', at, readEnd), hostname, isJudged)
      const known = end ?? text.replace(/[\r\n]{1,2}$/, '').length
      if (!isForged && known > at) yield bytes.subarray(at, known)
      at = known
      if (end === undefined) break
      isForged = undefined
    }
    held = bytes.subarray(at)
  }

  for (const chunk of chunks) {
    if (isInHeader) yield* scan(Buffer.concat([held, chunk]), false)
    else yield chunk
  }
  if (isInHeader) yield* scan(held, true)
}

/** Returns where the match ends. */
function find(pattern: RegExp, text: string, from: number): number | undefined {
  pattern.lastIndex = from
  return pattern.test(text) ? pattern.lastIndex : undefined
}

function isForgedField(field: string, ...of: [hostname: string, isJudged: boolean]): boolean {
  const colon = field.indexOf(':')
  return colon >= 0 && isForgedResult(field.slice(0, colon), field.slice(colon + 1), ...of)
}
