/**
 * @module Renders the same templates in Jinja itself, with autoescape and StrictUndefined: the results are the same,
 * apart from the differences listed here.
 */
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Engine } from '#platform/template/engine.ts'

const DATA = {
  user: {
    name: 'ada lovelace',
    email: 'ada@example.com',
    is_vip: true,
    age: 36,
    tags: ['math', 'engines'],
    address: { city: 'London' },
  },
  title: 'Fish & "Chips" <now>',
  html: '<p>Hello <b>you</b> &amp; all</p>',
  long: 'The quick brown fox jumps over the lazy dog and runs far away',
  umlauts: 'Größe Straße Äpfel',
  lines: 'one\ntwo\n\nthree',
  price: 1234.5,
  count: 3,
  negative: -7,
  zero: 0,
  empty: '',
  nothing: [] as number[],
  numbers: [5, 3, 9, 1, 7],
  words: ['pear', 'Apple', 'fig', 'apple'],
  items: [
    { name: 'Pen', price: 2.5, qty: 4, kind: 'office' },
    { name: 'Ink', price: 12.25, qty: 1, kind: 'office' },
    { name: 'Tea', price: 3, qty: 2, kind: 'kitchen' },
  ],
  matrix: [
    [1, 2],
    [3, 4],
  ],
  settings: { alpha: 1, beta: 'two', gamma: 3.5 },
  url: 'https://example.com/a?b=c&d=e',
}

