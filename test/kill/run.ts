/** @module Shared by the kill tests: arguments, the service that is killed and restarted, and the end of a run. */
import { Database } from 'bun:sqlite'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startDnsServer } from '#test/support/dns-server.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { type Random, seededRandom } from '#test/support/random.ts'
import { startSink } from '#test/support/sink.ts'
import {
  prepareAccount,
  runTassis,
  type ServiceProcess,
  type Settings,
  startService,
  waitUntilReady,
} from './service.ts'

const HELP = `scripts/kill-test [--KIND] [--rounds N] [--contacts N] [--seed S] [--keep]

Kills a real service under load, N times (30), and proves that no accepted email is lost or sent twice. KIND, which comes
first:
  --webhooks   proves instead that a webhook misses no event and gets none again without need
  --inbound    proves instead that every message accepted with 250 is stored exactly once
  --submission proves instead that a message submitted by SMTP is not lost after its 250, nor doubled with a key
  --broadcast  proves instead that every contact of a list gets exactly one email of a broadcast
  --creations  proves instead that a creation that is repeated with its idempotency key creates one thing
  --drafts     proves instead that a draft released by several people at once is sent once
  --keys       proves instead that every secret opens and every signature is valid while keys are rotated
Further options:
  --contacts   number of contacts on the list of the broadcast (100,000)
  --seed S     repeats the random choices of another run, which prints its seed
  --keep       keeps the data directory, which is otherwise kept only after a failure
Exit code 1 when a promise was broken.`

const MAX_ROUNDS = 1000
const MAX_CONTACTS = 1_000_000
const MAX_VIOLATIONS_SHOWN = 30

interface KillArguments {
  readonly rounds: number
  readonly seed: number
  readonly keeps: boolean
  /** Contacts on the list of the broadcast. */
  readonly contacts: number
}

/** What every kill test begins and ends with. */
export class KillRun {
  readonly rounds: number
  readonly seed: number
  readonly contacts: number
  readonly random: Random
  readonly folder = createFolder()
  /** Broken promises, one sentence each. */
  readonly violations: string[] = []
  readonly #keeps: boolean

  /** Reads the arguments. Prints the help and exits for --help or invalid arguments. */
  constructor() {
    const { rounds, seed, keeps, contacts } = readArguments()
    this.rounds = rounds
    this.seed = seed
    this.contacts = contacts
    this.random = seededRandom(seed)
    this.#keeps = keeps
    console.log(`seed ${seed}, ${rounds} rounds`)
  }

  /** The service that is killed, with additional settings; not started yet. */
  createService(settings: Settings): Promise<KilledService> {
    return KilledService.make(this.folder, settings)
  }

  /** The same, which delivers the mail for receiver.test to a sink; `zone` is what its resolver answers. */
  async createDelivering() {
    const sink = await startSink()
    const dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
    const service = await this.createService({
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_SMTP_PORT: String(sink.port),
      TASSIS_MIN_FREE_DISK: '0',
    })
    return { service, sink, zone: dns.zone, account: await prepareAccount(service.settings) }
  }

  /**
   * Runs `work`, which collects violations, stops the service, which must be running then, and reads what it left. An
   * error is also a violation. Afterwards no service is running.
   */
  async collect(service: KilledService, work: () => Promise<void>, readRest?: () => void): Promise<void> {
    try {
      await work()
      this.violations.push(...(await service.stop()))
      readRest?.()
    } catch (error) {
      this.violations.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
    } finally {
      await service.running?.kill()
    }
  }

  /** Runs rounds until one breaks a promise. */
  async runRounds(round: (number: number) => Promise<void>): Promise<void> {
    for (let number = 1; number <= this.rounds && this.violations.length === 0; number++) await round(number)
  }

