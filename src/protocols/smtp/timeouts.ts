/**
 * @module The timeouts of the SMTP client for each step (RFC 5321 §4.5.3.2), in milliseconds. Starts no timer itself.
 */

/** Milliseconds of silence after which the client closes the connection. */
export interface SmtpTimeouts {
  /** TCP connection establishment; RFC 5321 does not specify one. */
  readonly connectMs: number
  /** The 220 greeting (§4.5.3.2.1). */
  readonly greetingMs: number
  /** Replies to EHLO, HELO, STARTTLS and RSET. */
  readonly ehloMs: number
  /** The TLS handshake, from its first octet to the verified certificate. */
  readonly tlsHandshakeMs: number
  /** Each step of AUTH (RFC 4954 §4 requires at least 3 minutes of a server). */
  readonly authMs: number
  /** The reply to MAIL (§4.5.3.2.2). */
  readonly mailMs: number
  /** The reply to RCPT (§4.5.3.2.3). */
  readonly rcptMs: number
  /** The reply to DATA (§4.5.3.2.4). */
  readonly dataInitiationMs: number
  /** Until the peer accepts the next block of the message (§4.5.3.2.5). */
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
