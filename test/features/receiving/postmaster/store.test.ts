import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import {
  deleteOperatorMail,
  findOperatorMail,
  listOperatorMail,
  MAX_OPERATOR_MAIL,
  MAX_OPERATOR_MAIL_BYTES,
  type NewOperatorMail,
  OPERATOR_MAIL_KINDS,
  purgeOperatorMail,
  readBeginning,
  storeOperatorMail,
} from '#features/receiving/postmaster/store.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, MiB } from '#platform/units.ts'
import { createTestApp, type TestApp } from '#test/support/app.ts'
import { NOW } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

let service: TestApp
let clock: ManualClock
beforeEach(async () => {
  clock = new ManualClock(NOW)
  service = await createTestApp({ clock, settings: { TASSIS_INBOUND_RAW_DAYS: '30' } })
})
afterEach(() => service[Symbol.asyncDispose]())

const mail = (change: Partial<NewOperatorMail> = {}): NewOperatorMail => ({
  kind: 'abuse',
  envelope: {
    mailFrom: 'bob@receiver.test',
    sourceIp: '198.51.100.7',
    helo: 'mx.receiver.test',
    tls: null,
    receivedAt: clock.now(),
    rawRef: 77,
    sizeBytes: 1234,
  },
  rcptTo: ['abuse@mail.tassis.test'],
  from: 'Bob <bob@receiver.test>',
  subject: 'Spam from your network',
  reason: 'The message is addressed to the operator.',
  ...change,
})

/** A different source host for each index. */
const from = (index: number) => sentBy(`10.0.${index >> 8}.${index & 255}`)
const sentBy = (sourceIp: string) => ({ envelope: { ...mail().envelope, sourceIp } })

const store = (...messages: readonly NewOperatorMail[]) =>
  service.app.commit.write((tx) => {
    for (const message of messages) storeOperatorMail(service.app, tx, message)
  })

const subjects = (kind?: NewOperatorMail['kind'], limit = 100) => {
  const { mail: found, total } = listOperatorMail(service.app.db, { kind, limit })
  return { subjects: found.map(({ subject }) => subject), total }
}

// Proves: inbound-34
test('a message is stored with its session facts and the reason', async () => {
  await store(mail())
  const { mail: found, total } = listOperatorMail(service.app.db, { limit: 10 })
  expect({ found, total }).toEqual({
    found: [
      {
        id: expect.any(Number),
        uuid: expect.any(Uint8Array),
        kind: 'abuse',
        mailFrom: 'bob@receiver.test',
        rcptTo: ['abuse@mail.tassis.test'],
        from: 'Bob <bob@receiver.test>',
        subject: 'Spam from your network',
        reason: 'The message is addressed to the operator.',
        sourceIp: '198.51.100.7',
        rawRef: 77,
        sizeBytes: 1234,
        createdAt: NOW,
      },
    ],
    total: 1,
  })
  const [only] = found
  expect(only && findOperatorMail(service.app.db, formatUuid(only.uuid))).toEqual(only)
})

test('the list is newest first, filtered by kind if requested, with its total', async () => {
  await store(...OPERATOR_MAIL_KINDS.map((kind) => mail({ kind, subject: kind })), mail({ subject: 'second abuse' }))
  expect([subjects(undefined, 3), subjects('abuse'), subjects('abuse', 1), subjects('report')]).toEqual([
    { subjects: ['second abuse', 'other', 'report'], total: 8 },
    { subjects: ['second abuse', 'abuse'], total: 2 },
    { subjects: ['second abuse'], total: 2 },
    { subjects: ['report'], total: 1 },
  ])
})

test('header texts are truncated, never within a character', async () => {
  await store(mail({ subject: `${'a'.repeat(499)}😀`, from: 'f'.repeat(1_000_000), reason: 'r'.repeat(1000) }))
  const [found] = listOperatorMail(service.app.db, { limit: 1 }).mail
  expect([found?.subject, found?.from?.length, found?.reason.length]).toEqual([`${'a'.repeat(499)}\ufffd`, 500, 500])
})

test('a deleted message is no longer found; an unknown id is a 404', async () => {
  await store(mail({ subject: 'one' }), mail({ subject: 'two' }))
  const [, first] = listOperatorMail(service.app.db, { limit: 2 }).mail
  const id = first ? formatUuid(first.uuid) : ''
  await deleteOperatorMail(service.app, id)
  expect(subjects()).toEqual({ subjects: ['two'], total: 1 })
  expect(
    service.app.db
      .query('SELECT account_id, actor_type, actor_id, action, resource_id FROM audit_logs ORDER BY id DESC LIMIT 1')
      .all(),
  ).toEqual([
    { account_id: null, actor_type: 'operator', actor_id: 'cli', action: 'operator_mail.deleted', resource_id: id },
  ])
  for (const unknown of [id, '', 'abc', '0'.repeat(36)]) {
    await expect(deleteOperatorMail(service.app, unknown)).rejects.toMatchObject({ status: 404 })
    expect(() => findOperatorMail(service.app.db, unknown)).toThrow('Message not found')
  }
})

