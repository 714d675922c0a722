/**
 * @module The bench: runs against data directories with different numbers of stored emails, in turn, and the medians of them. A benchmark that
 * prints; it judges nothing.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'
import { ANALYTICS_FIGURE_NAMES, type AnalyticsFigures, analyticsRun, prepareAnalytics } from './analytics.ts'
import { IMPORTED_FIGURE_NAMES, type ImportedFigures, importedRun, prepareImported } from './imported.ts'
import { prepareReceived, RECEIVED_FIGURE_NAMES, type ReceivedFigures, receivedRun } from './received.ts'
import { benchRun, FIGURE_NAMES, type Figures } from './run.ts'
import { seedDataDirectory } from './seed.ts'
import { TEMPLATE_FIGURE_NAMES, type TemplateFigures, templatesRun } from './templates.ts'
import { prepareTold, TOLD_FIGURE_NAMES, type ToldFigures, toldRun } from './told.ts'

export interface BenchOptions {
  /** Numbers of emails that are stored already. */
  readonly stored: readonly number[]
  readonly runs: number
  readonly connections: number
  readonly acceptSeconds: number
  readonly deliver: number
  /** Events that a webhook is told; 0: none, and no redirects either. */
  readonly events: number
  /** Messages that are handed in; 0: none, and no long polls either. */
  readonly received: number
  /** Contacts that are imported; 0: none. */
  readonly import: number
  /** Templates that are rendered; 0: none. */
  readonly templates: number
  /** Events that are stored before analytics are asked; 0: they are not. */
  readonly analytics: number
  /** Where the data directories are made, and removed again. */
  readonly folder: string
}

export interface BenchResult {
  readonly stored: number
  readonly medians: Figures
  readonly runs: readonly Figures[]
}

export interface BenchResults {
  readonly mail: readonly BenchResult[]
  /** Undefined: not asked for. */
  readonly told: { readonly medians: ToldFigures; readonly runs: readonly ToldFigures[] } | undefined
  readonly received: { readonly medians: ReceivedFigures; readonly runs: readonly ReceivedFigures[] } | undefined
  readonly imported: { readonly medians: ImportedFigures; readonly runs: readonly ImportedFigures[] } | undefined
  readonly templates: { readonly medians: TemplateFigures; readonly runs: readonly TemplateFigures[] } | undefined
  readonly analytics: { readonly medians: AnalyticsFigures; readonly runs: readonly AnalyticsFigures[] } | undefined
}

/** @param progress is told in a sentence what is done next */
export async function bench(options: BenchOptions, progress: (text: string) => void): Promise<BenchResults> {
  const folder = mkdtempSync(join(options.folder, 'tassis-bench-'))
  const removeAll = () => rmSync(folder, { recursive: true, force: true })
  // Also when it is ended from outside.
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
    const figures = new Map<number, Figures[]>(options.stored.map((stored) => [stored, []]))
    for (let run = 1; run <= options.runs; run++) {
      for (const { stored, path, key } of seeds) {
        progress(`run ${run} of ${options.runs} with ${stored} stored`)
        const dataDir = join(folder, 'run')
        await copyFolder(path, dataDir)
        figures.get(stored)?.push(await benchRun({ ...options, dataDir, key }))
        rmSync(dataDir, { recursive: true })
      }
    }
    const mail = options.stored.map((stored) => {
      const runs = figures.get(stored) ?? []
      return { stored, runs, medians: mediansOf(FIGURE_NAMES, runs) }
    })
    return {
      mail,
      told: options.events > 0 ? await benchTold(folder, options, progress) : undefined,
      received: options.received > 0 ? await benchReceived(folder, options, progress) : undefined,
      imported: options.import > 0 ? await benchImported(folder, options, progress) : undefined,
      templates: options.templates > 0 ? await benchTemplates(options, progress) : undefined,
      analytics: options.analytics > 0 ? await benchAnalytics(folder, options, progress) : undefined,
    }
  } finally {
    process.off('exit', removeAll)
    removeAll()
  }
}

async function benchTold(
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
  await using fixture = await prepareTold(folder, config, events)
  const runs: ToldFigures[] = []
  while (runs.length < Math.min(count, FEWER_RUNS)) {
    progress(`telling run ${runs.length + 1}`)
    const dataDir = join(folder, 'run')
    await copyFolder(fixture.dataDir, dataDir)
    runs.push(await toldRun(fixture, dataDir))
    rmSync(dataDir, { recursive: true })
  }
  return { runs, medians: mediansOf(TOLD_FIGURE_NAMES, runs) }
}

async function benchReceived(
  folder: string,
  { received, runs: count }: BenchOptions,
  progress: (text: string) => void,
): Promise<BenchResults['received']> {
  progress(`making ${received} messages to hand in`)
  const { config } = loadConfig({
    TASSIS_DATA_DIR: join(folder, 'received'),
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_LOG_LEVEL: 'error',
  })
  const fixture = await prepareReceived(folder, config, received)
  const runs: ReceivedFigures[] = []
  while (runs.length < Math.min(count, FEWER_RUNS)) {
    progress(`handing in, run ${runs.length + 1}`)
    const dataDir = join(folder, 'run')
    await copyFolder(fixture.dataDir, dataDir)
    runs.push(await receivedRun(fixture, dataDir))
    rmSync(dataDir, { recursive: true })
  }
  return { runs, medians: mediansOf(RECEIVED_FIGURE_NAMES, runs) }
}

async function benchImported(
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
  const fixture = await prepareImported(folder, config, contacts)
  const runs: ImportedFigures[] = []
  while (runs.length < Math.min(count, FEWER_RUNS)) {
    progress(`importing, run ${runs.length + 1}`)
    const dataDir = join(folder, 'run')
    await copyFolder(fixture.dataDir, dataDir)
    runs.push(await importedRun(fixture, dataDir))
    rmSync(dataDir, { recursive: true })
  }
  return { runs, medians: mediansOf(IMPORTED_FIGURE_NAMES, runs) }
}

async function benchTemplates(
  { templates, runs: count }: BenchOptions,
  progress: (text: string) => void,
): Promise<BenchResults['templates']> {
  const runs: TemplateFigures[] = []
  while (runs.length < Math.min(count, FEWER_RUNS)) {
    progress(`rendering, run ${runs.length + 1}`)
    runs.push(await templatesRun(templates))
  }
  return { runs, medians: mediansOf(TEMPLATE_FIGURE_NAMES, runs) }
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
  const runs: AnalyticsFigures[] = []
  while (runs.length < Math.min(count, FEWER_RUNS)) {
    progress(`asking for analytics, run ${runs.length + 1}`)
    runs.push(await analyticsRun(fixture))
  }
  return { runs, medians: mediansOf(ANALYTICS_FIGURE_NAMES, runs) }
}

/** Some take longer than the others and vary less. */
const FEWER_RUNS = 3

function mediansOf<F>(names: readonly (keyof F)[], runs: readonly F[]): F {
  const entries = names.map((name) => [name, median(runs.map((run) => Number(run[name])))] as const)
  return Object.fromEntries(entries) as F
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** A copy of which nothing is left to be written: else the system would write it while the run is measured. */
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
