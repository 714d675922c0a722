import { describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { addContacts, createContacts, newList } from '#test/support/broadcasts.ts'
import { createEmailApi, expectError, shareEmailApi } from '#test/support/email-api.ts'
import { createTestUser, signIn } from '#test/support/users.ts'

type Json = Record<string, unknown>

const ADA = 'ada@people.test'

let list: string
const service = shareEmailApi(async () => {
  const created = await createEmailApi()
  list = await newList(created, 'News')
  return created
})

async function createDraft(fields: Json = {}): Promise<string> {
  const { status, body } = await service.api('POST', '/v1/newsletters', {
    list_id: list,
    subject: 'No. {{ contact.number }}',
    from_address: 'Ada <ada@sender.test>',
    text_body: '{{ contact.email }} {{ list.name }} {{ unsubscribe_url }}',
    ...fields,
  })
  if (status !== 201) throw new Error(`refused: ${JSON.stringify(body)}`)
  return String(at(body, 'data', 'id'))
}

describe('the preview of a newsletter', () => {
  // Proves: broadcast-13
  test('is rendered for the newest active contact, or for a named one', async () => {
    await addContacts(service.app, list, [...createContacts(2), { email: 'pending@x.test', status: 'pending' }])
    const id = await createDraft()
    const preview = async (query = '') => (await service.api('GET', `/v1/newsletters/${id}/preview${query}`)).body
    expect(await preview()).toEqual({
      data: {
        contact_email: 'contact-2@receiver.test',
        subject: 'No. 2',
        html_body: null,
        text_body: 'contact-2@receiver.test News https://unsubscribe.invalid/',
      },
    })
    expect(at(await preview('?contact_email=Contact-1@receiver.test'), 'data', 'subject')).toBe('No. 1')
    expectError(
      await service.api('GET', `/v1/newsletters/${id}/preview?contact_email=nobody@x.test`),
      404,
      'contact_not_found',
    )
  })

  test('names a missing variable, and works for an empty list and with a template', async () => {
    const id = await createDraft()
    const answer = await service.api('GET', `/v1/newsletters/${id}/preview`)
    expectError(answer, 422, 'template_error', 'subject')
    expect(JSON.stringify(answer.body)).toContain('missing in the metadata of the contact')
    const template = await service.api('POST', '/v1/templates', {
      alias: 'spring',
      name: 'Spring',
      subject: 'x',
      html_body: '<p>{{ contact.email }}</p>',
    })
    const templateId = at(template.body, 'data', 'id')
    const other = await createDraft({ subject: 'Hello', text_body: null, template_id: templateId })
    expect(at((await service.api('GET', `/v1/newsletters/${other}/preview`)).body, 'data')).toEqual({
      contact_email: null,
      subject: 'Hello',
      html_body: '<p>contact@example.com</p>',
      text_body: null,
    })
    await service.api('DELETE', `/v1/templates/${String(templateId)}`)
    expectError(await service.api('GET', `/v1/newsletters/${other}/preview`), 422, 'template_not_found', 'template_id')
    await service.api('DELETE', `/v1/contact-lists/${list}`)
    expectError(await service.api('GET', `/v1/newsletters/${id}/preview`), 422, 'contact_list_not_found', 'list_id')
  })
})

describe('the test email of a newsletter', () => {
  // Proves: broadcast-14
  test('goes to the signed-in user only, at most 20 times an hour; a key cannot send one', async () => {
    await addContacts(service.app, list, createContacts(1))
    await createTestUser(service.app, service.actor, ADA, 'developer')
    await createTestUser(service.app, service.actor, 'vera@people.test', 'viewer')
    const id = await createDraft()
    const path = `/v1/newsletters/${id}/test-email`
    const ada = await signIn(service, ADA)
    expectError(await service.api('POST', path, {}), 403, 'session_required')
    expect((await (await signIn(service, 'vera@people.test')).ask('POST', path, {})).status).toBe(403)
    expect((await ada.ask('POST', path, { to: 'bob@x.test' })).status).toBe(422)
    const sent = await ada.ask('POST', path, {})
    expect(sent.status).toBe(202)
    const email = await service.detail(at(sent.body, 'data', 'id'))
    expect(email).toMatchObject({ to_address: ADA, subject: '[Test] No. 1', tags: ['test-email'] })
    for (let n = 0; n < 19; n++) expect((await ada.ask('POST', path, { to: ADA })).status).toBe(202)
    expect((await ada.ask('POST', path, {})).status).toBe(429)
  })
})

describe('a newsletter', () => {
  // Proves: broadcast-15
  test('is not sent to more recipients than were expected', async () => {
    await addContacts(service.app, list, createContacts(3))
    const id = await createDraft()
    const send = (max: number) => service.api('POST', `/v1/newsletters/${id}/send`, { max_recipients: max })
    expectError(await send(2), 409, 'too_many_recipients')
    expect(at((await service.api('GET', `/v1/newsletters/${id}`)).body, 'data', 'status')).toBe('draft')
    expect(service.used()).toBe(0)
    expect((await send(3)).status).toBe(202)
  })

  // Proves: broadcast-3
  test('is found by its status', async () => {
    await addContacts(service.app, list, createContacts(1))
    const [first, second] = [await createDraft(), await createDraft()]
    await service.api('POST', `/v1/newsletters/${first}/send`, {})
    const { body } = await service.api('GET', '/v1/newsletters?status=draft')
    expect([at(body, 'pagination', 'total'), at(body, 'data', 0, 'id')]).toEqual([1, second])
    expect((await service.api('GET', '/v1/newsletters?status=nothing')).status).toBe(422)
  })
})
