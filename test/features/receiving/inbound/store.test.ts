import { expect, test } from 'bun:test'
import { listInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import { MAX_UNROUTED_BYTES, storeInbound } from '#features/receiving/inbound/process/store.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createLog } from '#platform/log/log.ts'
import { minutes } from '#platform/units.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'
import { createTestReceived } from '#test/support/inbound.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

test('dropped unrouted messages are logged once in ten minutes', async () => {
  const clock = new ManualClock()
  await using service = await createTestApp({ clock })
  const actor = await createTestAccount(service.app)
  const { domain } = await createDomain(service.app, actor, 'inbound.test')
  const lines: string[] = []
  const app = { ...service.app, log: createLog('info', { write: (line) => void lines.push(line) }) }
  const received = await createTestReceived(app)
  const tooLarge = { ...received, envelope: { ...received.envelope, sizeBytes: MAX_UNROUTED_BYTES + 1 } }
  const to = { accountId: actor.accountId, domainId: domain.id, routeId: undefined, rcptTo: ['x@inbound.test'] }
  const store = () => app.commit.write((tx) => storeInbound(app, tx, to, tooLarge))
  expect([await store(), await store(), lines.length]).toEqual([undefined, undefined, 1])
  expect(lines[0]).toContain('unrouted messages dropped, oldest first')
  clock.advance(minutes(10))
  expect([await store(), lines.length]).toEqual([undefined, 2])
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
      recipients: 2,
      recipientDomains: ['inbound.test'],
      sourceIp: '192.0.2.7',
      rawRef: received.envelope.rawRef,
      sizeBytes: received.envelope.sizeBytes,
      receivedAt: new Date(received.envelope.receivedAt).toISOString(),
      msg: 'received message dropped: its domain was deleted',
    },
  ])
  expect(listInbound(app.db, actor.accountId, {}, { limit: 1, offset: 0 }).total).toBe(0)
})
