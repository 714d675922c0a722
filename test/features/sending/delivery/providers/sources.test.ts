import { describe, expect, test } from 'bun:test'
import { readPools, setPool } from '#features/sending/delivery/control/pools.ts'
import { OutboundSources } from '#features/sending/delivery/providers/outbound-sources.ts'
import { listRules, removeRules } from '#features/sending/queue/queue-rules.ts'
import { createStream } from '#features/setup/streams/streams.ts'
import { listOutboundIps, parseOutboundSource } from '#platform/settings/outbound-source.ts'
import { minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { laneStates } from '#test/support/lanes.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { drain } from '../flows.ts'

const OPERATOR = { accountId: null, type: 'operator', id: 'cli' } as const
const ZONE = {
  'receiver.test': { MX: [{ preference: 1, exchange: 'mx.receiver.test' }] },
  'mx.receiver.test': { A: ['127.0.0.1'] },
}

test('an outgoing address may have a name of its own', () => {
  expect(parseOutboundSource('192.0.2.1')).toEqual({ ip: '192.0.2.1', ehloName: undefined, pool: undefined })
  expect(parseOutboundSource('2001:db8::1 = mail6.example.com')).toEqual({
    ip: '2001:db8::1',
    ehloName: 'mail6.example.com',
    pool: undefined,
  })
  expect(parseOutboundSource('192.0.2.1=a.test@news')).toEqual({ ip: '192.0.2.1', ehloName: 'a.test', pool: 'news' })
  expect(parseOutboundSource('192.0.2.1 @ news')?.pool).toBe('news')
  expect(['192.0.2.1@', '192.0.2.1@a@b', '192.0.2.1@A B', '@news'].map(parseOutboundSource)).toEqual(
    Array.from({ length: 4 }, () => undefined),
  )
  expect(['192.0.2', '192.0.2.1=', '192.0.2.1=a b', '192.0.2.1=a=b', '=a.test'].map(parseOutboundSource)).toEqual(
    Array.from({ length: 5 }, () => undefined),
  )
  expect(listOutboundIps(['192.0.2.1=a.test', '192.0.2.2'])).toEqual(['192.0.2.1', '192.0.2.2'])
})

test('an outgoing address may be that of a proxy, with a login or without', () => {
  const proxyOf = (url: string) => parseOutboundSource(`192.0.2.9=a.test@news via ${url}`)?.proxy
  expect(parseOutboundSource('192.0.2.9=a.test @news  via socks5://10.0.0.2')).toEqual({
    ip: '192.0.2.9',
    ehloName: 'a.test',
    pool: 'news',
    proxy: { host: '10.0.0.2', port: 1080, login: undefined },
  })
  expect(proxyOf('socks5://user:p%40s%2Cs@[2001:db8::2]:9050/')).toEqual({
    host: '2001:db8::2',
    port: 9050,
    login: { user: 'user', password: 'p@s,s' },
  })
  const long = 'x'.repeat(256)
  const wrong = ['', 'socks4://p', 'socks5h://p', 'socks5://', 'socks5://u@p', 'socks5://:p@p', `socks5://u:${long}@p`]
  const alsoWrong = ['socks5://p/x', 'socks5://p?x', 'socks5://p#x', 'socks5://p:0', 'socks5://p:99999', 'socks5://a_b']
  for (const url of [...wrong, ...alsoWrong, 'socks5://p via socks5://q', 'socks5://u:%zz@p'])
    expect([url, parseOutboundSource(`192.0.2.9 via ${url}`)]).toEqual([url, undefined])
})

describe('the choice of an outgoing address', () => {
  const source = (ip: string) => ({ ip, ehloName: 'a.test' })
  const sources = new OutboundSources([source('127.0.0.1'), source('127.0.0.2'), source('::1')])
  const routeTo = (address: string) => ({
    site: 'x',
    hosts: [{ host: 'x', addresses: [address] }],
    port: 25,
    fromOutboundIps: true,
    tls: 'never' as const,
  })
  const v4 = sources.usableFor(routeTo('192.0.2.1'))

  test('is among those of the family of the first address of the route', () => {
    expect(v4.map(({ ip }) => ip)).toEqual(['127.0.0.1', '127.0.0.2'])
    expect(sources.usableFor(routeTo('2001:db8::1')).map(({ ip }) => ip)).toEqual(['::1'])
    expect(sources.usableFor({ ...routeTo('192.0.2.1'), fromOutboundIps: false })).toEqual([])
  })

  test('is within the pool; without a usable one, among those without a pool, else all', () => {
    const pooled = (ip: string, pool?: string) => ({ ...source(ip), pool })
    const mixed = new OutboundSources([pooled('127.0.0.1'), pooled('127.0.0.2', 'news'), pooled('::1', 'news')])
    const ips = (pool: string | undefined, address = '192.0.2.1') =>
      mixed.usableFor(routeTo(address), pool).map(({ ip }) => ip)
    expect([ips('news'), ips(undefined), ips('gone')]).toEqual([['127.0.0.2'], ['127.0.0.1'], ['127.0.0.1']])
    expect(ips(undefined, '2001:db8::1')).toEqual(['::1'])
  })

  test('for a smarthost is always the same one, without a pool if there is one', () => {
    const smarthost = { ...routeTo('192.0.2.1'), smarthost: 'smarthost' as const }
    expect(sources.usableFor(smarthost).map(({ ip }) => ip)).toEqual(['127.0.0.1'])
    const pooled = [{ ...source('127.0.0.2'), pool: 'news' }, source('127.0.0.3')]
    expect(new OutboundSources(pooled).usableFor(smarthost, 'news').map(({ ip }) => ip)).toEqual(['127.0.0.3'])
    expect(new OutboundSources(pooled.slice(0, 1)).usableFor(smarthost).map(({ ip }) => ip)).toEqual(['127.0.0.2'])
  })

  test('takes turns, and passes over those that may not send now', () => {
    const now = () => 0
    const chosen = [1, 2, 3, 4].map(() => sources.choose(v4, now)?.ip)
    expect(new Set(chosen).size).toBe(2)
    expect(chosen[0]).toBe(chosen[2] as string)
    const isBlocked = ({ ip }: { ip: string }) => (ip === '127.0.0.2' ? minutes(5) : 0)
    expect([1, 2, 3].map(() => sources.choose(v4, isBlocked)?.ip)).toEqual(Array(3).fill('127.0.0.1'))
    const bothBlocked = ({ ip }: { ip: string }) => (ip === '127.0.0.2' ? minutes(5) : minutes(9))
    expect([1, 2].map(() => sources.choose(v4, bothBlocked)?.ip)).toEqual(Array(2).fill('127.0.0.2'))
    expect(sources.choose([], now)).toBeUndefined()
  })
})

test('mail leaves from all addresses, each with its name; a greylisted retry leaves from the same one', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  let isGreylisting = true
  await using server = await startScriptedSmtp({
    rcpt: () => (isGreylisting ? '450 4.2.0 Greylisted, come back later' : '250 2.1.5 ok'),
  })
  await using flow = await startMailFlow({
    zone: ZONE,
    smtpPort: server.port,
    clock,
    settings: { TASSIS_OUTBOUND_IPS: '127.0.0.2=two.mail.test, 127.0.0.3' },
  })
  const sent = []
  for (let n = 0; n < 8; n++) {
    const one = await flow.send({ to: `r${n}@receiver.test` })
    expect((await flow.settled(one)).recipients).toMatchObject([{ status: 'queued', attempts: 1 }])
    sent.push(one)
  }
  const readIps = () =>
    flow.app.db.query<{ id: number; ip: string }, []>('SELECT id, sending_ip AS ip FROM recipients ORDER BY id').all()
  const first = readIps()
  expect(new Set(first.map(({ ip }) => ip))).toEqual(new Set(['127.0.0.2', '127.0.0.3']))
  const ehloOf = new Map(
    server.sessions.map(({ commands }) => [commands[0], commands.some((line) => line.includes('r0@'))]),
  )
  expect([...ehloOf.keys()].sort()).toEqual(['EHLO mail.tassis.test', 'EHLO two.mail.test'])
  isGreylisting = false
  await drain(flow, clock)
  expect(readIps()).toEqual(first)
  expectBalanced(flow.service)
})

