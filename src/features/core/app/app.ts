/**
 * @module `App`, the first argument of every use case: the parts of the running service. Types only; `app/create.ts`
 * builds it.
 */
import type { Database } from 'bun:sqlite'
import type { ContentStore } from '#platform/content/store.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import type { Committer } from '#platform/db/commit.ts'
import type { Tx } from '#platform/db/open.ts'
import type { Replica } from '#platform/db/replica.ts'
import type { DiskGuard } from '#platform/disk/disk.ts'
import type { Log } from '#platform/log/log.ts'
import type { SafeFetch } from '#platform/net/safe-fetch.ts'
import type { MemoryBudget } from '#platform/process/memory-budget.ts'
import type { Signal } from '#platform/process/signal.ts'
import type { FairScheduler } from '#platform/queue/fair-scheduler.ts'
import type { ClusterStatus } from '#platform/replication/cluster-status.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Renderer } from '#platform/template/worker-renderer.ts'
import type { Clock } from '#platform/time/clock.ts'
import type { Millis } from '#platform/units.ts'
import type { DkimKey } from '#protocols/dkim/keys.ts'
import type { DnsClient, Resolver } from '#protocols/dns/resolver.ts'
import type { Metrics } from './metrics.ts'

/** The work budget of accounts; `accounts/work-budget.ts` creates it. */
export interface WorkBudget {
  /** Takes units from an account's budget before the work is done; throws 429 `work_limit` when too few are left. */
  spend(accountId: number, units: number): void
  /** Charges units for work already done; a deficit counts against the next request. */
  charge(accountId: number, units: number): void
}

/** This node as the leader of a cluster. */
export interface ClusterView {
  /** As read with the last heartbeat; undefined when that is 15 seconds old, or was never. */
  status(): ClusterStatus | undefined
  /** The nodes as they were last known, however long ago. */
  nodes(): ClusterStatus['nodes']
  /** Has this node stop cleanly and another take over, by default any; resolves once that is requested. */
  stepDown(to?: string): Promise<void>
}

