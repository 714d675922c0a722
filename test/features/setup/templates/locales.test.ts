/** @module Templates in several languages: which one a send takes, in every way in, and what keeps their names unique. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { listFallbacks, parseLocale } from '#features/setup/templates/locale.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, EMAIL, type EmailApi } from '#test/support/email-api.ts'

type Json = Record<string, unknown>

let service: EmailApi
const ids: Record<string, string> = {}
beforeAll(async () => {
  service = await createEmailApi()
  for (const locale of [null, 'DE', 'de-at', 'zh-hant']) ids[String(locale)] = await add({ locale })
  for (const locale of ['fr', 'pt-BR']) await add({ alias: 'partial', locale })
})
afterAll(() => service[Symbol.asyncDispose]())

const put = (id: unknown, change: Json) => service.api('PUT', `/v1/templates/${String(id)}`, change)
const create = (change: Json) =>
  service.api('POST', '/v1/templates', { alias: 'welcome', name: 'W', text_body: 'x', ...withSubject(change) })
const withSubject = (change: Json): Json => ({ subject: `in ${change['locale'] ?? 'any'}`, ...change })
async function add(change: Json): Promise<string> {
  const { status, body } = await create(change)
  expect({ status, body }).toMatchObject({ status: 201 })
  return String(at(body, 'data', 'id'))
}
const send = (change: Json) =>
  service.send({ ...EMAIL, subject: undefined, text_body: undefined, template_alias: 'welcome', ...change })
const listed = async (alias: string) =>
  (at((await service.api('GET', `/v1/templates?alias=${alias}`)).body, 'data') as Json[]).map(({ locale }) => locale)

test('locales are canonical, and fall back as RFC 4647 says', () => {
  expect(['zh-hant-tw', 'iw', ''].map((text) => parseLocale(text))).toEqual(['zh-Hant-TW', 'he', null])
  expect(listFallbacks('zh-Hant-TW')).toEqual(['zh-Hant-TW', 'zh-Hant', 'zh', null])
  expect(listFallbacks('de-CH-u-co-phonebk')).toEqual(['de-CH-u-co-phonebk', 'de-CH-u-co', 'de-CH', 'de', null])
  expect(listFallbacks(null)).toEqual([null])
})

describe('a send', () => {
  test.each([
    ['de-AT', 'in de-at', 'de-at'],
    ['de_AT', 'in de-at', 'de-at'],
    ['DE-ch', 'in DE', 'DE'],
    ['zh-Hant-TW', 'in zh-hant', 'zh-hant'],
    ['zh', 'in any', 'null'],
    ['sv', 'in any', 'null'],
    [null, 'in any', 'null'],
    ['', 'in any', 'null'],
  ])('in %p takes the nearest template', async (locale, subject, id) => {
    const sent = at((await send({ locale })).body, 'data', 'id')
    expect(await service.detail(sent)).toMatchObject({ subject, template_id: ids[id] })
  })

  test.each<[Json, string, string, RegExp]>([
    [{ locale: 'de at' }, 'validation_failed', 'locale', /BCP 47, such as de, de-AT or zh-Hant; "de at" is none/],
    [{ locale: 'x'.repeat(100) }, 'validation_failed', 'locale', /zh-Hant; "x{35}" is none/],
    [{ alias: 'partial', locale: 'de' }, 'template_not_found', 'locale', /in de and has no default.*in fr, pt-BR\./],
    [{ alias: 'partial' }, 'template_not_found', 'locale', /without a locale; it exists in fr, pt-BR\. Set one/],
    [{ alias: 'none', locale: 'de' }, 'template_not_found', 'template_alias', /no template with the alias "none"/],
    [{ alias: null, subject: 'S', text_body: 'T', locale: 'de' }, 'validation_failed', 'locale', /set template_alias/],
  ])('with %j is a 422', async ({ alias = 'welcome', ...change }: Json, code, field, message) => {
    const { status, body } = await send({ template_alias: alias, ...change })
    expect({ status, body }).toMatchObject({
      status: 422,
      body: { code, details: [{ field, message: expect.stringMatching(message) }] },
    })
  })

  test('of a batch has its own language', async () => {
    const email = { from: EMAIL.from, to: EMAIL.to, template_alias: 'welcome' }
    const emails = ['de', 'zh-Hant', 'x_y', undefined].map((locale) => ({ ...email, locale }))
    const { body } = await service.api('POST', '/v1/emails/batch', { emails })
    const subjects = (at(body, 'data') as Json[]).map(async ({ id }) => (await service.detail(id))['subject'])
    expect(await Promise.all(subjects)).toEqual(['in DE', 'in zh-hant', 'in any'])
    expect(at(body, 'errors')).toEqual([{ index: 2, error: expect.stringContaining('"x_y"') }])
  })
})

test('the render route renders what a send in that language would', async () => {
  const render = async (id: unknown, body: Json) => (await service.api('POST', `/v1/templates/${id}/render`, body)).body
  expect(await render(ids['null'], { locale: 'de-CH' })).toMatchObject({ data: { subject: 'in DE' } })
  expect(await render(ids['DE'], { locale: 'en' })).toMatchObject({ data: { subject: 'in any' } })
  expect(await render(ids['DE'], {})).toMatchObject({ data: { subject: 'in DE' } })
})

describe('names', () => {
  test('are unique by alias and canonical locale', async () => {
    for (const [locale, message] of [
      ['de-at', /alias "welcome" in de-AT\./],
      [null, /alias "welcome"\./],
    ] as const)
      expect((await create({ locale })).body).toMatchObject({
        error: { code: 'template_exists', message: expect.stringMatching(message) },
      })
    expect((await put(ids['DE'], { locale: 'zh-Hant' })).status).toBe(409)
    expect((await put(ids['DE'], { locale: 'not a tag' })).status).toBe(422)
    expect(await listed('welcome')).toEqual(['zh-Hant', 'de-AT', 'de', null])
  })

  test('a new alias of the default one is that of its languages; a language moves alone', async () => {
    const first = await add({ alias: 'old' })
    const german = await add({ alias: 'old', locale: 'de' })
    await add({ alias: 'taken', locale: 'de' })
    expect((await put(first, { alias: 'taken' })).body).toMatchObject({ error: { code: 'template_exists' } })
    expect((await put(first, { alias: 'new', name: 'New' })).body).toMatchObject({ data: { alias: 'new', version: 1 } })
    expect([await listed('old'), await listed('new')]).toEqual([[], ['de', null]])
    expect((await put(german, { alias: 'alone' })).status).toBe(200)
    expect([await listed('new'), await listed('alone')]).toEqual([[null], ['de']])
    // As an account does that had an alias for each language.
    expect((await put(german, { alias: 'new', locale: 'de' })).status).toBe(200)
    await service.api('DELETE', `/v1/templates/${first}`)
    expect(await listed('new')).toEqual(['de'])
    expect((await add({ alias: 'new' })).length).toBe(36)
  })
})
