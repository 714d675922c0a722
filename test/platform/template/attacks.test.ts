/**
 * @module Attacks by a hostile tenant: each ends in an error or a result within the limits, and delays no one else.
 * Times are not asserted: a busy machine would fail such tests.
 */
import { expect, test } from 'bun:test'
import type { RenderOutcome, TemplateSource } from '#platform/template/renderer.ts'
import { WorkerRenderer } from '#platform/template/worker-renderer.ts'
import { MiB } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

interface Attempt {
  readonly source: TemplateSource
  readonly data?: Record<string, unknown>
  /** `rendered`, or the kind of the error. */
  readonly ends: string
  /** Of the rendered text. */
  readonly text?: string
}

const text = (source: string, ends: string, data?: Record<string, unknown>): Attempt => ({
  source: { text: source },
  ends,
  ...(data && { data }),
})
const gives = (source: string, result: string, data?: Record<string, unknown>): Attempt => ({
  ...text(source, 'rendered', data),
  text: result,
})

const BIG = 'x'.repeat(MiB - 100)
const FOREVER = (body: string): string =>
  `{% for i in range(10000) %}{% for j in range(10000) %}${body}{% endfor %}{% endfor %}`
const DOUBLED = (times: number): string =>
  `{% set ns = namespace(a=[1]) %}{% for i in range(${times}) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}`

