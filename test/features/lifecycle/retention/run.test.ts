import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { checkContent } from '#app/cli/check.ts'
import { readHorizon } from '#features/core/events/purge.ts'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { bounceLate } from '#features/sending/queue/attempt-transitions.ts'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import { days, hours, minutes } from '#platform/units.ts'
import {
  createYear,
  endAttempts,
  MONTH_MS,
  rowsOf,
  SHORT,
  sendAndEnd,
} from '#test/features/lifecycle/retention/year.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import type { EmailApi } from '#test/support/email-api.ts'
import { readTrackedRecipient } from '#test/support/tracked-recipient.ts'

/** Requires consistent rules and content. */
function expectSound(service: EmailApi): void {
  expectBalanced(service)
  using db = new Database(join(service.dataDir, 'tassis.db'), { readonly: true })
  const findings = checkContent(db, join(service.dataDir, 'content'))
  expect(findings.filter(({ differences }) => differences.length > 0)).toEqual([])
}

const listed = async (service: EmailApi): Promise<{ total: unknown; rows: number }> => {
  const { body } = await service.api('GET', '/v1/emails?per_page=1')
  return { total: at(body, 'pagination', 'total'), rows: rowsOf(service, 'emails') }
}

test('over a year each kind is removed at its age, open mail stays, and the consistency rules hold every month', async () => {
  await using service = await createYear()
  const { app, api, clock, accepted } = service
  const begin = clock.now()
  const inAYear = await accepted({
    to: 'year@receiver.test',
    subject: 'In a year',
    send_at: new Date(begin + days(365)).toISOString(),
  })
  const held = await accepted({ to: 'held@waiting.test', subject: 'Held' })
  const deferred = await accepted({ to: 'slow@deferred.test', subject: 'Slow' })
  clock.advance(minutes(1))
  await endAttempts(service, 'deferred.test', [
    { kind: 'deferred', category: 'connection_failure', reason: 'Nobody answers', reply: undefined },
  ])
  const months: string[][] = []
  for (let month = 0; month < 12; month++) {
    months.push(await sendAndEnd(service, 200, month))
    clock.advance(MONTH_MS)
    await runRetention(app)
    expectSound(service)
    const { total, rows } = await listed(service)
    expect(total).toBe(rows)
  }
  const now = clock.now()
  const oldest = app.db.query<{ at: number }, []>('SELECT min(at) AS at FROM events').get()?.at ?? 0
  expect({
    // The last six months, and three open emails.
    emails: rowsOf(service, 'emails'),
    withContent: rowsOf(service, 'emails WHERE html_ref IS NOT NULL'),
    orphans: rowsOf(service, 'recipients WHERE email_id NOT IN (SELECT id FROM emails)'),
    keys: rowsOf(service, 'idempotency_keys'),
    opens: rowsOf(service, 'opens WHERE recipient_id NOT IN (SELECT id FROM recipients)'),
    clicks: rowsOf(service, 'link_clicks WHERE email_id NOT IN (SELECT id FROM emails)'),
    letters: rowsOf(service, 'dead_letters WHERE email_id NOT IN (SELECT id FROM emails)'),
    isOldestKept: oldest >= now - days(120),
    horizons: [readHorizon(app.db, 'events') <= now, readHorizon(app.db, 'logs') <= now - days(179)],
  }).toEqual({
    emails: 1003,
    withContent: 200,
    orphans: 0,
    keys: 1000,
    opens: 0,
    clicks: 0,
    letters: 0,
    isOldestKept: true,
    horizons: [true, true],
  })
  for (const email of [inAYear, held, deferred]) {
    expect(await service.detail(email.id)).toMatchObject({ text_body: 'Hello, Bob.' })
  }
  expect(await service.detail(months[11]?.[0])).toMatchObject({ text_body: 'Hello, Bob.' })
  expect((await api('GET', `/v1/emails/${months[0]?.[0]}`)).status).toBe(404)
  // The one from a year ago is sent at its scheduled time.
  clock.advance(days(10))
  await endAttempts(service, 'receiver.test', [{ kind: 'sent', reply: '250 OK' }])
  await runRetention(app)
  expect(await service.detail(inAYear.id)).toMatchObject({ status: 'sent', text_body: 'Hello, Bob.' })
  expectSound(service)
  // Its age starts at its end.
  clock.advance(days(61))
  await runRetention(app)
  expect(await service.detail(inAYear.id)).toMatchObject({ status: 'sent', text_body: null })
  clock.advance(days(120))
  await runRetention(app)
  expect((await api('GET', `/v1/emails/${inAYear.id}`)).status).toBe(404)
  expectSound(service)
}, 120_000)

