/**
 * @module The filters that authors who know Jinja expect and minijinja has not, or has with other arguments. Each depends on its arguments alone. A unit for
 * each character that it is given was taken from the render's budget before (`paidFilter`); it takes itself what it needs beyond that. What they give
 * is plain text: in HTML it is escaped.
 */

import { createCurrencyFilter } from './currency-filter.ts'
import { dateText } from './date-filter.ts'
import {
  argumentsOf,
  type Charge,
  charactersIn,
  charactersOf,
  FilterProblem,
  flagOf,
  MOST_NUMBER_LENGTH,
  MOST_WIDTH,
  numberOf,
  sliceOf,
  textOf,
  widthOf,
} from './filter-arguments.ts'
import { fixed, formatted } from './format-filter.ts'
import { createFormatters, type Formatters } from './formatters.ts'
import { wrapped } from './wrap-filter.ts'

export type Filter = (value: unknown, ...given: readonly unknown[]) => string | number | bigint

export interface Filters {
  readonly byName: Readonly<Record<string, Filter>>
  /** From now on another render pays for what is made once a render. */
  beginRender(): void
}

/** What they are put into takes its values as its arguments. */
const WITH_VALUES_AS_ARGUMENTS = new Set(['format'])

/**
 * A filter as the render pays for it: before it runs, by all texts that it is given. Its arguments are no longer than widths may be: only the value is what
 * people write.
 */
export function paidFilter(name: string, filter: Filter, charge: Charge): Filter {
  const isAnyLength = WITH_VALUES_AS_ARGUMENTS.has(name)
  return (value, ...given) => {
    charge(charactersIn([value, ...given]))
    const args = given.flatMap((arg) => (arg instanceof Map ? [...(arg as Map<unknown, unknown>).values()] : [arg]))
    if (!isAnyLength && args.some((arg) => charactersIn([arg]) > MOST_WIDTH))
      throw new FilterProblem(`needs arguments of at most ${MOST_WIDTH} characters`)
    return filter(value, ...given)
  }
}

/** What several filters need of the render that pays. */
interface Tools {
  readonly charge: Charge
  /** What is looked at character by character, or taken apart. */
  slowInput(value: unknown): string
  /** Taking a text apart into its characters is slow where some are of two units. */
  taken(text: string): string | readonly string[]
  encoded(text: string): string
}

type FilterTable = Readonly<Record<string, Filter>>

/** @param charge of the render that is under way */
export function createFilters(charge: Charge): Filters {
  const currencies = createFormatters<Intl.NumberFormat>(charge)
  const zones = createFormatters<Intl.DateTimeFormat>(charge)
  const tools: Tools = {
    charge,
    slowInput(value) {
      const text = textOf(value)
      charge(SLOW_UNITS * text.length)
      return text
    },
    taken(text) {
      const characters = charactersOf(text)
      if (typeof characters !== 'string') charge(SLOW_UNITS * characters.length)
      return characters
    },
    encoded(text) {
      const given = percentEncoded(text)
      charge(given.length)
      return given
    },
  }
  return {
    byName: {
      ...localFilters(tools, createCurrencyFilter(currencies), zones),
      ...numberFilters(tools),
      ...layoutFilters(tools),
      ...encodingFilters(tools),
    },
    beginRender() {
      currencies.beginRender()
      zones.beginRender()
    },
  }
}

/** Filters whose results depend on a language, a currency or a zone. */
const localFilters = (
  tools: Tools,
  currency: ReturnType<typeof createCurrencyFilter>,
  zones: Formatters<Intl.DateTimeFormat>,
): FilterTable => ({
  currency: (value, ...given) => {
    const args = argumentsOf(given, ['code', 'locale'])
    tools.charge(INTL_UNITS)
    return currency(numberOf(value), args.get('code'), args.get('locale'))
  },
  date: (value, ...given) => {
    const args = argumentsOf(given, ['format', 'timezone'])
    const format = args.get('format') ?? '%Y-%m-%d'
    const zone = args.get('timezone')
    if (typeof format !== 'string' || format.length > MOST_WIDTH) throw new FilterProblem('needs a format')
    tools.charge((zone === undefined ? PIECE_UNITS : INTL_UNITS) + SLOW_UNITS * format.length)
    return dateText(value, format, zone, zones)
  },
})

