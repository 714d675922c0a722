/**
 * @module Runs benchmarks and prints their figures: the columns of each in turn, as often as asked, with the medians.
 * Reports numbers only; sets no thresholds.
 */
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { arch, cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Command } from 'commander'
import { createWholeNumberParser, withJson } from '#app/cli/options.ts'
import { formatTable, type JsonOption, printResult } from '#app/cli/output.ts'
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { VERSION } from '#app/version.ts'
import type { Account } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { vouchForDomain } from '#features/setup/domains/verify.ts'
import { syncFile } from '#platform/disk/replace-file.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { SENDER_DOMAIN } from './mails.ts'

/** The name in JSON, the title of the row and the digits after the point. */
export type Figure = readonly [name: string, title: string, digits: number]
export type Values = Readonly<Record<string, number>>

/** @param title of both; empty: below another figure */
export const latencyFigures = (name: string, title: string): Figure[] => [
  [`${name}_p50_ms`, title === '' ? '  p50 ms' : `${title}, p50 ms`, 2],
  [`${name}_p99_ms`, '  p99 ms', 2],
]

export interface Column {
  readonly title: string
  /** Measures once; returns a value for each figure. */
  run(): Promise<Values>
}

export interface Benchmark {
  /** Key of its results in JSON. */
  readonly name: string
  readonly description: string
  readonly figures: readonly Figure[]
  /** @param resources closed at the end */
  prepare(data: BenchData, resources: AsyncDisposableStack): Promise<readonly Column[]>
}

export interface BenchData {
  readonly folder: string
  progress(text: string): void
  /** Creates a data directory with an account, a domain and a key. @param fill stores more in it */
  create(name: string, fill?: Fill): Promise<Created>
  /** Runs on a copy of a data directory, and removes it. */
  onCopy<T>(dataDir: string, run: (dataDir: string) => Promise<T>): Promise<T>
}

export interface Created {
  readonly config: Config
  readonly dataDir: string
  readonly key: string
}

interface Result {
  readonly column: string
  readonly medians: Values
  readonly runs: readonly Values[]
}

interface MeasureOptions extends JsonOption {
  readonly runs: number
  readonly folder: string
}

/** Larger numbers are probably typing errors. */
export const MAX_NUMBER = 100_000_000

export const parsePositive = createWholeNumberParser(1, MAX_NUMBER)

/** Adds the options of each measurement to a command, and the action that measures and prints. */
export function withMeasuring<O>(command: Command, select: (options: O) => readonly Benchmark[]): void {
  withJson(command)
    .option('--runs <n>', 'runs of each, alternating; prints medians', parsePositive, 5)
    .option('--folder <path>', 'folder for the temporary data; use the disk that the service will use', tmpdir())
    .action(async (options: O & MeasureOptions) => {
      const benchmarks = select(options)
      const results = await measure(benchmarks, options)
      const machine = `${cpus().length} x ${cpus()[0]?.model.trim() || arch()}, Bun ${Bun.version}`
      printResult(options, { machine, version: VERSION, options, results }, () =>
        [
          `Tassis ${VERSION} on ${machine}; median, minimum and maximum`,
          ...benchmarks.flatMap((benchmark) => formatResults(benchmark, results[benchmark.name] ?? [])),
        ].join('\n'),
      )
    })
}

async function measure(
  benchmarks: readonly Benchmark[],
  options: MeasureOptions,
): Promise<Readonly<Record<string, readonly Result[]>>> {
  const folder = mkdtempSync(join(options.folder, 'tassis-bench-'))
  const removeAll = () => rmSync(folder, { recursive: true, force: true })
  // The folder is removed even when a signal ends the benchmark.
  process.on('exit', removeAll)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130))
  const data = createBenchData(folder)
  const results: Record<string, readonly Result[]> = {}
  try {
    for (const { name, figures, prepare } of benchmarks) {
      await using resources = new AsyncDisposableStack()
      const columns = (await prepare(data, resources)).map((column) => ({ ...column, runs: [] as Values[] }))
      for (let run = 1; run <= options.runs; run++)
        for (const { title, run: measureOnce, runs } of columns) {
          data.progress(`${name}, ${title}: run ${run} of ${options.runs}`)
          runs.push(await measureOnce())
        }
      results[name] = columns.map(({ title, runs }) => ({
        column: title,
        medians: computeMedians(figures, runs),
        runs,
      }))
    }
    return results
  } finally {
    process.off('exit', removeAll)
    removeAll()
  }
}

function createBenchData(folder: string): BenchData {
  const progress = (text: string) => void process.stderr.write(`${text}\n`)
  return {
    folder,
    progress,
    async create(name, fill) {
      const dataDir = join(folder, name)
      const config = loadBenchConfig(dataDir)
      return { config, dataDir, key: await createDataDirectory(config, fill) }
    },
    async onCopy(from, run) {
      const dataDir = join(folder, 'run')
      cpSync(from, dataDir, { recursive: true })
      // Otherwise the system would write the copy back during the measurement.
      for (const entry of readdirSync(dataDir, { recursive: true, withFileTypes: true })) {
        if (entry.isFile()) syncFile(join(entry.parentPath, entry.name), 'r')
      }
      const result = await run(dataDir)
      rmSync(dataDir, { recursive: true })
      return result
    },
  }
}

export const loadBenchConfig = (dataDir: string): Config =>
  loadConfig({ TASSIS_DATA_DIR: dataDir, TASSIS_HOSTNAME: 'mail.bench.test', TASSIS_LOG_LEVEL: 'error' }).config

const computeMedians = (figures: readonly Figure[], runs: readonly Values[]): Values =>
  Object.fromEntries(figures.map(([name]) => [name, computeMedian(runs.map((run) => run[name] ?? Number.NaN))]))

export function computeMedian(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** Formats one row per figure with the median, minimum and maximum of each column. */
function formatResults({ description, figures }: Benchmark, results: readonly Result[]): string[] {
  const rows = figures.map(([name, title, digits]) => [
    title,
    ...results.flatMap(({ medians, runs }) => {
      const values = runs.map((run) => run[name] ?? Number.NaN)
      return [
        (medians[name] ?? Number.NaN).toFixed(digits),
        `${Math.min(...values).toFixed(digits)}..${Math.max(...values).toFixed(digits)}`,
      ]
    }),
  ])
  const headings = ['', ...results.flatMap(({ column }) => [column.toUpperCase(), ''])]
  return ['', description, '', formatTable(headings, rows)]
}

/** Stores more in a new data directory. @param domainId UUID of SENDER_DOMAIN */
export type Fill = (app: App, account: Account, domainId: string) => Promise<void>

/** Returns the API key. */
export async function createDataDirectory(config: Config, fill?: Fill): Promise<string> {
  const opened = openApp(config)
  try {
    const { app } = opened
    const account = await createAccount(app, { name: 'Bench', email: 'owner@bench.test', plan: 'unlimited' })
    const actor = toOperatorActor(account)
    const { domain } = await createDomain(app, actor, SENDER_DOMAIN)
    const domainId = formatUuid(domain.uuid)
    await vouchForDomain(app, actor, domainId)
    const { key } = await createApiKey(app, actor, { name: 'bench' })
    await fill?.(app, account, domainId)
    return key
  } finally {
    await opened.close()
  }
}
