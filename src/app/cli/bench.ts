/** @module `tassis bench`, and the hidden commands that it starts itself with: the load generator and the receiver. */
import { arch, cpus, tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { type Command, InvalidArgumentError } from 'commander'
import { systemClock } from '#platform/clock.ts'
import { type BenchResult, bench } from '../bench/bench.ts'
import { type LoadJob, runLoad } from '../bench/load.ts'
import { HTML_BYTES, TEXT_BYTES } from '../bench/mails.ts'
import { startBenchReceiver } from '../bench/receiver.ts'
import { type Figures, LOAD_COMMAND, RECEIVER_COMMAND } from '../bench/run.ts'
import { VERSION } from '../version.ts'
import { type JsonOption, withJson } from './options.ts'
import { print, report, table } from './output.ts'

interface Options extends JsonOption {
  readonly stored: readonly number[]
  readonly runs: number
  readonly connections: number
  readonly acceptSeconds: number
  readonly deliver: number
  readonly folder: string
}

export function addBenchCommand(program: Command): void {
  withJson(
    program
      .command('bench')
      .description('measure this machine: accepted and delivered emails a second, with data of its own that is removed')
      .option('--stored <list>', 'emails stored before, a comma list', wholeNumbers, [0, 100_000, 1_000_000])
      .option('--runs <n>', 'runs of each, in turn; medians are shown', wholeNumber, 5)
      .option('--connections <n>', 'HTTP connections', wholeNumber, 20)
      .option('--accept-seconds <n>', 'how long emails are accepted while delivery is held', wholeNumber, 5)
      .option('--deliver <n>', 'emails that are accepted and delivered', wholeNumber, 2000)
      .option(
        '--folder <path>',
        'where the data is made; it should be on the disk that the service will have',
        tmpdir(),
      ),
  ).action(async (options: Options) => {
    const results = await bench(options, (text) => process.stderr.write(`${text}\n`))
    report(options, { machine: machine(), version: VERSION, options, results }, () => benchText(options, results))
  })
  addHiddenCommands(program)
}

function addHiddenCommands(program: Command): void {
  program
    .command(LOAD_COMMAND, { hidden: true })
    .argument('<job>')
    .action(async (job: string) => {
      print(JSON.stringify(await runLoad(JSON.parse(job) as LoadJob, systemClock)))
    })
  program.command(RECEIVER_COMMAND, { hidden: true }).action(async () => {
    const receiver = await startBenchReceiver()
    print(JSON.stringify({ smtpPort: receiver.smtpPort, dnsPort: receiver.dnsPort }))
    // Each line is a number of messages; the answer comes when they are there. Ends with its input.
    for await (const line of createInterface({ input: process.stdin })) {
      while (receiver.count() < Number(line)) await systemClock.sleep(5)
      print(String(receiver.count()))
    }
    process.exit(0)
  })
}

function wholeNumber(text: string): number {
  const value = Number(text)
  if (!/^\d{1,9}$/.test(text) || value === 0) throw new InvalidArgumentError('It must be a whole number above 0.')
  return value
}

function wholeNumbers(text: string): number[] {
  if (!/^\d{1,8}(,\d{1,8})*$/.test(text)) throw new InvalidArgumentError('It must be whole numbers with commas.')
  return text.split(',').map(Number)
}

const machine = (): string => `${cpus().length} x ${cpus()[0]?.model.trim() || arch()}, Bun ${Bun.version}`

const ROWS: readonly (readonly [string, keyof Figures, number])[] = [
  ['accepted/s, delivery held', 'heldPerSecond', 0],
  ['  p50 ms', 'heldP50Ms', 2],
  ['  p99 ms', 'heldP99Ms', 2],
  ['  CPU ms an email', 'heldCpuMs', 3],
  ['accepted/s, while delivering', 'busyPerSecond', 0],
  ['  p50 ms', 'busyP50Ms', 2],
  ['  p99 ms', 'busyP99Ms', 2],
  ['delivered/s, end to end', 'deliveredPerSecond', 0],
  ['  CPU ms an email, accepted and delivered', 'deliveredCpuMs', 3],
  ['peak RSS MiB', 'peakRssMiB', 0],
]

function benchText(options: Options, results: readonly BenchResult[]): string {
  const rows = ROWS.map(([title, name, digits]) => [
    title,
    ...results.flatMap(({ medians, runs }) => {
      const values = runs.map((run) => run[name])
      return [
        medians[name].toFixed(digits),
        `${Math.min(...values).toFixed(digits)}..${Math.max(...values).toFixed(digits)}`,
      ]
    }),
  ])
  return [
    `Tassis ${VERSION} on ${machine()}`,
    `${options.runs} runs; median, least and most. ${options.connections} connections; each email ${TEXT_BYTES} bytes of text and ${HTML_BYTES} of HTML, no two alike;`,
    'durable before the answer (fdatasync); signed with RSA-2048; generator and receiver are processes of their own on this machine.',
    '',
    table(['', ...results.flatMap(({ stored }) => [`${stored} STORED`, ''])], rows),
  ].join('\n')
}
