import { expect, test } from 'bun:test'
import { createDomain } from '#features/setup/domains/domains.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { createTestDisk } from '#test/support/disk.ts'

const createEmail = (key: string) => ({
  from: 'ada@sender.test',
  to: 'bob@x.test',
  subject: 'Hi',
  text_body: 'Hi',
  idempotency_key: key,
})

const BATCH = { emails: [createEmail('of the batch')] }
const withKey = (key: string) => ({ headers: { 'Idempotency-Key': key } })

/** A service whose disk can be filled. */
async function createOnDisk(): Promise<{ service: TestApi; fill: () => void }> {
  let isLow = false
  const service = await createTestApi({
    disk: createTestDisk(
      () => isLow,
      () => !isLow,
    ),
  })
  await createDomain(service.app, service.actor, 'sender.test')
  return {
    service,
    fill: () => {
      isLow = true
    },
  }
}

test('on a low disk, sends and batches return 507 and store nothing; replays still work', async () => {
  const { service: opened, fill } = await createOnDisk()
  await using service = opened
  const { api, app } = service
  const first = await api('POST', '/v1/emails', createEmail('first'))
  expect(first.status).toBe(202)
  const batch = await api('POST', '/v1/emails/batch', BATCH, withKey('batch'))
  expect(batch.status).toBe(202)
  const listId = at((await api('POST', '/v1/contact-lists', { name: 'Readers' })).body, 'data', 'id')
  const news = { contact_list_id: listId, from_address: 'ada@sender.test', subject: 'News', text_body: 'Hello.' }
  const broadcast = await api('POST', '/v1/emails/broadcast', news, withKey('broadcast'))
  expect(broadcast.status).toBe(202)
  fill()
  for (const [path, body] of [
    ['/v1/emails', createEmail('second')],
    ['/v1/emails/batch', { emails: [createEmail('second'), createEmail('first')] }],
  ] as const) {
    const refused = await api('POST', path, body)
    expect({ path, status: refused.status, code: at(refused.body, 'code') }).toEqual({
      path,
      status: 507,
      code: 'insufficient_storage',
    })
  }
  expect((await api('POST', '/v1/emails', createEmail('first'))).body).toEqual({
    data: { ...(at(first.body, 'data') as object), replayed: true },
  })
  expect(await api('POST', '/v1/emails/batch', BATCH, withKey('batch'))).toMatchObject({
    status: 202,
    body: batch.body,
  })
  expect(await api('POST', '/v1/emails/broadcast', news, withKey('broadcast'))).toMatchObject({
    status: 202,
    body: broadcast.body,
  })
  expect(app.db.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM emails').get()).toEqual({ n: 2 })
})

test('an invalid send on a low disk still returns its validation error', async () => {
  const { service: opened, fill } = await createOnDisk()
  await using service = opened
  fill()
  const refused = await service.api('POST', '/v1/emails', { ...createEmail('x'), from: 'ada@elsewhere.test' })
  expect({ status: refused.status, code: at(refused.body, 'code') }).toEqual({ status: 422, code: 'domain_not_found' })
})
