/** @module The Message-ID of an email. Pure. */
import { formatUuid } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'

/** The Message-ID of an email, with angle brackets; derived, so that it costs no column. RFC 5322 §3.6.4. */
export const messageIdOf = (uuid: Uint8Array, from: string): string => `<${formatUuid(uuid)}@${domainOfMailbox(from)}>`
