/** @module The saved wording of an account in mails and pages with sample data, for a frame of the dashboard. */
import { renderConfirmationMail } from '#features/audience/contact-lists/confirmation-mail.ts'
import * as confirmation from '#features/audience/contact-lists/languages.ts'
import { confirmationPage, confirmedPage } from '#features/audience/contact-lists/page.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import * as unsubscribing from '#features/sending/unsubscribe/languages.ts'
import { askPage, stoppedPage } from '#features/sending/unsubscribe/page.ts'
import { findLogo, readWording, toOwnWords } from '#features/setup/wording/wording.ts'
import { AppError } from '#platform/errors.ts'
import { parseLanguage } from '#platform/http/language.ts'

const SENDER = 'example.com'
const READER = 'reader@example.net'
const LIST = 'Customers'

/** @param place of the mail or page @throws 404 for an unknown place */
export function renderWordingPreview(
  { db, config }: Pick<App, 'db' | 'config'>,
  { accountId }: Actor,
  place: string,
  tag: string | undefined,
): string {
  const language = parseLanguage(tag) ?? 'en'
  const own = toOwnWords(readWording(db, accountId), {
    language,
    sender: SENDER,
    list: LIST,
    // The frame may load nothing.
    toLogoUrl: (hash) => {
      const logo = findLogo(db, hash)
      return logo ? `data:${logo.type};base64,${Buffer.from(logo.bytes).toString('base64')}` : ''
    },
  })
  const confirmTexts = confirmation.applyOwnWords(confirmation.CONFIRMATION_TEXTS[language], own)
  const unsubscribeTexts = unsubscribing.applyOwnWords(unsubscribing.TEXTS[language], own)
  const subject = { listName: LIST, address: READER, senderDomain: SENDER }
  const subscription = { address: READER, senderDomain: SENDER, isOfPart: true, partName: LIST }
  switch (place) {
    case 'mail': {
      const mail = { ...subject, url: `https://${SENDER}/confirm`, days: config.confirmationDays }
      return renderConfirmationMail(confirmTexts, mail).html
    }
    case 'confirm':
      return confirmationPage(confirmTexts, subject).text
    case 'confirmed':
      return confirmedPage(confirmTexts, subject).text
    case 'unsubscribe':
      return askPage(unsubscribeTexts, subscription).text
    case 'unsubscribed':
      return stoppedPage(unsubscribeTexts, subscription).text
    default:
      throw new AppError(404, 'preview_not_found', 'There is no such mail or page.')
  }
}
