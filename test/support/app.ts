/** @module A whole service in a temporary data directory, for tests: real database, real Workers, real sockets. */
import type { Database } from 'bun:sqlite'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type CreateOptions, type OpenedApp, openApp } from '#app/create.ts'
import { migrations } from '#app/migrations.ts'
import { startBackground } from '#app/schedules.ts'
import { loadConfig } from '#app/settings.ts'
import type { Plan } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { type RunningSubmission, startSubmission } from '#features/drop-in/submission/start.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { type RunningInbound, startInbound } from '#features/receiving/inbound/start.ts'
import { type RunningDelivery, startDelivery } from '#features/sending/delivery/start.ts'
import { WebhookDispatcher } from '#features/webhooks/webhooks/deliver/dispatcher.ts'
import { createMasterKeyFile } from '#platform/crypto/crypto.ts'
import { migrate } from '#platform/db/migrate.ts'
import { openDatabase } from '#platform/db/open.ts'
import { dkimKeyFromFile } from './dkim-keys.ts'

export interface TestApp extends AsyncDisposable {
  readonly app: App
  readonly opened: OpenedApp
  readonly dataDir: string
  readonly delivery: RunningDelivery | undefined
  readonly webhooks: WebhookDispatcher | undefined
  readonly inbound: RunningInbound | undefined
  readonly submission: RunningSubmission | undefined
}

export interface TestAppOptions extends CreateOptions {
  /** `TASSIS_*` settings that override the tests' own. */
  readonly settings?: Readonly<Record<string, string>>
  /** Whether mail is delivered; default false. */
  readonly delivers?: boolean
  /** Messages in delivery at the same time; default as in production. */
  readonly deliveryConcurrency?: number
  /** Port of the servers of MTA-STS policies. */
  readonly policyPort?: number
  /** Requests to one webhook at the same time; default as in production. */
  readonly webhookConcurrency?: number
  /** Whether webhooks are delivered; default false. */
  readonly sendsWebhooks?: boolean
  /** Whether mail is received and processed; default false. */
  readonly receives?: boolean
  /** Whether mail is taken by SMTP submission, with STARTTLS and with implicit TLS; default false. */
  readonly submits?: boolean
  /** Whether broadcasts, imports and emails to contacts run; default false. */
  readonly runsTasks?: boolean
  /** Emails of one broadcast in the mail queue; default as in production. */
  readonly broadcastAhead?: number
  /** A data directory that is not deleted, for tests that open it twice. */
  readonly dataDir?: string
}

/** For tests with more work than an account may cause. */
export const UNLIMITED_WORK = { ratePerSecond: 1e9, burst: 1e9 }

export async function createTestApp(options: TestAppOptions = {}): Promise<TestApp> {
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'tassis-test-'))
  const { config } = loadConfig({
    TASSIS_DATA_DIR: dataDir,
    TASSIS_HOSTNAME: 'mail.tassis.test',
    TASSIS_LOG_LEVEL: 'silent',
    TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
    TASSIS_DNS_SERVERS: '127.0.0.1:9',
    TASSIS_MIN_FREE_DISK: '0',
    // A delivery Worker takes as long to start as sending a message takes, so there is only one. Tests that mail
    // several domains concurrently request the two that a service has.
    TASSIS_WORKERS: '1',
    ...(options.receives && { TASSIS_INBOUND_ADDR: '127.0.0.1:0' }),
    ...(options.submits && { TASSIS_SUBMISSION_ADDR: '127.0.0.1:0', TASSIS_SUBMISSION_TLS_ADDR: '127.0.0.1:0' }),
    ...options.settings,
  })
  if (!options.dataDir && config.masterKeyFile === '') fillDataDirectory(dataDir, config.masterKey === '')
  const opened = openApp(config, { createDkimKey: dkimKeyFromFile, ...options })
  // Tests also write without the committer, beside its checkpoints.
  opened.app.db.run('PRAGMA busy_timeout = 5000')
  const webhooks = options.sendsWebhooks ? new WebhookDispatcher(opened.app, options.webhookConcurrency) : undefined
  webhooks?.start()
  const inbound = options.receives ? await startInbound(opened) : undefined
  inbound?.process()
  const submission = options.submits ? await startSubmission(opened.app, opened) : undefined
  const delivery = options.delivers
    ? await startDelivery(opened, { concurrency: options.deliveryConcurrency, policyPort: options.policyPort })
    : undefined
  const background = options.runsTasks ? startBackground(opened.app, options.broadcastAhead) : undefined
  return {
    app: opened.app,
    opened,
    dataDir,
    delivery,
    webhooks,
    inbound,
    submission,
    async [Symbol.asyncDispose]() {
      await background?.stop()
      await inbound?.stop()
      await submission?.stop()
      await delivery?.stop()
      // A test with its own clock must not wait for a grace period.
      await webhooks?.stop(0)
      await opened.close()
      if (!options.dataDir) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

let isFirst = true
let made: readonly { readonly name: string; readonly bytes: Uint8Array }[] | undefined

/**
 * Fills a new data directory with migrated databases and a master key, because migrating and waiting for the disk are
 * most of the cost of opening it. Does nothing for the first directory of a process: the service creates its files as
 * usual.
 */
function fillDataDirectory(dataDir: string, needsKey: boolean): void {
  if (isFirst) {
    isFirst = false
    return
  }
  made ??= [
    { name: 'tassis.db', bytes: newDatabase((db) => migrate(db, migrations)) },
    { name: 'capture.db', bytes: newDatabase() },
  ]
  for (const { name, bytes } of made) writeFileSync(join(dataDir, name), bytes)
  if (needsKey) createMasterKeyFile(join(dataDir, 'master.key'))
}

/** The content of one of our database files. */
function newDatabase(fill: (db: Database) => void = () => undefined): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-made-'))
  try {
    const path = join(folder, 'made.db')
    const db = openDatabase(path)
    fill(db)
    // The last connection to close moves the WAL into the file.
    db.close()
    return readFileSync(path)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Creates an account and its actor with every scope. */
export async function createTestAccount(app: App, plan: Plan = 'unlimited'): Promise<Actor> {
  return toOperatorActor(await createAccount(app, { name: 'Test', email: 'owner@tassis.test', plan }))
}

/**
 * Polls `condition` every few milliseconds until it returns something; fails after `withinMs`. The default leaves a busy
 * machine nearly all of a test's time limit; then the error names the condition.
 */
export async function eventually<T>(
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  withinMs = 100_000,
): Promise<T> {
  const until = performance.now() + withinMs
  for (;;) {
    const value = await condition()
    if (value) return value
    if (performance.now() > until) throw new Error(`not so within ${withinMs} ms: ${condition.toString()}`)
    await Bun.sleep(5)
  }
}
