import { expect, test } from 'bun:test'
import { Engine } from '#platform/template/engine.ts'
import type { TemplateFault, TemplateSource } from '#platform/template/renderer.ts'

const engine = new Engine()

function rendered(source: TemplateSource, data: unknown = {}): TemplateFault | string | undefined {
  const outcome = engine.render(source, JSON.stringify(data), 1)
  if (outcome.kind === 'fault') return outcome.fault
  return outcome.parts.html ?? outcome.parts.text ?? outcome.parts.subject
}

const html = (source: string, data?: unknown) => rendered({ html: source }, data)
const text = (source: string, data?: unknown) => rendered({ text: source }, data)
const messageOf = (fault: TemplateFault | string | undefined): string | undefined =>
  typeof fault === 'object' ? fault.message : fault

test.each([
  ['printed', '\n\n<p>{{ user.name }}</p>', 3, 'user.name'],
  ['the root of an attribute', '{{ customer.name.first }}', 1, 'customer.name.first'],
  ['in a loop', '{% for x in list %}\n{{ x.a.b }}{% endfor %}', 2, 'x.a.b'],
  ['looped over', 'a\n{% for x in orders %}{% endfor %}', 2, 'orders'],
  ['a condition', '{% if vip %}a{% endif %}', 1, 'vip'],
  ['one of two conditions', '{% if list and vip %}a{% endif %}', 1, 'vip'],
  ['denied', '{% if not vip %}a{% endif %}', 1, 'vip'],
  ['filtered', '{{ user.name|upper }}', 1, 'user.name'],
  ['filtered by one of ours', '{{ user.name|truncate(5) }}', 1, 'user.name'],
  ['compared', '{% if user.age > 3 %}a{% endif %}', 1, 'user.age'],
  ['an item', '{{ list[3] }}', 1, 'list[3]'],
  ['an item by name', "{{ user['first name'] }}", 1, "user['first name']"],
  ['an item by the name in another', '{{ user[key] }}', 1, 'user[key]'],
  ['an item by another, filtered', '{{ user[names.key].a|upper }}', 1, 'user[names.key].a'],
  ['what names an item', '{{ user[nothing] }}', 1, 'user[nothing]'],
  ['in a macro', '{% macro m(a) %}{{ a }}\n{{ b }}{% endmacro %}{{ m(1) }}', 2, 'b'],
  ['an argument that was not given', '{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}', 1, 'a'],
  ['set from another', '{% set a = b|int %}', 1, 'b'],
  ['beside others in the line', '{{ list[0].a }} {{ user }} {{ missing }} {{ list }}', 1, 'missing'],
  ['far to the right', `${'x'.repeat(100_000)}{{ missing.name }}`, 1, 'missing.name'],
])('a missing variable is named, with its line: %s', (_, source, line, variable) => {
  const data = { user: {}, list: [{ a: 1 }], key: 'age', names: { key: 'age' } }
  expect(html(source, data)).toEqual({
    part: 'html_body',
    line,
    variable,
    kind: 'undefined',
    message: `html_body, line ${line}: the variable "${variable}" is missing in template_data.`,
  })
})

test('a missing variable in a subject or text is reported there', () => {
  expect(messageOf(rendered({ subject: 'Hi {{ name }}' }))).toBe(
    'subject, line 1: the variable "name" is missing in template_data.',
  )
  expect(messageOf(text('{{ name }}'))).toBe('text_body, line 1: the variable "name" is missing in template_data.')
})

test.each([
  ['the filter', "a\n{{ 'x'|center('wide') }}", 2, 'the filter "center" needs a number as width'],
  [
    'the filter',
    "{{ 'x'|date }}",
    1,
    'the filter "date" needs a date such as 2026-05-31 or 2026-05-31T10:00:00Z, or seconds since 1970',
  ],
  ['the filter', "{{ 1|currency('euro') }}", 1, 'the filter "currency" needs a currency such as "EUR"'],
  [
    'the filter in a map',
    "{{ ['x']|map('date')|join }}",
    1,
    'the filter "date" needs a date such as 2026-05-31 or 2026-05-31T10:00:00Z, or seconds since 1970',
  ],
  ['the filter', '{{ (2 ** 100)|int }}', 1, 'the filter "int" needs a smaller number'],
  [
    'the filter',
    "{{ 'a'|truncate(10000, end='x' * 10001) }}",
    1,
    'the filter "truncate" needs arguments of at most 10000 characters',
  ],
  ['minijinja', '\n{{ 1 // 0 }}', 2, 'unable to calculate 1 // 0'],
  ['minijinja', '{{ [] + 1 }}', 1, 'tried to use + operator on unsupported types sequence and number'],
])('an error that %s finds has its line and describes the problem', (_, source, line, problem) => {
  expect(html(source)).toEqual({
    part: 'html_body',
    line,
    variable: undefined,
    kind: 'error',
    message: `html_body, line ${line}: ${problem}.`,
  })
})

