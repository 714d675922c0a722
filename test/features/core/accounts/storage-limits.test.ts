/** @module Limits of stored contacts and bytes per plan, for the API, file imports and forms. */
import { describe, expect, test } from 'bun:test'
import type { Actor } from '#features/core/app/app.ts'
import { at } from '#test/support/api.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'

interface Free {
  readonly service: EmailApi
  readonly actor: Actor
  readonly key: string
  readonly list: string
  api: EmailApi['api']
  amounts(): unknown
}

async function startFree(plans: string): Promise<Free & AsyncDisposable> {
  const service = await createEmailApi({ runsTasks: true, settings: { TASSIS_PLANS: plans } })
  const actor = await createTestAccount(service.app, 'free')
  const key = await service.newKey([], actor)
  const api: EmailApi['api'] = (method, path, body, options = {}) =>
    service.api(method, path, body, { key, ...options })
  const list = String(at((await api('POST', '/v1/contact-lists', { name: 'List' })).body, 'data', 'id'))
  return {
    service,
    actor,
    key,
    list,
    api,
    amounts: () =>
      service.app.db.query('SELECT contacts, bytes FROM stored_amounts WHERE account_id = ?').get(actor.accountId),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

const createContact = (i: number, metadata: object = {}) => ({ email: `c${i}@x.test`, metadata })
const CONTACTS_FULL = 'Plan free allows 5 contacts; delete what you no longer need, or change to a larger plan.'

describe('contacts', () => {
  test('above the limit of a smaller plan do not block suppressions, changes and templates, which add no contacts', async () => {
    await using free = await startFree('free.max_contacts=1')
    const { api, list, service, actor } = free
    const path = `/v1/contact-lists/${list}/contacts`
    const setPlan = (plan: string) =>
      service.app.db.run('UPDATE accounts SET plan = ? WHERE id = ?', [plan, actor.accountId])
    setPlan('pro')
    for (let i = 0; i < 3; i++) await api('POST', path, createContact(i, { note: 'long enough' }))
    setPlan('free')
    const template = { alias: 'hello', name: 'Hello', subject: 'Hello', text_body: 'Hello' }
    const answers = [
      await api('POST', '/v1/suppressions', { email_address: 'c0@x.test' }),
      await api('POST', '/v1/templates', template),
      await api('PATCH', `${path}/c1@x.test`, { metadata: {} }),
      await api('POST', path, createContact(2)),
      await api('POST', path, createContact(3)),
    ]
    expect(answers.map(({ status, body }) => [status, status < 400 ? undefined : at(body, 'code')])).toEqual([
      [201, undefined],
      [201, undefined],
      [200, undefined],
      [409, 'contact_exists'],
      [403, 'plan_limit_reached'],
    ])
  })

  // Proves: billing-6
  test('cannot exceed the limit of the plan, whichever way they are added; a deletion allows another one', async () => {
    await using free = await startFree('free.max_contacts=5')
    const { api, list, service, key } = free
    const path = `/v1/contact-lists/${list}/contacts`
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => api('POST', path, createContact(i))))
    const refused = answers.filter(({ status }) => status !== 201)
    expect(refused).toHaveLength(15)
    for (const answer of refused) {
      expectError(answer, 403, 'plan_limit_reached')
      expect(at(answer.body, 'message')).toBe(CONTACTS_FULL)
    }
    expectError(
      await api('POST', path, { contacts: [createContact(30), createContact(31)] }),
      403,
      'plan_limit_reached',
    )

    const form = await api('POST', '/v1/signup-forms', { list_id: list, title: 'Form' })
    const url = `${service.url}/subscribe/${String(at(form.body, 'data', 'slug'))}`
    const posted = await fetch(url, { method: 'POST', body: new URLSearchParams({ email: 'visitor@x.test' }) })
    expect([form.status, posted.status]).toEqual([201, 503])

    const file = await fetch(`${service.url}/v1/contact-lists/${list}/contacts/import`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'text/csv' },
      body: 'email\nfile@x.test\n',
    })
    expect(file.status).toBe(202)
    const operation = String(at(await file.json(), 'data', 'operation_id'))
    const ended = await eventually(async () => {
      const { body } = await api('GET', `/v1/operations/${operation}`)
      return at(body, 'data', 'status') === 'failed' && body
    })
    expect(JSON.stringify(ended)).toContain(CONTACTS_FULL)

    const kept = answers.findIndex(({ status }) => status === 201)
    expect((await api('DELETE', `${path}/c${kept}@x.test`)).status).toBe(204)
    expect((await api('POST', path, createContact(40))).status).toBe(201)
    expectError(await api('POST', path, createContact(41)), 403, 'plan_limit_reached')
  })
})

