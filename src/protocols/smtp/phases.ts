/** @module The phases of a session and of a transaction whose durations are measured. Types only. */

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
