/**
 * @module The pages for people who follow an unsubscribe link. Pure: from values to HTML without scripts. They ask, and what they ask is sent by
 * buttons; nothing happens by being looked at. Nothing on them comes from another host.
 */
import { type Html, html, htmlPage } from '#platform/http/html.ts'
import type { Texts } from './texts.ts'

/** What a button of the page asks for. */
export type PageAction = 'unsubscribe' | 'unsubscribe-all' | 'resubscribe' | 'resubscribe-all'

/** What the page is about. */
export interface Subscription {
  readonly address: string
  /** Domain of the sender; `''` when it is not known. */
  readonly senderDomain: string
  /** Whether the link names a part of the sender's mail: a stream or a list. */
  readonly isOfPart: boolean
  /** Name of that part, when it is known. */
  readonly partName: string | null
}

/** Somebody gets the mail that the link is about: do they want to stop that? */
export const askPage = (texts: Texts, subscription: Subscription): Html =>
  renderPage(
    texts,
    texts.unsubscribe,
    html`<h1>${texts.question}</h1>
<p>${fillSentence(texts, texts.willStop, subscription)}</p>
${renderForm(renderButton('unsubscribe', texts.unsubscribe))}
${subscription.isOfPart && renderAllOffer(texts, subscription)}
${renderEssentialNote(texts)}`,
  )

/** Somebody gets no more of the mail that the link is about. */
export const stoppedPage = (texts: Texts, subscription: Subscription): Html =>
  renderPage(
    texts,
    texts.isOff,
    html`<h1>${texts.isOff}</h1>
<p>${fillSentence(texts, texts.hasStopped, subscription)} ${texts.mayStillArrive}</p>
${subscription.isOfPart && renderAllOffer(texts, subscription)}
<h2>${texts.wasItMistake}</h2>
${renderForm(renderButton('resubscribe', texts.subscribeAgain, 'quiet'))}
${renderEssentialNote(texts)}`,
  )

/** Somebody gets no mail of this sender but what they need. */
export const allStoppedPage = (texts: Texts, subscription: Subscription): Html =>
  renderPage(
    texts,
    texts.isOff,
    html`<h1>${texts.isOff}</h1>
<p>${fillSentence(texts, texts.hasStopped, { ...subscription, isOfPart: false })} ${texts.mayStillArrive}</p>
<h2>${texts.wasItMistake}</h2>
${renderForm(renderButton('resubscribe-all', texts.subscribeAgain, 'quiet'))}
${renderEssentialNote(texts)}`,
  )

/** The way back was taken. */
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
 * The sender sends nothing to the address, whatever is pressed here: only the sender can change that. What this page can still do is to stop what
 * would come again then.
 */
export const blockedPage = (texts: Texts, subscription: Subscription, isOff: boolean): Html => {
  const title = isOff ? texts.isOff : texts.getsNothing
  const names = { address: renderAddress(subscription), sender: renderSender(subscription, texts.thisSenderAtStart) }
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

/** The account is gone: no mail comes any more, whatever is pressed. */
export const senderGonePage = (texts: Texts, subscription: Subscription): Html =>
  renderPage(
    texts,
    texts.isOff,
    html`<h1>${texts.isOff}</h1>
<p>${fillSentence(texts, texts.senderGone, subscription)}</p>`,
  )

/** A token that we did not make, or that was changed on its way. */
export const unknownLinkPage = (texts: Texts): Html =>
  renderPage(
    texts,
    texts.linkIsCut,
    html`<h1>${texts.linkIsCut}</h1>
<p>${texts.whomUnknown}</p>
<p>${texts.followAgain}</p>`,
  )

/** The service cannot store anything now, or was asked too often. */
export const notDonePage = (texts: Texts, isTooOften: boolean): Html =>
  renderPage(
    texts,
    texts.didNotWork,
    html`<h1>${texts.didNotWork}</h1>
<p>${isTooOften ? texts.tooOften : texts.notStored}</p>
${renderForm(renderButton('unsubscribe', texts.unsubscribe))}`,
  )

/** A text with names filled in, each of which is text itself or HTML of ours. */
const fillText = (text: string, names: Readonly<Record<string, Html | string>>): Html =>
  html`${text.split(/\{(\w+)\}/).map((piece, i) => (i % 2 === 0 ? piece : names[piece]))}`

/** The same with the names that most texts have. */
const fillSentence = (texts: Texts, text: string, subscription: Subscription): Html =>
  fillText(text, {
    address: renderAddress(subscription),
    sender: renderSender(subscription, texts.thisSender),
    mail: renderNoMoreMail(texts, subscription),
  })

const renderAddress = (subscription: Subscription): Html => html`<strong><bdi>${subscription.address}</bdi></strong>`

const renderSender = ({ senderDomain }: Subscription, ifUnknown: string): Html | string =>
  senderDomain === '' ? ifUnknown : html`<strong><bdi>${senderDomain}</bdi></strong>`

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
    sender: renderSender(subscription, texts.thisSender),
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

/** Without an action it goes to the page's own URL, whatever stands before its path. */
const renderForm = (content: Html): Html => html`<form method="post">${content}</form>`

const renderButton = (action: PageAction, label: string, style: 'strong' | 'quiet' = 'strong'): Html =>
  html`<button class="${style}" name="action" value="${action}">${label}</button>`

/** Contrasts (WCAG 2.2 §1.4.3, §1.4.11) and the size of the buttons (§2.5.5) are measured by the tests of these pages in a browser. */
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

const renderPage = ({ language }: Texts, title: string, main: Html): Html =>
  htmlPage({ title, language, style: STYLE, main })
