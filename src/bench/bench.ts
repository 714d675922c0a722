/**
 * @module The benchmark: alternates runs against data directories with different numbers of stored emails and computes
 * their medians. Reports numbers only; sets no thresholds.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'
import type { Config } from '#platform/config.ts'
import { ANALYTICS_STAT_NAMES, type AnalyticsStats, prepareAnalytics, runAnalytics } from './analytics.ts'
import { IMPORT_STAT_NAMES, type ImportStats, prepareImport, runImport } from './imports.ts'
import { INBOUND_STAT_NAMES, type InboundStats, prepareInbound, runInbound } from './inbound.ts'
import { LIST_STAT_NAMES, type ListStats, prepareList, runList } from './list.ts'
import { MAIL_STAT_NAMES, type MailStats, runMail } from './run.ts'
import { seedDataDirectory } from './seed.ts'
import { runTemplates, TEMPLATE_STAT_NAMES, type TemplateStats } from './templates.ts'
import { prepareWebhook, runWebhook, WEBHOOK_STAT_NAMES, type WebhookStats } from './webhooks.ts'

export interface BenchOptions {
  /** Numbers of emails stored before the runs. */
  readonly stored: readonly number[]
  readonly runs: number
  readonly connections: number
  readonly acceptSeconds: number
  readonly deliver: number
  /** Open dashboards during delivery; when not 0, each run is repeated with them. */
  readonly dashboards: number
  /** Events delivered to a webhook; 0 skips this and the redirects. */
  readonly events: number
  /** Messages submitted over SMTP; 0 skips this and the long polls. */
  readonly received: number
  /** Contacts to import; 0 skips the import. */
  readonly import: number
  /** Templates to render; 0 skips rendering. */
  readonly templates: number
  /** Events stored before analytics are requested; 0 skips analytics. */
  readonly analytics: number
  /** Emails stored before lists are requested; 0 skips lists. */
  readonly list: number
  /** Folder for the temporary data directories. */
  readonly folder: string
}

export interface Measured<F> {
  readonly medians: F
  readonly runs: readonly F[]
}

export interface BenchResult extends Measured<MailStats> {
  readonly stored: number
  /** Of the same runs with open dashboards; undefined if none were requested. */
  readonly watched: Measured<MailStats> | undefined
}

export interface BenchResults {
  readonly mail: readonly BenchResult[]
  /** Each of these is undefined if it was not requested. */
  readonly told: Measured<WebhookStats> | undefined
  readonly received: Measured<InboundStats> | undefined
  readonly imported: Measured<ImportStats> | undefined
  readonly templates: Measured<TemplateStats> | undefined
  readonly analytics: Measured<AnalyticsStats> | undefined
  readonly lists: Measured<ListStats> | undefined
}

interface Context {
  readonly folder: string
  readonly options: BenchOptions
  readonly progress: (text: string) => void
}

/** @param progress receives a description of each step */
export async function bench(options: BenchOptions, progress: (text: string) => void): Promise<BenchResults> {
  const folder = mkdtempSync(join(options.folder, 'tassis-bench-'))
  const removeAll = () => rmSync(folder, { recursive: true, force: true })
  // The folder is removed even when a signal ends the benchmark.
  process.on('exit', removeAll)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130))
  try {
    const seeds: { stored: number; path: string; key: string }[] = []
    for (const stored of options.stored) {
      progress(`storing ${stored} emails`)
      const config = loadBenchConfig(folder, `stored-${stored}`)
      seeds.push({ stored, path: config.dataDir, key: await seedDataDirectory(config, stored) })
    }
    const stats = new Map<number, MailStats[]>(options.stored.map((stored) => [stored, []]))
    const watchedStats = new Map<number, MailStats[]>(options.stored.map((stored) => [stored, []]))
    const measure = (path: string, key: string, dashboards: number): Promise<MailStats> =>
      runOnCopy(folder, path, (dataDir) => runMail({ ...options, dataDir, key, dashboards }))
    for (let run = 1; run <= options.runs; run++) {
      for (const { stored, path, key } of seeds) {
        progress(`run ${run} of ${options.runs} with ${stored} stored`)
        stats.get(stored)?.push(await measure(path, key, 0))
        if (options.dashboards > 0) watchedStats.get(stored)?.push(await measure(path, key, options.dashboards))
      }
    }
    const mail = options.stored.map((stored) => {
      const runs = stats.get(stored) ?? []
      const watched = watchedStats.get(stored) ?? []
      return {
        stored,
        runs,
        medians: computeMedians(MAIL_STAT_NAMES, runs),
        watched: watched.length > 0 ? { runs: watched, medians: computeMedians(MAIL_STAT_NAMES, watched) } : undefined,
      }
    })
    const context: Context = { folder, options, progress }
    return {
      mail,
      told: options.events > 0 ? await benchWebhooks(context) : undefined,
      received: options.received > 0 ? await benchInbound(context) : undefined,
      imported: options.import > 0 ? await benchImports(context) : undefined,
      templates: options.templates > 0 ? await benchTemplates(context) : undefined,
      analytics: options.analytics > 0 ? await benchAnalytics(context) : undefined,
      lists: options.list > 0 ? await benchLists(context) : undefined,
    }
  } finally {
    process.off('exit', removeAll)
    removeAll()
  }
}

