/** @module The filter `format`: Python's `%` operator with the conversions that text needs. */
import { type Charge, FilterError, formatValue, MAX_WIDTH, toNumber } from './filter-arguments.ts'

const MAX_DIGITS = 50
const CONVERSION_UNITS = 300
/** For numbers below this limit, toFixed writes no exponent. */
const FIXED_UNTIL = 1e21

const CONVERSION =
  /%(?:\((?<name>[^)]*)\))?(?<flags>[-+ 0#]*)(?<width>\d+|\*)?(?:\.(?<digits>\d+|\*))?[hlL]?(?<type>[\s\S])?/g

/** @param given the arguments; the named ones are in a Map at the end */
export function formatText(pattern: string, given: readonly unknown[], charge: Charge): string {
  const last = given.at(-1)
  const named = last instanceof Map ? (last as ReadonlyMap<unknown, unknown>) : undefined
  const positional = named ? given.slice(0, -1) : given
  if (named && positional.length > 0) throw new FilterError('takes either positional or named arguments')
  let used = 0
  const text = pattern.replace(CONVERSION, (found, ...rest) => {
    const groups = rest.at(-1) as Readonly<Record<string, string | undefined>>
    const { name, flags = '', width = '0', digits, type } = groups
    if (type === '%') return '%'
    if (type === undefined || width === '*' || digits === '*') throw new FilterError(`does not know "${found}"`)
    const minimum = Number(width)
    const precision = digits === undefined ? undefined : Number(digits)
    if (minimum > MAX_WIDTH) throw new FilterError(`needs widths up to ${MAX_WIDTH}`)
    if (type === 's' && precision !== undefined && precision > MAX_WIDTH)
      throw new FilterError(`needs precisions of %s up to ${MAX_WIDTH}`)
    if (type !== 's' && precision !== undefined && precision > MAX_DIGITS)
      throw new FilterError(`needs at most ${MAX_DIGITS} digits after the decimal point`)
    const value = argumentFor(name)
    const converted = convert(value, type, flags, precision)
    charge(CONVERSION_UNITS + converted.length + minimum)
    return padText(converted, flags, minimum, type)
  })
  if (!named && used < positional.length) throw new FilterError('has more arguments than placeholders')
  return text

  function argumentFor(name: string | undefined): unknown {
    if (name !== undefined) {
      if (!named?.has(name)) throw new FilterError(`has no argument "${name}"`)
      return named.get(name)
    }
    if (used >= positional.length) throw new FilterError('has fewer arguments than placeholders')
    return positional[used++]
  }
}

function convert(value: unknown, type: string, flags: string, precision: number | undefined): string {
  switch (type) {
    case 's':
      return precision === undefined ? formatValue(value) : takeCharacters(formatValue(value), precision)
    case 'c':
      return typeof value === 'string' ? value.slice(0, 2) : String.fromCodePoint(toCodePoint(value))
    case 'd':
    case 'i':
    case 'u':
      return formatSigned(toInteger(value), flags, (whole) => whole.toString().padStart(precision ?? 0, '0'))
    case 'x':
    case 'X':
    case 'o':
      return formatSigned(toInteger(value), flags, (whole) => {
        const digits = whole.toString(type === 'o' ? 8 : 16).padStart(precision ?? 0, '0')
        return (flags.includes('#') ? `0${type}` : '') + (type === 'X' ? digits.toUpperCase() : digits)
      })
    case 'f':
    case 'F':
      return formatSigned(toNumber(value), flags, (number) => formatFixed(Number(number), precision ?? 6))
    case 'e':
    case 'E':
      return formatSigned(toNumber(value), flags, (number) => formatExponential(Number(number), precision ?? 6, type))
    case 'g':
    case 'G':
      return formatSigned(toNumber(value), flags, (number) => formatGeneral(Number(number), precision ?? 6, type))
    default:
      throw new FilterError(`does not know "%${type}"`)
  }
}

/** The first characters of a text; each has one or two UTF-16 units. */
const takeCharacters = (text: string, characters: number): string =>
  [...text.slice(0, 2 * characters)].slice(0, characters).join('')

function toInteger(value: unknown): bigint {
  if (typeof value === 'bigint') return value
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new FilterError('needs a number for %d')
  return BigInt(Math.trunc(value))
}

function toCodePoint(value: unknown): number {
  const point = toNumber(value, 'for %c')
  if (!Number.isInteger(point) || point < 0 || point > 0x10ffff) throw new FilterError('needs a character for %c')
  return point
}

function formatSigned(number: number | bigint, flags: string, write: (absolute: number | bigint) => string): string {
  const isNegative = number < 0 || Object.is(number, -0)
  const absolute = typeof number === 'bigint' ? (isNegative ? -number : number) : Math.abs(number)
  return (isNegative ? '-' : flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '') + write(absolute)
}

/**
 * Formats a number of at least 0 with `digits` decimal places. Rounds half to even, as Python does, whereas toFixed
 * rounds a half up.
 */
export function formatFixed(number: number, digits: number): string {
  if (number >= FIXED_UNTIL) return BigInt(number).toString() + (digits > 0 ? `.${'0'.repeat(digits)}` : '')
  const rounded = number.toFixed(digits)
  const exact = number.toFixed(100)
  const cut = exact.slice(0, exact.indexOf('.') + 1 + digits)
  const isHalf = /^50*$/.test(exact.slice(cut.length))
  const down = digits === 0 ? cut.slice(0, -1) : cut
  return isHalf && Number(down.at(-1)) % 2 === 0 ? down : rounded
}

function formatExponential(number: number, digits: number, type: string): string {
  const [mantissa = '', exponent = ''] = number.toExponential(digits).split('e')
  const sign = exponent.startsWith('-') ? '-' : '+'
  const text = `${mantissa}e${sign}${exponent.slice(1).padStart(2, '0')}`
  return type === 'E' || type === 'G' ? text.toUpperCase() : text
}

/**
 * Formats with the requested number of significant digits, without trailing zeros; with an exponent for numbers below
 * 0.0001 or with more integer digits than requested.
 */
function formatGeneral(number: number, digits: number, type: string): string {
  const precision = Math.max(1, digits)
  const exponent = number === 0 ? 0 : Number(number.toExponential(precision - 1).split('e')[1])
  const trimmed = (text: string): string => (text.includes('.') ? text.replace(/\.?(?<!0)0+(?=e|E|$)/, '') : text)
  if (exponent < -4 || exponent >= precision) return trimmed(formatExponential(number, precision - 1, type))
  return trimmed(number.toFixed(Math.min(100, precision - 1 - exponent)))
}

function padText(text: string, flags: string, width: number, type: string): string {
  if (text.length >= 2 * width) return text
  const missing = width - [...text].length
  if (missing <= 0) return text
  if (flags.includes('-')) return text + ' '.repeat(missing)
  if (!flags.includes('0') || type === 's' || type === 'c') return ' '.repeat(missing) + text
  const [, sign = '', rest = ''] = /^([-+ ]?(?:0[xXo])?)([\s\S]*)$/.exec(text) ?? []
  return sign + '0'.repeat(missing) + rest
}
