/**
 * @module Parses the command lines of the SMTP listener: the command, and its arguments or why they are rejected. Pure;
 * `InboundSession` checks the order of commands.
 */
import { parseMailbox } from '#protocols/address/parse.ts'
import { type PathArguments, type PathResult, parsePath } from './path.ts'
import {
  createMissingValueReply,
  createTooLargeReply,
  createUnknownParameterReply,
  REPLIES,
  type Reply,
} from './replies.ts'

/** RFC 5321 §4.5.3.1.2: a domain has at most 255 octets; some clients send slightly more. */
const MAX_HELO_LENGTH = 300
const CONTROL_CHARACTER = /[\x00-\x1f\x7f-\x9f]/
/** Browsers send these on behalf of web pages; mail clients do not. */
const HTTP_REQUEST = /^(?:OPTIONS|GET|HEAD|POST|PUT|DELETE|TRACE|CONNECT) \/.* HTTP\/\d\.\d$/i

/** The command of a line in upper case; '' if the line is empty. */
export const parseCommand = (line: string): string => (line.split(' ', 1)[0] ?? '').toUpperCase()

export const isHttpRequest = (line: string): boolean => HTTP_REQUEST.test(line)

export const countArguments = (line: string): number => line.trim().split(/\s+/).length - 1

/** The name in HELO or EHLO in lower case, or why it is rejected; names of computers have blanks. */
export function parseHelo(command: 'HELO' | 'EHLO', line: string): string | Reply {
  const name = line.trim().split(/\s+/).slice(1).join(' ')
  if (name === '') return command === 'EHLO' ? REPLIES.ehloSyntax : REPLIES.heloSyntax
  if (name.length > MAX_HELO_LENGTH || CONTROL_CHARACTER.test(name)) return REPLIES.badHeloName
  return name.toLowerCase()
}

/** The path and parameters of MAIL, or why they are rejected; `checkMailParameters` checks the values. */
export function parseMail(line: string): PathArguments | Reply {
  const path = parsePath('MAIL', line)
  const rejection = checkPath(path, path.kind === 'ok' && path.parameters.has('SMTPUTF8'))
  if (rejection) return rejection
  if (path.kind !== 'ok') return REPLIES.badSender
  const valueless = ['BODY', 'SIZE'].find((name) => path.parameters.get(name) === true)
  return valueless === undefined ? path : createMissingValueReply(valueless)
}

/** Why parameters of MAIL are rejected; undefined: they are accepted. */
export function checkMailParameters({ parameters }: PathArguments, maxMessageBytes: number): Reply | undefined {
  const size = parameters.get('SIZE')
  if (typeof size === 'string') {
    // RFC 1870 §3.
    if (!/^\d{1,20}$/.test(size)) return REPLIES.badSize
    if (Number(size) > maxMessageBytes) return createTooLargeReply(maxMessageBytes)
  }
  const body = parameters.get('BODY')
  if (typeof body === 'string' && !/^(?:7BIT|8BITMIME)$/i.test(body)) return REPLIES.badBody
  if ((parameters.get('SMTPUTF8') ?? true) !== true) return REPLIES.badSmtpUtf8
  return undefined
}

/** The message size that MAIL declared (RFC 1870); 0: none. */
export function readAnnouncedBytes({ parameters }: PathArguments): number {
  const size = parameters.get('SIZE')
  return typeof size === 'string' ? Number(size) : 0
}

/** The address in RCPT, or why it is rejected. */
export function parseRcpt(line: string, hasSmtpUtf8: boolean): string | Reply {
  const path = parsePath('RCPT', line)
  const rejection = checkPath(path, hasSmtpUtf8)
  if (rejection) return rejection
  return path.kind === 'ok' ? path.address : REPLIES.badRecipient
}

/** A recipient that has no domain, such as `root`. */
const LOCAL_RECIPIENT = /^RCPT TO\s*:\s*<([^<>\s@]+)>/i

/** Like `parseRcpt`, for a message to any address: rejects those to which nothing can be sent. */
export function parseSubmittedRcpt(line: string, hasSmtpUtf8: boolean): string | Reply {
  const address = parseRcpt(line, hasSmtpUtf8)
  const text = address === REPLIES.badRecipient ? LOCAL_RECIPIENT.exec(line)?.[1] : address
  const mailbox = typeof text === 'string' ? parseMailbox(text) : undefined
  return mailbox?.kind === 'invalid' ? { code: 553, text: `5.1.3 ${mailbox.reason}` } : address
}

/** A part of a message (RFC 3030 §2). */
export interface ChunkArguments {
  readonly sizeBytes: number
  readonly isLast: boolean
}

/** The arguments of BDAT, or why they are rejected. */
export function parseBdat(line: string): ChunkArguments | Reply {
  const match = /^BDAT +(\d{1,15})( +LAST)? *$/i.exec(line)
  return match ? { sizeBytes: Number(match[1]), isLast: match[2] !== undefined } : REPLIES.bdatSyntax
}

function checkPath(path: PathResult, hasSmtpUtf8: boolean): Reply | undefined {
  if (path.kind === 'unknown parameter') return createUnknownParameterReply(path.name)
  // RFC 6531 §3.4.
  return path.kind === 'ok' && path.needsSmtpUtf8 && !hasSmtpUtf8 ? REPLIES.needsSmtpUtf8 : undefined
}
