import { describe, expect, test } from 'bun:test'
import { acceptBatch } from '#features/sending/accept/batch.ts'
import { type Destination, Sites } from '#features/sending/delivery/sites/sites.ts'
import {
  accountOfLane,
  domainOfLane,
  isBulkLane,
  type LaneMail,
  laneLabel,
  laneOf,
  streamOfLane,
} from '#features/sending/queue/lanes.ts'
import { hours } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { ownHosts, sharedHost } from '#test/support/dns-server.ts'
import { laneStates } from '#test/support/lanes.ts'
import { type MailFlow, type MailFlowOptions, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createPair, instantOf } from '#test/support/pairs.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { type ScriptedSmtp, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { recipientsOf } from './flows.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)

test.each<[lane: string, destination: string, label: string, Pick<LaneMail, 'laneClass' | 'sandbox' | 'streamId'>]>([
  ['7:x.test', 'x.test', 'x.test (Acme)', { laneClass: 'normal', sandbox: false }],
  ['bulk:7:x.test', 'x.test', 'x.test (broadcast of Acme)', { laneClass: 'bulk', sandbox: false }],
  ['high:7:x.test', 'x.test', 'x.test (high priority of Acme)', { laneClass: 'high', sandbox: false }],
  ['low:7:x.test', 'x.test', 'x.test (low priority of Acme)', { laneClass: 'low', sandbox: false }],
  [
    'high:7:12:x.test',
    'x.test',
    'x.test (high priority of Acme, stream with a pool)',
    { laneClass: 'high', sandbox: false, streamId: 12 },
  ],
  ['7:sandbox', 'sandbox', 'sandbox (Acme)', { laneClass: 'normal', sandbox: true, streamId: 12 }],
  ['bulk:7:sandbox', 'sandbox', 'sandbox (broadcast of Acme)', { laneClass: 'bulk', sandbox: true }],
  ['7:simulator', 'simulator', 'simulator (Acme)', { laneClass: 'normal', sandbox: true }],
  ['bulk:7:simulator', 'simulator', 'simulator (broadcast of Acme)', { laneClass: 'bulk', sandbox: true }],
])('mail waits in the lane %s, which routes to %s', (lane, destination, label, mail) => {
  const domain = destination === 'simulator' ? 'sim.test' : 'x.test'
  expect(laneOf({ accountId: 7, simulatorDomain: 'sim.test', domain, ...mail })).toBe(lane)
  expect([domainOfLane(lane), accountOfLane(lane), laneLabel(lane, 'Acme')]).toEqual([destination, 7, label])
  expect([isBulkLane(lane), streamOfLane(lane)]).toEqual([
    mail.laneClass === 'bulk',
    mail.sandbox ? undefined : mail.streamId,
  ])
})

/** A lane of another account than that of the bulk lanes. */
const ORDINARY = '9:x.test'
const BULK = 'bulk:1:x.test'

const createDestination = (siteName: string, network = siteName): Destination => ({
  siteName,
  network,
  hasIpv4: true,
  pair: createPair(new ManualClock(START)),
})