const ATTEMPTS: Readonly<Record<string, Attempt>> = {
  // Escapes.
  'a constructor': text('{{ name.constructor }}', 'undefined', { name: 'x' }),
  'a constructor of a constructor': text('{{ list.constructor.constructor("return process")() }}', 'error', {
    list: [],
  }),
  'a prototype': text('{{ object.__proto__ }}', 'undefined', { object: {} }),
  'a prototype in the data': gives('{{ object.__proto__.x }}', '1', { object: JSON.parse('{"__proto__": {"x": 1}}') }),
  'the names of all properties': gives('{{ object|list|join }}', '', { object: {} }),
  'a Python class': text("{{ ''.__class__.__mro__ }}", 'undefined'),
  'Python globals': text('{{ self.__init__.__globals__ }}', 'undefined'),
  'functions of the service': text('{{ process.env }}', 'undefined'),
  require: text("{{ require('fs') }}", 'error'),
  'the machinery': text('{{ debug() }}', 'error'),
  'a filter as a way to JavaScript': text("{{ 'x'|attr('constructor') }}", 'undefined'),
  'its own template': text('{% include "template.txt" %}', 'error'),
  'the other part of the template': text('{% include "template.html" %}', 'error'),
  'a mapping as named arguments': text("{{ 'x'|indent(**{'__proto__': 1}) }}", 'error'),

  // Time.
  'loops in loops': text(FOREVER(''), 'limit'),
  'loops that print': text(FOREVER('x'), 'limit'),
  sums: text(FOREVER('{% set x = i * j + i // 7 - j ** 2 %}'), 'limit'),
  'large texts in capitals': text(FOREVER('{% set x = big|upper %}'), 'limit', { big: BIG }),
  'large texts replaced': text(FOREVER("{% set x = big|replace('x', 'y') %}"), 'limit', { big: BIG }),
  'large texts that grow': text(
    "{% set ns = namespace(t='x') %}{% for i in range(100) %}{% set ns.t = ns.t|replace('x', 'xx') %}{% endfor %}{{ ns.t|length }}",
    'limit',
  ),
  'large texts split': text(FOREVER("{% set x = big.split('x') %}"), 'limit', { big: BIG }),
  'large texts split into lists': text(FOREVER("{% set x = big.split('x')|list %}"), 'limit', { big: BIG }),
  'large texts in slices': text(FOREVER('{% set x = big[1:] %}'), 'limit', { big: BIG }),
  'large texts compared': text(FOREVER('{% set x = big == other %}'), 'limit', {
    big: BIG.slice(0, MiB / 2),
    other: BIG.slice(0, MiB / 2 - 200) + 'y'.repeat(200),
  }),
  'large texts searched': text(FOREVER("{% set x = 'xxxxxxxxxxxxxxxxxxxxy' in big %}"), 'limit', { big: BIG }),
  'large texts put together': text(FOREVER('{% set x = big ~ big %}'), 'limit', { big: BIG }),
  'large texts copied': text(FOREVER('{% set x = big|trim %}'), 'limit', { big: BIG }),
  'large texts wrapped': text(FOREVER('{% set x = big|wordwrap(1) %}'), 'limit', { big: BIG }),
  'large texts indented': text(FOREVER('{% set x = big|indent(100) %}'), 'limit', { big: 'a\n'.repeat(MiB / 4) }),
  'large texts encoded': text(FOREVER('{% set x = big|urlencode %}'), 'limit', { big: ' '.repeat(MiB / 2) }),
  'large texts without tags': text(FOREVER('{% set x = big|striptags %}'), 'limit', { big: '<'.repeat(MiB / 2) }),
  'large texts counted': text(FOREVER('{% set x = big|wordcount %}'), 'limit', { big: 'a '.repeat(MiB / 4) }),
  'large texts truncated': text(FOREVER('{% set x = big|truncate(10000) %}'), 'limit', { big: BIG }),
  'a large text for a number': text('{{ big|int }}{{ big|float }}', 'rendered', { big: '1'.repeat(300_000) }),
  'a large text for a date': text('{{ big|date }}', 'error', { big: '2'.repeat(MiB / 2) }),
  'texts that resemble numbers': text(FOREVER('{% set x = nearly|int %}'), 'limit', {
    nearly: `${'1'.repeat(398)}x`,
  }),
  'a large text of spaces for a number': text('{{ big|filesizeformat }}', 'error', { big: `${' '.repeat(900_000)}1` }),
  'a large text of spaces for a date': text('{{ big|date }}', 'error', { big: `${' '.repeat(900_000)}2026-01-01` }),
  'large texts that a format prints nothing of': text("{{ ('%(a).0s' * 120000)|format(a=big) }}", 'limit', {
    big: BIG,
  }),
  'large texts as one argument of many': text(FOREVER("{% set x = '%.1s'|format(big) %}"), 'limit', { big: BIG }),
  'a large ending for short texts': text("{{ 'a'|truncate(10000, end=end) }}", 'error', { end: 'x'.repeat(10_001) }),
  'an ending of surrogate pairs': text(FOREVER("{% set x = 'a'|truncate(10000, end=end) %}"), 'limit', {
    end: '😀'.repeat(4999),
  }),
  'large attributes': text(FOREVER("{% set x = {'a': big}|xmlattr %}"), 'limit', { big: '&'.repeat(900_000) }),
  'a large text many times as the input of a filter': text('{{ ([big] * 900)|center }}', 'limit', { big: BIG }),
  'many time zones in turn': text(
    "{% for a in zones %}{% for b in zones %}{% set x = 1|date('%Y', b) %}{% endfor %}{% endfor %}",
    'limit',
    { zones: Intl.supportedValuesOf('timeZone').slice(0, 200), data: BIG.slice(0, 900_000) },
  ),
  'ever new languages': text(FOREVER("{% set x = 1|currency('EUR', 'en-x-a' ~ i ~ '-b' ~ j) %}"), 'limit'),
  'many dates': text(FOREVER("{% set x = '2026-01-01'|date('%Y %B', 'Europe/Berlin') %}"), 'limit'),
  'many currencies': text(FOREVER("{% set x = i|currency('EUR', 'de-DE') %}"), 'limit'),
  'many formats': text(FOREVER("{% set x = '%9999d'|format(1) %}"), 'limit'),
  'large lists sorted': text(FOREVER('{% set x = range(50000)|sort(reverse=true) %}'), 'limit'),
  'large lists grouped': text(FOREVER("{% set x = rows|groupby('a') %}"), 'limit', {
    rows: Array.from({ length: 20_000 }, (_, a) => ({ a })),
  }),
  'a macro that calls itself': text('{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}', 'error'),
  'a macro that calls itself twice': text(
    '{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}',
    'limit',
  ),
  'a loop that calls itself': text('{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}', 'error'),

  // Memory.
  'a text, multiplied': text("{{ ('a' * 2000000000)|length }}", 'limit'),
  'a text of 34 MB': text("{{ ('x' * length)|length }}", 'limit', { length: 34_000_000 }),
  'a list, multiplied': text('{{ [1] * 2000000000 }}', 'limit'),
  'a range': text('{{ range(2000000000)|list }}', 'error'),
  'texts that double': text(
    "{% set ns = namespace(t='x') %}{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}",
    'limit',
  ),
  'lists that double, printed': text(`${DOUBLED(60)}{{ ns.a }}`, 'limit'),
  'lists that double, compared': text(`${DOUBLED(60)}{{ ns.a == [ns.a[0], ns.a[0]] }}`, 'rendered'),
  'lists that double, as JSON': text(`${DOUBLED(60)}{{ ns.a|tojson }}`, 'limit'),
  'lists that double, as the input of a filter': text(`${DOUBLED(60)}{{ ns.a|center }}`, 'limit'),
  'lists in lists': text(
    '{% set ns = namespace(a=[1]) %}{% for i in range(100000) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a|string|length }}',
    'limit',
  ),
  'lists in lists, as the input of a filter': text(
    '{% set ns = namespace(a=[1]) %}{% for i in range(50000) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a|center }}',
    'limit',
  ),
  'a list that becomes too large when joined': text('{{ range(99999)|join(big) }}', 'limit', {
    big: 'x'.repeat(10_000),
  }),
  'output without end': text("{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}", 'limit'),
  'output of one character too many': text("{{ 'x' * 1000001 }}", 'limit'),
  'output of exactly the maximum': gives("{{ ('x' * 1000000) }}", 'x'.repeat(1_000_000)),

  // The parser.
  'a MiB of brackets': text('{{'.repeat(MiB / 2), 'syntax'),
  'brackets in brackets': text(`{{ ${'['.repeat(100_000)}`, 'syntax'),
  'negations of negations': text(`{{ ${'not '.repeat(100_000)}1 }}`, 'limit'),
  'signs of signs': text(`{{ ${'-'.repeat(100_000)}1 }}`, 'limit'),
  'sums of sums': text(`{{ 1${'+1'.repeat(200_000)} }}`, 'limit'),
  'filters of filters': text(`{{ 1${'|e'.repeat(200_000)} }}`, 'limit'),
  'attributes of attributes': text(`{{ a${'.a'.repeat(200_000)} }}`, 'limit', { a: 1 }),
  'attributes of attributes, with a filter': text(`{{ a${'.abcdefghi'.repeat(90_000)}|upper }}`, 'limit', { a: 1 }),
  'names of a hundred KB, with a filter': text(
    `{{ ${Array(9).fill('a'.repeat(100_000)).join('.')}|upper }}`,
    'undefined',
  ),
  'filters in the arguments of filters': text(`{{ ${'x|join('.repeat(9000)}x${')'.repeat(9000)} }}`, 'syntax'),
  'conditions in conditions': text('{% if 1 %}'.repeat(50_000), 'syntax'),
  'conditions after conditions': text(`{% if 0 %}${'{% elif 0 %}'.repeat(50_000)}{% endif %}`, 'limit'),
  'a MiB of tags': text('{{1}}'.repeat(MiB / 5), 'limit'),
  'a MiB of text': gives('x'.repeat(900_000), 'x'.repeat(900_000)),
  'a MiB of line breaks': text('\n'.repeat(900_000), 'rendered'),
  'a MiB of an open comment': text(`{#${'x'.repeat(MiB - 10)}`, 'limit'),
  'a MiB of an open string': text(`{{ "${'\\'.repeat(MiB - 10)}`, 'limit'),

  // Arguments.
  'a width of a billion': text("{{ 'a'|center(1000000000) }}", 'error'),
  'a negative width': text("{{ 'a'|indent(-1) }}", 'error'),
  'a width of NaN': text("{{ 'a'|center(0.0 / 1 * 1e400) }}", 'error'),
  'a width that is a list': text("{{ 'a'|wordwrap([1]) }}", 'error'),
  'a width of 1': gives("{{ 'abc'|wordwrap(1, wrapstring='-') }}", 'a-b-c'),
  'a large end of each line': text('{{ big|wordwrap(1, wrapstring=end) }}', 'limit', {
    big: 'x'.repeat(100_000),
    end: 'y'.repeat(10_000),
  }),
  'a format with a width of a billion': text("{{ '%999999999d'|format(1) }}", 'error'),
  'a format with a billion digits': text("{{ '%.999999999f'|format(1) }}", 'error'),
  'an unknown argument': text("{{ 'a'|center(to=1) }}", 'error'),
  'a timezone of a MiB': text('{{ 1|date("%Y", zone) }}', 'error', { zone: BIG }),
  'a locale with an invalid numbering system': text("{{ 1|currency('EUR', 'de-u-nu-' ~ 'x' * 10) }}", 'error'),
  'a precision of a million': gives("{{ 1.5|round(10000, 'ceil') }}", '1.5'),

  // Data.
  'data in data': text('{{ a }}', 'rendered', { a: JSON.parse('['.repeat(5000) + ']'.repeat(5000)) }),
  'a MiB of data': gives('{{ rows|length }}', '20000', {
    rows: Array.from({ length: 20_000 }, (_, id) => ({ id, name: `name ${id}` })),
  }),
  'data that is not used': gives('{{ a }}', '1', { a: 1, rows: Array.from({ length: 90_000 }, () => [[]]) }),
}

