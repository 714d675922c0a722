/**
 * @module The kill test: repeatedly kills a real service under load with `kill -9`, at random moments and inside DATA.
 * Within a minute after each restart, every accepted email must be at the receiver exactly once or be `uncertain`. See
 * `scripts/kill-test --help`.
 *
 * Mail that the receiver defers (450 at RCPT) need not be final within 60 s, because its next attempt is minutes away;
 * the test checks that it waits for one. Mail whose connection the receiver cuts after the final dot must become
 * uncertain and is counted separately.
 */
import type { Database } from 'bun:sqlite'
import { startDnsServer } from '#test/support/dns-server.ts'
import { type Judgement, judgeRound } from './judge.ts'
import { RECEIVER_DOMAIN, type Sent, startLoad } from './load.ts'
import { KillRun, waitUntil } from './run.ts'
import { prepareDataDirectory, type ServiceProcess } from './service.ts'
import { type KillSink, type KillSnapshot, startKillSink } from './sink.ts'
import { countOpen, findImbalances, listProcessing, readStoredMail } from './stored-mail.ts'

const FINAL_WITHIN_MS = 60_000
/** Timeout for a moment inside DATA. */
const IN_DATA_WITHIN_MS = 60_000

const run = new KillRun()
const { random, violations } = run

/**
 * Moments of the kill. `frozen`: every session is held inside DATA, so only their emails may be uncertain. `held`: some
 * sessions are held, others continue. `random`: any moment. `recovery`: as `random`, and again while the service
 * settles what the first kill left.
 */
const MOMENTS = ['frozen', 'held', 'random', 'held', 'recovery', 'random'] as const
type Moment = (typeof MOMENTS)[number]

const ORDINARY_BEHAVIOUR = { hold: 0, slow: 0.15, drop: 0.02, cut: 0 }

interface Kill {
  readonly inData: number
  readonly atKill: KillSnapshot
}

const sink = await startKillSink(random)
const dns = await startDnsServer({
  // Two hosts, so that a connection dropped before its 354 is followed by an attempt at the other.
  [RECEIVER_DOMAIN]: {
    MX: [
      { preference: 10, exchange: 'mx1.test' },
      { preference: 20, exchange: 'mx2.test' },
    ],
  },
  'mx1.test': { A: ['127.0.0.1'] },
  'mx2.test': { A: ['127.0.0.1'] },
})
const service = await run.createService({
  TASSIS_DNS_SERVERS: dns.address,
  TASSIS_SMTP_PORT: String(sink.port),
})

/** Kills in the same tick in which it reads from the receiver which transactions are inside DATA. */
async function kill(running: ServiceProcess): Promise<Kill> {
  const gone = running.kill()
  const atKill = sink.atKill()
  await gone
  await sink.releaseAfterKill()
  return { inData: atKill.inData.length, atKill }
}

/** Waits for the moment of the kill. */
async function waitForMoment(kind: Moment, theSink: KillSink): Promise<void> {
  theSink.behave({ ...ORDINARY_BEHAVIOUR, cut: 0.01 })
  await Bun.sleep(random.between(30, 700))
  if (kind === 'frozen') {
    theSink.behave({ hold: 1, slow: 0, drop: 0, cut: 0 })
    // All earlier transactions inside DATA have had their reply, and the service has stored it.
    await Bun.sleep(random.between(600, 1200))
    using db = service.openBooks()
    const areOutcomesStored = () => {
      const processing = listProcessing(db)
      return !theSink.transactions.some(
        ({ recipient, answeredAtMs }) => answeredAtMs !== undefined && processing.has(recipient),
      )
    }
    await waitUntil(areOutcomesStored, IN_DATA_WITHIN_MS, 50)
  } else if (kind === 'held') theSink.behave({ ...ORDINARY_BEHAVIOUR, hold: 0.3 })
  if (kind === 'frozen' || kind === 'held') {
    await waitUntil(() => theSink.inData().length > 0, IN_DATA_WITHIN_MS)
    await Bun.sleep(random.between(0, 40))
  } else await Bun.sleep(random.between(0, 500))
}

const sent = new Map<string, Sent>()
/** Recipients that a kill may have made uncertain. */
const excused = new Set<string>()
const knownUncertain = new Set<string>()
const sum = { kills: 0, inData: 0 }
let last: Judgement | undefined

