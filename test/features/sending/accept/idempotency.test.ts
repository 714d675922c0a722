import { describe, expect, test } from 'bun:test'
import { hashBody } from '#features/sending/accept/idempotency.ts'
import { createLog } from '#platform/log/log.ts'
import { at } from '#test/support/api.ts'
import { createTestAccount } from '#test/support/app.ts'
import { createEmailApi, EMAIL, expectError, shareEmailApi } from '#test/support/email-api.ts'

const emails = shareEmailApi(createEmailApi)

const withKey = (key: string) => ({ headers: { 'idempotency-key': key } })
const mismatchOf = (answer: { headers: Headers }) => answer.headers.get('idempotency-mismatch')

// Proves: idem-2
test('a repeated send returns the original email and creates no new one', async () => {
  const first = await emails.send({ idempotency_key: 'k' })
  const stored = emails.stored()
  const second = await emails.send({ idempotency_key: 'k' })
  expect(second.status).toBe(202)
  expect(at(first.body, 'data')).not.toHaveProperty('replayed')
  expect(second.body).toEqual({ data: { ...(at(first.body, 'data') as object), replayed: true } })
  expect([mismatchOf(first), mismatchOf(second)]).toEqual([null, null])
  expect(emails.stored()).toEqual(stored)
})

// Proves: idem-1
test('a key in the body or in the header has the same effect, and the email shows it', async () => {
  const sent = await emails.accepted({}, withKey('k'))
  expect((await emails.detail(sent.id))['idempotency_key']).toBe('k')
  for (const again of [
    emails.send({ idempotency_key: 'k' }),
    emails.send({ idempotency_key: 'k' }, withKey('k')),
    emails.send({}, withKey('k')),
  ]) {
    const answer = await again
    expect([at(answer.body, 'data', 'id'), mismatchOf(answer)]).toEqual([sent.id, null])
  }
})

// Proves: idem-1
test('different keys in body and header are a 422, even if one of them was used before', async () => {
  await emails.accepted({ idempotency_key: 'a' })
  const before = emails.stored()
  const answer = await emails.send({ idempotency_key: 'a' }, withKey('b'))
  expectError(answer, 422, 'idempotency_key_mismatch', 'idempotency_key')
  expect(emails.stored()).toEqual(before)
})

test('a key has 1 to 256 characters', async () => {
  for (const key of ['', 'x'.repeat(257)]) {
    expectError(await emails.send({ idempotency_key: key }), 422, 'validation_failed', 'idempotency_key')
    if (key !== '') expectError(await emails.send({}, withKey(key)), 422, 'validation_failed', 'idempotency_key')
  }
  expect((await emails.send({ idempotency_key: 'x'.repeat(256) })).status).toBe(202)
})

