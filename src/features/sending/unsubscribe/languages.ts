/** @module The texts of the unsubscribe pages by language, and those of an account in their place. Pure. */
import type { Texts as OwnTexts } from '#features/setup/wording/texts.ts'
import type { OwnWords } from '#features/setup/wording/wording.ts'
import { chooseLanguage, type Language } from '#platform/http/language.ts'
import { english, type Texts } from './texts.ts'
import { dutch, french, german, italian, polish, portuguese, spanish } from './translations.ts'

export const TEXTS: Readonly<Record<Language, Texts>> = {
  en: english,
  de: german,
  fr: french,
  es: spanish,
  it: italian,
  nl: dutch,
  pl: polish,
  pt: portuguese,
}

/** The texts in the reader's preferred language; English by default. @param accepted value of Accept-Language */
export const chooseTexts = (accepted: string | null): Texts => TEXTS[chooseLanguage(accepted)]

/** Our texts, some replaced by those of an account. */
export const applyOwnWords = (texts: Texts, own: OwnWords): Texts => ({
  ...texts,
  own,
  question: own.texts.unsubscribe_heading ?? texts.question,
  unsubscribe: own.texts.unsubscribe_button ?? texts.unsubscribe,
  isOff: own.texts.unsubscribed_heading ?? texts.isOff,
})

/** Those of our texts that an account may replace. */
export const toReplaceableTexts = ({ question, unsubscribe, isOff }: Texts): OwnTexts => ({
  unsubscribe_heading: question,
  unsubscribe_button: unsubscribe,
  unsubscribed_heading: isOff,
})
