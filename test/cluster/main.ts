/**
 * @module The cluster test: three nodes of a cluster and PostgreSQL with a synchronous standby, under load, while the
 * leader is killed, paused, cut off from PostgreSQL or told to step down, and PostgreSQL fails over. After each round
 * everything that was accepted must be on the new leader, and nothing may have been sent twice. See
 * `scripts/cluster-test --help`.
 *
 * The receiver also refuses to answer now and then, so that some mail is uncertain by its own cut. Attempts of webhooks
 * whose outcome was not stored are repeated by the next leader, which is allowed.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { WEBHOOK_EVENTS } from '#features/webhooks/webhooks/event-names.ts'
import { PROMPT_RESPONSES, startEndpoint } from '#test/kill/endpoint.ts'
import { judgeRound, type Totals } from '#test/kill/judge.ts'
import { RECEIVER_DOMAIN, type Sent } from '#test/kill/load.ts'
import { prepareAccount, SENDER_DOMAIN } from '#test/kill/service.ts'
import { startKillSink } from '#test/kill/sink.ts'
import { findImbalances, readStoredMail } from '#test/kill/stored-mail.ts'
import { readStoredEvents, readStoredWebhook } from '#test/kill/stored-webhooks.ts'
import { type Evidence, findCursorViolations, findHistoryViolations } from '#test/kill/webhook-judge.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { findPostgres } from '#test/support/postgres.ts'
import { seededRandom } from '#test/support/random.ts'
import {
  type Disturbance,
  findRepeats,
  judgeApi,
  judgeInbound,
  listExcused,
  listOpenWork,
  openBooks,
} from './checks.ts'
import { TestCluster, waitFor } from './cluster.ts'
import type { ClusterNode } from './node.ts'
import { comparePages } from './pages.ts'
import { KINDS, type Kind, ROUNDS, SHORT_KINDS } from './rounds.ts'
import { createTally, printTable, type Tally } from './table.ts'
import { type Ledger, startTraffic } from './traffic.ts'

const HELP = `scripts/cluster-test [--rounds N] [--seed S] [--only KIND] [--short] [--stop-at-first] [--keep]

Disturbs a cluster of three nodes under load, N times (300), and proves that nothing accepted is lost or sent twice, and
that the directories of the nodes stay equal.
  --seed S         repeats the random choices of another run, which prints its seed
  --only KIND      rounds of this kind only: ${KINDS.join(', ')}
  --short          pauses of 8 s; of the kinds only ${SHORT_KINDS.join(', ')}
  --stop-at-first  ends after the first round with a broken promise
  --keep           keeps data and logs, which are otherwise kept only after a failure
Exit code 1 when a promise was broken.`

const MAX_SHOWN = 10
/** The directories are compared after so many rounds, and at the end. */
const ROUNDS_PER_GROUP = 10
const FINAL_WITHIN_MS = 90_000
const WHOLE_WITHIN_MS = 90_000
const ACCEPTED_WITHIN_MS = 90_000
const PROBE_INTERVAL_MS = 25
/** What a node stored within this time before it lost the lead may be missing on the next one. */
const STORED_WITHIN_MS = 3000

const { rounds, seed, only, isShort, keeps, stopsAtFirst } = readArguments()
if (findPostgres() === undefined) {
  const isRequired = process.env['CI'] === 'true' || process.env['REQUIRE_POSTFIX'] === 'true'
  console.log('The package postgresql is not installed.')
  process.exit(isRequired ? 1 : 0)
}
console.log(`seed ${seed}, ${rounds} rounds`)
const random = seededRandom(seed)
/** Of its own, because the number of its choices depends on time. */
const trafficRandom = seededRandom(seed + 3)
const folder = mkdtempSync(join(tmpdir(), 'tassis-cluster-'))

