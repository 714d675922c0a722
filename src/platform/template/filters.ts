/**
 * @module The filters that Jinja authors expect and minijinja lacks, or has with other arguments. The result of a
 * filter depends only on its value and its arguments. Before a filter runs, the render pays a unit per character of
 * its input (`createMeteredFilter`); the filter charges further work itself. Results are plain text, which is escaped
 * in HTML.
 */

import { formatDate } from './date-filter.ts'
import {
  type Charge,
  countCharacters,
  FilterError,
  formatValue,
  MAX_NUMBER_LENGTH,
  MAX_WIDTH,
  parseArguments,
  sliceCharacters,
  splitCharacters,
  toFlag,
  toNumber,
  toWidth,
} from './filter-arguments.ts'
import { formatFixed, formatText } from './format-filter.ts'
import { createFormatters, type Formatters } from './formatters.ts'

function createCurrencyFilter(
  formatters: Formatters<Intl.NumberFormat>,
): (amount: number, code: unknown, locale: unknown) => string {
  const make = (code: string, locale: string): Intl.NumberFormat => {
    try {
      if (Intl.NumberFormat.supportedLocalesOf(locale).length === 0) throw new RangeError()
      return new Intl.NumberFormat(locale, { style: 'currency', currency: code })
    } catch {
      throw new FilterError(`does not know the locale "${locale}"`)
    }
  }
  return (amount, code, locale = 'en-US') => {
    if (typeof code !== 'string' || !/^[A-Z]{3}$/.test(code)) throw new FilterError('needs a currency such as "EUR"')
    if (typeof locale !== 'string' || locale.length > 35 || locale === '')
      throw new FilterError('needs a locale such as "de-DE"')
    return formatters.of(`${code} ${locale}`, () => make(code, locale)).format(amount)
  }
}

interface WrapOptions {
  /** Width in characters, at least 1. */
  readonly width: number
  /** Whether to break a word that is longer than a line; otherwise the word gets a line of its own. */
  readonly breaksWords: boolean
  readonly breaksAtHyphens: boolean
}

/** White space, or a word, which may be split again at hyphens. */
const PIECES = /[ \t\v\f]+|[^ \t\v\f]+/g
/** Matches the position after a hyphen that has two letters on each side. */
const HYPHENS = /(?<=\p{L}{2}-)(?=\p{L}{2})/u

function wrapLine(line: string, { width, breaksWords, breaksAtHyphens }: WrapOptions): readonly string[] {
  const pieces = (line.match(PIECES) ?? []).flatMap((piece) => (breaksAtHyphens ? piece.split(HYPHENS) : [piece]))
  const lines: string[] = []
  let current: string[] = []
  let length = 0
  const finish = (): void => {
    if (current.at(-1)?.trim() === '') current.pop()
    if (current.length > 0) lines.push(current.join(''))
    current = []
    length = 0
  }
  const add = (text: string, size: number): void => {
    // Lines other than the first do not begin with white space.
    if (text.trim() === '' && current.length === 0 && lines.length > 0) return
    current.push(text)
    length += size
  }
  for (const piece of pieces) {
    const characters = splitCharacters(piece)
    const size = characters.length
    if (length + size <= width) add(piece, size)
    else if (size <= width || !breaksWords) {
      finish()
      add(piece, size)
    } else {
      // A word that is longer than a line begins on the current line if that line has space left.
      let from = 0
      while (from < size) {
        if (length >= width) finish()
        const until = Math.min(from + width - length, size)
        add(sliceCharacters(characters, from, until), until - from)
        from = until
      }
    }
  }
  finish()
  return lines
}

export type Filter = (value: unknown, ...given: readonly unknown[]) => string | number | bigint

export type Filters = ReturnType<typeof createFilters>

/** Filters that take arbitrary values as arguments. */
const LONG_ARGUMENT_FILTERS = new Set(['format'])

/**
 * Wraps a filter so that the render pays for the filter before it runs, by the length of all its inputs. Arguments may
 * have at most `MAX_WIDTH` characters: unlike the value, they are not text that people write.
 */
