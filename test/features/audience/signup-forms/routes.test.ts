import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { UNVERIFIED, UUID, VERIFIED } from '#test/support/email-api.ts'
import { createFormApi, type FormApi, PUBLIC_URL } from './fixture.ts'

let service: FormApi
beforeAll(async () => {
  service = await createFormApi()
})
afterEach(() => service.clear())
afterAll(() => service[Symbol.asyncDispose]())

const FULL = {
  title: 'Our newsletter',
  description: 'Once a month.\nNever more.',
  from_address: `Ada <ada@${VERIFIED}>`,
  redirect_url: 'https://shop.example/thanks?from=form',
  success_message: 'Thank you.',
  custom_fields: [
    { name: 'first_name', label: 'First name', type: 'text', required: true },
    { name: 'terms', label: 'I agree', type: 'checkbox', required: false },
  ],
  theme: { bg_color: '#FFF', button_color: 'royalblue', border_radius: 4, font_family: 'Georgia, serif', embed: true },
  messages: { submit_button: 'Join', invalid_email: 'That is no address.' },
}

const refusal = async (method: string, path: string, body: unknown) => {
  const answer = await service.api(method, path, body)
  return { status: answer.status, code: at(answer.body, 'code') }
}

describe('/v1/signup-forms', () => {
  // Proves: form-1, form-2, form-3, form-7, form-8
  test('a form has every field in its record, always with form_url and embed_code', async () => {
    const listId = service.list()
    const created = await service.api('POST', '/v1/signup-forms', { list_id: listId, ...FULL })
    expect(created.status).toBe(201)
    const slug = String(at(created.body, 'data', 'slug'))
    expect(slug).toMatch(/^our-newsletter-[a-z0-9]{6}$/)
    const record = {
      ...FULL,
      id: expect.stringMatching(UUID),
      account_id: service.actor.accountUuid,
      list_id: listId,
      slug,
      is_active: true,
      form_url: `${PUBLIC_URL}/subscribe/${slug}`,
      embed_code: `<iframe src="${PUBLIC_URL}/subscribe/${slug}?embed=1" title="Our newsletter" width="100%" height="665" style="border: 0" loading="lazy"></iframe>`,
      created_at: '2026-03-15T12:30:00.000Z',
      updated_at: '2026-03-15T12:30:00.000Z',
    }
    expect(created.body).toEqual({ data: record })
    const path = `/v1/signup-forms/${at(created.body, 'data', 'id')}`
    expect((await service.api('GET', path)).body).toEqual({ data: record })
    expect((await service.api('GET', '/v1/signup-forms')).body).toEqual({
      data: [record],
      pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
    })
    expect((await service.api('PUT', path, { title: 'News' })).body).toEqual({
      data: { ...record, title: 'News', embed_code: record.embed_code.replace('Our newsletter', 'News') },
    })
    expect((await service.api('POST', `${path}/toggle`)).body).toEqual({
      data: expect.objectContaining({ is_active: false, form_url: record.form_url, embed_code: expect.any(String) }),
    })
  })

  // Proves: form-7
  test('a form with only a title has the defaults: nothing, as null or empty', async () => {
    const { path, ...record } = await service.form({ title: 'News' })
    expect(path).toBe(`/subscribe/${record.slug}`)
    expect(record).toEqual({
      id: record.id,
      account_id: service.actor.accountUuid,
      list_id: expect.stringMatching(UUID),
      slug: expect.stringMatching(/^news-[a-z0-9]{6}$/),
      title: 'News',
      description: null,
      from_address: null,
      redirect_url: null,
      success_message: null,
      custom_fields: [],
      theme: {},
      messages: {},
      is_active: true,
      form_url: expect.any(String),
      embed_code: expect.any(String),
      created_at: expect.any(String),
      updated_at: expect.any(String),
    })
  })

  // Proves: form-8
  test.each([
    { theme: [], messages: [] },
    { theme: null, messages: null, custom_fields: null },
    { theme: { bg_color: '', border_radius: null }, messages: { error: '', submit_button: null } },
    { description: '', from_address: '', redirect_url: ' ', success_message: null, custom_fields: [] },
  ])('%j sets nothing: the defaults stay', async (nothing) => {
    expect(await service.form(nothing)).toMatchObject({
      description: null,
      from_address: null,
      redirect_url: null,
      success_message: null,
      custom_fields: [],
      theme: {},
      messages: {},
    })
  })

  // Proves: form-2
  test('an unknown list, a deleted one, and one of another account are a 404', async () => {
    const [listId, other] = [service.list(), await service.newKey([], await service.newAccount())]
    const theirs = await service.api('POST', '/v1/signup-forms', { list_id: listId, title: 'x' }, { key: other })
    expect({ status: theirs.status, code: at(theirs.body, 'code') }).toEqual({
      status: 404,
      code: 'contact_list_not_found',
    })
    service.app.db.run('UPDATE contact_lists SET deleted_at = 1')
    for (const id of [listId, '01234567-89ab-7def-8123-456789abcdef', 'none'])
      expect(await refusal('POST', '/v1/signup-forms', { list_id: id, title: 'x' })).toEqual({
        status: 404,
        code: 'contact_list_not_found',
      })
  })

  // Proves: form-2, form-5
  test('a list has one form: 409 names the existing one, also for 20 concurrent requests; after its deletion another can be created', async () => {
    const listId = service.list()
    const create = () => service.api('POST', '/v1/signup-forms', { list_id: listId, title: 'x' })
    const answers = await Promise.all(Array.from({ length: 20 }, create))
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(19).fill(409)])
    const id = String(at(answers.find(({ status }) => status === 201)?.body, 'data', 'id'))
    const again = await create()
    expect({ code: at(again.body, 'code'), isNamed: String(at(again.body, 'message')).includes(id) }).toEqual({
      code: 'signup_form_exists',
      isNamed: true,
    })
    expect((await service.api('DELETE', `/v1/signup-forms/${id}`)).status).toBe(204)
    expect((await create()).status).toBe(201)
  })

  // Proves: form-4
  test('a change keeps fields that are left out, and replaces theme, messages and custom fields as a whole', async () => {
    const { id, path: _, ...before } = await service.form(FULL)
    const path = `/v1/signup-forms/${id}`
    const changed = await service.api('PUT', path, {
      theme: { text_color: 'navy' },
      messages: {},
      custom_fields: [{ name: 'city', label: 'City' }],
    })
    expect(changed.body).toEqual({
      data: {
        ...before,
        id,
        theme: { text_color: 'navy' },
        messages: {},
        custom_fields: [{ name: 'city', label: 'City', type: 'text', required: false }],
        embed_code: expect.any(String),
      },
    })
    const emptied = await service.api('PUT', path, {
      description: null,
      from_address: null,
      redirect_url: null,
      success_message: '',
    })
    expect(emptied.body).toMatchObject({
      data: { title: FULL.title, description: null, from_address: null, redirect_url: null, success_message: null },
    })
  })

  // Proves: form-4
  test('a change of nothing, or of a read-only field, is a 422', async () => {
    const { id } = await service.form()
    for (const body of [{}, [], null, { list_id: service.list() }, { slug: 'x' }, { is_active: false }, { title: ' ' }])
      expect((await service.api('PUT', `/v1/signup-forms/${id}`, body)).status).toBe(422)
  })

  // Proves: form-5, form-6
  test('each change has an audit row', async () => {
    const { id, slug, list_id } = await service.form()
    await service.api('PUT', `/v1/signup-forms/${id}`, { title: 'News', redirect_url: 'https://a.test/' })
    await service.api('POST', `/v1/signup-forms/${id}/toggle`)
    await service.api('POST', `/v1/signup-forms/${id}/toggle`)
    await service.api('DELETE', `/v1/signup-forms/${id}`)
    const row = { resource: id, actor: 'api_key', metadata: null }
    expect(service.audited().filter(({ resource }) => resource === id)).toEqual([
      { ...row, action: 'signup_form.created', metadata: { list_id, slug, title: 'Our newsletter' } },
      { ...row, action: 'signup_form.updated', metadata: { title: 'News', changed: ['title', 'redirect_url'] } },
      { ...row, action: 'signup_form.deactivated' },
      { ...row, action: 'signup_form.activated' },
      { ...row, action: 'signup_form.deleted' },
    ])
  })

  test.each<[string, RegExp]>([
    ['Größe & Maß: 50 % für Łódź', /^gro-e-ma-50-fur-odz-[a-z0-9]{6}$/],
    ['  <script>alert(1)</script> ', /^script-alert-1-script-[a-z0-9]{6}$/],
    ['ニュースレター', /^form-[a-z0-9]{6}$/],
    ['a'.repeat(200), /^a{40}-[a-z0-9]{6}$/],
    [`${'a'.repeat(39)} b`, /^a{39}-[a-z0-9]{6}$/],
    ['--- 2026 ---', /^2026-[a-z0-9]{6}$/],
  ])('the slug of "%s" has only lower-case ASCII letters and digits', async (title, slug) => {
    expect((await service.form({ title })).slug).toMatch(slug)
  })

  // Proves: form-5
  test('a form is gone with its list immediately', async () => {
    const [gone, kept] = [await service.form(), await service.form()]
    service.app.db.run('UPDATE contact_lists SET deleted_at = 1 WHERE id = (SELECT min(id) FROM contact_lists)')
    expect((await service.api('GET', `/v1/signup-forms/${gone.id}`)).status).toBe(404)
    expect((await service.api('PUT', `/v1/signup-forms/${gone.id}`, { title: 'x' })).status).toBe(404)
    const listed = await service.api('GET', '/v1/signup-forms')
    expect({
      ids: (at(listed.body, 'data') as { id: string }[]).map(({ id }) => id),
      ...(listed.body as object),
    }).toMatchObject({
      ids: [kept.id],
      pagination: { total: 1 },
    })
  })
})

