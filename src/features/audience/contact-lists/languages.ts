/** @module The texts of confirmation emails and pages by language, and those of an account in their place. Pure. */
import type { Texts as OwnTexts } from '#features/setup/wording/texts.ts'
import type { OwnWords } from '#features/setup/wording/wording.ts'
import { chooseLanguage, fillPlain, type Language } from '#platform/http/language.ts'
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

/** Our texts, some replaced by those of an account. `confirmation-mail.ts` chooses the subject. */
export const applyOwnWords = (texts: ConfirmationTexts, own: OwnWords): ConfirmationTexts => ({
  ...texts,
  own,
  confirmButton: own.texts.mail_button ?? texts.confirmButton,
  question: own.texts.confirm_heading ?? texts.question,
  confirm: own.texts.confirm_button ?? texts.confirm,
  isConfirmed: own.texts.confirmed_heading ?? texts.isConfirmed,
})

/** Those of our texts that an account may replace. */
export const toReplaceableTexts = (texts: ConfirmationTexts): OwnTexts => ({
  mail_subject: fillPlain(texts.subject, { list: '{{list}}' }),
  mail_intro: texts.hello,
  mail_button: texts.confirmButton,
  confirm_heading: texts.question,
  confirm_button: texts.confirm,
  confirmed_heading: texts.isConfirmed,
})
