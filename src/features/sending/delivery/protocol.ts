/**
 * @module The messages between the main thread and the delivery Workers. `settings`, `key`, `start`, `go`, `cut` and
 * `drain` are sent to a Worker; `address_failed`, `begin` and `outcome` are sent by a Worker. Also the route, the job
 * and the result of an attempt, which scheduler and Workers use internally, too, and the categories of bounces. Plain
 * data: messages are sent as JSON text, because many small parts transfer faster as one string; those of one tick
 * together, and only after the current poll phase, so that what arrived together is sent together.
 */

import type { DraftAttachment, TrackingChoice } from '#features/sending/queue/email.ts'
import type { LaneClass } from '#features/sending/queue/lanes.ts'
import type { TlsDemand } from '#features/sending/transport-security/transport-security.ts'
import type { TransactionResult } from '#protocols/smtp/client.ts'
import type { SmtpFailure } from '#protocols/smtp/failures.ts'
import type { SmtpReply } from '#protocols/smtp/replies.ts'
import type { SmtpTimedPhase } from '#protocols/smtp/timeouts.ts'
import type { SocksProxy } from '#protocols/socks/connect.ts'

export interface WorkerSettings {
  readonly contentFolder: string
  readonly ehloName: string
  /** For addresses of the family that the source of a route has not. */
  readonly outboundSources: readonly OutboundSource[]
  /** By the address of the source that connects through it. */
  readonly proxies?: Readonly<Record<string, SocksProxy>>
  /** Trusted certificate authorities in PEM; absent: those of the system. */
  readonly authorities?: readonly string[] | undefined
  readonly tracking: TrackingSettings
}

/** Limits of the connections of one Worker to the sites that share them. */
export interface ConnectionLimits {
  /** What the limits count for, such as a site. */
  readonly key: string
  /** This Worker's share of the connections, in use or idle. */
  readonly connections: number
  /** Bulk mail may start another message only while fewer than this many connections are in use. */
  readonly bulkConnections: number
  readonly messagesPerConnection: number
  readonly maxAgeMs: number
  /** How long a session stays open for the next message to its site. */
  readonly idleMs: number
}

/** One of our outgoing addresses, and the name that it gives in EHLO. */
export interface OutboundSource {
  readonly ip: string
  readonly ehloName: string
  /** Its pool; undefined for none. */
  readonly pool?: string | undefined
  /** Whether a proxy has the address, and not this machine. */
  readonly isProxied?: boolean
}

/** Continues a sentence. */
export const nameProxy = (sourceIp: string): string => `the proxy of ${sourceIp}`

export interface TrackingSettings {
  /** URL of the service, without a trailing slash. */
  readonly ownUrl: string
}

/** No mail host can have this name (RFC 6761 §6.4), so no other server is taken for the capture server. */
export const CAPTURE_HOST = 'capture.invalid'

export interface RouteHost {
  readonly host: string
  readonly addresses: readonly string[]
  /** What a session to this host must have; absent: as the route's `tls` says. */
  readonly demand?: TlsDemand
}

export interface Route {
  /** The receiving site: mail to the same site shares connections and limits. */
  readonly site: string
  readonly hosts: readonly RouteHost[]
  readonly port: number
  /** Whether to connect from `TASSIS_OUTBOUND_IPS`; false for the capture server, which is on this machine. */
  readonly fromOutboundIps: boolean
  /** The entry of providers.toml of the smarthost that it leads to; absent when it leads to the receiver. */
  readonly smarthost?: 'smarthost' | 'overflow'
  /** The address to connect from; undefined when the system chooses. */
  readonly source?: OutboundSource
  /** `required`: without a verified TLS session the mail is deferred, never sent in clear. */
  readonly tls: 'never' | 'opportunistic' | 'required' | 'implicit'
  readonly auth?: { readonly user: string; readonly password: string }
  /** Addresses at which opportunistic TLS failed recently: it is not tried. */
  readonly plaintextAddresses?: readonly string[]
}

export interface ComposeJob {
  readonly from: string
  readonly to: readonly string[]
  readonly cc: readonly string[]
  readonly replyTo?: string
  readonly subject: string
  readonly dateMs: number
  readonly messageId: string
  readonly headers: readonly (readonly [string, string])[]
  readonly htmlRef: number | null
  readonly textRef: number | null
  /** Bodies rendered for this recipient, which replace the referenced ones. */
  readonly rendered?: { readonly html: string | undefined; readonly text: string | undefined }
  readonly attachments: readonly (Omit<DraftAttachment, 'content'> & { readonly ref: number })[]
  readonly boundarySeed: string
  /** The first attachment is the whole message, and nothing else is composed. */
  readonly isWhole?: boolean
  /** The message is a report of this type (RFC 6522). */
  readonly reportType?: string
  /**
   * Present when opens or clicks are tracked: base URL of the links, tag of the account, day of acceptance, the key that
   * signs the links, and what is tracked.
   */
  readonly tracking?: {
    readonly baseUrl: string
    readonly account: number
    readonly day: number
    readonly keyHex: string
    readonly parts: TrackingChoice
  }
}

export interface DkimKeyPem {
  /** Differs for every key. */
  readonly id: string
  readonly privateKeyPem: string
}

