/** @module The language of the unsubscribe pages: that of the browser (RFC 9110 §12.5.4), where there is a translation, else English. Pure. */
import { english, type Texts } from './texts.ts'
import { dutch, french, german, italian, polish, portuguese, spanish } from './translations.ts'

/** All languages; the first is that of everybody else. */
export const TEXTS: readonly Texts[] = [english, german, french, spanish, italian, dutch, polish, portuguese]

const MAX_HEADER_LENGTH = 1000
const MAX_RANGES = 30
// RFC 4647 §2.1 with the weight of RFC 9110 §12.4.2. What follows the language (de-AT) makes no difference here.
const RANGE = /^\s*([a-z]{1,8}|\*)(?:-[a-z0-9]{1,8})*\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?$/i

/** The texts that a reader likes best; English when there are none, or nothing is said. @param accepted value of Accept-Language; takes any text */
export function chooseTexts(accepted: string | null): Texts {
  let best: { readonly texts: Texts; readonly weight: number } = { texts: english, weight: 0 }
  for (const range of (accepted ?? '').slice(0, MAX_HEADER_LENGTH).split(',', MAX_RANGES)) {
    const [, name = '', weight = '1'] = RANGE.exec(range) ?? []
    const texts = name === '*' ? english : TEXTS.find(({ language }) => language === name.toLowerCase())
    // Of equal weight the first counts.
    if (texts && Number(weight) > best.weight) best = { texts, weight: Number(weight) }
  }
  return best.texts
}
