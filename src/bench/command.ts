/** @module `tassis bench`, and the hidden commands for its child processes, such as load generator and receivers. */
import { arch, cpus, tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { UsageError } from '#app/cli/admin-command.ts'
import { createWholeNumberParser, type JsonOption, withJson } from '#app/cli/options.ts'
import { formatTable, print, printResult } from '#app/cli/output.ts'
import { VERSION } from '#app/version.ts'
import { systemClock } from '#platform/clock.ts'
import { type AnalyticsStats, DOMAIN_COUNT } from './analytics.ts'
import { type BenchOptions, type BenchResults, bench, type Measured } from './bench.ts'
import { type DashboardsJob, keepDashboardsOpen } from './dashboards.ts'
import { startHookReceiver } from './hook-receiver.ts'
import type { ImportStats } from './imports.ts'
import { type InboundStats, LONG_POLLS } from './inbound.ts'
import { LIST_FILTERS, type ListFilter, type ListStats } from './list.ts'
import { type GetJob, type LoadJob, runGets, runLoad } from './load.ts'
import { HTML_BYTES, TEXT_BYTES } from './mails.ts'
import { startBenchReceiver } from './receiver.ts'
import { DASHBOARDS_COMMAND, LOAD_COMMAND, type MailStats, RECEIVER_COMMAND } from './run.ts'
import { type SoakResult, soak } from './soak.ts'
import { SUBMIT_COMMAND } from './submission.ts'
import { runSubmit, type SubmitJob } from './submit.ts'
import { IN_FLIGHT, TEMPLATE, type TemplateStats } from './templates.ts'
import type { Trend } from './trend.ts'
import { GET_COMMAND, HOOK_RECEIVER_COMMAND, MAX_WAIT_SECONDS, type WebhookStats } from './webhooks.ts'

interface Options extends JsonOption, BenchOptions {
  readonly soak: number
  readonly soakSends: number
}

export function addBenchCommand(program: Command): void {
  withJson(
    program
      .command('bench')
      .description('benchmark this machine with temporary data: emails accepted and delivered per second')
      .addOption(
        new Option('--stored <list>', 'numbers of emails stored before, separated by commas; none: no mail is measured')
          .argParser(parseWholeNumbers)
          .default([0, 100_000, 1_000_000], '0,100000,1000000'),
      )
      .option('--runs <n>', 'runs of each, alternating; prints medians', parsePositive, 5)
      .option('--connections <n>', 'HTTP connections', parsePositive, 20)
      .option('--accept-seconds <n>', 'duration of acceptance while delivery is held', parsePositive, 5)
      .option('--deliver <n>', 'emails to accept and deliver', parsePositive, 2000)
      .option('--dashboards <n>', 'repeat each run with so many open dashboards; 0: none', parseCount, 0)
      .option('--events <n>', 'events to deliver to a webhook; 0: none, and no redirects', parseCount, 100_000)
      .option('--received <n>', 'messages to submit over SMTP; 0: none, and no long polls', parseCount, 3000)
      .option('--import <n>', 'contacts to import from one CSV file; 0: none', parseCount, 1_000_000)
      .option('--templates <n>', 'templates to render; 0: none', parseCount, 5000)
      .option(
        '--analytics <n>',
        'events stored for the analytics benchmark; 0: none (10000000 take some 10 minutes and 6 GB)',
        parseCount,
        0,
      )
      .option('--list <n>', 'emails stored for the benchmark of lists and searches; 0: none', parseCount, 0)
      .option(
        '--soak <minutes>',
        'instead, run a steady mixed load for this long and measure the growth of memory, descriptors, WAL and disk',
        parseCount,
        0,
      )
      .option('--soak-sends <n>', 'emails per second of the soak', parsePositive, 50)
      .option('--folder <path>', 'folder for the temporary data; use the disk that the service will use', tmpdir())
      .addHelpText(
        'after',
        '\nWith the defaults this takes about half an hour and some gigabytes of disk on a small machine. For a quick run:\n  tassis bench --stored 0 --runs 1 --events 10000 --received 500 --import 0',
      ),
  ).action(async (options: Options) => {
    const progress = (text: string) => void process.stderr.write(`${text}\n`)
    if (options.soak > 0) {
      const { soak: minutes, soakSends: sendsPerSecond, folder } = options
      const result = await soak({ minutes, sendsPerSecond, folder }, progress)
      printResult(options, toSnakeKeys({ machine: describeMachine(), version: VERSION, options, soak: result }), () =>
        formatSoak(options, result),
      )
      return
    }
    requireMeasurement(options)
    const results = await bench(options, progress)
    printResult(options, toSnakeKeys({ machine: describeMachine(), version: VERSION, options, results }), () =>
      formatBench(options, results),
    )
  })
  addLoadCommands(program)
  addHelperCommands(program)
}

/** Names the keys of results as all JSON of commands does: `alone_ms`. */
function toSnakeKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toSnakeKeys)
  if (typeof value !== 'object' || value === null) return value
  const toSnakeCase = (key: string): string => key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [toSnakeCase(key), toSnakeKeys(inner)]))
}