  /** Prints the broken promises and a summary, and ends the program. Removes the folder unless it must be kept. */
  end(summary: string): never {
    const { violations, folder } = this
    for (const violation of violations.slice(0, MAX_VIOLATIONS_SHOWN)) console.log(`VIOLATION ${violation}`)
    console.log(summary)
    if (violations.length > 0 || this.#keeps) console.log(`Data and log are kept in ${folder}`)
    else rmSync(folder, { recursive: true, force: true })
    process.exit(violations.length > 0 ? 1 : 0)
  }
}

function readArguments(): KillArguments {
  const values = parseKillArguments()
  if (values?.help) {
    console.log(HELP)
    process.exit(0)
  }
  const rounds = Number(values?.rounds)
  const seed = values?.seed === undefined ? Math.floor(Math.random() * 1_000_000) : Number(values.seed)
  const areRounds = Number.isInteger(rounds) && rounds >= 1 && rounds <= MAX_ROUNDS
  const contacts = Number(values?.contacts)
  const areContacts = Number.isInteger(contacts) && contacts >= 100 && contacts <= MAX_CONTACTS
  if (!values || !areRounds || !areContacts || !Number.isInteger(seed)) {
    console.error(HELP)
    process.exit(2)
  }
  return { rounds, seed, keeps: values.keep, contacts }
}

function parseKillArguments() {
  try {
    return parseArgs({
      options: {
        contacts: { type: 'string', default: '100000' },
        rounds: { type: 'string', default: '30' },
        seed: { type: 'string' },
        keep: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    }).values
  } catch {
    return undefined
  }
}

/** A data directory and the successive runs of the service on it. */
export class KilledService {
  readonly settings: Settings
  readonly url: string
  readonly #logFile: string
  #process: ServiceProcess | undefined

  private constructor(folder: string, port: number, settings: Settings) {
    this.#logFile = join(folder, 'service.log')
    this.url = `http://127.0.0.1:${port}`
    this.settings = {
      PATH: process.env['PATH'] ?? '',
      TASSIS_DATA_DIR: join(folder, 'data'),
      TASSIS_HTTP_ADDR: `127.0.0.1:${port}`,
      TASSIS_HOSTNAME: 'mail.kill.test',
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
      TASSIS_LOG_LEVEL: 'warn',
      ...settings,
    }
    for (const signal of ['SIGINT', 'SIGTERM'] as const)
      process.on(signal, () => void this.#process?.kill().finally(() => process.exit(130)))
  }

  /** Creates the service in `folder` with additional settings, without starting it. */
  static async make(folder: string, settings: Settings): Promise<KilledService> {
    return new KilledService(folder, await findFreePort(), settings)
  }

  /** The current process. */
  get running(): ServiceProcess | undefined {
    return this.#process?.isRunning() ? this.#process : undefined
  }

  /** Starts the next run without waiting until it serves. */
  begin(): ServiceProcess {
    this.#process = startService(this.settings, this.#logFile)
    return this.#process
  }

  /** Starts the next run; resolves when it serves. */
  async start(): Promise<ServiceProcess> {
    const started = this.begin()
    await waitUntilReady(started, this.url)
    return started
  }

  /** Opens its database read-only, beside the service or after its death. */
  openBooks(): Database {
    const db = new Database(this.file('tassis.db'), { readonly: true })
    db.run('PRAGMA busy_timeout = 5000')
    return db
  }

  /** Returns the path of a file in its data directory. */
  file(name: string): string {
    return join(this.settings['TASSIS_DATA_DIR'] ?? '', name)
  }

  /** Stops the service; returns problems of its shutdown and those that `tassis check` finds afterwards. */
  async stop(): Promise<string[]> {
    const exitCode = await this.#process?.stop()
    const violations = exitCode === 0 ? [] : [`the service ended with ${exitCode} when it was stopped`]
    const { code, output } = await runTassis(this.settings, 'check')
    return code === 0 ? violations : [...violations, `check ended with ${code}: ${output}`]
  }
}

const HOLD_WRITES = join(import.meta.dir, 'hold-writes.ts')

/**
 * Settings of a service that stops writing once `query` for `n` returns `atLeast` or more, so that a kill hits the
 * middle of its work; `holdAt` sets that number for the next start.
 */
export function createHold(folder: string, query: string) {
  const file = join(folder, 'hold-at')
  const holdAt = (atLeast: number): void => writeFileSync(file, String(atLeast))
  holdAt(Number.POSITIVE_INFINITY)
  return { settings: { BUN_OPTIONS: `--preload=${HOLD_WRITES}`, HOLD_QUERY: query, HOLD_FILE: file }, holdAt }
}

/** Creates a folder for the data and the log of a run. */
export const createFolder = (): string => mkdtempSync(join(tmpdir(), 'tassis-kill-'))

/** Resolves with whether the condition became true in time; polls often, because the moment may be short. */
export async function waitUntil(condition: () => boolean, withinMs: number, pollIntervalMs = 2): Promise<boolean> {
  const end = performance.now() + withinMs
  while (!condition()) {
    if (performance.now() > end) return false
    await Bun.sleep(pollIntervalMs)
  }
  return true
}
