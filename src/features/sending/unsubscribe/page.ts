/**
 * @module Renders the pages behind an unsubscribe link. Pure: turns values into HTML without scripts. Buttons send the
 * request; viewing a page changes nothing. Loads nothing from other hosts.
 */
import {
  BRAND_STYLE,
  renderBrand,
  renderSender as renderNamedSender,
  renderOwnText,
} from '#features/setup/wording/brand.ts'
import { type Html, html, htmlPage } from '#platform/http/html.ts'
import { fillText } from '#platform/http/language.ts'
import type { Texts } from './texts.ts'

/** The action of a button. */
export type PageAction = 'unsubscribe' | 'unsubscribe-all' | 'resubscribe' | 'resubscribe-all'

/** What the link is about. */
export interface Subscription {
  readonly address: string
  /** Domain of the sender; `''` if unknown. */
  readonly senderDomain: string
  /** Whether the link names part of the sender's mail: a stream or a list. */
  readonly isOfPart: boolean
  /** Name of that part, if known. */
  readonly partName: string | null
}

/** The address still gets this mail: asks whether to unsubscribe. */
export const askPage = (texts: Texts, subscription: Subscription): Html =>
  renderPage(
    texts,
    texts.unsubscribe,
    html`<h1>${texts.question}</h1>
${renderOwnText(texts.own?.texts.unsubscribe_text)}<p>${fillSentence(texts, texts.willStop, subscription)}</p>
${renderForm(renderButton('unsubscribe', texts.unsubscribe))}
${subscription.isOfPart && renderAllOffer(texts, subscription)}
${renderEssentialNote(texts)}`,
  )

/** The address no longer gets this mail. */
export const stoppedPage = (texts: Texts, subscription: Subscription): Html =>
  renderPage(
    texts,
    texts.isOff,
    html`<h1>${texts.isOff}</h1>
${renderOwnText(texts.own?.texts.unsubscribed_text)}<p>${fillSentence(texts, texts.hasStopped, subscription)} ${texts.mayStillArrive}</p>
${subscription.isOfPart && renderAllOffer(texts, subscription)}
<h2>${texts.wasItMistake}</h2>
${renderForm(renderButton('resubscribe', texts.subscribeAgain, 'quiet'))}
${renderEssentialNote(texts)}`,
  )

/** The address gets only transactional mail from this sender. */
export const allStoppedPage = (texts: Texts, subscription: Subscription): Html =>
  renderPage(
    texts,
    texts.isOff,
    html`<h1>${texts.isOff}</h1>
${renderOwnText(texts.own?.texts.unsubscribed_text)}<p>${fillSentence(texts, texts.hasStopped, { ...subscription, isOfPart: false })} ${texts.mayStillArrive}</p>
<h2>${texts.wasItMistake}</h2>
${renderForm(renderButton('resubscribe-all', texts.subscribeAgain, 'quiet'))}
${renderEssentialNote(texts)}`,
  )

/** The recipient subscribed again. */
export const startedPage = (texts: Texts, subscription: Subscription): Html =>
  renderPage(
    texts,
    texts.isOn,
    html`<h1>${texts.isOn}</h1>
<p>${fillText(texts.hasStarted, { address: renderAddress(subscription), mail: renderMailAsBefore(texts, subscription) })}</p>
<h2>${texts.changedMind}</h2>
${renderForm(renderButton('unsubscribe', texts.unsubscribe, 'quiet'))}
${subscription.isOfPart && renderAllOffer(texts, subscription)}`,
  )

/**
 * The sender sends nothing to the address, and only the sender can change that. All that the page can offer is to stop
 * the mail that would resume after such a change.
 */
export const blockedPage = (texts: Texts, subscription: Subscription, isOff: boolean): Html => {
  const title = isOff ? texts.isOff : texts.getsNothing
  const names = {
    address: renderAddress(subscription),
    sender: renderSender(texts, subscription, texts.thisSenderAtStart),
  }
  return renderPage(
    texts,
    title,
    html`<h1>${title}</h1>
<p>${fillText(texts.sendsNothing, names)} ${texts.mayStillArrive}</p>
<h2>${texts.wantMail}</h2>
<p>${fillSentence(texts, texts.askSender, subscription)}</p>
${!isOff && renderPermanentOffer(texts, subscription)}`,
  )
}

/** The account was deleted: no mail comes any more. */
export const senderGonePage = (texts: Texts, subscription: Subscription): Html =>
  renderPage(
    texts,
    texts.isOff,
    html`<h1>${texts.isOff}</h1>
<p>${fillSentence(texts, texts.senderGone, subscription)}</p>`,
  )