test("every attack ends in an error or a limited result, while another account's renders all succeed", async () => {
  const deaths: object[] = []
  const log = { error: (context: object) => void deaths.push(context), warn: () => undefined }
  const renderer = new WorkerRenderer({ clock: new ManualClock(), log })
  try {
    // Each attack has an account of its own: otherwise most would be refused because of earlier ones.
    let accountId = 2
    const warmUp = { accountId: 1, urgency: 'now', source: GOOD, dataJson: '{"name": "Ada"}' } as const
    await renderer.render(warmUp)
    const startBytes = process.memoryUsage().rss
    const ends: Record<string, string> = {}
    const results: Record<string, string | undefined> = {}
    const messages: Record<string, string> = {}
    const others: RenderOutcome[] = []
    const slowest: [number, string][] = []
    for (const [title, { source, data = {}, text }] of Object.entries(ATTEMPTS)) {
      const startedMs = performance.now()
      const attempt = renderer.render({
        accountId: accountId++,
        urgency: 'now',
        source,
        dataJson: JSON.stringify(data),
      })
      const beside = Promise.all([1, 2, 3].map(() => renderer.render(warmUp)))
      const outcome = await attempt
      slowest.push([performance.now() - startedMs, title])
      ends[title] = outcome.kind === 'fault' ? outcome.fault.kind : 'rendered'
      if (outcome.kind === 'fault') messages[title] = outcome.fault.message
      if (text !== undefined) results[title] = outcome.kind === 'rendered' ? outcome.parts.text : undefined
      others.push(...(await beside))
    }
    const longMessages = Object.entries(messages).filter(([, message]) => message.length > 400)
    const grownBytes = process.memoryUsage().rss - startBytes
    if (process.env['TASSIS_TEST_TIMES']) console.log(slowest.sort(([a], [b]) => b - a).slice(0, 12), grownBytes / MiB)
    expect(ends).toEqual(Object.fromEntries(Object.entries(ATTEMPTS).map(([title, { ends }]) => [title, ends])))
    expect(results).toEqual(
      Object.fromEntries(
        Object.entries(ATTEMPTS).flatMap(([title, { text }]) => (text === undefined ? [] : [[title, text]])),
      ),
    )
    expect(others.filter((outcome) => outcome.kind !== 'rendered' || outcome.parts.html !== '<p>Ada</p>')).toEqual([])
    // By the renderer's clock no time passes, so the units of the budget end each attack, not the end of a Worker.
    expect(deaths).toEqual([])
    expect(longMessages).toEqual([])
    expect(grownBytes).toBeLessThan(MAX_GROWTH_BYTES)
  } finally {
    renderer.close()
  }
}, 240_000)

const GOOD = { html: '<p>{{ name }}</p>' }
/** Two instances of 64 MiB, data in JavaScript's form, and uncollected garbage. */
const MAX_GROWTH_BYTES = 512 * MiB
