/**
 * @module The kill test of webhooks: kills a real service under load with `kill -9`, at moments between an event, its
 * attempt, the response and the stored outcome. The service delivers to two endpoints over TLS, a healthy one and one
 * that is slow and fails. No event may be lost. See `scripts/kill-test --help`.
 *
 * A failed attempt is retried after 15 minutes, so failed deliveries to the bad endpoint stay pending. Some rounds make
 * them due while the service is dead, so that it is also killed during retries.
 */
import { Database } from 'bun:sqlite'
import { WEBHOOK_EVENTS } from '#features/webhooks/webhooks/event-names.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { type KillEndpoint, PROMPT_RESPONSES, type ResponseMix, startEndpoint } from './endpoint.ts'
import { type Mix, RECEIVER_DOMAIN, type Sent, startLoad } from './load.ts'
import { KillRun, waitUntil } from './run.ts'
import { prepareAccount, type ServiceProcess, waitUntilReady } from './service.ts'
import { startKillSink } from './sink.ts'
import { countOpen, findImbalances } from './stored-mail.ts'
import { readStoredEvents, readStoredWebhook, type StoredEvent } from './stored-webhooks.ts'
import {
  type Evidence,
  findCursorViolations,
  findDuplicates,
  findHistoryViolations,
  findInFlightAtKill,
  findOrderViolations,
  findOverlapViolations,
} from './webhook-judge.ts'

const SETTLED_WITHIN_MS = 120_000
/** Shorter timeout once a promise is broken, because missing events may never arrive. */
const BROKEN_SETTLED_WITHIN_MS = 15_000
/** Timeout for a moment: below the 10 s after which a held attempt counts as failed. */
const MOMENT_WITHIN_MS = 8000

const run = new KillRun()
const { random, violations } = run

/**
 * Moments of the kill. `held`: attempts have arrived and are held without a response. `answered`: a response was just
 * written, so its outcome may not be stored yet. `outcome`: mail was just delivered, so its events may be missing.
 * `random`: any moment. `recovery`: as `random`, and again while the service starts. `retries`: as `random`, and again
 * while failed deliveries are retried.
 */
const MOMENTS = ['held', 'answered', 'outcome', 'recovery', 'answered', 'random', 'retries'] as const
type Moment = (typeof MOMENTS)[number]

const MIX: Mix = { maxPauseMs: 200, maxEmails: 300, large: 0.01, deferred: 0.03, refused: 0.05 }
const HEALTHY_RESPONSES: ResponseMix = { ...PROMPT_RESPONSES, slow: 0.3, maxDelayMs: 40 }
const FAULTY_RESPONSES: ResponseMix = {
  hold: 0,
  slow: 0.2,
  maxDelayMs: 300,
  status500: 0.08,
  status404: 0.02,
  reset: 0.04,
}

const sink = await startKillSink(random)
const good = await startEndpoint('good.test', random)
const bad = await startEndpoint('bad.test', random, good.ca)
const endpoints = [
  // All events, and a subset, so that a cursor also passes events without a subscription.
  { name: 'good', endpoint: good, wanted: [...WEBHOOK_EVENTS], ordinary: HEALTHY_RESPONSES },
  { name: 'bad', endpoint: bad, wanted: ['sent', 'delivered', 'bounced'], ordinary: FAULTY_RESPONSES },
] as const
const dns = await startDnsServer({
  [RECEIVER_DOMAIN]: { MX: [{ preference: 10, exchange: 'mx.test' }] },
  'mx.test': { A: ['127.0.0.1'] },
  'good.test': { A: ['127.0.0.1'] },
  'bad.test': { A: ['127.0.0.1'] },
})
const service = await run.createService({
  TASSIS_DNS_SERVERS: dns.address,
  TASSIS_SMTP_PORT: String(sink.port),
  TASSIS_EXTRA_CA_FILE: good.caFile,
})

let life = 0
/** Sequence number of the last event before the webhooks were created. */
let firstSeq = 0
const sent = new Map<string, Sent>()
/** Attempts in flight at the end of each run, by endpoint and run. */
const inFlight = new Map(endpoints.map(({ endpoint }) => [endpoint, new Map<number, ReadonlySet<string>>()]))
const sum = { kills: 0, flowing: 0, attemptsInFlight: 0 }

/** Starts the next run without waiting until it serves. */
function beginLife(): ServiceProcess {
  life++
  for (const { endpoint } of endpoints) endpoint.begin(life)
  return service.begin()
}

