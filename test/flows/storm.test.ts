import { expect, test } from 'bun:test'
import { toEventCode } from '#features/core/events/record.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import { hours, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import type { Zone } from '#test/support/dns-server.ts'
import { laneStates } from '#test/support/lanes.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { type Reaction, type ScriptedSession, type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)
const EMAILS = 200
const DOMAINS = 60
/** Each recipient has exactly one of these. */
const FINAL_EVENTS = ['sent', 'bounced', 'failed', 'rejected', 'uncertain'] as const
const SEED = 20_260_315

/** The same sequence for the same seed (mulberry32), apart from the order in which sessions arrive. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Half of the domains have their own host, some share one, some have two, a few have none. */
function createZone(domains: readonly string[]): Zone {
  const zone: Zone = { 'mx1.shared.test': { A: ['127.0.0.1'] }, 'mx2.shared.test': { A: ['127.0.0.1'] } }
  for (const [i, domain] of domains.entries()) {
    if (i % 20 === 0) zone[domain] = i % 40 === 0 ? { MX: [{ preference: 0, exchange: '' }] } : 'SERVFAIL'
    else if (i % 4 === 0) zone[domain] = { MX: [{ preference: 10, exchange: 'mx1.shared.test' }] }
    else if (i % 4 === 1)
      zone[domain] = {
        MX: [
          { preference: 10, exchange: 'mx1.shared.test' },
          { preference: 20, exchange: 'mx2.shared.test' },
        ],
      }
    else zone[domain] = { A: ['127.0.0.1'] }
  }
  return zone
}

interface Sink {
  readonly script: SmtpScript
  /**
   * How often the final dot of a message to this recipient was answered with 250, or the message was accepted without a
   * reply.
   */
  readonly accepted: Map<string, number>
  readonly taken: Map<string, number>
  calm(): void
}

function startStormySink(random: () => number): Sink {
  const accepted = new Map<string, number>()
  const taken = new Map<string, number>()
  let isCalm = false
  const often = (share: number) => !isCalm && random() < share
  const add = (map: Map<string, number>, key: string) => map.set(key, (map.get(key) ?? 0) + 1)
  const drop = (): 'end' | 'reset' => (random() < 0.5 ? 'end' : 'reset')
  /** Tries the failures of a step in order, each with its probability; if none occurs, the step succeeds. */
  const step =
    (good: string, ...bad: [share: number, reaction: () => Reaction][]) =>
    (): Reaction => {
      for (const [share, reaction] of bad) if (often(share)) return reaction()
      return good
    }
  const lastRecipient = ({ commands }: ScriptedSession): string =>
    /<(.*)>/.exec(commands.findLast((line) => line.startsWith('RCPT')) ?? '')?.[1] ?? ''
  return {
    accepted,
    taken,
    calm: () => {
      isCalm = true
    },
    script: {
      greeting: step(
        '220 mx',
        [0.01, () => ({ drop: drop() })],
        [0.01, () => '421 4.3.2 Busy'],
        [0.005, () => '554 5.7.1 Blocked'],
      ),
      mail: step('250 ok', [0.02, () => ({ drop: drop() })], [0.02, () => ({ say: '421 4.3.2 Busy', drop: 'end' })]),
      rcpt: step(
        '250 ok',
        [0.02, () => ({ drop: drop() })],
        [0.1, () => '450 4.2.0 Later'],
        [0.05, () => '550 5.1.1 Unknown'],
      ),
      data: step(
        '354 go',
        [0.02, () => ({ drop: drop() })],
        [0.02, () => ({ say: '354 go', drop: drop() })],
        [0.02, () => '451 4.3.0 Later'],
      ),
      body: (_, session) => {
        const recipient = lastRecipient(session)
        if (often(0.03)) return '451 4.3.0 Later'
        if (often(0.02)) return '554 5.6.0 No'
        add(taken, recipient)
        if (often(0.02)) return { drop: drop() }
        add(accepted, recipient)
        return often(0.05) ? { say: '250 2.0.0 Queued', drop: 'end' } : '250 2.0.0 Queued'
      },
    },
  }
}

