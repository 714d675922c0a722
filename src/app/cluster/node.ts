/**
 * @module A node of a cluster until it leads: joins the log in PostgreSQL, brings its directory to the end of it, follows,
 * and takes over when the leader has stopped or is silent. Never opens a database with SQLite, but for the write-ahead
 * logs that a crash of this node left while it led.
 */
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { lockDirectory } from '#platform/disk/lock.ts'
import { isLocked, isTransientError, toPublicReason } from '#platform/disk/storage-errors.ts'
import { attempt } from '#platform/errors.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import type { Log } from '#platform/log/log.ts'
import { Follower, TooFarBehindError } from '#platform/replication/follower.ts'
import { type ClusterRow, type FailoverReason, type NodeReport, ReplicationLog } from '#platform/replication/log.ts'
import { type Position, readPosition, writePosition } from '#platform/replication/position.ts'
import { Postgres, PostgresRefusedError, PostgresUnreachableError } from '#platform/replication/postgres.ts'
import { emptyWals } from '#platform/replication/recover.ts'
import { FORMAT } from '#platform/replication/tables.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import { listOutboundIps } from '#platform/settings/outbound-source.ts'
import { sleepUntilAborted, systemClock } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'
import { DataDirInUseError } from '../create.ts'
import { openKeyRing } from '../master-key.ts'
import { migrations } from '../migrations.ts'
import { VERSION } from '../version.ts'
import { Member } from './member.ts'
import { restoreSnapshot, STAGING } from './snapshot.ts'
import { StandbyServer } from './standby-server.ts'
import { readClusterStatus } from './status.ts'

/** How often a standby looks at the log: one statement that reads one row. */
const POLL_INTERVAL_MS = 100
const REPORT_INTERVAL_MS = seconds(1)
const RETRY_DELAY_MS = 500
const LOG_INTERVAL_MS = minutes(1)
/** The position of a directory that has nothing of the log. */
const NOTHING = { seq: 0, crc: 0, epoch: 0, wals: {} }

/**
 * Resolves when this node leads; undefined when `ending` came first. Waits as long as PostgreSQL cannot be reached. Throws
 * ConfigError with one sentence when an operator has to change something.
 */
export async function joinCluster(config: Config, log: Log, ending: AbortSignal): Promise<Member | undefined> {
  mkdirSync(config.dataDir, { recursive: true, mode: 0o700 })
  const lock = lockDirectory(config.dataDir)
  if (!lock)
    throw new DataDirInUseError(
      `Another process is using ${config.dataDir}; stop it, or give this one another TASSIS_DATA_DIR.`,
    )
  rmSync(join(config.dataDir, STAGING), { recursive: true, force: true })
  const server = new StandbyServer(config)
  const node = new Node(config, log, server, ending)
  try {
    const position = await node.run()
    return position && new Member({ config, log, position, report: node.describe('leader', 'leading') })
  } finally {
    await node.close()
    await server.stop()
    lock.release()
  }
}

class Node {
  readonly #config: Config
  readonly #logger: Log
  readonly #server: StandbyServer
  readonly #ending: AbortSignal
  readonly #log: ReplicationLog
  readonly #directory: string
  #follower: Follower | undefined
  /** Whether the log was recognised since the last connection. */
  #isSameLog = false
  #loggedAtMs = Number.NEGATIVE_INFINITY
  #reportedAtMs = Number.NEGATIVE_INFINITY
  /** The key of the cluster, once this node was found to have it. */
  #ownKey = ''
  /** The leader that the log named last. */
  #followed = ''
  /** The last heartbeat or append of the leader, and when it was new. */
  #heartbeat = ''
  #aliveAtMs = systemClock.monotonicMs()
  /** When this node last had all of the log. */
  #currentAtMs = systemClock.monotonicMs()

  constructor(config: Config, log: Log, server: StandbyServer, ending: AbortSignal) {
    this.#config = config
    this.#logger = log
    this.#server = server
    this.#ending = ending
    this.#log = new ReplicationLog(new Postgres(config.replicate))
    this.#directory = readPosition(config.dataDir)?.directory ?? formatUuid(newUuid())
  }

