/**
 * @module What a use case gets as its first argument: the machinery of the running service. Types only; `app/create.ts` makes it.
 */
import type { Database } from 'bun:sqlite'
import type { Clock, Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import type { ContentStore } from '#platform/content/store.ts'
import type { KeyRing } from '#platform/crypto.ts'
import type { Committer } from '#platform/db/commit.ts'
import type { DiskGuard } from '#platform/disk.ts'
import type { Log } from '#platform/log.ts'
import type { MemoryBudget } from '#platform/memory-budget.ts'
import type { FairScheduler } from '#platform/queue/fair-scheduler.ts'
import type { SafeFetch } from '#platform/safe-fetch.ts'
import type { Signal } from '#platform/signal.ts'
import type { Renderer } from '#platform/template/renderer.ts'
import type { DkimKey } from '#protocols/dkim/keys.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'

/** How much work an account may cause; `accounts/work-budget.ts` makes it. */
export interface WorkBudget {
  /** Takes units from an account's budget before the work is done; throws 429 `work_limit` when it has not as many. */
  spend(accountId: number, units: number): void
  /** Takes units for work that is done: what is missing is missing at the next request. */
  charge(accountId: number, units: number): void
}

export interface App {
  readonly config: Config
  /** A trusted clock (platform/trusted-clock.ts): jumps of days ahead are not believed at once. */
  readonly clock: Clock
  /** `TrustedClock.confirmedNow`: by it things go for their age. */
  confirmedNow(): Millis
  /** `TrustedClock.setBack`: what was put off under a wrong time may be due. */
  readonly clockSetBack: Signal<void>
  readonly log: Log
  readonly keys: KeyRing
  /** The main database: reads anywhere, writes only through `commit`. */
  readonly db: Database
  readonly commit: Committer
  /** Bodies and attachments. */
  readonly content: ContentStore
  /** Messages as they came in; kept for `inboundRawDays`, apart from what is kept longer. */
  readonly rawMail: ContentStore
  /** Whether there is room for new work; asked before content is stored. */
  readonly disk: DiskGuard
  /** Removes what was captured of emails; resolves with how many captures that were, once it is on disk. */
  removeCaptures(emailIds: readonly number[]): Promise<number>
  /** Overwrites what was deleted in the files of all databases. False: some other process reads one, so try again later. */
  scrubFiles(): Promise<boolean>
  readonly memory: MemoryBudget
  /** Turns of the event loop for work of over some milliseconds, in pieces; the owner is the account's row id, or a network of a stranger. */
  readonly fairScheduler: FairScheduler
  /** How much work an account's requests may cause. */
  readonly workBudget: WorkBudget
  readonly resolver: Resolver
  /** Asks anew each time: for whoever has just published a record and wants to know. */
  readonly freshResolver: Resolver
  /** A new key pair for a domain to sign with. */
  createDkimKey(): Promise<DkimKey>
  /** Calls a URL that a tenant gave. Nothing else may. */
  readonly fetch: SafeFetch
  /** Renders the templates of tenants. */
  readonly renderer: Renderer
  /** Ports on which this service listens; whoever listens adds its own, and `fetch` never calls them. */
  readonly ownPorts: Set<number>
  /**
   * Event time: the clock, but never earlier than any time it has given, restarts included, unless the clock is days behind that: then it was
   * wrong.
   */
  eventTime(): Millis
  /** Says that a lane has mail due at a time; delivery listens. */
  readonly mailDue: Signal<{ readonly lane: string; readonly at: Millis }>
  /** Says that an account has new events on disk, up to `lastSeq`; the event feed and webhooks listen. */
  readonly eventsRecorded: Signal<{ readonly accountId: number; readonly lastSeq: number }>
  /** Says that a webhook was made, changed or deleted, or has a delivery that is due; the dispatcher listens. */
  readonly webhookChanged: Signal<{ readonly webhookId: number }>
  /** Says that a message came in and waits to be processed. */
  readonly mailReceived: Signal<void>
  /** Says that a mailbox has something for whoever waits at `next`: a new message, or one that was given back. */
  readonly mailboxChanged: Signal<{ readonly mailboxId: number }>
  /** Says that a contact is to get a confirmation or a welcome. */
  readonly contactMailDue: Signal<void>
  /** Says that a file of contacts waits to be imported. */
  readonly importDue: Signal<void>
  /** Says that a broadcast was begun, resumed or cancelled. */
  readonly broadcastChanged: Signal<void>
  /**
   * Emitted when who may act for an account has changed: caches forget it, and what revoked keys and sessions still
   * read ends. Emitted inside the transaction and after it, by `announceAccessChange`.
   */
  readonly accessChanged: Signal<{ readonly accountId: number }>
  /** The same for whether an account may send, by `announceSendingChange`: paused, resumed, switched or deleted. */
  readonly sendingChanged: Signal<{ readonly accountId: number }>
  /** Says that parts of the content store may be referred to no more. */
  readonly contentDropped: Signal<void>
  /** Says that an account, or what is known of one address, is to be removed. */
  readonly removalDue: Signal<void>
}

/** Who acts: the key, user or command behind a change, for authorisation and the audit log. */
export interface Actor {
  readonly accountId: number
  readonly accountUuid: string
  readonly type: 'user' | 'api_key' | 'system' | 'operator'
  /** Public id of the key or user; `cli` or `system` otherwise. */
  readonly id: string
  readonly scopes: ReadonlySet<string>
  readonly ipAddress?: string | undefined
  /** Of a user: the role in the team of the account. */
  readonly role?: TeamRole
  /** Of a user who is signed in: row id of the session. */
  readonly sessionId?: number
  /** Of whoever can lose his rights while he waits or reads on: whether he still has them. */
  readonly mayStillAct?: () => boolean
}

/** What a user may do in an account, from all to looking only. */
export type TeamRole = 'owner' | 'admin' | 'developer' | 'viewer'