test.each([
  ['a\n{{#if user.vip}}x{{/if}}', '{{#if', 2],
  ['{{{ body }}}', '{{{ body', 1],
  ['{{> footer}}', '{{> footer', 1],
  ['{% if a %}{{@index}}{% endif %}', '{{@index', 1],
])('check names the construct of Handlebars or Mustache in %j', (source, construct, line) => {
  const [fault] = engine.check({ html: source })
  expect(fault?.kind).toBe('syntax')
  expect(fault?.message).toStartWith(
    `html_body, line ${line}: "${construct}" is a construct of Handlebars or Mustache; in Jinja it is {% if … %}`,
  )
})

test('check returns the syntax errors of all parts', () => {
  expect(engine.check({ subject: 'Hi {{ name', html: '<p>{{ name }}</p>', text: '\n{% if %}' })).toEqual([
    {
      part: 'subject',
      line: 1,
      variable: undefined,
      kind: 'syntax',
      message: 'subject, line 1: unexpected end of input, expected end of variable block.',
    },
    {
      part: 'text_body',
      line: 2,
      variable: undefined,
      kind: 'syntax',
      message: 'text_body, line 2: unexpected end of block.',
    },
  ])
})

test.each([
  ['\n{{ a|uper }}', 'html_body, line 2: the filter "uper" is unknown.'],
  ['{% if false %}{{ a|uper }}{% endif %}', 'html_body, line 1: the filter "uper" is unknown.'],
  ['{% filter uper %}a{% endfilter %}', 'html_body, line 1: the filter "uper" is unknown.'],
  ['{{ a is not foo }}', 'html_body, line 1: the test "foo" is unknown.'],
  ["{{ a|map('uper')|join }}", 'html_body, line 1: the filter "uper" is unknown.'],
  ["{{ a|selectattr('b', 'foo')|list }}", 'html_body, line 1: the test "foo" is unknown.'],
  ['{% include "x" %}', 'html_body, line 1: "include" is not available: a template cannot use other templates.'],
  ['{%- extends "x" %}', 'html_body, line 1: "extends" is not available: a template cannot use other templates.'],
  ['{% import "x" as y %}', 'html_body, line 1: "import" is not available: a template cannot use other templates.'],
  ['{% from "x" import y %}', 'html_body, line 1: "from" is not available: a template cannot use other templates.'],
])('check finds what compiles but never works: %s', (source, message) => {
  expect(engine.check({ html: source }).map((fault) => [fault.kind, fault.message])).toEqual([['syntax', message]])
})

test.each([
  "{{ a|date('%Y')|upper|xmlattr }}{{ b is not none }}{{ c is divisibleby 3 }}{{ d is not in [1] }}",
  '{# {% include "x" %} #}{% raw %}{{ a|uper }}{% include "x" %}{% endraw %}{{ "a|uper is foo" }}',
  "{{ {'is': 1, 'a': {'b': 2}} }}{{ x.is }}{{ a if b is defined and not c else d }}",
  '{{ from.name }} {{ include }}',
  "{{ a|map(attribute='uper')|map('upper')|select('>', 4)|selectattr('foo')|rejectattr('foo', 'eq', 'bar')|join }}",
])('check accepts %s', (source) => {
  expect(engine.check({ subject: source, html: source })).toEqual([])
})

test('results of our filters are escaped in HTML, even for safe HTML as input', () => {
  const data = { evil: '<script>alert(1)</script>' }
  expect({
    truncate: html('{{ evil|truncate(12, true, "…", 0) }}', data),
    safe: html('{{ evil|safe|truncate(12, true, "", 0) }}', data),
    twice: html("{{ '<b>'|safe|center(5) }}{{ '<'|e|center(6) }}", data),
    format: html('{{ "<i>%s</i>"|safe|format(evil) }}', data),
    indent: html('{{ evil|safe|indent(2) }}', data),
    urlencode: html('<a href="?q={{ evil|urlencode }}">', data),
    attributes: html('<p{{ {"title": evil, "x\\"y": 1}|xmlattr }}>', data),
    text: text('{{ evil|truncate(12, true, "", 0) }}', data),
  }).toEqual({
    truncate: '&lt;script&gt;ale…',
    safe: '&lt;script&gt;aler',
    twice: ' &lt;b&gt;  &amp;lt; ',
    format: '&lt;i&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;/i&gt;',
    indent: '&lt;script&gt;alert(1)&lt;/script&gt;',
    urlencode: '<a href="?q=%3Cscript%3Ealert%281%29%3C/script%3E">',
    attributes: '<p title="&lt;script&gt;alert(1)&lt;/script&gt;" x&#34;y="1">',
    text: '<script>aler',
  })
})