/** Throws UsageError if nothing is to be measured. */
function requireMeasurement({ stored, events, received, import: imported, templates, analytics, list }: Options): void {
  if (stored.length > 0 || [events, received, imported, templates, analytics, list].some((count) => count > 0)) return
  throw new UsageError(
    'Nothing is to be measured: with --stored none, at least one of --events, --received, --import, --templates, --analytics and --list must be above 0.',
  )
}

function addLoadCommands(program: Command): void {
  program
    .command(LOAD_COMMAND, { hidden: true })
    .argument('<job>')
    .action(async (job: string) => {
      print(JSON.stringify(await runLoad(JSON.parse(job) as LoadJob, systemClock)))
    })
  program
    .command(DASHBOARDS_COMMAND, { hidden: true })
    .argument('<job>')
    .action((job: string) => keepDashboardsOpen(JSON.parse(job) as DashboardsJob, systemClock))
  program.command(RECEIVER_COMMAND, { hidden: true }).action(async () => {
    const receiver = await startBenchReceiver()
    print(JSON.stringify({ smtpPort: receiver.smtpPort, dnsPort: receiver.dnsPort }))
    // Each input line is a number of messages; the reply follows when they have arrived. The process ends when its
    // input ends.
    for await (const line of createInterface({ input: process.stdin })) {
      while (receiver.count() < Number(line)) await systemClock.sleep(5)
      print(String(receiver.count()))
    }
    process.exit(0)
  })
}

function addHelperCommands(program: Command): void {
  program
    .command(SUBMIT_COMMAND, { hidden: true })
    .argument('<file>')
    .action(async (file: string) => {
      print(JSON.stringify(await runSubmit((await Bun.file(file).json()) as SubmitJob, systemClock)))
    })
  program
    .command(GET_COMMAND, { hidden: true })
    .argument('<file>')
    .action(async (file: string) => {
      print(JSON.stringify(await runGets((await Bun.file(file).json()) as GetJob, systemClock)))
    })
  program
    .command(HOOK_RECEIVER_COMMAND, { hidden: true })
    .argument('<cert>')
    .argument('<key>')
    .action(async (certFile: string, keyFile: string) => {
      const receiver = await startHookReceiver({ certFile, keyFile }, systemClock)
      print(JSON.stringify({ port: receiver.port, dnsPort: receiver.dnsPort }))
      // Each input line is a number of events; the reply follows when that many have arrived, and the count starts
      // again.
      for await (const line of createInterface({ input: process.stdin })) {
        const untilMs = systemClock.monotonicMs() + MAX_WAIT_SECONDS * 1000
        while (receiver.counted().events < Number(line) && systemClock.monotonicMs() < untilMs)
          await systemClock.sleep(5)
        print(JSON.stringify(receiver.counted()))
        receiver.reset()
      }
      process.exit(0)
    })
}

/** Larger numbers are probably typing errors. */
const MAX_NUMBER = 100_000_000

const parsePositive = createWholeNumberParser(1, MAX_NUMBER)
const parseCount = createWholeNumberParser(0, MAX_NUMBER)

function parseWholeNumbers(text: string): number[] {
  if (text === 'none') return []
  if (!/^\d{1,8}(,\d{1,8})*$/.test(text))
    throw new InvalidArgumentError('It must be whole numbers separated by commas.')
  return text.split(',').map(Number)
}

const describeMachine = (): string => `${cpus().length} x ${cpus()[0]?.model.trim() || arch()}, Bun ${Bun.version}`

const ROWS: readonly (readonly [string, keyof MailStats, number])[] = [
  ['accepted/s, delivery held', 'heldPerSecond', 0],
  ['  p50 ms', 'heldP50Ms', 2],
  ['  p99 ms', 'heldP99Ms', 2],
  ['  CPU ms per email', 'heldCpuMs', 3],
  ['submitted/s over SMTP, delivery held', 'submittedPerSecond', 0],
  ['  p50 ms', 'submittedP50Ms', 2],
  ['  p99 ms', 'submittedP99Ms', 2],
  ['  CPU ms per message', 'submittedCpuMs', 3],
  ['accepted/s, while delivering', 'busyPerSecond', 0],
  ['  p50 ms', 'busyP50Ms', 2],
  ['  p99 ms', 'busyP99Ms', 2],
  ['delivered/s, end to end', 'deliveredPerSecond', 0],
  ['  CPU ms per email, accepted and delivered', 'deliveredCpuMs', 3],
  ['peak RSS MiB', 'peakRssMiB', 0],
]

