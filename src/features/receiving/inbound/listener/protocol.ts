/**
 * @module The messages between the main thread and the SMTP listener's Worker, and the limits on remote clients. Types
 * and constants only.
 */

import type { CompleteMessage, Rejection } from '#features/receiving/received/message.ts'
import { GiB, KiB, MiB, minutes, seconds } from '#platform/units.ts'

/** Limits that are not settings; only tests change them. */
export const LISTENER_LIMITS = {
  /** A client that sends before the greeting is refused; most that ignore the protocol do so within this time. */
  greetingDelayMs: 100,
  /**
   * Timeout for the client's next step towards a message (an accepted MAIL, RCPT or DATA, not NOOP or RSET), or for its
   * next octet. RFC 5321 §4.5.3.2.7 recommends 5 minutes, but then silent clients could hold every slot. Postfix uses
   * this value under stress.
   */
  idleMs: minutes(1),
  /** The same for a client that has logged in: RFC 5321 asks for it, and such clients keep connections for later. */
  loggedInIdleMs: minutes(5),
  /** Maximum time of a session without login. */
  sessionMs: minutes(30),
  /** Maximum time from the 354 to the final dot. */
  messageMs: minutes(10),
  /** Minimum average rate of a message after `slowGraceMs`. */
  minBytesPerSecond: KiB,
  slowGraceMs: seconds(30),
  /** Interval of the time limit checks. */
  sweepMs: seconds(1),
  /** Command line; RFC 5321 §4.5.3.1.4 requires 512, but long sender addresses need more. */
  commandLineBytes: 2 * KiB,
  /** Octets pipelined behind an unanswered command: 100 recipients with the longest names. */
  pipelinedBytes: 32 * KiB,
  /** The same after login, where chunks may follow each other without a reply (RFC 3030 §2). */
  pipelinedChunkBytes: 1 * MiB,
  /** Failed logins of a session. */
  failedLogins: 3,
  /** Commands since the last accepted message. */
  commands: 1_000,
  /** 5xx replies, other than to RCPT, since the last accepted message. */
  protocolErrors: 10,
  /** Permanently rejected recipients: a client with more is guessing names. */
  rejectedRecipients: 50,
  /** Up to this size a message is passed in memory, above it in a file. */
  inlineBytes: 256 * KiB,
  /** Memory for the arriving messages of all sessions; when it is full, small messages go to files too. */
  bufferBytes: 16 * MiB,
  /** Total size of the files of arriving messages. */
  spoolBytes: 2 * GiB,
}

export type ListenerLimits = Readonly<typeof LISTENER_LIMITS>

export interface Endpoint {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** Whether TLS begins with the first octet (RFC 8314 §3.3), without STARTTLS. */
  readonly isTlsImplicit: boolean
}

export interface Credentials {
  readonly username: string
  readonly password: string
}

export interface Login {
  readonly accountId: number
}

export interface SubmittedMessage extends Omit<CompleteMessage, 'destinations'> {
  /** Checked again, because the key may have been deleted since the login. */
  readonly password: string
  /** Of the envelope, each once. */
  readonly recipients: readonly string[]
}

/** What a listener for mail submission (RFC 6409) needs from the main thread. */
export interface SubmissionHandlers {
  logIn(credentials: Credentials, sourceIp: string): Promise<Login | Rejection>
  /** Resolves with the reply to the message: 250 only when its email is on disk. */
  submit(message: SubmittedMessage): Promise<Rejection>
}

export interface TrafficLimits {
  readonly maxMessageBytes: number
  readonly maxRecipients: number
  readonly maxConnections: number
  readonly maxConnectionsPerNetwork: number
  readonly maxMessagesPerMinute: number
  readonly maxBytesPerHour: number
}

export interface ListenerSettings extends TrafficLimits {
  readonly endpoints: readonly Endpoint[]
  /** Whether clients must log in and may then send to any address (RFC 6409). */
  readonly isSubmission: boolean
  readonly hostname: string
  readonly spoolFolder: string
  /** Free disk space that the files must not use; 0: not checked. */
  readonly minFreeBytes: number
  /** Prefix of file names, so that two Workers of a process never write the same file. */
  readonly filePrefix: string
  readonly certificate: Certificate
  readonly limits: ListenerLimits
  /** Whether the main thread logs client errors. */
  readonly logsDebug: boolean
}

/** PEM. */
export interface Certificate {
  /** Includes the intermediate certificates. */
  readonly cert: string
  readonly key: string
}

export type ToListener =
  | { readonly type: 'start'; readonly settings: ListenerSettings }
  | { readonly type: 'certificate'; readonly certificate: Certificate }
  /** To the question with this id: see `FromListener`. */
  | { readonly type: 'answer'; readonly id: number; readonly answer: unknown }
  /** Accept no new sessions; end those without a message in progress. */
  | { readonly type: 'drain' }
  | { readonly type: 'stop' }
  /** Answered by `pong`; a Worker that sends none is dead. */
  | { readonly type: 'ping' }

/** The main thread answers each question, by its id. */
export type Question =
  /** Answered with a `Destination` or `Rejection`. */
  | { readonly type: 'decide'; readonly id: number; readonly address: string; readonly sourceIp: string }
  /** Answered with a `Rejection`; null: the message is on disk. */
  | { readonly type: 'receive'; readonly id: number; readonly message: CompleteMessage }
  /** Answered with a `Login` or `Rejection`. */
  | { readonly type: 'logIn'; readonly id: number; readonly credentials: Credentials; readonly sourceIp: string }
  /** Answered with the reply. */
  | { readonly type: 'submit'; readonly id: number; readonly message: SubmittedMessage }

export type FromListener =
  | Question
  | { readonly type: 'listening'; readonly endpoints: readonly Endpoint[] }
  | {
      readonly type: 'failed'
      /** Index of the endpoint that cannot be used. */
      readonly endpoint: number
      readonly code: string
      readonly reason: string
    }
  | { readonly type: 'log'; readonly level: 'debug' | 'warn'; readonly event: string; readonly detail: string }
  | { readonly type: 'drained' }
  | { readonly type: 'stopped' }
  | { readonly type: 'pong'; readonly sessions: number }