test.each([
  ["{{ '2026-07-03'|date }}", '2026-07-03'],
  ["{{ '2026-07-03T08:05:09Z'|date('%A, %d %B %Y %H:%M:%S') }}", 'Friday, 03 July 2026 08:05:09'],
  ["{{ '2026-07-03T20:05'|date('%a %b %e %-d %y %I:%M %p %j %z %%') }}", 'Fri Jul  3 3 26 08:05 PM 184 +0000 %'],
  ["{{ '2026-07-03T22:30:00+02:00'|date('%Y-%m-%d %H:%M %z') }}", '2026-07-03 22:30 +0200'],
  ["{{ '2026-07-03T22:30:00Z'|date('%Y-%m-%d %H:%M %z', timezone='Europe/Berlin') }}", '2026-07-04 00:30 +0200'],
  ["{{ '2026-01-03T22:30:00Z'|date('%H:%M %z', 'America/New_York') }}", '17:30 -0500'],
  // A date without a time is the same day in every zone.
  ["{{ '2026-04-01'|date('%d %B %Y', 'America/New_York') }}", '01 April 2026'],
  ["{{ '2026-04-01'|date('%A %-d %H:%M %z', 'Pacific/Auckland') }}", 'Wednesday 1 00:00 +1300'],
  ["{{ '2026-04-01T02:00:00'|date('%d %B %Y', 'America/New_York') }}", '31 March 2026'],
  ["{{ 1767225600|date('%Y-%m-%d %H:%M') }}", '2026-01-01 00:00'],
  ["{{ 1767225600000|date('%Y-%m-%d %H:%M', 'Asia/Kolkata') }}", '2026-01-01 05:30'],
  ["{{ '0099-02-28'|date('%Y-%m-%d') }}", '0099-02-28'],
])('a date: %s', (source, expected) => {
  expect(text(source)).toBe(expected)
})

test.each([
  "'2026-02-29'|date",
  "'2026-13-01'|date",
  "'2026-01-01T24:00'|date",
  '1e300|date',
  "'today'|date",
  "'2026-01-01'|date('%Q')",
  "1|date('%Y', 'Mars/Olympus')",
  'none|date',
  '[]|date',
])('not a date: %s', (expression) => {
  expect(messageOf(text(`{{ ${expression} }}`))).toStartWith('text_body, line 1: the filter "date" ')
})

test.each([
  ["{{ 1234.5|currency('EUR') }}", '€1,234.50'],
  ["{{ 1234.5|currency('EUR', 'de-DE') }}", '1.234,50 €'],
  ["{{ '99'|currency('USD', locale='en-US') }}", '$99.00'],
  ["{{ 1234|currency('JPY', 'ja-JP') }}", '¥1,234'],
])('an amount: %s', (source, expected) => {
  // Locales use various kinds of space between them.
  expect(String(text(source)).normalize('NFKC')).toBe(expected.normalize('NFKC'))
})

test.each([
  ["{{ '12'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ 3.9|int }} {{ '3.9'|int }} {{ true|int }}", '12 0 7 3 3 1'],
  ["{{ '3'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 2|float }}", '3.0 0.0 1.5 2.0'],
  ["{{ 2.1|round(0, 'ceil') }} {{ 2.9|round(method='floor') }} {{ 2.55|round(1, 'common') }}", '3.0 2.0 2.5'],
  ["{{ [{'a': 1.5}, {'a': 2.5}]|sum(attribute='a') }} {{ [{'a': 1}, {'a': 2}]|join('-', attribute='a') }}", '4.0 1-2'],
])('numbers as in Jinja: %s', (source, expected) => {
  expect(text(source)).toBe(expected)
})

test('data is passed whatever its names are', () => {
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`name${at}`, at]))
  expect(text('{{ name7 }}{% for n in [name8] %}{{ n + name9 }}{% endfor %}', many)).toBe('717')
  expect(text('{{ __proto__ }} {{ constructor }}', JSON.parse('{"__proto__": 1, "constructor": 2}'))).toBe('1 2')
})