const sink = await startKillSink(seededRandom(seed + 1))
const endpoint = await startEndpoint('hook.test', seededRandom(seed + 2))
const dns = await startDnsServer({
  [RECEIVER_DOMAIN]: {
    MX: [
      { preference: 10, exchange: 'mx1.test' },
      { preference: 20, exchange: 'mx2.test' },
    ],
  },
  'mx1.test': { A: ['127.0.0.1'] },
  'mx2.test': { A: ['127.0.0.1'] },
  'hook.test': { A: ['127.0.0.1'] },
})
const cluster = await TestCluster.create(folder, {
  TASSIS_MASTER_KEY: Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64'),
  TASSIS_HOSTNAME: 'mail.cluster.test',
  TASSIS_DNS_SERVERS: dns.address,
  TASSIS_SMTP_PORT: String(sink.port),
  TASSIS_EXTRA_CA_FILE: endpoint.caFile,
  TASSIS_ALLOW_PRIVATE_NETWORKS: 'loopback',
  TASSIS_WARM_UP: 'off',
  TASSIS_MIN_FREE_DISK: '0',
  TASSIS_INBOUND_CONNECTIONS_PER_IP: '100',
  TASSIS_INBOUND_MESSAGES_PER_MINUTE: '1000000',
  TASSIS_LOG_LEVEL: 'info',
})

const tallies = new Map<Kind, Tally>()
const violations: string[] = []
const known = new Set<string>()
const excused = new Set<string>()
const disturbances: Disturbance[] = []
let totals: Pick<Totals, 'lost' | 'duplicates' | 'uncertain'> = { lost: 0, duplicates: 0, uncertain: 0 }
let lostInbound = 0
let probeCount = 0
let firstSeq = 0
let comparedPairs = 0
let eventId: (seq: number) => string

let isEnding = false
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    if (isEnding) void cluster[Symbol.asyncDispose]().finally(() => process.exit(130))
    isEnding = true
    console.log('Ends after this round; a second signal ends it at once.')
  })
}

/** Notes what is new of these sentences; returns how many. */
function report(sentences: readonly string[]): number {
  const fresh = sentences.filter((sentence) => !known.has(sentence))
  for (const sentence of fresh) known.add(sentence)
  violations.push(...fresh)
  for (const sentence of fresh.slice(0, MAX_SHOWN)) console.log(`  VIOLATION ${sentence}`)
  if (fresh.length > MAX_SHOWN) console.log(`  and ${fresh.length - MAX_SHOWN} more`)
  return fresh.length
}

/** The kinds in random order, each once before one comes again. */
function* listKinds(): Generator<Kind> {
  for (;;) {
    const left: Kind[] = only ? [only] : isShort ? [...SHORT_KINDS] : [...KINDS]
    while (left.length > 0) yield* left.splice(random.between(0, left.length - 1), 1)
  }
}

const ledger: Ledger = { key: await prepare(), sent: new Map(), inbound: new Map(), submittedCount: 0 }

