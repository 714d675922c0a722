/**
 * @module The commands of an SMTP session and our replies to them, without state: the texts of replies, the arguments
 * of MAIL and RCPT (RFC 5321 §4.1.2, RFC 6531 §3.3) and of the other commands, and the AUTH exchange (RFC 4954: PLAIN,
 * RFC 4616, and LOGIN). Pure; `InboundSession` checks the order of commands, the main thread decides who may send or
 * receive.
 *
 * A text begins with its enhanced status code (RFC 3463), except where RFC 2034 §3 requires none: greeting, HELO, EHLO
 * and 3xx. Paths are parsed strictly about quoted local parts, invalid UTF-8 and unknown parameters; leniently about
 * common errors of real senders: dots at the edges of local parts, underscores in sender domains.
 */
import type { Rejection } from '#features/receiving/received/message.ts'
import { toALabels } from '#protocols/address/domain.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import type { Credentials } from './protocol.ts'

/** Any reply, including those that accept; it has the form of a rejection. */
export type Reply = Rejection

// Replies must not contain control characters, and a line end would split them. Some texts include client input.
const CONTROL_CHARACTERS = /[\x00-\x1f\x7f-\x9f]/g

/** Formats the lines of a reply for the socket. */
export const formatReply = (code: number, lines: readonly string[]): string =>
  lines
    .map((text, index) => `${code}${index < lines.length - 1 ? '-' : ' '}${text.replace(CONTROL_CHARACTERS, ' ')}\r\n`)
    .join('')