test('a template of usual size takes less than a hundredth of the budget', () => {
  const rows = Array.from({ length: 20 }, (_, at) => ({ name: `Item ${at}`, price: at * 1.5, isNew: at % 2 === 0 }))
  const row = '<tr>{% if r.isNew %}<td>new</td>{% endif %}<td>{{ r.name }}</td><td>{{ r.price|round(2) }}</td></tr>'
  const source = `${'<p>Some words that are the same in every message.</p>\n'.repeat(110)}{% for r in rows %}${row}{% endfor %}`
  expect(typeof html(source, { rows })).toBe('string')
  const { unitsTaken } = engine.state()
  expect(unitsTaken).toBeGreaterThan(10_000)
  expect(unitsTaken).toBeLessThan(100_000)
})

test('compiled templates are cached up to a limit, the most recent ones', () => {
  const small = new Engine()
  const render = (at: number) => small.render({ html: `${at}${'<p>{{ a }}</p>'.repeat(1000)}` }, '{"a": 1}', 1)
  for (let at = 0; at < 250; at++) render(at)
  const { compiledTemplates } = small.state()
  // 14 KB each, 50 KB with the guards, counted as ten times as much.
  expect(compiledTemplates).toBeGreaterThan(40)
  expect(compiledTemplates).toBeLessThan(60)
  render(249)
  expect(small.state().compiledTemplates).toBe(compiledTemplates)
})

test('memory of cached templates is available to the next render', () => {
  const source = { text: "{{ ('x' * length)|length }}" }
  // Nearly the whole budget.
  const data = '{"length": 30000000}'
  const expected = new Engine().render(source, data, 1)
  expect(expected).toEqual({ kind: 'rendered', parts: { text: '30000000' } })
  const used = new Engine()
  for (let at = 0; at < 100; at++) used.render({ text: `${at}${'{{ a }}'.repeat(2000)}` }, '{"a": 1}', 1)
  expect(used.state().memoryBytes).toBeGreaterThan(10_000_000)
  expect(used.render(source, data, 1)).toEqual(expected)
})

test('templates that cannot be compiled leave nothing behind', () => {
  const small = new Engine()
  for (let at = 0; at < 300; at++) small.check({ html: `${at}${'x'.repeat(10_000)}{{ a` })
  expect(small.state().compiledTemplates).toBe(0)
  expect(small.state().memoryBytes).toBeLessThan(3_000_000)
})

test('an unknown filter or test is named even where its name is given as a string', () => {
  expect(html("\n{{ ['x']|map('nothing')|join }}")).toMatchObject({
    line: 2,
    message: 'html_body, line 2: the filter "nothing" is unknown.',
  })
  expect(messageOf(text("{{ [1]|select('nothing')|join }}"))).toBe('text_body, line 1: the test "nothing" is unknown.')
})

test('messages and names from a template are truncated between two characters', () => {
  const name = `${'v'.repeat(98)}_long`
  expect(text(`{{ ${name} }}`)).toMatchObject({
    variable: `${'v'.repeat(98)}_…`,
    message: `text_body, line 1: the variable "${'v'.repeat(98)}_…" is missing in template_data.`,
  })
  const filter = `{{ 'x'|format('${'y'.repeat(500)}') }}{{ '%(${'k'.repeat(283)}😀k)s'|format(a=1) }}`
  expect(messageOf(text(filter.slice(filter.indexOf('}}') + 2)))).toBe(
    `text_body, line 1: the filter "format" has no argument "${'k'.repeat(299 - 'the filter "format" has no argument "'.length)}….`,
  )
  expect(messageOf(text(`{{ '%(${'k'.repeat(261)}😀k)s'|format(a=1) }}`))).toBe(
    `text_body, line 1: the filter "format" has no argument "${'k'.repeat(261)}….`,
  )
  const [unknown] = engine.check({ html: `{{ x|${'f'.repeat(900_000)} }}` })
  expect(unknown?.message.length).toBeLessThan(350)
})

test.each([
  [
    '{{ id }} {{ [id]|tojson }} {{ id + 1 }} {{ id == id }}',
    '9007199254740993 [9007199254740993] 9007199254740994 true',
  ],
  ['{{ least }} {{ most }}', '-9223372036854775808 18446744073709551615'],
  ['{{ fraction }} {{ exponent }} {{ text }}', '9007199254740992.0 1000000000000000000000.0 1234567890123456789'],
])('a 64-bit integer is printed as it was written: %s', (source, expected) => {
  const json =
    '{"id": 9007199254740993, "least": -9223372036854775808, "most": 18446744073709551615, "fraction": 9007199254740993.0, "exponent": 1e21, "text": "1234567890123456789", "__proto__": {"x": 1}}'
  expect(engine.render({ text: source }, json, 1)).toEqual({ kind: 'rendered', parts: { text: expected } })
  expect(engine.render({ text: '{{ __proto__.x }}' }, json, 1)).toEqual({ kind: 'rendered', parts: { text: '1' } })
})

