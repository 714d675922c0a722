/**
 * @module The messages between the main thread and the Worker of the SMTP listener, and the limits on what remote
 * clients may do there. Types and numbers only.
 */

import type { CompleteMessage, Destination, Rejection } from '#features/receiving/received/message.ts'
import { GiB, KiB, MiB, minutes, seconds } from '#platform/units.ts'

/** Limits that are no settings: only tests that cannot wait change them. */
export interface ListenerLimits {
  /**
   * How long a client may take for its next step towards a message (an accepted MAIL, RCPT or DATA, not NOOP or RSET),
   * or for the next octet of one. RFC 5321 §4.5.3.2.7 wants 5 minutes; silent clients would then hold every slot.
   * Postfix waits this long under stress.
   */
  readonly idleMs: number
  readonly sessionMs: number
  /** From the 354 to the final dot. */
  readonly messageMs: number
  /** Average rate that a message must reach once `slowGraceMs` has passed. */
  readonly minBytesPerSecond: number
  readonly slowGraceMs: number
  /** How often the limits in time are checked. */
  readonly sweepMs: number
  /** Longest command line; RFC 5321 §4.5.3.1.4 wants 512, our extensions add less than 100, long senders more. */
  readonly commandLineBytes: number
  /** Octets that may wait behind a command without its reply: 100 recipients of the longest names, 700 usual ones. */
  readonly pipelinedBytes: number
  /** Commands since the last accepted message. */
  readonly commands: number
  /** Replies of 5xx to anything but RCPT, since the last accepted message. */
  readonly protocolErrors: number
  /** Recipients rejected permanently: a client with so many guesses names. */
  readonly rejectedRecipients: number
  /**
   * Largest message that is for no tenant: a bounce, a complaint, a request, a report. DMARC reports may have 10 MiB;
   * nothing larger is expected.
   */
  readonly hostMessageBytes: number
  /** Messages up to this size are handed over in memory, larger ones in a file. */
  readonly inlineBytes: number
  /** Memory for arriving messages of all sessions; when it is full, small messages go into files as well. */
  readonly bufferBytes: number
  /** Largest sum of all files of arriving messages. */
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
  /** Free disk space that its files must leave. */
  readonly minFreeBytes: number
  /** Begins the names of its files, so that no two Workers of a process write the same one. */
  readonly filePrefix: string
  readonly certificate: Certificate
  readonly maxMessageBytes: number
  readonly maxRecipients: number
  readonly maxConnections: number
  readonly maxConnectionsPerNetwork: number
  readonly maxMessagesPerMinute: number
  readonly maxBytesPerHour: number
  readonly limits: ListenerLimits
  /** Whether the main thread logs what remote clients do wrong. */
  readonly logsDebug: boolean
}

/** PEM. */
export interface Certificate {
  /** With the intermediate certificates. */
  readonly cert: string
  readonly key: string
}

export type ToListener =
  | { readonly type: 'start'; readonly settings: ListenerSettings }
  | { readonly type: 'certificate'; readonly certificate: Certificate }
  | { readonly type: 'decided'; readonly id: number; readonly decision: Destination | Rejection }
  /** `refusal` null: it is on disk. */
  | { readonly type: 'received'; readonly id: number; readonly rejection: Rejection | null }
  /** Accept no new sessions; end those without a message in progress. */
  | { readonly type: 'drain' }
  | { readonly type: 'stop' }
  /** Answered by `pong`; a Worker that does not is dead. */
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
