/** @module The saved wording of an account in mails and pages with sample data, for a frame of the dashboard. */
import { CONFIRMATION_DAYS, renderConfirmationMail } from '#features/audience/contact-lists/confirmation-mail.ts'
import { confirmationPage, confirmedPage } from '#features/audience/contact-lists/page.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { askPage, stoppedPage } from '#features/sending/unsubscribe/page.ts'
import { findLogo, readWording, toShownTexts } from '#features/setup/wording/wording.ts'
import { AppError } from '#platform/errors.ts'
import { parseLanguage } from '#platform/http/language.ts'

const SENDER = 'example.com'
const READER = 'reader@example.net'
const LIST = 'Customers'

/** @param place of the mail or page @throws 404 for an unknown place */
export function renderWordingPreview(
  { db }: Pick<App, 'db'>,
  { accountId }: Actor,
  place: string,
  tag: string | undefined,
): string {
  const language = parseLanguage(tag) ?? 'en'
  const texts = toShownTexts(readWording(db, accountId), {
    language,
    sender: SENDER,
    list: LIST,
    // The frame may load nothing.
    toLogoUrl: (hash) => {
      const logo = findLogo(db, hash)
      return logo ? `data:${logo.type};base64,${Buffer.from(logo.bytes).toString('base64')}` : ''
    },
  })
  const subject = { listName: LIST, address: READER, senderDomain: SENDER }
  const subscription = { address: READER, senderDomain: SENDER, isOfPart: true, partName: LIST }
  switch (place) {
    case 'mail': {
      const mail = { ...subject, url: `https://${SENDER}/confirm`, days: CONFIRMATION_DAYS }
      return renderConfirmationMail(texts, mail).html
    }
    case 'confirm':
      return confirmationPage(texts, subject).text
    case 'confirmed':
      return confirmedPage(texts, subject).text
    case 'unsubscribe':
      return askPage(texts, subscription).text
    case 'unsubscribed':
      return stoppedPage(texts, subscription).text
    default:
      throw new AppError(404, 'preview_not_found', 'There is no such mail or page.')
  }
}
