import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { createFormApi, type FormApi } from './fixture.ts'

let service: FormApi
beforeAll(async () => {
  service = await createFormApi()
})
afterAll(() => service[Symbol.asyncDispose]())

const fields = async (method: string, path: string, body: unknown) => {
  const answer = await service.api(method, path, body)
  expect(answer.status).toBe(422)
  return (at(answer.body, 'details') as { field: string }[]).map(({ field }) => field)
}

describe('an invalid value is a 422 that names its field, at creation and in a change', () => {
  const names = ['bg_color', 'text_color', 'button_color', 'button_text_color', 'border_color', 'accent_color']
  const field = { name: 'city', label: 'City' }
  const cases: [unknown, string][] = [
    [{ title: '' }, 'title'],
    [{ title: ' \n ' }, 'title'],
    [{ theme: { __proto__x: 'red' } }, 'theme.__proto__x'],
    [{ custom_fields: [{ ...field, label: ' ' }] }, 'custom_fields.0.label'],
    [{ custom_fields: [{ ...field, name: 'City' }] }, 'custom_fields.0.name'],
    [{ custom_fields: [{ ...field, name: '1st' }] }, 'custom_fields.0.name'],
    [{ custom_fields: [{ ...field, name: 'a"onfocus=alert(1)' }] }, 'custom_fields.0.name'],
    [{ custom_fields: [{ ...field, name: 'email' }] }, 'custom_fields.0.name'],
    [{ custom_fields: [field, field] }, 'custom_fields.1.name'],
    [{ custom_fields: [{ ...field, options: [] }] }, 'custom_fields.0.options'],
    ...names.flatMap((name): [unknown, string][] =>
      [
        'red;}body{display:none',
        '</style><script>alert(1)</script>',
        'url(https://evil.test/x)',
        'expression(alert(1))',
        'var(--text)',
        'currentcolor',
        'inherit',
        'canvas',
        '#12345',
        'rgb(1,2)',
        'rgb(1,2,3',
        'rgb(calc(1),2,3)',
        'r\\65d',
        'red/**/',
        'x'.repeat(65),
      ].map((value) => [{ theme: { [name]: value } }, `theme.${name}`]),
    ),
    ...[-1, 101, '101px', '11rem', '51%', '1vw', '1px;color:red', '1 px', 'calc(1px)', '1e1px', 'px', true].map(
      (border_radius): [unknown, string] => [{ theme: { border_radius } }, 'theme.border_radius'],
    ),
    ...[
      'a;b',
      'url(x)',
      'a{b',
      '"a',
      '\'a"',
      'a, ,b',
      'a\\62',
      '</style>',
      'expression(1)',
      'a'.repeat(201),
      Array(11).fill('a').join(','),
    ].map((font_family): [unknown, string] => [{ theme: { font_family } }, 'theme.font_family']),
    ...[
      'javascript:alert(1)',
      'JAVASCRIPT:alert(1)',
      'data:text/html,x',
      'ftp://a.test/',
      '//a.test/',
      '/thanks',
      'https://user@a.test/',
      'https://a.test/\r\nX: y',
      'ht\ttps://a.test/',
      'https://:secret@a.test/',
      'https://',
      `https://a.test/${'x'.repeat(2000)}`,
    ].map((redirect_url): [unknown, string] => [{ redirect_url }, 'redirect_url']),
  ]

  const count = () => service.app.db.query('SELECT id FROM signup_forms').all().length

  // Proves: form-2, form-4, form-8
  test.each(cases.map(([body, place]) => [JSON.stringify(body).slice(0, 80), body, place] as const))(
    '%s',
    async (_, body, place) => {
      const before = count()
      const given = { list_id: service.list(), title: 'x', ...(body as object) }
      expect(await fields('POST', '/v1/signup-forms', given)).toEqual([place])
      expect(count()).toBe(before)
      const { path: _path, ...form } = await service.form()
      const { id } = form
      expect(await fields('PUT', `/v1/signup-forms/${id}`, body)).toEqual([place])
      expect(at((await service.api('GET', `/v1/signup-forms/${id}`)).body, 'data')).toEqual(form)
    },
  )
})

// Proves: form-8
test('a theme keeps its values, in every form that a colour, a radius and a font can have', async () => {
  const themes = [
    { bg_color: '#abc', text_color: '#ABCD', button_color: '#a1b2c3', button_text_color: '#a1b2c3d4' },
    { bg_color: 'rgb(1, 2, 3)', text_color: 'rgba(1,2,3,.5)', border_color: 'rgb(1 2 3 / 50%)' },
    { bg_color: 'hsl(120, 50%, 50%)', text_color: 'HSLA(120deg 50% 50% / 0.5)', accent_color: 'RebeccaPurple' },
    { border_radius: 0, font_family: `Georgia, "Times New Roman", 'Open Sans', -apple-system, sans-serif` },
    { border_radius: '0.5rem', embed: false, hide_branding: true },
    { border_radius: '12' },
    { border_radius: '50%' },
  ]
  for (const theme of themes) expect((await service.form({ theme }))['theme']).toEqual(theme)
})
