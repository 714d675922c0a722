/**
 * @module A service for the model tests: real database, real scheduler, a clock that the test moves, and Workers that
 * follow the protocol but dial nothing. A crash leaves the files as they are at that moment.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type OpenedApp, openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { startDeadlineLoop } from '#features/sending/delivery/attempt/claim.ts'
import { DeliveryScheduler } from '#features/sending/delivery/schedule/scheduler.ts'
import { startHeldMailReleaser } from '#features/sending/delivery/verdict/held-mail.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createStream } from '#features/setup/streams/streams.ts'
import type { DueLoop } from '#platform/queue/due-loop.ts'
import type { Millis } from '#platform/units.ts'
import type { Answer as DnsAnswer, DnsClient, MxRecord } from '#protocols/dns/resolver.ts'
import { dkimKeyFromFile } from '#test/support/dkim-keys.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { ModelPool, type Receivers } from './pool.ts'

export const SENDER_DOMAIN = 'sender.test'
/** Mail of this stream is worthless after ten minutes. */
export const SHORT_STREAM = 'codes'

export interface ModelOptions {
  /** The MX host of each recipient domain. */
  readonly hosts: ReadonlyMap<string, string>
  readonly receivers: Receivers
  readonly settings?: Readonly<Record<string, string>>
  /** Whether DNS answers now. */
  readonly isDnsUp?: () => boolean
}

const START = Date.UTC(2026, 2, 15, 12, 30)
/** Ticks of the event loop without any activity until nothing more is expected. */
const QUIET_TICKS = 6

/** Creates a data directory with an account, a verified domain and a stream of short life. */
export async function createModelFolder(): Promise<{ readonly folder: string; readonly actor: Actor }> {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-model-'))
  const opened = open(folder, new ManualClock(START), {}, undefined)
  const { app } = opened
  const account = await createAccount(app, { name: 'Model', email: 'owner@tassis.test', plan: 'unlimited' })
  const actor = toOperatorActor(account)
  await createDomain(app, actor, SENDER_DOMAIN)
  await createStream(app, actor, { slug: SHORT_STREAM, name: 'Codes', expires_in: 600 })
  app.db.run('UPDATE domains SET verified_at = 1, next_check_at = 4000000000000')
  await opened.close()
  return { folder, actor }
}

const open = (
  folder: string,
  clock: ManualClock,
  settings: Readonly<Record<string, string>>,
  resolver: DnsClient | undefined,
): OpenedApp =>
  openApp(
    loadConfig({
      TASSIS_DATA_DIR: folder,
      TASSIS_HOSTNAME: 'mail.tassis.test',
      TASSIS_LOG_LEVEL: 'silent',
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
      TASSIS_DNS_SERVERS: '127.0.0.1:9',
      TASSIS_MIN_FREE_DISK: '0',
      TASSIS_WORKERS: '2',
      ...settings,
    }).config,
    { clock, createDkimKey: dkimKeyFromFile, ...(resolver && { resolver }) },
  )

export class ModelService {
  readonly clock: ManualClock
  readonly #options: ModelOptions
  #folder: string
  #opened!: OpenedApp
  #scheduler!: DeliveryScheduler
  #pool!: ModelPool
  #loops: DueLoop[] = []

  private constructor(folder: string, options: ModelOptions, clock: ManualClock) {
    this.#folder = folder
    this.#options = options
    this.clock = clock
  }

  /** Starts a service on a copy of the folder. */
  static async start(folder: string, options: ModelOptions, now: Millis = START): Promise<ModelService> {
    const service = new ModelService(copyFolder(folder), options, new ManualClock(now))
    await service.#start()
    return service
  }

  get app(): App {
    return this.#opened.app
  }

  get scheduler(): DeliveryScheduler {
    return this.#scheduler
  }

  get pool(): ModelPool {
    return this.#pool
  }

  get dataDir(): string {
    return this.#folder
  }

