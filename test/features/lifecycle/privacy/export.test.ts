import { expect, test } from 'bun:test'
import { connect } from 'node:net'
import { createStream } from '#features/setup/streams/streams.ts'
import { newUuid } from '#platform/ids.ts'
import { hours, MiB, minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, expectError, NOW } from '#test/support/email-api.ts'
import { storeTestInbound } from '#test/support/inbound.ts'

type Json = Record<string, unknown>

const PATH = '/v1/account/export'
const SECRET = 'quizzaciously'

/** Waits until an export is recorded. */
const noted = (service: EmailApi) =>
  eventually(
    () =>
      service.app.db
        .query<{ at: number | null }, [number]>('SELECT exported_at AS at FROM accounts WHERE id = ?')
        .get(service.actor.accountId)?.at ?? undefined,
  )

// Proves: list-17, account-10
test('an export has every kind of record, no bodies of mail and no secrets', async () => {
  await using service = await createEmailApi()
  const { api, app, actor } = service
  const ok = async (path: string, body: unknown) => {
    const answer = await api('POST', path, body)
    expect(answer.status).toBeOneOf([200, 201, 202])
    return at(answer.body, 'data') as Json
  }
  const { id: emailId } = await service.accepted({ text_body: SECRET, cc: ['cara@receiver.test'] })
  const list = await ok('/v1/contact-lists', { name: 'People' })
  await ok(`/v1/contact-lists/${list['id']}/contacts`, { email: 'ben@receiver.test' })
  await ok('/v1/templates', { alias: 'hello', name: 'Hello', subject: 'Hello', text_body: 'Hello' })
  const hook = await ok('/v1/webhooks', { url: 'https://127.0.0.1/hook', events: ['sent'] })
  await ok('/v1/suppressions', { email_address: 'gone@receiver.test' })
  await createStream(app, actor, { slug: 'news', name: 'News' })
  app.db.run('UPDATE domains SET inbound_enabled = 1')
  await storeTestInbound(app, { accountId: actor.accountId, domainId: 1 }, { text: SECRET })
  const answer = await api('GET', PATH)
  const { account, ...parts } = at(answer.body, 'data') as Record<string, Json[]>
  expect(at(answer.body, 'exported_at')).toBe(new Date(NOW).toISOString())
  expect(account as unknown).toEqual(at((await api('GET', '/v1/account')).body, 'data'))
  expect(Object.fromEntries(Object.entries(parts).map(([name, records]) => [name, records.length]))).toEqual({
    domains: 2,
    templates: 1,
    template_versions: 1,
    webhooks: 1,
    suppressions: 1,
    contact_lists: 1,
    contacts: 1,
    signup_forms: 0,
    sequences: 0,
    sequence_people: 0,
    streams: 2,
    wording: 0,
    newsletters: 0,
    emails: 1,
    dead_letters: 0,
    inbound: 1,
    inbound_routes: 0,
    mailboxes: 0,
    mailbox_messages: 0,
    operations: 0,
    insights: 0,
    api_keys: 1,
    members: 0,
    invitations: 0,
    sub_accounts: 0,
    audit_logs: expect.any(Number),
    events: 1,
  })
  expect(parts['emails']?.[0]).toMatchObject({
    id: emailId,
    recipients: [{ address: 'bob@receiver.test' }, { address: 'cara@receiver.test' }],
  })
  const text = JSON.stringify(answer.body)
  for (const secret of [SECRET, service.key, String(hook['secret'])]) expect(text).not.toContain(secret)
})

// Proves: account-10
test('an export contains no records of other accounts', async () => {
  await using service = await createEmailApi()
  await service.accepted()
  const other = await service.newAccount()
  const key = await service.newKey([], other)
  const { body } = await service.api('GET', PATH, undefined, { key })
  const parts = at(body, 'data') as Record<string, unknown[]>
  expect(Object.entries(parts).flatMap(([name, records]) => (records.length ? [name] : []))).toEqual([
    'streams',
    'api_keys',
    'audit_logs',
  ])
})