export function createMeteredFilter(name: string, filter: Filter, charge: Charge): Filter {
  const isAnyLength = LONG_ARGUMENT_FILTERS.has(name)
  return (value, ...given) => {
    charge(countCharacters([value, ...given]))
    const args = given.flatMap((arg) => (arg instanceof Map ? [...(arg as Map<unknown, unknown>).values()] : [arg]))
    if (!isAnyLength && args.some((arg) => countCharacters([arg]) > MAX_WIDTH))
      throw new FilterError(`needs arguments of at most ${MAX_WIDTH} characters`)
    return filter(value, ...given)
  }
}

type FilterTools = ReturnType<typeof createTools>

type FilterTable = Readonly<Record<string, Filter>>

/** Shared functions of filters, which charge the current render. */
const createTools = (charge: Charge) => ({
  charge,
  /** Formats a value as text, and charges for a filter that then reads the text character by character. */
  readSlowText(value: unknown): string {
    const text = formatValue(value)
    charge(SLOW_UNITS * text.length)
    return text
  },
  /**
   * Splits a text into characters. Charges for the split when some characters have two units, because it is slow then.
   */
  splitMetered(text: string): string | readonly string[] {
    const characters = splitCharacters(text)
    if (typeof characters !== 'string') charge(SLOW_UNITS * characters.length)
    return characters
  },
  encodeMetered(text: string): string {
    const given = percentEncode(text)
    charge(given.length)
    return given
  },
})

/** @param charge charges the current render */
export function createFilters(charge: Charge) {
  const currencies = createFormatters<Intl.NumberFormat>(charge)
  const zones = createFormatters<Intl.DateTimeFormat>(charge)
  const tools = createTools(charge)
  const byName: FilterTable = {
    ...createLocalFilters(tools, createCurrencyFilter(currencies), zones),
    ...createNumberFilters(tools),
    ...createLayoutFilters(tools),
    ...createEncodingFilters(tools),
  }
  return {
    byName,
    /** Starts another render, which is charged again for formatters and anything else that is created once per render. */
    beginRender(): void {
      currencies.beginRender()
      zones.beginRender()
    },
  }
}

/** Filters whose results depend on a locale, currency or time zone. */
const createLocalFilters = (
  tools: FilterTools,
  currency: ReturnType<typeof createCurrencyFilter>,
  zones: Formatters<Intl.DateTimeFormat>,
): FilterTable => ({
  currency: (value, ...given) => {
    const args = parseArguments(given, ['code', 'locale'])
    tools.charge(INTL_UNITS)
    return currency(toNumber(value), args.get('code'), args.get('locale'))
  },
  date: (value, ...given) => {
    const args = parseArguments(given, ['format', 'timezone'])
    const format = args.get('format') ?? '%Y-%m-%d'
    const zone = args.get('timezone')
    if (typeof format !== 'string' || format.length > MAX_WIDTH) throw new FilterError('needs a format')
    tools.charge((zone === undefined ? PIECE_UNITS : INTL_UNITS) + SLOW_UNITS * format.length)
    return formatDate(value, format, zone, zones)
  },
})

const createNumberFilters = (tools: FilterTools): FilterTable => ({
  filesizeformat: (value, ...given) =>
    formatFileSize(toNumber(value, 'of bytes'), toFlag(parseArguments(given, ['binary']).get('binary'), false)),
  /**
   * Minijinja's `float` runs after this filter and converts its text to a float; minijinja prints even a whole float
   * with a decimal point.
   */
  __float: (value, ...given) => {
    const number = parseNumber(value)
    if (number !== undefined) return String(number)
    return String(toNumber(parseArguments(given, ['default']).get('default') ?? 0, 'as default'))
  },
  format: (value, ...given) => formatText(formatValue(value), given, tools.charge),
  int: (value, ...given) => {
    const args = parseArguments(given, ['default', 'base'])
    const base = toWidth(args.get('base'), 'base', 10, 2)
    if (base !== 10) throw new FilterError('supports base 10 only')
    if (typeof value === 'bigint') {
      if (value !== BigInt.asIntN(64, value)) throw new FilterError('needs a smaller number')
      return value
    }
    const number = parseNumber(value)
    if (number === undefined) return Math.trunc(toNumber(args.get('default') ?? 0, 'as default'))
    if (Math.abs(number) > MAX_WHOLE_NUMBER) throw new FilterError('needs a smaller number')
    return Number.isSafeInteger(Math.trunc(number)) ? Math.trunc(number) : BigInt(Math.trunc(number))
  },
  __round: (value, ...given) => {
    const args = parseArguments(given, ['precision', 'method'])
    const precision = toWidth(args.get('precision'), 'precision', 0)
    const method = args.get('method')
    if (method !== 'ceil' && method !== 'floor' && method !== 'common')
      throw new FilterError('needs a method: "common", "ceil" or "floor"')
    const number = toNumber(value)
    if (precision > MAX_ROUNDED_DIGITS) return String(number)
    tools.charge(ROUNDING_UNITS)
    if (method === 'common') return String(Number(formatFixed(Math.abs(number), precision)) * Math.sign(number))
    const factor = 10 ** precision
    return String((method === 'ceil' ? Math.ceil(number * factor) : Math.floor(number * factor)) / factor)
  },
})

