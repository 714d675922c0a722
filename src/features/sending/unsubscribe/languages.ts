/**
 * @module Chooses the language of the unsubscribe pages: the browser's (RFC 9110 §12.5.4) if translated, else English.
 * Pure.
 */
import { english, type Texts } from './texts.ts'
import { dutch, french, german, italian, polish, portuguese, spanish } from './translations.ts'

/** All languages; the first is the default. */
export const TEXTS: readonly Texts[] = [english, german, french, spanish, italian, dutch, polish, portuguese]

const MAX_HEADER_LENGTH = 1000
const MAX_RANGES = 30
// RFC 4647 §2.1 with the weight of RFC 9110 §12.4.2. Subtags of a language (de-AT) are ignored.
const RANGE = /^\s*([a-z]{1,8}|\*)(?:-[a-z0-9]{1,8})*\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?$/i

/**
 * The texts in the reader's preferred language; English by default. @param accepted value of Accept-Language; accepts
 * any text
 */
export function chooseTexts(accepted: string | null): Texts {
  let best: { readonly texts: Texts; readonly weight: number } = { texts: english, weight: 0 }
  for (const range of (accepted ?? '').slice(0, MAX_HEADER_LENGTH).split(',', MAX_RANGES)) {
    const [, name = '', weight = '1'] = RANGE.exec(range) ?? []
    const texts = name === '*' ? english : TEXTS.find(({ language }) => language === name.toLowerCase())
    // The first of equal weights wins.
    if (texts && Number(weight) > best.weight) best = { texts, weight: Number(weight) }
  }
  return best.texts
}