test('a suspension is that of one address: mail leaves from the other meanwhile, also mail last sent from the first', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  await using server = await startScriptedSmtp({
    mail: (_, session) => (session.commands[0] === 'EHLO two.mail.test' ? '421 4.7.0 Try again later' : '250 2.1.0 ok'),
  })
  await using flow = await startMailFlow({
    zone: ZONE,
    smtpPort: server.port,
    clock,
    settings: { TASSIS_OUTBOUND_IPS: '127.0.0.2=two.mail.test, 127.0.0.3=three.mail.test' },
  })
  for (let n = 0; n < 20; n++) await flow.send({ to: `r${n}@receiver.test` })
  await drain(flow, clock)
  expect(flow.app.db.query('SELECT DISTINCT status, sending_ip AS ip FROM recipients').all()).toEqual([
    { status: 3, ip: '127.0.0.3' },
  ])
  const suspended = flow.app.db.query('SELECT source FROM provider_pairs WHERE suspended_until IS NOT NULL').all()
  expect(suspended).toEqual([{ source: '127.0.0.2' }])
  expectBalanced(flow.service)
})

test('mail of an account leaves from its pool; a pool that is gone holds nothing up', async () => {
  await using server = await startScriptedSmtp({})
  await using flow = await startMailFlow({
    zone: ZONE,
    smtpPort: server.port,
    settings: { TASSIS_OUTBOUND_IPS: '127.0.0.2=two.mail.test, 127.0.0.3=three.mail.test@news' },
  })
  const sendFrom = async () => {
    const { recipient } = await flow.outcome('r@receiver.test')
    expect(recipient.status).toBe('sent')
    return flow.app.db.query<{ ip: string }, []>('SELECT sending_ip AS ip FROM recipients ORDER BY id DESC').get()?.ip
  }
  const { accountId } = flow.actor
  expect(await sendFrom()).toBe('127.0.0.2')
  await setPool(flow.app, OPERATOR, accountId, { pool: 'news' })
  expect(await sendFrom()).toBe('127.0.0.3')
  await expect(setPool(flow.app, OPERATOR, accountId, { pool: 'typo' })).rejects.toThrow('there are news')
  // As after a change of the setting.
  flow.app.db.run("UPDATE queue_rules SET target = 'gone' WHERE kind = 'pool'")
  expect(await sendFrom()).toBe('127.0.0.2')
  // The commands for holds and redirects neither show nor end it.
  expect(listRules(flow.app.db)).toEqual([])
  await flow.app.commit.write((tx) => expect(removeRules(tx, { accountId }, undefined)).toEqual([]))
  await setPool(flow.app, OPERATOR, accountId, { pool: null })
  expect(flow.app.db.query('SELECT 1 FROM queue_rules').get()).toBeNull()
  expect(
    flow.app.db.query("SELECT count(*) AS n FROM audit_logs WHERE action = 'operator.account_pool_set'").get(),
  ).toEqual({ n: 2 })
})

