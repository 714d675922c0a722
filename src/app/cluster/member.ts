/**
 * @module A node while it leads: heartbeats, what it reports of itself, the position of its directory, rows of the log
 * that nobody needs, snapshots for nodes that ask, and how it stops leading. A node that loses the lead is in an unknown
 * state, as after a failed sync, so its process replaces itself and begins anew.
 */
import type { ClusterView } from '#features/core/app/app.ts'
import type { Log } from '#platform/log/log.ts'
import { endProcess } from '#platform/process/end.ts'
import { startWorker } from '#platform/process/workers.ts'
import type { ClusterStatus } from '#platform/replication/cluster-status.ts'
import { Leader } from '#platform/replication/leader.ts'
import { type NodeReport, ReplicationLog } from '#platform/replication/log.ts'
import type { Position } from '#platform/replication/position.ts'
import { Postgres } from '#platform/replication/postgres.ts'
import { LogWriter } from '#platform/replication/writer.ts'
import type { Config } from '#platform/settings/config.ts'
import { sleepUntilAborted, systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import type { OpenedApp } from '../create.ts'
import type { Heartbeat } from './heartbeat-worker.ts'
import { SnapshotMaker } from './snapshot.ts'
import { readClusterStatus } from './status.ts'

export interface MemberOptions {
  readonly config: Config
  readonly log: Log
  readonly position: Position
  readonly report: NodeReport
}

/** Between two heartbeats, and between two rounds of housekeeping. */
const INTERVAL_MS = seconds(1)
/** A leader that PostgreSQL has not answered for so long stops. */
const MAX_SILENCE_MS = seconds(4)
const TRIM_INTERVAL_MS = seconds(10)
/** Time in which the last 503 reaches its clients. */
const LAST_RESPONSES_MS = 200

/** A state that was read longer ago counts as unknown. */
const MAX_STATUS_AGE_MS = seconds(15)

export class Member implements ClusterView {
  readonly replica: Leader
  readonly #options: MemberOptions
  readonly #log: ReplicationLog
  /** For what may take long: it must not wait for the appends, nor they for it. */
  readonly #background: ReplicationLog
  readonly #ended = new AbortController()
  readonly #loops: Promise<void>[]
  readonly #snapshots: SnapshotMaker
  readonly #heartbeat = startWorker('heartbeat')
  /** Whether the process is about to replace itself. */
  isLost = false
  #opened: OpenedApp | undefined
  #status: ClusterStatus | undefined
  #readAtMs = 0
  /** Called when an operator wants another node to lead. */
  onStepDown: () => void = () => undefined
  /** The process shall end, so it must not begin anew. */
  isEnding = false

  constructor(options: MemberOptions) {
    const { config, position } = options
    this.#options = options
    this.#log = new ReplicationLog(new Postgres(config.replicate))
    this.#background = new ReplicationLog(new Postgres(config.replicate))
    const writer = new LogWriter(this.#log, {
      epoch: position.epoch,
      seq: position.seq,
      crc: position.crc,
      onLost: (reason) => this.#end(reason),
      onAppended: (durationMs, bytes) => this.#opened?.app.metrics.appended(durationMs, bytes),
    })
    this.replica = new Leader(config.dataDir, position, writer)
    this.#snapshots = new SnapshotMaker(config, this.#background, () => this.#touchDatabases())
    this.#loops = [this.#sendHeartbeats(), this.#doHousekeeping()]
    this.#heartbeat.postMessage({ url: config.replicate, epoch: position.epoch } satisfies Heartbeat)
  }

  /** Tells what this node has opened, once the service has started; before that, it makes no snapshot. */
  attach(opened: OpenedApp): void {
    this.#opened = opened
    this.#heartbeat.terminate()
  }

  status(): ClusterStatus | undefined {
    return systemClock.monotonicMs() - this.#readAtMs < MAX_STATUS_AGE_MS ? this.#status : undefined
  }

  nodes(): ClusterStatus['nodes'] {
    return this.#status?.nodes ?? []
  }

  stepDown(to = ''): Promise<void> {
    return this.#background.requestStepDown(to)
  }

  /** When the service could not start: lets another node take over. The databases may be open, so the process must be killed. */
  async abandon(): Promise<void> {
    this.#ended.abort()
    if (!this.isLost) await this.#log.release(this.#options.position.epoch).catch(() => undefined)
  }

  /** After the service has stopped: lets another node take over at once. */
  async leave(): Promise<void> {
    const { log, position } = this.#options
    this.#ended.abort()
    await Promise.all(this.#loops)
    await this.replica.writer.idle()
    // Some databases may still be open.
    if (this.isLost) this.#restart()
    this.replica.settle()
    await this.#log.release(position.epoch).catch((error: unknown) => {
      log.warn({ err: error }, 'PostgreSQL does not know that this node has stopped; another takes over after a while')
    })
    await Promise.all([this.#log.postgres.close(), this.#background.postgres.close()])
  }

  /** Sends a heartbeat every second, and learns whether it still leads. */
  async #sendHeartbeats(): Promise<void> {
    const { position } = this.#options
    const { writer } = this.replica
    let answeredAtMs = systemClock.monotonicMs()
    while (!this.#ended.signal.aborted && !this.isLost) {
      try {
        const head = await this.#log.confirm(position.epoch)
        if (!head) writer.lose('another node leads now')
        else if (head.stepDown) this.onStepDown()
        answeredAtMs = systemClock.monotonicMs()
      } catch (error) {
        const silentMs = systemClock.monotonicMs() - Math.max(answeredAtMs, writer.confirmedAtMs)
        if (silentMs > MAX_SILENCE_MS) writer.lose(error instanceof Error ? error.message : String(error))
      }
      await sleepUntilAborted(systemClock, INTERVAL_MS, this.#ended.signal)
    }
  }

  async #doHousekeeping(): Promise<void> {
    const { log, position, report } = this.#options
    let trimmedAtMs = systemClock.monotonicMs()
    let namedKey: string | undefined
    while (!this.#ended.signal.aborted && !this.isLost) {
      try {
        await this.replica.savePosition()
        await this.#background.report({ ...report, applied: this.replica.savedSeq, lagMs: 0 })
        this.#status = await this.#background.postgres.use(readClusterStatus)
        this.#readAtMs = systemClock.monotonicMs()
        const key = this.#opened?.app.keys.fingerprint()
        if (key !== undefined && key !== namedKey) await this.#background.nameKey(position.epoch, key)
        namedKey = key
        if (systemClock.monotonicMs() - trimmedAtMs > TRIM_INTERVAL_MS) {
          trimmedAtMs = systemClock.monotonicMs()
          await this.#background.trim()
          await this.#snapshots.removeUnused()
        }
        if (this.#opened)
          this.#snapshots.makeIfWanted((error) => log.error({ err: error }, 'no snapshot for a new node'))
      } catch (error) {
        // The heartbeats find out whether it lasts.
        log.warn({ err: error }, 'the housekeeping of the cluster failed; it is tried again')
      }
      await sleepUntilAborted(systemClock, INTERVAL_MS, this.#ended.signal)
    }
    await this.#snapshots.stop()
  }

  async #touchDatabases(): Promise<void> {
    if (!this.#opened) return
    const { commit, content, rawMail } = this.#opened.app
    for (const committer of [commit, ...content.committers(), ...rawMail.committers()])
      await committer.writeFromReserve(({ db }) => void db.run('PRAGMA user_version = 1'))
  }

  #restart(): never {
    return this.isEnding ? endProcess(true) : restartProcess()
  }

  #end(reason: string): void {
    if (this.isLost) return
    this.isLost = true
    this.#options.log.fatal({ reason }, 'this node no longer leads; its process begins anew')
    systemClock.after(LAST_RESPONSES_MS, () => this.#restart())
  }
}

/** Replaces this process by a new one with the same arguments, as after a crash: no file is closed in order. */
export function restartProcess(): never {
  const own = Bun.isStandaloneExecutable ? process.argv.slice(2) : [...process.execArgv, ...process.argv.slice(1)]
  try {
    process.execve?.(process.execPath, [process.execPath, ...own])
  } catch {
    // A supervisor starts it again.
  }
  endProcess(true)
}
