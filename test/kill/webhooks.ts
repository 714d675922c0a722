/**
 * @module The kill test of webhooks: under load, `kill -9` of a real service that tells two endpoints over TLS, one that answers well and one that is
 * slow and fails, at moments between an event, its attempt, the answer and the stored outcome. No event may be lost. See `scripts/kill-test --help`.
 *
 * After a failed attempt the next comes 15 minutes later, so what the bad endpoint refused stays pending: that is its place. Some rounds make those
 * due while the service is dead, so that it is killed during retries too.
 */
import { Database } from 'bun:sqlite'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { WEBHOOK_EVENTS } from '#features/webhooks/event-names.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { imbalances, openCount } from './books.ts'
import { type Answers, type KillEndpoint, PROMPT, startEndpoint } from './endpoint.ts'
import { type Mix, RECEIVER_DOMAIN, type Sent, startLoad } from './load.ts'
import { seededRandom } from './random.ts'
import {
  commandOf,
  freePort,
  prepareAccount,
  type ServiceProcess,
  type Settings,
  startService,
  untilReady,
} from './service.ts'
import { startKillSink } from './sink.ts'
import { type StoredEvent, storedEvents, storedWebhook } from './told.ts'
import {
  cursorViolations,
  duplicatesOf,
  type Evidence,
  historyViolations,
  orderViolations,
  overlapViolations,
  underWayAtKill,
} from './webhook-judge.ts'

const HELP = `scripts/kill-test --webhooks [--rounds N] [--seed S] [--keep]

Kills a real service while it tells webhooks, N times (30), and proves that no event is lost and none comes again without need.
  --seed S     repeats the choices of another run (they are printed)
  --keep       keeps the data directory, which otherwise stays only after a failure
Exit code 1 when a promise was broken.`

const SETTLED_WITHIN_MS = 120_000
/** When a promise is broken already, nobody waits for what will never come. */
const BROKEN_SETTLED_WITHIN_MS = 15_000
/** Longest time until a moment comes: below the 10 s after which an attempt that is held counts as failed. */
const MOMENT_WITHIN_MS = 8000