const INBOUND_ROWS: readonly (readonly [string, keyof InboundStats, number])[] = [
  ['accepted/s (250)', 'takenPerSecond', 0],
  ['  p50 ms', 'takenP50Ms', 2],
  ['  p99 ms', 'takenP99Ms', 2],
  ['processed/s, end to end', 'processedPerSecond', 0],
  ['  CPU ms per message, accepted and processed', 'processedCpuMs', 3],
  ['peak RSS MiB', 'peakRssMiB', 0],
  [`${LONG_POLLS} long polls: additional MiB`, 'waitingRssMiB', 0],
  ['  CPU ms per second', 'waitingCpuMs', 1],
]

const IMPORT_ROWS: readonly (readonly [string, keyof ImportStats, number])[] = [
  ['uploaded MiB/s, until the 202', 'uploadMiBPerSecond', 0],
  ['contacts imported/s', 'importedPerSecond', 0],
  ['  CPU ms per contact', 'importedCpuMs', 3],
  ['peak RSS MiB', 'peakRssMiB', 0],
  ['  growth', 'grownRssMiB', 0],
  ['GET /healthz during this, p99 ms', 'healthP99Ms', 1],
  ['  slowest ms', 'healthWorstMs', 0],
]

const TEMPLATE_ROWS: readonly (readonly [string, keyof TemplateStats, number])[] = [
  ['ms per render, one after another', 'aloneMs', 3],
  [`ms per render, ${IN_FLIGHT} in flight`, 'besideMs', 3],
  ['  CPU ms per render, all threads', 'cpuMs', 3],
]

const ANALYTICS_ROWS: readonly (readonly [string, keyof AnalyticsStats, number])[] = [
  ['GET overview, 30 days, p50 ms', 'overview30P50Ms', 2],
  ['  p99 ms', 'overview30P99Ms', 2],
  ['GET overview, 366 days, p50 ms', 'overview366P50Ms', 2],
  ['  p99 ms', 'overview366P99Ms', 2],
  ['GET timeseries, 366 days, p50 ms', 'timeseries366P50Ms', 2],
  ['  p99 ms', 'timeseries366P99Ms', 2],
  ['GET export, 366 days, p50 ms', 'export366P50Ms', 2],
  ['  p99 ms', 'export366P99Ms', 2],
  ['GET domains, 30 days, p50 ms', 'domains30P50Ms', 2],
  ['  p99 ms', 'domains30P99Ms', 2],
  ['GET domains, 366 days, p50 ms', 'domains366P50Ms', 2],
  ['  p99 ms', 'domains366P99Ms', 2],
  ['GET /healthz during this, p99 ms', 'healthP99Ms', 1],
  ['  slowest ms', 'healthWorstMs', 0],
  ['events stored', 'events', 0],
  ['daily domain rows stored', 'domainRows', 0],
  ['database, MiB', 'databaseMiB', 0],
  ['RSS MiB', 'rssMiB', 0],
]

const LIST_TITLES: Readonly<Record<ListFilter, string>> = {
  none: 'no filter',
  recipient: 'to',
  recipientBounced: 'to and status=bounced',
  recipientInAWeek: 'to, in one week',
  recipientDomain: 'to=@domain, the largest',
  recipientRareDomain: 'to=@domain, a rare one',
  sender: 'from, of all emails',
  senderDomain: 'from=@domain, of all emails',
  domain: 'domain, of 99.9 % of emails',
  rareDomain: 'domain, of 0.1 % of emails',
  domainBounced: 'domain and status=bounced',
  subject: 'subject, one email',
  commonSubject: 'subject, all emails',
  tag: 'tag',
}

const LIST_ROWS: readonly (readonly [string, keyof ListStats, number])[] = [
  ...LIST_FILTERS.flatMap((filter) => [
    [`${LIST_TITLES[filter]}, p50 ms`, `${filter}P50Ms`, 2] as const,
    ['  p99 ms', `${filter}P99Ms`, 2] as const,
  ]),
  ['database, MiB', 'databaseMiB', 0],
  ['RSS MiB', 'rssMiB', 0],
]

const WEBHOOK_ROWS: readonly (readonly [string, keyof WebhookStats, number])[] = [
  ['events delivered/s, one webhook', 'toldPerSecond', 0],
  ['  CPU ms per event', 'toldCpuMs', 3],
  ['redirect of a tracked link, p50 ms', 'redirectP50Ms', 2],
  ['  p99 ms', 'redirectP99Ms', 2],
  ['peak RSS MiB', 'peakRssMiB', 0],
]

