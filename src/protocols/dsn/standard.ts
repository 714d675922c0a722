/** @module Reads a delivery status part (RFC 3464 §2, RFC 6533 §3), and tolerates missing or misspelt fields. */
import { type DsnRecipient, type Fields, parseFieldGroups } from './fields.ts'

export interface DeliveryStatus {
  readonly originalMessageId: string | undefined
  readonly recipients: readonly DsnRecipient[]
}

const MAX_RECIPIENTS = 100
export const MAX_DIAGNOSTIC_LENGTH = 2000
const MAX_NAME_LENGTH = 255
/** Maximum length of an address: that of a path (RFC 5321 §4.5.3.1), and room for escapes. */
const MAX_ADDRESS_LENGTH = 640

const RECIPIENT_FIELDS = ['final-recipient', 'original-recipient', 'action', 'status', 'diagnostic-code']
const GROUP_STARTERS = new Set(['final-recipient', 'original-recipient', 'action'])

/** Skips recipients that have neither a status nor an action that RFC 3464 defines. */
export function parseDeliveryStatus(text: string): DeliveryStatus {
  const groups = parseFieldGroups(text, MAX_RECIPIENTS + 1, GROUP_STARTERS)
  const first = groups[0]
  return {
    originalMessageId: first?.get('original-message-id') ?? first?.get('x-original-message-id'),
    recipients: groups
      .filter((group) => RECIPIENT_FIELDS.some((name) => group.has(name)))
      .flatMap((group) => parseRecipient(group) ?? [])
      .slice(0, MAX_RECIPIENTS),
  }
}

function parseRecipient(fields: Fields): DsnRecipient | undefined {
  const diagnostic = (
    removeType(fields.get('diagnostic-code')) ?? SUPPLEMENTARY_INFO.exec(fields.get('x-supplementary-info') ?? '')?.[1]
  )?.slice(0, MAX_DIAGNOSTIC_LENGTH)
  const status = findStatus(fields.get('status')) ?? findStatus(diagnostic)
  const action = parseAction(fields.get('action'), status)
  if (!action) return undefined
  return {
    action,
    finalRecipient: parseAddress(fields.get('final-recipient')),
    originalRecipient: parseAddress(fields.get('original-recipient')),
    status,
    diagnostic: diagnostic || null,
    remoteMta: parseName(fields.get('remote-mta')),
  }
}

/** `<mx.receiver.test #5.1.1 smtp; 550 5.1.1 User unknown>`, as Exchange and Cisco write it in place of a diagnostic. */
const SUPPLEMENTARY_INFO = /^<[^<>;]{0,300};[ \t]*([^<>].{0,4000}?)>?$/

/** Some servers write "failure", some add a comment, some omit the action. */
function parseAction(text: string | undefined, status: string | null): DsnRecipient['action'] | undefined {
  const word = /^[a-z]+/.exec(text?.trim().toLowerCase() ?? '')?.[0]
  switch (word) {
    case 'delayed':
    case 'delivered':
    case 'relayed':
    case 'expanded':
      return word
    case 'failed':
    case 'failure':
    case 'fail':
    case 'undeliverable':
      return status?.startsWith('2') ? 'none' : 'failed'
    case 'delay':
    case 'deferred':
      return 'delayed'
    // sendmail writes this action when it only verified the address; RFC 3464 does not define it.
    case 'deliverable':
      return 'none'
  }
  switch (status?.charAt(0)) {
    case '5':
      return 'failed'
    case '4':
      return 'delayed'
    case '2':
      return 'none'
  }
  return undefined
}

const STATUS = /(?<![\d.])[245]\.\d{1,3}\.\d{1,3}(?![.\d])/

/** Returns the first enhanced status code (RFC 3463 §2) in a text. */
export const findStatus = (text: string | undefined): string | null => STATUS.exec(text ?? '')?.[0] ?? null

/** Whether a status names no cause (RFC 3463 §3.1). */
export const isVagueStatus = (status: string | null): boolean => status === null || /^[245]\.0\.0$/.test(status)

/** Returns the part after the type, as in `dns; mx.example.net`; `x-unix` stays, because it names no reply of a server. */
const removeType = (text: string | undefined): string | undefined =>
  text?.replace(/^(?!x-unix)[a-z0-9-]{1,40}[ \t]*;[ \t]*/i, '').trim()

const parseName = (text: string | undefined): string | null => removeType(text)?.slice(0, MAX_NAME_LENGTH) || null

/** Decodes the address of a typed field; null: not an email address (X.400 and the like). */
function parseAddress(text: string | undefined): string | null {
  const type = /^([A-Za-z0-9-]{1,40})[ \t]*;/.exec(text ?? '')?.[1]?.toLowerCase()
  const address = removeType(text)?.replace(/^<|>$/g, '').trim() ?? ''
  if (!address.includes('@') || /\s/.test(address) || address.length > MAX_ADDRESS_LENGTH) return null
  return type === 'utf-8' ? decodeUtf8Address(address) : decodeXtext(address)
}

/** Decodes the three forms of RFC 6533 §3. Escapes that encode no character stay unchanged. */
const decodeUtf8Address = (address: string): string =>
  address.replace(/\\x\{([0-9A-Fa-f]{2,6})\}/g, (escaped, hex: string) => {
    const code = Number.parseInt(hex, 16)
    return code > 0x20 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? String.fromCodePoint(code) : escaped
  })

/**
 * RFC 3461 §4: only `+` and `=` must be escaped in an address, so only their escapes are decoded. Another escape could
 * be a tag: `bob+20`.
 */
const decodeXtext = (address: string): string => address.replaceAll('+2B', '+').replaceAll('+3D', '=')