const { values: args } = parseArgs({
  options: {
    webhooks: { type: 'boolean' },
    rounds: { type: 'string', default: '30' },
    seed: { type: 'string' },
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
 * Moments of the kill. `held`: attempts have arrived and are kept without an answer. `answered`: an answer was just given, so its outcome is hardly
 * stored. `outcome`: mail was just delivered, so its events are hardly recorded. `random`: whatever is going on. `recovery`: as `random`, and once
 * more while the service starts. `retries`: as `random`, and once more while deliveries that had failed are repeated.
 */
const MOMENTS = ['held', 'answered', 'outcome', 'recovery', 'answered', 'random', 'retries'] as const
type Moment = (typeof MOMENTS)[number]

const MIX: Mix = { longestPauseMs: 200, mostEmails: 300, large: 0.01, deferred: 0.03, refused: 0.05 }
const WELL: Answers = { ...PROMPT, slow: 0.3, slowestMs: 40 }
const BADLY: Answers = { hold: 0, slow: 0.2, slowestMs: 300, status500: 0.08, status404: 0.02, reset: 0.04 }

const random = seededRandom(seed)
const folder = mkdtempSync(join(tmpdir(), 'tassis-kill-webhooks-'))
const sink = await startKillSink(random)
const good = await startEndpoint('good.test', random)
const bad = await startEndpoint('bad.test', random, good.ca)
const endpoints = [
  // Everything that can happen, and, so that the cursor passes what is not wanted too, a part of it.
  { name: 'good', endpoint: good, wanted: [...WEBHOOK_EVENTS], ordinary: WELL },
  { name: 'bad', endpoint: bad, wanted: ['sent', 'delivered', 'bounced'], ordinary: BADLY },
] as const
const dns = await startDnsServer({
  [RECEIVER_DOMAIN]: { MX: [{ preference: 10, exchange: 'mx.test' }] },
  'mx.test': { A: ['127.0.0.1'] },
  'good.test': { A: ['127.0.0.1'] },
  'bad.test': { A: ['127.0.0.1'] },
})
const port = await freePort()
const url = `http://127.0.0.1:${port}`
const dataDir = join(folder, 'data')
const settings: Settings = {
  PATH: process.env['PATH'] ?? '',
  TASSIS_DATA_DIR: dataDir,
  TASSIS_HTTP_ADDR: `127.0.0.1:${port}`,
  TASSIS_HOSTNAME: 'mail.kill.test',
  TASSIS_DNS_SERVERS: dns.address,
  TASSIS_SMTP_PORT: String(sink.port),
  TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
  TASSIS_EXTRA_CA_FILE: good.caFile,
  TASSIS_LOG_LEVEL: 'warn',
}
const logFile = join(folder, 'service.log')
const command = commandOf('serve')
let service: ServiceProcess | undefined
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => void service?.kill().finally(() => process.exit(130)))

let life = 0
/** The account's last event before the webhooks were made. */
let firstSeq = 0
const sent = new Map<string, Sent>()
/** By endpoint and life: what was under way when the life ended. */
const underWay = new Map(endpoints.map(({ endpoint }) => [endpoint, new Map<number, ReadonlySet<string>>()]))
const sum = { kills: 0, flowing: 0, underWay: 0 }
const violations: string[] = []

/** Begins the next life; does not wait until it serves. */
function begin(): ServiceProcess {
  life++
  for (const { endpoint } of endpoints) endpoint.begin(life)
  service = startService(settings, command, logFile)
  return service
}

async function start(): Promise<ServiceProcess> {
  const started = begin()
  await untilReady(started, url)
  return started
}

/** Kills; gives how many attempts had arrived and had no answer, and how many have no stored outcome. */
async function kill(running: ServiceProcess): Promise<{ unanswered: number; unstored: number }> {
  const gone = running.kill()
  const unanswered = endpoints.reduce((n, { endpoint }) => n + endpoint.unanswered().length, 0)
  await gone
  await Promise.all([sink.releaseAfterKill(), ...endpoints.map(({ endpoint }) => endpoint.releaseAfterKill())])
  let unstored = 0
  for (const [endpoint, evidence] of readEvidence()) {
    const open = underWayAtKill(evidence, life)
    underWay.get(endpoint)?.set(life, open)
    unstored += open.size
    violations.push(...cursorViolations(evidence))
  }
  sum.kills++
  sum.underWay += unstored
  if (unstored > 0) sum.flowing++
  return { unanswered, unstored }
}

/** All that is known now. */
function readEvidence(): Map<KillEndpoint, Evidence> {
  using db = openBooks()
  const events = storedEvents(db, firstSeq)
  return new Map(
    endpoints.map(({ name, endpoint, wanted }) => [
      endpoint,
      {
        name,
        events: events.filter(({ type }) => (wanted as readonly string[]).includes(type)),
        eventId,
        stored: storedWebhook(db, endpoint.url),
        arrivals: endpoint.arrivals,
      },
    ]),
  )
}

function openBooks(): Database {
  const db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
  db.run('PRAGMA busy_timeout = 5000')
  return db
}

async function until(condition: () => boolean, withinMs: number): Promise<boolean> {
  const end = performance.now() + withinMs
  while (!condition()) {
    if (performance.now() > end) return false
    await Bun.sleep(2)
  }
  return true
}

const arrived = (): number => good.arrivals.length + bad.arrivals.length
const arrivedInThisLife = (): number =>
  endpoints.reduce((n, { endpoint }) => n + endpoint.arrivals.filter((arrival) => arrival.life === life).length, 0)

/** Waits for the moment of a round. */
async function moment(kind: Moment): Promise<void> {
  await Bun.sleep(random.between(50, 2500))
  await until(() => arrivedInThisLife() >= 5, MOMENT_WITHIN_MS)
  if (kind === 'held') {
    const hold = random.chance(0.5) ? 1 : 0.4
    for (const { endpoint, ordinary } of endpoints) endpoint.behave({ ...ordinary, hold })
    await until(() => good.unanswered().length > 0 && bad.unanswered().length > 0, MOMENT_WITHIN_MS)
    await Bun.sleep(random.between(0, 100))
  } else if (kind === 'answered') {
    await (random.chance(0.7) ? good : bad).answered()
    await Bun.sleep(random.between(0, 4))
  } else if (kind === 'outcome') {
    const answeredMail = () => sink.transactions.filter(({ answeredAtMs }) => answeredAtMs !== undefined).length
    const before = answeredMail()
    await until(() => answeredMail() > before, MOMENT_WITHIN_MS)
    await Bun.sleep(random.between(0, 25))
  } else await Bun.sleep(random.between(0, 500))
}

async function round(number: number): Promise<void> {
  const kind = MOMENTS[(number - 1) % MOMENTS.length] ?? 'random'
  const before = arrived()
  for (const { endpoint, ordinary } of endpoints) endpoint.behave(ordinary)
  const running = service?.isRunning() ? service : await start()
  const load = startLoad(url, key, random, `r${number}`, sent, MIX)
  await moment(kind)
  const kills = [await kill(running)]
  await load.stop()
  if (kind === 'recovery') {
    const starting = begin()
    await Bun.sleep(random.between(50, 1200))
    kills.push(await kill(starting))
  }
  if (kind === 'retries') {
    const due = makeRetriesDue()
    for (const { endpoint, ordinary } of endpoints) endpoint.behave({ ...ordinary, hold: random.chance(0.5) ? 0.2 : 0 })
    const repeated = await start()
    const retries = () => bad.arrivals.filter((arrival) => arrival.life === life && arrival.attempt > 1).length
    if (due > 0 && !(await until(() => retries() > 0, MOMENT_WITHIN_MS)))
      violations.push('deliveries that were due were not repeated')
    await Bun.sleep(random.between(0, 150))
    kills.push(await kill(repeated))
  }
  console.log(
    `round ${number} ${kind}: ${kills.map((k) => `${k.unanswered} unanswered and ${k.unstored} not stored`).join(', then ')}; ` +
      `${arrived() - before} attempts arrived${violations.length > 0 ? `; ${violations.length} VIOLATIONS` : ''}`,
  )
}

/** What a real clock would do in 15 minutes. Gives how many; only while the service is dead. */
function makeRetriesDue(): number {
  using db = new Database(join(dataDir, 'tassis.db'))
  return db.run('UPDATE webhook_deliveries SET next_at = ? WHERE next_at IS NOT NULL', [Date.now()]).changes
}

/** Lets all mail become final and all events be told. */
async function settle(): Promise<void> {
  for (const { endpoint } of endpoints) endpoint.behave(PROMPT)
  if (!service?.isRunning()) await start()
  using db = openBooks()
  const isSettled = () =>
    openCount(db, Date.now()) === 0 &&
    [...readEvidence().values()].every(({ events, stored }) => events.every(({ seq }) => stored.deliveries.has(seq)))
  const withinMs = violations.length > 0 ? BROKEN_SETTLED_WITHIN_MS : SETTLED_WITHIN_MS
  const end = performance.now() + withinMs
  while (!isSettled()) {
    if (performance.now() > end || !service?.isRunning()) {
      violations.push(`not every event was told ${withinMs / 1000} s after the last start`)
      break
    }
    await Bun.sleep(100)
  }
}

async function makeWebhooks(): Promise<void> {
  for (const { endpoint, wanted } of endpoints) {
    const response = await fetch(`${url}/v1/webhooks`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ url: endpoint.url, events: wanted }),
    })
    const body = (await response.json()) as { data?: { secret?: string } }
    if (response.status !== 201 || !body.data?.secret)
      throw new Error(`the webhook was not made: ${response.status} ${JSON.stringify(body)}`)
    endpoint.expect({ secret: body.data.secret, accountId: accountUuid })
  }
  using db = openBooks()
  firstSeq = Math.max(0, ...storedEvents(db, 0).map(({ seq }: StoredEvent) => seq))
}

