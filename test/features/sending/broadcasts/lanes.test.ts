/** @module A silent site, or a lane without delivery, holds up only its own recipients of a broadcast. */
import { expect, test } from 'bun:test'
import { createServer, type Socket } from 'node:net'
import { systemClock } from '#platform/time/clock.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import {
  addContacts,
  countByStatus,
  getOperation,
  newList,
  readBroadcastEmails,
  type TestContact,
} from '#test/support/broadcasts.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { createResolver } from '#test/support/resolver.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

/** Accepts connections and never replies; at another loopback address than the responding receiver. */
async function startSilentServer(port: number): Promise<AsyncDisposable & { readonly connections: number }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    socket.on('error', () => {})
    sockets.add(socket)
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.2', resolve))
  return {
    get connections() {
      return sockets.size
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

const createContacts = (domain: string, count: number): TestContact[] =>
  Array.from({ length: count }, (_, index) => ({ email: `contact-${index + 1}@${domain}` }))

let created = 0
async function startBroadcast(service: EmailApi, contacts: readonly TestContact[]): Promise<string> {
  const listId = await newList(service, `List ${++created}`)
  await addContacts(service.app, listId, contacts)
  const request = { contact_list_id: listId, from_address: 'ada@sender.test', subject: 'News', text_body: 'Hello' }
  const answer = await service.api('POST', '/v1/emails/broadcast', request)
  return String(at(answer.body, 'data', 'operation_id'))
}

const countSent = ({ app }: EmailApi, domain: string): number =>
  readBroadcastEmails(app).filter(({ address, status }) => status === 'sent' && address.endsWith(`@${domain}`)).length

test('100 contacts at a site without a greeting do not hold up 20 of another domain behind them', async () => {
  await using receiver = await startScriptedSmtp()
  await using silence = await startSilentServer(receiver.port)
  const dns = await startDnsServer({ 'silent.test': { A: ['127.0.0.2'] }, 'good.test': { A: ['127.0.0.1'] } })
  const resolver = createResolver(dns)
  try {
    await using service = await createEmailApi({
      clock: systemClock,
      resolver,
      delivers: true,
      runsTasks: true,
      broadcastAhead: 20,
      settings: { TASSIS_SMTP_PORT: String(receiver.port) },
    })
    const id = await startBroadcast(service, [
      ...createContacts('silent.test', 100),
      ...createContacts('good.test', 20),
    ])
    await eventually(() => countSent(service, 'good.test') === 20 && silence.connections > 0)
    const operation = await getOperation(service, id)
    const { sent, queued = 0, processing = 0 } = countByStatus(operation) as Record<string, number>
    expect([operation.metadata.state, sent, queued + processing]).toEqual(['sending', 20, 100])
    expect(countSent(service, 'silent.test')).toBe(0)
  } finally {
    await dns.close()
  }
})

test('when nothing is delivered, contacts of another lane are enqueued behind 100 of one, but no more than 8 times the limit', async () => {
  await using service = await createEmailApi({ runsTasks: true, broadcastAhead: 20 })
  const few = await startBroadcast(service, [...createContacts('slow.test', 100), ...createContacts('good.test', 20)])
  const waiting = () =>
    Object.fromEntries(
      service.app.db
        .query<{ lane: string; n: number }, []>(
          'SELECT lane, count(*) AS n FROM recipients WHERE lane IS NOT NULL GROUP BY lane',
        )
        .all()
        .map(({ lane, n }) => [lane.replace(/^.*:/, ''), n]),
    )
  await eventually(async () => (await getOperation(service, few)).metadata.handed_over === 120)
  expect(waiting()).toEqual({ 'good.test': 20, 'slow.test': 100 })
  await service.api('POST', `/v1/operations/${few}/cancel`)
  const many = await startBroadcast(service, [
    ...createContacts('slower.test', 400),
    ...createContacts('good.test', 20),
  ])
  await eventually(async () => (await getOperation(service, many)).metadata.handed_over >= 160)
  // It is checked again when another one starts.
  const key = await service.newKey([], await createOtherAccount(service))
  const listId = await newList(service, 'Theirs', key)
  await addContacts(service.app, listId, createContacts('theirs.test', 1))
  const request = { contact_list_id: listId, from_address: 'ada@theirs.test', subject: 'News', text_body: 'Hello' }
  expect((await service.api('POST', '/v1/emails/broadcast', request, { key })).status).toBe(202)
  await eventually(() => waiting()['theirs.test'] === 1)
  expect((await getOperation(service, many)).metadata.handed_over).toBe(160)
})

async function createOtherAccount(service: EmailApi) {
  const actor = await service.newAccount()
  await service.addDomain(actor, 'theirs.test')
  return actor
}
