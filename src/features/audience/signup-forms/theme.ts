/**
 * @module The look of a form: what an account may set, and the CSS built from it. No text of an account gets into the
 * CSS: colours are parsed to numbers and written again, a radius is a number with a unit, a font is a quoted name.
 */
import { invalid } from '#platform/errors.ts'

const COLOURS = ['bg_color', 'text_color', 'button_color', 'button_text_color', 'border_color', 'accent_color'] as const
type ColourName = (typeof COLOURS)[number]

/** As it is stored and returned; missing properties have the default. */
export type Theme = { readonly [Name in ColourName]?: string } & {
  readonly border_radius?: string | number
  readonly font_family?: string
  /** Whether the page itself is meant to be embedded in another page, not only its variant `?embed=1`. */
  readonly embed?: boolean
  readonly hide_branding?: boolean
}

/** A theme as provided: null and an empty text mean the default. */
export type GivenTheme = { readonly [Name in keyof Theme]?: Theme[Name] | null }

/** A theme in its stored form. Throws 422 for the first invalid value. */
export function readTheme(provided: GivenTheme): Theme {
  const isSet = <T>(value: T | null | undefined): value is T => value !== undefined && value !== null && value !== ''
  const theme: Record<string, string | number | boolean> = {}
  for (const name of COLOURS) {
    const value = provided[name]
    if (!isSet(value)) continue
    if (!readColour(value))
      throw invalid(
        `theme.${name}`,
        `theme.${name} must be a colour such as #0b57d0, rgb(11, 87, 208), hsl(217, 90%, 43%) or royalblue.`,
      )
    theme[name] = value
  }
  const { border_radius, font_family, embed, hide_branding } = provided
  if (isSet(border_radius)) {
    if (readRadius(border_radius) === undefined)
      throw invalid(
        'theme.border_radius',
        'theme.border_radius must be a number of pixels up to 100, or a text such as 8px, 0.5rem, 1em or 10%.',
      )
    theme['border_radius'] = border_radius
  }
  if (isSet(font_family)) {
    if (readFonts(font_family) === undefined)
      throw invalid(
        'theme.font_family',
        'theme.font_family must be at most 10 font names separated by commas, such as Georgia, "Times New Roman", serif.',
      )
    theme['font_family'] = font_family
  }
  if (isSet(embed)) theme['embed'] = embed
  if (isSet(hide_branding)) theme['hide_branding'] = hide_branding
  return theme
}

/** Red, green and blue from 0 to 255, alpha from 0 to 1. */
export interface Colour {
  readonly r: number
  readonly g: number
  readonly b: number
  readonly a: number
}

const NUMBER_PATTERN = String.raw`-?(?:\d{1,4}(?:\.\d{1,9})?|\.\d{1,9})(?:%|deg)?`
const COLOUR_PATTERN = new RegExp(
  String.raw`^(?:#(?:[0-9a-f]{3}|[0-9a-f]{4}|[0-9a-f]{6}|[0-9a-f]{8})|[a-z]{3,20}|(?:rgb|hsl)a?\( ?${NUMBER_PATTERN}(?: ?[ ,/] ?${NUMBER_PATTERN}){2,3} ?\))$`,
)

/** The colour of a CSS text; undefined for anything else, also for keywords without a fixed value. */
export function readColour(text: string): Colour | undefined {
  const lower = text.toLowerCase()
  if (!COLOUR_PATTERN.test(lower)) return undefined
  // `Bun.color` knows the names, but accepts more than colours: only texts that match the pattern may reach it.
  const colour: unknown = Bun.color(lower, '{rgba}')
  return typeof colour === 'object' && colour !== null ? (colour as Colour) : undefined
}

/** Maximum of each unit; larger values look no different. */
const MAX_RADIUS: Readonly<Record<string, number>> = { px: 100, rem: 10, em: 10, '%': 50 }

function readRadius(provided: string | number): string | undefined {
  const [, digits = '', unit = 'px'] = /^(\d{1,3}(?:\.\d{1,3})?)(px|rem|em|%)?$/.exec(String(provided)) ?? []
  return digits !== '' && Number(digits) <= (MAX_RADIUS[unit] ?? 0) ? `${Number(digits)}${unit}` : undefined
}

const MAX_FONTS_LENGTH = 200
const MAX_FONTS = 10
/** Font keywords of CSS; if they were quoted, they would be names of unknown fonts. */
const FONT_KEYWORD =
  /^(?:serif|sans-serif|monospace|cursive|fantasy|system-ui|ui-(?:serif|sans-serif|monospace|rounded)|-apple-system)$/