const stored = (flow: MailFlow) =>
  flow.app.db
    .query<{ status: number; address: string; attempts: number }, []>(
      'SELECT status, address, attempts FROM recipients',
    )
    .all()
    .map(({ status, ...row }) => ({ status: statusName(status), ...row }))

/** Advances the clock to the next event until every recipient has a final status. */
async function untilFinal(flow: MailFlow, clock: ManualClock): Promise<void> {
  const scheduler = flow.service.delivery?.scheduler
  await eventually(() => {
    const { open, nextAt } = flow.app.db
      .query<{ open: number; nextAt: number | null }, []>(
        'SELECT count(*) AS open, min(next_at) AS nextAt FROM recipients WHERE next_at IS NOT NULL',
      )
      .get() ?? { open: 0, nextAt: null }
    const isIdle = scheduler?.inFlight === 0
    clock.advance(isIdle && nextAt !== null ? Math.max(nextAt - clock.now(), seconds(1)) : 10)
    return open === 0
  }, 230_000)
}

test('in a storm of rejections and lost sessions every recipient ends as the receivers decide, and no recipient gets mail twice', async () => {
  const clock = new ManualClock(START)
  const random = createRandom(SEED)
  const sink = startStormySink(random)
  await using server = await startScriptedSmtp(sink.script)
  const domains = Array.from({ length: DOMAINS }, (_, i) => `d${i}.test`)
  await using flow = await startMailFlow({
    clock,
    zone: createZone(domains),
    smtpPort: server.port,
    deliveryConcurrency: 40,
    settings: {
      TASSIS_WORKERS: '2',
      ...siteLimits({ connections: 3, messages_per_connection: 5 }),
    },
  })
  let name = 0
  const address = () => `r${name++}@${domains[Math.floor(random() * DOMAINS)]}`
  const addresses = (most: number) => Array.from({ length: Math.ceil(random() * most) }, address)
  const sends = Array.from({ length: EMAILS }, (_, i) =>
    flow.send(i % 4 === 0 ? { to: addresses(6), cc: addresses(3), bcc: addresses(3) } : { to: address() }),
  )
  await Promise.all(sends)
  await untilFinal(flow, clock)

  const rows = stored(flow)
  expect(rows).toHaveLength(name)
  const possible: Readonly<Partial<Record<Status, readonly (readonly [taken: number, accepted: number])[]>>> = {
    // The reset after a reply can destroy it in transit.
    sent: [[1, 1]],
    bounced: [[0, 0]],
    uncertain: [
      [1, 0],
      [1, 1],
      [0, 0],
    ],
  }
  const wrong = rows.filter(({ status, address }) => {
    const got = [sink.taken.get(address) ?? 0, sink.accepted.get(address) ?? 0]
    return !possible[status]?.some(([taken, accepted]) => got[0] === taken && got[1] === accepted)
  })
  expect(wrong).toEqual([])
  expect(new Set(rows.map(({ status }) => status))).toEqual(new Set(['sent', 'bounced', 'uncertain']))
  expect(Math.max(...rows.map(({ attempts }) => attempts))).toBeGreaterThan(2)
  const finalEvents = flow.app.db
    .query<{ n: number; recipients: number }, []>(
      `SELECT count(*) AS n, count(DISTINCT recipient_id) AS recipients FROM events WHERE type IN (${FINAL_EVENTS.map(toEventCode).join(', ')})`,
    )
    .get()
  expect(finalEvents).toEqual({ n: name, recipients: name })
  expect(laneStates(flow.service)).toEqual([])
  expect(clock.now() - START).toBeGreaterThan(hours(48))
  expectBalanced(flow.service)
}, 240_000)