/** A token that this service did not create, or that was changed in transit. */
export const unknownLinkPage = (texts: Texts): Html =>
  renderPage(
    texts,
    texts.linkIsCut,
    html`<h1>${texts.linkIsCut}</h1>
<p>${texts.whomUnknown}</p>
<p>${texts.followAgain}</p>`,
  )

/** The service cannot store anything now, or there were too many requests. */
export const notDonePage = (texts: Texts, isTooOften: boolean): Html =>
  renderPage(
    texts,
    texts.didNotWork,
    html`<h1>${texts.didNotWork}</h1>
<p>${isTooOften ? texts.tooOften : texts.notStored}</p>
${renderForm(renderButton('unsubscribe', texts.unsubscribe))}`,
  )

/** Fills in the names that most texts have. */
const fillSentence = (texts: Texts, text: string, subscription: Subscription): Html =>
  fillText(text, {
    address: renderAddress(subscription),
    sender: renderSender(texts, subscription, texts.thisSender),
    mail: renderNoMoreMail(texts, subscription),
  })

const renderAddress = (subscription: Subscription): Html => html`<strong><bdi>${subscription.address}</bdi></strong>`

const renderSender = ({ own }: Texts, { senderDomain }: Subscription, fallback: string): Html | string =>
  senderDomain === '' && !own?.name ? fallback : renderNamedSender(own, senderDomain)

const renderNoMoreMail = (texts: Texts, subscription: Subscription): Html =>
  renderMail(texts, subscription, [texts.noMoreAll, texts.noMorePart, texts.noMoreNamed])

const renderMailAsBefore = (texts: Texts, subscription: Subscription): Html =>
  renderMail(texts, subscription, [texts.asBeforeAll, texts.asBeforePart, texts.asBeforeNamed])

function renderMail(
  texts: Texts,
  subscription: Subscription,
  [all, part, named]: readonly [all: string, part: string, named: string],
): Html {
  const { isOfPart, partName } = subscription
  const text = !isOfPart ? all : partName === null ? part : named
  return fillText(text, {
    sender: renderSender(texts, subscription, texts.thisSender),
    part: html`<bdi>${partName}</bdi>`,
  })
}

const renderAllOffer = (texts: Texts, subscription: Subscription): Html => html`
<h2>${texts.orAll}</h2>
<p>${fillSentence(texts, texts.offerAll, subscription)}</p>
${renderForm(renderButton('unsubscribe-all', texts.unsubscribeAll, 'quiet'))}`

const renderPermanentOffer = (texts: Texts, subscription: Subscription): Html => html`
<h2>${texts.orForGood}</h2>
<p>${fillSentence(texts, texts.offerForGood, subscription)}</p>
${renderForm(renderButton('unsubscribe', texts.unsubscribe, 'quiet'))}`

const renderEssentialNote = (texts: Texts): Html => html`
<p class="note">${texts.essentialComes}</p>`

/** Without an action, the form posts to the page's own URL, even behind a path prefix. */
const renderForm = (content: Html): Html => html`<form method="post">${content}</form>`

const renderButton = (action: PageAction, label: string, style: 'strong' | 'quiet' = 'strong'): Html =>
  html`<button class="${style}" name="action" value="${action}">${label}</button>`

/** Browser tests measure the contrasts (WCAG 2.2 §1.4.3, §1.4.11) and the size of the buttons (§2.5.5). */
const STYLE = `
h2 { padding-top: 1.5rem; border-top: 1px solid var(--line); }
form { margin: 1.25rem 0 0; }
.note { margin-top: 2rem; padding-top: 1.5rem; border-top: 1px solid var(--line); font-size: 1rem; color: var(--faint); }
button { min-width: min(12rem, 100%); max-width: 100%; overflow-wrap: anywhere; padding: .625rem min(1.5rem, 5%); border: 2px solid var(--strong); border-radius: 8px; font: inherit; font-weight: 600; cursor: pointer; }
button.strong { background: var(--strong); color: var(--on-strong); }
button.quiet { border-color: var(--edge); background: transparent; color: var(--text); }
button:hover { text-decoration: underline; }
button:focus-visible { outline: 3px solid var(--strong); outline-offset: 3px; }
@media (max-width: 30rem) {
  button { width: 100%; }
}
`

const renderPage = ({ language, own }: Texts, title: string, main: Html): Html =>
  htmlPage({ title, language, style: STYLE + BRAND_STYLE, main: html`${renderBrand(own)}${main}` })
