import { describe, expect, test } from 'bun:test'
import { computeContrast, readColour, type Theme, themeStyle } from '#features/audience/signup-forms/theme.ts'

/** The variables of the first rule. */
const variablesOf = (theme: Theme): Record<string, string> =>
  Object.fromEntries(
    [...(/^:root \{(.*)\}$/m.exec(themeStyle(theme))?.[1] ?? '').matchAll(/([\w-]+): ([^;]+);/g)].map(
      ([, name = '', value = '']) => [name, value],
    ),
  )

describe('the CSS of a theme', () => {
  test('is empty for the default', () => {
    expect(themeStyle({})).toBe('')
    expect(themeStyle({ embed: true, hide_branding: true })).toBe('')
  })

  test('has colours as numbers, a radius with its unit, and quoted fonts', () => {
    expect(
      variablesOf({
        button_color: 'RoyalBlue',
        button_text_color: '#fff8',
        border_radius: 4,
        font_family: `Georgia, 'Open Sans', sans-serif`,
      }),
    ).toEqual({
      '--button': 'rgb(65 105 225 / 1)',
      '--on-button': 'rgb(255 255 255 / 0.533)',
      '--radius': '4px',
      '--font': '"Georgia", "Open Sans", sans-serif',
    })
  })

  // The API rejects such values; stored ones are checked again nevertheless.
  // Proves: form-8
  test('has nothing of an invalid value, even if it was stored', () => {
    const evil = 'red; } </style><script>alert(1)</script>'
    expect(
      themeStyle({
        bg_color: evil,
        text_color: 'url(https://evil.test/)',
        button_color: 'var(--x)',
        button_text_color: '#12',
        border_color: 'currentcolor',
        accent_color: evil,
        border_radius: `1px; ${evil}`,
        font_family: `"a", ${evil}`,
      }),
    ).toBe('')
  })

  test.each([
    '#000',
    '#fff',
    '#777',
    '#808080',
    'lime',
    'magenta',
    'yellow',
    'navy',
    'rgb(255 0 0 / 50%)',
    'transparent',
  ])('has readable text, borders and buttons on %s', (bg_color) => {
    const variables = variablesOf({ bg_color })
    const against = (name: string, behind: string): number =>
      computeContrast(
        readColour(variables[name] ?? '') ?? fail(name),
        readColour(variables[behind] ?? '') ?? fail(behind),
      )
    expect({
      text: against('--text', '--card') >= 4.5,
      error: against('--error', '--card') >= 4.5,
      edge: against('--edge', '--card') >= 3,
      button: against('--on-strong', '--strong') >= 4.5,
      focus: against('--strong', '--card') >= 3,
    }).toEqual({ text: true, error: true, edge: true, button: true, focus: true })
  })

  test('at night keeps colours that are visible on a dark background, and replaces the others', () => {
    const night = (theme: Theme) =>
      /@media \(prefers-color-scheme: dark\) \{ :root \{(.*?)\}/.exec(themeStyle(theme))?.[1]
    expect(night({ accent_color: 'gold', border_color: 'white' })).toBeUndefined()
    expect(night({ accent_color: 'navy', border_color: 'black' })).toBe(' --edge: #8a94a1; --accent: #9cc2ff; ')
    expect(night({ accent_color: 'navy', bg_color: 'white' })).toBeUndefined()
  })
})

function fail(name: string): never {
  throw new Error(`no colour ${name}`)
}
