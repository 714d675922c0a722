import { describe, expect, test } from 'bun:test'
import { addSuppression, listSuppressions, removeSuppression } from '#features/audience/suppressions/suppressions.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
import { listDeadLetters, retryDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import { formatUuid } from '#platform/ids.ts'
import { hours, minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import type { Zone } from '#test/support/dns-server.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)
const zone: Zone = { 'receiver.test': { A: ['127.0.0.1'] }, 'other.test': { A: ['127.0.0.1'] } }
const NO_SUCH_USER = '550 5.1.1 No such user here'

const REJECTED = (suppression: string) => ({
  type: 'rejected',
  recipient: 'bob@receiver.test',
  data: { reason: 'suppressed', suppression },
})

const listSuppressed = ({ app, actor }: MailFlow) =>
  listSuppressions(app.db, actor.accountId, {}, { limit: 100, offset: 0 }).suppressions.map(
    ({ address, reason, sourceUuid }) => ({ address, reason, source: sourceUuid && formatUuid(sourceUuid) }),
  )

const suppressBob = ({ app, actor }: MailFlow, reason = 'complaint') =>
  addSuppression(app, actor, { address: 'Bob@Receiver.test', reason })

/** Recipients that count towards the quota. */
const countUsed = ({ app }: MailFlow): number =>
  app.db.query<{ n: number }, []>('SELECT coalesce(sum(recipients), 0) AS n FROM usage').get()?.n ?? 0

/** Expects consistent records once all quota is released, which happens after the outcome is visible. */
async function waitUntilBalanced(flow: MailFlow): Promise<void> {
  await eventually(() => flow.service.delivery?.scheduler.inFlight === 0)
  expectBalanced(flow.service)
}

/** Whether delivery of a message to Bob has begun. */
const hasBegun = ({ app }: MailFlow): boolean =>
  app.db
    .query("SELECT 1 FROM recipients WHERE address = 'bob@receiver.test' AND delivery_started_at IS NOT NULL")
    .get() !== null

const typesOf = (flow: MailFlow, sent: SendResponse) => flow.events(sent).map(({ type }) => type)

describe('a hard bounce', () => {
  // Proves: send-49, suppress-5, suppress-8
  test('of an unknown user suppresses the address; the next email to it is rejected without a session', async () => {
    await using server = await startScriptedSmtp({ rcpt: NO_SUCH_USER })
    await using flow = await startMailFlow({ zone, smtpPort: server.port })
    const first = await flow.send({ to: 'Bob@receiver.test' })
    expect((await flow.settled(first)).status).toBe('bounced')
    expect(listSuppressed(flow)).toEqual([{ address: 'bob@receiver.test', reason: 'hard_bounce', source: first.id }])
    expect(
      flow.app.db
        .query("SELECT actor_type, action, resource_id FROM audit_logs WHERE action LIKE 'suppression.%'")
        .all(),
    ).toEqual([{ actor_type: 'system', action: 'suppression.created', resource_id: 'bob@receiver.test' }])
    const commands = server.sessions.flatMap((session) => session.commands)
    const second = await flow.send({ to: 'bob@receiver.test' })
    expect(second.status).toBe('rejected')
    expect((await flow.settled(second)).recipients).toMatchObject([
      {
        status: 'rejected',
        attempts: 0,
        nextAt: null,
        smtpResponse: null,
        lastError: 'The address is on the suppression list (hard_bounce), so nothing is sent to it.',
      },
    ])
    expect(flow.events(second).slice(1)).toEqual([REJECTED('hard_bounce')])
    expect(server.sessions.flatMap((session) => session.commands)).toEqual(commands)
    // Only the first email counts: it was sent and bounced, while the suppressed one was not sent.
    expect(countUsed(flow)).toBe(1)
    await removeSuppression(flow.app, flow.actor, 'bob@receiver.test')
    expect((await flow.settled(await flow.send({ to: 'bob@receiver.test' }))).status).toBe('bounced')
    await waitUntilBalanced(flow)
  })

  // Proves: suppress-8
  test('by a null MX suppresses; by a domain that does not exist it does not', async () => {
    await using server = await startScriptedSmtp()
    await using flow = await startMailFlow({
      zone: { 'null.test': { MX: [{ preference: 0, exchange: '' }] } },
      smtpPort: server.port,
    })
    expect((await flow.outcome('bob@null.test')).recipient.status).toBe('bounced')
    expect((await flow.outcome('bob@gone.test')).recipient.status).toBe('bounced')
    expect(listSuppressed(flow).map(({ address }) => address)).toEqual(['bob@null.test'])
    expect((await flow.outcome('bob@null.test')).recipient.status).toBe('rejected')
    await waitUntilBalanced(flow)
  })
})

describe('an address that is suppressed after acceptance', () => {
  // Proves: suppress-9
  test('of a scheduled email is rejected when its time comes, without a session, and its quota is released', async () => {
    const clock = new ManualClock(START)
    await using server = await startScriptedSmtp()
    await using flow = await startMailFlow({ clock, zone, smtpPort: server.port })
    const sent = await flow.send({
      to: ['bob@receiver.test', 'carol@other.test'],
      send_at: new Date(START + hours(1)).toISOString(),
    })
    expect(countUsed(flow)).toBe(2)
    await suppressBob(flow)
    // Another month: quota used in March returns to March.
    clock.advance(hours(24 * 30))
    const email = await eventually(async () => {
      const now = await flow.settled(sent)
      return now.status === 'sent' && now
    })
    expect(email.recipients.map(({ status, attempts }) => [status, attempts])).toEqual([
      ['rejected', 0],
      ['sent', 1],
    ])
    expect(typesOf(flow, sent).toSorted()).toEqual(['delivered', 'queued', 'rejected', 'scheduled', 'sent'])
    expect(flow.events(sent).find(({ type }) => type === 'rejected')).toEqual(REJECTED('complaint'))
    expect(server.sessions.flatMap(({ commands }) => commands).filter((line) => line.includes('bob@'))).toEqual([])
    expect(flow.app.db.query('SELECT month % 12 + 1 AS month, recipients FROM usage').all()).toEqual([
      { month: 3, recipients: 1 },
    ])
    await waitUntilBalanced(flow)
  })

  // Proves: status-19
  test('as the only recipient turns the email from scheduled to rejected', async () => {
    const clock = new ManualClock(START)
    // Without a route it would bounce.
    await using flow = await startMailFlow({ clock, zone: {} })
    const sent = await flow.send({ to: 'bob@receiver.test', send_at: new Date(START + hours(1)).toISOString() })
    await suppressBob(flow)
    clock.advance(hours(1))
    await eventually(async () => (await flow.settled(sent)).status === 'rejected')
    expect(typesOf(flow, sent)).toEqual(['scheduled', 'rejected'])
    expect(countUsed(flow)).toBe(0)
    await waitUntilBalanced(flow)
  })

  // Proves: suppress-9
  test('is not attempted again after a deferral', async () => {
    const clock = new ManualClock(START)
    await using server = await startScriptedSmtp({ rcpt: '450 4.2.0 Greylisted' })
    await using flow = await startMailFlow({ clock, zone, smtpPort: server.port })
    const sent = await flow.send({ to: 'bob@receiver.test' })
    expect((await flow.settled(sent)).status).toBe('queued')
    await suppressBob(flow, 'manual')
    clock.advance(minutes(6))
    await eventually(async () => (await flow.settled(sent)).status === 'rejected')
    expect((await flow.settled(sent)).recipients).toMatchObject([{ attempts: 1, nextAt: null, smtpResponse: null }])
    expect(typesOf(flow, sent)).toEqual(['queued', 'deferred', 'rejected'])
    expect(countUsed(flow)).toBe(0)
    await waitUntilBalanced(flow)
  })

  // Proves: suppress-9
  test('is skipped by a retry from the dead letters', async () => {
    await using server = await startScriptedSmtp({ body: { drop: 'reset' } })
    await using flow = await startMailFlow({ zone, smtpPort: server.port })
    const sent = await flow.send({ to: 'bob@receiver.test' })
    expect((await flow.settled(sent)).status).toBe('uncertain')
    await suppressBob(flow)
    const [letter] = listDeadLetters(flow.app.db, flow.actor.accountId, 1).letters
    await retryDeadLetter(flow.app, flow.actor, String(letter?.id))
    await eventually(async () => (await flow.settled(sent)).status === 'rejected')
    expect((await flow.settled(sent)).recipients).toMatchObject([{ status: 'rejected', deliveryStartedAt: null }])
    expect(countUsed(flow)).toBe(0)
    await waitUntilBalanced(flow)
  })
})

describe('an email whose session has begun', () => {
  // Proves: suppress-9
  test('sends no octet when the address is suppressed before the message begins; nothing counts', async () => {
    const suppression = Promise.withResolvers<unknown>()
    await using server = await startScriptedSmtp({
      data: async () => {
        await suppression.promise
        return '354 End with a dot'
      },
    })
    await using flow = await startMailFlow({ zone, smtpPort: server.port })
    const sent = await flow.send({ to: 'bob@receiver.test' })
    await server.until(() => server.sessions.some(({ commands }) => commands.includes('DATA')))
    await suppressBob(flow).then(suppression.resolve)
    await eventually(async () => (await flow.settled(sent)).status === 'rejected')
    expect((await flow.settled(sent)).recipients).toMatchObject([
      { status: 'rejected', attempts: 0, deliveryStartedAt: null, smtpResponse: null },
    ])
    expect(flow.events(sent)).toEqual([expect.objectContaining({ type: 'queued' }), REJECTED('complaint')])
    expect(server.sessions.flatMap(({ messages }) => messages)).toEqual([])
    expect(countUsed(flow)).toBe(0)
    await waitUntilBalanced(flow)
  })

  // Proves: suppress-9
  test('arrives when the address is suppressed after the message began', async () => {
    const suppression = Promise.withResolvers<unknown>()
    await using server = await startScriptedSmtp({
      body: async () => {
        await suppression.promise
        return '250 2.0.0 Queued'
      },
    })
    await using flow = await startMailFlow({ zone, smtpPort: server.port })
    const sent = await flow.send({ to: 'bob@receiver.test' })
    await eventually(() => hasBegun(flow))
    await suppressBob(flow).then(suppression.resolve)
    expect((await flow.settled(sent)).status).toBe('sent')
    expect(countUsed(flow)).toBe(1)
    await waitUntilBalanced(flow)
  })
})

test('of many waiting emails those begun before the suppression are sent, the others rejected, and the records agree', async () => {
  const suppression = Promise.withResolvers<unknown>()
  await using server = await startScriptedSmtp({
    body: async (_, { commands }) => {
      if (commands.findLast((line) => /^RCPT/i.test(line))?.includes('bob@')) await suppression.promise
      return '250 2.0.0 Queued'
    },
  })
  await using flow = await startMailFlow({
    zone,
    smtpPort: server.port,
    settings: siteLimits({ connections: 2 }),
  })
  const send = (i: number) =>
    flow.send({ to: i % 2 === 0 ? 'bob@receiver.test' : ['bob@receiver.test', `r${i}@other.test`] })
  const before = await Promise.all(Array.from({ length: 30 }, (_, i) => send(i)))
  await eventually(() => hasBegun(flow))
  const [after] = await Promise.all([
    Promise.all(Array.from({ length: 30 }, (_, i) => send(i))),
    suppressBob(flow).then(suppression.resolve),
  ])
  const emails = await Promise.all([...before, ...after].map((sent) => flow.settled(sent)))
  const bobs = emails.map(({ recipients }) => recipients[0])
  const count = (wanted: string) => bobs.filter((bob) => bob?.status === wanted).length
  expect(count('sent') + count('rejected')).toBe(60)
  expect(count('sent')).toBeGreaterThan(0)
  // Some of the 30 accepted emails were still waiting.
  expect(count('sent')).toBeLessThan(30)
  for (const bob of bobs) expect(bob?.attempts).toBe(bob?.status === 'sent' ? 1 : 0)
  expect(countUsed(flow)).toBe(count('sent') + 30)
  expect(server.sessions.reduce((sum, { messages }) => sum + messages.length, 0)).toBe(count('sent') + 30)
  await waitUntilBalanced(flow)
})
