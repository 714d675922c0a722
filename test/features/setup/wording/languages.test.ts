import { expect, test } from 'bun:test'
import { listPlaceholders, TEXTS } from '#features/setup/wording/languages.ts'
import { DEFAULT_TEXTS, parseTexts } from '#features/setup/wording/texts.ts'
import { chooseLanguage, LANGUAGES } from '#platform/http/language.ts'

// Proves: suppress-15
test.each(LANGUAGES)(
  'the texts in %s have the keys and placeholders of the English ones, and no markup',
  (language) => {
    const describeTexts = (texts: object) =>
      Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, listPlaceholders(text).sort()]))
    expect(describeTexts(TEXTS[language])).toEqual(describeTexts(TEXTS.en))
    expect(Object.values(TEXTS[language]).filter((text) => !/^[^<>&"'\s][^<>&"']*\S$/.test(text))).toEqual([])
    const others = LANGUAGES.filter((other) => other !== language)
    expect(others.filter((other) => TEXTS[other].mail_reason === TEXTS[language].mail_reason)).toEqual([])
    const defaults = DEFAULT_TEXTS[language] ?? {}
    expect(Object.keys(defaults)).toHaveLength(9)
    expect(parseTexts(language, defaults)).toEqual(defaults)
  },
)

test.each([
  [null, 'en'],
  ['', 'en'],
  ['de', 'de'],
  ['de-AT', 'de'],
  ['DE-at,en;q=0.5', 'de'],
  ['fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5', 'fr'],
  ['sv, pl;q=0.8, en;q=0.3', 'pl'],
  ['en;q=0.2, nl;q=0.9', 'nl'],
  ['en, de', 'en'],
  ['de, en', 'de'],
  ['zh-Hant-TW, pt-BR;q=0.8', 'pt'],
  ['sv, ja', 'en'],
  ['*', 'en'],
  ['sv, *;q=0.5, de;q=0.4', 'en'],
  ['de;q=0', 'en'],
  ['de;q=0, it;q=0.001', 'it'],
  [' es ; q=1.0 ', 'es'],
  ['den', 'en'],
  ['de_DE', 'en'],
  ['de;q=2, it;q=0.1', 'it'],
  ['q=1;de', 'en'],
  ['de\0', 'en'],
  [`${'sv,'.repeat(1000)}de`, 'en'],
  [','.repeat(100_000), 'en'],
  ['a'.repeat(100_000), 'en'],
  [`a${'-a'.repeat(50_000)}`, 'en'],
] as const)('the language of %j is %s', (accepted, language) => {
  expect(chooseLanguage(accepted)).toBe(language)
})
