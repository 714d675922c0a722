import { afterEach, beforeEach, expect, test } from 'bun:test'
import {
  deleteOperatorMail,
  findOperatorMail,
  listOperatorMail,
  MOST_OPERATOR_MAIL,
  type NewOperatorMail,
  OPERATOR_MAIL_KINDS,
  storeOperatorMail,
  trimOperatorMail,
} from '#features/postmaster/store.ts'
import { ManualClock } from '#platform/clock.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { createTestApp, type TestApp } from '#test/support/app.ts'
import { NOW } from '#test/support/email-api.ts'

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
  reason: 'It is addressed to the operator.',
  ...change,
})

const store = (...messages: readonly NewOperatorMail[]) =>
  service.app.commit.write((tx) => {
    for (const message of messages) storeOperatorMail(service.app, tx, message)
  })

const subjects = (kind?: NewOperatorMail['kind'], limit = 100) => {
  const { mail: found, total } = listOperatorMail(service.app.db, { kind, limit })
  return { subjects: found.map(({ subject }) => subject), total }
}

test('a message is kept with what the session said and why it is here', async () => {
  await store(mail())
  const { mail: found, total } = listOperatorMail(service.app.db, { limit: 10 })
  expect({ found, total }).toEqual({
    found: [
      {
        uuid: expect.any(Uint8Array),
        kind: 'abuse',
        mailFrom: 'bob@receiver.test',
        rcptTo: ['abuse@mail.tassis.test'],
        from: 'Bob <bob@receiver.test>',
        subject: 'Spam from your network',
        reason: 'It is addressed to the operator.',
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

test('the list is newest first, of one kind or of all, and says how many there are', async () => {
  await store(...OPERATOR_MAIL_KINDS.map((kind) => mail({ kind, subject: kind })), mail({ subject: 'second abuse' }))
  expect([subjects(undefined, 3), subjects('abuse'), subjects('abuse', 1), subjects('report')]).toEqual([
    { subjects: ['second abuse', 'other', 'report'], total: 8 },
    { subjects: ['second abuse', 'abuse'], total: 2 },
    { subjects: ['second abuse'], total: 2 },
    { subjects: ['report'], total: 1 },
  ])
})

test('what a stranger wrote is cut, never within a character', async () => {
  await store(mail({ subject: `${'a'.repeat(499)}😀`, from: 'f'.repeat(1_000_000), reason: 'r'.repeat(1000) }))
  const [found] = listOperatorMail(service.app.db, { limit: 1 }).mail
  expect([found?.subject, found?.from?.length, found?.reason.length]).toEqual([`${'a'.repeat(499)}\ufffd`, 500, 500])
})

test('a deleted message is gone; an id that none has is a 404', async () => {
  await store(mail({ subject: 'one' }), mail({ subject: 'two' }))
  const [, first] = listOperatorMail(service.app.db, { limit: 2 }).mail
  const id = first ? formatUuid(first.uuid) : ''
  await deleteOperatorMail(service.app, id)
  expect(subjects()).toEqual({ subjects: ['two'], total: 1 })
  for (const unknown of [id, '', 'abc', '0'.repeat(36)]) {
    await expect(deleteOperatorMail(service.app, unknown)).rejects.toMatchObject({ status: 404 })
    expect(() => findOperatorMail(service.app.db, unknown)).toThrow('There is no message with this ID')
  }
})

test('what is older than the raw messages is forgotten', async () => {
  await store(mail({ subject: 'old' }))
  clock.advance(1)
  await store(mail({ subject: 'as old as can be' }))
  clock.advance(days(30))
  await store(mail({ subject: 'new' }))
  expect(await trimOperatorMail(service.app)).toBe(1)
  expect(subjects()).toEqual({ subjects: ['new', 'as old as can be'], total: 2 })
  expect(await trimOperatorMail(service.app)).toBe(0)
})

test('the newest 10,000 are kept', async () => {
  expect(MOST_OPERATOR_MAIL).toBe(10_000)
  await store(...Array.from({ length: 11_203 }, (_, i) => mail({ subject: `${i}` })))
  const [newest] = listOperatorMail(service.app.db, { limit: 1 }).mail
  await deleteOperatorMail(service.app, newest ? formatUuid(newest.uuid) : '')
  expect(await trimOperatorMail(service.app)).toBe(1202)
  const { subjects: left, total } = subjects(undefined, 20_000)
  expect([left.length, total, left[0], left.at(-1)]).toEqual([10_000, 10_000, '11201', '1202'])
  expect(await trimOperatorMail(service.app)).toBe(0)
})
