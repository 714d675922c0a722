/**
 * @module Compares Tassis with Postfix and OpenDKIM on one machine, in alternating runs, and prints tables in Markdown.
 * See `scripts/bench-peers --help`.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type ChildProcess, readUsage, spawnSelf } from '#bench/processes.ts'
import { readCpuMs } from './cpu.ts'
import { copyData, describeCpu, type Peer, startPostfixPeer, startTassis } from './peers.ts'
import { createData, fillQueue } from './queue.ts'
import type { ReceiverCounts, ReceiverPorts } from './receiver.ts'

const HELP = `scripts/bench-peers [--runs N] [--messages N] [--warm-up N] [--queued LIST] [--quick]

Sends the same messages (10 KiB of text and HTML, RSA-2048 signatures) through Tassis and through Postfix with
OpenDKIM, in turn, each with its defaults and durable acceptance, over 20 connections to the same sink, without and
with TLS. Then sends with Tassis while a queue waits. Prints tables with the median and range of emails per second and
of CPU time per email: user and system time of all processes of the service, not of sink and generator.
  --runs N       runs of each (5)
  --messages N   messages a run (2000)
  --warm-up N    messages before them, which are not measured (200); Bun compiles code for the first 20,000
  --queued LIST  emails that wait and are due, to one and to 10,000 domains (0,100000,1000000); none: skip
  --quick        2 runs of 500 messages, queues of 0 and 10,000
It takes some 12 minutes. TMPDIR is the folder of the temporary data. On a busy machine only CPU time means something.`

const MANY_DOMAINS = 10_000

interface Figures {
  readonly perSecond: number
  readonly cpuMs: number
}

interface Arguments {
  readonly runs: number
  readonly messages: number
  readonly warmUp: number
  readonly queued: readonly number[]
}

const options = readArguments()
const folder = mkdtempSync(join(tmpdir(), 'tassis-peers-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130))

const cpu = describeCpu()
console.log(
  `- **Machine:** ${cpus().length} cores of ${cpu.name}, ${cpu.hasIfma ? 'with' : 'without'} AVX512-IFMA, shared by service, generator and sink.`,
)
console.log(`- **Commit:** ${run(['git', 'rev-parse', '--short=10', 'HEAD'])}.`)
console.log(`- **Postfix:** ${version('postfix')}; **OpenDKIM:** ${version('opendkim')}.`)
const template = join(folder, 'template')
const key = await createData(template)
await comparePeers()
if (options.queued.length > 0) await measureQueues()
process.exit(0)

async function comparePeers(): Promise<void> {
  const rows: string[] = []
  for (const hasTls of [false, true]) {
    const postfix: Figures[] = []
    const tassis: Figures[] = []
    for (let number = 1; number <= options.runs; number++) {
      progress(`run ${number} of ${options.runs}, TLS ${hasTls ? 'on' : 'off'}`)
      postfix.push(await measurePeer(hasTls, startPostfixPeer))
      const dataDir = join(folder, 'run')
      copyData(template, dataDir)
      tassis.push(await measurePeer(hasTls, (ports) => startTassis(dataDir, ports, { key, domains: 1 })))
      rmSync(dataDir, { recursive: true })
    }
    const tls = hasTls ? 'TLS' : 'no TLS'
    rows.push(compare(`emails/s, ${tls}`, postfix, tassis, 'perSecond', 0))
    rows.push(compare(`CPU ms per email, ${tls}`, postfix, tassis, 'cpuMs', 2))
  }
  console.log(
    `\n${options.runs} alternating runs of ${options.messages} messages after ${options.warmUp}: median (range).\n`,
  )
  console.log('| Figure | Postfix with OpenDKIM | Tassis | Tassis is better by |\n|---|---|---|---|')
  for (const row of rows) console.log(row)
}

/** From the first submitted message to the last at the sink. Fails unless each is signed, and encrypted with TLS. */
async function measurePeer(hasTls: boolean, start: (ports: ReceiverPorts) => Promise<Peer>): Promise<Figures> {
  await using receiver = startReceiver(hasTls)
  await using peer = await start(JSON.parse(await receiver.readLine()) as ReceiverPorts)
  await peer.submit(options.warmUp)
  await waitForReceived(receiver, options.warmUp)
  const beforeMs = readCpuMs(peer.pids)
  const startedMs = performance.now()
  await peer.submit(options.messages)
  const { taken, signed, encrypted } = await waitForReceived(receiver, options.warmUp + options.messages)
  const seconds = (performance.now() - startedMs) / 1000
  const cpuMs = readCpuMs(peer.pids) - beforeMs
  if (signed !== taken || encrypted !== (hasTls ? taken : 0))
    throw new Error(`Of ${taken} messages ${signed} were signed and ${encrypted} encrypted.`)
  return { perSecond: options.messages / seconds, cpuMs: cpuMs / options.messages }
}

