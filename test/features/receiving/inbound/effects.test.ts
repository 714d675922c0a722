import { expect, test } from 'bun:test'
import type { App } from '#features/core/app/app.ts'
import { createMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { listReports } from '#features/receiving/domain-reports/store.ts'
import { listInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import { createRecipientDecider } from '#features/receiving/inbound/process/decide.ts'
import { applyEffects, type PreparedMessage } from '#features/receiving/inbound/process/effects.ts'
import { storeInbound } from '#features/receiving/inbound/process/store.ts'
import { listOperatorMail } from '#features/receiving/postmaster/store.ts'
import type { Destination, ParsedReport, ReceivedMail } from '#features/receiving/received/message.ts'
import { LOST_RECIPIENT } from '#features/sending/queue/email.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createLog } from '#platform/log/log.ts'
import { reportOf } from '#test/features/receiving/bounces/fixture.ts'
import { createComplaints } from '#test/features/receiving/complaints/fixture.ts'
import { createUnsubscribable } from '#test/features/sending/unsubscribe/fixture.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'
import { createTestReceived } from '#test/support/inbound.ts'

const apply = (
  app: App,
  destinations: readonly Destination[],
  received: ReceivedMail,
  more: Pick<Partial<PreparedMessage>, 'report' | 'reportProblem'> = {},
) =>
  app.commit.write((tx) =>
    applyEffects(app, tx, destinations, {
      received,
      report: undefined,
      reportProblem: undefined,
      classification: undefined,
      ...more,
    }),
  )

const RETURN_PATH = { kind: 'bounce', address: 'b-1@send.a.test', recipientId: 4711 } as const

test('operator mail is stored once for each kind, whatever the number of addresses', async () => {
  await using service = await createTestApp()
  const { app } = service
  const addresses = [
    'postmaster@mail.tassis.test',
    'abuse@mail.tassis.test',
    'postmaster@send.a.test',
    '"Postmaster"@send.b.test',
    'fbl@mail.tassis.test',
    'dmarc-reports@mail.tassis.test',
    'tls-reports@mail.tassis.test',
    'abuse@send.a.test',
  ]
  await apply(
    app,
    addresses.map((address) => ({ kind: 'host', address })),
    await createTestReceived(app),
  )
  const { mail } = listOperatorMail(app.db, { limit: 100 })
  expect(mail.map(({ kind, rcptTo }) => [kind, rcptTo]).toReversed()).toEqual([
    ['postmaster', ['postmaster@mail.tassis.test', 'postmaster@send.a.test', '"Postmaster"@send.b.test']],
    ['abuse', ['abuse@mail.tassis.test', 'abuse@send.a.test']],
    ['complaint', ['fbl@mail.tassis.test']],
    ['report', ['dmarc-reports@mail.tassis.test', 'tls-reports@mail.tassis.test']],
  ])
})

test('the operator sees why a bounce or complaint did not match, at any of our addresses', async () => {
  await using service = await createTestApp()
  const { app } = service
  const received = await createTestReceived(app)
  const bounce: ParsedReport = { kind: 'delivery', report: reportOf({}) }
  const complaint: ParsedReport = {
    kind: 'feedback',
    report: {
      feedbackType: 'abuse',
      userAgent: null,
      reportingMta: null,
      originalMessageId: null,
      originalRcptTo: [],
      originalListUnsubscribe: null,
      ownLocalParts: [],
    },
  }
  for (const report of [bounce, complaint])
    for (const destination of [RETURN_PATH, { kind: 'host', address: 'abuse@mail.tassis.test' }] as const)
      await apply(app, [destination], { ...received, report })
  const { mail } = listOperatorMail(app.db, { limit: 100 })
  expect(mail.map(({ kind, reason }) => [kind, reason]).toReversed()).toEqual([
    ['bounce', 'The recipient that the return path names no longer exists.'],
    ['bounce', 'The report names no email of this service.'],
    ['complaint', 'The recipient that the address names no longer exists.'],
    ['complaint', 'The report names no email of this service.'],
  ])
})

// Proves: notify-39, notify-41
test('a complaint is about the recipient whose return path received it, or whom a proven feedback loop names', async () => {
  await using complaints = await createComplaints()
  const { app, actor } = complaints.service
  const received = await createTestReceived(app)
  const { details } = received.authentication
  const spf = { ...details.spf, result: 'pass', identity: 'mailfrom' } as const
  const proven: ReceivedMail = {
    ...received,
    envelope: { ...received.envelope, mailFrom: 'feedback@arf.mail.yahoo.com' },
    authentication: { ...received.authentication, details: { ...details, spf } },
  }
  const feedback = { kind: 'host', address: 'fbl@mail.tassis.test' } as const
  const tenant = { kind: 'domain', address: 'ada@sender.test', accountId: actor.accountId, domainId: 1 } as const
  for (const [name, shape, mail, to] of [
    ['ann', 'gmail-like', received, undefined],
    ['ben', 'signal-spam', received, feedback],
    ['eve', 'signal-spam', proven, feedback],
    ['max', 'signal-spam', proven, tenant],
  ] as const) {
    const email = await complaints.delivered({ to: ['bob@receiver.test', `${name}@receiver.test`] })
    const report: ParsedReport = { kind: 'feedback', report: await complaints.report(shape, email, 1) }
    await apply(app, [to ?? { ...RETURN_PATH, recipientId: email.recipients[1]?.id ?? 0 }], { ...mail, report })
  }
  const stored = app.db.query(
    'SELECT address, feedback_loop FROM complaints LEFT JOIN recipients r ON r.id = recipient_id ORDER BY complaints.id',
  )
  expect(stored.values()).toEqual([
    ['ann@receiver.test', null],
    [null, null],
    ['eve@receiver.test', 'Yahoo'],
    ['max@receiver.test', 'Yahoo'],
  ])
})

// Proves: suppress-14
test('mail to the address of List-Unsubscribe unsubscribes by its subject or by the address; an automatic reply does not', async () => {
  await using service = await createUnsubscribable()
  const { app } = service
  const { envelope, message, ...rest } = await createTestReceived(app)
  const ask = (recipientId: number, subject: string, mailFrom = envelope.mailFrom) =>
    apply(app, [{ kind: 'unsubscribe', address: 'u-1@send.sender.test', recipientId }], {
      ...rest,
      envelope: { ...envelope, mailFrom },
      message: { ...message, subject },
    })
  const path = await service.link({ to: 'ann@receiver.test' })
  for (const name of ['ben', 'eve']) await service.link({ to: `${name}@receiver.test` })
  await ask(LOST_RECIPIENT, path.replace('/u/', ''))
  await ask(2, '')
  await ask(3, '', '')
  expect(service.suppressions().map(({ address }) => address)).toEqual(['ann@receiver.test', 'ben@receiver.test'])
})

test('of mail without a report, the operator gets what is no automatic reply, and what cannot be read', async () => {
  await using service = await createTestApp()
  const { app } = service
  const received = await createTestReceived(app)
  const automatic = { ...received, message: { ...received.message, isAutomatic: true } }
  await apply(app, [RETURN_PATH], automatic)
  await apply(app, [RETURN_PATH], received)
  await apply(app, [RETURN_PATH], { ...automatic, problem: 'Too deep.' })
  const reports = { kind: 'host', address: 'tls-reports@mail.tassis.test' } as const
  await apply(app, [reports], received, { reportProblem: 'The report is packed twice.' })
  expect(listOperatorMail(app.db, { limit: 10 }).mail.map(({ reason }) => reason)).toEqual([
    'The report cannot be read: The report is packed twice.',
    'The message came to a return path. Too deep.',
    'The message came to a return path. It is not a readable report.',
  ])
})

test('a message to two mailboxes and another address is stored in each and once for the domain, and its report for the account', async () => {
  await using service = await createTestApp()
  const { app } = service
  const actor = await createTestAccount(app)
  const { domain } = await createDomain(app, actor, 'inbound.test')
  app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1')
  for (const local_part of ['left', 'right']) await createMailbox(app, actor, { local_part })
  const to = ['left', 'other', 'right', 'Left'].map((name) => `${name}@inbound.test`)
  const destinations = to.map((address) => ({
    kind: 'domain' as const,
    address,
    accountId: actor.accountId,
    domainId: domain.id,
  }))
  const times = { beginMs: null, endMs: null }
  const content = Buffer.from('<feedback/>')
  const report = { ...times, kind: 'dmarc', domain: 'inbound.test', organisation: 'x', reportId: '1', content } as const
  const { mailboxes, storedIds } = await apply(app, destinations, await createTestReceived(app), {
    report: { ...report, contentRef: 1 },
  })
  expect([mailboxes.map(({ mailbox }) => mailbox.localPart), storedIds.length]).toEqual([['left', 'right'], 3])
  const { emails } = listInbound(app.db, actor.accountId, {}, { limit: 10, offset: 0 })
  expect(emails.map(({ rcptTo }) => rcptTo)).toEqual([['other@inbound.test']])
  expect(listReports(app.db, undefined, { limit: 10, offset: 0 }).reports).toMatchObject([
    { domain: 'inbound.test', reportId: '1' },
  ])
})

test('mail accepted for one account stays with it if its domain has a new owner when it is processed', async () => {
  await using service = await createTestApp()
  const { app } = service
  const [before, after] = [await createTestAccount(app), await createTestAccount(app)]
  const register = async (actor: typeof before) => {
    const { domain } = await createDomain(app, actor, 'moved.test')
    app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1 WHERE id = ?', [domain.id])
    return domain.id
  }
  const domainId = await register(before)
  const destination = createRecipientDecider(app)('box@moved.test')
  expect(destination).toMatchObject({ kind: 'domain', accountId: before.accountId })
  app.db.run('UPDATE domains SET deleted_at = 2 WHERE id = ?', [domainId])
  await register(after)
  await createMailbox(app, after, { local_part: 'box' })

  const { mailboxes } = await apply(app, [destination as Destination], await createTestReceived(app))
  expect(mailboxes).toEqual([])
  expect(app.db.query('SELECT count(*) AS n FROM mailbox_messages').get()).toEqual({ n: 0 })
  const totals = [before, after].map(
    ({ accountId }) => listInbound(app.db, accountId, {}, { limit: 10, offset: 0 }).total,
  )
  expect(totals).toEqual([1, 0])
})

test('a message of a deleted domain is dropped with a warning that describes it, without addresses', async () => {
  await using service = await createTestApp()
  const actor = await createTestAccount(service.app)
  const lines: string[] = []
  const app = { ...service.app, log: createLog('info', { write: (line) => void lines.push(line) }) }
  const received = await createTestReceived(app)
  const rcptTo = ['support@inbound.test', 'sales@inbound.test']
  const to = { accountId: actor.accountId, domainId: 1_000_000, routeId: undefined, rcptTo }
  expect(await app.commit.write((tx) => storeInbound(app, tx, to, received))).toBeUndefined()
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    {
      level: 'warn',
      time: expect.any(String) as string,
      account: actor.accountUuid,
      domainId: 1_000_000,
      sourceIp: '192.0.2.7',
      msg: 'received message dropped: its domain was deleted',
    },
  ])
  expect(listInbound(app.db, actor.accountId, {}, { limit: 1, offset: 0 }).total).toBe(0)
})
