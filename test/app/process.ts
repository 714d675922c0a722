/** @module Runs `tassis` as users do: with settings in its environment and its own data directory. */
import { spyOn } from 'bun:test'
import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { runCommandLine } from '#app/cli/program.ts'
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { addBenchCommand } from '#bench/sending.ts'
import type { App } from '#features/core/app/app.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { formatUuid } from '#platform/ids.ts'

/** Entry point of the program. */
export const MAIN = join(import.meta.dir, '../../src/main.ts')
/** What `scripts/start` runs. */
const START = join(dirname(MAIN), '../scripts/start.ts')

export type Settings = Readonly<Record<string, string>>

export interface CommandResult {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

export interface DataFolder extends Disposable {
  readonly path: string
  /** Settings for a service in this folder that connects only to fixtures of the test. */
  readonly settings: Settings
}

export function createDataFolder(): DataFolder {
  const path = mkdtempSync(join(tmpdir(), 'tassis-cli-'))
  return {
    path,
    settings: {
      TASSIS_DATA_DIR: path,
      TASSIS_HTTP_ADDR: '127.0.0.1:0',
      TASSIS_HOSTNAME: 'mail.tassis.test',
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
      TASSIS_DNS_SERVERS: '127.0.0.1:9',
      TASSIS_LOG_LEVEL: 'warn',
      TASSIS_MIN_FREE_DISK: '0',
    },
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  }
}

/** A user without a name, who owns the data where root runs commands on it. */
export const OWNER = 61_234

/** What in a data directory belongs to somebody else. */
export const listForeign = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const { uid, gid } = lstatSync(join(folder, name))
    return uid !== OWNER || gid !== OWNER
  })

const buildEnvironment = (settings: Settings) => ({ PATH: process.env['PATH'] ?? '', ...settings })

/** Runs a command to its end in its own process, for tests of standard input, pipes and signals. */
export async function runTassisProcess(
  args: readonly string[],
  settings: Settings,
  stdin: string | Uint8Array = '',
): Promise<CommandResult> {
  await using child = Bun.spawn([process.execPath, MAIN, ...args], {
    env: buildEnvironment(settings),
    stdin: Buffer.from(stdin),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { exitCode, stdout, stderr }
}

let isRunning = false

/**
 * Runs a command to its end in this process, as at a terminal, at a tenth of the cost of a child process. Throws when another command is
 * running, because settings and output belong to the process.
 */
export async function runTassis(args: readonly string[], settings: Settings): Promise<CommandResult> {
  if (isRunning) throw new Error('another command is running in this process')
  isRunning = true
  const { env } = process
  const written = { stdout: '', stderr: '' }
  const capture = (name: keyof typeof written) =>
    spyOn(process[name], 'write').mockImplementation((text: string | Uint8Array, ...done: readonly unknown[]) => {
      written[name] += Buffer.from(text).toString()
      for (const call of done) if (typeof call === 'function') call()
      return true
    })
  const spies = [capture('stdout'), capture('stderr')]
  const { isTTY } = process.stderr
  process.stderr.isTTY = true
  process.env = buildEnvironment(settings)
  process.exitCode = 0
  try {
    const exitCode = await runCommandLine(args, addBenchCommand)
    return { exitCode, ...written }
  } finally {
    process.env = env
    process.exitCode = 0
    process.stderr.isTTY = isTTY
    for (const spy of spies) spy.mockRestore()
    isRunning = false
  }
}

/** Runs a command that must succeed and returns the `data` of its JSON output; of a list, all of it. */
export async function runTassisJson<T = Record<string, unknown>>(
  args: readonly string[],
  settings: Settings,
): Promise<T> {
  const { exitCode, stdout, stderr } = await runTassis([...args, '--json'], settings)
  if (exitCode !== 0) throw new Error(`tassis ${args.join(' ')} ended with ${exitCode}: ${stderr}`)
  const printed = JSON.parse(stdout) as T & { readonly data?: T }
  return printed.data === undefined || Array.isArray(printed.data) ? printed : printed.data
}

/** Runs a command that lists rows and returns them. */
export const runTassisList = async <T>(args: readonly string[], settings: Settings): Promise<T[]> =>
  (await runTassisJson<{ data: T[] }>(args, settings)).data

export interface RunningService extends AsyncDisposable {
  readonly url: string
  readonly pid: number
  signal(name: 'SIGTERM' | 'SIGINT' | 'SIGSTOP' | 'SIGCONT'): void
  /** Resolves with the exit code. */
  readonly exited: Promise<number>
}

/** The name of the program that runs the tests: `bun`, or `bun.exe` from npm. */
export const PROGRAM = readFileSync('/proc/self/comm', 'utf8').trim()

/** Starts a service and waits until it prints its URL. */
export async function startServing(
  settings: Settings,
  command = 'serve',
  /** Maximum number of open files and sockets, and a command that runs the program. */
  { descriptors, prefix = [] }: { readonly descriptors?: number; readonly prefix?: readonly string[] } = {},
): Promise<RunningService & { output(): string }> {
  const limit = descriptors === undefined ? [] : ['sh', '-c', `ulimit -n ${descriptors}; exec "$0" "$@"`]
  const child = Bun.spawn(
    [...prefix, ...limit, process.execPath, ...(command === 'start' ? [START] : [MAIN, command])],
    {
      env: buildEnvironment(settings),
      stdout: 'pipe',
      stderr: 'inherit',
    },
  )
  let output = ''
  const listens = Promise.withResolvers<string>()
  void (async () => {
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      output += chunk
      const url = /(?:listens|runs) on (http:\S+?),?\s/.exec(output)?.[1]
      if (url) listens.resolve(url)
    }
    listens.reject(new Error(`the service ended before it listened: ${output}`))
  })()
  return {
    url: await listens.promise,
    pid: child.pid,
    output: () => output,
    signal: (name) => child.kill(name),
    exited: child.exited,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
    },
  }
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: the tests read properties that they know to exist
  readonly body: any
}

/** Returns a function that requests the API of a running service. */
export const createClient =
  (url: string, key: string, options: RequestInit = {}) =>
  async (method: string, path: string, body?: unknown): Promise<Answer> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const text = body === undefined ? undefined : JSON.stringify(body)
    const response = await fetch(`${url}${path}`, { ...options, method, headers, ...(text && { body: text }) })
    const answer = await response.text()
    return { status: response.status, headers: response.headers, body: answer === '' ? undefined : JSON.parse(answer) }
  }

/** Calls `use` with the data of a stopped service. */
export async function withApp<T>(settings: Settings, use: (app: App) => T | Promise<T>): Promise<T> {
  const opened = openApp(loadConfig({ ...settings }).config)
  try {
    return await use(opened.app)
  } finally {
    await opened.close()
  }
}

/** Creates an account, the domain sender.test and a key in this process, before a service starts. */
export const setUpAccount = (
  settings: Settings,
  { verified = false } = {},
): Promise<{ accountId: string; domainId: string; key: string; keyId: string }> =>
  withApp(settings, async (app) => {
    const actor = toOperatorActor(await createAccount(app, { name: 'Acme', email: 'ada@acme.test', plan: 'unlimited' }))
    const { domain } = await createDomain(app, actor, 'sender.test')
    const { key, id } = await createApiKey(app, actor, { name: 'app' })
    if (verified) app.db.run('UPDATE domains SET verified_at = 1')
    return { accountId: actor.accountUuid, domainId: formatUuid(domain.uuid), key, keyId: id }
  })
