/** @module Reads the List-Unsubscribe headers of a client (RFC 2369, RFC 8058). Pure; throws AppError 422 with the field. */
import { invalid } from '#platform/errors.ts'

/** In transactional mail the client may set these headers; the service writes them in other mail. */
export const UNSUBSCRIBE_HEADER = /^list-unsubscribe(?:-post)?$/i
export const ONE_CLICK = 'List-Unsubscribe=One-Click'

const COMMENT_OR_URL = /<[^<>]*>|\((?:[^()\\]|\\.)*\)/gs
const MAX_COMMENT_LEVELS = 3
const URL_IN_BRACKETS = /^<(?:https?|mailto):[!#-;=?-~]+>$/i
/** A comma ends a URL without brackets only where another URL or nothing follows, because URLs contain commas. */
const COMMA = /,(?=,|(?:https?|mailto):|$)/i

export interface UnsubscribeUrls {
  /** Valid URLs in angle brackets, separated by commas; `''`: none. */
  readonly value: string
  /** Whether the header has one of the forms of RFC 2369 §2: nothing but URLs in angle brackets and comments. */
  readonly isValid: boolean
}

/** Reads the URLs of List-Unsubscribe, also those without angle brackets; drops white space in them and comments. */
export function readUnsubscribeUrls(value: string): UnsubscribeUrls {
  let text = value
  for (let level = 0; level < MAX_COMMENT_LEVELS; level++)
    text = text.replaceAll(COMMENT_OR_URL, (found) => (found.startsWith('<') ? found : ' '))
  const pieces = (text.match(/<[^<>]*>|[^\s<>]+|[<>]/g) ?? []).flatMap((piece) =>
    piece.startsWith('<') ? [piece.replaceAll(/\s/g, '')] : piece.split(COMMA).filter((url) => url !== ''),
  )
  const urls = pieces
    .map((piece) => (piece.startsWith('<') ? piece : `<${piece}>`))
    .filter((url) => URL_IN_BRACKETS.test(url))
  return { value: urls.join(', '), isValid: urls.length > 0 && pieces.every((piece) => URL_IN_BRACKETS.test(piece)) }
}

/** RFC 8058 §3.1: one click needs an https URL. */
export const hasOneClickUrl = (urls: string | undefined): boolean => urls !== undefined && /<https:/i.test(urls)

/** Returns headers with List-Unsubscribe in its usual form; throws if it or List-Unsubscribe-Post is not valid. */
export function requireValidUnsubscribe(headers: Readonly<Record<string, string>>): Record<string, string> {
  const findName = (lowerName: string) => Object.keys(headers).find((name) => name.toLowerCase() === lowerName)
  const [name, postName] = [findName('list-unsubscribe'), findName('list-unsubscribe-post')]
  const urls = name === undefined ? undefined : readUnsubscribeUrls(headers[name] ?? '')
  if (urls?.isValid === false)
    throw invalid(
      `headers.${name}`,
      'List-Unsubscribe must be URLs in angle brackets, separated by commas, such as <https://example.com/leave?u=1>, <mailto:leave@example.com>.',
    )
  if (postName !== undefined && headers[postName]?.trim() !== ONE_CLICK)
    throw invalid(`headers.${postName}`, `List-Unsubscribe-Post must be ${ONE_CLICK}.`)
  if (postName !== undefined && !hasOneClickUrl(urls?.value))
    throw invalid(
      `headers.${postName}`,
      'List-Unsubscribe-Post needs a List-Unsubscribe with an https URL; add one, or omit List-Unsubscribe-Post.',
    )
  return { ...headers, ...(name !== undefined && urls && { [name]: urls.value }) }
}