async function startLife(): Promise<ServiceProcess> {
  const started = beginLife()
  await waitUntilReady(started, service.url)
  return started
}

/** Kills the service; returns how many arrived attempts had no response, and how many have no stored outcome. */
async function kill(running: ServiceProcess): Promise<{ unanswered: number; unstored: number }> {
  const gone = running.kill()
  const unanswered = endpoints.reduce((n, { endpoint }) => n + endpoint.unanswered().length, 0)
  await gone
  await Promise.all([sink.releaseAfterKill(), ...endpoints.map(({ endpoint }) => endpoint.releaseAfterKill())])
  let unstored = 0
  for (const [endpoint, evidence] of readEvidence()) {
    const open = findInFlightAtKill(evidence, life)
    inFlight.get(endpoint)?.set(life, open)
    unstored += open.size
    violations.push(...findCursorViolations(evidence))
  }
  sum.kills++
  sum.attemptsInFlight += unstored
  if (unstored > 0) sum.flowing++
  return { unanswered, unstored }
}

/** Collects the current evidence. */
function readEvidence(): Map<KillEndpoint, Evidence> {
  using db = service.openBooks()
  const events = readStoredEvents(db, firstSeq)
  return new Map(
    endpoints.map(({ name, endpoint, wanted }) => [
      endpoint,
      {
        name,
        events: events.filter(({ type }) => (wanted as readonly string[]).includes(type)),
        eventId,
        stored: readStoredWebhook(db, endpoint.url),
        arrivals: endpoint.arrivals,
      },
    ]),
  )
}

const countArrivals = (): number => good.arrivals.length + bad.arrivals.length
const countArrivalsOfLife = (): number =>
  endpoints.reduce((n, { endpoint }) => n + endpoint.arrivals.filter((arrival) => arrival.life === life).length, 0)

/** Waits for the moment of the kill. */
async function waitForMoment(kind: Moment): Promise<void> {
  await Bun.sleep(random.between(50, 2500))
  await waitUntil(() => countArrivalsOfLife() >= 5, MOMENT_WITHIN_MS)
  if (kind === 'held') {
    const hold = random.chance(0.5) ? 1 : 0.4
    for (const { endpoint, ordinary } of endpoints) endpoint.behave({ ...ordinary, hold })
    await waitUntil(() => good.unanswered().length > 0 && bad.unanswered().length > 0, MOMENT_WITHIN_MS)
    await Bun.sleep(random.between(0, 100))
  } else if (kind === 'answered') {
    await (random.chance(0.7) ? good : bad).answered()
    await Bun.sleep(random.between(0, 4))
  } else if (kind === 'outcome') {
    const answeredMail = () => sink.transactions.filter(({ answeredAtMs }) => answeredAtMs !== undefined).length
    const before = answeredMail()
    await waitUntil(() => answeredMail() > before, MOMENT_WITHIN_MS)
    await Bun.sleep(random.between(0, 25))
  } else await Bun.sleep(random.between(0, 500))
}

async function runRound(number: number): Promise<void> {
  const kind = MOMENTS[(number - 1) % MOMENTS.length] ?? 'random'
  const before = countArrivals()
  for (const { endpoint, ordinary } of endpoints) endpoint.behave(ordinary)
  const running = service.running ?? (await startLife())
  const load = startLoad(service.url, key, random, `r${number}`, sent, MIX)
  await waitForMoment(kind)
  const kills = [await kill(running)]
  await load.stop()
  if (kind === 'recovery') {
    const starting = beginLife()
    await Bun.sleep(random.between(50, 1200))
    kills.push(await kill(starting))
  }
  if (kind === 'retries') {
    const due = makeRetriesDue()
    for (const { endpoint, ordinary } of endpoints) endpoint.behave({ ...ordinary, hold: random.chance(0.5) ? 0.2 : 0 })
    const repeated = await startLife()
    const retries = () => bad.arrivals.filter((arrival) => arrival.life === life && arrival.attempt > 1).length
    if (due > 0 && !(await waitUntil(() => retries() > 0, MOMENT_WITHIN_MS)))
      violations.push('due deliveries were not retried')
    await Bun.sleep(random.between(0, 150))
    kills.push(await kill(repeated))
  }
  console.log(
    `round ${number} ${kind}: ${kills.map((k) => `${k.unanswered} unanswered and ${k.unstored} not stored`).join(', then ')}; ` +
      `${countArrivals() - before} attempts arrived${violations.length > 0 ? `; ${violations.length} VIOLATIONS` : ''}`,
  )
}