test('an email without content still shows its type and the names of its attachments', async () => {
  await using service = await createYear()
  const { app, clock, accepted } = service
  const email = await accepted({
    html_body: '<p>Hello</p>',
    attachments: [{ filename: 'bill.txt', content: btoa('12.00'), content_type: 'text/plain' }],
  })
  clock.advance(minutes(1))
  await endAttempts(service, 'receiver.test', [{ kind: 'sent', reply: '250 OK' }])
  clock.advance(days(60))
  await runRetention(app)
  expect(await service.detail(email.id)).toMatchObject({ html_body: '<p>Hello</p>', text_body: 'Hello, Bob.' })
  clock.advance(hours(1))
  expect(await runRetention(app)).toMatchObject({ content: 1, logs: 0 })
  expect(await service.detail(email.id)).toMatchObject({
    subject: 'Hello',
    html_body: null,
    text_body: null,
    attachments: [{ filename: 'bill.txt', content_type: 'text/plain', size: 5 }],
    recipients: [expect.objectContaining({ address: 'bob@receiver.test', status: 'sent' })],
  })
})

test('retrying a dead letter without content is a 409 with the reason', async () => {
  await using service = await createYear()
  const { app, api, clock, accepted } = service
  await accepted()
  clock.advance(minutes(1))
  await endAttempts(service, 'receiver.test', [{ kind: 'failed', reason: 'The message could not be composed' }])
  clock.advance(days(61))
  await runRetention(app)
  const letter = at((await api('GET', '/v1/dead-letters')).body, 'data', '0', 'id')
  const answer = await api('POST', `/v1/dead-letters/${String(letter)}/retry`)
  expect({ status: answer.status, error: at(answer.body, 'error') }).toEqual({
    status: 409,
    error: expect.objectContaining({
      code: 'content_not_kept',
      message: 'The content of this email is no longer stored, so it cannot be sent again; send a new email.',
    }),
  })
})

test('the feed begins later, and is a 410 for removed events', async () => {
  await using service = await createYear()
  const { app, api, clock, accepted } = service
  await accepted()
  await accepted()
  clock.advance(days(100))
  await accepted()
  clock.advance(days(21))
  expect(await runRetention(app)).toMatchObject({ events: 2 })
  const gone = await api('GET', '/v1/events?after=0')
  expect({ status: gone.status, code: at(gone.body, 'error', 'code') }).toEqual({
    status: 410,
    code: 'events_not_kept',
  })
  const { body } = await api('GET', '/v1/events?after=2')
  expect({ first: at(body, 'first_seq'), seqs: (at(body, 'data') as { seq: number }[]).map(({ seq }) => seq) }).toEqual(
    {
      first: 3,
      seqs: [3],
    },
  )
  clock.advance(days(200))
  await runRetention(app)
  const { body: empty } = await api('GET', '/v1/events?after=3')
  expect({ first: at(empty, 'first_seq'), data: at(empty, 'data') }).toEqual({ first: 4, data: [] })
  expectBalanced(service)
})

test('an event pending for an active webhook is kept a tenth longer; an inactive webhook keeps nothing', async () => {
  await using service = await createYear()
  const { app, clock, accepted, actor } = service
  const hook = (cursor: number, isActive: number) =>
    app.db.run(
      `INSERT INTO webhooks (uuid, account_id, url, events, is_active, secret, cursor_seq, created_at, updated_at)
       VALUES (randomblob(16), ?, 'https://hooks.test/', '["queued"]', ?, x'00', ?, 1, 1)`,
      [actor.accountId, isActive, cursor],
    )
  for (let sent = 0; sent < 4; sent++) await accepted({ to: `r${sent}@receiver.test` })
  hook(2, 1)
  hook(0, 0)
  clock.advance(days(121))
  expect(await runRetention(app)).toMatchObject({ events: 2 })
  clock.advance(days(13))
  expect(await runRetention(app)).toMatchObject({ events: 2 })
})

test('a retried dead letter is an open email again, whatever its age', async () => {
  await using service = await createYear()
  const { app, api, clock, accepted } = service
  const email = await accepted()
  clock.advance(minutes(1))
  await endAttempts(service, 'receiver.test', [{ kind: 'failed', reason: 'The message could not be composed' }])
  clock.advance(days(59))
  const letter = at((await api('GET', '/v1/dead-letters')).body, 'data', '0', 'id')
  expect((await api('POST', `/v1/dead-letters/${String(letter)}/retry`)).status).toBe(200)
  clock.advance(days(200))
  expect(await runRetention(app)).toMatchObject({ content: 0, logs: 0 })
  expect(await service.detail(email.id)).toMatchObject({ status: 'queued', text_body: 'Hello, Bob.' })
  expectSound(service)
})