async function benchWebhooks(context: Context): Promise<BenchResults['told']> {
  const { folder, options, progress } = context
  progress(`storing ${options.events} events for a webhook`)
  await using fixture = await prepareWebhook(folder, loadBenchConfig(folder, 'told'), options.events)
  return await repeat(context, 'delivering to a webhook', WEBHOOK_STAT_NAMES, () =>
    runOnCopy(folder, fixture.dataDir, (dataDir) => runWebhook(fixture, dataDir)),
  )
}

async function benchInbound(context: Context): Promise<BenchResults['received']> {
  const { folder, options, progress } = context
  progress(`creating ${options.received} messages to submit`)
  const fixture = await prepareInbound(folder, loadBenchConfig(folder, 'received'), options.received)
  return repeat(context, 'submitting', INBOUND_STAT_NAMES, () =>
    runOnCopy(folder, fixture.dataDir, (dataDir) => runInbound(fixture, dataDir)),
  )
}

async function benchImports(context: Context): Promise<BenchResults['imported']> {
  const { folder, options, progress } = context
  progress(`writing a file of ${options.import} contacts`)
  const fixture = await prepareImport(folder, loadBenchConfig(folder, 'imported'), options.import)
  return repeat(context, 'importing', IMPORT_STAT_NAMES, () =>
    runOnCopy(folder, fixture.dataDir, (dataDir) => runImport(fixture, dataDir)),
  )
}

const benchTemplates = (context: Context): Promise<BenchResults['templates']> =>
  repeat(context, 'rendering', TEMPLATE_STAT_NAMES, () => runTemplates(context.options.templates))

async function benchAnalytics(context: Context): Promise<BenchResults['analytics']> {
  const { folder, options, progress } = context
  progress(`storing ${options.analytics} events`)
  const fixture = await prepareAnalytics(loadBenchConfig(folder, 'analytics'), options.analytics, progress)
  return repeat(context, 'requesting analytics', ANALYTICS_STAT_NAMES, () => runAnalytics(fixture))
}

async function benchLists(context: Context): Promise<BenchResults['lists']> {
  const { folder, options, progress } = context
  progress(`storing ${options.list} emails to list`)
  const fixture = await prepareList(loadBenchConfig(folder, 'lists'), options.list, progress)
  return repeat(context, 'requesting lists', LIST_STAT_NAMES, () => runList(fixture))
}

const loadBenchConfig = (folder: string, name: string): Config =>
  loadConfig({
    TASSIS_DATA_DIR: join(folder, name),
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_LOG_LEVEL: 'error',
  }).config

async function repeat<F>(
  { options, progress }: Context,
  title: string,
  names: readonly (keyof F)[],
  run: () => Promise<F>,
): Promise<Measured<F>> {
  const runs: F[] = []
  while (runs.length < Math.min(options.runs, MAX_SLOW_RUNS)) {
    progress(`${title}, run ${runs.length + 1}`)
    runs.push(await run())
  }
  return { runs, medians: computeMedians(names, runs) }
}

/** Runs on a copy of a data directory, and removes it. */
async function runOnCopy<F>(folder: string, from: string, run: (dataDir: string) => Promise<F>): Promise<F> {
  const dataDir = join(folder, 'run')
  await copyFolder(from, dataDir)
  const result = await run(dataDir)
  rmSync(dataDir, { recursive: true })
  return result
}

/** Some benchmarks take longer and vary less. */
const MAX_SLOW_RUNS = 3

function computeMedians<F>(names: readonly (keyof F)[], runs: readonly F[]): F {
  const entries = names.map((name) => [name, computeMedian(runs.map((run) => Number(run[name])))] as const)
  return Object.fromEntries(entries) as F
}

function computeMedian(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** Copies a folder and syncs every file; otherwise the system would write it back during the measurement. */
async function copyFolder(from: string, to: string): Promise<void> {
  mkdirSync(to, { mode: 0o700 })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = join(from, entry.name)
    const target = join(to, entry.name)
    if (entry.isDirectory()) await copyFolder(source, target)
    if (!entry.isFile()) continue
    copyFileSync(source, target)
    const file = await open(target, 'r+')
    await file.sync()
    await file.close()
  }
}
