/**
 * @module The pages behind a confirmation link. Pure: from values to HTML without scripts. The first page asks for a
 * confirmation, and its button confirms; opening the page changes nothing. The pages load nothing from other hosts.
 */
import { type Html, html, htmlPage } from '#platform/http/html.ts'

/** The subscription that the pages are about. */
export interface PageSubject {
  readonly listName: string
  readonly address: string
  /** Domain of the sender; `''` when it is unknown. */
  readonly senderDomain: string
}

/** Asks whether the owner of the address wants the list's mail. */
export const confirmationPage = (subject: PageSubject): Html =>
  renderPage(
    'Confirm your subscription',
    html`<h1>Confirm your subscription?</h1>
<p>${addressHtml(subject)} will then get ${mailHtml(subject)}.</p>
${buttonHtml('Confirm')}
<p class="note">If you did not ask for this, just close the page: you will get no mail.</p>`,
  )

/** The visitor has just confirmed with the button. */
export const confirmedPage = (subject: PageSubject): Html =>
  renderPage(
    'Your subscription is confirmed',
    html`<h1>Your subscription is confirmed</h1>
<p>${addressHtml(subject)} gets ${mailHtml(subject)}.</p>
<p>Every one of its messages lets you unsubscribe. You can close this page.</p>`,
  )

/** The subscription had been confirmed before. */
export const alreadyConfirmedPage = (subject: PageSubject): Html =>
  renderPage(
    'Your subscription was already confirmed',
    html`<h1>Your subscription was already confirmed</h1>
<p>${addressHtml(subject)} gets ${mailHtml(subject)}. You need not do anything.</p>`,
  )

/** @param formUrl where to subscribe again; undefined: the list has no form */
export const linkExpiredPage = (subject: PageSubject, formUrl: string | undefined): Html =>
  renderPage(
    'This link has expired',
    html`<h1>This link has expired</h1>
<p>It was not used in time, so ${addressHtml(subject)} is not on the list “${listNameHtml(subject)}”.</p>
${resubscribeHtml(formUrl, subject)}`,
  )

/** A later email contains the valid link. */
export const linkReplacedPage = (subject: PageSubject): Html =>
  renderPage(
    'There is a newer link',
    html`<h1>There is a newer link</h1>
<p>We sent another message to ${addressHtml(subject)} after the one with this link. Please use the link in the newest one.</p>
<p>Cannot find it? Check your spam folder.</p>`,
  )

/**
 * After the link was sent, the contact left, its mail bounced, or its address was suppressed: the link is no longer
 * valid.
 */
export const linkWithdrawnPage = (subject: PageSubject, formUrl: string | undefined): Html =>
  renderPage(
    'This link is no longer valid',
    html`<h1>This link is no longer valid</h1>
<p>${addressHtml(subject)} no longer gets the mail of “${listNameHtml(subject)}”, and an old link does not change that.</p>
${resubscribeHtml(formUrl, subject)}`,
  )

/** The list, or the address on it, has been deleted. */
export const nothingToConfirmPage = (): Html =>
  renderPage(
    'There is nothing left to confirm',
    html`<h1>There is nothing left to confirm</h1>
<p>The list was closed, or your address was removed from it. This link causes no mail to you.</p>`,
  )

/** The token is not one of ours, or was changed since. */
export const incompleteLinkPage = (): Html =>
  renderPage(
    'This link is incomplete',
    html`<h1>This link is incomplete</h1>
<p>Part of it is missing or wrong, so we cannot tell what to confirm. Nothing was changed.</p>
<p>Open the link in the message again, or copy all of it.</p>`,
  )

/** The service cannot store anything at the moment. */
export const notStoredPage = (): Html =>
  renderPage(
    'Something went wrong',
    html`<h1>Something went wrong</h1>
<p>Your confirmation could not be stored, so nothing was changed. Try again in a few minutes.</p>
${buttonHtml('Confirm')}`,
  )

const addressHtml = (subject: PageSubject): Html => html`<strong><bdi>${subject.address}</bdi></strong>`

const listNameHtml = (subject: PageSubject): Html => html`<bdi>${subject.listName}</bdi>`

const mailHtml = (subject: PageSubject): Html =>
  subject.senderDomain === ''
    ? html`the mail of “${listNameHtml(subject)}”`
    : html`the mail of “${listNameHtml(subject)}” from <strong><bdi>${subject.senderDomain}</bdi></strong>`

const resubscribeHtml = (formUrl: string | undefined, subject: PageSubject): Html =>
  formUrl === undefined
    ? html`<p>Still want it? Ask its sender${subject.senderDomain === '' ? '' : html`, <strong><bdi>${subject.senderDomain}</bdi></strong>,`} to add you to the list.</p>`
    : html`<p>Still want it? <a href="${formUrl}">Subscribe again</a>.</p>`

/** Posts to the page's own URL, so that any path prefix is kept. */
const buttonHtml = (label: string): Html => html`<form method="post"><button>${label}</button></form>`

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

const renderPage = (title: string, main: Html): Html => htmlPage({ title, style: STYLE, main })
