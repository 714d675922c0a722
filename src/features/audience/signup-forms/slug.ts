/** @module The last part of a form's URL: readable, and not to be guessed from the title alone. */
import { randomBelow } from '#platform/ids.ts'

const LONGEST_NAME = 40
const RANDOM_CHARACTERS = 6
const BASE = 36
/** Letters of European languages that no decomposition makes ASCII. */
const LETTERS: Readonly<Record<string, string>> = {
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

/** What can be a slug; whatever else a stranger asks for names no form. */
export const SLUG = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** A new slug for a title, such as `newsletter-a1b2c3`. A title without ASCII letters and digits gives `form-a1b2c3`. */
export function newSlug(title: string): string {
  const random = Array.from({ length: RANDOM_CHARACTERS }, () => randomBelow(BASE).toString(BASE)).join('')
  return `${slugified(title) || 'form'}-${random}`
}

/** Small ASCII letters and digits with hyphens between words, at most 40. */
function slugified(title: string): string {
  const ascii = title
    .toLowerCase()
    .replace(/[ßæœøđðłþı]/g, (letter) => LETTERS[letter] ?? '')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
  return ascii
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, LONGEST_NAME)
    .replace(/-$/, '')
}