const numberFilters = (tools: Tools): FilterTable => ({
  filesizeformat: (value, ...given) =>
    fileSize(numberOf(value, 'of bytes'), flagOf(argumentsOf(given, ['binary']).get('binary'), false)),
  /** Followed by minijinja's: a float that is whole is written with its point. */
  __float: (value, ...given) => {
    const number = parsedNumber(value)
    if (number !== undefined) return String(number)
    return String(numberOf(argumentsOf(given, ['default']).get('default') ?? 0, 'as default'))
  },
  format: (value, ...given) => formatted(textOf(value), given, tools.charge),
  int: (value, ...given) => {
    const args = argumentsOf(given, ['default', 'base'])
    const base = widthOf(args.get('base'), 'base', 10, 2)
    if (base !== 10) throw new FilterProblem('knows numbers of base 10 only')
    if (typeof value === 'bigint') {
      if (value !== BigInt.asIntN(64, value)) throw new FilterProblem('needs a smaller number')
      return value
    }
    const number = parsedNumber(value)
    if (number === undefined) return Math.trunc(numberOf(args.get('default') ?? 0, 'as default'))
    if (Math.abs(number) > MOST_WHOLE_NUMBER) throw new FilterProblem('needs a smaller number')
    return Number.isSafeInteger(Math.trunc(number)) ? Math.trunc(number) : BigInt(Math.trunc(number))
  },
  __round: (value, ...given) => {
    const args = argumentsOf(given, ['precision', 'method'])
    const precision = widthOf(args.get('precision'), 'precision', 0)
    const method = args.get('method')
    if (method !== 'ceil' && method !== 'floor' && method !== 'common')
      throw new FilterProblem('needs a method: "common", "ceil" or "floor"')
    const number = numberOf(value)
    if (precision > MOST_ROUNDED_DIGITS) return String(number)
    tools.charge(ROUNDING_UNITS)
    if (method === 'common') return String(Number(fixed(Math.abs(number), precision)) * Math.sign(number))
    const factor = 10 ** precision
    return String((method === 'ceil' ? Math.ceil(number * factor) : Math.floor(number * factor)) / factor)
  },
})