export const REPLIES = {
  mailAccepted: { code: 250, text: '2.1.0 Accepted' },
  recipientAccepted: { code: 250, text: '2.1.5 Accepted' },
  messageAccepted: { code: 250, text: '2.6.0 Message accepted' },
  startMessage: { code: 354, text: 'End data with <CR><LF>.<CR><LF>' },
  reset: { code: 250, text: '2.0.0 Flushed' },
  noop: { code: 250, text: '2.0.0 OK' },
  help: { code: 214, text: '2.0.0 See https://tools.ietf.org/html/rfc5321 for details' },
  notVerified: { code: 252, text: '2.1.5 Cannot VRFY user, but will accept message and attempt delivery' },
  bye: { code: 221, text: '2.0.0 Bye' },
  startTls: { code: 220, text: '2.0.0 Ready to start TLS' },
  loggedIn: { code: 235, text: '2.7.0 Authentication successful' },

  unknownCommand: { code: 500, text: '5.5.2 Error: command not recognized' },
  lineTooLong: { code: 500, text: '5.5.2 Line too long' },
  ehloSyntax: { code: 501, text: 'Error: syntax: EHLO hostname' },
  heloSyntax: { code: 501, text: 'Error: Syntax: HELO hostname' },
  badHeloName: { code: 501, text: 'Error: Bad hostname syntax' },
  vrfySyntax: { code: 501, text: '5.5.4 Error: Syntax: VRFY address' },
  startTlsSyntax: { code: 501, text: '5.5.4 Error: syntax: STARTTLS' },
  authSyntax: { code: 501, text: '5.5.4 Error: Syntax: AUTH PLAIN or AUTH LOGIN' },
  badBase64: { code: 501, text: '5.5.2 Cannot decode the credentials; they must be base64 as in RFC 4616' },
  authAborted: { code: 501, text: '5.7.0 Authentication aborted' },
  unknownMechanism: { code: 504, text: '5.5.4 Unknown authentication mechanism; use PLAIN or LOGIN' },
  bdatSyntax: { code: 501, text: '5.5.4 Error: Syntax: BDAT size [LAST]' },
  badSender: { code: 501, text: '5.1.7 Error: Bad sender address syntax' },
  badRecipient: { code: 501, text: '5.1.3 Error: Bad recipient address syntax' },
  badSize: { code: 501, text: '5.5.4 Error: Bad message size syntax' },
  badBody: { code: 501, text: '5.5.4 Invalid BODY parameter value. Must be 7BIT or 8BITMIME' },
  badSmtpUtf8: { code: 501, text: '5.5.4 Invalid SMTPUTF8 parameter. This flag does not accept a value' },
  needsSmtpUtf8: { code: 553, text: '5.6.7 Non-ASCII address requires SMTPUTF8' },

  needsHelo: { code: 503, text: '5.5.1 Error: send HELO/EHLO first' },
  needsMail: { code: 503, text: '5.5.1 Error: need MAIL command' },
  needsRecipient: { code: 503, text: '5.5.1 Error: need RCPT command' },
  nestedMail: { code: 503, text: '5.5.1 Error: nested MAIL command' },
  alreadyTls: { code: 503, text: '5.5.1 Error: TLS already active' },
  needsTls: { code: 530, text: '5.7.0 Must issue a STARTTLS command first' },
  needsTlsToLogIn: { code: 538, text: '5.7.11 Encryption required for authentication; issue STARTTLS first' },
  needsLogin: {
    code: 530,
    text: '5.7.0 Authentication required; the password is an API key, the user name can be anything',
  },
  alreadyLoggedIn: { code: 503, text: '5.5.1 Error: already authenticated' },
  authInTransaction: { code: 503, text: '5.5.1 Error: AUTH is not permitted during a mail transaction' },
  chunksBegun: { code: 503, text: '5.5.1 Error: the message has begun with BDAT; continue it or send RSET' },
  noValidRecipient: { code: 554, text: '5.5.1 No valid recipients' },
  tooManyRecipients: { code: 452, text: '4.5.3 Error: too many recipients' },
  tooMuchPipelined: { code: 554, text: '5.5.0 Too much pipelined data' },
  farTooLarge: { code: 552, text: '5.3.4 Message size exceeds limit' },

  messageRate: { code: 451, text: '4.7.1 Message rate limit exceeded; try again later' },
  byteRate: { code: 451, text: '4.7.1 Byte rate limit exceeded; try again later' },
  noSpace: { code: 452, text: '4.3.1 Insufficient system storage; try again later' },
  notStored: { code: 451, text: '4.3.0 Local error in processing; try again later' },
  internalError: { code: 451, text: '4.3.0 Error: internal server error' },

  stopping: { code: 421, text: '4.3.2 Service shutting down' },
  httpRequest: { code: 421, text: '4.4.2 HTTP requests not allowed' },
  idle: { code: 421, text: '4.4.2 Idle timeout' },
  tooSlow: { code: 421, text: '4.4.2 Data rate too low' },
  sessionTooLong: { code: 421, text: '4.4.2 Session time limit exceeded' },
  evicted: { code: 421, text: '4.7.0 Too many connections, slowest one closed; try again later' },
  tooManyConnections: { code: 421, text: '4.7.0 Too many connections; try again later' },
  tooManyOfNetwork: { code: 421, text: '4.7.0 Too many connections from your address; try again later' },
  tooManyCommands: { code: 421, text: '4.7.0 Too many commands' },
  tooManyErrors: { code: 421, text: '4.7.0 Too many errors' },
  tooManyOfAccount: { code: 421, text: '4.7.0 Too many connections of this account; close some, or reuse them' },
  tooManyLogins: { code: 421, text: '4.7.0 Too many failed logins in one session' },
  tooManyRejectedRecipients: { code: 421, text: '4.7.0 Too many unknown recipients' },
} as const satisfies Record<string, Reply>

/** For a chunk of a message that is not its last (RFC 3030 §2). */
export const createChunkReply = (bytes: number): Reply => ({ code: 250, text: `2.0.0 ${bytes} octets received` })

/** For a message above the limit. */
export const createTooLargeReply = (maxBytes: number): Reply => ({
  code: 552,
  text: `5.3.4 Error: message exceeds fixed maximum message size ${maxBytes}`,
})

/** For a client that sends a command before the greeting. Replies to HELO and EHLO have no enhanced code. */
export const createEarlyTalkerReply = (hostname: string, command: string): Reply => ({
  code: 421,
  text: `${/^(?:HELO|EHLO)$/.test(command) ? '' : '4.4.2 '}${hostname} You talk too soon`,
})

interface PathArguments {
  /** `''`: the null reverse-path. The domain in A-labels. */
  readonly address: string
  /** Upper-case keyword -> value; true: no value. */
  readonly parameters: ReadonlyMap<string, string | true>
  /** Whether the address needs SMTPUTF8. */
  readonly needsSmtpUtf8: boolean
}

/**
 * RFC 5321 §4.5.3.1.3: a path of 256 octets, without its angle brackets. Local parts have no limit of their own: those
 * of envelope senders that contain another address are often longer than 64 octets.
 */
