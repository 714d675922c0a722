/** @module Reads List-Unsubscribe as clients write it (RFC 2369 §2, RFC 8058). Pure. */

/** The value of List-Unsubscribe-Post. */
export const ONE_CLICK = 'List-Unsubscribe=One-Click'

/** A URL in angle brackets, a comment, or other text. */
const PIECE = /<[^<>]*>|\((?:[^()\\]|\\.){0,500}\)|[^\s<>]+|[<>]/gs
const URL_IN_BRACKETS = /^<(?:https?|mailto):[!#-;=?-~]+>$/i
/** A comma ends a URL without brackets only where another URL or nothing follows, because URLs contain commas. */
const COMMA = /,(?=,|(?:https?|mailto):|$)/i

/**
 * Returns valid URLs in angle brackets, separated by commas, also of URLs without brackets and with white space in them,
 * and whether the value has a form of the RFC: nothing but URLs in angle brackets and comments.
 */
export function readUnsubscribeUrls(value: string): { readonly urls: string; readonly isValid: boolean } {
  const pieces = (value.match(PIECE) ?? []).flatMap((piece) => {
    if (piece.startsWith('<')) return [piece.replaceAll(/\s/g, '')]
    return piece.startsWith('(') ? [] : piece.split(COMMA).filter((url) => url !== '')
  })
  const urls = pieces
    .map((piece) => (piece.startsWith('<') ? piece : `<${piece}>`))
    .filter((url) => URL_IN_BRACKETS.test(url))
  return { urls: urls.join(', '), isValid: urls.length > 0 && pieces.every((piece) => URL_IN_BRACKETS.test(piece)) }
}

/** RFC 8058 §3.1: one click needs an https URL. */
export const hasOneClickUrl = (urls = ''): boolean => /<https:/i.test(urls)