/** Filters that fit a text into a width, or count its words. */
const layoutFilters = (tools: Tools): FilterTable => ({
  center: (value, ...given) => {
    const text = textOf(value)
    const width = widthOf(argumentsOf(given, ['width']).get('width'), 'width', 80)
    const padding = width - tools.taken(text).length
    if (padding <= 0) return text
    // Which side has one more is as Python decides it.
    const left = Math.floor(padding / 2) + (padding & width & 1)
    return ' '.repeat(left) + text + ' '.repeat(padding - left)
  },
  indent: (value, ...given) => {
    const args = argumentsOf(given, ['width', 'first', 'blank'])
    const width = args.get('width')
    const by = typeof width === 'string' ? width : ' '.repeat(widthOf(width, 'width', 4))
    const lines = linesOf(tools.slowInput(value))
    tools.charge(lines.length * by.length)
    const isBlankToo = flagOf(args.get('blank'), false)
    const text = lines.map((line, at) => (at > 0 && (line !== '' || isBlankToo) ? by + line : line)).join('\n')
    return flagOf(args.get('first'), false) ? by + text : text
  },
  truncate: (value, ...given) => {
    const args = argumentsOf(given, ['length', 'killwords', 'end', 'leeway'])
    const end = textOf(args.get('end') ?? '...')
    const length = widthOf(args.get('length'), 'length', 255)
    const text = textOf(value)
    const endLength = tools.taken(end).length
    const kept = length - endLength
    if (kept < 0) throw new FilterProblem(`needs a length of at least ${endLength}, for what it ends with`)
    const characters = tools.taken(text)
    if (characters.length <= length + widthOf(args.get('leeway'), 'leeway', 5)) return text
    const start = sliceOf(characters, 0, kept)
    const lastSpace = flagOf(args.get('killwords'), false) ? -1 : start.lastIndexOf(' ')
    return (lastSpace < 0 ? start : start.slice(0, lastSpace)) + end
  },
  wordcount: (value) => tools.slowInput(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0,
  wordwrap: (value, ...given) => {
    const args = argumentsOf(given, ['width', 'break_long_words', 'wrapstring', 'break_on_hyphens'])
    const wrapString = textOf(args.get('wrapstring') ?? '\n')
    const width = widthOf(args.get('width'), 'width', 79, 1)
    const text = textOf(value)
    tools.charge(WRAP_UNITS * text.length)
    const lines = linesOf(text)
    // Each character or line may have a break behind it.
    tools.charge(PIECE_UNITS * lines.length + (Math.ceil(text.length / width) + lines.length) * wrapString.length)
    return lines
      .map((line) =>
        wrapped(line, {
          width,
          breaksWords: flagOf(args.get('break_long_words'), true),
          breaksAtHyphens: flagOf(args.get('break_on_hyphens'), true),
        }).join(wrapString),
      )
      .join(wrapString)
  },
})

const encodingFilters = (tools: Tools): FilterTable => ({
  urlencode: (value) => {
    if (typeof value !== 'object' || value === null) return tools.encoded(textOf(value))
    if (!(value instanceof Map) && !Array.isArray(value))
      throw new FilterProblem('needs a text, mapping or list of pairs')
    return [...(value as Iterable<unknown>)]
      .map((pair) => {
        tools.charge(PIECE_UNITS)
        return `${queryPart(pair, 0, tools.encoded)}=${queryPart(pair, 1, tools.encoded)}`
      })
      .join('&')
  },
  xmlattr: (value, ...given) => {
    const isSpaced = flagOf(argumentsOf(given, ['autospace']).get('autospace'), true)
    if (!(value instanceof Map)) throw new FilterProblem('needs a mapping')
    const attributes = [...(value as ReadonlyMap<unknown, unknown>)]
      .filter(([, of]) => of !== undefined && of !== null)
      .map(([name, of]) => {
        tools.charge(PIECE_UNITS)
        const key = tools.slowInput(name)
        if (/[\s/>=]/.test(key) || key === '') throw new FilterProblem(`cannot have the attribute name "${key}"`)
        return `${escaped(key)}="${escaped(tools.slowInput(of))}"`
      })
    return (isSpaced && attributes.length > 0 ? ' ' : '') + attributes.join(' ')
  },
})

/** Whole numbers beyond it are not exact in minijinja. */
const MOST_WHOLE_NUMBER = 2 ** 62

/** A double has no more digits behind its point that could be rounded away. */
const MOST_ROUNDED_DIGITS = 20

/** A number, or a text that is one as Python reads it; undefined: neither. */
function parsedNumber(value: unknown): number | undefined {
  if (typeof value === 'boolean') return Number(value)
  if (typeof value === 'bigint') return Number(value)
  if (typeof value === 'string' && value.length > MOST_NUMBER_LENGTH) return undefined
  if (typeof value === 'string' && !/^\s*[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?\s*$/i.test(value))
    return undefined
  const number = typeof value === 'string' ? Number(value.replaceAll('_', '')) : value
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined
}

/** Units for a character that is looked at by itself, and for a piece that is handled by itself: an attribute, a pair. */
const SLOW_UNITS = 12
const WRAP_UNITS = 30
const PIECE_UNITS = 100
/** For a number whose digits are all written to find out how it is rounded. */
const ROUNDING_UNITS = 200
/** For a zone or language, beside its formatter. */
const INTL_UNITS = 5000

/** As Python's `splitlines` takes a text that ends with one more line break. */
const linesOf = (text: string): readonly string[] => {
  const lines = `${text}\n`.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/)
  lines.pop()
  return lines
}

const escaped = (text: string): string => text.replace(/[&<>"']/g, (found) => ENTITIES[found] ?? found)
const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
}

/** Everything but unreserved characters and `/` (RFC 3986 §2.3). */
const percentEncoded = (text: string): string =>
  encodeURIComponent(text.toWellFormed())
    .replace(/[!'()*]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%2F', '/')

function queryPart(pair: unknown, index: number, encoded: (text: string) => string): string {
  if (!Array.isArray(pair) || pair.length !== 2) throw new FilterProblem('needs a text, mapping or list of pairs')
  return encoded(textOf(pair[index])).replaceAll('/', '%2F').replaceAll('%20', '+')
}

const PREFIXES = ['k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y']

function fileSize(bytes: number, isBinary: boolean): string {
  const base = isBinary ? 1024 : 1000
  if (bytes === 1) return '1 Byte'
  if (bytes < base) return `${Math.trunc(bytes)} Bytes`
  const step = Math.max(1, PREFIXES.findIndex((_, at) => bytes < base ** (at + 2)) + 1 || PREFIXES.length)
  const prefix = PREFIXES[step - 1] ?? ''
  return `${(bytes / base ** step).toFixed(1)} ${isBinary ? `${prefix === 'k' ? 'K' : prefix}i` : prefix}B`
}
