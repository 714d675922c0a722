/**
 * @module A broadcast is tested with its first contacts before it starts: messages to the sender, and leftovers of a
 * rejected one.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type ApiOptions, type ApiResponse, at } from '#test/support/api.ts'
import { addContacts, createContacts, newList, type TestContact } from '#test/support/broadcasts.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'

type Json = Record<string, unknown>

const NAMED = 'Hello {{ contact.name }}'
const MISSING = 'text_body, line 1: the variable "contact.name" is missing in the metadata of the contact'

let service: EmailApi
beforeAll(async () => {
  service = await createEmailApi()
  // Otherwise the first broadcast would leave its stream behind.
  await service.api('POST', '/v1/streams', { slug: 'broadcast', name: 'Broadcasts' })
})
afterAll(() => service[Symbol.asyncDispose]())

let created = 0
async function createList(contacts: readonly TestContact[]): Promise<string> {
  const id = await newList(service, `List ${++created}`)
  await addContacts(service.app, id, contacts)
  return id
}
const createNamedContacts = (from: number, count: number): TestContact[] =>
  createContacts(from + count - 1)
    .slice(from - 1)
    .map(({ email }) => ({ email, metadata: { name: 'Ada' } }))
const post = (listId: string, request: Json, options?: ApiOptions): Promise<ApiResponse> =>
  service.api(
    'POST',
    '/v1/emails/broadcast',
    { contact_list_id: listId, from_address: 'ada@sender.test', subject: 'News', ...request },
    options,
  )
/** Body sources of a rejected request stay in the content store, as for any rejected send. */
const countStored = () => ({ ...service.stored(), contentParts: 0 })

describe('a template that fails for all tested contacts', () => {
  test.each([
    ['the only contact', createContacts(1)],
    ['all 3 contacts', createContacts(3)],
    ['all 20 contacts', createContacts(20)],
    ['the first 20 contacts', [...createContacts(20), ...createNamedContacts(21, 5)]],
  ])('is a 422 that names %s and the variable, and stores nothing', async (tried, contacts) => {
    const id = await createList(contacts)
    const before = countStored()
    const refused = await post(id, { text_body: NAMED })
    expectError(refused, 422, 'template_error', 'text_body')
    expect(at(refused.body, 'message')).toStartWith(`The templates fail for ${tried}: ${MISSING}`)
    expect(at(refused.body, 'details', 0, 'message')).toStartWith(MISSING)
    expect(countStored()).toEqual(before)
  })

  test('is rejected with the template error when the variable does not belong to the contact', async () => {
    const refused = await post(await createList(createContacts(2)), { text_body: 'It is {{ season }}.' })
    expectError(refused, 422, 'template_error', 'text_body')
    expect(at(refused.body, 'message')).toContain('the variable "season" is missing in template_data')
  })

  test('stores no response for its Idempotency-Key: the same request is accepted once it works', async () => {
    const id = await createList(createContacts(2))
    const options = { headers: { 'Idempotency-Key': 'tried twice' } }
    expectError(await post(id, { text_body: NAMED }, options), 422, 'template_error', 'text_body')
    const path = `/v1/contact-lists/${id}/contacts/contact-1@receiver.test`
    expect((await service.api('PATCH', path, { metadata: { name: 'Ben' } })).status).toBe(200)
    expect((await post(id, { text_body: NAMED }, options)).status).toBe(202)
  })
})

// Proves: send-34
test('a subject that template_data breaks for everybody is a 422 that stores nothing', async () => {
  const id = await createList(createContacts(2))
  const before = countStored()
  const request = { subject: 'Dear {{ name }}', template_data: { name: 'Bob\0' }, text_body: 'x' }
  const refused = await post(id, request)
  expectError(refused, 422, 'template_error', 'subject')
  expect(at(refused.body, 'message')).toContain('control character')
  expect(countStored()).toEqual(before)
})

// Proves: broadcast-1
test('a template that works for some contacts is accepted, and the response reports how many fail', async () => {
  const [first, ...others] = createContacts(25)
  const id = await createList([...(first ? [first] : []), ...others.slice(0, 2), ...createNamedContacts(4, 22)])
  const answer = await post(id, { text_body: NAMED })
  expect([answer.status, at(answer.body, 'data', 'total_recipients')]).toEqual([202, 25])
  expect(at(answer.body, 'data', 'message')).toStartWith(
    `It is being sent to 25 contacts. The templates were tested with the first 20 contacts and fail for 3 of them: ${MISSING}`,
  )
})

test('a template that never finishes rendering is a 422 template_limit that stores nothing', async () => {
  const loops = ['a', 'b', 'c'].map((name) => `{% for ${name} in range(10000) %}`).join('')
  const endless = `${loops}{{ a }}${'{% endfor %}'.repeat(3)}`
  const id = await createList(createContacts(3))
  const before = countStored()
  expectError(await post(id, { text_body: endless }), 422, 'template_limit', 'text_body')
  expect(countStored()).toEqual(before)
})
