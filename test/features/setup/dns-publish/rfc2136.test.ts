import { describe, expect, test } from 'bun:test'
import { DnsApiError, type RecordChange } from '#features/setup/dns-publish/dns-api.ts'
import { signMessage, verifyResponse } from '#protocols/dns/tsig.ts'
import { areDaemonsAvailable, type DaemonName, startDaemon } from '#test/support/dns-daemons.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startUpdateServer } from '#test/support/update-server.ts'
import { connectTo } from './fixture.ts'

const RECORDS = [
  'taken TXT "part one, " "part two"',
  'taken TXT "other"',
  '*.wild CNAME elsewhere.test.',
  'alias CNAME www',
  'deep.cut NS ns.elsewhere.test.',
]

const change = (more: Partial<RecordChange>): RecordChange => ({
  name: 'new.zone.test',
  type: 'TXT',
  ttlSeconds: 300,
  before: [],
  after: ['value'],
  ...more,
})

const problemOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return error instanceof DnsApiError ? `${error.problem}: ${error.message}` : `no problem (${error})`
}

describe.skipIf(!areDaemonsAvailable()).each<DaemonName>(['bind', 'knot'])('%s', (name) => {
  test('changes a zone atomically, and keeps what a change does not name', async () => {
    await using daemon = await startDaemon(name, { zone: 'zone.test', records: RECORDS })
    const before = await daemon.dump()
    const api = connectTo(daemon)
    expect(await api.findZone('a.b.zone.test')).toBe('zone.test')
    const names = ['taken', 'x.wild', 'alias', 'deep.cut', 'x.deep.cut', 'free'].map((label) => `${label}.zone.test`)
    const sets = await api.read('zone.test', names)
    expect(sets.map(({ name: at, type, values }) => `${at} ${type} ${[...values].sort().join(' | ')}`).sort()).toEqual([
      'alias.zone.test CNAME www.zone.test',
      'deep.cut.zone.test NS ns.elsewhere.test',
      'deep.cut.zone.test NS ns.elsewhere.test',
      'taken.zone.test TXT other | part one, part two',
    ])
    const taken = { name: 'taken.zone.test', before: ['part one, part two', 'other'] }
    await api.write('zone.test', change({ ...taken, after: [...taken.before, 'y'.repeat(400)] }))
    await api.write('zone.test', change({ name: 'mx.zone.test', type: 'MX', after: ['10 a.test', '10 b.test'] }))
    const wide = connectTo(daemon, { key_name: 'wide', algorithm: 'hmac-sha512' })
    await wide.write('zone.test', change({ name: 'c.zone.test', type: 'CNAME', after: ['target.test'] }))
    const added = [
      'c.zone.test CNAME target.test',
      'mx.zone.test MX 10 a.test',
      'mx.zone.test MX 10 b.test',
      `taken.zone.test TXT "${'y'.repeat(255)}" "${'y'.repeat(145)}"`,
    ]
    const after = [...before, ...added].sort()
    expect(await daemon.dump()).toEqual(after)
    for (const stale of [
      change({ name: 'taken.zone.test', before: [], after: ['mine'] }),
      change({ ...taken, after: ['mine'] }),
      change({ name: 'alias.zone.test', after: ['mine'] }),
      change({ name: 'mx.zone.test', type: 'CNAME', after: ['mine.test'] }),
      change({ name: 'gone.zone.test', before: ['was'], after: ['mine'] }),
    ])
      expect(await problemOf(api.write('zone.test', stale))).toStartWith('changed: ')
    const beside = change({ name: 'mx.zone.test', type: 'CNAME', after: ['mine.test'] })
    expect(await problemOf(api.write('zone.test', beside))).toContain('CNAME record of mx.zone.test has other records')
    expect(await daemon.dump()).toEqual(after)
  })

  test('says what is wrong with credentials, clock, zone and rights', async () => {
    await using daemon = await startDaemon(name, { zone: 'zone.test', records: RECORDS })
    const before = await daemon.dump()
    const read = (more: Record<string, string>, clock?: ManualClock) =>
      problemOf(connectTo(daemon, more, clock).findZone('zone.test'))
    expect(await read({ secret: Buffer.alloc(32).toString('base64') })).toMatch(/^unauthorised: .*BADSIG/)
    expect(await read({ key_name: 'unknown' })).toMatch(/^unauthorised: .*BADKEY/)
    expect(await read({ algorithm: 'hmac-sha512' })).toMatch(/^unauthorised: .*BADKEY/)
    expect(await read({}, new ManualClock(Date.now() - 3_600_000))).toMatch(/^unauthorised: .*BADTIME/)
    expect(await read({ zone: 'other.test' })).toStartWith('no_zone: ')
    expect(() => connectTo(daemon, { zone: 'zone..test' })).toThrow('zone must be the name of the zone.')
    expect(await problemOf(connectTo(daemon).findZone('other.test'))).toStartWith('no_zone: ')
    const weak = connectTo(daemon, { key_name: 'none' })
    expect(await problemOf(weak.write('zone.test', change({})))).toMatch(
      name === 'bind' ? /^unauthorised: .*REFUSED/ : /^unauthorised: .*BADKEY.*acl/,
    )
    expect(await problemOf(connectTo(daemon).write('other.test', change({ name: 'a.other.test' })))).toMatch(
      /^(no_zone|unauthorised): /,
    )
    expect(await problemOf(connectTo(daemon).write('zone.test', change({ name: 'a.other.test' })))).toStartWith(
      'no_zone: ',
    )
    expect(await problemOf(connectTo({ port: 9 }).findZone('zone.test'))).toStartWith('unavailable: ')
    expect(await daemon.dump()).toEqual(before)
  })

  test('changes a zone that is signed with DNSSEC', async () => {
    await using daemon = await startDaemon(name, { zone: 'zone.test', isSigned: true })
    const api = connectTo(daemon)
    await api.write('zone.test', change({}))
    expect((await api.read('zone.test', ['new.zone.test'])).map(({ values }) => values)).toEqual([['value']])
  })
})

test('a response that is signed with another key, or long ago, counts for nothing', async () => {
  const { credentials, server } = await startUpdateServer()
  const { port } = server.address() as { port: number }
  expect(await connectTo({ port }, credentials).findZone('a.zone.test')).toBe('a.zone.test')
  const other = { ...credentials, secret: Buffer.alloc(32).toString('base64') }
  expect(await problemOf(connectTo({ port }, other).findZone('a.zone.test'))).toContain(
    'is not signed with the key full',
  )
  const message = Buffer.alloc(12)
  const key = { name: 'full', algorithm: 'hmac-sha256', secret: Buffer.from(credentials.secret, 'base64') } as const
  const request = { mac: Buffer.alloc(32), seconds: 1_000_000 }
  const respond = (seconds: number) => signMessage(message, key, seconds, request.mac).bytes
  expect(verifyResponse(respond(1_000_300), key, request)).toMatchObject({ state: 'valid', message })
  expect(verifyResponse(respond(1_000_301), key, request).state).toBe('invalid')
  expect(verifyResponse(message, key, request).state).toBe('unsigned')
})
