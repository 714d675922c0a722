import { expect, test } from 'bun:test'
import { type Verdict, writeOutcome } from '#features/sending/delivery/verdict/outcome.ts'
import { parseUuid } from '#platform/ids.ts'
import { systemClock } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'
import { at, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, expectError, NOW, shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { claimDueTo } from '#test/support/lanes.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

const FAILED_AT = new Date(NOW).toISOString()
const FAILED: Verdict = { kind: 'failed', reason: 'The message could not be composed' }
const DEFERRED: Verdict = {
  kind: 'deferred',
  category: 'connection_failure',
  reason: 'Nobody answers',
  reply: undefined,
}

interface Letter {
  readonly id: string
  readonly to_address: string
}

/** Delivers nothing on its own. */
const service = shareEmailApi(createEmailApi)

const send = async ({ api }: TestApi, to: string | string[], more: object = {}): Promise<string> => {
  const email = { from: 'Ada <ada@sender.test>', to, subject: 'Hello', text_body: 'Hello, Bob.', ...more }
  return String(at((await api('POST', '/v1/emails', email)).body, 'data', 'id'))
}

/**
 * Claims the due recipients of a lane, as the scheduler does, and ends them with this verdict. Returns how many there
 * were.
 */
const endAttempts = ({ app }: TestApi, lane: string, verdict: Verdict): Promise<number> =>
  app.commit.write((tx) => {
    const now = app.clock.now()
    const claimed = claimDueTo(tx, lane, { now, eventTime: now, limit: 100, retryAt: () => now + hours(1) })
    for (const hand of claimed) writeOutcome(app, tx, { ...hand, startedAt: undefined }, verdict, undefined)
    return claimed.length
  })

const listLetters = async ({ api }: TestApi): Promise<readonly Letter[]> =>
  at((await api('GET', '/v1/dead-letters')).body, 'data') as Letter[]

const recipientOf = ({ app }: TestApi, emailId: string) =>
  app.db
    .query<{ status: number; lane: string | null; nextAt: number | null }, [Uint8Array]>(
      'SELECT recipients.status, lane, next_at AS nextAt FROM recipients JOIN emails ON emails.id = email_id WHERE uuid = ?',
    )
    .get(parseUuid(emailId) ?? new Uint8Array())

// Proves: list-12, status-6, dead-1, dead-5
test('a dead letter describes the email, the recipient and the failure, without the bodies', async () => {
  const { api, actor } = service
  const emailId = await send(service, 'bob@x.test')
  await endAttempts(service, 'x.test', FAILED)
  const listed = await api('GET', '/v1/dead-letters')
  expect(listed.status).toBe(200)
  const id = at(listed.body, 'data', 0, 'id')
  expect(id).toMatch(/^\d+$/)
  expect(listed.body).toEqual({
    data: [
      {
        id,
        stream_id: id,
        original_stream: 'transactional',
        email_id: emailId,
        account_id: actor.accountUuid,
        from_address: 'Ada <ada@sender.test>',
        to_address: 'bob@x.test',
        subject: 'Hello',
        failure_reason: 'failed',
        original_status: 'failed',
        attempt_count: 1,
        attempts: 1,
        last_error: FAILED.reason,
        error_message: FAILED.reason,
        failed_at: FAILED_AT,
        created_at: FAILED_AT,
        payload: {
          message_id: `<${emailId}@sender.test>`,
          from: 'Ada <ada@sender.test>',
          to: 'bob@x.test',
          subject: 'Hello',
          stream: 'transactional',
          sandbox: false,
          scheduled_at: null,
          created_at: FAILED_AT,
        },
      },
    ],
    total: 1,
  })
})

test('a dead letter without a known stream or error has empty texts, which typed clients can read', async () => {
  await send(service, 'bob@x.test')
  await endAttempts(service, 'x.test', FAILED)
  service.app.db.run('UPDATE emails SET stream_id = 0')
  service.app.db.run('UPDATE dead_letters SET last_error = NULL')
  expect(await listLetters(service)).toMatchObject([
    { original_stream: '', last_error: '', error_message: null, payload: { stream: null } },
  ])
})

// Proves: dead-2
test('count defaults to 50 and is at most 200; the newest come first and total counts all', async () => {
  const { api } = service
  await send(
    service,
    Array.from({ length: 50 }, (_, i) => `r${i}@x.test`),
  )
  await send(service, 'last@x.test')
  await endAttempts(service, 'x.test', FAILED)
  const lengthAndTotal = async (query: string) => {
    const { body } = await api('GET', `/v1/dead-letters${query}`)
    return [(at(body, 'data') as unknown[]).length, at(body, 'total')]
  }
  expect(await lengthAndTotal('')).toEqual([50, 51])
  expect(await lengthAndTotal('?count=0')).toEqual([0, 51])
  expect(await lengthAndTotal('?count=200')).toEqual([51, 51])
  expect((await listLetters(service))[0]?.to_address).toBe('last@x.test')
  expectError(await api('GET', '/v1/dead-letters?count=201'), 422, 'validation_failed', 'count')
})

// Proves: list-20, dead-4
test('a retry puts the email back into its lane, deletes the letter, wakes delivery and adds an audit row', async () => {
  const { api, app } = service
  const emailId = await send(service, 'bob@x.test')
  await endAttempts(service, 'x.test', FAILED)
  const woken: { lane: string; at: number }[] = []
  app.mailDue.listen((due) => woken.push(due))
  const [letter] = await listLetters(service)
  const retried = await api('POST', `/v1/dead-letters/${letter?.id}/retry`)
  expect({ status: retried.status, body: retried.body }).toEqual({ status: 200, body: { message: expect.any(String) } })
  expect(await listLetters(service)).toEqual([])
  expect(recipientOf(service, emailId)).toEqual({ status: 0, lane: '1:x.test', nextAt: app.clock.now() })
  expect(woken).toEqual([{ lane: '1:x.test', at: app.clock.now() }])
  const email = await api('GET', `/v1/emails/${emailId}`)
  expect(at(email.body, 'data', 'status')).toBe('queued')
  expect((at(email.body, 'data', 'events') as { type: string }[]).map(({ type }) => type)).toEqual([
    'queued',
    'failed',
    'queued',
  ])
  expect(at((await api('GET', '/v1/audit-logs')).body, 'data', 0)).toMatchObject({
    action: 'dead_letter.retried',
    resource_type: 'dead_letter',
    resource_id: letter?.id,
    metadata: { email_id: emailId, recipient: 'bob@x.test', reason: 'failed' },
  })
  expect((await api('POST', `/v1/dead-letters/${letter?.id}/retry`)).status).toBe(404)
})

// Proves: status-27
test('a retried email that had expired has the full time until expiry again, and then becomes a dead letter again', async () => {
  const { api, clock } = service
  const emailId = await send(service, 'bob@x.test')
  const statusAfter = async (verdict: Verdict): Promise<unknown> => {
    expect(await endAttempts(service, 'x.test', verdict)).toBe(1)
    return at((await api('GET', `/v1/emails/${emailId}`)).body, 'data', 'status')
  }
  /** Defers the email until it expires; returns the number of attempts. */
  const expire = async (): Promise<number> => {
    let status = await statusAfter(DEFERRED)
    let attempts = 1
    for (; status === 'queued'; attempts++) {
      clock.advance(hours(9))
      status = await statusAfter(DEFERRED)
    }
    expect(status).toBe('bounced')
    return attempts
  }
  const attempts = await expire()
  expect(attempts).toBeGreaterThan(10)
  const [letter] = await listLetters(service)
  expect(letter).toMatchObject({ failure_reason: 'expired', original_status: 'bounced', attempts })
  clock.advance(hours(24))
  expect((await api('POST', `/v1/dead-letters/${letter?.id}/retry`)).status).toBe(200)
  expect(await expire()).toBe(attempts)
  expect(await listLetters(service)).toMatchObject([{ failure_reason: 'expired', attempts }])
})

// Proves: status-9, dead-6
test('an uncertain email is sent again only by a retry, and is then delivered', async () => {
  let messages = 0
  await using receiver = await startScriptedSmtp({
    body: () => (++messages === 1 ? { drop: 'reset' } : '250 2.0.0 Queued'),
  })
  await using dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
  })
  await using service = await createEmailApi({
    clock: systemClock,
    delivers: true,
    settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(receiver.port) },
  })
  const { api } = service
  const emailId = await send(service, 'bob@receiver.test')
  const [letter] = await eventually(async () => {
    const found = await listLetters(service)
    return found.length > 0 && found
  })
  expect(letter).toMatchObject({ email_id: emailId, failure_reason: 'uncertain', original_status: 'uncertain' })
  expect(receiver.sessions.flatMap(({ messages }) => messages)).toHaveLength(1)
  await api('POST', `/v1/dead-letters/${letter?.id}/retry`)
  await eventually(async () => at((await api('GET', `/v1/emails/${emailId}`)).body, 'data', 'status') === 'sent')
  const [first, second] = receiver.sessions.flatMap(({ messages }) => messages)
  expect(second?.toString('latin1')).toBe(String(first?.toString('latin1')))
  expect(await listLetters(service)).toEqual([])
})

