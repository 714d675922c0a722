import { expect, test } from 'bun:test'
import { hours, KiB, MiB } from '#platform/units.ts'
import { captureOf, createStore, incompressible, type StoreFixture } from './fixture.ts'

const storedRecipients = ({ store }: StoreFixture): number[] => store.list({ limit: 1000 }).map((c) => c.recipientId)

test('a message is found as saved, also after a restart', async () => {
  await using fixture = createStore()
  const raw = Buffer.from('Subject: Hello\r\nX-Long: a\r\n b\r\n\r\n.\r\n..two\r\nHello.\r\n')
  const receivedAt = fixture.clock.now()
  await fixture.store.save(captureOf(1, { raw }))
  fixture.clock.advance(hours(1))
  const expected = {
    mailFrom: 'b-1@bounces.sender.test',
    rcptTo: ['bob@x.test'],
    receivedAt,
    sizeBytes: raw.length,
    raw: raw.toString('latin1'),
  }
  expect(fixture.store.find(7)).toEqual(expected)
  expect(fixture.store.find(8)).toBeUndefined()
  expect((await fixture.reopen()).find(7)).toEqual(expected)
})

test('decoding a message loses no octet: UTF-8 is decoded as UTF-8, anything else as one character per octet', async () => {
  await using fixture = createStore()
  const utf8 = Buffer.from('\ufeffSubject: Grüße ✉\r\n\r\n\0\x7f\r\n')
  const latin1 = Buffer.from('Subject: Grüße\r\n\r\n\x80\xff\r\n', 'latin1')
  await fixture.store.save(captureOf(1, { emailId: 1, raw: utf8 }))
  await fixture.store.save(captureOf(2, { emailId: 2, raw: latin1 }))
  expect(Buffer.from(fixture.store.find(1)?.raw ?? '', 'utf8')).toEqual(utf8)
  expect(Buffer.from(fixture.store.find(2)?.raw ?? '', 'latin1')).toEqual(latin1)
})

test('a large message is found as saved', async () => {
  await using fixture = createStore({ maxBytes: 4 * MiB })
  const raw = incompressible(2 * MiB)
  await fixture.store.save(captureOf(1, { raw }))
  expect(Buffer.from(fixture.store.get(1)?.raw ?? []).equals(raw)).toBe(true)
})

test("a captured email lists its recipients in order and shows the first one's message, whichever was saved first", async () => {
  await using fixture = createStore()
  await fixture.store.save(captureOf(12, { rcptTo: 'cy@x.test', raw: Buffer.from('second') }))
  fixture.clock.advance(1000)
  const receivedAt = fixture.clock.now()
  await fixture.store.save(captureOf(11, { raw: Buffer.from('first') }))
  await fixture.store.save(captureOf(13, { emailId: 8, rcptTo: 'other@x.test' }))
  expect(fixture.store.find(7)).toEqual({
    mailFrom: 'b-11@bounces.sender.test',
    rcptTo: ['bob@x.test', 'cy@x.test'],
    receivedAt,
    sizeBytes: 5,
    raw: 'first',
  })
})

test('a message submitted again replaces the first, also in the counted bytes', async () => {
  await using fixture = createStore({ maxBytes: 100 * KiB })
  const save = async (recipientId: number, raw: Uint8Array) => {
    await fixture.store.save(captureOf(recipientId, { raw }))
    await fixture.store.purge()
  }
  await save(1, incompressible(40 * KiB))
  await save(1, incompressible(40 * KiB))
  await save(2, incompressible(40 * KiB))
  expect(storedRecipients(fixture)).toEqual([2, 1])
  await save(1, Buffer.from('again'))
  await save(3, incompressible(50 * KiB))
  expect(storedRecipients(fixture)).toEqual([3, 2, 1])
  expect(fixture.store.find(7)?.raw).toBe('again')
})

// Proves: email-22
test('over the byte limit the oldest messages are deleted, also after a restart', async () => {
  await using fixture = createStore({ maxBytes: 100 * KiB })
  for (const id of [1, 2, 3, 4]) {
    await fixture.store.save(captureOf(id, { emailId: id, raw: incompressible(30 * KiB) }))
    fixture.clock.advance(1)
  }
  await fixture.reopen()
  expect(storedRecipients(fixture)).toEqual([4, 3, 2])
  await fixture.store.save(captureOf(1, { raw: incompressible(30 * KiB) }))
  await fixture.store.purge()
  expect(storedRecipients(fixture)).toEqual([1, 4, 3])
})

// Proves: storage-11
test('over the limit only the owner with most bytes loses the oldest message, also after a restart', async () => {
  await using fixture = createStore({ maxBytes: 100 * KiB })
  const save = async (recipientId: number, ownerId: number) => {
    await fixture.store.save(captureOf(recipientId, { ownerId, raw: incompressible(20 * KiB) }))
    await fixture.store.purge()
    fixture.clock.advance(1)
  }
  await save(1, 1)
  for (let id = 10; id < 20; id++) await save(id, 2)
  expect(storedRecipients(fixture)).toEqual([19, 18, 17, 1])
  await fixture.reopen()
  for (const id of [2, 3, 4]) await save(id, 1)
  expect(storedRecipients(fixture)).toEqual([4, 3, 19, 18])
})

test('a message larger than the limit is accepted and not retained', async () => {
  await using fixture = createStore({ maxBytes: 10 * KiB })
  await fixture.store.save(captureOf(1, { raw: incompressible(20 * KiB) }))
  await fixture.store.purge()
  expect(storedRecipients(fixture)).toEqual([])
  await fixture.store.save(captureOf(2))
  await fixture.store.purge()
  expect(storedRecipients(fixture)).toEqual([2])
})

// Proves: email-22
test('the next purge deletes all messages over the age limit, however many there are', async () => {
  await using fixture = createStore({ maxAgeMs: hours(72) })
  await Promise.all(Array.from({ length: 500 }, (_, i) => fixture.store.save(captureOf(i + 1))))
  fixture.clock.advance(hours(1))
  await fixture.store.save(captureOf(1000))
  fixture.clock.advance(hours(71))
  await fixture.store.purge()
  expect(storedRecipients(fixture)).toHaveLength(501)
  fixture.clock.advance(1)
  await fixture.store.purge()
  expect(storedRecipients(fixture)).toEqual([1000])
})
