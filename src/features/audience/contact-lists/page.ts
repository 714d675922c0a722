/**
 * @module The pages behind a confirmation link. Pure: from values to HTML without scripts. The first page asks for a
 * confirmation, and its button confirms; opening the page changes nothing. The pages load nothing from other hosts.
 */
import { BRAND_STYLE, renderBrand, renderOwnText, renderSender } from '#features/setup/wording/brand.ts'
import { type Html, html, htmlPage } from '#platform/http/html.ts'
import { fillText } from '#platform/http/language.ts'
import type { ConfirmationTexts } from './texts.ts'

/** The subscription that the pages are about. */
export interface PageSubject {
  readonly listName: string
  readonly address: string
  /** Domain of the sender; `''` when it is unknown. */
  readonly senderDomain: string
}

/** Asks whether the owner of the address wants the list's mail. */
export const confirmationPage = (texts: ConfirmationTexts, subject: PageSubject): Html =>
  renderPage(
    texts,
    texts.title,
    html`<h1>${texts.question}</h1>
${renderOwnText(texts.own?.texts.confirm_text)}<p>${fillSentence(texts, texts.willGet, subject)}</p>
${buttonHtml(texts)}
<p class="note">${texts.notAsked}</p>`,
  )

/** The visitor has just confirmed with the button. */
export const confirmedPage = (texts: ConfirmationTexts, subject: PageSubject): Html =>
  renderPage(
    texts,
    texts.isConfirmed,
    html`<h1>${texts.isConfirmed}</h1>
${renderOwnText(texts.own?.texts.confirmed_text)}<p>${fillSentence(texts, texts.gets, subject)}</p>
<p>${texts.everyMessage}</p>`,
  )

/** The subscription had been confirmed before. */
export const alreadyConfirmedPage = (texts: ConfirmationTexts, subject: PageSubject): Html =>
  renderPage(
    texts,
    texts.wasConfirmed,
    html`<h1>${texts.wasConfirmed}</h1>
<p>${fillSentence(texts, texts.gets, subject)} ${texts.nothingToDo}</p>`,
  )

/** @param formUrl where to subscribe again; undefined: the list has no form */
export const linkExpiredPage = (texts: ConfirmationTexts, subject: PageSubject, formUrl: string | undefined): Html =>
  renderPage(
    texts,
    texts.hasExpired,
    html`<h1>${texts.hasExpired}</h1>
<p>${fillSentence(texts, texts.notInTime, subject)}</p>
${resubscribeHtml(texts, subject, formUrl)}`,
  )

/** A later email contains the valid link. */
export const linkReplacedPage = (texts: ConfirmationTexts, subject: PageSubject): Html =>
  renderPage(
    texts,
    texts.isReplaced,
    html`<h1>${texts.isReplaced}</h1>
<p>${fillSentence(texts, texts.sentAnother, subject)}</p>
<p>${texts.cannotFind}</p>`,
  )

/**
 * After the link was sent, the contact left, its mail bounced, or its address was suppressed: the link is no longer
 * valid.
 */
export const linkWithdrawnPage = (texts: ConfirmationTexts, subject: PageSubject, formUrl: string | undefined): Html =>
  renderPage(
    texts,
    texts.isWithdrawn,
    html`<h1>${texts.isWithdrawn}</h1>
<p>${fillSentence(texts, texts.noLongerGets, subject)}</p>
${resubscribeHtml(texts, subject, formUrl)}`,
  )

/** The list, or the address on it, has been deleted. */
export const nothingToConfirmPage = (texts: ConfirmationTexts): Html =>
  renderPage(
    texts,
    texts.nothingLeft,
    html`<h1>${texts.nothingLeft}</h1>
<p>${texts.listClosed}</p>`,
  )

/** The token is not one of ours, or was changed since. */
export const incompleteLinkPage = (texts: ConfirmationTexts): Html =>
  renderPage(
    texts,
    texts.isIncomplete,
    html`<h1>${texts.isIncomplete}</h1>
<p>${texts.whatUnknown}</p>
<p>${texts.openAgain}</p>`,
  )

/** The service cannot store anything at the moment. */
export const notStoredPage = (texts: ConfirmationTexts): Html =>
  renderPage(
    texts,
    texts.didNotWork,
    html`<h1>${texts.didNotWork}</h1>
<p>${texts.notStored}</p>
${buttonHtml(texts)}`,
  )

/** Fills in the names that most texts have. */
function fillSentence(texts: ConfirmationTexts, text: string, { address, listName, senderDomain }: PageSubject): Html {
  const names = { list: html`<bdi>${listName}</bdi>`, sender: renderSender(texts.own, senderDomain) }
  return fillText(text, {
    ...names,
    address: html`<strong><bdi>${address}</bdi></strong>`,
    mail: fillText(senderDomain === '' && !texts.own?.name ? texts.mail : texts.mailFrom, names),
  })
}

function resubscribeHtml(texts: ConfirmationTexts, subject: PageSubject, formUrl: string | undefined): Html {
  const askSender = subject.senderDomain === '' && !texts.own?.name ? texts.askUnknownSender : texts.askSender
  return html`<p>${texts.stillWanted} ${
    formUrl === undefined
      ? fillSentence(texts, askSender, subject)
      : html`<a href="${formUrl}">${texts.subscribeAgain}</a>`
  }</p>`
}

/** Posts to the page's own URL, so that any path prefix is kept. */
const buttonHtml = ({ confirm }: ConfirmationTexts): Html =>
  html`<form method="post"><button>${confirm}</button></form>`

/** These pages' browser tests measure contrast (WCAG 2.2 §1.4.3, §1.4.11) and the button's size (§2.5.5). */
const STYLE = `
form { margin: 1.25rem 0 0; }
.note { margin-top: 2rem; padding-top: 1.5rem; border-top: 1px solid var(--line); font-size: 1rem; color: var(--faint); }
button { min-width: min(12rem, 100%); max-width: 100%; overflow-wrap: anywhere; padding: .625rem min(1.5rem, 5%); border: 2px solid var(--strong); border-radius: 8px; font: inherit; font-weight: 600; cursor: pointer; background: var(--strong); color: var(--on-strong); }
button:hover { text-decoration: underline; }
button:focus-visible, a:focus-visible { outline: 3px solid var(--strong); outline-offset: 3px; }
@media (max-width: 30rem) {
  button { width: 100%; }
}
`

const renderPage = ({ language, own }: ConfirmationTexts, title: string, main: Html): Html =>
  htmlPage({ title, language, style: STYLE + BRAND_STYLE, main: html`${renderBrand(own)}${main}` })