test('operations are removed with their emails and not before', async () => {
  await using service = await createYear()
  const { app, api, clock } = service
  const batch = (to: string) =>
    api('POST', '/v1/emails/batch', {
      emails: [{ from: 'ada@sender.test', to, subject: 'Hello', text_body: 'Hello.' }],
    })
  await batch('a@receiver.test')
  await batch('b@receiver.test')
  clock.advance(minutes(1))
  await endAttempts(service, 'receiver.test', [{ kind: 'sent', reply: '250 OK' }])
  clock.advance(days(179))
  await runRetention(app)
  expect(rowsOf(service, 'operations')).toBe(2)
  clock.advance(days(2))
  await runRetention(app)
  // The newest one stays, so that its number is not reused.
  expect([rowsOf(service, 'emails'), rowsOf(service, 'operations')]).toEqual([0, 1])
  await batch('c@receiver.test')
  await runRetention(app)
  expect(rowsOf(service, 'operations')).toBe(1)
  expectSound(service)
})

// Proves: track-11
test('a click counts after the content of its email is removed, and changes nothing after the email is', async () => {
  await using service = await createYear({ ...SHORT, TASSIS_LOGS_DAYS: '30', TASSIS_CONTENT_DAYS: '10' })
  const { app, clock } = service
  await sendAndEnd(service, 10, 0)
  app.db.run('DELETE FROM link_clicks')
  const first = app.db.query<{ id: number }, []>('SELECT id FROM recipients LIMIT 1').get()
  const recipient = readTrackedRecipient(app.db, first?.id ?? 0)
  const url = 'https://shop.test/'
  const click = async () => {
    await app.commit.write((tx) =>
      recordEngagement(app, tx, { recipient, url, visitor: 'human', ipAddress: null, userAgent: null }),
    )
    return ['opens', 'link_clicks', 'click_marks'].map((table) => rowsOf(service, table))
  }
  clock.advance(days(11))
  expect(await runRetention(app)).toMatchObject({ content: 10 })
  expect(await click()).toEqual([4, 1, 4])
  clock.advance(days(20))
  expect(await runRetention(app)).toMatchObject({ logs: 10 })
  expect(await click()).toEqual([0, 0, 0])
  expectSound(service)
})

test('the age of an email starts at its late bounce', async () => {
  await using service = await createYear()
  const { app, clock, accepted } = service
  await accepted({ to: ['early@receiver.test', 'late@receiver.test'] })
  clock.advance(minutes(1))
  await endAttempts(service, 'receiver.test', [
    { kind: 'bounced', bounceType: 'hard', category: 'mailbox_full', reply: '552 full', isAddressDead: false },
    { kind: 'sent', reply: '250 OK' },
  ])
  clock.advance(days(100))
  const late = app.db
    .query<{ recipientId: number; emailId: number }, []>(
      'SELECT id AS recipientId, email_id AS emailId FROM recipients WHERE delivered_at IS NOT NULL',
    )
    .get()
  const at = { recipientId: late?.recipientId ?? 0, emailId: late?.emailId ?? 0, now: app.eventTime() }
  await app.commit.write((tx) =>
    bounceLate(tx, at, { bounceType: 'hard', bounceCategory: 'policy', data: { bounce_type: 'hard' } }),
  )
  clock.advance(days(81))
  expect(await runRetention(app)).toMatchObject({ content: 1, logs: 0 })
  expectSound(service)
  clock.advance(days(100))
  expect(await runRetention(app)).toMatchObject({ logs: 1 })
  expectSound(service)
})

test('hourly counters are removed after 400 days, totals for counting lists when they are zero', async () => {
  await using service = await createYear()
  const { app, clock, accepted } = service
  await sendAndEnd(service, 10, 0)
  await accepted({ to: 'held@waiting.test' })
  const old = "counters WHERE hour > 0 AND metric NOT LIKE 'email:queued'"
  clock.advance(days(390))
  await runRetention(app)
  expect(rowsOf(service, old)).toBeGreaterThan(10)
  clock.advance(days(20))
  await runRetention(app)
  expect([rowsOf(service, old), (await listed(service)).total]).toEqual([0, 1])
  expectSound(service)
})