describe('another body with the same key', () => {
  const others: readonly [what: string, change: Record<string, unknown>][] = [
    ['subject', { subject: 'Other' }],
    ['recipients', { to: ['x@r.test', 'y@r.test'] }],
    ['attachment', { attachments: [{ filename: 'a', content: btoa('x'.repeat(9_000)), content_type: 'text/plain' }] }],
    ['long body', { text_body: 'y'.repeat(9_000) }],
    ['metadata', { metadata: { a: 1 } }],
    ['invalid address', { to: 'nobody' }],
    ['unknown template', { template_alias: 'nope' }],
    ['unknown stream', { stream: 'nope' }],
    ['unknown domain', { from: 'a@unknown.test' }],
  ]
  // Proves: idem-3
  for (const [what, change] of others)
    test(`returns the original, marked as replayed and as a mismatch: ${what}`, async () => {
      const sent = await emails.accepted({ idempotency_key: 'k' })
      const stored = emails.stored()
      const answer = await emails.send({ idempotency_key: 'k', ...change })
      expect(answer.body).toEqual({ data: { ...sent, replayed: true, mismatch: true } })
      expect([answer.status, mismatchOf(answer)]).toEqual([202, 'true'])
      expect(emails.stored()).toEqual(stored)
    })

  test('equals the first if only the order of its fields differs, or null replaces a missing field', async () => {
    await emails.accepted({ idempotency_key: 'k', metadata: { a: 1, b: 2 } })
    const { from, to, subject, text_body: text } = EMAIL
    const answer = await emails.api('POST', '/v1/emails', {
      idempotency_key: 'k',
      html_body: null,
      metadata: { b: 2, a: 1 },
      text_body: text,
      subject,
      to,
      from,
    })
    expect([answer.status, mismatchOf(answer)]).toEqual([202, null])
    expect(at(answer.body, 'data')).not.toHaveProperty('mismatch')
  })

  // Proves: idem-3
  test('logs one warning with the id of the email; the same body logs none', async () => {
    const lines: Record<string, unknown>[] = []
    const log = createLog('warn', { write: (line) => void lines.push(JSON.parse(line)) })
    await using emails = await createEmailApi({ log })
    const { id } = await emails.accepted({ idempotency_key: 'k' })
    await emails.send({ idempotency_key: 'k' })
    expect(lines).toEqual([])
    await emails.send({ idempotency_key: 'k', subject: 'Other' })
    const msg = 'email not sent: its idempotency key belongs to an email with other content'
    expect(lines).toMatchObject([{ email_id: id, account: emails.actor.accountUuid, msg }])
  })

  // Proves: idem-3
  test('in a batch marks only its own item; of two items with one key, the second replays the first', async () => {
    const sent = await emails.accepted({ idempotency_key: 'k' })
    const items = [
      { ...EMAIL, idempotency_key: 'k', subject: 'Other' },
      { ...EMAIL, idempotency_key: 'k' },
      { ...EMAIL, idempotency_key: 'l' },
      { ...EMAIL, idempotency_key: 'l', subject: 'Other' },
    ]
    const { body } = await emails.api('POST', '/v1/emails/batch', { emails: items })
    const data = at(body, 'data') as Record<string, unknown>[]
    expect(data.map(({ replayed, mismatch }) => [replayed, mismatch])).toEqual([
      [true, true],
      [true, undefined],
      [undefined, undefined],
      [true, true],
    ])
    expect(data.map(({ id }) => id)).toEqual([sent.id, sent.id, data[2]?.['id'], data[2]?.['id']])
    expect(at(body, 'errors')).toEqual([])
  })
})

describe('with TASSIS_IDEMPOTENCY_MISMATCH=conflict', () => {
  const settings = { TASSIS_IDEMPOTENCY_MISMATCH: 'conflict' }

  // Proves: idem-4
  test('another body with the same key is a 409 idempotency_conflict; the same body still returns the first email', async () => {
    await using emails = await createEmailApi({ settings })
    const sent = await emails.accepted({ idempotency_key: 'k' })
    const before = emails.stored()
    expectError(await emails.send({ idempotency_key: 'k', subject: 'Other' }), 409, 'idempotency_conflict')
    const again = await emails.send({ idempotency_key: 'k' })
    expect([again.status, again.body]).toEqual([202, { data: { ...sent, replayed: true } }])
    expect(emails.stored()).toEqual(before)
  })

  // Proves: idem-4
  test('of concurrent requests with one key and different bodies, one creates the email and the others are a 409', async () => {
    await using emails = await createEmailApi({ settings })
    const answers = await Promise.all(
      ['One', 'Two', 'Three'].map((subject) => emails.send({ idempotency_key: 'k', subject })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409])
    expect(emails.stored()).toMatchObject({ emails: 1, idempotency_keys: 1 })
  })

  // Proves: idem-4
  test('a conflict in a batch is the error of its item, even if it is with an earlier item of the batch', async () => {
    await using emails = await createEmailApi({ settings })
    await emails.accepted({ idempotency_key: 'k' })
    const items = [
      { ...EMAIL, idempotency_key: 'k', subject: 'Other' },
      { ...EMAIL, idempotency_key: 'l' },
      { ...EMAIL, idempotency_key: 'l', subject: 'Other' },
      { ...EMAIL, idempotency_key: 'l' },
      // This item is rejected, so the next one may use its key.
      { ...EMAIL, idempotency_key: 'm', from: 'a@unknown.test' },
      { ...EMAIL, idempotency_key: 'm' },
    ]
    const { status, body } = await emails.api('POST', '/v1/emails/batch', { emails: items })
    expect(status).toBe(202)
    const errors = at(body, 'errors') as { index: number; error: string }[]
    expect(errors.map(({ index }) => index)).toEqual([0, 2, 4])
    expect(errors[0]?.error).toContain('other content')
    expect(errors[1]?.error).toBe(errors[0]?.error)
    const replayed = (at(body, 'data') as { replayed?: boolean }[]).map((item) => item.replayed === true)
    expect(replayed).toEqual([false, true, false])
  })
})