describe('bytes', () => {
  const LARGE = 'x'.repeat(900_000)

  // Proves: billing-6
  test.each([
    ['templates', '/v1/templates', (i: number) => ({ alias: `t${i}`, name: 'T', subject: 'S', html_body: LARGE })],
    [
      'newsletters',
      '/v1/newsletters',
      (i: number, list: string) => ({
        list_id: list,
        subject: `N${i}`,
        from_address: 'ada@sender.test',
        html_body: LARGE,
      }),
    ],
  ] as const)('of %s count towards the limit of the plan', async (_, path, body) => {
    await using free = await startFree('free.max_stored_mib=1')
    await free.service.addDomain(free.actor, 'other.test')
    const first = await free.api('POST', path, {
      ...body(1, free.list),
      from_address: undefined,
      ...('from_address' in body(1, free.list) && { from_address: 'ada@other.test' }),
    })
    expect(first.status).toBe(201)
    const second = await free.api('POST', path, {
      ...body(2, free.list),
      ...('from_address' in body(2, free.list) && { from_address: 'ada@other.test' }),
    })
    expectError(second, 403, 'plan_limit_reached')
    expect(at(second.body, 'message')).toBe(
      'Plan free allows 1 MiB of contacts, templates, newsletters and suppressions; delete what you no longer need, or change to a larger plan.',
    )
    expect((await free.api('DELETE', `${path}/${String(at(first.body, 'data', 'id'))}`)).status).toBe(204)
  })

  test('of contacts count towards the limit of the plan, also when their metadata changes', async () => {
    await using free = await startFree('free.max_stored_mib=1')
    const path = `/v1/contact-lists/${free.list}/contacts`
    const metadata = { note: 'x'.repeat(9000) }
    const many = (from: number, count: number) => ({
      contacts: Array.from({ length: count }, (_, i) => createContact(from + i, metadata)),
    })
    expect((await free.api('POST', path, many(0, 110))).status).toBe(201)
    expectError(await free.api('POST', path, many(200, 10)), 403, 'plan_limit_reached')
    expect((await free.api('POST', path, createContact(300))).status).toBe(201)
    for (let i = 301; i < 310; i++) await free.api('POST', path, createContact(i))
    const changes = []
    for (let i = 301; i < 310; i++) changes.push((await free.api('PATCH', `${path}/c${i}@x.test`, { metadata })).status)
    expect(changes).toContain(403)
  })

  test('of suppressions count towards the limit of the plan, but suppressions caused by mail are always stored', async () => {
    await using free = await startFree('free.max_stored_mib=0')
    expectError(
      await free.api('POST', '/v1/suppressions', { email_address: 'a@x.test', reason: 'manual' }),
      403,
      'plan_limit_reached',
    )
  })
})

test('the stored amounts of an account equal a recount after additions, changes and deletions', async () => {
  await using free = await startFree('')
  const { api, list, amounts, service, actor } = free
  const path = `/v1/contact-lists/${list}/contacts`
  await api('POST', path, { contacts: Array.from({ length: 20 }, (_, i) => createContact(i, { n: 'ü'.repeat(i) })) })
  await api('PATCH', `${path}/c3@x.test`, { metadata: { other: 'text' } })
  await api('DELETE', `${path}/c4@x.test`)
  await api('POST', '/v1/suppressions', { email_address: 'c5@x.test', reason: 'manual' })
  await api('POST', '/v1/suppressions', { email_address: 'c6@x.test', reason: 'a reason of some length' })
  await api('DELETE', '/v1/suppressions/c5@x.test')
  const made = await api('POST', '/v1/templates', { alias: 't', name: 'T', subject: 'S', text_body: 'Hello' })
  const template = `/v1/templates/${String(at(made.body, 'data', 'id'))}`
  await api('PUT', template, { subject: 'Subject', text_body: 'Other text' })
  const recount = () =>
    service.app.db
      .query(
        `SELECT (SELECT count(*) FROM contacts WHERE account_id = ?1) AS contacts,
         (SELECT coalesce(sum(200 + coalesce(octet_length(email), 0) + coalesce(octet_length(metadata), 0)), 0) FROM contacts WHERE account_id = ?1)
         + (SELECT coalesce(sum(octet_length(subject) + coalesce(octet_length(html_body), 0) + coalesce(octet_length(text_body), 0)), 0)
            FROM templates WHERE account_id = ?1)
         + (SELECT coalesce(sum(200 + octet_length(reason)), 0) FROM suppressions WHERE account_id = ?1) AS bytes`,
      )
      .get(actor.accountId)
  expect(amounts()).toEqual(recount())
  await api('DELETE', template)
  await api('DELETE', `/v1/contact-lists/${list}`)
  await service.app.commit.barrier()
  expect(amounts()).toEqual(recount())
})