/** Title -> source; titles of HTML templates begin with `html`. */
const SAME: Readonly<Record<string, string>> = {
  'text and variables': 'Dear {{ user.name }}, you are {{ user.age }} years old.',
  'nested attributes and subscripts':
    "{{ user.address.city }} {{ user['email'] }} {{ user.tags[1] }} {{ matrix[1][0] }}",
  'a loop with its variable':
    '{% for n in numbers %}{{ loop.index }}/{{ loop.length }}:{{ loop.index0 }}:{{ loop.revindex }}:{{ loop.revindex0 }}:{{ n }}{% if not loop.last %}, {% endif %}{% endfor %}',
  'a loop with first and last':
    '{% for n in numbers %}{% if loop.first %}[{% endif %}{{ n }}{% if loop.last %}]{% endif %}{% endfor %}',
  'a loop with cycle': "{% for i in items %}<{{ loop.cycle('odd', 'even') }}>{{ i.name }}{% endfor %}",
  'a loop with its neighbours':
    '{% for n in numbers %}{% if not loop.first %}{{ loop.previtem }}<{% endif %}{{ n }}{% if not loop.last %}>{{ loop.nextitem }}{% endif %};{% endfor %}',
  'a loop with changed':
    '{% for i in items %}{% if loop.changed(i.kind) %}{{ i.kind }}: {% endif %}{{ i.name }} {% endfor %}',
  'a loop with else': '{% for n in nothing %}{{ n }}{% else %}none at all{% endfor %}',
  'a loop with a condition': '{% for i in items if i.price > 2.75 %}{{ i.name }} {{ loop.index }} {% endfor %}',
  'a loop in a loop': '{% for row in matrix %}{% for n in row %}{{ loop.index }}{{ n }} {% endfor %}|{% endfor %}',
  'a loop that unpacks': '{% for a, b in matrix %}{{ a }}-{{ b }} {% endfor %}',
  'a recursive loop':
    '{% for n in [[1, [2, 3]], 4] recursive %}{% if n is sequence %}({{ loop(n) }}){% else %}{{ n }} {% endif %}{% endfor %}',
  'a mapping, looped over': '{% for key, value in settings.items() %}{{ key }}={{ value }};{% endfor %}',
  'keys and values': "{{ settings.keys()|join(',') }} {{ settings.values()|join(',') }} {{ settings.get('beta') }}",
  'if, elif and else': '{% if count > 5 %}many{% elif count > 2 %}some{% else %}few{% endif %}',
  'what is true':
    '{% if empty %}1{% endif %}{% if nothing %}2{% endif %}{% if zero %}3{% endif %}{% if user %}4{% endif %}{% if not empty %}5{% endif %}',
  'a conditional expression': "{{ 'VIP' if user.is_vip else 'guest' }} {{ 'many' if count > 5 else 'few' }}",
  'and, or and not':
    "{{ 'a' if user.is_vip and count == 3 }}{{ 'b' if zero or count }}{{ 'c' if not zero }}{{ empty or 'd' }}{{ count and 'e' }}",
  comparisons:
    "{% if 1 < count <= 3 %}a{% endif %}{% if count != 4 %}b{% endif %}{% if 'x' < 'y' %}c{% endif %}{% if count >= 3 %}d{% endif %}",
  'in and not in':
    "{% if 3 in numbers %}a{% endif %}{% if 'fig' in words %}b{% endif %}{% if 'qui' in long %}c{% endif %}{% if 'alpha' in settings %}d{% endif %}{% if 4 not in numbers %}e{% endif %}",
  arithmetic:
    '{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 // 2 }} {{ 7 % 3 }} {{ 2 ** 10 }} {{ 7 / 2 }} {{ -count }} {{ negative // 2 }} {{ 10 - 2.5 }}',
  'division gives a float': '{{ 4 / 2 }} {{ 1 / 3 }}',
  concatenation: "{{ 'a' ~ 1 ~ 2.5 ~ user.name }} {{ 'a' + 'b' }} {{ 'ab' * 3 }}",
  'lists, added': '{{ (numbers + [2])|length }} {{ ([1] + [2, 3])|join }}',
  set: "{% set greeting = 'Hi ' ~ user.name %}{{ greeting }}{% set (a, b) = (1, 2) %}{{ a + b }}",
  'set with a block': '{% set block %}Hi {{ user.name }}{% endset %}[{{ block }}]',
  'set in a loop stays there': '{% set x = 1 %}{% for n in numbers %}{% set x = n %}{% endfor %}{{ x }}',
  'a namespace':
    '{% set ns = namespace(total=0) %}{% for i in items %}{% set ns.total = ns.total + i.price * i.qty %}{% endfor %}{{ ns.total }}',
  with: '{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}',
  'a macro with defaults':
    "{% macro field(name, value='', size=10) %}{{ name }}={{ value }}:{{ size }}{% endmacro %}{{ field('a') }} {{ field('b', 'c', size=2) }}",
  'html: a macro and its caller':
    '{% macro box(title) %}<div title="{{ title }}">{{ caller() }}</div>{% endmacro %}{% call box("A & B") %}<i>{{ user.name }}</i>{% endcall %}',
  'html: a macro is not escaped twice': '{% macro b(x) %}<b>{{ x }}</b>{% endmacro %}{{ b("<i>") }}',
  'html: a caller with arguments':
    '{% macro each(list) %}{% for x in list %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(x) each(words) %}<li>{{ x }}</li>{% endcall %}',
  'white space control': 'a  {%- if true -%}  b  {%- endif -%}  c\n{{- " d " -}}\n e',
  'line breaks stay': 'a\n{% if true %}\nb\n{% endif %}\nc\n',
  comments: 'a{# nothing {{ here }} #}b{#- nor here -#} c',
  raw: '{% raw %}{{ not.me }}{% if %}{% endraw %} {{ count }}',
  slices:
    '{{ long[4:9] }} {{ long[-3:] }} {{ long[:3] }} {{ numbers[1:3]|join }} {{ numbers[::2]|join }} {{ numbers[-1] }} {{ long[::-1][:5] }}',
  'methods of strings':
    "{{ 'a,b'.split(',')|join('+') }} {{ user.name.upper() }} {{ ' x '.strip() }} {{ 'abc'.startswith('a') and 'yes' }} {{ 'abc'.replace('b', 'x') }} {{ 'ab'.title() }} {{ 'abc'.find('c') }}",
  literals: "{{ [1, 'two', 3.5]|join(',') }} {{ {'a': 1}['a'] }} {{ (1, 2)|length }} {{ {'a': {'b': 2}}.a.b }}",
  'html: autoescape': '{{ title|replace("\\"", "") }} {{ "a & b" }} {{ "<" ~ ">" }}',
  'html: safe': '{{ html|safe }} {{ "<br>"|safe }}',
  'html: autoescape is switched':
    '{% autoescape false %}{{ html }}{% endautoescape %}{{ html }}{% autoescape true %}{{ html }}{% endautoescape %}',
  'html: a slash stays as it is': '<a href="{{ url }}">{{ url }}</a>',
  'html: a block is not escaped twice': '{% set x %}<b>{{ html }}</b>{% endset %}{{ x }}',
  'no escaping in text': '{{ title }} {{ html }}',
  default:
    "{{ missing|default('x') }} {{ missing|d('y') }} {{ user.middle|default('z') }} {{ empty|default('e', true) }} {{ empty|default('f') }} {{ missing|default }}|",
  'is defined':
    "{% if missing is defined %}a{% else %}b{% endif %}{% if user.middle is not defined %}c{% endif %}{% if user.name is defined %}d{% endif %}{{ 'e' if missing is undefined }}",
  tests:
    "{{ 'a' if 3 is odd }}{{ 'b' if 4 is even }}{{ 'c' if count is divisibleby(3) }}{{ 'd' if user is mapping }}{{ 'e' if words is sequence }}{{ 'f' if 'x' is string }}{{ 'g' if count is number }}{{ 'h' if none is none }}{{ 'i' if words is iterable }}{{ 'j' if 'AB' is upper }}{{ 'k' if count is eq(3) }}{{ 'l' if count is not none }}{{ 'm' if 'x' is in('xyz') }}{{ 'n' if true is boolean }}{{ 'o' if 1 is sameas(1) }}",
  'upper, lower, title, capitalize':
    '{{ user.name|upper }} {{ title|lower }} {{ user.name|title }} {{ user.name|capitalize }} {{ umlauts|upper }}',
  'trim and replace': "[{{ '  x '|trim }}] {{ 'xxaxx'|trim('x') }} {{ long|replace('o', '0') }}",
  'length, first and last':
    '{{ numbers|length }} {{ long|length }} {{ numbers|first }} {{ words|last }} {{ settings|count }} {{ umlauts|length }}',
  join: "{{ numbers|join(', ') }} {{ words|join }} {{ items|join(', ', attribute='name') }} {{ items|map(attribute='name')|join('/') }}",
  sort: "{{ numbers|sort|join }} {{ numbers|sort(reverse=true)|join }} {{ words|sort|join(' ') }} {{ items|sort(attribute='price')|map(attribute='name')|join }} {{ words|sort(case_sensitive=true)|join(' ') }}",
  'unique, reverse, min, max and sum':
    "{{ words|unique|join(' ') }} {{ numbers|reverse|join }} {{ numbers|min }} {{ numbers|max }} {{ numbers|sum }} {{ 'abc'|reverse }} {{ items|sum(attribute='qty') }}",
  'map with a filter':
    "{{ words|map('upper')|join(' ') }} {{ items|map(attribute='price')|sum }} {{ numbers|map('string')|join }}",
  'select and reject':
    "{{ numbers|select('odd')|join }} {{ numbers|reject('gt', 4)|join }} {{ numbers|select('>', 4)|join }} {{ [0, 1, '', 'a']|select|join }}",
  'selectattr and rejectattr':
    "{{ items|selectattr('kind', 'eq', 'office')|map(attribute='name')|join }} {{ items|rejectattr('kind', 'equalto', 'office')|map(attribute='name')|join }}",
  groupby:
    "{% for kind, list in items|groupby('kind') %}{{ kind }}: {{ list|map(attribute='name')|join(',') }};{% endfor %}{% for g in items|groupby('kind') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}",
  'batch and slice':
    "{% for row in numbers|batch(2, '-') %}{{ row|join }};{% endfor %}{% for column in numbers|slice(2) %}{{ column|join }};{% endfor %}{% for c in numbers|slice(3, 0) %}{{ c|join }};{% endfor %}",
  dictsort:
    "{% for k, v in settings|dictsort %}{{ k }}{{ v }} {% endfor %}{% for k, v in {'b': 1, 'a': 2}|dictsort(by='value') %}{{ k }}{% endfor %}{% for k, v in {'b': 1, 'a': 2}|dictsort(reverse=true) %}{{ k }}{% endfor %}",
  items: '{% for k, v in settings|items %}{{ k }}:{{ v }} {% endfor %}',
  'int, float and string':
    "{{ '42'|int + 1 }} {{ '3.5'|float * 2 }} {{ 'x'|int(7) }} {{ 3.9|int }} {{ 42|string ~ '!' }} {{ 'x'|float(1.5) }}",
  'abs and round':
    "{{ negative|abs }} {{ 2.567|round(2) }} {{ 2.4|round }} {{ 2.1|round(0, 'ceil') }} {{ 2.9|round(method='floor') }} {{ 1234.5678|round(1) }}",
  list: "{{ 'abc'|list|join('-') }} {{ range(3)|list|length }}",
  range:
    '{% for i in range(3) %}{{ i }}{% endfor %} {% for i in range(2, 10, 3) %}{{ i }}{% endfor %} {{ range(5, 0, -2)|join }}',
  'filters in a chain':
    "{{ user.name|upper|replace('A', '4')|reverse }} {{ words|map('lower')|unique|sort|join(', ') }}",
  'a filter block': '{% filter upper %}hi {{ user.name }}{% endfilter %}',
  wordcount: '{{ long|wordcount }} {{ lines|wordcount }} {{ umlauts|wordcount }}',
  truncate:
    "{{ long|truncate(20) }} {{ long|truncate(20, true) }} {{ long|truncate(20, end='…') }} {{ 'short'|truncate(3) }} {{ 'foo bar baz qux'|truncate(11, false, '...', 0) }} {{ long|truncate(12, leeway=0) }}",
  wordwrap:
    "{{ long|wordwrap(20) }}|{{ long|wordwrap(7) }}|{{ lines|wordwrap(3) }}|{{ 'well-known x'|wordwrap(6) }}|{{ long|wordwrap(10, wrapstring='/') }}|{{ 'abcdefghij kl'|wordwrap(4, false) }}|{{ '  a  b '|wordwrap(3) }}|{{ 'abcdefghij kl'|wordwrap(4) }}",
  center: "[{{ 'ab'|center(6) }}] [{{ 'abc'|center(6) }}] [{{ 'ab'|center(5) }}] [{{ 'abcdef'|center(3) }}]",
  indent:
    "{{ lines|indent }}|{{ lines|indent(2, true) }}|{{ lines|indent(2, blank=true) }}|{{ lines|indent('> ') }}|{{ 'a\n'|indent }}|",
  filesizeformat:
    '{{ 1|filesizeformat }} {{ 999|filesizeformat }} {{ 1000|filesizeformat }} {{ 1536|filesizeformat(true) }} {{ 123456789|filesizeformat }} {{ 5000000000|filesizeformat(binary=true) }} {{ 0|filesizeformat }}',
  format:
    "{{ '%s is %d'|format(user.name, 36) }} {{ '%.2f'|format(price) }} {{ '%05d|%-5s|%5s|%+d|%x|%X|%o|%%'|format(42, 'a', 'b', 7, 255, 255, 8) }} {{ '%(a)s-%(b)02d'|format(a='x', b=5) }} {{ '%e %g %g %g'|format(12345.678, 0.0001, 1e10, 100000) }} {{ '%.0f %.0f %.1f'|format(0.5, 1.5, 0.25) }} {{ '%5.1f|%-8.3f|%08.2f'|format(3.14159, 2.5, -1.5) }} {{ '%c%.3s'|format('a', 'bcdef') }}",
  'html: format escapes': "{{ '<b>%s</b>'|format(title|replace('\"', '')) }}",
  urlencode:
    "{{ 'a b&c/d?e=f~ü'|urlencode }} {{ [['a', 1], ['b c', 'x/y']]|urlencode }} {{ 'it\\'s (ok)!*'|urlencode }}",
  'html: xmlattr':
    '<ul{{ {"class": "my list", "id": "a<b", "title": none}|xmlattr }}>{{ {"a": 1}|xmlattr(false) }}{{ {}|xmlattr }}',
  striptags: '{{ html|striptags }} {{ "<a>x</a>  <!-- c --> y"|striptags }}',
  'html: striptags': '{{ html|striptags }}',
  'loop controls by conditions':
    "{% for n in numbers if n is odd and n > 1 %}{{ n }}{{ ',' if not loop.last }}{% endfor %}",
  'attribute and item': "{{ items[0].name }} {{ items[0]['price'] }} {{ (items|first).qty }}",
  'strings of several kinds': "{{ \"it's\" }} {{ 'say \"x\"' }} {{ 'a\\nb' }} {{ 'tab\\tx' }}",
  unicode: '{{ umlauts }} ✓ {{ "日本語"|length }} {{ "日本語"|reverse }} {{ "é"|upper }}',
  'numbers as they are written': '{{ 1.5 }} {{ 100 }} {{ 1.0 }} {{ 1e3 }} {{ price }} {{ 0.1 + 0.2 }}',
  'a joiner and a cycler': "{% set pipe = joiner('|') %}{% for n in numbers %}{{ pipe() }}{{ n }}{% endfor %}",
  'dict()': '{{ dict(a=1, b=2).b }}',
  'nothing at all': '',
  'a last line break is removed': 'a\n',
}

