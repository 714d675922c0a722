/** @module `expires_in`: an open recipient ends at its deadline, whatever it waits for, and no attempt begins later. */
import { describe, expect, test } from 'bun:test'
import { pauseAccount } from '#features/reporting/abuse/pause.ts'
import { createMaxAttempts } from '#features/sending/delivery/verdict/outcome.ts'
import { minutes, seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, expectError, NOW } from '#test/support/email-api.ts'
import { type Sending, startSending, untilDetail } from './flows.ts'

type Json = Record<string, unknown>

/** Expects balance once the slots are free: an outcome is stored a moment earlier. */
async function expectSettled(sending: Sending): Promise<void> {
  await eventually(() => sending.delivery?.scheduler.inFlight === 0)
  expectBalanced(sending)
}

const iso = (ms: number) => new Date(ms).toISOString()
const typesOf = ({ events }: Json) => (events as { type: string }[]).map(({ type }) => type)
const EXPIRED = { status: 'bounced', bounce_type: 'soft', bounce_category: 'expired', next_retry_at: null }

// Proves: send-50
test('deferred mail is retried before its deadline, and ends at it instead of after the next wait', async () => {
  await using sending = await startSending({ rcpt: '450 4.2.0 Later' })
  const { id } = await sending.accepted({ expires_in: 600 })
  expect(await untilDetail(sending, id, { attempts: 1, status: 'queued' })).toMatchObject({
    expires_in: 600,
    expires_at: iso(NOW + seconds(600)),
    max_attempts: 3,
  })
  sending.clock.advance(minutes(1.1))
  await untilDetail(sending, id, { attempts: 2, status: 'queued' })
  sending.clock.advance(minutes(5.5))
  // The next wait is 15 minutes.
  expect(await untilDetail(sending, id, { attempts: 3, status: 'queued' })).toMatchObject({
    next_retry_at: iso(NOW + seconds(600)),
  })
  sending.clock.advance(NOW + seconds(600) - 1 - sending.clock.now())
  await sending.app.commit.barrier()
  expect(await sending.detail(id)).toMatchObject({ status: 'queued' })
  sending.clock.advance(1)
  const ended = await untilDetail(sending, id, { status: 'bounced' })
  expect(ended).toMatchObject({
    attempts: 3,
    error_message: 'Not delivered before its deadline; the last obstacle was: 450 4.2.0 Later',
    recipients: [{ ...EXPIRED, smtp_response: '450 4.2.0 Later' }],
  })
  expect(typesOf(ended)).toEqual(['queued', 'deferred', 'deferred', 'deferred', 'bounced'])
  expect(sending.server.sessions).toHaveLength(3)
  await expectSettled(sending)

  // A retried dead letter gets the same time again.
  const letters = await sending.api('GET', '/v1/dead-letters')
  expect(at(letters.body, 'data', 0)).toMatchObject({ failure_reason: 'expired' })
  await sending.api('POST', `/v1/dead-letters/${String(at(letters.body, 'data', 0, 'stream_id'))}/retry`)
  expect(await untilDetail(sending, id, { attempts: 1, status: 'queued' })).toMatchObject({
    expires_at: iso(NOW + seconds(1200)),
  })
  sending.clock.advance(seconds(600))
  await untilDetail(sending, id, { status: 'bounced' })
  await expectSettled(sending)
})

describe('mail ends at its deadline', () => {
  test('while its account may not send, and is not sent once it may', async () => {
    await using sending = await startSending({})
    const { app, actor } = sending
    const { id } = await sending.accepted({ expires_in: 60, send_at: iso(NOW + minutes(1)) })
    await app.commit.write((tx) => pauseAccount(app, tx, actor, { source: 'admin', reason: 'test' }))
    sending.clock.advance(minutes(1))
    await untilDetail(sending, id, { error_message: 'Held: The account is paused: test.' })
    sending.clock.advance(minutes(1))
    const ended = await untilDetail(sending, id, { status: 'bounced' })
    expect(ended).toMatchObject({ recipients: [EXPIRED] })
    expect(sending.server.sessions).toHaveLength(0)
    await expectSettled(sending)
  })

  test('while its site does not accept connections', async () => {
    await using sending = await startSending({}, { TASSIS_SMTP_PORT: '9' })
    const { id } = await sending.accepted({ expires_in: 60 })
    await untilDetail(sending, id, { attempts: 1, status: 'queued' })
    const later = await sending.accepted({ expires_in: 90 })
    sending.clock.advance(seconds(60))
    await untilDetail(sending, id, { status: 'bounced' })
    sending.clock.advance(seconds(30))
    expect(await untilDetail(sending, later.id, { status: 'bounced' })).toMatchObject({ recipients: [EXPIRED] })
    await expectSettled(sending)
  })

  test('while the server takes its time before the message begins', async () => {
    const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()]
    await using sending = await startSending({
      data: () => {
        asked.resolve()
        return answer.promise
      },
    })
    const { id } = await sending.accepted({ expires_in: 60 })
    await asked.promise
    sending.clock.advance(seconds(61))
    answer.resolve('354 Go ahead')
    const ended = await untilDetail(sending, id, { status: 'bounced' })
    expect(ended).toMatchObject({ recipients: [EXPIRED] })
    expect(sending.server.session.messages).toHaveLength(0)
    await expectSettled(sending)
  })
})

