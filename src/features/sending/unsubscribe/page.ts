/**
 * @module Renders the pages behind an unsubscribe link. Pure: turns values into HTML without scripts. Buttons send the
 * request; viewing a page changes nothing. Loads nothing from other hosts.
 */
import { renderSender as renderNamedSender, renderOwnText, renderTextPage } from '#features/setup/wording/brand.ts'
import { fillHtml } from '#features/setup/wording/languages.ts'
import type { ShownTexts } from '#features/setup/wording/wording.ts'
import { type Html, html } from '#platform/http/html.ts'

export type PageAction = 'unsubscribe' | 'unsubscribe-all' | 'resubscribe' | 'resubscribe-all'

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
export const askPage = (texts: ShownTexts, subscription: Subscription): Html =>
  renderTextPage(
    texts,
    texts.unsubscribe_heading,
    html`${renderOwnText(texts.unsubscribe_text)}<p>${fillSentence(texts, texts.unsubscribe_will_stop, subscription)}</p>
${renderForm(renderButton('unsubscribe', texts.unsubscribe_button))}
${subscription.isOfPart && renderAllOffer(texts, subscription)}
${renderEssentialNote(texts)}`,
    texts.unsubscribe_button,
  )

/** The address no longer gets this mail; with `resubscribe-all` only transactional mail from this sender. */
export function stoppedPage(
  texts: ShownTexts,
  subscription: Subscription,
  undo: Extract<PageAction, 'resubscribe' | 'resubscribe-all'> = 'resubscribe',
): Html {
  const stopped = { ...subscription, isOfPart: subscription.isOfPart && undo === 'resubscribe' }
  return renderTextPage(
    texts,
    texts.unsubscribed_heading,
    html`${renderOwnText(texts.unsubscribed_text)}<p>${fillSentence(texts, texts.unsubscribed_has_stopped, stopped)} ${texts.unsubscribed_may_still_arrive}</p>
${stopped.isOfPart && renderAllOffer(texts, subscription)}
<h2>${texts.unsubscribed_was_it_mistake}</h2>
${renderForm(renderButton(undo, texts.unsubscribed_button, 'quiet'))}
${renderEssentialNote(texts)}`,
  )
}

/** The recipient subscribed again. */
export const startedPage = (texts: ShownTexts, subscription: Subscription): Html =>
  renderTextPage(
    texts,
    texts.resubscribed_heading,
    html`<p>${fillHtml(texts.resubscribed_has_started, { address: renderAddress(subscription), mail: renderMail(texts, subscription, 'as_before') })}</p>
<h2>${texts.resubscribed_changed_mind}</h2>
${renderForm(renderButton('unsubscribe', texts.unsubscribe_button, 'quiet'))}
${subscription.isOfPart && renderAllOffer(texts, subscription)}`,
  )

/**
 * The sender sends nothing to the address, and only the sender can change that. All that the page can offer is to stop
 * the mail that would resume after such a change.
 */
export const blockedPage = (texts: ShownTexts, subscription: Subscription, isOff: boolean): Html => {
  const title = isOff ? texts.unsubscribed_heading : texts.blocked_heading
  const names = {
    address: renderAddress(subscription),
    sender: renderSender(texts, subscription, texts.this_sender_at_start),
  }
  return renderTextPage(
    texts,
    title,
    html`<p>${fillHtml(texts.blocked_sends_nothing, names)} ${texts.unsubscribed_may_still_arrive}</p>
<h2>${texts.blocked_want_mail}</h2>
<p>${fillSentence(texts, texts.blocked_ask_sender, subscription)}</p>
${!isOff && renderPermanentOffer(texts, subscription)}`,
  )
}

/** The account was deleted: no mail comes any more. */
export const senderGonePage = (texts: ShownTexts, subscription: Subscription): Html =>
  renderTextPage(
    texts,
    texts.unsubscribed_heading,
    html`<p>${fillSentence(texts, texts.sender_gone, subscription)}</p>`,
  )

/** A token that this service did not create, or that was changed in transit. */
export const unknownLinkPage = (texts: ShownTexts): Html =>
  renderTextPage(
    texts,
    texts.unsubscribe_incomplete_heading,
    html`<p>${texts.unsubscribe_incomplete_whom_unknown}</p>
<p>${texts.unsubscribe_incomplete_open_again}</p>`,
  )

/** The service cannot store anything now, or there were too many requests. */
export const notDonePage = (texts: ShownTexts, isTooOften: boolean): Html =>
  renderTextPage(
    texts,
    texts.failed_heading,
    html`<p>${isTooOften ? texts.failed_too_often : texts.failed_not_stored}</p>
${renderForm(renderButton('unsubscribe', texts.unsubscribe_button))}`,
  )

/** Fills in the names that most texts have. */
const fillSentence = (texts: ShownTexts, text: string, subscription: Subscription): Html =>
  fillHtml(text, {
    address: renderAddress(subscription),
    sender: renderSender(texts, subscription, texts.this_sender),
    mail: renderMail(texts, subscription, 'no_more'),
  })

const renderAddress = (subscription: Subscription): Html => html`<strong><bdi>${subscription.address}</bdi></strong>`

const renderSender = (texts: ShownTexts, { senderDomain }: Subscription, fallback: string): Html | string =>
  senderDomain === '' && !texts.name ? fallback : renderNamedSender(texts, senderDomain)

function renderMail(texts: ShownTexts, subscription: Subscription, which: 'no_more' | 'as_before'): Html {
  const { isOfPart, partName } = subscription
  const part = !isOfPart ? 'all' : partName === null ? 'part' : 'named'
  return fillHtml(texts[`${which}_${part}`], {
    sender: renderSender(texts, subscription, texts.this_sender),
    part: html`<bdi>${partName}</bdi>`,
  })
}

const renderAllOffer = (texts: ShownTexts, subscription: Subscription): Html => html`
<h2>${texts.unsubscribe_all_heading}</h2>
<p>${fillSentence(texts, texts.unsubscribe_all_offer, subscription)}</p>
${renderForm(renderButton('unsubscribe-all', texts.unsubscribe_all_button, 'quiet'))}`

const renderPermanentOffer = (texts: ShownTexts, subscription: Subscription): Html => html`
<h2>${texts.blocked_stay_heading}</h2>
<p>${fillSentence(texts, texts.blocked_stay_offer, subscription)}</p>
${renderForm(renderButton('unsubscribe', texts.unsubscribe_button, 'quiet'))}`

const renderEssentialNote = (texts: ShownTexts): Html => html`
<p class="note">${texts.unsubscribed_essential_comes}</p>`

/** Without an action, the form posts to the page's own URL, even behind a path prefix. */
const renderForm = (content: Html): Html => html`<form method="post">${content}</form>`

const renderButton = (action: PageAction, label: string, style: 'strong' | 'quiet' = 'strong'): Html =>
  html`<button class="${style}" name="action" value="${action}">${label}</button>`