function readFonts(provided: string): string | undefined {
  if (provided.length > MAX_FONTS_LENGTH) return undefined
  const names = provided.split(',').map((part) => /^(["']?)([A-Za-z0-9-][A-Za-z0-9 -]*)\1$/.exec(part.trim())?.[2])
  if (names.length > MAX_FONTS) return undefined
  const fonts: string[] = []
  for (const name of names) {
    if (name === undefined) return undefined
    fonts.push(FONT_KEYWORD.test(name) ? name : `"${name.trim()}"`)
  }
  return fonts.join(', ')
}

type Variables = readonly (readonly [name: string, value: string | undefined])[]

/** Colours that go together, in the order of their variables in the look of all pages. */
type Palette = typeof LIGHT

const LIGHT = {
  scheme: 'light' as 'light' | 'dark',
  page: '#eef0f3',
  card: '#ffffff',
  text: '#1b1f24',
  line: '#d5dae1',
  edge: '#6b7480',
  strong: '#0b57d0',
  error: '#b3261e',
}
const DARK: Palette = {
  scheme: 'dark',
  page: '#101317',
  card: '#1b2026',
  text: '#e8eaed',
  line: '#333b45',
  edge: '#8a94a1',
  strong: '#9cc2ff',
  error: '#ffb4ab',
}
/** WCAG 2.2 §1.4.3 for text. */
const MIN_CONTRAST = 4.5
/** WCAG 2.2 §1.4.11 for the borders of fields and the focus outline. */
const MIN_EDGE_CONTRAST = 3

/**
 * The variables of a theme as CSS, to follow the look of all pages. A theme that sets the background or the text looks
 * the same by day and by night, with the palette that is readable on it; any other theme follows the reader's
 * preference.
 */
export function themeStyle(theme: Theme): string {
  const readThemeColour = (name: ColourName): Colour | undefined => {
    const text = theme[name]
    return text === undefined ? undefined : readColour(text)
  }
  const [background, text] = [readThemeColour('bg_color'), readThemeColour('text_color')]
  const [button, buttonText] = [
    readThemeColour('button_color') ?? readThemeColour('accent_color'),
    readThemeColour('button_text_color'),
  ]
  const [border, accent] = [readThemeColour('border_color'), readThemeColour('accent_color')]

  const choices: Variables = [
    ['--line', border && formatColour(border)],
    ['--edge', border && formatColour(border)],
    ['--accent', accent && formatColour(accent)],
    ['--button', button && formatColour(button)],
    ['--on-button', buttonText ? formatColour(buttonText) : button && formatColour(pickBlackOrWhite(button))],
    ['--radius', theme.border_radius === undefined ? undefined : readRadius(theme.border_radius)],
    ['--font', theme.font_family === undefined ? undefined : readFonts(theme.font_family)],
  ]
  if (background || text) return formatRule([...toPaperVariables(background, text), ...choices])
  return formatRule(choices) + formatRule(toDarkVariables({ border, accent }), '@media (prefers-color-scheme: dark)')
}

/** All colours of the look that goes with a background, a text, or both. */
function toPaperVariables(background: Colour | undefined, text: Colour | undefined): Variables {
  const palette = background ? choosePalette(background, 'text') : choosePalette(text ?? white, 'card')
  const behind = background ?? ensureTextContrast(toColour(palette.card), text ?? white)
  const textColour = text ?? ensureTextContrast(toColour(palette.text), behind)
  const strong = ensureEdgeContrast(toColour(palette.strong), behind, textColour)
  return [
    ['color-scheme', palette.scheme],
    ['--page', palette.page],
    ['--card', formatColour(behind)],
    ['--text', formatColour(textColour)],
    // Faint text has the account's text colour: a fainter one might not be readable.
    ['--faint', formatColour(textColour)],
    ['--line', palette.line],
    ['--edge', formatColour(ensureEdgeContrast(toColour(palette.edge), behind, textColour))],
    ['--strong', formatColour(strong)],
    ['--on-strong', formatColour(pickBlackOrWhite(strong))],
    // Words and a border also mark problems, so the colour of errors need not stand out.
    [
      '--error',
      computeContrast(toColour(palette.error), behind) < MIN_CONTRAST ? formatColour(textColour) : palette.error,
    ],
  ]
}

/** Replaces border and accent colours where a dark background would hide them. */
function toDarkVariables({ border, accent }: { border: Colour | undefined; accent: Colour | undefined }): Variables {
  const isVisible = (colour: Colour) => computeContrast(colour, toColour(DARK.card)) >= MIN_EDGE_CONTRAST
  return [
    ['--edge', border && !isVisible(border) ? DARK.edge : undefined],
    ['--accent', accent && !isVisible(accent) ? DARK.strong : undefined],
  ]
}

function formatRule(variables: Variables, condition?: string): string {
  const lines = variables.flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${value};`]))
  if (lines.length === 0) return ''
  const text = `:root { ${lines.join(' ')} }\n`
  return condition === undefined ? text : `${condition} { ${text}}\n`
}

const white: Colour = { r: 255, g: 255, b: 255, a: 1 }
const black: Colour = { r: 0, g: 0, b: 0, a: 1 }

/** The palette in which `part` contrasts more with a colour. */
const choosePalette = (colour: Colour, part: 'text' | 'card'): Palette =>
  computeContrast(toColour(LIGHT[part]), colour) >= computeContrast(toColour(DARK[part]), colour) ? LIGHT : DARK

/** Black or white, whichever is more readable on a colour. */
const pickBlackOrWhite = (behind: Colour): Colour =>
  computeContrast(white, behind) >= computeContrast(black, behind) ? white : black

/** The colour if it is readable with the other, else black or white. */
const ensureTextContrast = (colour: Colour, other: Colour): Colour =>
  computeContrast(colour, other) < MIN_CONTRAST ? pickBlackOrWhite(other) : colour

/** The colour of a line if it is visible on the background, else the colour of the text. */
const ensureEdgeContrast = (colour: Colour, behind: Colour, textColour: Colour): Colour =>
  computeContrast(colour, behind) < MIN_EDGE_CONTRAST ? textColour : colour

const toColour = (text: string): Colour => readColour(text) ?? black

const formatColour = ({ r, g, b, a }: Colour): string => `rgb(${r} ${g} ${b} / ${Math.round(a * 1000) / 1000})`

/** WCAG 2.2, "contrast ratio": 1 to 21. Transparency is blended with white. */
export function computeContrast(one: Colour, other: Colour): number {
  const [light = 0, dark = 0] = [computeLuminance(one), computeLuminance(other)].sort((a, b) => b - a)
  return (light + 0.05) / (dark + 0.05)
}

/** WCAG 2.2, "relative luminance". */
function computeLuminance({ r, g, b, a }: Colour): number {
  const [red = 0, green = 0, blue = 0] = [r, g, b].map((channel) => {
    const value = (channel * a + 255 * (1 - a)) / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