describe('slots', () => {
  const sitesFor = (deliveryConcurrency: number, connectionsPerSite: number, ownerOf = accountOfLane) => {
    const woken: string[] = []
    const clock = new ManualClock(START)
    const wake = (lane: string) => !lane.endsWith('gone.test') && woken.push(lane) > 0
    const instant = () => instantOf(clock)
    const onPairBlocked = () => undefined
    const sites = new Sites({ clock, deliveryConcurrency, connectionsPerSite, instant, onPairBlocked, ownerOf, wake })
    return { sites, woken }
  }

  test('bulk mail uses at most four fifths of the slots of a site, and never the last free ones', () => {
    const { sites } = sitesFor(500, 10)
    const site = sites.getSite('mx.test')
    const capacity = () => [sites.capacityOfSite(site, ORDINARY), sites.capacityOfSite(site, BULK)]
    expect(capacity()).toEqual([2, 1])
    for (let answers = 0; answers < 9; answers++) sites.recordSession(site)
    expect(capacity()).toEqual([20, 16])
    sites.acquireSlots(createDestination('mx.test'), 10, ORDINARY)
    expect(capacity()).toEqual([10, 6])
    sites.acquireSlots(createDestination('mx.test'), 6, BULK)
    expect(capacity()).toEqual([4, 0])
  })

  test('bulk mail has one message at a time at a site with one connection', () => {
    const { sites } = sitesFor(500, 1)
    const site = sites.getSite('mx.test')
    for (let answers = 0; answers < 9; answers++) sites.recordSession(site)
    expect([sites.capacityOfSite(site, ORDINARY), sites.capacityOfSite(site, BULK)]).toEqual([2, 1])
  })

  test('bulk mail of all accounts has at most half of all slots, and leaves a fifth free', () => {
    const { sites } = sitesFor(100, 10)
    const slots = () => [sites.slotsFor('9:x.test'), sites.slotsFor('bulk:1:x.test'), sites.slotsFor('bulk:2:x.test')]
    expect(slots()).toEqual([50, 40, 40])
    sites.acquireSlots(createDestination('mx.test'), 20, 'bulk:1:x.test')
    expect(slots()).toEqual([37, 20, 29])
    sites.acquireSlots(createDestination('mx.test'), 25, '9:x.test')
    sites.acquireSlots(createDestination('mx.test'), 20, 'bulk:2:x.test')
    expect(slots()).toEqual([0, -3, -3])
    sites.releaseSlots(createDestination('mx.test'), 25, '9:x.test')
    sites.acquireSlots(createDestination('mx.test'), 10, 'bulk:3:x.test')
    expect(slots()).toEqual([20, 0, 0])
  })

  test("bulk mail leaves a fifth of its account's slots to other mail", () => {
    const { sites } = sitesFor(100, 10)
    sites.acquireSlots(createDestination('mx.test'), 40, 'bulk:1:x.test')
    expect([sites.slotsFor('bulk:1:x.test'), sites.slotsFor('1:x.test')]).toEqual([0, 10])
  })

  test.each([1, 2, 3])('bulk mail gets one slot of %d', (slots) => {
    const { sites } = sitesFor(slots, 10)
    expect(sites.slotsFor(BULK)).toBe(1)
  })

  test('waiting lanes are woken in order, and bulk lanes after all others have had their turn', () => {
    const { sites, woken } = sitesFor(100, 10)
    const site = sites.getSite('mx.test')
    for (const lane of ['bulk:1:a.test', '2:b.test', 'bulk:1:c.test', '2:d.test']) sites.waitForSite(site, lane)
    sites.offerSlots()
    sites.offerSlots()
    // Both ordinary lanes are about to take their slots, so no bulk lane is woken.
    sites.offerSlots()
    expect(woken).toEqual(['2:b.test', '2:d.test'])
    sites.leaveQueues('2:b.test')
    sites.offerSlots()
    expect(woken).toEqual(['2:b.test', '2:d.test'])
    sites.endTurn('2:d.test')
    sites.offerSlots()
    sites.offerSlots()
    expect(woken).toEqual(['2:b.test', '2:d.test', 'bulk:1:a.test', 'bulk:1:c.test'])
  })

  test('a bulk lane gets no slot while an ordinary lane waits for one', () => {
    const { sites, woken } = sitesFor(100, 10)
    for (const lane of ['bulk:1:a.test', '2:b.test']) sites.waitForSlot(lane)
    expect(sites.slotsFor(BULK)).toBe(0)
    sites.offerSlots()
    expect([woken, sites.slotsFor(BULK)]).toEqual([['2:b.test'], 0])
    sites.endTurn('2:b.test')
    expect(sites.slotsFor(BULK)).toBe(40)
    sites.offerSlots()
    expect(woken).toEqual(['2:b.test', 'bulk:1:a.test'])
  })

  test('a lane whose account is at its limit does not keep bulk lanes of others from a slot', () => {
    const { sites, woken } = sitesFor(100, 10)
    const site = sites.getSite('mx.test')
    sites.acquireSlots(createDestination('tarpit.test'), 50, '1:a.test')
    sites.waitForSlot('1:b.test')
    sites.waitForSite(site, '1:c.test')
    expect([sites.slotsFor('bulk:2:x.test'), sites.capacityOfSite(site, 'bulk:2:x.test')]).toEqual([16, 1])
    sites.waitForSlot('bulk:2:x.test')
    sites.offerSlots()
    expect(woken).toEqual(['bulk:2:x.test'])
  })

  test('a site is not evicted while a woken lane is about to use it', () => {
    const { sites } = sitesFor(100, 10)
    const site = sites.getSite('mx.test')
    sites.waitForSite(site, 'bulk:1:a.test')
    sites.offerSlots()
    sites.evictIdle(createDestination('mx.test'))
    expect(sites.getSite('mx.test')).toBe(site)
    sites.endTurn('bulk:1:a.test')
    sites.evictIdle(createDestination('mx.test'))
    expect(sites.getSite('mx.test')).not.toBe(site)
  })

  test('a lane whose mail was removed while it waited holds up no lane behind it', () => {
    const { sites, woken } = sitesFor(100, 10)
    for (const lane of ['bulk:1:a.test', '2:gone.test']) sites.waitForSlot(lane)
    sites.offerSlots()
    expect(woken).toEqual(['bulk:1:a.test'])
  })

  test.each(['', 'bulk:'])(
    'while lanes %sof several accounts wait for slots of a site, no account gets more than its share, and accounts take turns',
    (kind) => {
      const { sites, woken } = sitesFor(500, kind === '' ? 8 : 10)
      const site = sites.getSite('mx.test')
      for (let answers = 0; answers < 9; answers++) sites.recordSession(site)
      const [slow, slower, quick, last] = ['1:a.test', '1:b.test', '2:a.test', '3:a.test'].map(
        (lane) => `${kind}${lane}`,
      ) as [string, string, string, string]
      const acquire = (count: number, lane: string) => sites.acquireSlots(createDestination('mx.test'), count, lane)
      const capacities = () => [slow, slower, quick, last].map((lane) => sites.capacityOfSite(site, lane))
      expect(capacities()).toEqual([16, 16, 16, 16])
      acquire(10, slow)
      acquire(6, slower)
      for (const lane of [slow, slower, quick]) sites.waitForSite(site, lane)
      acquire(-3, slow)
      // Two accounts share 16 slots, and one holds 13, five more than its half. Others are limited to the free three.
      expect(capacities()).toEqual([-5, -5, 3, 3])
      sites.offerSlots()
      expect(woken).toEqual([quick])
      sites.leaveQueues(quick)
      acquire(3, quick)
      // No other account waits for slots now.
      acquire(-2, quick)
      expect(capacities()).toEqual([2, 2, 2, 2])
      for (const lane of [quick, last]) sites.waitForSite(site, lane)
      acquire(-8, slow)
      // Each of three accounts may hold six: the first holds five, the second one.
      expect(capacities()).toEqual([1, 1, 5, 6])
      for (let turn = 0; turn < 4; turn++) sites.offerSlots()
      // The quick account had the last turn, so the one that came after it goes first.
      expect(woken.slice(1)).toEqual([slow, last, quick, slower])
    },
  )

  test('while bulk lanes of two accounts wait for a slot, each has at most half of the bulk slots', () => {
    const { sites, woken } = sitesFor(100, 10)
    sites.acquireSlots(createDestination('mx.test'), 50, 'bulk:1:a.test')
    for (const lane of ['bulk:1:a.test', 'bulk:1:b.test', 'bulk:2:a.test']) sites.waitForSlot(lane)
    sites.releaseSlots(createDestination('mx.test'), 1, 'bulk:1:a.test')
    sites.offerSlots()
    expect(woken).toEqual(['bulk:2:a.test'])
    expect([sites.slotsFor('bulk:1:b.test'), sites.slotsFor('bulk:2:a.test')]).toEqual([-24, 1])
  })

  test('an account has at most half of all slots, and accounts that arrive one after another always leave some free', () => {
    const { sites } = sitesFor(500, 10)
    const held = Array.from({ length: 20 }, (_, account) => {
      const count = sites.slotsFor(`${account}:x.test`)
      sites.acquireSlots(createDestination(`${account}.test`), count, `${account}:x.test`)
      return count
    })
    expect(held.slice(0, 10)).toEqual([250, 96, 47, 27, 17, 11, 8, 6, 5, 4])
    expect(500 - sites.inFlight).toBe(11)
  })

  test('an account has excess slots when others arrived after it and fewer than a quarter are free', () => {
    const { sites } = sitesFor(500, 10)
    const excess = () => ['1', '2', '3'].map((account) => sites.countExcess(Number(account)))
    sites.acquireSlots(createDestination('a.test'), 250, '1:a.test')
    sites.acquireSlots(createDestination('b.test'), 96, '2:b.test')
    expect(excess()).toEqual([0, 0, 0])
    sites.acquireSlots(createDestination('c.test'), 47, '3:c.test')
    // The others leave account 1 357 slots, of which it may hold 159, and account 2 203, of which it may hold 71.
    expect(excess()).toEqual([91, 25, 0])
  })

  // Proves: delivery-22
  test('an account has at most a quarter of all slots while a lane of another waits for one', () => {
    const { sites } = sitesFor(500, 10)
    sites.acquireSlots(createDestination('a.test'), 100, '1:a.test')
    expect(sites.slotsFor('1:a.test')).toBe(150)
    sites.waitForSlot('1:b.test')
    expect([sites.slotsFor('1:a.test'), sites.slotsFor('2:a.test')]).toEqual([150, 125])
    sites.waitForSlot('2:a.test')
    expect([sites.slotsFor('1:a.test'), sites.slotsFor('2:a.test')]).toEqual([25, 125])
  })

  // Proves: delivery-22
  test('accounts are offered free slots in turn, however many lanes each has and whichever waited first', () => {
    const { sites, woken } = sitesFor(500, 10)
    const lanes = ['1:a.test', '1:b.test', '1:c.test', '2:a.test', '2:b.test', '3:a.test']
    for (const lane of lanes) sites.waitForSlot(lane)
    for (const _ of lanes) sites.offerSlots()
    expect(woken).toEqual(['1:a.test', '2:a.test', '3:a.test', '1:b.test', '2:b.test', '1:c.test'])
  })

  test('sub-accounts share the slots of their parent', () => {
    const { sites } = sitesFor(500, 10, () => 1)
    sites.acquireSlots(createDestination('a.test'), 250, '2:a.test')
    expect(sites.slotsFor('3:a.test')).toBe(0)
  })

  test('sites at the same address share a quarter of all slots, and an account half of that', () => {
    const { sites, woken } = sitesFor(500, 10)
    for (let i = 0; i < 62; i++) sites.acquireSlots(createDestination(`mx${i}.test`, '127.0.0.1'), 1, `1:d${i}.test`)
    const capacity = (lane: string, network = '127.0.0.1') => sites.capacityOfAddress(network, lane)
    expect([capacity('1:x.test'), capacity('2:x.test'), capacity('1:x.test', '127.0.0.2')]).toEqual([1, 25, 63])
    sites.acquireSlots(createDestination('mx62.test', '127.0.0.1'), 1, '1:d62.test')
    sites.waitForAddress('127.0.0.1', '1:x.test')
    sites.offerSlots()
    expect(woken).toEqual([])
    sites.releaseSlots(createDestination('mx0.test', '127.0.0.1'), 1, '1:d0.test')
    sites.offerSlots()
    expect(woken).toEqual(['1:x.test'])
  })
})