/** Starts the nodes: the first one with a directory of single mode, the others with none. */
async function prepare(): Promise<string> {
  const [first, ...others] = cluster.nodes as [ClusterNode, ...ClusterNode[]]
  const { TASSIS_REPLICATE: _, ...single } = first.settings
  // This process may keep files open in which it made the account, and those of a node are replaced.
  const made = join(folder, 'single')
  const prepared = await prepareAccount({ ...single, TASSIS_DATA_DIR: made })
  cpSync(made, first.dataDir, { recursive: true })
  eventId = prepared.eventId
  first.start()
  await cluster.waitForLeader()
  for (const node of others) node.start()
  const call = async (method: string, path: string, body?: object) => {
    const answer = await fetch(cluster.url + path, {
      method,
      headers: { authorization: `Bearer ${prepared.key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path} returned ${answer.status}: ${text}`)
    return (JSON.parse(text) as { data: unknown }).data
  }
  const [domain] = (await call('GET', '/v1/domains')) as { id: string }[]
  await call('PATCH', `/v1/domains/${domain?.id}`, { inbound_enabled: true })
  await call('POST', '/v1/inbound-routes', { domain_id: domain?.id, pattern: 'support', match_type: 'exact' })
  const hook = (await call('POST', '/v1/webhooks', { url: endpoint.url, events: WEBHOOK_EVENTS })) as { secret: string }
  endpoint.expect({ secret: hook.secret, accountId: prepared.accountUuid })
  using db = openBooks(first)
  firstSeq = Math.max(0, ...readStoredEvents(db, 0).map(({ seq }) => seq))
  await cluster.waitUntilWhole(WHOLE_WITHIN_MS)
  return prepared.key
}

/** Posts to all nodes but some until one accepts; resolves with the time since then. */
async function firstAccepted(sinceMs: number, not: ReadonlySet<ClusterNode>): Promise<number> {
  const end = performance.now() + ACCEPTED_WITHIN_MS
  let acceptedAtMs: number | undefined
  const probe = async (node: ClusterNode): Promise<void> => {
    while (acceptedAtMs === undefined && performance.now() < end) {
      if (not.has(node)) {
        await Bun.sleep(PROBE_INTERVAL_MS)
        continue
      }
      const id = `p${++probeCount}`
      const entry: Sent = { id, isDeferred: false, outcome: 'unanswered', emailId: undefined, status: undefined }
      ledger.sent.set(id, entry)
      const status = await fetch(`${node.url}/v1/emails`, {
        method: 'POST',
        headers: { authorization: `Bearer ${ledger.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          from: `probe@${SENDER_DOMAIN}`,
          to: `${id}@${RECEIVER_DOMAIN}`,
          subject: id,
          text_body: `End of ${id}.\r\n`,
          headers: { 'X-Test-Id': id },
        }),
        signal: AbortSignal.timeout(10_000),
      }).then(
        (answer) => answer.status,
        () => undefined,
      )
      if (status === 202) {
        entry.outcome = 'accepted'
        acceptedAtMs ??= performance.now()
      } else await Bun.sleep(PROBE_INTERVAL_MS)
    }
  }
  await Promise.all(cluster.nodes.map(probe))
  if (acceptedAtMs === undefined) throw new Error(`no node has accepted an email within ${ACCEPTED_WITHIN_MS / 1000} s`)
  return acceptedAtMs - sinceMs
}

async function runRound(number: number, kind: Kind): Promise<void> {
  const tally = tallies.get(kind) ?? createTally()
  tallies.set(kind, tally)
  const problems: string[] = []
  const begun = {
    sent: new Set(ledger.sent.keys()),
    inbound: countAccepted(ledger.inbound.values()) + ledger.submittedCount,
  }
  const leader = await cluster.waitForLeader()
  const begunAtMs = performance.now()
  cluster.led.clear()
  sink.behave({ hold: 0, slow: 0.3, drop: 0.01, cut: 0.003 })
  endpoint.behave({ ...PROMPT_RESPONSES, slow: 0.3, maxDelayMs: 60 })
  const traffic = startTraffic(cluster, trafficRandom, ledger, number)
  await Bun.sleep(random.between(700, 2500))
  const disturbed = new Map<ClusterNode, number>()
  const result = await ROUNDS[kind](
    {
      cluster,
      random,
      isShort,
      disturbed: (node) => void disturbed.set(node, performance.now()),
      firstAccepted,
      problem: (sentence) => void problems.push(`round ${number} ${kind}: ${sentence}`),
    },
    leader,
  )
  for (const node of cluster.nodes) node.start()
  await Bun.sleep(random.between(300, 1500))
  await traffic.stop()
  await settle(problems)
  // Under load, nodes also lose the lead by themselves.
  const others = [...cluster.led].filter((node) => node !== cluster.leader && !disturbed.has(node))
  for (const node of others) disturbed.set(node, begunAtMs)
  const addresses = new Set([...disturbed.keys()].map(({ address }) => address))
  const fromMs = Math.min(...disturbed.values())
  disturbances.push({ fromMs, toMs: performance.now() })
  for (const id of listExcused(sink.transactions, addresses, fromMs - STORED_WITHIN_MS)) excused.add(id)
  await judge(number, tally, problems, begun.sent).catch((error: unknown) => {
    problems.push(`round ${number} ${kind}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  })
  const accepted = [...ledger.sent.values()].filter(({ id, outcome }) => !begun.sent.has(id) && outcome === 'accepted')
  const received = countAccepted(ledger.inbound.values()) + ledger.submittedCount - begun.inbound
  tally.rounds++
  tally.accepted += accepted.length
  tally.received += received
  if (result.outageMs !== undefined) tally.outagesMs.push(result.outageMs)
  tally.otherViolations += report(problems)
  console.log(
    `round ${number} ${kind} of ${leader.name}${result.detail && ` (${result.detail})`}: ${accepted.length} accepted, ${received} by SMTP` +
      `${result.outageMs === undefined ? '' : `; first 202 after ${(result.outageMs / 1000).toFixed(2)} s`}; ${cluster.leader?.name} leads${others.length > 0 ? `, in between ${others.map(({ name }) => name).join(', ')}` : ''}`,
  )
}

const countAccepted = (entries: Iterable<{ readonly outcome: string }>): number =>
  [...entries].filter(({ outcome }) => outcome === 'accepted').length

/** Waits until all nodes run and everything is final on the leader. */
async function settle(problems: string[]): Promise<void> {
  let open: string[] = []
  const isFinal = async (): Promise<boolean> => {
    const { leader } = cluster
    if (!leader) return false
    try {
      using db = openBooks(leader)
      open = listOpenWork(db, Date.now())
    } catch (error) {
      open = [String(error)]
    }
    return open.length === 0
  }
  try {
    await waitFor(isFinal, FINAL_WITHIN_MS, () => `not everything is final (${open.join(', ')})`, 100)
    await cluster.waitUntilWhole(WHOLE_WITHIN_MS)
  } catch (error) {
    problems.push((error as Error).message)
  }
}

/** Compares what everybody was told with what is stored on the leader and what arrived. */
async function judge(number: number, tally: Tally, problems: string[], before: ReadonlySet<string>): Promise<void> {
  const leader = await cluster.waitForLeader()
  using db = openBooks(leader)
  const { byId, twice } = readStoredMail(db)
  const judged = judgeRound({
    sent: ledger.sent,
    stored: byId,
    storedTwice: twice,
    transactions: sink.transactions,
    excused,
    now: Date.now(),
  })
  const inbound = judgeInbound(db, ledger.inbound.values())
  const fresh = [...ledger.sent.keys()].filter((id) => !before.has(id))
  problems.push(...judged.violations, ...inbound.broken, ...findImbalances(db), ...endpoint.violations)
  problems.push(...(await judgeApi(leader.url, ledger, fresh)))
  tally.lost += judged.totals.lost - totals.lost + inbound.lost - lostInbound
  tally.doubled += judged.totals.duplicates - totals.duplicates
  tally.uncertain += judged.totals.uncertain - totals.uncertain
  totals = judged.totals
  lostInbound = inbound.lost
  if (number % ROUNDS_PER_GROUP === 0 || number === rounds) {
    const evidence: Evidence = {
      name: 'the webhook',
      events: readStoredEvents(db, firstSeq).filter(({ type }) => (WEBHOOK_EVENTS as readonly string[]).includes(type)),
      eventId,
      stored: readStoredWebhook(db, endpoint.url),
      arrivals: endpoint.arrivals,
    }
    problems.push(...findCursorViolations(evidence), ...findHistoryViolations(evidence))
    problems.push(...findRepeats(endpoint.arrivals, disturbances, STORED_WITHIN_MS))
  }
}

/** Stops all nodes, compares their directories, checks each, and starts them again. */
async function compareNodes(tally: Tally): Promise<void> {
  const leader = await cluster.waitForLeader()
  const others = cluster.nodes.filter((node) => node !== leader)
  const problems: string[] = []
  const stop = async (node: ClusterNode): Promise<void> => {
    const code = await node.stop()
    if (code !== 0) problems.push(`${node.name} ended with ${code} when it was stopped`)
  }
  for (const node of [...others, leader]) await stop(node)
  // The leader wrote while it stopped. The others get that, too, but must not lead yet.
  const end = leader.readPosition() ?? 0
  await cluster.postgres.query("UPDATE tassis_cluster SET step_down = true, wanted = 'nobody'")
  for (const node of others) node.start()
  await waitFor(
    async () => (await cluster.readNodes()).every(({ name, applied }) => name === leader.name || applied >= end),
    WHOLE_WITHIN_MS,
    `the standbys do not come to ${end}`,
  )
  await Promise.all(others.map(stop))
  const { pairs, files, differences } = comparePages(cluster.nodes)
  comparedPairs += pairs
  const positions = cluster.nodes.map((node) => `${node.name} ${node.readPosition()}`).join(', ')
  console.log(`  ${pairs} pairs of directories at an equal sequence (${positions}), ${files} files compared`)
  tally.pageDifferences += differences.length
  problems.push(
    ...differences.map(
      ({ nodes, seq, file, pages }) =>
        `${nodes} differ at ${seq} in ${file}${pages.length > 0 ? `, pages ${pages.slice(0, 20).join(' ')}` : ''}`,
    ),
  )
  if (pairs === 0) problems.push('no two directories are at an equal sequence')
  for (const node of cluster.nodes) {
    const { code, output } = await node.run('check')
    if (code === 0) continue
    tally.checkFailures++
    problems.push(`check of ${node.name} ended with ${code}: ${output.slice(0, 1000)}`)
  }
  tally.otherViolations += report(problems)
}

async function restartNodes(): Promise<void> {
  await cluster.postgres.query("UPDATE tassis_cluster SET step_down = false, wanted = ''")
  for (const node of cluster.nodes) node.start()
  await cluster.waitUntilWhole(WHOLE_WITHIN_MS)
}

try {
  const kinds = listKinds()
  for (let number = 1; number <= rounds; number++) {
    const kind = kinds.next().value as Kind
    await runRound(number, kind)
    const isLast = number === rounds || isEnding || (stopsAtFirst && violations.length > 0)
    if (isLast || number % ROUNDS_PER_GROUP === 0) {
      await compareNodes(tallies.get(kind) ?? createTally())
      if (!isLast) await restartNodes()
    }
    if (isLast) break
  }
} catch (error) {
  report([error instanceof Error ? (error.stack ?? error.message) : String(error)])
} finally {
  const ends = cluster.nodes.flatMap(({ name, ends: codes }) =>
    codes.length > 0 ? [`${name} ${codes.join(' ')}`] : [],
  )
  if (ends.length > 0) console.log(`processes that ended by themselves, by exit code: ${ends.join('; ')}`)
  await cluster[Symbol.asyncDispose]()
  await endpoint[Symbol.asyncDispose]()
}
end()

/** Prints the table and ends the program. */
function end(): never {
  printTable(tallies)
  console.log(
    `${comparedPairs} pairs of directories compared; ${endpoint.arrivals.length} attempts of webhooks; ` +
      `${violations.length === 0 ? 'nothing lost, nothing doubled' : `${violations.length} VIOLATIONS`}`,
  )
  if (violations.length > 0 || keeps) console.log(`Data and logs are kept in ${folder}`)
  else rmSync(folder, { recursive: true, force: true })
  process.exit(violations.length > 0 ? 1 : 0)
}

function readArguments() {
  let values: ReturnType<typeof parse> | undefined
  try {
    values = parse()
  } catch {
    values = undefined
  }
  const rounds = Number(values?.rounds)
  const seed = values?.seed === undefined ? Math.floor(Math.random() * 1_000_000) : Number(values.seed)
  const kind = KINDS.find((known) => known === values?.only)
  const isValid = Number.isInteger(rounds) && rounds >= 1 && Number.isInteger(seed) && kind === values?.only
  if (!values || values.help || !isValid) {
    console.log(HELP)
    process.exit(values?.help ? 0 : 2)
  }
  return { rounds, seed, only: kind, isShort: values.short, keeps: values.keep, stopsAtFirst: values['stop-at-first'] }
}

function parse() {
  return parseArgs({
    options: {
      rounds: { type: 'string', default: '300' },
      seed: { type: 'string' },
      only: { type: 'string' },
      short: { type: 'boolean', default: false },
      'stop-at-first': { type: 'boolean', default: false },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  }).values
}