test('the pool of a stream wins over that of its account, and its mail waits for its own addresses only', async () => {
  // Refuses what leaves from the address of the pool "news", so that its pair is suspended.
  let isNewsBlocked = false
  await using server = await startScriptedSmtp({
    mail: (_, { commands }) =>
      isNewsBlocked && commands[0] === 'EHLO four.mail.test' ? '421 4.7.0 Try again later' : '250 2.1.0 ok',
  })
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  await using flow = await startMailFlow({
    zone: ZONE,
    smtpPort: server.port,
    clock,
    settings: {
      TASSIS_OUTBOUND_IPS: '127.0.0.2=two.mail.test, 127.0.0.3=three.mail.test@main, 127.0.0.4=four.mail.test@news',
    },
  })
  const { app, actor } = flow
  const setPools = (stream: string | undefined, pool: string | null) =>
    setPool(app, OPERATOR, actor.accountId, { stream, pool })
  await createStream(app, actor, { slug: 'news', name: 'News' })
  await createStream(app, actor, { slug: 'receipts', name: 'Receipts' })
  const sendIn = async (stream: string) => {
    const { recipient } = await flow.outcome('r@receiver.test', { stream })
    const ip = app.db.query<{ ip: string }, []>('SELECT sending_ip AS ip FROM recipients ORDER BY id DESC').get()?.ip
    return [recipient.status, ip]
  }
  await setPools('news', 'news')
  expect([await sendIn('receipts'), await sendIn('news')]).toEqual([
    ['sent', '127.0.0.2'],
    ['sent', '127.0.0.4'],
  ])
  await setPools(undefined, 'main')
  expect([await sendIn('receipts'), await sendIn('news')]).toEqual([
    ['sent', '127.0.0.3'],
    ['sent', '127.0.0.4'],
  ])
  expect(readPools(app, actor.accountId)).toEqual({ pool: 'main', stream_pools: [{ stream: 'news', pool: 'news' }] })
  isNewsBlocked = true
  expect(await sendIn('news')).toEqual(['queued', '127.0.0.4'])
  await flow.send({ to: 'waits@receiver.test', stream: 'news' })
  // Accepted later, for the same domain and priority, but not behind the suspended address.
  expect(await sendIn('receipts')).toEqual(['sent', '127.0.0.3'])
  const states = () => laneStates(flow.service)
  await eventually(() => states()[0]?.reason.includes('127.0.0.4 is suspended'))
  expect(states()).toMatchObject([{ waiting: 2 }])
  // Mail that waits takes the address of its stream's next pool; without one, that of its account.
  await setPools('news', null)
  await drain(flow, clock)
  expect(
    app.db.query<{ ip: string }, []>('SELECT sending_ip AS ip FROM recipients ORDER BY id DESC LIMIT 3').all(),
  ).toEqual(Array(3).fill({ ip: '127.0.0.3' }))
  await expect(setPools('typo', 'news')).rejects.toThrow('has no stream "typo"')
  expectBalanced(flow.service)
})