test('an integer that our filters cannot take is an error that names it', () => {
  expect(engine.render({ text: "{{ '%d'|format(id) }}" }, '{"id": 9007199254740993}', 1)).toMatchObject({
    fault: { message: expect.stringMatching(/^text_body, line 1: .*9007199254740993 can't be represented/) },
  })
})

test('a division by zero is an error; no result such as "inf" is printed', () => {
  const divided = 'text_body computes something that is not a number, such as a division by zero: test for 0 first.'
  expect([
    messageOf(text('{{ 0 / zero }}', { zero: 0 })),
    messageOf(text('{{ 1 / zero }}', { zero: 0 })),
    messageOf(text('{{ (0 / zero)|round(1) }}', { zero: 0 })),
    text('{{ word }} NaN inf', { word: 'NaN' }),
    text('{{ word }}', { word: 'inf' }),
    text('{{ word|lower }}', { word: 'INF' }),
  ]).toEqual([divided, divided, divided, 'NaN NaN inf', 'inf', 'inf'])
})

/** Units that a filter takes for a text of this length. */
const unitsOf = (source: string, data: unknown): number => {
  text(source, data)
  return engine.state().unitsTaken
}

test.each([
  ['center(1)', 0],
  ['int', 0],
  ['float', 0],
  ['indent', 12],
  ['truncate(5)', 0],
  ['wordcount', 12],
  ['wordwrap', 30],
  ['urlencode', 1],
  ['format', 0],
  ["round(1, 'ceil')", 0],
])('a filter takes a unit per character, and more where each is processed: %s', (filter, more) => {
  const taken = (length: number): number =>
    unitsOf(`{% set x = a|${filter} %}`, { a: 'x'.repeat(length), pad: 'y'.repeat(300_000 - length) })
  const growth = (taken(100_000) - taken(50_000)) / 50_000
  expect(growth).toBeGreaterThanOrEqual(1 + more)
})

test('an argument takes a unit per character as well', () => {
  const taken = (length: number): number =>
    unitsOf("{% set x = '%.1s'|format(a) %}", { a: 'x'.repeat(length), pad: 'y'.repeat(300_000 - length) })
  expect((taken(100_000) - taken(50_000)) / 50_000).toBeGreaterThanOrEqual(1)
})

test('a formatter costs units once per render, and again in the next render', () => {
  const data = { zones: Intl.supportedValuesOf('timeZone').slice(0, 70) }
  const one = "{% for z in zones %}{% set x = 1|date('%Y', zones[0]) %}{% endfor %}"
  const each = "{% for z in zones %}{% set x = 1|date('%Y', z) %}{% endfor %}"
  const first = unitsOf(one, data)
  expect(first).toBeGreaterThan(100_000)
  expect(first).toBeLessThan(1_000_000)
  expect(Math.abs(unitsOf(one, data) - first)).toBeLessThan(10_000)
  expect(unitsOf(each, data)).toBeGreaterThan(7_000_000)
  expect(unitsOf(`${each}${one}`, data)).toBeLessThan(9_000_000)
})

test('an overlong path or tag is not rewritten, and still renders', () => {
  const deep = Array.from({ length: 60 }).reduce<unknown>((inner) => ({ a: inner }), 'x')
  expect(text(`{{ d${'.a'.repeat(60)}|upper }}`, { d: deep })).toBe('X')
  // The error for a missing variable comes from the rewriting, so here the missing one renders as an empty text.
  expect(text(`{{ d${'.a'.repeat(60)}.b|upper }}`, { d: deep })).toBe('')
  expect(text(`{{ ${'n'.repeat(2000)}|upper }}`, { ['n'.repeat(2000)]: 'x' })).toBe('X')
  expect(text(`{{ [${'a|upper, '.repeat(700)}a]|length }}`, { a: 'x' })).toBe('701')
})

test('data that is not an object is an error', () => {
  for (const json of ['[]', 'null', '1', '{', ''])
    expect(engine.render({ text: 'a' }, json, 1)).toMatchObject({ fault: { part: undefined, kind: 'error' } })
})