// Proves: account-11
test('a second export right after the first is a 429, even before the first is recorded', async () => {
  await using service = await createEmailApi()
  const { commit } = service.app
  const write = commit.write.bind(commit)
  const held = Promise.withResolvers<void>()
  commit.write = async (run, options) => {
    await held.promise
    return write(run, options)
  }
  const [first, second] = [await service.api('GET', PATH), await service.api('GET', PATH)]
  held.resolve()
  expect(first.status).toBe(200)
  expectError(second, 429, 'export_limit')
  await noted(service)
  expectError(await service.api('GET', PATH), 429, 'export_limit')
})

// Proves: account-11
test('a second export within an hour of a completed one is a 429 with Retry-After', async () => {
  await using service = await createEmailApi()
  expect((await service.api('GET', PATH)).status).toBe(200)
  await noted(service)
  service.clock.advance(minutes(45))
  const refused = await service.api('GET', PATH)
  expectError(refused, 429, 'export_limit')
  expect(refused.headers.get('retry-after')).toBe(String(15 * 60))
  service.clock.advance(minutes(15))
  expect((await service.api('GET', PATH)).status).toBe(200)
})

/** Fills the account with emails, so that its export exceeds the socket buffers of the kernel. */
function addEmails({ app, actor }: EmailApi, count: number): void {
  const email = app.db.query(
    `INSERT INTO emails (uuid, account_id, domain_id, stream_id, status, sandbox, transactional, from_address, subject, recipient_count, size_bytes,
     created_at, updated_at) VALUES (?, ?, 1, 1, 3, 0, 1, 'ada@sender.test', ?, 1, 1, ?, ?) RETURNING id`,
  )
  const recipient = app.db.query(
    "INSERT INTO recipients (email_id, kind, address, status) VALUES (?, 0, 'x@y.test', 3)",
  )
  app.db.transaction(() => {
    for (let i = 0; i < count; i++) {
      const { id } = email.get(newUuid(), actor.accountId, 'subject '.repeat(100), NOW - hours(i), NOW) as {
        id: number
      }
      recipient.run(id)
    }
  })()
}

/** A client that requests an export and reads nothing. */
async function askWithoutReading(service: EmailApi, key = service.key) {
  const socket = connect({ port: Number(new URL(service.url).port), host: '127.0.0.1' })
  socket.on('error', () => undefined)
  socket.write(`GET ${PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`)
  await new Promise<void>((resolve) => socket.once('readable', resolve))
  return socket
}

// Proves: account-10, account-11
test('a second export is a 429 while one is read with little memory, and an aborted one does not use up the hour', async () => {
  await using service = await createEmailApi()
  addEmails(service, 8000)
  const socket = await askWithoutReading(service)
  const refused = await service.api('GET', PATH)
  expectError(refused, 429, 'export_running')
  expect(service.app.memory.inUseBytes).toBeGreaterThan(0)
  // The client reads nothing: the text generated stays far below the whole of over 10 MiB.
  expect(service.app.memory.inUseBytes).toBeLessThan(1 * MiB)
  socket.destroy()
  const answer = await eventually(async () => {
    const again = await service.api('GET', PATH)
    return again.status === 200 && again
  })
  const emails = at(answer.body, 'data', 'emails') as Json[]
  const times = emails.map(({ created_at: at }) => String(at))
  expect([times, new Set(emails.map(({ id }) => id)).size]).toEqual([times.toSorted(), 8000])
  await noted(service)
  expect(service.app.memory.inUseBytes).toBe(0)
}, 60_000)

test('an export is cut off when its key is deleted, and does not use up the hour', async () => {
  await using service = await createEmailApi()
  addEmails(service, 8000)
  const { body } = await service.api('POST', '/v1/api-keys', { name: 'soon gone' })
  const socket = await askWithoutReading(service, String(at(body, 'data', 'key')))
  const closed = new Promise((resolve) => socket.once('close', resolve))
  await service.api('DELETE', `/v1/api-keys/${at(body, 'data', 'id')}`)
  let end = ''
  socket.on('data', (bytes) => {
    end = (end + bytes.toString('latin1')).slice(-7)
  })
  await closed
  expect(end).not.toEndWith('\r\n0\r\n\r\n')
  expect(service.app.memory.inUseBytes).toBe(0)
  expect((await service.api('GET', PATH)).status).toBe(200)
})
