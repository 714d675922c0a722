/**
 * @module The pages behind a confirmation link. Pure: from values to HTML without scripts. The first page asks for a
 * confirmation, and its button confirms; opening the page changes nothing. The pages load nothing from other hosts.
 */
import { renderOwnText, renderSender, renderTextPage } from '#features/setup/wording/brand.ts'
import { fillHtml } from '#features/setup/wording/languages.ts'
import type { ShownTexts } from '#features/setup/wording/wording.ts'
import { type Html, html } from '#platform/http/html.ts'

/** The subscription that the pages are about. */
export interface PageSubject {
  readonly listName: string
  readonly address: string
  /** Domain of the sender; `''` when it is unknown. */
  readonly senderDomain: string
}

/** What a page says: a question before the button is pressed, the result after it, or why the link does nothing. */
export type LinkPage = 'question' | 'confirmed' | 'active' | 'expired' | 'replaced' | 'refused'

/** @param formUrl where to subscribe again; undefined: the list has no form */
export function linkPage(texts: ShownTexts, page: LinkPage, subject: PageSubject, formUrl?: string): Html {
  const fill = (text: string): Html => fillSentence(texts, text, subject)
  switch (page) {
    case 'question':
      return renderTextPage(
        texts,
        texts.confirm_heading,
        html`${renderOwnText(texts.confirm_text)}<p>${fill(texts.confirm_will_get)}</p>
${buttonHtml(texts)}
<p class="note">${texts.confirm_not_asked}</p>`,
        texts.confirm_title,
      )
    case 'confirmed':
      return renderTextPage(
        texts,
        texts.confirmed_heading,
        html`${renderOwnText(texts.confirmed_text)}<p>${fill(texts.confirmed_gets)}</p>
<p>${texts.confirmed_every_message}</p>`,
      )
    case 'active':
      return renderTextPage(
        texts,
        texts.confirmed_before_heading,
        html`<p>${fill(texts.confirmed_gets)} ${texts.confirmed_before_nothing_to_do}</p>`,
      )
    case 'expired':
      return renderTextPage(
        texts,
        texts.link_expired_heading,
        html`<p>${fill(texts.link_expired_not_in_time)}</p>
${resubscribeHtml(texts, subject, formUrl)}`,
      )
    case 'replaced':
      return renderTextPage(
        texts,
        texts.link_replaced_heading,
        html`<p>${fill(texts.link_replaced_sent_another)}</p>
<p>${texts.link_replaced_cannot_find}</p>`,
      )
    case 'refused':
      return renderTextPage(
        texts,
        texts.link_withdrawn_heading,
        html`<p>${fill(texts.link_withdrawn_no_longer_gets)}</p>
${resubscribeHtml(texts, subject, formUrl)}`,
      )
  }
}

/** The list, or the address on it, has been deleted. */
export const nothingToConfirmPage = (texts: ShownTexts): Html =>
  renderTextPage(texts, texts.nothing_left_heading, html`<p>${texts.nothing_left_list_closed}</p>`)

/** The token is not one of ours, or was changed since. */
export const incompleteLinkPage = (texts: ShownTexts): Html =>
  renderTextPage(
    texts,
    texts.confirm_incomplete_heading,
    html`<p>${texts.confirm_incomplete_what_unknown}</p>
<p>${texts.confirm_incomplete_open_again}</p>`,
  )

/** The service cannot store anything at the moment. */
export const notStoredPage = (texts: ShownTexts): Html =>
  renderTextPage(
    texts,
    texts.failed_heading,
    html`<p>${texts.failed_confirmation_not_stored}</p>
${buttonHtml(texts)}`,
  )

function fillSentence(texts: ShownTexts, text: string, { address, listName, senderDomain }: PageSubject): Html {
  const names = { list: html`<bdi>${listName}</bdi>`, sender: renderSender(texts, senderDomain) }
  return fillHtml(text, {
    ...names,
    address: html`<strong><bdi>${address}</bdi></strong>`,
    mail: fillHtml(senderDomain === '' && !texts.name ? texts.list_mail : texts.list_mail_from, names),
  })
}

function resubscribeHtml(texts: ShownTexts, subject: PageSubject, formUrl: string | undefined): Html {
  const askSender =
    subject.senderDomain === '' && !texts.name ? texts.still_wanted_ask_unknown_sender : texts.still_wanted_ask_sender
  return html`<p>${texts.still_wanted} ${
    formUrl === undefined
      ? fillSentence(texts, askSender, subject)
      : html`<a href="${formUrl}">${texts.still_wanted_subscribe}</a>`
  }</p>`
}

/** Posts to the page's own URL, so that any path prefix is kept. */
const buttonHtml = (texts: ShownTexts): Html =>
  html`<form method="post"><button>${texts.confirm_button}</button></form>`