const MAX_ADDRESS_OCTETS = 254
/** AUTH (RFC 4954 §5) means nothing to a server that trusts no client, but some clients send it unasked. */
const MAIL_PARAMETERS: ReadonlySet<string> = new Set(['SIZE', 'BODY', 'SMTPUTF8', 'AUTH'])
const RCPT_PARAMETERS: ReadonlySet<string> = new Set()

const ASCII_ONLY = /^[\0-\x7f]*$/
// C0, DEL, C1, line ends and other invisible Unicode characters, and the replacement character for invalid UTF-8.
const NEVER_IN_ADDRESS = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\ufffd]/u
const NEVER_UNQUOTED = /[\p{Z}()<>[\]\\,;:"@]/u
const DOMAIN = /^[A-Za-z0-9_\-\u0080-\u{10ffff}]+(?:\.[A-Za-z0-9_\-\u0080-\u{10ffff}]+)*$/u
const LITERAL = /^\[[\x21-\x5a\x5e-\x7e]+\]$/
const KEYWORD = /^[A-Za-z0-9][A-Za-z0-9-]*$/
const VALUE = /^[\x21-\x3c\x3e-\x7e\u0080-\u{10ffff}]+$/u
/** RFC 5321 §4.1.2 At-domain list of a source route: accepted and ignored (appendix C). */
const SOURCE_ROUTE = /^@[^\s,:@<>]+(?:,@[^\s,:@<>]+)*:/

/** Up to the `>` that closes it, respecting quotes. */
const PATH = /^([^">]*(?:"[^"\\]*(?:\\[\s\S][^"\\]*)*"[^">]*)*)>/

/** Reads `MAIL FROM:<…> …` or `RCPT TO:<…> …`; returns why it is rejected. Never throws. */
export function parsePath(command: 'MAIL' | 'RCPT', line: string): PathArguments | Reply {
  const syntax = command === 'MAIL' ? REPLIES.badSender : REPLIES.badRecipient
  const start = (command === 'MAIL' ? /^MAIL FROM\s*:\s*</i : /^RCPT TO\s*:\s*</i).exec(line)
  if (!start) return syntax
  const afterBracket = line.slice(start[0].length)
  const [bracketed, path = ''] = PATH.exec(afterBracket) ?? []
  if (bracketed === undefined) return syntax
  const address = parseAddress(path.replace(SOURCE_ROUTE, ''), command)
  if (address === undefined) return syntax

  const parameterText = afterBracket.slice(bracketed.length)
  if (parameterText !== '' && !/^\s/.test(parameterText)) return syntax
  const parameters = new Map<string, string | true>()
  for (const text of parameterText.split(/\s+/).filter(Boolean)) {
    const [name = '', ...rest] = text.split('=')
    const key = name.toUpperCase()
    if (!KEYWORD.test(name)) return syntax
    if (!(command === 'MAIL' ? MAIL_PARAMETERS : RCPT_PARAMETERS).has(key))
      return { code: 555, text: `5.5.4 Unsupported parameter ${key}` }
    const value = rest.length === 0 ? true : rest.join('=')
    if (parameters.has(key) || (value !== true && !VALUE.test(value))) return syntax
    parameters.set(key, value)
  }
  return { address, parameters, needsSmtpUtf8: !ASCII_ONLY.test(address) }
}

function parseAddress(text: string, command: 'MAIL' | 'RCPT'): string | undefined {
  if (text === '') return command === 'MAIL' ? '' : undefined
  // RFC 5321 §4.1.1.3: only this recipient may lack a domain.
  if (command === 'RCPT' && text.toLowerCase() === 'postmaster') return text
  if (NEVER_IN_ADDRESS.test(text)) return undefined
  const at = text.lastIndexOf('@')
  const localPart = text.slice(0, at)
  if (at < 1 || !isLocalPart(localPart)) return undefined
  const domain = parseDomain(text.slice(at + 1))
  if (domain === undefined) return undefined
  const address = `${localPart}@${domain}`
  return Buffer.byteLength(address) > MAX_ADDRESS_OCTETS ? undefined : address
}

const isLocalPart = (text: string): boolean =>
  text.startsWith('"') ? /^"(?:[^"\\]|\\.)*"$/u.test(text) : !NEVER_UNQUOTED.test(text)

function parseDomain(text: string): string | undefined {
  if (text.startsWith('[')) return LITERAL.test(text) ? text : undefined
  return DOMAIN.test(text) ? toALabels(text) : undefined
}

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

