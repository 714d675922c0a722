/** @module Reads the Message-ID and the return path of the original email from the returned message or its headers. */
import { parseFieldGroups } from './fields.ts'
import type { Dsn } from './report.ts'

export type ReturnedEmail = Pick<Dsn, 'originalMessageId' | 'originalReturnPath'>

export const NOTHING_RETURNED: ReturnedEmail = { originalMessageId: null, originalReturnPath: null }

const MAX_HEADER_LENGTH = 128 * 1024
const MAX_ADDRESS_LENGTH = 320

const RETURN_PATHS = ['return-path', 'x-return-path', 'x-envelope-from', 'x-original-return-path']
/** Exim and other servers record the return path in Received. */
const ENVELOPE_FROM = /envelope-(?:from|sender)[ =<]{1,3}([^\s<>();]{3,320})/i

/** Reads the first header block of a text; the text goes on with the body, which is not read. */
export function parseReturned(text: string): ReturnedEmail {
  const head = text.slice(0, MAX_HEADER_LENGTH)
  const [fields] = parseFieldGroups(head, 1)
  if (!fields) return NOTHING_RETURNED
  const returnPath = RETURN_PATHS.map((name) => findAddress(fields.get(name))).find((address) => address !== undefined)
  return {
    originalMessageId: findMessageId(fields.get('message-id')),
    originalReturnPath: returnPath ?? ENVELOPE_FROM.exec(head)?.[1] ?? null,
  }
}

/** Returns the first Message-ID in a header value, with angle brackets; null: none. RFC 5322 §3.6.4. */
export const findMessageId = (value: string | undefined): string | null =>
  /<[^<>\s]{1,500}>/.exec(value?.slice(0, MAX_ADDRESS_LENGTH * 4) ?? '')?.[0] ?? null

const findAddress = (value: string | undefined): string | undefined =>
  /[^\s<>,;:()"]{1,64}@[^\s<>,;:()"]{1,255}/.exec(value?.slice(0, MAX_ADDRESS_LENGTH * 4) ?? '')?.[0]
