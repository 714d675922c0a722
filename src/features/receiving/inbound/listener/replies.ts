/**
 * @module The SMTP listener's replies that do not depend on the database, and the format of replies. A text begins with
 * its enhanced status code (RFC 3463), except where RFC 2034 §3 requires none: greeting, HELO, EHLO and 3xx.
 */
import type { Rejection } from '#features/receiving/received/message.ts'
import { MiB } from '#platform/units.ts'

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
  tooManyUnknownCommands: { code: 421, text: '4.4.2 Error: too many unrecognized commands' },
  tooManyRejectedRecipients: { code: 421, text: '4.7.0 Too many unknown recipients' },
} as const satisfies Record<string, Reply>

/** For a chunk of a message that is not its last (RFC 3030 §2). */
export const createChunkReply = (bytes: number): Reply => ({ code: 250, text: `2.0.0 ${bytes} octets received` })

/** For a message above the limit for all recipients. */
export const createTooLargeReply = (maxBytes: number): Reply => ({
  code: 552,
  text: `5.3.4 Error: message exceeds fixed maximum message size ${maxBytes}`,
})

/** For a message above the limit for this host's own addresses. */
export const createTooLargeForHostReply = (maxBytes: number): Reply => ({
  code: 552,
  text: `5.3.4 Message size exceeds the limit of ${Math.floor(maxBytes / MiB)} MiB for this recipient`,
})

export const createUnknownParameterReply = (name: string): Reply => ({
  code: 555,
  text: `5.5.4 Unsupported parameter ${name}`,
})

export const createMissingValueReply = (name: string): Reply => ({
  code: 501,
  text: `5.5.4 Error: ${name} parameter requires a value`,
})

/** For a client that sends a command before the greeting. Replies to HELO and EHLO have no enhanced code. */
export const createEarlyTalkerReply = (hostname: string, command: string): Reply => ({
  code: 421,
  text: `${/^(?:HELO|EHLO)$/.test(command) ? '' : '4.4.2 '}${hostname} You talk too soon`,
})