test.each([
  ['sandbox email stays in the sandbox', { from: `ada@${UNVERIFIED}` }, '', 'sandbox', '1:sandbox'],
  [
    'broadcast email waits behind all other mail again',
    {},
    'UPDATE emails SET broadcast_id = 1',
    'x.test',
    'bulk:1:x.test',
  ],
])('a retried %s', async (_, more, change, claimed, lane) => {
  const emailId = await send(service, 'bob@x.test', more)
  if (change !== '') service.app.db.run(change)
  expect(await endAttempts(service, claimed, FAILED)).toBe(1)
  const [letter] = await listLetters(service)
  expect((await service.api('POST', `/v1/dead-letters/${letter?.id}/retry`)).status).toBe(200)
  expect(recipientOf(service, emailId)?.lane).toBe(lane)
})

test('two concurrent retries put the email back once', async () => {
  await send(service, 'bob@x.test')
  await endAttempts(service, 'x.test', FAILED)
  const [letter] = await listLetters(service)
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => service.api('POST', `/v1/dead-letters/${letter?.id}/retry`)),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(7).fill(404)])
  expect(await endAttempts(service, 'x.test', FAILED)).toBe(1)
})

// Proves: auth-17
test('a retry is rejected while the account is paused, and for a recipient with another final status', async () => {
  const { api, app } = service
  const emailId = await send(service, 'bob@x.test')
  await endAttempts(service, 'x.test', FAILED)
  const path = `/v1/dead-letters/${(await listLetters(service))[0]?.id}/retry`
  app.db.run('UPDATE accounts SET paused_at = 1')
  expectError(await api('POST', path), 403, 'account_paused')
  app.db.run('UPDATE accounts SET paused_at = NULL')
  app.db.run('UPDATE recipients SET status = 4')
  expectError(await api('POST', path), 409, 'dead_letter_superseded')
  expect(recipientOf(service, emailId)).toEqual({ status: 4, lane: null, nextAt: null })
  expect(await listLetters(service)).toHaveLength(1)
})

// Proves: dead-3
test('deleting a letter does not change its email', async () => {
  const { api } = service
  const emailId = await send(service, 'bob@x.test')
  await endAttempts(service, 'x.test', FAILED)
  const [letter] = await listLetters(service)
  const path = `/v1/dead-letters/${letter?.id}`
  const deleted = await api('DELETE', path)
  expect({ status: deleted.status, body: deleted.body }).toEqual({ status: 204, body: undefined })
  expect((await api('DELETE', path)).status).toBe(404)
  expect(at((await api('GET', `/v1/emails/${emailId}`)).body, 'data', 'status')).toBe('failed')
  expect(at((await api('GET', '/v1/audit-logs')).body, 'data', 0)).toMatchObject({
    action: 'dead_letter.deleted',
    resource_id: letter?.id,
  })
})
