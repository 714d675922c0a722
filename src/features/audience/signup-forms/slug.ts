/** @module The last part of a form's URL: readable, but not guessable from the title alone. */
import { randomBelow } from '#platform/ids.ts'

const MAX_TITLE_PART_LENGTH = 40
const RANDOM_LENGTH = 6
const RADIX = 36
/** Letters of European languages that Unicode decomposition does not turn into ASCII. */
const TRANSLITERATIONS: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  đ: 'd',
  ð: 'd',
  ł: 'l',
  þ: 'th',
  ı: 'i',
}

/** The format of slugs; any other text in a request matches no form. */
export const SLUG_PATTERN = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/**
 * Creates a slug for a title, such as `newsletter-a1b2c3`. A title without ASCII letters and digits gives
 * `form-a1b2c3`.
 */
export function createSlug(title: string): string {
  const random = Array.from({ length: RANDOM_LENGTH }, () => randomBelow(RADIX).toString(RADIX)).join('')
  return `${slugify(title) || 'form'}-${random}`
}

/** Lower-case ASCII letters and digits with hyphens between words, at most 40. */
function slugify(title: string): string {
  const ascii = title
    .toLowerCase()
    .replace(/[ßæœøđðłþı]/g, (letter) => TRANSLITERATIONS[letter] ?? '')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
  return ascii
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, MAX_TITLE_PART_LENGTH)
    .replace(/-$/, '')
}