/** Sources that both refuse. */
const REFUSED: Readonly<Record<string, string>> = {
  'a variable that is missing': '{{ missing }}',
  'an attribute that is missing': '{{ user.middle }}',
  'an attribute of what is missing': '{{ missing.name }}',
  'a loop over what is missing': '{% for x in missing %}{% endfor %}',
  'a missing condition': '{% if missing %}{% endif %}',
  'not a missing condition': '{% if not missing %}{% endif %}',
  'a filter of what is missing': '{{ missing|upper }}',
  'a filter of a missing attribute': '{{ user.middle|title|trim }}',
  'a comparison with what is missing': '{{ missing == 1 }}',
  'another comparison with what is missing': '{{ 1 == missing }}',
  'a concatenation with what is missing': '{{ "a" ~ missing }}',
  'a sum with what is missing': '{{ 1 + missing }}',
  'a list that has what is missing': '{{ missing in [1] }}',
  'a default of an attribute of what is missing': "{{ missing.name|default('x') }}",
  'an unknown filter': '{{ 1|nothing }}',
  'an unknown test': '{{ 1 is nothing }}',
  'a tag that is open': '{{ user',
  'a statement that is open': '{% if user %}',
  'a statement that is unknown': '{% nothing %}',
  'another template': '{% include "a" %}',
  'a truncation that is too short': '{{ long|truncate(2) }}',
  'a format without arguments': '{{ "%d"|format() }}',
  'division by zero': '{{ 1 // 0 }}',
}

