/**
 * @module The kill test: under load, `kill -9` of a real service process, again and again, at random moments and inside DATA. After each restart
 * every accepted email has to be at the receiver exactly once or be `uncertain`, within a minute. See `scripts/kill-test --help`.
 *
 * Mail that the receiver defers (450 at RCPT) is part of the load but not of "final within 60 s": its next attempt is minutes away. It has to wait
 * for a later attempt, which is checked; so do the receiver's own cuts after the final dot, which have to end as uncertain and are counted apart.
 */
import { Database } from 'bun:sqlite'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startDnsServer } from '#test/support/dns-server.ts'
import { imbalances, openCount, storedMail } from './books.ts'
import { type Judgement, judgeRound } from './judge.ts'
import { RECEIVER_DOMAIN, type Sent, startLoad } from './load.ts'
import { seededRandom } from './random.ts'
import {
  commandOf,
  freePort,
  prepareDataDirectory,
  type ServiceProcess,
  type Settings,
  startService,
  untilReady,
} from './service.ts'
import { type AtKill, type KillSink, startKillSink } from './sink.ts'

const HELP = `scripts/kill-test [--rounds N] [--seed S] [--service serve|parts] [--keep]
scripts/kill-test --webhooks [--rounds N] [--seed S] [--keep]

Kills a real service under load, N times (30), and proves that no accepted email is lost or sent twice.
  --webhooks   proves instead that no event is lost to a webhook (test/kill/webhooks.ts)
  --seed S     repeats the choices of another run (they are printed)
  --service    serve: the command \`serve\` (default); parts: a program put together from its parts
  --keep       keeps the data directory, which otherwise stays only after a failure
Exit code 1 when a promise was broken.`

const FINAL_WITHIN_MS = 60_000
/** Longest time until a moment inside DATA comes. */
const IN_DATA_WITHIN_MS = 10_000

