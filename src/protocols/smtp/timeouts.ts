/** @module The timeouts of the SMTP client for each step (RFC 5321 §4.5.3.2), and the phases that are measured. */

/** Timeouts in milliseconds. When the server has been silent for so long, the client closes the connection. */
export interface SmtpTimeouts {
  /** Establishing the TCP connection; RFC 5321 specifies no timeout for this. */
  readonly connectMs: number
  /** The 220 greeting (§4.5.3.2.1). */
  readonly greetingMs: number
  /** Replies to EHLO, HELO, STARTTLS and RSET. */
  readonly ehloMs: number
  /** The TLS handshake, from its first octet to the verified certificate. */
  readonly tlsHandshakeMs: number
  /** Each step of AUTH (RFC 4954 §4 requires a server to wait at least 3 minutes). */
  readonly authMs: number
  /** The reply to MAIL (§4.5.3.2.2). */
  readonly mailMs: number
  /** The reply to RCPT (§4.5.3.2.3). */
  readonly rcptMs: number
  /** The reply to DATA (§4.5.3.2.4). */
  readonly dataInitiationMs: number
  /** Waiting until the peer accepts the next block of the message (§4.5.3.2.5). */
  readonly dataBlockMs: number
  /** The reply to the final dot (§4.5.3.2.6); a shorter timeout causes duplicates. */
  readonly finalDotMs: number
  /** The reply to QUIT; no result depends on it. */
  readonly quitMs: number
}

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS

export const DEFAULT_SMTP_TIMEOUTS: SmtpTimeouts = {
  connectMs: 30 * SECOND_MS,
  greetingMs: 5 * MINUTE_MS,
  ehloMs: 5 * MINUTE_MS,
  tlsHandshakeMs: MINUTE_MS,
  authMs: 3 * MINUTE_MS,
  mailMs: 5 * MINUTE_MS,
  rcptMs: 5 * MINUTE_MS,
  dataInitiationMs: 2 * MINUTE_MS,
  dataBlockMs: 3 * MINUTE_MS,
  finalDotMs: 10 * MINUTE_MS,
  quitMs: 5 * SECOND_MS,
}

/**
 * `connect`: TCP. `greeting`: until the 220. `ehlo`: EHLO or HELO, before and after TLS. `tls`: STARTTLS and handshake.
 * `mail` (with RSET), `rcpt`, `data`: until the reply to the command. `begin`: until `beforeBody` has resolved. `body`:
 * from the first octet of the message to the reply to the final dot.
 */
export type SmtpTimedPhase =
  | 'connect'
  | 'greeting'
  | 'ehlo'
  | 'tls'
  | 'auth'
  | 'mail'
  | 'rcpt'
  | 'data'
  | 'begin'
  | 'body'

/** Called at the end of each phase, whether it succeeded or not. */
export type OnPhaseEnd = (phase: SmtpTimedPhase) => void
