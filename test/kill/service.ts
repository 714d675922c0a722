/** @module The service under the kill test: its data directory, with an account, a domain and a key, and its process. */
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { deriveEventUuid } from '#features/core/events/record.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { createDomain } from '#features/setup/domains/domains.ts'

export const SENDER_DOMAIN = 'sender.test'

const TASSIS = [process.execPath, join(import.meta.dir, '..', '..', 'src', 'main.ts')]
const STARTED_WITHIN_MS = 120_000

export type Settings = Readonly<Record<string, string>>

export interface ServiceProcess {
  readonly pid: number
  /** Resolves with the exit code. */
  readonly exited: Promise<number>
  /** False once the process has ended for any reason. */
  isRunning(): boolean
  /** Sends SIGKILL; resolves when the process has ended. */
  kill(): Promise<void>
  /** Sends SIGTERM; resolves with the exit code. */
  stop(): Promise<number>
}

export interface Prepared {
  /** API key of the only account. */
  readonly key: string
  readonly accountUuid: string
  /** Returns the public id of an event of the account. */
  eventId(seq: number): string
}

/** Creates the data directory and returns the API key. */
export const prepareDataDirectory = async (settings: Settings): Promise<string> => (await prepareAccount(settings)).key

/** Creates the data directory with an account that may send from SENDER_DOMAIN. */
export async function prepareAccount(settings: Settings): Promise<Prepared> {
  const opened = openApp(loadConfig(settings).config)
  try {
    const { app } = opened
    const account = await createAccount(app, { name: 'Kill test', email: 'owner@kill.test', plan: 'unlimited' })
    const actor = toOperatorActor(account)
    await createDomain(app, actor, SENDER_DOMAIN)
    // The state that `verify` would store if the zone were published.
    await app.commit.write((tx) => void tx.db.run('UPDATE domains SET verified_at = 1, next_check_at = 4000000000000'))
    const { key } = await createApiKey(app, actor, { name: 'kill test' })
    return { key, accountUuid: actor.accountUuid, eventId: (seq) => deriveEventUuid(app.keys, account.id, seq) }
  } finally {
    await opened.close()
  }
}

/** Starts the process; `ready` waits until it serves HTTP. */
export function startService(settings: Settings, logFile: string): ServiceProcess {
  const log = openSync(logFile, 'a')
  const child = Bun.spawn([...TASSIS, 'serve'], { env: { ...settings }, stdin: 'ignore', stdout: log, stderr: log })
  let ended = false
  void child.exited.then(() => {
    ended = true
  })
  return {
    pid: child.pid,
    exited: child.exited,
    isRunning: () => !ended,
    async kill() {
      child.kill('SIGKILL')
      await child.exited
    },
    stop() {
      child.kill('SIGTERM')
      return child.exited
    },
  }
}

/** Resolves when the service answers; throws when it has ended or takes too long. */
export async function waitUntilReady(service: ServiceProcess, url: string): Promise<void> {
  const until = performance.now() + STARTED_WITHIN_MS
  while (performance.now() < until) {
    if (!service.isRunning()) throw new Error('the service ended while it started')
    const answer = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(2000) }).catch(() => undefined)
    await answer?.arrayBuffer()
    if (answer?.ok) return
    await Bun.sleep(10)
  }
  throw new Error(`the service did not answer within ${STARTED_WITHIN_MS} ms`)
}

/** Runs a command to its end; returns its exit code and output. */
export async function runTassis(settings: Settings, ...args: string[]): Promise<{ code: number; output: string }> {
  const run = Bun.spawn([...TASSIS, ...args], { env: { ...settings }, stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr, code] = await Promise.all([run.stdout.text(), run.stderr.text(), run.exited])
  return { code, output: stdout + stderr }
}
