/**
 * @module The messages between the main thread and the SMTP listener's Worker, and the limits on remote clients. Types
 * and constants only.
 */

import type { CompleteMessage, Destination, Rejection } from '#features/receiving/received/message.ts'
import { GiB, KiB, MiB, minutes, seconds } from '#platform/units.ts'

/** Limits that are not settings; only tests change them. */
export interface ListenerLimits {
  /**
   * Timeout for the client's next step towards a message (an accepted MAIL, RCPT or DATA, not NOOP or RSET), or for its
   * next octet. RFC 5321 §4.5.3.2.7 recommends 5 minutes, but then silent clients could hold every slot. Postfix uses
   * this value under stress.
   */
  readonly idleMs: number
  readonly sessionMs: number
  /** Maximum time from the 354 to the final dot. */
  readonly messageMs: number
  /** Minimum average rate of a message after `slowGraceMs`. */
  readonly minBytesPerSecond: number
  readonly slowGraceMs: number
  /** Interval of the time limit checks. */
  readonly sweepMs: number
  /**
   * Maximum command line; RFC 5321 §4.5.3.1.4 requires 512, our extensions add less than 100, but long sender addresses
   * need more.
   */
  readonly commandLineBytes: number
  /**
   * Octets that may be pipelined behind an unanswered command: 100 recipients with the longest names, or 700 usual
   * ones.
   */
  readonly pipelinedBytes: number
  /** Commands since the last accepted message. */
  readonly commands: number
  /** 5xx replies, other than to RCPT, since the last accepted message. */
  readonly protocolErrors: number
  /** Permanently rejected recipients: a client with more is guessing names. */
  readonly rejectedRecipients: number
  /**
   * Maximum size of a message without a tenant's recipient: a bounce, complaint, unsubscribe request or report. DMARC
   * reports may have 10 MiB; nothing larger is expected.
   */
  readonly hostMessageBytes: number
  /** Up to this size a message is passed in memory, above it in a file. */
  readonly inlineBytes: number
  /** Memory for the arriving messages of all sessions; when it is full, small messages go to files too. */
  readonly bufferBytes: number
  /** Total size of the files of arriving messages. */
  readonly spoolBytes: number
}

export const LISTENER_LIMITS: ListenerLimits = {
  idleMs: minutes(1),
  sessionMs: minutes(30),
  messageMs: minutes(10),
  minBytesPerSecond: KiB,
  slowGraceMs: seconds(30),
  sweepMs: seconds(1),
  commandLineBytes: 2 * KiB,
  pipelinedBytes: 32 * KiB,
  commands: 1_000,
  protocolErrors: 10,
  rejectedRecipients: 50,
  hostMessageBytes: 12 * MiB,
  inlineBytes: 256 * KiB,
  bufferBytes: 16 * MiB,
  spoolBytes: 2 * GiB,
}

export interface ListenerSettings {
  readonly host: string
  readonly port: number
  readonly hostname: string
  readonly spoolFolder: string
  /** Free disk space that the files must not use. */
  readonly minFreeBytes: number
  /** Prefix of file names, so that two Workers of a process never write the same file. */
  readonly filePrefix: string
  readonly certificate: Certificate
  readonly maxMessageBytes: number
  readonly maxRecipients: number
  readonly maxConnections: number
  readonly maxConnectionsPerNetwork: number
  readonly maxMessagesPerMinute: number
  readonly maxBytesPerHour: number
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
  | { readonly type: 'decided'; readonly id: number; readonly decision: Destination | Rejection }
  /** `rejection` null: the message is on disk. */
  | { readonly type: 'received'; readonly id: number; readonly rejection: Rejection | null }
  /** Accept no new sessions; end those without a message in progress. */
  | { readonly type: 'drain' }
  | { readonly type: 'stop' }
  /** Answered by `pong`; a Worker that sends none is dead. */
  | { readonly type: 'ping' }

export type FromListener =
  | { readonly type: 'listening'; readonly host: string; readonly port: number }
  | { readonly type: 'failed'; readonly code: string; readonly reason: string }
  | { readonly type: 'decide'; readonly id: number; readonly address: string; readonly sourceIp: string }
  | { readonly type: 'receive'; readonly id: number; readonly message: CompleteMessage }
  | { readonly type: 'log'; readonly level: 'debug' | 'warn'; readonly event: string; readonly detail: string }
  | { readonly type: 'drained' }
  | { readonly type: 'stopped' }
  | { readonly type: 'pong' }