/** Filters that fit a text into a width or count its words. */
const createLayoutFilters = (tools: FilterTools): FilterTable => ({
  center: (value, ...given) => {
    const text = formatValue(value)
    const width = toWidth(parseArguments(given, ['width']).get('width'), 'width', 80)
    const padding = width - tools.splitMetered(text).length
    if (padding <= 0) return text
    // If the number of spaces is odd, the extra space goes to the same side as in Python.
    const left = Math.floor(padding / 2) + (padding & width & 1)
    return ' '.repeat(left) + text + ' '.repeat(padding - left)
  },
  indent: (value, ...given) => {
    const args = parseArguments(given, ['width', 'first', 'blank'])
    const width = args.get('width')
    const by = typeof width === 'string' ? width : ' '.repeat(toWidth(width, 'width', 4))
    const lines = splitLines(tools.readSlowText(value))
    tools.charge(lines.length * by.length)
    const isBlankToo = toFlag(args.get('blank'), false)
    const text = lines.map((line, at) => (at > 0 && (line !== '' || isBlankToo) ? by + line : line)).join('\n')
    return toFlag(args.get('first'), false) ? by + text : text
  },
  truncate: (value, ...given) => {
    const args = parseArguments(given, ['length', 'killwords', 'end', 'leeway'])
    const end = formatValue(args.get('end') ?? '...')
    const length = toWidth(args.get('length'), 'length', 255)
    const text = formatValue(value)
    const endLength = tools.splitMetered(end).length
    const kept = length - endLength
    if (kept < 0) throw new FilterError(`needs a length of at least ${endLength}, the length of "end"`)
    const characters = tools.splitMetered(text)
    if (characters.length <= length + toWidth(args.get('leeway'), 'leeway', 5)) return text
    const start = sliceCharacters(characters, 0, kept)
    const lastSpace = toFlag(args.get('killwords'), false) ? -1 : start.lastIndexOf(' ')
    return (lastSpace < 0 ? start : start.slice(0, lastSpace)) + end
  },
  wordcount: (value) => tools.readSlowText(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0,
  wordwrap: (value, ...given) => {
    const args = parseArguments(given, ['width', 'break_long_words', 'wrapstring', 'break_on_hyphens'])
    const wrapString = formatValue(args.get('wrapstring') ?? '\n')
    const width = toWidth(args.get('width'), 'width', 79, 1)
    const text = formatValue(value)
    tools.charge(WRAP_UNITS * text.length)
    const lines = splitLines(text)
    // Each character or line may be followed by a break.
    tools.charge(PIECE_UNITS * lines.length + (Math.ceil(text.length / width) + lines.length) * wrapString.length)
    return lines
      .map((line) =>
        wrapLine(line, {
          width,
          breaksWords: toFlag(args.get('break_long_words'), true),
          breaksAtHyphens: toFlag(args.get('break_on_hyphens'), true),
        }).join(wrapString),
      )
      .join(wrapString)
  },
})

const createEncodingFilters = (tools: FilterTools): FilterTable => ({
  urlencode: (value) => {
    if (typeof value !== 'object' || value === null) return tools.encodeMetered(formatValue(value))
    if (!(value instanceof Map) && !Array.isArray(value))
      throw new FilterError('needs a text, mapping or list of pairs')
    return [...(value as Iterable<unknown>)]
      .map((pair) => {
        tools.charge(PIECE_UNITS)
        return `${encodeQueryPart(pair, 0, tools.encodeMetered)}=${encodeQueryPart(pair, 1, tools.encodeMetered)}`
      })
      .join('&')
  },
  xmlattr: (value, ...given) => {
    const isSpaced = toFlag(parseArguments(given, ['autospace']).get('autospace'), true)
    if (!(value instanceof Map)) throw new FilterError('needs a mapping')
    const attributes = [...(value as ReadonlyMap<unknown, unknown>)]
      .filter(([, of]) => of !== undefined && of !== null)
      .map(([name, of]) => {
        tools.charge(PIECE_UNITS)
        const key = tools.readSlowText(name)
        if (/[\s/>=]/.test(key) || key === '') throw new FilterError(`cannot have the attribute name "${key}"`)
        return `${escapeXml(key)}="${escapeXml(tools.readSlowText(of))}"`
      })
    return (isSpaced && attributes.length > 0 ? ' ' : '') + attributes.join(' ')
  },
})

/** Minijinja does not handle larger integers exactly. */
const MAX_WHOLE_NUMBER = 2 ** 62

/** Numbers are not rounded to more decimal places than this, which could only change numbers close to zero. */
const MAX_ROUNDED_DIGITS = 20

/** Parses a number, or a text that Python would accept as a number; undefined for anything else. */
function parseNumber(value: unknown): number | undefined {
  if (typeof value === 'boolean') return Number(value)
  if (typeof value === 'bigint') return Number(value)
  if (typeof value === 'string' && value.length > MAX_NUMBER_LENGTH) return undefined
  if (typeof value === 'string' && !/^\s*[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?\s*$/i.test(value))
    return undefined
  const number = typeof value === 'string' ? Number(value.replaceAll('_', '')) : value
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined
}

/**
 * Units per character that is read on its own, and per item that is processed on its own, such as an attribute or a
 * pair.
 */
const SLOW_UNITS = 12
const WRAP_UNITS = 30
const PIECE_UNITS = 100
/** Units for rounding, which prints all digits of a number to decide the last one. */
const ROUNDING_UNITS = 200
/** Units for a time zone or locale, in addition to its formatter. */
const INTL_UNITS = 5000

/** Splits a text into lines, as Python's `splitlines` splits the text with one more line break after it. */
const splitLines = (text: string): readonly string[] => {
  const lines = `${text}\n`.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/)
  lines.pop()
  return lines
}

const escapeXml = (text: string): string => text.replace(/[&<>"']/g, (found) => ENTITIES[found] ?? found)
const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
}

/** Encodes everything except unreserved characters and `/` (RFC 3986 §2.3). */
const percentEncode = (text: string): string =>
  encodeURIComponent(text.toWellFormed())
    .replace(/[!'()*]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%2F', '/')

function encodeQueryPart(pair: unknown, index: number, encoded: (text: string) => string): string {
  if (!Array.isArray(pair) || pair.length !== 2) throw new FilterError('needs a text, mapping or list of pairs')
  return encoded(formatValue(pair[index])).replaceAll('/', '%2F').replaceAll('%20', '+')
}

const SIZE_PREFIXES = ['k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y']

function formatFileSize(bytes: number, isBinary: boolean): string {
  const base = isBinary ? 1024 : 1000
  if (bytes === 1) return '1 Byte'
  if (bytes < base) return `${Math.trunc(bytes)} Bytes`
  const step = Math.max(1, SIZE_PREFIXES.findIndex((_, at) => bytes < base ** (at + 2)) + 1 || SIZE_PREFIXES.length)
  const prefix = SIZE_PREFIXES[step - 1] ?? ''
  return `${(bytes / base ** step).toFixed(1)} ${isBinary ? `${prefix === 'k' ? 'K' : prefix}i` : prefix}B`
}