test('messages past the retention of raw messages are deleted', async () => {
  await store(mail({ subject: 'old' }))
  clock.advance(1)
  await store(mail({ subject: 'as old as can be' }))
  clock.advance(days(30))
  await store(mail({ subject: 'new' }))
  expect(await purgeOperatorMail(service.app)).toBe(1)
  expect(subjects()).toEqual({ subjects: ['new', 'as old as can be'], total: 2 })
  expect(await purgeOperatorMail(service.app)).toBe(0)
})

test('the newest 10,000 of each kind stay, whatever the number of other kinds', async () => {
  expect(MAX_OPERATOR_MAIL).toBe(10_000)
  await store(mail({ kind: 'abuse', subject: 'spam from your network' }))
  await store(...Array.from({ length: 11_203 }, (_, i) => mail({ kind: 'postmaster', subject: `${i}`, ...from(i) })))
  const [newest] = listOperatorMail(service.app.db, { kind: 'postmaster', limit: 1 }).mail
  await deleteOperatorMail(service.app, newest ? formatUuid(newest.uuid) : '')
  expect(await purgeOperatorMail(service.app)).toBe(1202)
  const { subjects: left, total } = subjects('postmaster', 20_000)
  expect([left.length, total, left[0], left.at(-1)]).toEqual([10_000, 10_000, '11201', '1202'])
  expect(subjects('abuse')).toEqual({ subjects: ['spam from your network'], total: 1 })
  expect(await purgeOperatorMail(service.app)).toBe(0)
})

test('the newest 512 MiB of each kind stay', async () => {
  expect(MAX_OPERATOR_MAIL_BYTES).toBe(512 * MiB)
  const sized = (index: number, sizeBytes: number, kind: NewOperatorMail['kind']) =>
    mail({ kind, subject: `${kind} ${index}`, envelope: { ...from(index).envelope, sizeBytes } })
  await store(...Array.from({ length: 20 }, (_, i) => sized(i, 30 * MiB, 'postmaster')), sized(20, 30 * MiB, 'abuse'))
  expect(await purgeOperatorMail(service.app)).toBe(3)
  expect(subjects('postmaster')).toMatchObject({ total: 17 })
  expect(subjects('postmaster').subjects.at(-1)).toBe('postmaster 3')
  expect(subjects('abuse').total).toBe(1)
  expect(await purgeOperatorMail(service.app)).toBe(0)
})

describe('mail of one source within a day', () => {
  test('is limited to 64 MiB; smaller messages that still fit are stored', async () => {
    const sized = (subject: string, sizeBytes: number) => mail({ subject, envelope: { ...mail().envelope, sizeBytes } })
    await store(sized('one', 40 * MiB), sized('two', 30 * MiB), sized('three', 20 * MiB))
    expect(subjects()).toEqual({ subjects: ['three', 'one'], total: 2 })
    clock.advance(days(1))
    await store(sized('four', 40 * MiB))
    expect(subjects().total).toBe(3)
  })

  const SOURCES = ['198.51.100.7', '::ffff:198.51.100.7'] as const
  const many = (count: number, sources: readonly string[], change: Partial<NewOperatorMail> = {}) =>
    Array.from({ length: count }, (_, i) => mail({ ...sentBy(sources[i % sources.length] ?? ''), ...change }))

  test('is limited to 200 messages of all kinds, without affecting other sources', async () => {
    await store(...many(150, SOURCES), ...many(60, SOURCES, { kind: 'postmaster', subject: 'late' }))
    await store(mail({ ...sentBy('198.51.100.8'), subject: 'another source' }))
    expect([subjects('abuse', 1000).total, subjects('postmaster', 1000).total]).toEqual([151, 50])
    clock.advance(days(1) - 1)
    await store(mail({ subject: 'a little early' }))
    clock.advance(1)
    await store(mail({ subject: 'a day later' }))
    expect(subjects(undefined, 2).subjects).toEqual(['a day later', 'another source'])
  })

  test('counts an IPv6 source as its /48', async () => {
    await store(...many(200, ['2001:db8:1:2::1', '2001:db8:1:3::2']))
    await store(mail(sentBy('2001:db8:1:4:3:4:5:6')), mail({ ...sentBy('2001:db8:2:3::1'), subject: 'next door' }))
    expect([subjects().total, subjects(undefined, 1).subjects]).toEqual([201, ['next door']])
  })
})

test('the beginning of a message is read although what follows it is damaged', () => {
  const chunks = function* () {
    yield new Uint8Array(8).fill(1)
    yield new Uint8Array(8).fill(2)
    throw new Error('this frame is damaged')
  }
  const app = { rawMail: { chunks } } as unknown as Parameters<typeof readBeginning>[0]
  expect(readBeginning(app, 1, 16)).toHaveLength(16)
  expect(readBeginning(app, 1, 10)).toHaveLength(10)
})