test('a message that began before the deadline is left to end', async () => {
  const [received, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()]
  await using sending = await startSending({
    body: () => {
      received.resolve()
      return answer.promise
    },
  })
  const { id } = await sending.accepted({ expires_in: 60 })
  await received.promise
  sending.clock.advance(seconds(61))
  await sending.app.commit.barrier()
  answer.resolve('250 2.0.0 Accepted')
  expect(typesOf(await untilDetail(sending, id, { status: 'sent' }))).toEqual(['queued', 'sent', 'delivered'])
  await expectSettled(sending)
})

test('the deadline counts from send_at and moves with it', async () => {
  await using sending = await startSending({})
  const { id } = await sending.accepted({ expires_in: 120, send_at: iso(NOW + minutes(60)) })
  expect(await sending.detail(id)).toMatchObject({ expires_at: iso(NOW + minutes(62)) })
  await sending.api('PATCH', `/v1/emails/${id}`, { send_at: iso(NOW + minutes(30)) })
  expect(await sending.detail(id)).toMatchObject({ expires_at: iso(NOW + minutes(32)) })
})

// Proves: stream-8
test('expires_in of a stream is the default of its mail, in batches too', async () => {
  await using sending = await startSending({ rcpt: '450 4.2.0 Later' })
  const created = await sending.api('POST', '/v1/streams', { slug: 'codes', name: 'Codes', expires_in: 300 })
  expect(at(created.body, 'data')).toMatchObject({ expires_in: 300 })
  const [own, inherited] = [
    await sending.accepted({ stream: 'codes', expires_in: 60 }),
    await sending.accepted({ stream: 'codes' }),
  ]
  expect(await sending.detail(own.id)).toMatchObject({ expires_in: 60, expires_at: iso(NOW + seconds(60)) })
  expect(await sending.detail(inherited.id)).toMatchObject({ expires_in: 300, expires_at: iso(NOW + seconds(300)) })
  expect(await sending.detail((await sending.accepted()).id)).toMatchObject({ expires_in: null, expires_at: null })
  const email = { from: 'ada@sender.test', to: 'bob@receiver.test', subject: 'x', text_body: 'x', stream: 'codes' }
  const batch = await sending.api('POST', '/v1/emails/batch', { emails: [email, { ...email, expires_in: 1 }] })
  expect(at(batch.body, 'errors')).toMatchObject([{ index: 1, error: expect.stringContaining('expires_in') }])
  expect(await sending.detail(at(batch.body, 'data', 0, 'id'))).toMatchObject({ expires_in: 300 })

  const path = `/v1/streams/${String(at(created.body, 'data', 'id'))}`
  expect(at((await sending.api('PUT', path, { name: 'Codes 2' })).body, 'data')).toMatchObject({ expires_in: 300 })
  expect(at((await sending.api('PUT', path, { expires_in: null })).body, 'data')).toMatchObject({ expires_in: null })
})

// Proves: send-50
test('expires_in is from a minute to five days, and part of a request for its idempotency key', async () => {
  await using emails = await createEmailApi()
  for (const wrong of [59, 432_001, 60.5, '600'])
    expectError(await emails.send({ expires_in: wrong }), 422, 'validation_failed', 'expires_in')
  for (const valid of [60, 432_000, null]) expect((await emails.send({ expires_in: valid })).status).toBe(202)
  const first = await emails.accepted({ expires_in: 600, idempotency_key: 'k' })
  expect(await emails.accepted({ expires_in: 600, idempotency_key: 'k' })).toMatchObject({ id: first.id })
  expect(await emails.accepted({ expires_in: 700, idempotency_key: 'k' })).toMatchObject({ mismatch: true })
})

test('max_attempts is the number of attempts before the deadline', () => {
  const maxAttempts = createMaxAttempts(48)
  expect([60, 61, 360, 600, 432_000, undefined].map(maxAttempts)).toEqual([1, 2, 2, 3, 22, 14])
})