export interface App {
  readonly config: Config
  /** A trusted clock (platform/process/trusted-clock.ts), which at first ignores jumps of days ahead. */
  readonly clock: Clock
  /** `TrustedClock.confirmedNow`: the time that decides which data is old enough to delete. */
  confirmedNow(): Millis
  /** `TrustedClock.aheadMs`: how far the wall clock is ahead while the service does not believe it. */
  clockAheadMs(): number | undefined
  /** `TrustedClock.setBack`: the clock was corrected backwards, so work scheduled under the wrong time may be due. */
  readonly clockSetBack: Signal<void>
  readonly log: Log
  readonly metrics: Metrics
  readonly keys: KeyRing
  /** The main database: reads anywhere, writes only through `commit`. */
  readonly db: Database
  readonly commit: Committer
  /** In a cluster: where files of the data directory are stored too. */
  readonly replica?: Replica | undefined
  /** Bodies and attachments. */
  readonly content: ContentStore
  /** Raw messages as received. They are deleted after `inboundRawDays`, apart from content that is kept longer. */
  readonly rawMail: ContentStore
  /** Whether the disk has capacity for new work; checked before content is stored. */
  readonly disk: DiskGuard
  /** Deletes the captures of emails; resolves with their number once the deletion is durable. */
  removeCaptures(emailIds: readonly number[]): Promise<number>
  /**
   * Overwrites deleted bytes in the files of all databases. Resolves with false when another process reads a file; the
   * caller then tries again later.
   */
  scrubFiles(): Promise<boolean>
  readonly memory: MemoryBudget
  /**
   * Shares the event loop fairly between accounts for work of more than a few milliseconds, done in chunks. The owner
   * is an account's row id, or the network of a remote client.
   */
  readonly fairScheduler: FairScheduler
  /** Limits the work that an account's requests may cause. */
  readonly workBudget: WorkBudget
  readonly resolver: DnsClient
  /** Has no cache: used for clients that have just published a record. */
  readonly freshResolver: Resolver
  /** Creates the key pair with which a domain signs. */
  createDkimKey(): Promise<DkimKey>
  /** Calls URLs provided by tenants. Nothing else may call such URLs. */
  readonly fetch: SafeFetch
  /** Renders tenants' templates. */
  readonly renderer: Renderer
  /** Ports on which this service listens. Each listener adds its own port; `fetch` never connects to them. */
  readonly ownPorts: Set<number>
  /** The address of an agent mailbox of an account; undefined: it has none with this id. */
  findMailboxAddress(accountId: number, id: string): string | undefined
  /** Undefined in a service that runs alone. */
  readonly cluster?: ClusterView | undefined
  /**
   * Event time: the clock, but never earlier than any time returned before, across restarts too. If the clock is days
   * behind the last time returned, that time was wrong, and event time follows the clock again.
   */
  eventTime(): Millis
  /** A lane has mail due at a time; delivery listens. `isRetryAsked`: an operator asks for an attempt now. */
  readonly mailDue: Signal<{ readonly lane: string; readonly at: Millis; readonly isRetryAsked?: true }>
  /** An account has new durable events up to `lastSeq`; the event feed and webhooks listen. */
  readonly eventsRecorded: Signal<{ readonly accountId: number; readonly lastSeq: number }>
  /** A webhook was created, changed or deleted, or has a delivery due; the dispatcher listens. */
  readonly webhookChanged: Signal<{ readonly webhookId: number; readonly isTest?: true }>
  /** A received message waits to be processed. */
  readonly mailReceived: Signal<void>
  /** A mailbox has a message for clients that wait at `next`: a new message, or one that was released. */
  readonly mailboxChanged: Signal<{ readonly mailboxId: number }>
  /** A notice to an owner or a contact was scheduled. */
  readonly noticeDue: Signal<void>
  /** A person answered an email; emitted in the transaction that accepts the answer. */
  readonly replied: Signal<{ readonly tx: Tx; readonly emailId: number }>
  /** A file of contacts waits to be imported. */
  readonly importDue: Signal<void>
  /** A broadcast was started, resumed or cancelled. */
  readonly broadcastChanged: Signal<void>
  /**
   * Access to an account changed: caches evict the account, and open requests of revoked keys and sessions end.
   * `announceAccessChange` emits the signal inside the transaction and after it.
   */
  readonly accessChanged: Signal<{ readonly accountId: number }>
  /**
   * The account was paused, resumed, enabled, disabled or deleted. `announceSendingChange` emits the signal inside the
   * transaction and after it.
   */
  readonly sendingChanged: Signal<{ readonly accountId: number }>
  /** Blobs of the content store may have become unreferenced. */
  readonly contentDropped: Signal<void>
  /** An account, or the data about one address, is to be deleted. */
  readonly removalDue: Signal<void>
  /** An operator made failed orders of certificates due, in their file. */
  readonly certificatesDue: Signal<void>
}

/** The key, user or command that makes a change, for authorisation and the audit log. */
export interface Actor {
  readonly accountId: number
  readonly accountUuid: string
  readonly type: 'user' | 'api_key' | 'system' | 'operator'
  /** Public id of the key or user; `cli` or `system` otherwise. */
  readonly id: string
  readonly scopes: ReadonlySet<string>
  readonly ipAddress?: string | undefined
  /** Restrictions of an API key; undefined: none. */
  readonly limits?: ActorLimits | undefined
  /** Role of a user in the team of the account. */
  readonly role?: TeamRole
  /** Row id of the session of a signed-in user. */
  readonly sessionId?: number
  /** Whether the actor still has access; for actors that can lose it mid-request. */
  readonly mayStillAct?: () => boolean
}

/** Where and for what a key may be used; what is undefined is not restricted. */
export interface ActorLimits {
  readonly expiresAt?: Millis | undefined
  /** The domains that it may send from, in lower case and A-labels. */
  readonly domains?: readonly string[] | undefined
  /** The addresses and networks that it may be used from. */
  readonly networks?: readonly string[] | undefined
  /** Whether what it sends is a draft until a person releases it. */
  readonly drafts?: true | undefined
  /** The addresses and `@domain` that it may send to, normalised. */
  readonly allowedRecipients?: readonly string[] | undefined
  /** Emails that it may send on a day (UTC). */
  readonly dailyLimit?: number | undefined
  /** Public id of the only agent mailbox that it sees, and that it sends from. */
  readonly mailboxId?: string | undefined
}

/** What a user may do in an account, from everything to read-only. */
export type TeamRole = 'owner' | 'admin' | 'developer' | 'viewer' | 'support'
