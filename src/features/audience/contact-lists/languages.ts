/** @module The texts of confirmation emails and pages by language. Pure. */
import { chooseLanguage, type Language } from '#platform/http/language.ts'
import { type ConfirmationTexts, english } from './texts.ts'
import { dutch, french, german, italian, polish, portuguese, spanish } from './translations.ts'

export const CONFIRMATION_TEXTS: Readonly<Record<Language, ConfirmationTexts>> = {
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
export const chooseConfirmationTexts = (accepted: string | null): ConfirmationTexts =>
  CONFIRMATION_TEXTS[chooseLanguage(accepted)]
