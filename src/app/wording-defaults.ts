/** @module The texts of mails and pages that an account may replace, by language. */
import * as confirmation from '#features/audience/contact-lists/languages.ts'
import * as unsubscribing from '#features/sending/unsubscribe/languages.ts'
import type { TextsByLanguage } from '#features/setup/wording/texts.ts'
import { LANGUAGES } from '#platform/http/language.ts'

export const createWordingDefaults = (): TextsByLanguage =>
  Object.fromEntries(
    LANGUAGES.map((language) => [
      language,
      {
        ...confirmation.toReplaceableTexts(confirmation.CONFIRMATION_TEXTS[language]),
        ...unsubscribing.toReplaceableTexts(unsubscribing.TEXTS[language]),
      },
    ]),
  )