/** Makes pending retries due, as 15 minutes would, and returns their number; only while the service is dead. */
function makeRetriesDue(): number {
  using db = new Database(service.file('tassis.db'))
  return db.run('UPDATE webhook_deliveries SET next_at = ? WHERE next_at IS NOT NULL', [Date.now()]).changes
}

/** Waits until all mail is final and all events are delivered. */
async function settle(): Promise<void> {
  for (const { endpoint } of endpoints) endpoint.behave(PROMPT_RESPONSES)
  if (!service.running) await startLife()
  using db = service.openBooks()
  const isSettled = () =>
    countOpen(db, Date.now()) === 0 &&
    [...readEvidence().values()].every(({ events, stored }) => events.every(({ seq }) => stored.deliveries.has(seq)))
  const withinMs = violations.length > 0 ? BROKEN_SETTLED_WITHIN_MS : SETTLED_WITHIN_MS
  if (!(await waitUntil(() => isSettled() || !service.running, withinMs, 100)) || !isSettled())
    violations.push(`not every event was delivered ${withinMs / 1000} s after the last start`)
}

async function createWebhooks(): Promise<void> {
  for (const { endpoint, wanted } of endpoints) {
    const response = await fetch(`${service.url}/v1/webhooks`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ url: endpoint.url, events: wanted }),
    })
    const body = (await response.json()) as { data?: { secret?: string } }
    if (response.status !== 201 || !body.data?.secret)
      throw new Error(`the webhook was not created: ${response.status} ${JSON.stringify(body)}`)
    endpoint.expect({ secret: body.data.secret, accountId: accountUuid })
  }
  using db = service.openBooks()
  firstSeq = Math.max(0, ...readStoredEvents(db, 0).map(({ seq }: StoredEvent) => seq))
}

const { key, accountUuid, eventId } = await prepareAccount(service.settings)
let evidence = new Map<KillEndpoint, Evidence>()
const work = async (): Promise<void> => {
  await startLife()
  await createWebhooks()
  await run.runRounds(runRound)
  const killedAt = performance.now()
  await settle()
  console.log(`settled ${((performance.now() - killedAt) / 1000).toFixed(1)} s after the last kill`)
}
await run.collect(service, work, () => {
  evidence = readEvidence()
  using db = service.openBooks()
  violations.push(...findImbalances(db))
})

for (const [endpoint, known] of evidence) {
  const duplicates = findDuplicates(known, inFlight.get(endpoint) ?? new Map())
  violations.push(...findCursorViolations(known), ...findHistoryViolations(known), ...duplicates.violations)
  const statuses = [...Map.groupBy(known.stored.deliveries.values(), ({ status }) => status)]
  const inFlightCount = [...(inFlight.get(endpoint)?.values() ?? [])].reduce((n, { size }) => n + size, 0)
  const lastSeq = known.events.at(-1)?.seq ?? 0
  console.log(
    `${known.name}: ${known.events.length} events, ${statuses.map(([status, few]) => `${few.length} ${status}`).join(', ')}; ` +
      `${duplicates.afterKills} duplicates of ${inFlightCount} attempts in flight at the kills, ${duplicates.afterResets} after a reset; cursor ${known.stored.cursorSeq}, last wanted event ${lastSeq}`,
  )
}
const wellKnown = evidence.get(good)
if (wellKnown) violations.push(...findOrderViolations(wellKnown))
for (const known of evidence.values()) violations.push(...findOverlapViolations(known))
for (const endpoint of [good, bad]) violations.push(...endpoint.violations)
if (sum.flowing * 3 < sum.kills) violations.push('less than a third of the kills had attempts in flight')
const verifierViolations = good.violations.length + bad.violations.length
for (const { endpoint } of endpoints) await endpoint[Symbol.asyncDispose]()
run.end(
  `${sum.kills} kills, ${sum.flowing} with attempts in flight, ${sum.attemptsInFlight} of them; ${countArrivals()} attempts arrived, ` +
    `${verifierViolations === 0 ? 'all' : 'not all'} passed the verifier; ` +
    `${violations.length === 0 ? 'no event lost' : `${violations.length} VIOLATIONS`}`,
)