// Proves: idem-2
test('a replay returns a scheduled email even after its send_at, with its current status', async () => {
  const request = { idempotency_key: 'k', send_at: new Date(emails.clock.now() + 3_600_000).toISOString() }
  const sent = await emails.accepted(request)
  await emails.api('POST', `/v1/emails/${sent.id}/cancel`)
  emails.clock.advance(86_400_000)
  const answer = await emails.send(request)
  expect(answer.body).toEqual({ data: { ...sent, status: 'cancelled', replayed: true } })
  expect([answer.status, mismatchOf(answer)]).toEqual([202, null])
})

// Proves: idem-5
test('100 parallel requests with one key create one email, counted once', async () => {
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => emails.send({ idempotency_key: 'k', to: ['a@r.test', 'b@r.test'] })),
  )
  expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([202]))
  expect(new Set(answers.map((answer) => at(answer.body, 'data', 'id'))).size).toBe(1)
  expect(emails.stored()).toMatchObject({ emails: 1, recipients: 2, events: 1, idempotency_keys: 1, recipientsUsed: 2 })
})

// Proves: auth-17, idem-6
test('a replay works with an exhausted quota, an exceeded rate, or a paused account', async () => {
  await using emails = await createEmailApi({
    settings: { TASSIS_PLANS: 'free.monthly_quota=1', TASSIS_SEND_BURST: '1', TASSIS_SEND_RATE_PER_SECOND: '1' },
  })
  const actor = await createTestAccount(emails.app, 'free')
  await emails.addDomain(actor, 'free.test')
  const key = await emails.newKey([], actor)
  const request = { from: 'a@free.test', idempotency_key: 'k' }
  const sent = await emails.accepted(request, { key })
  expectError(await emails.send({ from: 'a@free.test' }, { key }), 429, 'rate_limited')
  emails.clock.advance(1_000)
  expectError(await emails.send({ from: 'a@free.test' }, { key }), 429, 'quota_exceeded')
  emails.app.db.run('UPDATE accounts SET paused_at = 1 WHERE id = ?', [actor.accountId])
  emails.clock.advance(1_000)
  expectError(await emails.send({ from: 'a@free.test' }, { key }), 403, 'account_paused')
  for (let i = 0; i < 5; i++)
    expect((await emails.send(request, { key })).body).toEqual({ data: { ...sent, replayed: true } })
  expect(emails.used(actor)).toBe(1)
})

// Proves: send-2, idem-7
test('a rejected request does not use up its key: once corrected, it is accepted', async () => {
  const before = emails.stored()
  expectError(await emails.send({ idempotency_key: 'k', to: 'nobody' }), 422, 'invalid_address', 'to')
  expectError(await emails.send({ idempotency_key: 'k', from: 'a@unknown.test' }), 422, 'domain_not_found', 'from')
  expect(emails.stored()).toEqual(before)
  const answer = await emails.send({ idempotency_key: 'k' })
  expect([answer.status, mismatchOf(answer)]).toEqual([202, null])
})

// Proves: idem-2
test('two accounts may use the same key', async () => {
  const other = await emails.newAccount()
  await emails.addDomain(other, 'other.test')
  const { id } = await emails.accepted({ idempotency_key: 'k' })
  const key = await emails.newKey([], other)
  expect((await emails.accepted({ idempotency_key: 'k', from: 'a@other.test' }, { key })).id).not.toBe(id)
})

test('the hash of a body stays the same from version to version, however its fields are ordered', () => {
  const body = { b: [1, null, 'x'.repeat(5000), { z: 1, a: [] }], '10': 1, '9': true, a: { none: null }, é: '\u2028"' }
  const reordered = Object.fromEntries(Object.entries(body).reverse())
  // Requests of the last days must stay recognised after an update.
  const known = 'bda576d83a3e4314bdd8c021bb494c05'
  expect([hashBody(body).toHex(), hashBody(reordered).toHex()]).toEqual([known, known])
})
