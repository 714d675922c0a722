/** @module What the main thread and the Worker of the SMTP listener say to each other, and the bounds on what strangers may do there. Types and numbers only. */

import type { Destination, Refusal, TakenMessage } from '#features/receiving/received/message.ts'
import { GiB, KiB, MiB, minutes, seconds } from '#platform/units.ts'

/** Bounds that are no settings: nobody has a reason to change them but a test that cannot wait. */
export interface ListenerLimits {
  /**
   * How long a client may owe us its next step towards a message (an accepted MAIL, RCPT or DATA, not NOOP or RSET), or the next octet of one. RFC 5321 §4.5.3.2.7 wants 5 minutes; at that, those who
   * open sessions and say nothing would hold every place. Postfix waits as long under stress as we always do.
   */
  readonly idleMs: number
  readonly sessionMs: number
  /** From the 354 to the final dot. */
  readonly messageMs: number
  /** After `slowGraceMs` a message must have come at least this fast, on the average. */
  readonly leastBytesPerSecond: number
  readonly slowGraceMs: number
  /** How often the bounds in time are looked at. */
  readonly sweepMs: number
  /** In octets with the line end; RFC 5321 §4.5.3.1.4 wants 512, extensions of ours add less than 100, long envelope senders of others more. */
  readonly commandLineBytes: number
  /** What may wait behind a command whose reply has not left: 100 recipients of the longest names, some 700 of usual ones. */
  readonly aheadBytes: number
  /** Since the last message that was taken. */
  readonly commands: number
  /** Replies of 5xx to anything but RCPT, since the last message that was taken. */
  readonly mistakes: number
  /** Recipients refused for good: who asks for so many tries out names. */
  readonly refusedRecipients: number
  /**
   * Largest message that is for no tenant: a bounce, a complaint, a request, a report. DMARC reports may have 10 MiB; whatever is larger is nothing that
   * anybody here waits for.
   */
  readonly hostMessageBytes: number
  /** Messages up to this size are handed over in memory, larger ones in a file. */
  readonly inlineBytes: number
  /** Memory for messages that arrive, over all sessions; when it is taken, small messages go into files as well. */
  readonly bufferBytes: number
  /** Largest sum of all files of messages that arrive. */
  readonly spoolBytes: number
}

export const LISTENER_LIMITS: ListenerLimits = {
  idleMs: minutes(1),
  sessionMs: minutes(30),
  messageMs: minutes(10),
  leastBytesPerSecond: KiB,
  slowGraceMs: seconds(30),
  sweepMs: seconds(1),
  commandLineBytes: 2 * KiB,
  aheadBytes: 32 * KiB,
  commands: 1_000,
  mistakes: 10,
  refusedRecipients: 50,
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
  /** Free disk space that its files leave. */
  readonly minFreeBytes: number
  /** In front of the names of its files, so that no two Workers of a process write the same one. */
  readonly filePrefix: string
  readonly certificate: Certificate
  readonly maxMessageBytes: number
  readonly maxRecipients: number
  readonly maxConnections: number
  readonly maxConnectionsPerNetwork: number
  readonly maxMessagesPerMinute: number
  readonly maxBytesPerHour: number
  readonly limits: ListenerLimits
  /** Whether what strangers break is worth a message to the main thread. */
  readonly logsDebug: boolean
}

/** PEM. */
export interface Certificate {
  /** With the certificates between it and its authority. */
  readonly cert: string
  readonly key: string
}

export type ToListener =
  | { readonly type: 'start'; readonly settings: ListenerSettings }
  | { readonly type: 'certificate'; readonly certificate: Certificate }
  | { readonly type: 'decided'; readonly id: number; readonly answer: Destination | Refusal }
  /** `refusal` null: it is on disk. */
  | { readonly type: 'received'; readonly id: number; readonly refusal: Refusal | null }
  /** No new sessions; those without a message under way end. */
  | { readonly type: 'drain' }
  | { readonly type: 'stop' }
  /** Answered at once by whoever is alive. */
  | { readonly type: 'ping' }

export type FromListener =
  | { readonly type: 'listening'; readonly host: string; readonly port: number }
  | { readonly type: 'failed'; readonly code: string; readonly reason: string }
  | { readonly type: 'decide'; readonly id: number; readonly address: string; readonly sourceIp: string }
  | { readonly type: 'receive'; readonly id: number; readonly message: TakenMessage }
  | { readonly type: 'log'; readonly level: 'debug' | 'warn'; readonly event: string; readonly detail: string }
  | { readonly type: 'drained' }
  | { readonly type: 'stopped' }
  | { readonly type: 'pong' }
