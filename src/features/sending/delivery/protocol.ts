/**
 * @module What the main thread and the delivery Workers send each other, as types: `settings`, `key`, `start`, `go`,
 * `cut` and `drain` go to a Worker, `begin` and `outcome` come from it; with them the route, the job and the result of an
 * attempt, which the scheduler and the Workers also use among themselves. Types only, of plain data: `worker-pool` and
 * `worker` send each message as JSON text, because many small parts cross faster as one string.
 */
import type { TransactionResult } from '#protocols/smtp/client.ts'
import type { SmtpFailure } from '#protocols/smtp/failures.ts'
import type { SmtpReply } from '#protocols/smtp/replies.ts'

export interface WorkerSettings {
  readonly contentFolder: string
  readonly ehloName: string
  readonly outboundIps: readonly string[]
  readonly connectionsPerSite: number
  readonly messagesPerConnection: number
  readonly connectionIdleMs: number
  readonly tracking: TrackingSettings
}

/** What all tracked messages share. */
export interface TrackingSettings {
  readonly keyHex: string
  /** URL of the service, without a slash at the end. */
  readonly ownUrl: string
}

/** One place to try, in order. */
export interface RouteHost {
  readonly host: string
  readonly addresses: readonly string[]
}

export interface Route {
  /** The receiving site: mail with the same site shares connections and limits. */
  readonly site: string
  readonly hosts: readonly RouteHost[]
  readonly port: number
  /** Whether `TASSIS_OUTBOUND_IPS` are the source; not for the capture server, which is on this machine. */
  readonly fromOutboundIps: boolean
  /** `required`: without a verified TLS session the mail is deferred, never sent in clear. */
  readonly tls: 'never' | 'opportunistic' | 'required' | 'implicit'
  readonly auth?: { readonly user: string; readonly password: string }
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
  /** Bodies that were rendered for this recipient, in place of those that the references lead to. */
  readonly rendered?: { readonly html: string | undefined; readonly text: string | undefined }
  readonly attachments: readonly { readonly filename: string; readonly contentType: string; readonly ref: number }[]
  readonly boundarySeed: string
  /** Opens and clicks are tracked, under this URL and for the account with this tag and the day of acceptance; left out: they are not. */
  readonly tracking?: { readonly baseUrl: string; readonly account: number; readonly day: number }
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
  /** The key is sent before, once a Worker. */
  readonly dkim: { readonly domainId: number; readonly domain: string; readonly selector: string }
}

export type ToWorker =
  | { readonly type: 'settings'; readonly settings: WorkerSettings }
  | { readonly type: 'key'; readonly domainId: number; readonly privateKeyPem: string }
  /** Accounts (`owner`) take turns at a site. Bulk mail comes after all other, and leaves some of the site's connections to it. */
  | { readonly type: 'start'; readonly job: DeliverJob; readonly owner: number; readonly isBulk: boolean }
  /** `delivery_started_at` is durable: the first octet of the message may leave. `ok: false`: it is not; nothing may leave. */
  | { readonly type: 'go'; readonly recipientId: number; readonly ok: boolean }
  /** Ends attempts that take too long: those that wait in the Worker go back, sessions are closed whatever their phase. */
  | { readonly type: 'cut'; readonly recipientIds: readonly number[] }
  /** Gives up everything that has not begun; begun transactions go on. */
  | { readonly type: 'drain' }

/** How one attempt at a recipient ended, before anybody judged it. */
export type AttemptResult =
  | TransactionResult
  /** No host let us into a session. */
  | {
      readonly kind: 'unreachable'
      readonly phase: string
      readonly failure: SmtpFailure
      readonly reply?: SmtpReply
      /** The session could not be made because TLS was demanded. */
      readonly tlsDemanded: boolean
    }
  /** A body or attachment is not in the content store. */
  | { readonly kind: 'content_missing' }
  /** Our own fault: composing or signing threw. `detail` is for the log: it may name paths. */
  | { readonly kind: 'broken'; readonly message: string; readonly detail: string }
  /** The disk or this machine failed in a way that passes, before the message began. */
  | { readonly kind: 'postponed'; readonly detail: string }
  /** Never began: the Worker drained, or the site refused us with the message before it. */
  | { readonly kind: 'dropped' }

export interface AttemptSession {
  readonly host: string
  readonly address: string
  readonly localAddress: string | undefined
  /** What protected it, or why nothing did. */
  readonly tls: string
}

export type FromWorker =
  | { readonly type: 'begin'; readonly recipientId: number }
  | {
      readonly type: 'outcome'
      readonly recipientId: number
      readonly result: AttemptResult
      readonly session: AttemptSession | undefined
    }
