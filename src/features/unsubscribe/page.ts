/**
 * @module The pages for people who follow an unsubscribe link. Pure: from values to HTML without scripts. They ask, and what they ask is sent by
 * buttons; nothing happens by being looked at. Nothing on them comes from another host.
 */
import { type Html, html, htmlPage } from '#platform/http/html.ts'

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
export const askPage = (subscription: Subscription): Html =>
  page(
    'Unsubscribe',
    html`<h1>Unsubscribe?</h1>
<p>${address(subscription)} will then get no more ${mailOf(subscription)}.</p>
${form(button('unsubscribe', 'Unsubscribe'))}
${subscription.isOfPart && allOffer(subscription)}
${ESSENTIAL_NOTE}`,
  )

/** Somebody gets no more of the mail that the link is about. */
export const stoppedPage = (subscription: Subscription): Html =>
  page(
    'You are unsubscribed',
    html`<h1>You are unsubscribed</h1>
<p>${address(subscription)} gets no more ${mailOf(subscription)}. What was sent before may still arrive.</p>
${subscription.isOfPart && allOffer(subscription)}
<h2>Was it a mistake?</h2>
${form(button('resubscribe', 'Subscribe again', 'quiet'))}
${ESSENTIAL_NOTE}`,
  )

/** Somebody gets no mail of this sender but what they need. */
export const allStoppedPage = (subscription: Subscription): Html =>
  page(
    'You are unsubscribed',
    html`<h1>You are unsubscribed</h1>
<p>${address(subscription)} gets no more newsletters, offers or other mail of that kind from ${sender(subscription)}. What was sent before may still arrive.</p>
<h2>Was it a mistake?</h2>
${form(button('resubscribe-all', 'Subscribe again', 'quiet'))}
${ESSENTIAL_NOTE}`,
  )

/** The way back was taken. */
export const startedPage = (subscription: Subscription): Html =>
  page(
    'You are subscribed again',
    html`<h1>You are subscribed again</h1>
<p>${address(subscription)} gets ${mailOf(subscription)} as before.</p>
<h2>Changed your mind?</h2>
${form(button('unsubscribe', 'Unsubscribe', 'quiet'))}
${subscription.isOfPart && allOffer(subscription)}`,
  )

/**
 * The sender sends nothing to the address, whatever is pressed here: only the sender can change that. What this page can still do is to stop what
 * would come again then.
 */
export const blockedPage = (subscription: Subscription, isOff: boolean): Html => {
  const title = isOff ? 'You are unsubscribed' : 'You get no mail from this sender'
  return page(
    title,
    html`<h1>${title}</h1>
<p>${sender(subscription, 'This sender')} sends nothing at all to ${address(subscription)}, not even receipts or new passwords. What was sent before may still arrive.</p>
<h2>Do you want mail again?</h2>
<p>That cannot be changed here. Answer a message from ${sender(subscription)}, or write to the sender in another way, and ask for it.</p>
${!isOff && unsubscribeOffer(subscription)}`,
  )
}

/** The account is gone: no mail comes any more, whatever is pressed. */
export const senderGonePage = (subscription: Subscription): Html =>
  page(
    'You are unsubscribed',
    html`<h1>You are unsubscribed</h1>
<p>${address(subscription)} gets no more mail through this service from ${sender(subscription)}. There is nothing left to do.</p>`,
  )

/** A token that we did not make, or that was changed on its way. */
export const unknownLinkPage = (): Html =>
  page(
    'This unsubscribe link is not complete',
    html`<h1>This unsubscribe link is not complete</h1>
<p>It was cut or changed on its way, so it is not known whom to unsubscribe. Nothing was changed.</p>
<p>Follow the link in the message once more. When that does not help, answer the message and ask its sender to take you off the list.</p>`,
  )

/** The service cannot store anything now, or was asked too often. */
export const notDonePage = (isTooOften: boolean): Html =>
  page(
    'That did not work',
    html`<h1>That did not work</h1>
<p>${
      isTooOften
        ? 'This was changed many times within a short while. Try again in an hour.'
        : 'It could not be stored just now, so nothing was changed. Try again in a few minutes.'
    }</p>
${form(button('unsubscribe', 'Unsubscribe'))}`,
  )

const address = (subscription: Subscription): Html => html`<strong><bdi>${subscription.address}</bdi></strong>`

const sender = ({ senderDomain }: Subscription, ifUnknown = 'this sender'): Html | string =>
  senderDomain === '' ? ifUnknown : html`<strong><bdi>${senderDomain}</bdi></strong>`

function mailOf(subscription: Subscription): Html {
  const { isOfPart, partName } = subscription
  if (!isOfPart) return html`newsletters, offers or other mail of that kind from ${sender(subscription)}`
  if (partName === null) return html`mail like this from ${sender(subscription)}`
  return html`mail of “<bdi>${partName}</bdi>” from ${sender(subscription)}`
}

const allOffer = (subscription: Subscription): Html => html`
<h2>Or stop all of it</h2>
<p>No newsletters, offers or other mail of that kind from ${sender(subscription)} at all.</p>
${form(button('unsubscribe-all', 'Unsubscribe from all', 'quiet'))}`

const unsubscribeOffer = (subscription: Subscription): Html => html`
<h2>Or stay unsubscribed for good</h2>
<p>Then you get no more ${mailOf(subscription)}, also when the sender sends to you again.</p>
${form(button('unsubscribe', 'Unsubscribe', 'quiet'))}`

const ESSENTIAL_NOTE = html`
<p class="note">Mail about something you did yourself, such as a receipt or a new password, still comes.</p>`

/** Without an action it goes to the page's own URL, whatever stands before its path. */
const form = (content: Html): Html => html`<form method="post">${content}</form>`

const button = (action: PageAction, label: string, look: 'strong' | 'quiet' = 'strong'): Html =>
  html`<button class="${look}" name="action" value="${action}">${label}</button>`

/** Contrasts (WCAG 2.2 §1.4.3, §1.4.11) and the size of the buttons (§2.5.5) are measured by the tests of these pages in a browser. */
const STYLE = `
h2 { padding-top: 1.5rem; border-top: 1px solid var(--line); }
form { margin: 1.25rem 0 0; }
.note { margin-top: 2rem; padding-top: 1.5rem; border-top: 1px solid var(--line); font-size: 1rem; color: var(--faint); }
button { min-width: 12rem; padding: .625rem 1.5rem; border: 2px solid var(--strong); border-radius: 8px; font: inherit; font-weight: 600; cursor: pointer; }
button.strong { background: var(--strong); color: var(--on-strong); }
button.quiet { border-color: var(--edge); background: transparent; color: var(--text); }
button:hover { text-decoration: underline; }
button:focus-visible { outline: 3px solid var(--strong); outline-offset: 3px; }
@media (max-width: 30rem) {
  button { width: 100%; }
}
`

const page = (title: string, main: Html): Html => htmlPage({ title, style: STYLE, main })
