/**
 * @module Recognises one address in what is stored: as an address in any spelling, and inside of texts: headers, JSON, replies of servers, errors. Pure.
 */
import { domainToUnicode } from 'node:url'
import { toSuppressionKey } from '#features/setup/suppression-store/check.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

export interface Person {
  /** As `toSuppressionKey` gives it. */
  readonly addressKey: string
  /** Whether an address is theirs. */
  is(address: string): boolean
  /** Whether a text has the address in it, not as a part of another one. */
  isIn(text: string): boolean
  /** The same of a header, or of JSON of addresses: `r&d@x.test` names nobody called `d@x.test`. */
  isNamedIn(header: string): boolean
  /** The text with ERASED_ADDRESS wherever it has the address. JSON stays JSON. */
  eraseFrom(text: string): string
}

/** What an address goes on with to the left and to the right of what is looked for. In texts much of what a local part may have separates. */
const LEFT_IN_TEXT = /[\p{L}\p{N}_+-]\.?$/u
/** RFC 5322 atext, but for what stands before the address in return paths that others have rewritten (`prvs=123=ada@x.test`). */
const LEFT_IN_HEADER = /[\p{L}\p{N}!#$%&*+\-/?^_`{|}~]\.?$/u
/** `o'brien@x.test` is somebody else than `brien@x.test`, who may stand in quotes. */
const APOSTROPHE = /[\p{L}\p{N}]'$/u
const RIGHT = /^(?:[-_]+|\.)?[\p{L}\p{N}]/u
/** Escapes of JSON, and of a URL. */
const ESCAPE = /\\(?:[nrtbf]|u([0-9a-f]{4}))|%([0-9a-f]{2})/gi
/** As far as is looked. */
const CONTEXT_LENGTH = 12

/** Each escape as the character that it stands for; for the octets of what is beyond ASCII in a URL, any letter. */
const decodeEscapes = (text: string): string =>
  text.replace(ESCAPE, (_, unit: string | undefined, octet: string | undefined) => {
    if (octet !== undefined && octet >= '8') return 'x'
    const hex = unit ?? octet
    return hex === undefined ? '\n' : String.fromCharCode(Number.parseInt(hex, 16))
  })

/** Whether what is found somewhere is a whole address. */
function isWholeAddress(text: string, at: number, length: number, goesOnLeft: RegExp): boolean {
  const left = decodeEscapes(text.slice(Math.max(0, at - CONTEXT_LENGTH), at))
  const right = decodeEscapes(text.slice(at + length, at + length + CONTEXT_LENGTH))
  return !goesOnLeft.test(left) && !APOSTROPHE.test(left) && !RIGHT.test(right)
}

/** The person of an address key; undefined when that is no address. */
export function parsePerson(address: string): Person | undefined {
  if (parseMailbox(address).kind !== 'ok') return undefined
  const addressKey = toSuppressionKey(address)
  const forms = listForms(addressKey)
  const anywhere = new RegExp(forms.map(escapePattern).join('|'), 'giu')
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
      // What has nobody in it stays as it is spelled.
      return erased === composed ? text : erased
    },
  }
}

/** How the address may be written in a text, longest first: with either form of its domain, in needless quotes, in JSON, in a URL. */
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
    // Some escape the local part and leave the sign.
    encodeURIComponent(form).replace('%40', '@'),
  ])
  return [...new Set(all)].sort((a, b) => b.length - a.length)
}

const escapePattern = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')
