/**
 * @module The pages for people who follow a confirmation link. Pure: from values to HTML without scripts. The first asks, and a button answers; nothing
 * happens by being looked at. Nothing on them comes from another host.
 */
import { type Html, html, htmlPage } from '#platform/http/html.ts'

/** What the pages are about. */
export interface PageSubject {
  readonly listName: string
  readonly address: string
  /** Domain of the sender; `''` when it is not known. */
  readonly senderDomain: string
}

/** Does whoever has this address want the mail of the list? */
export const confirmationPage = (subject: PageSubject): Html =>
  renderPage(
    'Confirm your subscription',
    html`<h1>Confirm your subscription?</h1>
<p>${addressHtml(subject)} will then get ${mailHtml(subject)}.</p>
${buttonHtml('Confirm')}
<p class="note">If you did not ask for this, just close the page: then nothing is sent to you.</p>`,
  )

/** It was confirmed with this press of the button. */
export const confirmedPage = (subject: PageSubject): Html =>
  renderPage(
    'Your subscription is confirmed',
    html`<h1>Your subscription is confirmed</h1>
<p>${addressHtml(subject)} gets ${mailHtml(subject)}.</p>
<p>Every one of its messages lets you unsubscribe. You can close this page.</p>`,
  )

/** It had been confirmed before. */
export const alreadyConfirmedPage = (subject: PageSubject): Html =>
  renderPage(
    'Your subscription is confirmed already',
    html`<h1>Your subscription is confirmed already</h1>
<p>${addressHtml(subject)} gets ${mailHtml(subject)}. There is nothing left to do.</p>`,
  )

/** @param formUrl where to begin anew; undefined: the list has no form */
export const linkExpiredPage = (subject: PageSubject, formUrl: string | undefined): Html =>
  renderPage(
    'This link has expired',
    html`<h1>This link has expired</h1>
<p>It was not used in time, so ${addressHtml(subject)} is not on the list “${listNameHtml(subject)}”.</p>
${resubscribeHtml(formUrl, subject)}`,
  )

/** A later email has the link that counts. */
export const linkReplacedPage = (subject: PageSubject): Html =>
  renderPage(
    'There is a newer link',
    html`<h1>There is a newer link</h1>
<p>Another message was sent to ${addressHtml(subject)} after the one with this link. Please use the link in the newest one.</p>
<p>Cannot find it? Look among the unwanted mail as well.</p>`,
  )

/** The contact left since, so the link no longer counts. */
export const linkWithdrawnPage = (subject: PageSubject, formUrl: string | undefined): Html =>
  renderPage(
    'This link no longer works',
    html`<h1>This link no longer works</h1>
<p>${addressHtml(subject)} does not get the mail of “${listNameHtml(subject)}” any more, and an old link does not change that.</p>
${resubscribeHtml(formUrl, subject)}`,
  )

/** The list, or the address on it, is gone. */
export const nothingToConfirmPage = (): Html =>
  renderPage(
    'There is nothing to confirm any more',
    html`<h1>There is nothing to confirm any more</h1>
<p>The list was closed, or your address was taken off it. Nothing is sent to you because of this link.</p>`,
  )

/** A token that we did not make, or that was changed on its way. */
export const incompleteLinkPage = (): Html =>
  renderPage(
    'This link is not complete',
    html`<h1>This link is not complete</h1>
<p>It was cut or changed on its way, so it is not known what to confirm. Nothing was changed.</p>
<p>Follow the link in the message once more, or copy all of it.</p>`,
  )

/** The service cannot store anything now. */
export const notStoredPage = (): Html =>
  renderPage(
    'That did not work',
    html`<h1>That did not work</h1>
<p>It could not be stored just now, so nothing was changed. Try again in a few minutes.</p>
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
    ? html`<p>Do you want it all the same? Then ask its sender${subject.senderDomain === '' ? '' : html`, <strong><bdi>${subject.senderDomain}</bdi></strong>,`} to put you on the list.</p>`
    : html`<p>Do you want it all the same? Then <a href="${formUrl}">subscribe once more</a>.</p>`

/** Goes to the page's own URL, whatever stands before its path. */
const buttonHtml = (label: string): Html => html`<form method="post"><button>${label}</button></form>`

/** Contrasts (WCAG 2.2 §1.4.3, §1.4.11) and the size of the button (§2.5.5) are measured by the tests of these pages in a browser. */
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
