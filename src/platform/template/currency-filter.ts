/**
 * @module Formats amounts of money for a locale. The same amount always gives the same text in the same version of the
 * runtime.
 */
import { FilterError } from './filter-arguments.ts'
import type { Formatters } from './formatters.ts'

export function createCurrencyFilter(
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
