/** @module The texts of the unsubscribe pages by language. Pure. */
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