  /** Resolves with the position from which this node leads; undefined when it was ended. */
  async run(): Promise<Position | undefined> {
    while (!this.#ending.aborted) {
      try {
        const position = await this.#step()
        if (position) return position
        await sleepUntilAborted(systemClock, POLL_INTERVAL_MS, this.#ending)
      } catch (error) {
        if (error instanceof TooFarBehindError) await this.#startOver(error.message)
        else if (error instanceof PostgresUnreachableError)
          await this.#waitFor('it cannot reach PostgreSQL', error.message)
        else if (this.#isMendable(error)) await this.#waitFor('PostgreSQL refuses it', error.message)
        else if (isLocked(error)) await this.#waitFor('another process reads its databases', toPublicReason(error))
        // A full disk, for instance: what was not applied as a whole is applied again.
        else if (isTransientError(error)) await this.#waitFor('its disk or system failed', toPublicReason(error))
        else throw error
      }
    }
    await this.#follower?.save()
    await this.#log.leave(this.#config.node).catch(() => undefined)
    return undefined
  }

  /** Whether an error of the settings or of PostgreSQL came up later: a node that has joined waits until it is mended. */
  #isMendable(error: unknown): error is PostgresRefusedError {
    return error instanceof PostgresRefusedError && readPosition(this.#config.dataDir) !== undefined
  }

  async close(): Promise<void> {
    this.#follower?.close()
    await this.#log.postgres.close()
  }

  describe(
    role: NodeReport['role'],
    state: NodeReport['state'],
    applied = this.#follower?.position.seq ?? 0,
  ): NodeReport {
    const { node, hostname, outboundIps } = this.#config
    return {
      name: node,
      directory: this.#directory,
      role,
      state,
      version: VERSION,
      hostname,
      outboundIps: listOutboundIps(outboundIps),
      applied,
      lagMs: Math.round(systemClock.monotonicMs() - this.#currentAtMs),
    }
  }

  /** One look at the log. */
  async #step(): Promise<Position | undefined> {
    const row = await this.#readCluster()
    this.#server.show(row, this.#follower)
    this.#logLeader(row)
    const follower = this.#follower
    if (!follower) return this.#join(row)
    if (!this.#isSameLog) await follower.requireSameLog()
    this.#isSameLog = true
    if (follower.applied < row.seq) await follower.catchUp()
    if (follower.applied >= row.seq) this.#currentAtMs = systemClock.monotonicMs()
    await this.#report('following')
    const reason = this.#findReason(row)
    if (!reason) return undefined
    // What was not on disk before a crash of the leader was acknowledged nevertheless.
    await follower.save()
    const epoch = await this.#takeOver(row, follower.applied, reason)
    if (epoch === undefined) return undefined
    this.#logger.warn({ epoch, seq: follower.applied, from: row.leader, reason }, 'this node leads now')
    return follower.lead(epoch)
  }

  /** Says in the log whom this node follows, when that has changed, and after a problem. */
  #logLeader({ leader, released, epoch }: ClusterRow): void {
    const followed = released || !this.#follower ? '' : leader
    if (followed !== '' && followed !== this.#followed) this.#logger.info({ leader, epoch }, 'this node follows')
    this.#followed = followed
  }

  /** The row of the cluster, which this node can work with. */
  async #readCluster(): Promise<ClusterRow> {
    const { dataDir } = this.#config
    const position = this.#follower?.position ?? readPosition(dataDir)
    const row = this.#follower || (await this.#log.hasTables()) ? await this.#log.readCluster() : undefined
    if (!row && position)
      throw new ConfigError(
        `The log in PostgreSQL is empty, but ${dataDir} belongs to the cluster ${position.cluster}. Restore the tables tassis_*, or, if they were dropped on purpose, delete replica.json on the node that led last and start that node first.`,
      )
    if (!row) return this.#beginLog()
    if (position && position.cluster !== row.id)
      throw new ConfigError(
        `${dataDir} belongs to the cluster ${position.cluster}, but the log in PostgreSQL is that of ${row.id}; correct TASSIS_REPLICATE, or move the directory away to join this cluster.`,
      )
    if (position && !position.isCopying && (this.#follower?.applied ?? position.seq) > row.seq)
      throw new ConfigError(
        `The log in PostgreSQL ends at ${row.seq}, but ${dataDir} has it up to ${this.#follower?.applied ?? position.seq}: PostgreSQL was restored from an older state or lost commits. See docs/scaling.md, "If PostgreSQL has lost something".`,
      )
    if (row.format > FORMAT || (row.schema !== '' && !migrations.some(({ name }) => name === row.schema)))
      throw new ConfigError(
        `The leader runs Tassis ${row.version}, which is newer than this node (${VERSION}) and whose database it cannot read; upgrade this node.`,
      )
    // Before the key is looked at: these data need their own.
    if (!position && !this.#mayBegin(row) && existsSync(join(dataDir, 'tassis.db')))
      throw new ConfigError(
        `${dataDir} has data, but belongs to no cluster, and the log in PostgreSQL is that of the cluster ${row.id}. To join it, move the directory away and give the new one the master.key of the leader; to begin a cluster with these data, use an empty database of PostgreSQL.`,
      )
    this.#requireKey(row)
    return row
  }

  /** Whether a node without a position may be the first of the cluster. */
  #mayBegin({ seq, epoch, leader }: ClusterRow): boolean {
    return seq === 0 && (epoch === 0 || leader === this.#config.node)
  }

  #requireKey({ keyFingerprint }: ClusterRow): void {
    if (keyFingerprint === this.#ownKey) return
    const ring = attempt(() => openKeyRing(this.#config, false))
    if (!ring?.fingerprints().includes(keyFingerprint))
      throw new ConfigError(
        `The master key of this node is ${ring ? 'not that of its cluster' : 'missing or cannot be read'} (the cluster has ${keyFingerprint.slice(0, 12)}); copy master.key from the leader.`,
      )
    this.#ownKey = keyFingerprint
  }

  async #beginLog(): Promise<ClusterRow> {
    const isNew = !existsSync(join(this.#config.dataDir, 'tassis.db'))
    const [fingerprint = ''] = openKeyRing(this.#config, isNew).fingerprints()
    await this.#log.createTables()
    await this.#log.begin(formatUuid(newUuid()), fingerprint, VERSION)
    const row = await this.#log.readCluster()
    if (!row) throw new PostgresUnreachableError('the log was emptied while it was begun')
    this.#requireKey(row)
    return row
  }

  /** Begins to follow; as the first node of a new cluster, leads. */
  async #join(row: ClusterRow): Promise<Position | undefined> {
    const { dataDir } = this.#config
    const position = readPosition(dataDir)
    if (position && !position.isCopying) {
      const follower = new Follower(this.#log, dataDir, position)
      await this.#requireOwnName('following', position.seq)
      await follower.recover()
      this.#follower = follower
      return undefined
    }
    if (!position && this.#mayBegin(row)) return this.#leadFirst(row)
    await this.#requireOwnName('copying', 0)
    await this.#report('copying')
    const copied = await restoreSnapshot({
      log: this.#log,
      dataDir,
      empty: { ...NOTHING, cluster: row.id, directory: this.#directory },
      onWait: () => this.#report('copying'),
      ending: this.#ending,
    })
    if (copied) this.#logger.info({ seq: copied.seq }, 'all data copied from the leader')
    this.#follower = copied && new Follower(this.#log, dataDir, copied)
    return undefined
  }

  async #leadFirst(row: ClusterRow): Promise<Position | undefined> {
    const { dataDir } = this.#config
    emptyWals(dataDir)
    const epoch = await this.#takeOver(row, 0, 'stop')
    if (epoch === undefined) return undefined
    const position = { ...NOTHING, cluster: row.id, directory: this.#directory, epoch }
    writePosition(dataDir, position)
    this.#logger.info({ epoch, cluster: row.id }, 'this node begins a cluster')
    return position
  }

  #takeOver(row: ClusterRow, applied: number, reason: FailoverReason): Promise<number | undefined> {
    const by = { node: this.#config.node, version: VERSION, schema: migrations.at(-1)?.name ?? '' }
    return this.#log.takeOver(row, applied, by, reason)
  }

  /** The files cannot be brought to the end of the log, so they are copied again. */
  async #startOver(reason: string): Promise<void> {
    const { dataDir } = this.#config
    const position = readPosition(dataDir)
    this.#logger.warn({ reason }, 'too far behind: copying all data from the leader')
    this.#follower?.close()
    this.#follower = undefined
    if (position) writePosition(dataDir, { ...position, ...NOTHING, isCopying: true })
  }

  /** Why this node may take over; undefined when it may not. */
  #findReason(row: ClusterRow): FailoverReason | undefined {
    const { node, takeoverSeconds } = this.#config
    const nowMs = systemClock.monotonicMs()
    const heartbeat = `${row.epoch} ${row.seq} ${row.at}`
    if (heartbeat !== this.#heartbeat) {
      this.#heartbeat = heartbeat
      this.#aliveAtMs = nowMs
    }
    const isSilent = nowMs - this.#aliveAtMs >= seconds(takeoverSeconds)
    // The lock on the directory shows that the process which led from here is gone.
    if (!row.released) return row.leader === node || isSilent ? 'silence' : undefined
    const isMeant = row.stepDown ? (row.wanted === '' ? row.leader !== node : row.wanted === node) : true
    return isMeant || isSilent ? (row.stepDown ? 'step_down' : 'stop') : undefined
  }

  async #report(state: NodeReport['state']): Promise<void> {
    const nowMs = systemClock.monotonicMs()
    if (nowMs - this.#reportedAtMs < REPORT_INTERVAL_MS) return
    this.#reportedAtMs = nowMs
    await this.#follower?.save()
    await this.#log.report(this.describe('standby', state))
    this.#server.showStatus(await this.#log.postgres.use(readClusterStatus))
  }

  /** Another directory with this name would be taken for this one. */
  async #requireOwnName(state: NodeReport['state'], applied: number): Promise<void> {
    if (await this.#log.report(this.describe('standby', state, applied))) return
    throw new ConfigError(
      `Another node is named ${this.#config.node}; give each its own TASSIS_NODE. If this node replaces that one, start it 15 s after the other has stopped.`,
    )
  }

  async #waitFor(problem: string, reason: string): Promise<void> {
    const nowMs = systemClock.monotonicMs()
    // Nobody knows whether the leader was silent meanwhile.
    this.#heartbeat = ''
    this.#followed = ''
    this.#isSameLog = false
    this.#server.showProblem(problem)
    if (nowMs - this.#loggedAtMs >= LOG_INTERVAL_MS) {
      this.#loggedAtMs = nowMs
      this.#logger.error({ reason }, `cannot follow the log: ${problem}; trying again`)
    }
    await sleepUntilAborted(systemClock, RETRY_DELAY_MS, this.#ending)
  }
}
