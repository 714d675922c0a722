/**
 * @module The replies of the SMTP listener that do not depend on the database, and how a reply is written. A text
 * begins with its enhanced status code (RFC 3463), except where RFC 2034 §3 wants none: greeting, HELO, EHLO and 3xx.
 */
import type { Rejection } from '#features/receiving/received/message.ts'
import { MiB } from '#platform/units.ts'

/** The same form as a refusal; also for replies that accept. */
export type Reply = Rejection

// Control characters have no use in a reply, and a line end would split it. Some texts contain what the client sent.
const CONTROL_CHARACTERS = /[\x00-\x1f\x7f-\x9f]/g

/** The lines of a reply, ready to be sent. */
export const formatReply = (code: number, lines: readonly string[]): string =>
  lines
    .map((text, index) => `${code}${index < lines.length - 1 ? '-' : ' '}${text.replace(CONTROL_CHARACTERS, ' ')}\r\n`)
    .join('')

export const REPLIES = {
  mailAccepted: { code: 250, text: '2.1.0 Accepted' },
  recipientAccepted: { code: 250, text: '2.1.5 Accepted' },
  messageAccepted: { code: 250, text: '2.6.0 The message is taken in' },
  startMessage: { code: 354, text: 'End data with <CR><LF>.<CR><LF>' },
  reset: { code: 250, text: '2.0.0 Flushed' },
  noop: { code: 250, text: '2.0.0 OK' },
  help: { code: 214, text: '2.0.0 See https://tools.ietf.org/html/rfc5321 for details' },
  notVerified: { code: 252, text: '2.1.5 Try to send something. No promises though' },
  bye: { code: 221, text: '2.0.0 Bye' },
  startTls: { code: 220, text: '2.0.0 Ready to start TLS' },

  unknownCommand: { code: 500, text: '5.5.2 Error: command not recognized' },
  lineTooLong: { code: 500, text: '5.5.2 The command line is too long' },
  ehloSyntax: { code: 501, text: 'Error: syntax: EHLO hostname' },
  heloSyntax: { code: 501, text: 'Error: Syntax: HELO hostname' },
  badHeloName: { code: 501, text: 'Error: Bad hostname syntax' },
  vrfySyntax: { code: 501, text: '5.5.4 Error: Syntax: VRFY address' },
  startTlsSyntax: { code: 501, text: '5.5.4 Error: syntax: STARTTLS' },
  badSender: { code: 501, text: '5.1.7 Error: Bad sender address syntax' },
  badRecipient: { code: 501, text: '5.1.3 Error: Bad recipient address syntax' },
  badSize: { code: 501, text: '5.5.4 Error: Bad message size syntax' },
  badBody: { code: 501, text: '5.5.4 Invalid BODY parameter value. Must be 7BIT or 8BITMIME' },
  badSmtpUtf8: { code: 501, text: '5.5.4 Invalid SMTPUTF8 parameter. This flag does not accept a value' },
  needsSmtpUtf8: { code: 553, text: '5.6.7 An address that is not ASCII needs SMTPUTF8' },

  needsHelo: { code: 503, text: '5.5.1 Error: send HELO/EHLO first' },
  needsMail: { code: 503, text: '5.5.1 Error: need MAIL command' },
  needsRecipient: { code: 503, text: '5.5.1 Error: need RCPT command' },
  nestedMail: { code: 503, text: '5.5.1 Error: nested MAIL command' },
  alreadyTls: { code: 503, text: '5.5.1 Error: TLS already active' },
  noValidRecipient: { code: 554, text: '5.5.1 There is no valid recipient' },
  tooManyRecipients: { code: 452, text: '4.5.3 Error: too many recipients' },
  tooMuchPipelined: { code: 554, text: '5.5.0 Too much was said without waiting for replies' },
  farTooLarge: { code: 552, text: '5.3.4 The message is far too large' },

  messageRate: { code: 451, text: '4.7.1 Too many messages from your address; try again later' },
  byteRate: { code: 451, text: '4.7.1 Too much mail from your address; try again later' },
  noSpace: { code: 452, text: '4.3.1 There is no room for the message; try again later' },
  notStored: { code: 451, text: '4.3.0 The message could not be taken in; try again later' },
  internalError: { code: 451, text: '4.3.0 Error: internal server error' },

  stopping: { code: 421, text: '4.3.2 The service is stopping' },
  httpRequest: { code: 421, text: '4.4.2 HTTP requests not allowed' },
  idle: { code: 421, text: '4.4.2 No mail has come for too long' },
  tooSlow: { code: 421, text: '4.4.2 The message comes too slowly' },
  sessionTooLong: { code: 421, text: '4.4.2 The session has lasted too long' },
  evicted: { code: 421, text: '4.7.0 Too many connections, of which this one was the slowest; try again later' },
  tooManyConnections: { code: 421, text: '4.7.0 Too many connections; try again later' },
  tooManyOfNetwork: { code: 421, text: '4.7.0 Too many connections from your address; try again later' },
  tooManyCommands: { code: 421, text: '4.7.0 Too many commands in one session' },
  tooManyErrors: { code: 421, text: '4.7.0 Too many mistakes in one session' },
  tooManyUnknownCommands: { code: 421, text: '4.4.2 Error: too many unrecognized commands' },
  tooManyRejectedRecipients: { code: 421, text: '4.7.0 Too many unknown recipients in one session' },
} as const satisfies Record<string, Reply>

/** For a message beyond the largest that anybody here accepts. */
export const createTooLargeReply = (maxBytes: number): Reply => ({
  code: 552,
  text: `5.3.4 Error: message exceeds fixed maximum message size ${maxBytes}`,
})

/** For a message beyond what this host itself accepts. */
export const createTooLargeForHostReply = (maxBytes: number): Reply => ({
  code: 552,
  text: `5.3.4 A message to this address may have ${Math.floor(maxBytes / MiB)} MiB at most`,
})

export const createUnknownParameterReply = (name: string): Reply => ({
  code: 555,
  text: `5.5.4 The parameter ${name} is not known here`,
})

export const createMissingValueReply = (name: string): Reply => ({
  code: 501,
  text: `5.5.4 Error: ${name} parameter requires a value`,
})

/** For a client that sends a command before the greeting. A reply to HELO or EHLO has no enhanced code. */
export const createEarlyTalkerReply = (hostname: string, command: string): Reply => ({
  code: 421,
  text: `${/^(?:HELO|EHLO)$/.test(command) ? '' : '4.4.2 '}${hostname} You talk too soon`,
})
