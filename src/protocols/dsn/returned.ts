/** @module What the returned message, or its headers, say of the email that a report is about. */
import { fieldGroups } from './fields.ts'
import type { DeliveryReport } from './report.ts'

export type Returned = Pick<DeliveryReport, 'originalMessageId' | 'originalReturnPath'>

export const nothingReturned: Returned = { originalMessageId: null, originalReturnPath: null }

const MOST_CHARACTERS = 128 * 1024
const MOST_ADDRESS_CHARACTERS = 320

const RETURN_PATHS = ['return-path', 'x-return-path', 'x-envelope-from', 'x-original-return-path']
/** Exim and others note it in Received. */
const ENVELOPE_FROM = /envelope-(?:from|sender)[ =<]{1,3}([^\s<>();]{3,320})/i

/** Reads the first header block of a text; what follows it is the body. */
export function returnedOf(text: string): Returned {
  const head = text.slice(0, MOST_CHARACTERS)
  const [fields] = fieldGroups(head, 1)
  if (!fields) return nothingReturned
  const returnPath = RETURN_PATHS.map((name) => addressIn(fields.get(name))).find((address) => address !== undefined)
  return {
    originalMessageId: messageIdIn(fields.get('message-id')),
    originalReturnPath: returnPath ?? ENVELOPE_FROM.exec(head)?.[1] ?? null,
  }
}

/** The first Message-ID of a header value, with angle brackets; null: there is none. RFC 5322 §3.6.4. */
export const messageIdIn = (value: string | undefined): string | null =>
  /<[^<>\s]{1,500}>/.exec(value?.slice(0, MOST_ADDRESS_CHARACTERS * 4) ?? '')?.[0] ?? null

const addressIn = (value: string | undefined): string | undefined =>
  /[^\s<>,;:()"]{1,64}@[^\s<>,;:()"]{1,255}/.exec(value?.slice(0, MOST_ADDRESS_CHARACTERS * 4) ?? '')?.[0]
