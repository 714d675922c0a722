/**
 * @module Recognises one address in what is stored: as an address in any spelling, and inside of texts: headers, JSON, replies of servers, errors. Pure.
 */
import { domainToUnicode } from 'node:url'
import { parseMailbox } from '#protocols/address/parse.ts'
import { ERASED_ADDRESS } from '../contacts/listed-form.ts'
import { suppressionKey } from '../suppressions/check.ts'

export interface Person {
  /** As `suppressionKey` gives it. */
  readonly addressKey: string
  /** Whether an address is theirs. */
  is(address: string): boolean
  /** Whether a text has the address in it, not as a part of another one. */
  isIn(text: string): boolean
  /** The text with ERASED_ADDRESS wherever it has the address. JSON stays JSON. */
  erasedFrom(text: string): string
}

/** What an address goes on with to the left and to the right of what is looked for. */
const CONTINUES_LEFT = /[\p{L}\p{N}._+-]$/u
const CONTINUES_RIGHT = /^(?:[\p{L}\p{N}_-]|\.[\p{L}\p{N}])/u
/** To the left: an escape of JSON, or of a URL, whose last letter is no letter of the address. */
const ESCAPE = /(?:\\[nrtbf]|\\u[0-9a-f]{4}|%[0-9a-f]{2})$/i
/** As far as an escape reaches. */
const BEFORE = 6
const BEHIND = 4

/** The person of an address key; undefined when that is no address. */
export function personOf(address: string): Person | undefined {
  if (parseMailbox(address).kind !== 'ok') return undefined
  const addressKey = suppressionKey(address)
  const forms = formsOf(addressKey)
  const anywhere = new RegExp(forms.map(escaped).join('|'), 'giu')
  const isWhole = (text: string, at: number, length: number): boolean => {
    const left = text.slice(Math.max(0, at - BEFORE), at)
    return (
      (!CONTINUES_LEFT.test(left) || ESCAPE.test(left)) &&
      !CONTINUES_RIGHT.test(text.slice(at + length, at + length + BEHIND))
    )
  }
  return {
    addressKey,
    is: (other) => suppressionKey(other) === addressKey,
    isIn: (text) => {
      const composed = text.normalize('NFC')
      for (const { index, 0: found } of composed.matchAll(anywhere))
        if (isWhole(composed, index, found.length)) return true
      return false
    },
    erasedFrom: (text) => {
      const composed = text.normalize('NFC')
      const erased = composed.replace(anywhere, (found, at: number) =>
        isWhole(composed, at, found.length) ? ERASED_ADDRESS : found,
      )
      // What has nobody in it stays as it is spelled.
      return erased === composed ? text : erased
    },
  }
}

/** How the address may be written in a text, longest first: with either form of its domain, in JSON, in a URL. */
function formsOf(addressKey: string): string[] {
  const at = addressKey.lastIndexOf('@')
  const local = addressKey.slice(0, at)
  const domain = addressKey.slice(at + 1)
  const plain = [domain, domainToUnicode(domain)].filter((name) => name !== '').map((name) => `${local}@${name}`)
  const all = plain.flatMap((form) => [
    form,
    JSON.stringify(form).slice(1, -1),
    encodeURIComponent(form),
    // Some escape the local part and leave the sign.
    encodeURIComponent(form).replace('%40', '@'),
  ])
  return [...new Set(all)].sort((a, b) => b.length - a.length)
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')