/** Sends as many emails as in a run while a queue is due, and waits until as many have been delivered. */
async function measureQueues(): Promise<void> {
  console.log(
    '\n| Tassis, emails queued | Domains | emails/s | CPU ms per email | peak RSS, MiB |\n|---|---|---|---|---|',
  )
  for (const queued of options.queued)
    for (const domains of [1, MANY_DOMAINS]) {
      progress(`${queued} queued to ${domains} domains`)
      const dataDir = join(folder, 'queue')
      mkdirSync(dataDir)
      const queueKey = await fillQueue(dataDir, queued, domains)
      await using receiver = startReceiver(false)
      const ports = JSON.parse(await receiver.readLine()) as ReceiverPorts
      await using tassis = await startTassis(dataDir, ports, { key: queueKey, domains })
      await tassis.submit(options.warmUp)
      const { taken } = await waitForReceived(receiver, options.warmUp)
      const beforeMs = readCpuMs(tassis.pids)
      const startedMs = performance.now()
      await tassis.submit(options.messages)
      const end = await waitForReceived(receiver, taken + options.messages)
      const seconds = (performance.now() - startedMs) / 1000
      const delivered = end.taken - taken
      const cpuMs = (readCpuMs(tassis.pids) - beforeMs) / delivered
      const { peakRssMiB } = readUsage(tassis.pids[0] ?? 0)
      console.log(
        `| ${format(queued, 0)} | ${format(domains, 0)} | ${format(delivered / seconds, 0)} | ${format(cpuMs, 2)} | ${format(peakRssMiB, 0)} |`,
      )
      await tassis[Symbol.asyncDispose]()
      rmSync(dataDir, { recursive: true })
    }
}

function startReceiver(hasTls: boolean): ChildProcess {
  const program = [process.execPath, join(import.meta.dir, 'receiver.ts')]
  return spawnSelf(hasTls ? ['tls'] : [], {}, program)
}

async function waitForReceived(receiver: ChildProcess, count: number): Promise<ReceiverCounts> {
  receiver.writeLine(String(count))
  return JSON.parse(await receiver.readLine()) as ReceiverCounts
}

function compare(
  name: string,
  postfix: readonly Figures[],
  tassis: readonly Figures[],
  figure: keyof Figures,
  digits: number,
): string {
  const read = (runs: readonly Figures[]) => runs.map((one) => one[figure]).toSorted((a, b) => a - b)
  const show = (sorted: readonly number[]) =>
    `${format(median(sorted), digits)} (${format(sorted[0] ?? Number.NaN, digits)} to ${format(sorted.at(-1) ?? Number.NaN, digits)})`
  const [theirs, ours] = [read(postfix), read(tassis)]
  const ratio = figure === 'perSecond' ? median(ours) / median(theirs) : median(theirs) / median(ours)
  return `| ${name} | ${show(theirs)} | ${show(ours)} | ${format(ratio, 1)} times |`
}

function median(sorted: readonly number[]): number {
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

function format(value: number, digits: number): string {
  return value.toLocaleString('en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

function progress(text: string): void {
  process.stderr.write(`${text}\n`)
}

function version(name: string): string {
  return run(['dpkg-query', '--show', `--showformat=\${Version}`, name])
}

function run(command: readonly string[]): string {
  return Bun.spawnSync([...command], { cwd: import.meta.dir })
    .stdout.toString()
    .trim()
}

function readArguments(): Arguments {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '5' },
      messages: { type: 'string', default: '2000' },
      'warm-up': { type: 'string', default: '200' },
      queued: { type: 'string', default: '0,100000,1000000' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    console.log(HELP)
    process.exit(0)
  }
  if (values.quick) return { runs: 2, messages: 500, warmUp: 200, queued: [0, 10_000] }
  const queued = values.queued === 'none' ? [] : values.queued.split(',').map(Number)
  const [runs, messages, warmUp] = [Number(values.runs), Number(values.messages), Number(values['warm-up'])]
  const chosen = { runs, messages, warmUp, queued }
  if ([runs, messages, warmUp, ...queued].every((value) => Number.isSafeInteger(value) && value >= 0)) return chosen
  console.error('--runs, --messages, --warm-up and --queued must be whole numbers. See --help.')
  process.exit(1)
}