const createNames = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${prefix}${i}`)

interface Receiver extends AsyncDisposable {
  readonly port: number
  /** Local parts, in the order in which their messages began. */
  readonly begun: string[]
  /** Local parts of messages that wait for the reply to their final dot. */
  readonly held: Set<string>
  /** From now on delays the reply to messages whose local part matches. */
  hold(which: (local: string) => boolean): void
  /** Sends the delayed replies of matching messages, and no longer delays such messages. */
  release(which?: (local: string) => boolean): void
}

/** A server that accepts all mail and delays the reply to the final dot of selected messages. */
async function startReceiver(): Promise<Receiver> {
  const begun: string[] = []
  const held = new Map<string, () => void>()
  let isHeld = (_: string): boolean => false
  const localOf = (commands: readonly string[]): string =>
    /<([^@]*)@/.exec(commands.findLast((line) => line.startsWith('RCPT')) ?? '')?.[1] ?? ''
  const server: ScriptedSmtp = await startScriptedSmtp({
    data: (_, session) => {
      begun.push(localOf(session.commands))
      return '354 Go ahead'
    },
    body: async (_, session) => {
      const local = localOf(session.commands)
      if (isHeld(local)) await new Promise<void>((resolve) => held.set(local, resolve))
      return '250 2.0.0 Queued'
    },
  })
  return {
    port: server.port,
    begun,
    get held() {
      return new Set(held.keys())
    },
    hold(which) {
      isHeld = which
    },
    release(which = () => true) {
      const before = isHeld
      isHeld = (local) => before(local) && !which(local)
      for (const [local, resolve] of held) {
        if (!which(local)) continue
        held.delete(local)
        resolve()
      }
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

const isBulk = (local: string): boolean => local.startsWith('bulk')

interface BulkFlow extends AsyncDisposable {
  readonly flow: MailFlow
  /** Makes mail to these addresses due in the broadcast lanes of an account. */
  due(addresses: readonly string[], accountId?: number): Promise<void>
  /** Local parts of messages in delivery. */
  inDelivery(): string[]
}

/** Only the lane marks mail as that of a broadcast; the messages are the same. */
async function startBulkFlow(options: MailFlowOptions): Promise<BulkFlow> {
  const clock = new ManualClock(START)
  const flow = await startMailFlow({ ...options, clock })
  const { app } = flow
  return {
    flow,
    async due(addresses, accountId = 1) {
      const at = clock.now() + hours(1)
      const send_at = new Date(at).toISOString()
      for (let from = 0; from < addresses.length; from += 50)
        await flow.send({ to: addresses.slice(from, from + 50), send_at })
      app.db.run(`UPDATE recipients SET lane = 'bulk:${accountId}' || substr(lane, instr(lane, ':')) WHERE status = 1`)
      const lanes = app.db.query<{ lane: string }, []>('SELECT DISTINCT lane FROM recipients WHERE status = 1').all()
      clock.advance(hours(1))
      for (const { lane } of lanes) app.mailDue.emit({ lane, at })
    },
    inDelivery: () =>
      recipientsOf(flow)
        .filter(({ status }) => status === 'processing')
        .map(({ address }) => address.replace(/@.*/, '')),
    [Symbol.asyncDispose]: () => flow[Symbol.asyncDispose](),
  }
}

/** Waits until all mail is delivered. */
const waitForSent = (flow: MailFlow) => eventually(() => recipientsOf(flow).every(({ status }) => status === 'sent'))

describe('transactional mail', () => {
  // Proves: broadcast-8
  test('is delivered before many bulk recipients at the same site, except the few in flight', async () => {
    await using receiver = await startReceiver()
    await using bulk = await startBulkFlow({ zone: sharedHost('x.test', 'y.test'), smtpPort: receiver.port })
    const { flow } = bulk
    // The first few show that the site responds, so that it gets full capacity.
    receiver.hold((local) => isBulk(local) && Number(local.slice(4)) >= 40)
    await bulk.due(createNames('bulk', 160).map((local) => `${local}@x.test`))
    // 10 connections, of which bulk mail uses 8.
    await eventually(() => receiver.held.size === 8)
    await eventually(() => bulk.inDelivery().length === 16)
    const before = receiver.begun.length
    const sent = [await flow.send({ to: 'same@x.test' }), await flow.send({ to: 'other@y.test' })]
    for (const one of sent) expect((await flow.settled(one)).recipients).toMatchObject([{ status: 'sent' }])
    expect(receiver.begun.slice(before).toSorted()).toEqual(['other', 'same'])
    expect([receiver.held.size, bulk.inDelivery().length]).toEqual([8, 16])
    receiver.release()
    await waitForSent(flow)
    expect([new Set(receiver.begun).size, receiver.begun.length]).toEqual([162, 162])
    expectBalanced(flow.service)
  }, 120_000)

  test('that a Worker holds gets the next free connection before its bulk mail', async () => {
    await using receiver = await startReceiver()
    await using bulk = await startBulkFlow({
      zone: sharedHost('x.test'),
      smtpPort: receiver.port,
      settings: siteLimits({ connections: 3 }),
    })
    const { flow } = bulk
    receiver.hold((local) => !isBulk(local) || Number(local.slice(4)) >= 50)
    await bulk.due(createNames('bulk', 60).map((local) => `${local}@x.test`))
    // Bulk mail uses 2 of 3 connections; 4 of 6 messages in flight are bulk.
    await eventually(() => receiver.held.size === 2 && bulk.inDelivery().length === 4)
    await flow.send({ to: 'first@x.test' })
    await eventually(() => receiver.held.has('first'))
    await flow.send({ to: 'second@x.test' })
    // A status of `processing` comes before the Worker has the message.
    const lanes = () => laneStates(flow.service)
    await eventually(() =>
      lanes()
        .find(({ lane }) => lane === '1:x.test')
        ?.reason.startsWith('2 in delivery'),
    )
    await flow.app.commit.barrier()
    const [one] = receiver.held
    const before = receiver.begun.length
    receiver.release((local) => local === one)
    await eventually(() => receiver.held.size === 3)
    expect(receiver.begun.slice(before)).toEqual(['second'])
    receiver.release()
    await waitForSent(flow)
    expect(receiver.begun).toHaveLength(62)
    expectBalanced(flow.service)
  })

  test('that waits for the only connection of a site gets it before bulk mail that waited longer', async () => {
    await using receiver = await startReceiver()
    await using bulk = await startBulkFlow({
      zone: sharedHost('x.test', 'y.test', 'z.test'),
      smtpPort: receiver.port,
      settings: siteLimits({ connections: 1 }),
    })
    const { flow } = bulk
    receiver.hold((local) => local === 'bulk0')
    await bulk.due(createNames('bulk', 20).map((local, i) => `${local}@${i % 2 === 0 ? 'x' : 'y'}.test`))
    await eventually(() => receiver.held.size === 1)
    await flow.send({ to: 'first@x.test' })
    await eventually(() => bulk.inDelivery().includes('first'))
    await Promise.all([flow.send({ to: 'more@x.test' }), flow.send({ to: 'more@z.test' })])
    const reasons = () => Object.fromEntries(laneStates(flow.service).map(({ lane, reason }) => [lane, reason]))
    const expected = {
      '1:x.test': '1 in delivery, the others wait for a connection',
      '1:z.test': 'waits for a connection to mx.shared.test',
      'bulk:1:x.test': '1 in delivery, the others wait for a connection',
      'bulk:1:y.test': 'waits for a connection to mx.shared.test, after all non-broadcast mail',
    }
    // The lanes take their turns one after the other.
    await eventually(() => Bun.deepEquals(reasons(), expected))
    receiver.release()
    await waitForSent(flow)
    expect(receiver.begun.slice(0, 4)).toEqual(['bulk0', 'first', 'more', 'more'])
    expect(receiver.begun).toHaveLength(23)
    expectBalanced(flow.service)
  })

  // Proves: broadcast-8
  test('has more than half of all slots to itself, whatever bulk mail is due and however silent its receivers are', async () => {
    await using receiver = await startReceiver()
    const domains = createNames('bulk', 30)
    const others = createNames('other', 5)
    await using bulk = await startBulkFlow({
      zone: ownHosts(...[...domains, ...others].map((name) => `${name}.test`)),
      smtpPort: receiver.port,
      settings: { TASSIS_WORKERS: '2' },
      deliveryConcurrency: 10,
    })
    const { flow } = bulk
    receiver.hold(isBulk)
    await bulk.due(domains.map((name) => `${name}@${name}.test`))
    await eventually(() => receiver.held.size === 4)
    const sent = await Promise.all(others.map((name) => flow.send({ to: `${name}@${name}.test` })))
    for (const one of sent) expect((await flow.settled(one)).recipients).toMatchObject([{ status: 'sent' }])
    expect([receiver.held.size, bulk.inDelivery().length]).toEqual([4, 4])
    receiver.release()
    await waitForSent(flow)
    expect(receiver.begun).toHaveLength(35)
    expectBalanced(flow.service)
  })
})

test('bulk mail follows the route of its domain: it bounces for a missing domain and waits for a silent one', async () => {
  await using bulk = await startBulkFlow({ zone: ownHosts('down.test') })
  const { flow } = bulk
  await bulk.due(['a@down.test', 'b@nowhere.test'])
  const outcomes = () =>
    flow.app.db
      .query('SELECT address, lane, status, attempts, bounce_category AS category FROM recipients ORDER BY address')
      .all()
  await eventually(() => recipientsOf(flow).every((row) => row.attempts === 1 && row.status !== 'processing'))
  expect(outcomes()).toEqual([
    { address: 'a@down.test', lane: 'bulk:1:down.test', status: 0, attempts: 1, category: null },
    { address: 'b@nowhere.test', lane: null, status: 4, attempts: 1, category: 'dns_failure' },
  ])
  expectBalanced(flow.service)
})

describe('a single email behind many of its own account to a site that takes one at a time', () => {
  type Send = (flow: MailFlow, names: readonly string[]) => Promise<unknown>
  const sendBatches: Send = async ({ app, actor }, names) => {
    const emails = names.map((name) => ({ from: 'a@sender.test', to: `${name}@x.test`, subject: 'x', text_body: 'x' }))
    for (let from = 0; from < emails.length; from += 50)
      expect(
        (await acceptBatch(app, actor, { emails: emails.slice(from, from + 50), idempotencyKey: undefined })).errors,
      ).toEqual([])
  }
  const sendSingly =
    (transactional: boolean): Send =>
    async (flow, names) => {
      for (const name of names) await flow.send({ to: `${name}@x.test`, transactional })
    }

  // Proves: stream-9
  test.each<[string, Send, between: number]>([
    ['batches, which it passes', sendBatches, 0],
    ['emails that are not transactional, which it passes', sendSingly(false), 0],
    ['emails of its own kind, with which it takes turns', sendSingly(true), 2],
  ])(
    '%s',
    async (_, sendMany, between) => {
      await using receiver = await startReceiver()
      await using flow = await startMailFlow({
        zone: sharedHost('x.test'),
        smtpPort: receiver.port,
        clock: new ManualClock(START),
        settings: siteLimits({ connections: 1 }),
      })
      const next = async () => {
        const [one] = receiver.held
        receiver.hold((local) => local !== one)
        receiver.release((local) => local === one)
        await eventually(() => receiver.held.size === 1 && !receiver.held.has(one ?? ''))
        receiver.hold(() => true)
      }
      receiver.hold(() => true)
      const names = createNames('many', 80)
      await sendMany(flow, names.slice(0, 40))
      await eventually(() => receiver.held.size === 1)
      await sendMany(flow, names.slice(40))
      await flow.send({ to: 'single@x.test' })
      const before = receiver.begun.length
      for (let count = 0; !receiver.held.has('single'); count++) {
        expect(count).toBeLessThan(20)
        await next()
      }
      // Those that a Worker had before are sent before it.
      const inFlight = 4
      expect(receiver.begun.length - before).toBeLessThanOrEqual(inFlight + between)
      receiver.release()
      receiver.hold(() => false)
      await waitForSent(flow)
      expect(receiver.begun.toSorted()).toEqual([...names, 'single'].toSorted())
      expectBalanced(flow.service)
    },
    120_000,
  )
})