const { key, accountUuid, eventId } = await prepareAccount(settings)
console.log(`seed ${seed}, ${rounds} rounds`)
let evidence = new Map<KillEndpoint, Evidence>()
try {
  await start()
  await makeWebhooks()
  for (let number = 1; number <= rounds && violations.length === 0; number++) await round(number)
  const killedAt = performance.now()
  await settle()
  console.log(`settled ${((performance.now() - killedAt) / 1000).toFixed(1)} s after the last kill`)
  const exitCode = await service?.stop()
  if (exitCode !== 0) violations.push(`the service ended with ${exitCode} when it was told to stop`)
  evidence = readEvidence()
  violations.push(...(await checkCommand()))
  using db = openBooks()
  violations.push(...imbalances(db))
} catch (error) {
  violations.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
} finally {
  if (service?.isRunning()) await service.kill()
}

for (const [endpoint, known] of evidence) {
  const duplicates = duplicatesOf(known, underWay.get(endpoint) ?? new Map())
  violations.push(...cursorViolations(known), ...historyViolations(known), ...duplicates.violations)
  const statuses = [...Map.groupBy(known.stored.deliveries.values(), ({ status }) => status)]
  const under = [...(underWay.get(endpoint)?.values() ?? [])].reduce((n, { size }) => n + size, 0)
  const lastSeq = known.events.at(-1)?.seq ?? 0
  console.log(
    `${known.name}: ${known.events.length} events, ${statuses.map(([status, few]) => `${few.length} ${status}`).join(', ')}; ` +
      `${duplicates.afterKills} duplicates of ${under} attempts under way at the kills, ${duplicates.afterResets} after a reset; cursor ${known.stored.cursorSeq}, last wanted event ${lastSeq}`,
  )
}
const wellKnown = evidence.get(good)
if (wellKnown) violations.push(...orderViolations(wellKnown))
for (const known of evidence.values()) violations.push(...overlapViolations(known))
for (const endpoint of [good, bad]) violations.push(...endpoint.violations)
if (sum.flowing * 3 < sum.kills) violations.push('attempts were under way at less than a third of the kills')
for (const violation of violations.slice(0, 30)) console.log(`VIOLATION ${violation}`)
const verifierViolations = good.violations.length + bad.violations.length
console.log(
  `${sum.kills} kills, ${sum.flowing} with attempts under way, ${sum.underWay} of them; ${arrived()} attempts arrived, ` +
    `${verifierViolations === 0 ? 'all' : 'not all'} passed the verifier; ` +
    `${violations.length === 0 ? 'no event lost' : `${violations.length} VIOLATIONS`}`,
)
for (const { endpoint } of endpoints) await endpoint[Symbol.asyncDispose]()
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