/** What MAIL says of the message that follows. */
export interface MailTransaction {
  readonly mailFrom: string
  readonly hasSmtpUtf8: boolean
}

/** The arguments of MAIL, or why they are rejected. */
export function parseMail(line: string, maxMessageBytes: number): MailTransaction | Reply {
  const path = parsePath('MAIL', line)
  if ('code' in path) return path
  const { address: mailFrom, parameters } = path
  const hasSmtpUtf8 = parameters.has('SMTPUTF8')
  // RFC 6531 §3.4.
  if (path.needsSmtpUtf8 && !hasSmtpUtf8) return REPLIES.needsSmtpUtf8
  const valueless = ['BODY', 'SIZE'].find((name) => parameters.get(name) === true)
  if (valueless !== undefined) return { code: 501, text: `5.5.4 Error: ${valueless} parameter requires a value` }
  const size = String(parameters.get('SIZE') ?? 0)
  // RFC 1870 §3.
  if (!/^\d{1,20}$/.test(size)) return REPLIES.badSize
  if (Number(size) > maxMessageBytes) return createTooLargeReply(maxMessageBytes)
  if (!/^(?:7BIT|8BITMIME)$/i.test(String(parameters.get('BODY') ?? '7BIT'))) return REPLIES.badBody
  if ((parameters.get('SMTPUTF8') ?? true) !== true) return REPLIES.badSmtpUtf8
  return { mailFrom, hasSmtpUtf8 }
}

/** The address in RCPT, or why it is rejected. */
export function parseRcpt(line: string, hasSmtpUtf8: boolean): string | Reply {
  const path = parsePath('RCPT', line)
  if ('code' in path) return path
  return path.needsSmtpUtf8 && !hasSmtpUtf8 ? REPLIES.needsSmtpUtf8 : path.address
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

export type AuthStep =
  /** The client is asked for more: a 334 with this text. */
  | { readonly kind: 'challenge'; readonly text: string }
  | { readonly kind: 'credentials'; readonly credentials: Credentials }
  | { readonly kind: 'rejected'; readonly reply: Reply }

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

export class AuthExchange {
  readonly #mechanism: 'PLAIN' | 'LOGIN'
  /** Of LOGIN, once the client sent it. */
  #username: string | undefined

  private constructor(mechanism: 'PLAIN' | 'LOGIN') {
    this.#mechanism = mechanism
  }

  /** Begins with the line `AUTH mechanism [initial-response]`. */
  static begin(line: string): { readonly exchange: AuthExchange; readonly step: AuthStep } | Reply {
    const [, mechanism = '', initial, ...others] = line.trim().split(/\s+/)
    if (mechanism === '' || others.length > 0) return REPLIES.authSyntax
    const name = mechanism.toUpperCase()
    if (name !== 'PLAIN' && name !== 'LOGIN') return REPLIES.unknownMechanism
    const exchange = new AuthExchange(name)
    return { exchange, step: initial === undefined ? exchange.#ask() : exchange.read(initial) }
  }

  read(line: string): AuthStep {
    if (line === '*') return { kind: 'rejected', reply: REPLIES.authAborted }
    // RFC 4954 §4: an empty initial response is a single "=".
    const text = line === '=' ? '' : decode(line)
    if (text === undefined) return { kind: 'rejected', reply: REPLIES.badBase64 }
    if (this.#mechanism === 'PLAIN') return readPlain(text)
    if (this.#username === undefined) {
      this.#username = text
      return this.#ask()
    }
    return { kind: 'credentials', credentials: { username: this.#username, password: text } }
  }

  #ask(): AuthStep {
    if (this.#mechanism === 'PLAIN') return { kind: 'challenge', text: '' }
    const prompt = this.#username === undefined ? 'Username:' : 'Password:'
    return { kind: 'challenge', text: Buffer.from(prompt).toString('base64') }
  }
}

/** RFC 4616 §2: authorisation identity, NUL, user name, NUL, password. */
function readPlain(text: string): AuthStep {
  const [, username, password, ...others] = text.split('\0')
  if (username === undefined || password === undefined || others.length > 0)
    return { kind: 'rejected', reply: REPLIES.badBase64 }
  return { kind: 'credentials', credentials: { username, password } }
}

const decode = (text: string): string | undefined =>
  BASE64.test(text) && text.length % 4 === 0 ? Buffer.from(text, 'base64').toString('utf8') : undefined
