/** @module Amounts of money as a language writes them. The same runtime writes an amount always alike. */
import { FilterProblem } from './filter-arguments.ts'

/** Making a formatter takes a thousand times as long as using it. */
const MOST_FORMATTERS = 64

export function createCurrencyFilter(): (amount: number, code: unknown, locale: unknown) => string {
  const formatters = new Map<string, Intl.NumberFormat>()
  const formatterOf = (code: string, locale: string): Intl.NumberFormat => {
    const key = `${code} ${locale}`
    const known = formatters.get(key)
    if (known) return known
    let formatter: Intl.NumberFormat
    try {
      if (Intl.NumberFormat.supportedLocalesOf(locale).length === 0) throw new RangeError()
      formatter = new Intl.NumberFormat(locale, { style: 'currency', currency: code })
    } catch {
      throw new FilterProblem(`does not know the locale "${locale}"`)
    }
    const [oldest] = formatters.keys()
    if (formatters.size >= MOST_FORMATTERS && oldest !== undefined) formatters.delete(oldest)
    formatters.set(key, formatter)
    return formatter
  }
  return (amount, code, locale = 'en-US') => {
    if (typeof code !== 'string' || !/^[A-Z]{3}$/.test(code)) throw new FilterProblem('needs a currency such as "EUR"')
    if (typeof locale !== 'string' || locale.length > 35 || locale === '')
      throw new FilterProblem('needs a locale such as "de-DE"')
    return formatterOf(code, locale).format(amount)
  }
}
