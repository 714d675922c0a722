/** @module Shared by the kill tests: arguments, the service that is killed and restarted, and the end of a run. */
import { Database } from 'bun:sqlite'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { findFreePort } from '#test/support/free-port.ts'
import { type Random, seededRandom } from './random.ts'
import {
  getCommand,
  type ServiceKind,
  type ServiceProcess,
  type Settings,
  startService,
  waitUntilReady,
} from './service.ts'

const HELP = `scripts/kill-test [--rounds N] [--seed S] [--keep] [--service serve|parts]
scripts/kill-test --webhooks [--rounds N] [--seed S] [--keep]
scripts/kill-test --inbound [--rounds N] [--seed S] [--keep]
scripts/kill-test --submission [--rounds N] [--seed S] [--keep]
scripts/kill-test --broadcast [--rounds N] [--contacts N] [--seed S] [--keep]
scripts/kill-test --misbehaving [--rounds N] [--seed S] [--keep]
scripts/kill-test --creations [--rounds N] [--seed S] [--keep]
scripts/kill-test --keys [--rounds N] [--seed S] [--keep]

Kills a real service under load, N times (30), and proves that no accepted email is lost or sent twice.
  --webhooks   proves instead that a webhook misses no event and gets none again without need
  --inbound    proves instead that every message accepted with 250 is stored exactly once
  --submission proves instead that a message submitted by SMTP is not lost after its 250, nor doubled with a key
  --broadcast  proves instead that every contact of a list gets exactly one email of a broadcast
  --misbehaving proves the same with a receiver that greylists, rejects, stalls and breaks connections
  --creations  proves instead that a creation that is repeated with its idempotency key creates one thing
  --keys       proves instead that every secret opens and every signature is valid while keys are rotated
  --contacts   number of contacts on that list (100,000)
  --seed S     repeats the random choices of another run, which prints its seed
  --keep       keeps the data directory, which is otherwise kept only after a failure
  --service    serve: the command \`serve\` (default); parts: a program built from its parts
Exit code 1 when a promise was broken.`

/** Kinds of test besides the ordinary one; all but that need the whole service. */
const KINDS = ['webhooks', 'inbound', 'submission', 'broadcast', 'misbehaving', 'creations', 'keys'] as const
const MAX_ROUNDS = 1000
const MAX_CONTACTS = 1_000_000
const MAX_VIOLATIONS_SHOWN = 30

interface KillArguments {
  readonly rounds: number
  readonly seed: number
  readonly keeps: boolean
  readonly kind: ServiceKind
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
  readonly #kind: ServiceKind

  /** Reads the arguments. Prints the help and exits for --help or invalid arguments. */
  constructor() {
    const { rounds, seed, keeps, kind, contacts } = readArguments()
    this.rounds = rounds
    this.seed = seed
    this.contacts = contacts
    this.random = seededRandom(seed)
    this.#keeps = keeps
    this.#kind = kind
  }

  /** The service that is killed, with additional settings; not started yet. */
  createService(settings: Settings): Promise<KilledService> {
    return KilledService.make(this.folder, this.#kind, settings)
  }

  /** Runs `work`, which collects violations; an error it throws is also one. Afterwards no service is running. */
  async collect(service: KilledService, work: () => Promise<void>): Promise<void> {
    try {
      await work()
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

  /** Prints the broken promises. */
  printViolations(): void {
    for (const violation of this.violations.slice(0, MAX_VIOLATIONS_SHOWN)) console.log(`VIOLATION ${violation}`)
  }

  end(): never {
    endRun(this.violations, this.folder, this.#keeps)
  }
}

/** Ends the program and removes the folder unless it must be kept. */
export function endRun(violations: readonly string[], folder: string, keeps: boolean): never {
  if (violations.length > 0 || keeps) console.log(`Data and log are kept in ${folder}`)
  else if (existsSync(folder)) rmSync(folder, { recursive: true, force: true })
  process.exit(violations.length > 0 ? 1 : 0)
}

function readArguments(): KillArguments {
  const values = parseKillArguments()
  if (values?.help) {
    console.log(HELP)
    process.exit(0)
  }
  const rounds = Number(values?.rounds)
  const seed = values?.seed === undefined ? Math.floor(Math.random() * 1_000_000) : Number(values.seed)
  const kind = values?.service === 'serve' || values?.service === 'parts' ? values.service : undefined
  const areRounds = Number.isInteger(rounds) && rounds >= 1 && rounds <= MAX_ROUNDS
  const contacts = Number(values?.contacts)
  const areContacts = Number.isInteger(contacts) && contacts >= 100 && contacts <= MAX_CONTACTS
  // The program built from parts delivers no webhooks, receives no mail and enqueues no broadcast.
  const needsAll = KINDS.some((kind) => values?.[kind])
  if (!values || !areRounds || !areContacts || !Number.isInteger(seed) || !kind || (needsAll && kind === 'parts')) {
    console.error(HELP)
    process.exit(2)
  }
  return { rounds, seed, keeps: values.keep, kind, contacts }
}

function parseKillArguments() {
  try {
    return parseArgs({
      options: {
        webhooks: { type: 'boolean', default: false },
        inbound: { type: 'boolean', default: false },
        submission: { type: 'boolean', default: false },
        broadcast: { type: 'boolean', default: false },
        misbehaving: { type: 'boolean', default: false },
        creations: { type: 'boolean', default: false },
        keys: { type: 'boolean', default: false },
        contacts: { type: 'string', default: '100000' },
        rounds: { type: 'string', default: '30' },
        seed: { type: 'string' },
        service: { type: 'string', default: 'serve' },
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
  readonly #kind: ServiceKind
  readonly #logFile: string
  #process: ServiceProcess | undefined

  private constructor(folder: string, port: number, kind: ServiceKind, settings: Settings) {
    this.#kind = kind
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
  static async make(folder: string, kind: ServiceKind, settings: Settings): Promise<KilledService> {
    return new KilledService(folder, await findFreePort(), kind, settings)
  }

  /** The current process. */
  get running(): ServiceProcess | undefined {
    return this.#process?.isRunning() ? this.#process : undefined
  }

  /** Starts the next run without waiting until it serves. */
  begin(): ServiceProcess {
    this.#process = startService(this.settings, getCommand(this.#kind), this.#logFile)
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
    return this.#kind === 'serve' ? [...violations, ...(await this.#check())] : violations
  }

  async #check(): Promise<string[]> {
    const command = [...getCommand('serve').slice(0, -1), 'check']
    const check = Bun.spawn(command, { env: { ...this.settings }, stdout: 'pipe', stderr: 'pipe' })
    const [output, errors, code] = await Promise.all([
      new Response(check.stdout).text(),
      new Response(check.stderr).text(),
      check.exited,
    ])
    return code === 0 ? [] : [`check ended with ${code}: ${output}${errors}`]
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