async function runRound(number: number): Promise<void> {
  const kind = MOMENTS[(number - 1) % MOMENTS.length] ?? 'random'
  const running = service.running ?? (await service.start())
  const load = startLoad(service.url, key, random, `r${number}`, sent)
  await waitForMoment(kind, sink)
  const kills = [await kill(running)]
  const stopped = load.stop()
  if (kind === 'recovery') {
    sink.behave(ORDINARY_BEHAVIOUR)
    const starting = service.begin()
    await Bun.sleep(random.between(50, 900))
    kills.push(await kill(starting))
  }
  await stopped
  sink.behave(ORDINARY_BEHAVIOUR)
  const restartedAt = performance.now()
  await service.start()
  using db = service.openBooks()
  const { isFinal, now } = await waitUntilFinal(db)
  const finalMs = performance.now() - restartedAt

  for (const { atKill } of kills) {
    for (const transactions of atKill.undecided.values())
      for (const { recipient } of transactions) excused.add(recipient)
  }
  const { byId, twice } = readStoredMail(db)
  last = judgeRound({
    sent,
    stored: byId,
    storedTwice: twice,
    transactions: sink.transactions,
    excused,
    now,
  })
  const broken = [...last.violations, ...findImbalances(db)]
  if (!isFinal) broken.push(`not everything is final ${FINAL_WITHIN_MS} ms after the restart`)
  const fresh = last.uncertain.filter((id) => !knownUncertain.has(id))
  for (const id of fresh) knownUncertain.add(id)
  const byCut = new Set(sink.transactions.filter(({ cut }) => cut).map(({ recipient }) => recipient))
  const byKill = fresh.filter((id) => !byCut.has(id))
  broken.push(...checkUncertainBounds(kind, kills, byKill))
  sum.kills += kills.length
  sum.inData += kills.filter(({ inData }) => inData > 0).length
  const byOutcome = Map.groupBy(
    [...sent.values()].filter(({ id }) => id.includes(`r${number}-`)),
    (entry) => entry.outcome,
  )
  const inData = kills.map((k) => k.inData).join(' and ')
  console.log(
    `round ${number} ${kind}: ${inData} sessions in DATA, ${byOutcome.get('accepted')?.length ?? 0} accepted, ${byOutcome.get('unanswered')?.length ?? 0} unanswered; ` +
      `${byKill.length} uncertain${describeJustAnswered(kills, byKill)}, ${fresh.length - byKill.length} by a cut; ` +
      `final ${(finalMs / 1000).toFixed(1)} s after the restart${broken.length > 0 ? `; ${broken.length} VIOLATIONS` : ''}`,
  )
  violations.push(...broken)
}

/**
 * At most one email per session may be uncertain; when all were held inside DATA, at most as many as were held, and
 * those whose slow reply from before came so late that it was not stored.
 */
function checkUncertainBounds(kind: Moment, kills: readonly Kill[], byKill: readonly string[]): string[] {
  const found: string[] = []
  for (const { atKill } of kills) {
    for (const few of atKill.undecided.values()) {
      const both = few.filter(({ recipient }) => byKill.includes(recipient))
      if (both.length > 1) found.push(`a session left ${both.length} uncertain emails`)
    }
  }
  const inData = kills.reduce((total, k) => total + k.inData, 0)
  if (kind === 'frozen' && byKill.length > inData + listJustAnswered(kills, byKill).length)
    found.push(`${byKill.length} are uncertain, but only ${inData} sessions were in DATA at the kill`)
  return found
}

/** How long ago, in milliseconds, replies were written that were not yet stored: for the service still inside DATA. */
const listJustAnswered = (kills: readonly Kill[], byKill: readonly string[]): number[] =>
  kills.flatMap(({ atKill }) =>
    [...atKill.undecided.values()].flat().flatMap(({ recipient, answeredAtMs }) => {
      const isEarlier = answeredAtMs !== undefined && answeredAtMs <= atKill.atMs
      return isEarlier && byKill.includes(recipient) ? [atKill.atMs - answeredAtMs] : []
    }),
  )

function describeJustAnswered(kills: readonly Kill[], byKill: readonly string[]): string {
  const agesMs = listJustAnswered(kills, byKill)
  if (agesMs.length === 0) return ''
  return ` (${agesMs.length} of them answered up to ${Math.ceil(Math.max(...agesMs))} ms before)`
}

/**
 * Resolves with whether all emails except the deferred ones became final in time, and leaves the connection in the
 * transaction that saw it, because the next attempt of a deferred one may begin soon after.
 */
async function waitUntilFinal(db: Database): Promise<{ readonly isFinal: boolean; readonly now: number }> {
  let now = 0
  let isFinal = false
  const look = () => {
    if (db.inTransaction) db.run('COMMIT')
    db.run('BEGIN')
    now = Date.now()
    isFinal = countOpen(db, now) === 0
    return isFinal || !service.running
  }
  await waitUntil(look, FINAL_WITHIN_MS, 50)
  return { isFinal, now }
}

const key = await prepareDataDirectory(service.settings)
await run.collect(service, async () => {
  await run.runRounds(runRound)
})
if (sum.inData * 3 < sum.kills) violations.push('less than a third of the kills were inside DATA')
const { totals } = last ?? {}
run.end(
  `${sum.kills} kills, ${sum.inData} inside DATA; ${totals?.accepted ?? 0} accepted and ${totals?.unansweredButStored ?? 0} stored without an answer: ` +
    `${totals?.receivedOnce ?? 0} received once, ${totals?.uncertain ?? 0} uncertain, ${totals?.uncertainByCut ?? 0} uncertain by the receiver's own cut, ` +
    `${totals?.deferred ?? 0} deferred; ${totals?.duplicates ?? 0} duplicates, ${totals?.lost ?? 0} lost`,
)