const { values: args } = parseArgs({
  options: {
    rounds: { type: 'string', default: '30' },
    seed: { type: 'string' },
    service: { type: 'string', default: 'serve' },
    keep: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const rounds = Number(args.rounds)
const seed = args.seed === undefined ? Math.floor(Math.random() * 1_000_000) : Number(args.seed)
if (args.help || !Number.isInteger(rounds) || rounds < 1 || rounds > 1000 || !Number.isInteger(seed)) {
  console.log(HELP)
  process.exit(args.help ? 0 : 2)
}

/**
 * Moments of the kill. `frozen`: every session is kept inside DATA, so what is uncertain is exactly bounded by them. `held`: some are, the others
 * go on. `random`: whatever is going on then. `recovery`: as `random`, and once more while the service settles what the first kill left.
 */
const MOMENTS = ['frozen', 'held', 'random', 'held', 'recovery', 'random'] as const
type Moment = (typeof MOMENTS)[number]

const ORDINARY = { hold: 0, slow: 0.15, drop: 0.02, cut: 0 }

interface Kill {
  readonly inData: number
  readonly atKill: AtKill
}

const random = seededRandom(seed)
const folder = mkdtempSync(join(tmpdir(), 'tassis-kill-'))
const sink = await startKillSink(random)
const dns = await startDnsServer({
  // Two names, so that a connection that is dropped before its 354 is followed by an attempt at the other.
  [RECEIVER_DOMAIN]: {
    MX: [
      { preference: 10, exchange: 'mx1.test' },
      { preference: 20, exchange: 'mx2.test' },
    ],
  },
  'mx1.test': { A: ['127.0.0.1'] },
  'mx2.test': { A: ['127.0.0.1'] },
})
const port = await freePort()
const url = `http://127.0.0.1:${port}`
const settings: Settings = {
  PATH: process.env['PATH'] ?? '',
  TASSIS_DATA_DIR: join(folder, 'data'),
  TASSIS_HTTP_ADDR: `127.0.0.1:${port}`,
  TASSIS_HOSTNAME: 'mail.kill.test',
  TASSIS_DNS_SERVERS: dns.address,
  TASSIS_SMTP_PORT: String(sink.port),
  TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
  TASSIS_LOG_LEVEL: 'warn',
}
const logFile = join(folder, 'service.log')
const command = commandOf(args.service === 'parts' ? 'parts' : 'serve')
let service: ServiceProcess | undefined
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => void service?.kill().finally(() => process.exit(130)))

const start = async (): Promise<ServiceProcess> => {
  service = startService(settings, command, logFile)
  await untilReady(service, url)
  return service
}

/** Kills in the same turn in which the receiver is asked who is inside DATA. */
async function kill(running: ServiceProcess): Promise<Kill> {
  const gone = running.kill()
  const atKill = sink.atKill()
  await gone
  await sink.releaseAfterKill()
  return { inData: atKill.inData.length, atKill }
}

async function until(condition: () => boolean, withinMs: number): Promise<boolean> {
  const end = performance.now() + withinMs
  while (!condition()) {
    if (performance.now() > end) return false
    await Bun.sleep(2)
  }
  return true
}

/** Waits for the moment of a round. */
async function moment(kind: Moment, theSink: KillSink): Promise<void> {
  theSink.behave({ ...ORDINARY, cut: 0.01 })
  await Bun.sleep(random.between(30, 700))
  if (kind === 'frozen') {
    theSink.behave({ hold: 1, slow: 0, drop: 0, cut: 0 })
    // All that were inside DATA before have had their reply and the service the time to store it.
    await Bun.sleep(random.between(600, 1200))
  } else if (kind === 'held') theSink.behave({ ...ORDINARY, hold: 0.3 })
  if (kind === 'frozen' || kind === 'held') {
    await until(() => theSink.inData().length > 0, IN_DATA_WITHIN_MS)
    await Bun.sleep(random.between(0, 40))
  } else await Bun.sleep(random.between(0, 500))
}

const sent = new Map<string, Sent>()
/** Recipients that a kill may have made uncertain. */
const excused = new Set<string>()
const knownUncertain = new Set<string>()
const sum = { kills: 0, inData: 0 }
let violations: string[] = []
let last: Judgement | undefined

async function round(number: number): Promise<void> {
  const kind = MOMENTS[(number - 1) % MOMENTS.length] ?? 'random'
  let running = service?.isRunning() ? service : await start()
  const load = startLoad(url, key, random, `r${number}`, sent)
  await moment(kind, sink)
  const kills = [await kill(running)]
  const stopped = load.stop()
  if (kind === 'recovery') {
    sink.behave(ORDINARY)
    running = startService(settings, command, logFile)
    service = running
    await Bun.sleep(random.between(50, 900))
    kills.push(await kill(running))
  }
  await stopped
  sink.behave(ORDINARY)
  const restartedAt = performance.now()
  await start()
  using db = new Database(join(settings['TASSIS_DATA_DIR'] ?? '', 'tassis.db'), { readonly: true })
  db.run('PRAGMA busy_timeout = 5000')
  const isFinal = await untilFinal(db)
  const finalMs = performance.now() - restartedAt

  for (const { atKill } of kills) {
    for (const few of atKill.undecided.values()) for (const { recipient } of few) excused.add(recipient)
  }
  const { byId, twice } = storedMail(db)
  last = judgeRound({
    sent,
    stored: byId,
    storedTwice: twice,
    transactions: sink.transactions,
    excused,
    now: Date.now(),
  })
  const broken = [...last.violations, ...imbalances(db)]
  if (!isFinal) broken.push(`not everything is final ${FINAL_WITHIN_MS} ms after the restart`)
  const fresh = last.uncertain.filter((id) => !knownUncertain.has(id))
  for (const id of fresh) knownUncertain.add(id)
  const byCut = new Set(sink.transactions.filter(({ cut }) => cut).map(({ recipient }) => recipient))
  const byKill = fresh.filter((id) => !byCut.has(id))
  broken.push(...uncertainBounds(kind, kills, byKill))
  sum.kills += kills.length
  sum.inData += kills.filter(({ inData }) => inData > 0).length
  const told = Map.groupBy(
    [...sent.values()].filter(({ id }) => id.includes(`r${number}-`)),
    (entry) => entry.told,
  )
  const inData = kills.map((k) => k.inData).join(' and ')
  console.log(
    `round ${number} ${kind}: ${inData} sessions in DATA, ${told.get('accepted')?.length ?? 0} accepted, ${told.get('unanswered')?.length ?? 0} unanswered; ` +
      `${byKill.length} uncertain${justAnswered(kills, byKill)}, ${fresh.length - byKill.length} by a cut; ` +
      `final ${(finalMs / 1000).toFixed(1)} s after the restart${broken.length > 0 ? `; ${broken.length} VIOLATIONS` : ''}`,
  )
  violations = broken
}

/** At most one uncertain email a session, and when all were kept inside DATA at most as many as those. */
function uncertainBounds(kind: Moment, kills: readonly Kill[], byKill: readonly string[]): string[] {
  const found: string[] = []
  for (const { atKill } of kills) {
    for (const [session, few] of atKill.undecided) {
      const both = few.filter(({ recipient }) => byKill.includes(recipient))
      if (both.length > 1) found.push(`session ${session} left ${both.length} uncertain emails`)
    }
  }
  const inData = kills.reduce((total, k) => total + k.inData, 0)
  if (kind === 'frozen' && byKill.length > inData)
    found.push(`${byKill.length} are uncertain, but only ${inData} sessions were in DATA at the kill`)
  return found
}

/** Those whose reply we had written, but the service had not stored yet: for it they were still inside DATA. */
function justAnswered(kills: readonly Kill[], byKill: readonly string[]): string {
  const agesMs = kills.flatMap(({ atKill }) =>
    [...atKill.undecided.values()].flat().flatMap(({ recipient, answeredAtMs }) => {
      const isEarlier = answeredAtMs !== undefined && answeredAtMs <= atKill.atMs
      return isEarlier && byKill.includes(recipient) ? [atKill.atMs - answeredAtMs] : []
    }),
  )
  if (agesMs.length === 0) return ''
  return ` (${agesMs.length} of them answered up to ${Math.ceil(Math.max(...agesMs))} ms before)`
}

/** Resolves with whether all but the deferred became final in time. */
async function untilFinal(db: Database): Promise<boolean> {
  const end = performance.now() + FINAL_WITHIN_MS
  while (openCount(db, Date.now()) > 0) {
    if (performance.now() > end || !service?.isRunning()) return false
    await Bun.sleep(50)
  }
  return true
}

const key = await prepareDataDirectory(settings)
console.log(`seed ${seed}, ${rounds} rounds`)
try {
  for (let number = 1; number <= rounds && violations.length === 0; number++) await round(number)
  const exitCode = await service?.stop()
  if (exitCode !== 0) violations.push(`the service ended with ${exitCode} when it was told to stop`)
  if (args.service !== 'parts') violations.push(...(await checkCommand()))
} catch (error) {
  violations.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
} finally {
  if (service?.isRunning()) await service.kill()
}
for (const violation of violations.slice(0, 30)) console.log(`VIOLATION ${violation}`)
const { totals } = last ?? {}
console.log(
  `${sum.kills} kills, ${sum.inData} inside DATA; ${totals?.accepted ?? 0} accepted and ${totals?.unansweredButStored ?? 0} stored without an answer: ` +
    `${totals?.receivedOnce ?? 0} received once, ${totals?.uncertain ?? 0} uncertain, ${totals?.uncertainByCut ?? 0} uncertain by the receiver's own cut, ` +
    `${totals?.deferred ?? 0} deferred; ${totals?.duplicates ?? 0} duplicates, ${totals?.lost ?? 0} lost`,
)
if (sum.inData * 3 < sum.kills) violations.push('less than a third of the kills were inside DATA')
await sink[Symbol.asyncDispose]()
await dns.close()
if (violations.length > 0 || args.keep) console.log(`Data and log are kept in ${folder}`)
else if (existsSync(folder)) rmSync(folder, { recursive: true, force: true })
process.exit(violations.length > 0 ? 1 : 0)

/** What `tassis check` says of the stopped service's books. */
async function checkCommand(): Promise<string[]> {
  const check = Bun.spawn([...command.slice(0, -1), 'check'], { env: { ...settings }, stdout: 'pipe', stderr: 'pipe' })
  const [output, errors, code] = await Promise.all([
    new Response(check.stdout).text(),
    new Response(check.stderr).text(),
    check.exited,
  ])
  return code === 0 ? [] : [`check ended with ${code}: ${output}${errors}`]
}
