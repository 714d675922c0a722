import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { convertMustachio, findMustachio } from '#features/drop-in/postmark/mustachio.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'

let api: TestApi
beforeAll(async () => {
  api = await createTestApi()
})
afterAll(() => api[Symbol.asyncDispose]())

/** What the converted source renders in our renderer. */
async function render(source: string, model: object, part: 'html_body' | 'text_body' = 'html_body'): Promise<unknown> {
  const converted = convertMustachio(source, part === 'html_body')
  expect(converted.problems).toEqual([])
  const { body } = await api.api('POST', '/v1/templates/render', { [part]: converted.source, template_data: model })
  expect(at(body, 'data', 'problems')).toEqual([])
  return at(body, 'data', part)
}

// The expected texts are those of Mustachio's documents and of its source.
describe('a converted template renders as in Postmark', () => {
  test.each<[string, string, object, string]>([
    ['values', 'Hello {{ person.first_name }}', { person: { first_name: 'A & B' } }, 'Hello A &amp; B'],
    ['missing values', '[{{a}}{{ b.c.d }}]', {}, '[]'],
    ['values within null', '[{{ a.b }}]', { a: null }, '[]'],
    ['zero and false', '{{a}} {{b}}', { a: 0, b: false }, '0 false'],
    ['unescaped values', '{{{a}}} {{& a}} {{a}}', { a: '<b>' }, '<b> <b> &lt;b&gt;'],
    ['sections', '{{#person}}{{name}} of {{../company}}{{/person}}', { person: { name: 'A' }, company: 'C' }, 'A of C'],
    ['sections of a path', '{{#a.b}}{{c}}{{../d}}{{../../e}}{{/a.b}}', { a: { b: { c: 1 }, d: 2 }, e: 3 }, '123'],
    ['sections of a text', '{{#name}}Dear {{.}}{{/name}}', { name: 'Ada' }, 'Dear Ada'],
    ['sections without value', '[{{#a}}x{{/a}}{{#b}}x{{/b}}{{#c.d}}x{{/c.d}}]', { a: '', b: [] }, '[]'],
    ['inverted sections', '{{^a}}no {{../b}}{{c}}{{/a}}{{^b}}x{{/b}}', { b: 'B' }, 'no B'],
    ['lists', '{{#each a}}{{name}}, {{/each}}', { a: [{ name: 'x' }, { name: 'y' }] }, 'x, y, '],
    ['lists of texts', '{{#each a}}<{{.}}>{{/each}}', { a: ['x', 'y'] }, '<x><y>'],
    ['missing lists', '[{{#each a}}x{{/each}}{{#each b.c}}x{{/each}}]', { b: null }, '[]'],
    [
      'lists in lists',
      '{{#each a}}{{#each b}}{{.}}{{../../n}}{{/each}}{{/each}}',
      { a: [{ n: 1, b: [7, 8] }] },
      '7181',
    ],
    [
      'lists within sections',
      '{{#s}}{{#each a}}{{x}}{{../../y}};{{/each}}{{/s}}',
      { s: { a: [{ x: 1 }], y: 2 } },
      '12;',
    ],
    ['comments', 'a{{! nothing }}{{!-- {{#if x}} }} {{> y}} --}}{{~!----~}}b', {}, 'ab'],
    ['text that Jinja would take for a tag', 'a {% if %} {#b#} #{c}', {}, 'a {% if %} {#b#} #{c}'],
    ['names that are no words', '{{#a}}{{first-name}}{{/a}}', { a: { 'first-name': 'Ada' } }, 'Ada'],
  ])('%s', async (_, source, model, expected) => {
    expect(await render(source, model)).toBe(expected)
  })

  test('the text body is not escaped', async () => {
    expect(await render('{{a}} {{{a}}}', { a: '<b> & c' }, 'text_body')).toBe('<b> & c <b> & c')
  })
})

test.each<[string, RegExp]>([
  ['a\n{{#each b}}', /^line 2: the section "each" is not closed$/],
  ['{{/a}}', /^line 1: \{\{\/a\}\}: nothing is open here$/],
  ['{{#a}}{{/b}}{{/a}}', /"a" is open here/],
  ['{{> footer }}', /no partials/],
  ['{{{ @content }}}', /layouts/],
  ['{{{ pm:unsubscribe }}}', /unsubscribe/],
  ['{{ first-name }}', /rename it/],
  ['{{ in }}', /rename it/],
  ['{{ a..b }}', /no name/],
  ['{{ . }}', /whole model/],
  ['{{#a}}{{@key}}{{/a}}', /no counterpart/],
  ['{{a.[0].b}}', /no counterpart/],
  ['a {{!-- b }} {{c}}', /not closed/],
])('%j cannot be converted, and is listed', (source, problem) => {
  expect(convertMustachio(source, true).problems).toEqual([expect.stringMatching(problem)])
})

test.each<[string, string | undefined]>([
  ['{{ a }} {{ a.b|title }} {% for a in b %}{{ loop.index }}{% endfor %} {# {{#a}}', '{{#a}}'],
  ['{{ a }} {{ {"b": 1}["b"] }} {{ a ~ "x" }} {{-a-}}', undefined],
  ['x {{^ a }}', '{{^ a }}'],
  ['{{{a}}}', '{{{a}}}'],
  ['{{ ../a }}', '{{ ../a }}'],
  ['{{.}}', '{{.}}'],
  ['{{! a }}', '{{! a }}'],
  ['{{ "{{{a}}}" }}', '{{{a}}}'],
])('the first construct of Mustachio in %j is %j', (source, construct) => {
  expect(findMustachio(source)?.text).toBe(construct as string)
})

test('a long source is converted in linear time', () => {
  const source = '{{#a}}{{b}}{{/a}} {{ { '.repeat(40_000)
  expect(convertMustachio(source, true).source.length).toBeGreaterThan(source.length)
})