interface Difference {
  readonly source: string
  readonly jinja: string
  readonly ours: string
}

/** Differences that are intended or not worth fixing, with both results. */
const DIFFERENT: Readonly<Record<string, Difference>> = {
  'html: quotes are other entities of the same characters': {
    source: `{{ '"' }}{{ "'" }}`,
    jinja: '&#34;&#39;',
    ours: '&quot;&#x27;',
  },
  'none, true and false are written in lower case': {
    source: '{{ none }} {{ true }} {{ false }}',
    jinja: 'None True False',
    ours: 'none true false',
  },
  'lists and mappings are written as JSON': { source: "{{ ['a', 1] }}", jinja: "['a', 1]", ours: '["a", 1]' },
  'mappings are in the order of their keys': {
    source: "{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}",
    jinja: 'b1a2',
    ours: 'a2b1',
  },
  'tojson writes no spaces': { source: "{{ {'a': [1, 2]}|tojson }}", jinja: '{"a": [1, 2]}', ours: '{"a":[1,2]}' },
  'a whole number in the data has no decimal point': { source: '{{ whole }}', jinja: '3.0', ours: '3' },
  'html: the result of a filter on safe HTML is escaped': {
    source: "{{ '<b>bold</b>'|safe|upper }}",
    jinja: '<B>BOLD</B>',
    ours: '&lt;B&gt;BOLD&lt;/B&gt;',
  },
  'html: no filter of ours makes text safe': {
    source: '{{ html|safe|truncate(9, true, "", 0) }}',
    jinja: '<p>Hello ',
    ours: '&lt;p&gt;Hello ',
  },
  'get has no default': {
    source: "{{ settings.get('x', 'no') }}",
    jinja: 'no',
    ours: 'text_body, line 1: a method is unknown, or takes other arguments.',
  },
  'replace has no count': {
    source: "{{ 'aaa'|replace('a', 'b', 2) }}",
    jinja: 'bba',
    ours: 'text_body, line 1: a filter, test or function has too many arguments.',
  },
  'dictsort takes its arguments by name': {
    source: "{{ {'a': 1}|dictsort(false, 'value')|length }}",
    jinja: '1',
    ours: 'text_body, line 1: a filter, test or function has too many arguments.',
  },
  'names that set unpacks need brackets': {
    source: '{% set a, b = 1, 2 %}{{ a + b }}',
    jinja: '3',
    ours: 'text_body, line 1: unexpected `,`, expected assignment operator.',
  },
  'texts are formatted by the filter, not by %': {
    source: "{{ '%d' % 3 }}",
    jinja: '3',
    ours: 'text_body, line 1: tried to use % operator on unsupported types string and number.',
  },
  'a range has at most 100,000 numbers': {
    source: '{{ range(200000)|length }}',
    jinja: '200000',
    ours: 'text_body, line 1: range has too many elements.',
  },
}

