/** @module A node of the cluster under test: a process of its own with its data directory and ports. */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { runTassis, type ServiceProcess, type Settings, startService } from '#test/kill/service.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { postgresUrl } from '#test/support/postgres.ts'
import { type Relay, startRelay } from '#test/support/relay.ts'

export const NODE_NAMES = ['a', 'b', 'c'] as const
export type NodeName = (typeof NODE_NAMES)[number]

const LOOK_INTERVAL_MS = 50
const LOOK_TIMEOUT_MS = 1000
/** As an init system does. */
const RESTART_DELAY_MS = 200

export interface NodePorts {
  readonly http: number
  readonly submission: number
  readonly inbound: number
}

export class ClusterNode {
  readonly name: NodeName
  readonly dataDir: string
  readonly ports: NodePorts
  /** Where its outgoing mail comes from. */
  readonly address: string
  readonly settings: Settings
  /** Between it and each PostgreSQL server. */
  readonly relays: readonly Relay[]
  readonly logFile: string
  /** Since when it says that it is ready, on the monotonic clock. */
  readySinceMs: number | undefined
  /** Unexpected ends of its process so far: exit codes. */
  readonly ends: number[] = []
  #process: ServiceProcess | undefined
  #isWanted = false
  #isWatched = true

  private constructor(name: NodeName, folder: string, ports: NodePorts, relays: readonly Relay[], settings: Settings) {
    this.name = name
    this.dataDir = join(folder, name)
    this.logFile = join(folder, `${name}.log`)
    this.ports = ports
    this.relays = relays
    this.address = `127.0.0.${11 + NODE_NAMES.indexOf(name)}`
    this.settings = {
      PATH: process.env['PATH'] ?? '',
      TASSIS_DATA_DIR: this.dataDir,
      TASSIS_HTTP_ADDR: `127.0.0.1:${ports.http}`,
      TASSIS_SUBMISSION_TLS_ADDR: `127.0.0.1:${ports.submission}`,
      TASSIS_INBOUND_ADDR: `127.0.0.1:${ports.inbound}`,
      TASSIS_OUTBOUND_IPS: this.address,
      TASSIS_NODE: name,
      TASSIS_REPLICATE: postgresUrl(...relays.map(({ port }) => port)),
      ...settings,
    }
    void this.#watch()
  }

  /**
   * @param postgresPorts of the PostgreSQL servers, which the node reaches through relays
   * @param settings those that all nodes share
   */
  static async create(
    name: NodeName,
    folder: string,
    postgresPorts: readonly number[],
    settings: Settings,
  ): Promise<ClusterNode> {
    const [http, submission, inbound] = await Promise.all([findFreePort(), findFreePort(), findFreePort()])
    const relays = await Promise.all(postgresPorts.map((port) => startRelay(port)))
    return new ClusterNode(name, folder, { http, submission, inbound }, relays, settings)
  }

  get url(): string {
    return `http://127.0.0.1:${this.ports.http}`
  }

  get isRunning(): boolean {
    return this.#process?.isRunning() ?? false
  }

  /** Starts its process, again whenever it ends by itself. */
  start(): void {
    if (this.isRunning) return
    this.#isWanted = true
    const started = startService(this.settings, this.logFile)
    this.#process = started
    void started.exited.then(async (code) => {
      if (this.#process !== started || !this.#isWanted) return
      this.ends.push(code)
      await Bun.sleep(RESTART_DELAY_MS)
      if (this.#isWanted) this.start()
    })
  }

  async kill(): Promise<void> {
    this.#isWanted = false
    this.readySinceMs = undefined
    await this.#process?.kill()
  }

  /** Stops it cleanly; resolves with the exit code. */
  async stop(): Promise<number | undefined> {
    this.#isWanted = false
    return this.isRunning ? await this.#process?.stop() : undefined
  }

  /** Stops its process in its tracks until `resume`. */
  pause(): void {
    if (this.#process) process.kill(this.#process.pid, 'SIGSTOP')
  }

  resume(): void {
    if (this.isRunning && this.#process) process.kill(this.#process.pid, 'SIGCONT')
  }

  /** Runs a command with its settings. */
  run(...args: string[]): Promise<{ code: number; output: string }> {
    return runTassis(this.settings, ...args)
  }

  cutFromPostgres(): void {
    for (const relay of this.relays) relay.cut()
  }

  healToPostgres(): void {
    for (const relay of this.relays) relay.heal()
  }

  /** Removes all that it has, as on a new machine. */
  wipe(): void {
    rmSync(this.dataDir, { recursive: true, force: true })
  }

  /** How far its directory goes; undefined where it is not known. */
  readPosition(): number | undefined {
    try {
      const position = JSON.parse(readFileSync(join(this.dataDir, 'replica.json'), 'utf8')) as { seq?: unknown }
      return Number(position.seq)
    } catch {
      return undefined
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isWatched = false
    await this.kill()
    for (const relay of this.relays) await relay[Symbol.asyncDispose]()
  }

  async #watch(): Promise<void> {
    while (this.#isWatched) {
      const isReady = this.isRunning && (await isOk(`${this.url}/readyz`))
      this.readySinceMs = isReady ? (this.readySinceMs ?? performance.now()) : undefined
      await Bun.sleep(LOOK_INTERVAL_MS)
    }
  }
}

async function isOk(url: string): Promise<boolean> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(LOOK_TIMEOUT_MS) })
    await answer.arrayBuffer()
    return answer.ok
  } catch {
    return false
  }
}
