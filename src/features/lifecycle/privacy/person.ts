/**
 * @module Recognises one address in stored data: as an address in any spelling, and inside texts such as headers, JSON,
 * server replies and errors. Pure.
 */
import { domainToUnicode } from 'node:url'
import { toSuppressionKey } from '#features/setup/suppression-store/check.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

export interface Person {
  /** The result of `toSuppressionKey`. */
  readonly addressKey: string
  /** Whether an address is the person's. */
  is(address: string): boolean
  /** Whether a text contains the address on its own, not within a longer address. */
  isIn(text: string): boolean
  /** Whether a header, or JSON of addresses, contains the address on its own: `r&d@x.test` does not name `d@x.test`. */
  isNamedIn(header: string): boolean
  /** The text with ERASED_ADDRESS in place of the address. JSON stays JSON. */
  eraseFrom(text: string): string
}

/**
 * Characters that continue an address to the left or right of a match. A local part may contain many more characters;
 * in texts, these are separators.
 */
const LEFT_IN_TEXT = /[\p{L}\p{N}_+-]\.?$/u
/** RFC 5322 atext, except the "=" before the address in rewritten return paths (`prvs=123=ada@x.test`). */
const LEFT_IN_HEADER = /[\p{L}\p{N}!#$%&*+\-/?^_`{|}~]\.?$/u
/** Matches `o'` in `o'brien@x.test`, which is not `brien@x.test`; but not the quote of `'brien@x.test'`. */
const APOSTROPHE = /[\p{L}\p{N}]'$/u
const RIGHT = /^(?:[-_]+|\.)?[\p{L}\p{N}]/u
/** Escapes of JSON and URLs. */
const ESCAPE = /\\(?:[nrtbf]|u([0-9a-f]{4}))|%([0-9a-f]{2})/gi
/** Characters read on each side of a match. */
const CONTEXT_LENGTH = 12

/** Decodes escapes; non-ASCII octets of a URL become an arbitrary letter. */
const decodeEscapes = (text: string): string =>
  text.replace(ESCAPE, (_, unit: string | undefined, octet: string | undefined) => {
    if (octet !== undefined && octet >= '8') return 'x'
    const hex = unit ?? octet
    return hex === undefined ? '\n' : String.fromCharCode(Number.parseInt(hex, 16))
  })

/** Whether a match is a whole address. */
function isWholeAddress(text: string, at: number, length: number, goesOnLeft: RegExp): boolean {
  const left = decodeEscapes(text.slice(Math.max(0, at - CONTEXT_LENGTH), at))
  const right = decodeEscapes(text.slice(at + length, at + length + CONTEXT_LENGTH))
  return !goesOnLeft.test(left) && !APOSTROPHE.test(left) && !RIGHT.test(right)
}

/** The person with an address; undefined if it is invalid. */
export function parsePerson(address: string): Person | undefined {
  if (parseMailbox(address).kind !== 'ok') return undefined
  const addressKey = toSuppressionKey(address)
  const forms = listForms(addressKey)
  const anywhere = new RegExp(forms.map(RegExp.escape).join('|'), 'giu')
  const isFound = (text: string, goesOnLeft: RegExp): boolean => {
    const composed = text.normalize('NFC')
    for (const { index, 0: found } of composed.matchAll(anywhere))
      if (isWholeAddress(composed, index, found.length, goesOnLeft)) return true
    return false
  }
  return {
    addressKey,
    is: (other) => toSuppressionKey(other) === addressKey,
    isIn: (text) => isFound(text, LEFT_IN_TEXT),
    isNamedIn: (header) => isFound(header, LEFT_IN_HEADER),
    eraseFrom: (text) => {
      const composed = text.normalize('NFC')
      const erased = composed.replace(anywhere, (found, at: number) =>
        isWholeAddress(composed, at, found.length, LEFT_IN_TEXT) ? ERASED_ADDRESS : found,
      )
      // A text that does not contain the address is returned unchanged.
      return erased === composed ? text : erased
    },
  }
}

/**
 * The spellings of the address in texts, longest first: both forms of its domain, in needless quotes, in JSON, in a
 * URL.
 */
function listForms(addressKey: string): string[] {
  const at = addressKey.lastIndexOf('@')
  const local = addressKey.slice(0, at)
  const domain = addressKey.slice(at + 1)
  const locals = local.startsWith('"') ? [local] : [local, `"${local}"`]
  const domains = [domain, domainToUnicode(domain)].filter((name) => name !== '')
  const plain = locals.flatMap((each) => domains.map((name) => `${each}@${name}`))
  const all = plain.flatMap((form) => [
    form,
    JSON.stringify(form).slice(1, -1),
    encodeURIComponent(form),
    // Some encoders escape the local part, but not the "@".
    encodeURIComponent(form).replace('%40', '@'),
  ])
  return [...new Set(all)].sort((a, b) => b.length - a.length)
}