type Answer = { readonly text: string } | { readonly error: string }

const isHtml = (title: string): boolean => title.startsWith('html')

/** Jinja's results. */
async function jinja(requests: readonly { source: string; html: boolean }[]): Promise<readonly Answer[]> {
  const script = join(import.meta.dir, '../../support/jinja.py')
  const child = Bun.spawn(['python3', script], { stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' })
  child.stdin.write(
    requests.map((request) => `${JSON.stringify(request).slice(0, -1)},"data":${DATA_JSON}}\n`).join(''),
  )
  await child.stdin.end()
  const lines = (await new Response(child.stdout).text()).trim().split('\n')
  return lines.map((line) => JSON.parse(line) as Answer)
}

/** The only number that JavaScript cannot represent: it reaches us as 3. */
const DATA_JSON = `${JSON.stringify(DATA).slice(0, -1)},"whole":3.0}`

function ours(source: string, html: boolean): Answer {
  const outcome = engine.render(html ? { html: source } : { text: source }, DATA_JSON, 1)
  if (outcome.kind === 'fault') return { error: outcome.fault.message }
  return { text: outcome.parts.html ?? outcome.parts.text ?? '' }
}

const engine = new Engine()

/** In CI these tests always run, and fail without Jinja. */
const hasJinja = process.env['CI'] === 'true' || Bun.spawnSync(['python3', '-c', 'import jinja2']).exitCode === 0

describe.skipIf(!hasJinja)('compared with Jinja', () => {
  test('the same templates give the same texts', async () => {
    const requests = Object.entries(SAME).map(([title, source]) => ({ source, html: isHtml(title) }))
    const expected = await jinja(requests)
    const got = requests.map(({ source, html }) => ours(source, html))
    expect(Object.fromEntries(Object.keys(SAME).map((title, at) => [title, got[at]]))).toEqual(
      Object.fromEntries(Object.keys(SAME).map((title, at) => [title, expected[at]])),
    )
    expect(expected.filter((answer) => 'error' in answer)).toEqual([])
  })

  test('both refuse the same templates', async () => {
    const requests = Object.values(REFUSED).map((source) => ({ source, html: false }))
    const expected = await jinja(requests)
    const notRefused = Object.keys(REFUSED).filter((_, at) => 'text' in (expected[at] ?? {}))
    const notRefusedHere = Object.entries(REFUSED).filter(([, source]) => 'text' in ours(source, false))
    expect({ notRefused, notRefusedHere }).toEqual({ notRefused: [], notRefusedHere: [] })
  })

  test('only the listed differences exist', async () => {
    const requests = Object.entries(DIFFERENT).map(([title, { source }]) => ({ source, html: isHtml(title) }))
    const expected = await jinja(requests)
    const shown = Object.entries(DIFFERENT).map(([title, { source }], at) => {
      const [theirs, here] = [expected[at], ours(source, isHtml(title))]
      return [title, { source, jinja: textOf(theirs), ours: textOf(here) }]
    })
    expect(Object.fromEntries(shown)).toEqual(DIFFERENT)
  })
})

const textOf = (answer: Answer | undefined): string =>
  answer === undefined ? '' : 'text' in answer ? answer.text : answer.error
