/**
 * @module Formats the command lines of a transaction (RFC 5321 §4.1.1), and rejects locally what the server cannot
 * accept. Throws on addresses that could inject a command; validating addresses is the caller's task.
 */
import { toWireAddress } from '../address/parse.ts'
import { makeReply, type SmtpExtensions, type SmtpReply } from './replies.ts'

export interface SmtpEnvelope {
  /** The reverse-path without angle brackets; empty for the null sender. */
  readonly mailFrom: string
  readonly rcptTo: string
  /**
   * The message in pieces, which may begin and end anywhere: recipients of the same email share the pieces of its body.
   */
  readonly message: readonly Uint8Array[]
  /** The value for the SIZE parameter; if absent, the length of `message`. */
  readonly sizeBytes?: number
  /** Whether an address or a header of the message needs SMTPUTF8 (RFC 6531). */
  readonly smtpUtf8: boolean
  /** Whether the message has octets above 127. */
  readonly eightBit: boolean
}

/** Atoms and quoted strings, without control characters; outside of quotes also without spaces and angle brackets. */
const PATH = /^(?:"(?:[^"\\\x00-\x1f\x7f]|\\[\x20-\x7e])*"|[^\s<>"\x00-\x1f\x7f])*$/

/** Atoms, dots, hyphens and address literals: what may follow EHLO. */
const EHLO_NAME = /^[A-Za-z0-9._:[\]-]+$/

/** Formats `EHLO name` or `HELO name`. Throws on a name that is neither a domain nor an address literal. */
export function formatGreetingCommand(verb: 'EHLO' | 'HELO', name: string): string {
  if (!EHLO_NAME.test(name))
    throw new TypeError(`ehloName must be a domain or an address literal: ${JSON.stringify(name)}`)
  return `${verb} ${name}\r\n`
}

/**
 * Formats MAIL with the parameters that the server offers and the message needs: SIZE, BODY=8BITMIME, SMTPUTF8. For an
 * 8-bit message to a server without 8BITMIME, leaves the parameter out and sends the message nevertheless: nearly all
 * such servers pass 8-bit octets on, and a bounce would be worse for the sender.
 */
export function formatMailCommand(envelope: SmtpEnvelope, extensions: SmtpExtensions): string {
  let line = `MAIL FROM:<${validatePath('mailFrom', envelope.mailFrom, envelope.smtpUtf8)}>`
  if (extensions.size) line += ` SIZE=${sizeOf(envelope)}`
  if (extensions.eightBitMime && envelope.eightBit) line += ' BODY=8BITMIME'
  if (extensions.smtpUtf8 && envelope.smtpUtf8) line += ' SMTPUTF8'
  return `${line}\r\n`
}

export function formatRcptCommand(envelope: SmtpEnvelope): string {
  if (envelope.rcptTo === '') throw new TypeError('rcptTo is empty')
  return `RCPT TO:<${validatePath('rcptTo', toWireAddress(envelope.rcptTo), envelope.smtpUtf8)}>\r\n`
}

/**
 * Returns, without asking the server, the reply to a message that the server cannot accept: one above its SIZE limit
 * (552 5.3.4, RFC 1870 §6.1), or one that needs SMTPUTF8 when the server does not offer it (553 5.6.7, RFC 6531 §3.5).
 * Undefined: the message can be sent.
 */
export function rejectBeforeSending(envelope: SmtpEnvelope, extensions: SmtpExtensions): SmtpReply | undefined {
  const limit = extensions.sizeBytes ?? 0
  const sizeBytes = sizeOf(envelope)
  if (limit > 0 && sizeBytes > limit) {
    return makeReply(552, [
      `5.3.4 Not sent: the message has ${sizeBytes} bytes and the receiving server accepts at most ${limit}`,
    ])
  }
  if (envelope.smtpUtf8 && !extensions.smtpUtf8) {
    return makeReply(553, ['5.6.7 Not sent: the message needs SMTPUTF8, which the receiving server does not offer'])
  }
  return undefined
}

const sizeOf = (envelope: SmtpEnvelope): number => envelope.sizeBytes ?? countBytes(envelope.message)

export const countBytes = (pieces: readonly Uint8Array[]): number =>
  pieces.reduce((sum, piece) => sum + piece.byteLength, 0)

const ASCII = /^[\x00-\x7f]*$/

function validatePath(name: string, path: string, smtpUtf8: boolean): string {
  if (!smtpUtf8 && !ASCII.test(path)) throw new TypeError(`${name} needs SMTPUTF8: ${JSON.stringify(path)}`)
  if (!PATH.test(path))
    throw new TypeError(`${name} must be an address that is valid in a command: ${JSON.stringify(path)}`)
  return path
}
