/**
 * @module Composition: builds the service from a configuration and closes it again. Depends on every feature; contains
 * no product rule.
 */
import type { Database } from 'bun:sqlite'
import { accessSync, constants, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { BlockList, isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { stopReplied } from '#features/audience/sequences/sequences.ts'
import { requireKnownPlans } from '#features/core/accounts/plans.ts'
import { createWorkBudget } from '#features/core/accounts/work-budget.ts'
import type { App, ClusterView } from '#features/core/app/app.ts'
import { type CommittedStore, type Metrics, NO_METRICS } from '#features/core/app/metrics.ts'
import { createHoldReader } from '#features/core/content-gc/deletion-hold.ts'
import { createEventTime, flushCounters, forEachEventCount, readLastSeq } from '#features/core/events/record.ts'
import { readConfirmedTime } from '#features/lifecycle/retention/run.ts'
import { requireBillingConfig } from '#features/people/billing/stripe.ts'
import { getMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { compactSearchIndex } from '#features/receiving/agent-mailboxes/search.ts'
import { createParser, type Parser } from '#features/receiving/inbound/process/parser.ts'
import { getRequestLog } from '#features/reporting/logs/request-log.ts'
import { createSendRateLimiter, type TakeRate } from '#features/sending/accept/sendable.ts'
import { CaptureStore } from '#features/sending/capture/store.ts'
import { flushDailyOutcomes } from '#features/sending/delivery/providers/daily-outcomes.ts'
import { SourceNames } from '#features/sending/delivery/providers/outbound-sources.ts'
import { compactEmailSearch } from '#features/sending/queue/search.ts'
import { type Authenticator, createAuthenticator } from '#features/setup/api-keys/keys.ts'
import { setErasedKey } from '#features/setup/suppression-store/suppression-list-key.ts'
import { parseMonthName } from '#platform/content/read.ts'
import { ContentStore } from '#platform/content/store.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { createCheckpointer } from '#platform/db/checkpoint.ts'
import { Committer, type CommitterOptions } from '#platform/db/commit.ts'
import { isDatabaseCorrupt, isNotADatabase } from '#platform/db/corruption.ts'
import { migrate } from '#platform/db/migrate.ts'
import { openDatabase } from '#platform/db/open.ts'
import type { Replica } from '#platform/db/replica.ts'
import { scrubDatabase } from '#platform/db/scrub.ts'
import { explainDenial, requireUsableData } from '#platform/disk/data-owner.ts'
import { type DiskGuard, watchDisk } from '#platform/disk/disk.ts'
import { lockDirectory } from '#platform/disk/lock.ts'
import { attempt, tooManyRequests } from '#platform/errors.ts'
import type { Rate } from '#platform/http/rate-limit.ts'
import { randomBelow } from '#platform/ids.ts'
import { createLog, type Log } from '#platform/log/log.ts'
import { readCertificateAuthorities } from '#platform/net/certificate-authorities.ts'
import { type HostLookup, SafeFetch } from '#platform/net/safe-fetch.ts'
import { endProcess } from '#platform/process/end.ts'
import { MemoryBudget } from '#platform/process/memory-budget.ts'
import { createSignal } from '#platform/process/signal.ts'
import { TrustedClock } from '#platform/process/trusted-clock.ts'
import { FairScheduler } from '#platform/queue/fair-scheduler.ts'
import { type Config, ConfigError, InUseError } from '#platform/settings/config.ts'
import { WorkerRenderer } from '#platform/template/worker-renderer.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { MiB, seconds } from '#platform/units.ts'
import { type DkimKey, generateDkimKey } from '#protocols/dkim/keys.ts'
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import { type DnsClient, type Resolver, type ResolverOptions, StubResolver } from '#protocols/dns/resolver.ts'
import { parseServer, readSystemServers } from '#protocols/dns/servers.ts'
import { canConnectTo, isLoopback } from '#protocols/dns/special-addresses.ts'
import {
  fenceIfCopied,
  type Instance,
  markIfForeign,
  openInstance,
  readCommits,
  requireNoOtherMachine,
} from './fence/instance.ts'
import { openKeyRing, settleMasterKey } from './master-key.ts'
import { migrations } from './migrations.ts'

const CHECKPOINT_BYTES = 64 * MiB

const OUTGOING_DNS_EXCHANGES = 1024
/** Several for each message in progress, because authenticating a message needs several lookups. */
const SENDER_DNS_EXCHANGES = 1024

/** Maximum number of large requests per account that wait for their next tick of the event loop. */
const MAX_PIECES_PER_OWNER = 1000
const createTooManyPiecesError = () =>
  tooManyRequests(
    'too_many_requests',
    'Too many large requests of this account are in progress; wait for some of them.',
    1,
  )

/** The service without its listeners, as used by CLI commands when no service is running. */
export interface OpenedApp {
  readonly app: App
  readonly captures: CaptureStore
  readonly authenticator: Authenticator
  /** Limits the sends of an account, whichever way they come. */
  readonly takeRate: TakeRate
  readonly senderResolver: DnsClient
  readonly parser: Parser
  readonly sourceNames: SourceNames
  /** The data directory as the files in it name it. */
  readonly instance: Instance
  close(): Promise<void>
}

/** Parts that are created before; the others are replacements for tests. */
export interface CreateOptions {
  readonly clock?: Clock
  readonly log?: Log
  readonly metrics?: Metrics
  readonly resolver?: DnsClient
  readonly disk?: DiskGuard
  readonly createDkimKey?: () => Promise<DkimKey>
  /** In a cluster: where commits are stored too. */
  readonly replica?: Replica | undefined
  readonly cluster?: ClusterView | undefined
  /** Of each account; default WORK_RATE. */
  readonly workRate?: Rate
}

export class DataDirInUseError extends InUseError {}

/**
 * Opens the data directory: lock, master key, databases, migrations. Throws ConfigError with one sentence when another
 * process holds it or the master key is not that of the database.
 */
export function openApp(config: Config, options: CreateOptions = {}): OpenedApp {
  const log = options.log ?? createLog(config.logLevel, undefined, options.clock ?? systemClock)
  const metrics = options.metrics ?? NO_METRICS
  const { replica, cluster } = options
  const authorities = readCertificateAuthorities(config)
  requireKnownPlans(config)
  requireBillingConfig(config)
  createDataDirectory(config.dataDir)
  const lock = lockDirectory(config.dataDir)
  if (!lock)
    throw new DataDirInUseError(
      `Another process is using ${config.dataDir}; stop it, or give this one another TASSIS_DATA_DIR.`,
    )
  const databasePath = join(config.dataDir, 'tassis.db')
  // What is open so far: it is closed when a later step fails, because a retried start opens it again.
  const opened: Pick<Database, 'close'>[] = []
  try {
    const now = (options.clock ?? systemClock).now()
    requireNoOtherMachine(config.dataDir, now)
    requireNoOrphanedContent(config.dataDir)
    if (!replica) requireNoCluster(config)
    const isNew = !existsSync(databasePath)
    const keys = openKeyRing(config, isNew)
    const db = openMainDatabase(databasePath, keys, log, opened)
    // Fences a copy before anything is sent, and takes the directory for this process.
    const instance = explainCorruption(databasePath, RESTORE_REMEDY, () => {
      // The log of a cluster shows that the database is not older than its directory.
      if (!replica?.isEstablished) markIfForeign(db, config.dataDir, log)
      fenceIfCopied(db, now, log)
      return openInstance(db, config.dataDir, now, replica)
    })
    const clock = new TrustedClock(options.clock ?? systemClock, { log, lastRunAt: readConfirmedTime(db) })
    const checkpointer = createCheckpointer(log)
    const disk = options.disk ?? watchDisk(config, clock, log)
    const stores = openStores({ config, log, clock, disk, metrics }, checkpointer, db, databasePath, replica)
    const network = openNetwork(config, clock, authorities, options.resolver)
    const parser = createParser({ config, clock, log, resolver: network.senderResolver })
    const renderer = new WorkerRenderer({ clock, log })
    const createDkimKey = options.createDkimKey ?? generateDkimKey
    const workBudget = createWorkBudget({ clock, db }, options.workRate)
    const parts = { config, clock, log, metrics, keys, db, replica, cluster, disk, renderer, createDkimKey, workBudget }
    const app = composeApp(parts, stores, network)
    app.replied.listen((reply) => stopReplied(app, reply))
    return {
      app,
      captures: stores.captures,
      authenticator: createAuthenticator(app),
      takeRate: createSendRateLimiter(app),
      senderResolver: network.senderResolver,
      parser,
      sourceNames: new SourceNames(app),
      instance,
      async close() {
        parser.close()
        renderer.close()
        network.close()
        await getRequestLog(app).flush()
        await app.commit.barrier().catch(() => undefined)
        const commits = readCommits(db)
        await stores.close()
        instance.settle(app.clock.now(), commits)
        checkpointer.close()
        lock.release()
      },
    }
  } catch (error) {
    // Closing it would write into its file what the replica does not have.
    if (!replica) for (const database of opened) database.close()
    lock.release()
    throw explainDenial(config.dataDir, toCorruptionError(databasePath, RESTORE_REMEDY, error))
  }
}

/**
 * Opens and migrates the database and checks its master key.
 * @param opened receives the database immediately, to be closed if a later step fails
 */
function openMainDatabase(path: string, keys: KeyRing, log: Log, opened: Pick<Database, 'close'>[]): Database {
  return explainCorruption(path, RESTORE_REMEDY, () => {
    const database = openDatabase(path)
    opened.push(database)
    migrate(database, migrations)
    settleMasterKey(database, keys, systemClock.now(), log)
    setErasedKey(database, keys.subkey('erased-address'))
    return database
  })
}

function openStores(
  { config, clock, log, disk, metrics }: Pick<App, 'config' | 'clock' | 'log' | 'disk' | 'metrics'>,
  checkpointer: ReturnType<typeof createCheckpointer>,
  db: Database,
  databasePath: string,
  replica: Replica | undefined,
) {
  const committerOptions = (store: CommittedStore): CommitterOptions => ({
    disk,
    // Captured mail need not survive.
    replica: store === 'capture' ? undefined : replica,
    clock,
    checkpointBytes: CHECKPOINT_BYTES,
    checkpoint: (path, mode) => checkpointer.run(path, mode),
    onBroken: (error) => {
      log.fatal(
        { err: error },
        'the disk failed to store a commit; stopping the service so that no accepted mail is lost',
      )
      endProcess(replica !== undefined)
    },
    onSynced: (writes, durationMs) => metrics.groupCommitted(store, writes, durationMs),
  })
  const eventTime = createEventTime(clock, db)
  const eventsRecorded: App['eventsRecorded'] = createSignal()
  const isDeletionHeld = createHoldReader(config.dataDir, clock)
  const storeOptions = (store: 'content' | 'raw-mail') => ({
    ...committerOptions(store),
    clock,
    isDeletionHeld,
  })
  const content = new ContentStore(join(config.dataDir, 'content'), storeOptions('content'))
  const rawMail = new ContentStore(join(config.dataDir, 'raw-mail'), storeOptions('raw-mail'))
  const captures = explainCorruption(
    join(config.dataDir, 'capture.db'),
    DELETE_CAPTURES_REMEDY,
    () =>
      new CaptureStore({
        dataDir: config.dataDir,
        clock,
        committerOptions: committerOptions('capture'),
      }),
  )
  const commit = new Committer(db, databasePath, {
    ...committerOptions('tassis'),
    flush: (connection, deltas, lastSeqs) => {
      flushCounters(connection, deltas, lastSeqs, eventTime())
      flushDailyOutcomes(connection, deltas)
    },
    onDurable: (deltas) => {
      const accounts = new Set<number>()
      forEachEventCount(deltas, (accountId, type, count) => {
        accounts.add(accountId)
        metrics.eventsRecorded(type, count)
      })
      // Emitted in a microtask: listeners must not delay the next group.
      for (const accountId of accounts) {
        const lastSeq = readLastSeq(db, accountId)
        queueMicrotask(() => eventsRecorded.emit({ accountId, lastSeq }))
      }
    },
  })
  const close = () => Promise.all([commit.close(), content.close(), rawMail.close(), captures.close()])
  return { commit, content, rawMail, captures, eventTime, eventsRecorded, close }
}

/** Whether to believe what the DNS servers say about DNSSEC: see the setting `dane`. */
function trustsDnssec({ dane, delivery }: Config, servers: readonly string[]): boolean {
  if (dane === 'off' || delivery !== 'direct') return false
  return dane === 'on' || servers.every((server) => isLoopback(parseServer(server).host))
}

/** DNS clients and outgoing HTTP. @param override replaces all resolvers, in tests */
function openNetwork(
  config: Config,
  clock: Clock,
  authorities: ReturnType<typeof readCertificateAuthorities>,
  override: DnsClient | undefined,
) {
  const servers = config.dnsServers.length > 0 ? config.dnsServers : readSystemServers()
  const dns = {
    servers,
    clock,
    randomId: () => randomBelow(65_536),
    trustsAuthenticity: trustsDnssec(config, servers),
  }
  const open = (options: Partial<ResolverOptions> = {}): DnsClient =>
    override ?? new StubResolver({ ...dns, ...options })
  const resolvers = {
    resolver: open(),
    freshResolver: open({ cacheEntries: 0 }),
    // A separate client for names that tenants provide: if the DNS servers of such names are silent, lookups for
    // outgoing mail must not wait.
    outgoingResolver: open({ timeoutMs: seconds(2), maxConcurrentExchanges: OUTGOING_DNS_EXCHANGES }),
    // One more client for names in received mail, for the same reason.
    senderResolver: open({ timeoutMs: seconds(2), maxConcurrentExchanges: SENDER_DNS_EXCHANGES }),
  }
  const ownPorts = new Set<number>()
  const fetch = createOutgoingFetch({ config, clock, resolver: resolvers.outgoingResolver, ownPorts, authorities })
  const close = (): void => {
    for (const closable of [fetch, ...Object.values(resolvers)]) closable.close()
  }
  return { ...resolvers, ownPorts, fetch, close }
}

/** Builds the `App` that features receive, with the signals by which they notify each other. */
function composeApp(
  parts: Pick<
    App,
    | 'config'
    | 'log'
    | 'metrics'
    | 'keys'
    | 'db'
    | 'replica'
    | 'cluster'
    | 'disk'
    | 'renderer'
    | 'createDkimKey'
    | 'workBudget'
  > & {
    readonly clock: TrustedClock
  },
  { captures, close: _close, ...stores }: ReturnType<typeof openStores>,
  { resolver, freshResolver, fetch, ownPorts }: ReturnType<typeof openNetwork>,
): App {
  const { config, clock } = parts
  const { commit, content, rawMail } = stores
  return {
    ...parts,
    ...stores,
    confirmedNow: () => clock.confirmedNow(),
    clockAheadMs: () => clock.aheadMs(),
    clockSetBack: clock.setBack,
    removeCaptures: (emailIds) => captures.remove(emailIds),
    scrubFiles: async () => {
      await compactSearchIndex({ commit })
      await compactEmailSearch({ commit })
      const committers = [commit, captures.committer, ...content.committers(), ...rawMail.committers()]
      let areClean = true
      for (const committer of committers) areClean = (await scrubDatabase(committer)) && areClean
      return areClean
    },
    findMailboxAddress: (accountId, id) => attempt(() => getMailbox(parts.db, accountId, id))?.address,
    memory: new MemoryBudget(config.memoryBudget),
    fairScheduler: new FairScheduler({ clock, overload: createTooManyPiecesError, maxPerOwner: MAX_PIECES_PER_OWNER }),
    resolver,
    freshResolver,
    fetch,
    ownPorts,
    mailDue: createSignal(),
    webhookChanged: createSignal(),
    mailReceived: createSignal(),
    mailboxChanged: createSignal(),
    noticeDue: createSignal(),
    replied: createSignal(),
    importDue: createSignal(),
    broadcastChanged: createSignal(),
    accessChanged: createSignal(),
    sendingChanged: createSignal(),
    contentDropped: createSignal(),
    removalDue: createSignal(),
    certificatesDue: createSignal(),
  }
}

/** Throws ConfigError for a directory of a cluster: what is written without the log would exist on this node alone. */
export function requireNoCluster({ dataDir, replicate }: Config): void {
  if (!existsSync(join(dataDir, 'replica.json'))) return
  throw new ConfigError(
    replicate === ''
      ? `${dataDir} belongs to a cluster, but TASSIS_REPLICATE is not set; set it, or, to leave the cluster for good with these data, delete replica.json there.`
      : `${dataDir} belongs to a cluster; start the service, and run this command on the node that leads (\`tassis cluster\` names it).`,
  )
}

function createDataDirectory(path: string): void {
  try {
    if (statSync(path, { throwIfNoEntry: false })?.isFile()) throw createNotAFolderError(path)
    mkdirSync(path, { recursive: true, mode: 0o700 })
    requireUsableData(path)
    requireWritable(path)
  } catch (error) {
    throw error instanceof ConfigError ? error : createUnusableError(path, error)
  }
}

/** Throws ConfigError for a folder that cannot be written, such as one on a disk that became read-only. */
export function requireWritable(path: string): void {
  try {
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw createUnusableError(path, error)
  }
}

const createUnusableError = (path: string, error: unknown): ConfigError =>
  new ConfigError(
    `TASSIS_DATA_DIR is "${path}", which cannot be used (${error instanceof Error ? error.message : String(error)}); use a folder that this user may write to.`,
  )

export const createNotAFolderError = (path: string): ConfigError =>
  new ConfigError(`TASSIS_DATA_DIR is "${path}", which is a file; use a folder that this user may write to.`)

/** File in a data directory into which a restore did not end: nothing may start there. */
export const RESTORE_MARKER = 'restore-in-progress'

/**
 * Throws ConfigError when a restore did not end, and when the database is missing or empty but its content or master
 * key exists: a new database would orphan them. An empty content folder alone may be a disk mounted for a first start.
 */
export function requireNoOrphanedContent(dataDir: string): void {
  if (existsSync(join(dataDir, RESTORE_MARKER)))
    throw new ConfigError(
      `A restore into ${dataDir} was interrupted, so its data is incomplete; run \`tassis restore\` again.`,
    )
  const path = join(dataDir, 'tassis.db')
  const sizeBytes = statSync(path, { throwIfNoEntry: false })?.size
  if (sizeBytes !== undefined && sizeBytes > 0) return
  const stores = ['content', 'raw-mail'].map((name) => join(dataDir, name)).filter((folder) => existsSync(folder))
  const hasMonths = stores.some((folder) => readdirSync(folder).some((name) => parseMonthName(name) !== undefined))
  if (!hasMonths && (stores.length === 0 || !existsSync(join(dataDir, 'master.key')))) return
  throw new ConfigError(
    `The database ${path} is ${sizeBytes === undefined ? 'missing' : 'empty'}, but its content exists; restore the data directory from its backup, or, to start with an empty database, move everything in ${dataDir} away first.`,
  )
}

export const RESTORE_REMEDY = 'stop Tassis and restore the data directory from its backup'
const DELETE_CAPTURES_REMEDY = 'stop Tassis and delete this file, which holds only captured mail'

/** Runs `read` on the database at `path`; throws a ConfigError that names a corrupt file and the remedy. */
export function explainCorruption<T>(path: string, remedy: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw toCorruptionError(path, remedy, error)
  }
}

/** Converts SQLite's error for a corrupt database at `path` into a ConfigError; returns any other error unchanged. */
export const toCorruptionError = (path: string, remedy: string, error: unknown): unknown =>
  isDatabaseCorrupt(error) ? new ConfigError(describeCorruption(path, remedy, error)) : error

/** Describes a corrupt file to the operator. @param error SQLite's error */
export const describeCorruption = (path: string, remedy: string, error: unknown): string =>
  `The file ${path} ${isNotADatabase(error) ? 'is not a database' : 'is corrupt'}; ${remedy}.`

export interface OutgoingOptions extends Pick<App, 'config' | 'clock' | 'ownPorts'> {
  readonly resolver: DnsClient
  /** From `readCertificateAuthorities`. */
  readonly authorities: readonly string[] | undefined
}

/** Creates the fetch; it opens no connection until called. */
function createOutgoingFetch({ config, clock, resolver, ownPorts, authorities }: OutgoingOptions): SafeFetch {
  return new SafeFetch({
    clock,
    lookUp: (host) => lookUpHost(resolver, host),
    isDnsWorking: () => resolver.isAnswering(),
    findRefusal(address, port, allowsPrivate) {
      if (!canConnectTo(address, allowsPrivate || config.allowPrivateNetworks)) return NOT_PUBLIC_PROBLEM
      // Refuses the service's own ports even where private networks are allowed: a tenant's request would arrive there
      // from this machine's own address, which may be trusted.
      return ownPorts.has(port) && isOwnAddress(address) ? describeOwnPort(port) : undefined
    },
    ca: authorities,
  })
}

const NOT_PUBLIC_PROBLEM =
  'is private, loopback or reserved; the operator can allow such addresses with TASSIS_ALLOW_PRIVATE_NETWORKS.'

const describeOwnPort = (port: number): string =>
  `is this machine, and port ${port} belongs to the service itself; use the port of your own endpoint.`

async function lookUpHost(resolver: Resolver, host: string): Promise<HostLookup> {
  const found = await resolveHostAddresses(resolver, host, { ipv6: true })
  switch (found.kind) {
    case 'ok':
      return found
    case 'temporary':
      return { kind: 'failed', reason: found.reason, isTemporary: true }
    case 'loop':
      return { kind: 'failed', reason: `The CNAME records of ${host} form a loop.`, isTemporary: false }
    case 'nodata':
    case 'nxdomain':
      return { kind: 'failed', reason: `${host} has no address in DNS.`, isTemporary: false }
  }
}

/** Whether `address` belongs to this machine; IPv4-mapped IPv6 (`::ffff:127.0.0.1`) counts as its IPv4 form. */
function isOwnAddress(address: string): boolean {
  const own = new BlockList()
  own.addSubnet('127.0.0.0', 8, 'ipv4')
  own.addSubnet('0.0.0.0', 8, 'ipv4')
  own.addAddress('::1', 'ipv6')
  own.addAddress('::', 'ipv6')
  // Read on each call: addresses change while the service runs.
  for (const { address: local, family } of Object.values(networkInterfaces()).flatMap((found) => found ?? [])) {
    own.addAddress(local.split('%', 1)[0] ?? '', family === 'IPv6' ? 'ipv6' : 'ipv4')
  }
  return own.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}
