import { describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'
import { createList } from './files.ts'

async function createService(...emails: string[]): Promise<{ service: EmailApi; list: string } & AsyncDisposable> {
  const service = await createEmailApi()
  const list = await createList(service)
  await createList(service, { name: 'Others' })
  await service.api('POST', `/v1/contact-lists/${list}/contacts`, { contacts: emails.map((email) => ({ email })) })
  return { service, list, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() }
}

const search = async ({ api }: EmailApi, list: string, query: string) => {
  const { body } = await api('GET', `/v1/contact-lists/${list}/contacts?${query}`)
  return {
    emails: (at(body, 'data') as { email: string }[]).map(({ email }) => email),
    ...(at(body, 'pagination') as { total: number; next_cursor?: string }),
  }
}

describe('contacts whose address begins with a text', () => {
  // Proves: contact-22
  test('are found in any spelling, of every status, in the order of their addresses', async () => {
    await using created = await createService(
      'Bob@x.test',
      'anna@x.test',
      'bo@bücher.test',
      'bo_b@x.test',
      'carl@x.test',
    )
    const { service, list } = created
    await service.api('POST', '/v1/suppressions', { email_address: 'bo_b@x.test', reason: 'complaint' })
    expect(await search(service, list, 'starts_with=BO')).toMatchObject({
      emails: ['bo@xn--bcher-kva.test', 'bo_b@x.test', 'Bob@x.test'],
      total: 3,
    })
    expect((await search(service, list, 'starts_with=bo_')).emails).toEqual(['bo_b@x.test'])
    expect((await search(service, list, 'starts_with=bo%25')).emails).toEqual([])
    expect((await search(service, list, `starts_with=${encodeURIComponent('bo@bücher.test')}`)).emails).toEqual([
      'bo@xn--bcher-kva.test',
    ])
    expect((await search(service, list, 'starts_with=bo&status=complained')).emails).toEqual(['bo_b@x.test'])
    expect((await search(service, list, 'starts_with=zz')).total).toBe(0)
  })

  test('are paged by cursors and by numbers', async () => {
    const emails = Array.from({ length: 7 }, (_, index) => `p${index}@x.test`)
    await using created = await createService(...emails.toReversed())
    const { service, list } = created
    const found: string[] = []
    for (let cursor: string | undefined = '', pages = 0; cursor !== undefined && pages < 5; pages++) {
      const page = await search(service, list, `starts_with=p&per_page=3${cursor && `&cursor=${cursor}`}`)
      expect(page.total).toBe(7)
      found.push(...page.emails)
      cursor = page.next_cursor
    }
    expect(found).toEqual(emails)
    expect((await search(service, list, 'starts_with=p&per_page=3&page=2')).emails).toEqual(emails.slice(3, 6))
  })

  test('are not searched for with an exact address as well, an empty text, or the cursor of another order', async () => {
    await using created = await createService('a@x.test', 'b@x.test')
    const { service, list } = created
    const get = (query: string) => service.api('GET', `/v1/contact-lists/${list}/contacts?${query}`)
    expectError(await get('starts_with=a&email=a@x.test'), 422, 'validation_failed', 'starts_with')
    expect((await get('starts_with=')).status).toBe(422)
    const { next_cursor: cursor } = await search(service, list, 'per_page=1')
    expectError(await get(`starts_with=a&cursor=${cursor}`), 422, 'validation_failed', 'cursor')
  })
})
