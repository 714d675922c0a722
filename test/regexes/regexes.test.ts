import { beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { BUILT_LATER, findOutsideRegexes, type OutsideRegexes } from './all.ts'
import { analyse, buildAttacks, measure } from './analyse.ts'
import type { FoundRegex } from './find.ts'
import { formatRegex, readKnownLinear } from './linear.ts'

// Some expressions take a second each to analyse, and more on a busy machine.
setDefaultTimeout(1_800_000)

let found: OutsideRegexes
beforeAll(async () => {
  found = await findOutsideRegexes()
})

const named = (regex: FoundRegex, attack: string) => `${regex.place} ${formatRegex(regex)} grows with ${attack}`

describe('every regular expression that matches text from outside', () => {
  test('is found: literals, and those built on import; the others were reviewed', () => {
    expect(found.regexes.length).toBeGreaterThan(400)
    expect(found.builtLater).toEqual(Object.keys(BUILT_LATER).toSorted())
  })

  test('takes linear time for hostile texts of growing length', () => {
    const growing = found.regexes.flatMap((regex) => {
      const verdict = measure(regex, buildAttacks(regex))
      return verdict.kind === 'grows' ? [named(regex, verdict.attack)] : []
    })
    expect(growing).toEqual([])
  })

  test('is linear according to recheck, unless linear.json lists it (bun scripts/regexes.ts adds it once it is linear)', async () => {
    const known = new Set(readKnownLinear())
    const growing: string[] = []
    for (const regex of found.regexes) {
      if (known.has(formatRegex(regex))) continue
      const verdict = await analyse(regex)
      if (verdict.kind === 'grows') growing.push(named(regex, verdict.attack))
    }
    expect(growing).toEqual([])
  })

  test('is in linear.json only while it is in the sources', () => {
    const texts = new Set(found.regexes.map(formatRegex))
    expect(readKnownLinear().filter((text) => !texts.has(text))).toEqual([])
  })
})

describe('the analysis and the measurement', () => {
  const regex = (source: string, flags = ''): FoundRegex => ({ place: 'here:1', source, flags })

  test.each([
    ['^\\s*(?:|0|off|no|false)\\s*$', 'i'],
    ['^[ \\t]+|[ \\t]+$', 'g'],
    ['\\/+$', ''],
    ['(\\d+)\\.(\\d+)$', ''],
    ['^(a+)+$', ''],
    ['<a.*b.*>', 's'],
  ])('find /%s/%s, whose time grows', async (source, flags) => {
    const { kind } = await analyse(regex(source, flags))
    expect(kind).toBe('grows')
  })

  test.each([
    ['(?<!\\/)\\/+$', ''],
    ['^(?:a|b)+$', ''],
    ['[\\p{L}]{1,64}@[\\p{L}.-]{1,253}', 'gu'],
    ['^[[\\p{L}]--[a-z]]+$', 'v'],
  ])('accept /%s/%s, whose time does not', async (source, flags) => {
    expect(await analyse(regex(source, flags))).toEqual({ kind: 'linear' })
  })
})
