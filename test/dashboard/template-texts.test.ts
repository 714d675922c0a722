/** @module What the screens of templates decide without a browser: data, differences, merges. */
import { describe, expect, test } from 'bun:test'
import { addVariable, parseData, proposeData } from '#dashboard/screens/templates/json-data.ts'
import { diffLines, summariseDiff } from '#dashboard/screens/templates/line-diff.ts'
import { STARTER, STARTER_DATA } from '#dashboard/screens/templates/starter.ts'
import { EMPTY_FIELDS, findChanges, mergeFields, toCodeProblem } from '#dashboard/screens/templates/texts.ts'
import { cpuMs } from '#test/support/cpu-time.ts'

describe('the data', () => {
  test('is a JSON object; an empty text is an empty one', () => {
    expect(parseData(' \n')).toEqual({ value: {} })
    expect(parseData('{"a": [1, null, {"b": "\\u00e9"}]}')).toEqual({ value: { a: [1, null, { b: 'é' }] } })
    for (const text of ['[]', '1', 'null', '"x"']) expect(parseData(text).problem?.message).toContain('JSON object')
  })

  test('that is no JSON has the problem that the browser names', () => {
    expect(parseData('{"a": [1,]}').problem?.message).toStartWith('This is not JSON: ')
  })

  test('is proposed from the variables of the sources', () => {
    const propose = (...sources: string[]) => JSON.parse(proposeData(sources))
    expect(propose(STARTER.subject, STARTER.html_body, STARTER.text_body)).toMatchObject({
      user: { name: 'Ada' },
      steps: [{ title: 'title' }],
      start_url: 'https://example.com/',
    })
    expect(
      propose(
        '{{ user.email|upper }} {{ "a" if total > 1 else "b" }} {% set own = "x" %}{{ own }} {{ items|length }} {{ user }}',
        '{% for row in order.rows %}{{ row.cell.text }}{{ loop.index }}{% endfor %}{{ paid_at|date("%d %B") }}',
        '{% if note is defined and not other %}{{ note }}{% endif %}',
      ),
    ).toEqual({
      user: { email: 'ada@example.com' },
      total: 'total',
      items: 'items',
      order: { rows: [{ cell: { text: 'text' } }] },
      paid_at: '2026-01-31',
      note: 'note',
      other: 'other',
    })
    expect(propose('{{ __proto__.x }}{{ constructor.y }}')).toEqual({ constructor: { y: 'y' } })
    expect(Object.keys(propose(Array.from({ length: 900 }, (_, n) => `{{ v${n} }}`).join('')))).toHaveLength(500)
    expect(JSON.parse(STARTER_DATA)).toHaveProperty('start_url')
  })

  test('is proposed in time that grows with the length of the source only', () => {
    const start = cpuMs()
    for (const piece of ['{{', '{%', '{{ a', '{% if ', '{% for x in ', '{{ a.', '{%   ', '{{ "'])
      proposeData([piece.repeat(1_000_000 / piece.length)])
    expect(cpuMs() - start).toBeLessThan(5000)
  })

  test('gets a missing variable where there is a place for it', () => {
    expect(addVariable('{"user": {"id": 1}}', 'user.name')).toBe(
      '{\n  "user": {\n    "id": 1,\n    "name": "Ada"\n  }\n}',
    )
    expect(addVariable('', 'a.b.c')).toContain('"c": "c"')
    for (const [text, name] of [
      ['{"user": 1}', 'user.name'],
      ['{"user": [1]}', 'user.name'],
      ['{', 'x'],
      ['{}', 'items[0].name'],
    ] as const)
      expect(addVariable(text, name)).toBeUndefined()
  })
})

describe('differences', () => {
  test('of any two texts rebuild both', () => {
    let seed = 7
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return seed % below
    }
    const createText = () => Array.from({ length: random(12) }, () => 'abc'[random(3)]).join('\n')
    for (let n = 0; n < 2000; n++) {
      const [before, after] = [createText(), createText()]
      const lines = diffLines(before, after)
      const join = (kind: 'added' | 'removed') =>
        lines
          .filter((line) => line.kind !== kind)
          .map(({ text }) => text)
          .join('\n')
      expect([join('added'), join('removed')]).toEqual([before, after])
    }
  })

  test('are the fewest lines, with three unchanged ones around them', () => {
    expect(diffLines('a\nb\nc', 'a\nx\nc').map(({ kind, text }) => `${kind} ${text}`)).toEqual([
      'same a',
      'removed b',
      'added x',
      'same c',
    ])
    const before = Array.from({ length: 20 }, (_, n) => `line ${n}`)
    const after = before.with(10, 'changed')
    const shown = summariseDiff(diffLines(before.join('\n'), after.join('\r\n')))
    expect(shown[0]).toEqual({ kind: 'gap', lines: 7 })
    expect(shown.at(-1)).toEqual({ kind: 'gap', lines: 6 })
    expect(shown).toHaveLength(10)
    expect(summariseDiff(diffLines('a\nb', 'a\nb'))).toEqual([])
    expect(diffLines('', 'x')).toEqual([{ kind: 'added', text: 'x' }])
  })

  test('of large and entirely different texts are found in moments', () => {
    const start = cpuMs()
    const create = (name: string) => Array.from({ length: 50_000 }, (_, n) => `${name} ${n}`).join('\n')
    expect(diffLines(create('a'), create('b'))).toHaveLength(100_000)
    expect(cpuMs() - start).toBeLessThan(3000)
  })
})

describe('fields', () => {
  const base = { ...EMPTY_FIELDS, alias: 'a', subject: 'One', html_body: 'one' }

  test('only changed ones are sent, and those of others are kept', () => {
    const mine = { ...base, html_body: 'mine' }
    expect(findChanges(base, mine)).toEqual({ html_body: 'mine' })
    const theirs = { ...base, subject: 'Theirs', html_body: 'theirs' }
    expect(mergeFields(base, mine, theirs)).toEqual({ ...base, subject: 'Theirs', html_body: 'mine' })
  })

  test('a problem is told without the field that its editor names', () => {
    const problem = { field: 'html_body', column: null, variable: null, kind: 'syntax' } as const
    expect(toCodeProblem({ ...problem, line: 3, message: 'html_body, line 3: the filter "x" is unknown.' })).toEqual({
      line: 3,
      message: 'The filter "x" is unknown.',
    })
    expect(toCodeProblem({ ...problem, line: null, message: 'html_body takes too much time.' })).toEqual({
      line: undefined,
      message: 'Takes too much time.',
    })
  })
})