export interface DeliverJob {
  readonly recipientId: number
  readonly emailId: number
  readonly accountId: number
  readonly route: Route
  readonly mailFrom: string
  readonly rcptTo: string
  readonly smtpUtf8: boolean
  readonly compose: ComposeJob
  /** A signature is made with each key. The keys themselves are sent earlier, once to each Worker. */
  readonly dkim: {
    readonly domain: string
    readonly keys: readonly { readonly id: string; readonly selector: string }[]
  }
}

export type ToWorker =
  | { readonly type: 'settings'; readonly settings: WorkerSettings }
  | ({ readonly type: 'key' } & DkimKeyPem)
  /**
   * Accounts (`owner`) take turns at the connections that `limits` allow. Bulk mail comes after all other mail, and
   * leaves some of the connections free for other mail.
   */
  | {
      readonly type: 'start'
      readonly job: DeliverJob
      readonly owner: number
      readonly laneClass: LaneClass
      readonly limits: ConnectionLimits
    }
  /** Changes the limits of connections that may be open here. */
  | { readonly type: 'limits'; readonly limits: ConnectionLimits }
  /** `ok`: `delivery_started_at` is durable. Otherwise nothing may be sent. */
  | { readonly type: 'go'; readonly recipientId: number; readonly ok: boolean }
  /** Ends attempts: those without a connection return to the queue, the sessions of the others are closed. */
  | { readonly type: 'cut'; readonly recipientIds: readonly number[] }
  /** Gives up everything that has not begun; begun transactions continue. */
  | { readonly type: 'drain' }

export type AttemptResult =
  | TransactionResult
  | {
      readonly kind: 'unreachable'
      readonly phase: string
      readonly failure: SmtpFailure
      readonly reply?: SmtpReply
      /** Whether the session failed because TLS was required. */
      readonly tlsDemanded: boolean
      /** Who demanded the TLS that failed, as the beginning of a sentence; absent: the operator's settings. */
      readonly tlsDemand?: string
    }
  /** A body or attachment is missing in the content store. */
  | { readonly kind: 'content_missing' }
  /**
   * The proxy of an address of ours does nothing for it (`isDead`), or does not connect to the receiver: says nothing about
   * the receiver.
   */
  | { readonly kind: 'proxy_failed'; readonly source: string; readonly isDead: boolean; readonly reason: string }
  /** Our own error: composing or signing threw. `detail` is for the log only, because it may contain paths. */
  | { readonly kind: 'broken'; readonly message: string; readonly detail: string }
  /** A transient failure of the disk or this machine before the message began. */
  | { readonly kind: 'postponed'; readonly detail: string }
  /** Never began: drained, cut while it waited for a connection, or behind a message that failed for the whole site. */
  | { readonly kind: 'dropped' }

export interface AttemptSession {
  readonly host: string
  readonly address: string
  readonly localAddress: string | undefined
  /** How the session was encrypted, or why it was not. */
  readonly tls: string
}

/** Milliseconds by phase, at the last server of the attempt; without `connect` in a reused session. */
export type AttemptTimings = Partial<Record<SmtpTimedPhase, number>>

/** What happened in an attempt, for the sender and the operator. */
export interface AttemptTraceData {
  /** The last server of the attempt, connected or not. */
  readonly host?: string
  readonly address?: string
  readonly timings: AttemptTimings
  /** Lines `ms mark text`, `ms` since the attempt began: `>` our command, `<` the server's reply, `*` a remark. */
  readonly dialogue: string
}

/** `connect`: the address did not answer, or cannot be reached. `tls`: an opportunistic handshake failed. */
export interface AddressFailure {
  readonly address: string
  readonly kind: 'connect' | 'tls'
}

export type FromWorker =
  | { readonly type: 'address_failed'; readonly failure: AddressFailure }
  | { readonly type: 'begin'; readonly recipientId: number }
  | {
      readonly type: 'outcome'
      readonly recipientId: number
      readonly result: AttemptResult
      readonly session: AttemptSession | undefined
      /** Absent when the attempt never began. */
      readonly trace?: AttemptTraceData
    }

export type BounceCategory =
  | 'invalid_recipient'
  | 'mailbox_full'
  | 'inactive_mailbox'
  | 'spam_content'
  | 'policy'
  | 'authentication'
  | 'reputation'
  | 'rate_limited'
  | 'message_too_large'
  | 'dns_failure'
  | 'connection_failure'
  | 'tls_failure'
  | 'protocol_error'
  | 'relay_denied'
  | 'expired'
  | 'unknown'

/** Categories that describe the recipient; they can occur only after RCPT. */
export const isRecipientCategory = (category: BounceCategory): boolean =>
  category === 'invalid_recipient' || category === 'inactive_mailbox' || category === 'mailbox_full'

/**
 * Whether rejections of this category are retried until the email expires, even permanent ones (5xx): those that pass
 * with time, of the reputation or the rate of our IP, and of TLS.
 */
export const isRetriedUntilExpiry = (category: BounceCategory): boolean =>
  category === 'reputation' || category === 'rate_limited' || category === 'tls_failure'

/**
 * `hard`: the recipient cannot receive mail. Only such bounces count toward the pause of an account. A full mailbox is
 * emptied some day, and categories of the sender or the message say nothing about the address, so they are `soft`.
 */
export const toBounceType = (category: BounceCategory): 'hard' | 'soft' =>
  isRecipientCategory(category) && category !== 'mailbox_full' ? 'hard' : 'soft'
