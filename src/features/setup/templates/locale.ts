/** @module The languages of templates: BCP 47 tags, and which template stands in for a missing one (RFC 4647 §3.4). Pure. */
import { invalid } from '#platform/errors.ts'

export const MAX_LOCALE_LENGTH = 35

/** A language tag in its canonical form, also of the form `de_AT` that programs use; undefined for any other text. */
export function canonicaliseLocale(text: string): string | undefined {
  try {
    return text.length > MAX_LOCALE_LENGTH ? undefined : Intl.getCanonicalLocales(text.replaceAll('_', '-'))[0]
  } catch {
    return undefined
  }
}

/**
 * The canonical tag; null for none, which clients also send as an empty text. Throws 422 for a text that is no tag.
 * @param hasTemplate whether there is a template whose language it can choose; if not, it throws for any tag
 */
export function parseLocale(text: string | null | undefined, hasTemplate = true): string | null {
  if (text === undefined || text === null || text === '') return null
  if (!hasTemplate)
    throw invalid('locale', 'locale chooses the language of a template: set template_alias too, or omit locale.')
  const locale = canonicaliseLocale(text)
  if (locale !== undefined) return locale
  const shown = text.slice(0, MAX_LOCALE_LENGTH)
  throw invalid('locale', `locale must be a language tag of BCP 47, such as de, de-AT or zh-Hant; "${shown}" is none.`)
}

/** The locale, those that stand in for it from narrow to broad, and the default one: de-AT, de, null. */
export function listFallbacks(locale: string | null): (string | null)[] {
  const subtags = locale === null ? [] : locale.split('-')
  const broader = subtags.map((_, index) => subtags.slice(0, subtags.length - index))
  // A single letter only introduces what follows it.
  return [...broader.filter((tags) => (tags.at(-1) ?? '').length > 1).map((tags) => tags.join('-')), null]
}
