import { describe, expect, test } from 'bun:test'
import { chooseTexts, TEXTS } from '#features/sending/unsubscribe/languages.ts'

const english = TEXTS.en
const names = (text: string): string[] => [...text.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name).sort()

describe.each(Object.entries(TEXTS))('the texts in %s', (language, texts) => {
  // Proves: suppress-15
  test('are complete, have the placeholders of the English texts, and contain no markup', () => {
    const shape = (of: object) =>
      Object.fromEntries(
        Object.entries(of).map(([key, text]) => [
          key,
          { names: names(text), isWell: /^[^<>&"'\s][^<>&"']*\S$/.test(text) },
        ]),
      )
    const wanted = Object.entries(shape(english)).map(([key, { names }]) => [key, { names, isWell: true }])
    expect(shape(texts)).toEqual(Object.fromEntries(wanted))
  })

  test('differ from those of other languages', () => {
    expect(texts.language as string).toBe(language)
    const others = Object.values(TEXTS).filter(({ language }) => language !== texts.language)
    expect(
      others.filter(({ language, askSender }) => language === texts.language || askSender === texts.askSender),
    ).toEqual([])
    expect(others.length).toBe(7)
  })
})

describe('the language', () => {
  const cases: readonly (readonly [accepted: string | null, language: string])[] = [
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
  ]
  test.each(cases)('of %j is %s', (accepted, language) => {
    expect(chooseTexts(accepted).language as string).toBe(language)
  })
})