describe('the sender of confirmations', () => {
  test('is stored in header form', async () => {
    expect(await service.form({ from_address: `Doe, Jane <News@${VERIFIED.toUpperCase()}>` })).toMatchObject({
      from_address: `"Doe, Jane" <News@${VERIFIED}>`,
    })
  })

  // Proves: form-9
  test.each([
    ['ada@nowhere.test', 'domain_not_found'],
    [`ada@${UNVERIFIED}`, 'domain_not_verified'],
    ['ada', 'invalid_address'],
    [`ada@${VERIFIED}\r\nBcc: eve@evil.test`, 'invalid_address'],
  ])('%j is a 422 %s, at creation and in a change', async (from_address, code) => {
    expect(await refusal('POST', '/v1/signup-forms', { list_id: service.list(), title: 'x', from_address })).toEqual({
      status: 422,
      code,
    })
    const { id } = await service.form()
    expect(await refusal('PUT', `/v1/signup-forms/${id}`, { from_address })).toEqual({ status: 422, code })
  })

  // Proves: form-9
  test('is required on a double opt-in list: without one, while no domain is verified, 422 no_verified_domain', async () => {
    const doubled = () => ({ list_id: service.list({ doubleOptIn: true }), title: 'x' })
    const { id } = await service.form({ ...doubled(), from_address: `ada@${VERIFIED}` })
    service.app.db.run('UPDATE domains SET verified_at = NULL')
    const refused = { status: 422, code: 'no_verified_domain' }
    expect(await refusal('POST', '/v1/signup-forms', doubled())).toEqual(refused)
    expect(await refusal('PUT', `/v1/signup-forms/${id}`, { from_address: null })).toEqual(refused)
    expect((await service.api('PUT', `/v1/signup-forms/${id}`, { title: 'y' })).status).toBe(200)
    expect((await service.api('POST', '/v1/signup-forms', { list_id: service.list(), title: 'x' })).status).toBe(201)
  })
})