function formatBench(
  options: Options,
  { mail, told, received, imported, templates, analytics, lists }: BenchResults,
): string {
  return [
    `Tassis ${VERSION} on ${describeMachine()}`,
    ...(mail.length > 0
      ? [
          `${options.runs} runs; median, minimum and maximum. ${options.connections} connections; each email ${TEXT_BYTES} bytes of text and ${HTML_BYTES} of HTML, no two alike;`,
          'durable before the response (fdatasync); signed with RSA-2048; generator and receiver run as separate processes on this machine.',
          '',
          formatTable(
            [
              '',
              ...mail.flatMap(({ stored, watched }) => [
                `${stored} STORED`,
                '',
                ...(watched ? [`${options.dashboards} DASHBOARDS`, ''] : []),
              ]),
            ],
            formatRows(
              ROWS,
              mail.flatMap(({ medians, runs, watched }) => [{ medians, runs }, ...(watched ? [watched] : [])]),
            ),
          ),
        ]
      : []),
    ...formatSection(
      `${options.events} waiting events delivered to one webhook over TLS, none lost; then redirects over 4 connections, each recorded as a click, on an otherwise idle service.`,
      WEBHOOK_ROWS,
      told,
    ),
    ...formatSection(
      `${options.received} messages of some 11 KiB (text, HTML, attachment; DKIM, SPF and DMARC pass) submitted over 20 connections, durable before the 250; then ${LONG_POLLS} long polls.`,
      INBOUND_ROWS,
      received,
    ),
    ...formatSection(
      `${options.import} contacts of one CSV file, uploaded and imported; each batch durable before the next.`,
      IMPORT_ROWS,
      imported,
    ),
    ...formatSection(
      `${options.templates} renders of a template of ${Buffer.byteLength(TEMPLATE)} bytes with loops and conditions, each with different data.`,
      TEMPLATE_ROWS,
      templates,
    ),
    ...formatSection(
      `A year of mail to ${DOMAIN_COUNT} domains, the n-th with a share proportional to 1/n; each endpoint requested one request after another on an otherwise idle service.`,
      ANALYTICS_ROWS,
      analytics,
    ),
    ...formatSection(
      `GET /v1/emails, 25 of ${options.list} emails of one account; each filter requested one request after another on an otherwise idle service.`,
      LIST_ROWS,
      lists,
    ),
  ].join('\n')
}

/** The lines of one benchmark; none if it was not requested. */
const formatSection = <F>(
  description: string,
  rows: readonly (readonly [string, keyof F, number])[],
  measured: Measured<F> | undefined,
): string[] =>
  measured
    ? ['', description, '', formatTable(['', `${measured.runs.length} RUNS`, ''], formatRows(rows, [measured]))]
    : []

const SOAK_ROWS: readonly (readonly [string, 'rssMiB' | 'descriptors' | 'walMiB' | 'diskMiB'])[] = [
  ['RSS MiB', 'rssMiB'],
  ['open descriptors', 'descriptors'],
  ['WAL MiB', 'walMiB'],
  ['data directory MiB', 'diskMiB'],
]

function formatSoak({ soak: minutes, soakSends }: Options, result: SoakResult): string {
  const cells = ({ first, last, highest, perHour, errorPerHour }: Trend) => [
    ...[first, last, highest].map((value) => value.toFixed(1)),
    Number.isNaN(perHour) ? 'too short' : `${perHour.toFixed(1)} ± ${errorPerHour.toFixed(1)}`,
  ]
  return [
    `Tassis ${VERSION} on ${describeMachine()}`,
    `${minutes} minutes at ${soakSends} emails per second: ${result.sent} sent, ${result.delivered} delivered, ${result.received} received, ${result.told} webhook requests, ${result.refused} refused.`,
    'The growth is the slope of a line through all but the first quarter, with its 95 % error.',
    '',
    formatTable(
      ['', 'FIRST', 'LAST', 'HIGHEST', 'GROWTH PER HOUR'],
      SOAK_ROWS.map(([title, name]) => [title, ...cells(result[name])]),
    ),
  ].join('\n')
}

/** Formats one row per value with the median, minimum and maximum of each result. */
const formatRows = <F>(
  rows: readonly (readonly [string, keyof F, number])[],
  results: readonly Measured<F>[],
): string[][] =>
  rows.map(([title, name, digits]) => [
    title,
    ...results.flatMap(({ medians, runs }) => {
      const values = runs.map((run) => Number(run[name]))
      return [
        Number(medians[name]).toFixed(digits),
        `${Math.min(...values).toFixed(digits)}..${Math.max(...values).toFixed(digits)}`,
      ]
    }),
  ])