  async #start(): Promise<void> {
    const { settings = {}, receivers } = this.#options
    this.#opened = open(this.#folder, this.clock, settings, createModelResolver(this.#options))
    const { app } = this.#opened
    // Tests also write without the committer.
    app.db.run('PRAGMA busy_timeout = 5000')
    // Nothing here goes to the sandbox or to the simulator.
    const nowhere = { host: '127.0.0.1', port: 9 }
    this.#scheduler = new DeliveryScheduler(
      app,
      { capture: nowhere, simulator: nowhere },
      {
        createPool: (options) => {
          this.#pool = new ModelPool(options, receivers)
          return this.#pool
        },
      },
    )
    await this.#scheduler.start()
    this.#loops = [startDeadlineLoop(app), startHeldMailReleaser(app)]
  }

  /** Waits until nothing happens any more until the clock moves. */
  async settle(): Promise<void> {
    const { app } = this
    for (let quiet = 0, last = ''; quiet < QUIET_TICKS; ) {
      await new Promise(setImmediate)
      await app.commit.barrier()
      const changes = app.db.query<{ n: number }, []>('SELECT total_changes() AS n').get()?.n
      const now = `${changes} ${this.#pool.activity} ${this.#scheduler.inFlight}`
      quiet = now === last ? quiet + 1 : 0
      last = now
    }
  }

  /** Some ticks of the event loop, so that work is interrupted in its middle. */
  async ticks(count: number): Promise<void> {
    for (let tick = 0; tick < count; tick++) await new Promise(setImmediate)
  }

  /**
   * Lets time pass, from timer to timer.
   * @param minStepMs timers that are closer together fire in one step
   */
  async pass(ms: number, minStepMs = 1000, isDone: () => boolean = () => false): Promise<void> {
    for (let leftMs = ms; leftMs > 0 && !isDone(); ) {
      const stepMs = Math.min(leftMs, Math.max(minStepMs, this.clock.msUntilNextTimer()))
      this.clock.advance(stepMs)
      leftMs -= stepMs
      await this.settle()
    }
  }

  /** The process dies now, in the middle of everything, and the next one starts on its files. */
  async crash(): Promise<ModelService> {
    const next = new ModelService(copyFolder(this.#folder), this.#options, new ManualClock(this.clock.now()))
    this.#pool.crash()
    await this.close()
    await next.#start()
    return next
  }

  /** Stops in order, and starts again. */
  async restart(): Promise<ModelService> {
    await this.#stop()
    const next = new ModelService(this.#folder, this.#options, new ManualClock(this.clock.now()))
    await next.#start()
    return next
  }

  async close(): Promise<void> {
    await this.#stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #stop(): Promise<void> {
    let hasStopped = false
    const stopping = (async () => {
      for (const loop of this.#loops) await loop.stop()
      await this.#scheduler.stop()
      await this.#opened.close()
    })().finally(() => {
      hasStopped = true
    })
    // The grace period of a stop passes by this clock.
    while (!hasStopped) {
      await new Promise(setImmediate)
      this.clock.advance(1000)
    }
    await stopping
  }
}

/** Copies the files in one tick, as they would be found after the death of the process. */
function copyFolder(folder: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'tassis-model-'))
  cpSync(folder, copy, { recursive: true, filter: (path) => !path.endsWith('/lock') })
  return copy
}

const OK = { ttlSeconds: 300, kind: 'ok' } as const

/** DNS with one MX host for each domain, all on the loopback address. */
function createModelResolver({ hosts, isDnsUp = () => true }: ModelOptions): DnsClient {
  const addresses = new Map([...new Set(hosts.values())].map((host, index) => [host, `127.0.0.${index + 2}`]))
  const answer = async <T>(records: readonly T[]): Promise<DnsAnswer<T>> =>
    isDnsUp() ? (records.length > 0 ? { ...OK, records } : { kind: 'nodata' }) : { kind: 'servfail' }
  const nothing = () => answer<never>([])
  return {
    mx: (name) => {
      const exchange = hosts.get(name)
      return answer<MxRecord>(exchange === undefined ? [] : [{ preference: 1, exchange }])
    },
    a: (name) => {
      const address = addresses.get(name)
      return answer(address === undefined ? [] : [address])
    },
    aaaa: nothing,
    txt: nothing,
    cname: nothing,
    ns: nothing,
    ptr: nothing,
    tlsa: nothing,
    isValidating: async () => false,
    isAnswering: async () => true,
    close: () => undefined,
    [Symbol.dispose]: () => undefined,
  }
}
