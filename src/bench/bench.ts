/**
 * @module The benchmark: alternates runs against data directories with different numbers of stored emails and computes
 * their medians. Reports numbers only; sets no thresholds.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'
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

export interface BenchResult {
  readonly stored: number
  readonly medians: MailStats
  readonly runs: readonly MailStats[]
  /** Of the same runs with open dashboards; undefined if none were requested. */
  readonly watched: { readonly medians: MailStats; readonly runs: readonly MailStats[] } | undefined
}

export interface BenchResults {
  readonly mail: readonly BenchResult[]
  /** Each of these is undefined if it was not requested. */
  readonly told: { readonly medians: WebhookStats; readonly runs: readonly WebhookStats[] } | undefined
  readonly received: { readonly medians: InboundStats; readonly runs: readonly InboundStats[] } | undefined
  readonly imported: { readonly medians: ImportStats; readonly runs: readonly ImportStats[] } | undefined
  readonly templates: { readonly medians: TemplateStats; readonly runs: readonly TemplateStats[] } | undefined
  readonly analytics: { readonly medians: AnalyticsStats; readonly runs: readonly AnalyticsStats[] } | undefined
  readonly lists: { readonly medians: ListStats; readonly runs: readonly ListStats[] } | undefined
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
      const path = join(folder, `stored-${stored}`)
      const { config } = loadConfig({
        TASSIS_DATA_DIR: path,
        TASSIS_HOSTNAME: 'mail.bench.test',
        TASSIS_LOG_LEVEL: 'error',
      })
      seeds.push({ stored, path, key: await seedDataDirectory(config, stored) })
    }
    const stats = new Map<number, MailStats[]>(options.stored.map((stored) => [stored, []]))
    const watchedStats = new Map<number, MailStats[]>(options.stored.map((stored) => [stored, []]))
    const measure = async (path: string, key: string, dashboards: number): Promise<MailStats> => {
      const dataDir = join(folder, 'run')
      await copyFolder(path, dataDir)
      const result = await runMail({ ...options, dataDir, key, dashboards })
      rmSync(dataDir, { recursive: true })
      return result
    }
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
    return {
      mail,
      told: options.events > 0 ? await benchWebhooks(folder, options, progress) : undefined,
      received: options.received > 0 ? await benchInbound(folder, options, progress) : undefined,
      imported: options.import > 0 ? await benchImports(folder, options, progress) : undefined,
      templates: options.templates > 0 ? await benchTemplates(options, progress) : undefined,
      analytics: options.analytics > 0 ? await benchAnalytics(folder, options, progress) : undefined,
      lists: options.list > 0 ? await benchLists(folder, options, progress) : undefined,
    }
  } finally {
    process.off('exit', removeAll)
    removeAll()
  }
}

async function benchWebhooks(
  folder: string,
  { events, runs: count }: BenchOptions,
  progress: (text: string) => void,
): Promise<BenchResults['told']> {
  progress(`storing ${events} events for a webhook`)
  const { config } = loadConfig({
    TASSIS_DATA_DIR: join(folder, 'told'),
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_LOG_LEVEL: 'error',
  })
  await using fixture = await prepareWebhook(folder, config, events)
  const runs: WebhookStats[] = []
  while (runs.length < Math.min(count, MAX_SLOW_RUNS)) {
    progress(`delivering to a webhook, run ${runs.length + 1}`)
    const dataDir = join(folder, 'run')
    await copyFolder(fixture.dataDir, dataDir)
    runs.push(await runWebhook(fixture, dataDir))
    rmSync(dataDir, { recursive: true })
  }
  return { runs, medians: computeMedians(WEBHOOK_STAT_NAMES, runs) }
}

async function benchInbound(
  folder: string,
  { received, runs: count }: BenchOptions,
  progress: (text: string) => void,
): Promise<BenchResults['received']> {
  progress(`creating ${received} messages to submit`)
  const { config } = loadConfig({
    TASSIS_DATA_DIR: join(folder, 'received'),
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_LOG_LEVEL: 'error',
  })
  const fixture = await prepareInbound(folder, config, received)
  const runs: InboundStats[] = []
  while (runs.length < Math.min(count, MAX_SLOW_RUNS)) {
    progress(`submitting, run ${runs.length + 1}`)
    const dataDir = join(folder, 'run')
    await copyFolder(fixture.dataDir, dataDir)
    runs.push(await runInbound(fixture, dataDir))
    rmSync(dataDir, { recursive: true })
  }
  return { runs, medians: computeMedians(INBOUND_STAT_NAMES, runs) }
}

async function benchImports(
  folder: string,
  { import: contacts, runs: count }: BenchOptions,
  progress: (text: string) => void,
): Promise<BenchResults['imported']> {
  progress(`writing a file of ${contacts} contacts`)
  const { config } = loadConfig({
    TASSIS_DATA_DIR: join(folder, 'imported'),
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_LOG_LEVEL: 'error',
  })
  const fixture = await prepareImport(folder, config, contacts)
  const runs: ImportStats[] = []
  while (runs.length < Math.min(count, MAX_SLOW_RUNS)) {
    progress(`importing, run ${runs.length + 1}`)
    const dataDir = join(folder, 'run')
    await copyFolder(fixture.dataDir, dataDir)
    runs.push(await runImport(fixture, dataDir))
    rmSync(dataDir, { recursive: true })
  }
  return { runs, medians: computeMedians(IMPORT_STAT_NAMES, runs) }
}

async function benchTemplates(
  { templates, runs: count }: BenchOptions,
  progress: (text: string) => void,
): Promise<BenchResults['templates']> {
  const runs: TemplateStats[] = []
  while (runs.length < Math.min(count, MAX_SLOW_RUNS)) {
    progress(`rendering, run ${runs.length + 1}`)
    runs.push(await runTemplates(templates))
  }
  return { runs, medians: computeMedians(TEMPLATE_STAT_NAMES, runs) }
}

async function benchAnalytics(
  folder: string,
  { analytics, runs: count }: BenchOptions,
  progress: (text: string) => void,
): Promise<BenchResults['analytics']> {
  progress(`storing ${analytics} events`)
  const { config } = loadConfig({
    TASSIS_DATA_DIR: join(folder, 'analytics'),
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_LOG_LEVEL: 'error',
  })
  const fixture = await prepareAnalytics(config, analytics, progress)
  const runs: AnalyticsStats[] = []
  while (runs.length < Math.min(count, MAX_SLOW_RUNS)) {
    progress(`requesting analytics, run ${runs.length + 1}`)
    runs.push(await runAnalytics(fixture))
  }
  return { runs, medians: computeMedians(ANALYTICS_STAT_NAMES, runs) }
}

async function benchLists(
  folder: string,
  { list, runs: count }: BenchOptions,
  progress: (text: string) => void,
): Promise<BenchResults['lists']> {
  progress(`storing ${list} emails to list`)
  const { config } = loadConfig({
    TASSIS_DATA_DIR: join(folder, 'lists'),
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_LOG_LEVEL: 'error',
  })
  const fixture = await prepareList(config, list, progress)
  const runs: ListStats[] = []
  while (runs.length < Math.min(count, MAX_SLOW_RUNS)) {
    progress(`requesting lists, run ${runs.length + 1}`)
    runs.push(await runList(fixture))
  }
  return { runs, medians: computeMedians(LIST_STAT_NAMES, runs) }
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
