/**
 * @module /u: the target of List-Unsubscribe, for mail programs (RFC 8058) and people. Public: anyone with the token
 * may use it. POST acts immediately; GET and HEAD never do, because scanners and prefetchers follow every link of a
 * message. Needs no row of the email, and works while the account is paused.
 */
import { domainToUnicode } from 'node:url'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { stripDamage } from '#features/sending/tracking/tokens.ts'
import { chooseOurTexts, findShownTexts, type ShownTexts } from '#features/setup/wording/wording.ts'
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import type { Html } from '#platform/http/html.ts'
import { localisedResponse } from '#platform/http/language.ts'
import { createRateLimiter, type Rate, requireTaken } from '#platform/http/rate-limit.ts'
import { MAX_TOKEN_LENGTH, openUnsubscribeToken, UNSUBSCRIBE_PATH, type UnsubscribeFacts } from './headers.ts'
import * as page from './page.ts'
import {
  isForStreamOrList,
  readSubscriptionState,
  resubscribe,
  type SubscriptionState,
  unsubscribe,
} from './unsubscribe.ts'

/**
 * The limit for one recipient's link. It applies only to resubscribing, so that everybody can unsubscribe at any time.
 * Without it, alternating requests could create endless events and audit rows.
 */
const RESUBSCRIBE_RATE: Rate = { burst: 10, ratePerSecond: 10 / 3600 }

/** Maximum length of a token with the characters that were added to it. */
const MAX_INPUT_LENGTH = 2 * MAX_TOKEN_LENGTH

const hidden = { hide: true }

export function unsubscribePages(app: App) {
  const resubscribeLimiter = createRateLimiter(app.clock)

  const readFacts = (token: string): UnsubscribeFacts | undefined =>
    token.length > MAX_INPUT_LENGTH ? undefined : openUnsubscribeToken(app.keys, stripDamage(token))

  const applyAction = (
    facts: UnsubscribeFacts,
    action: page.PageAction | undefined,
  ): Promise<SubscriptionState | undefined> => {
    if (action === undefined) return unsubscribe(app, facts, 'one-click')
    const scope = action.endsWith('-all') ? 'all' : 'named'
    if (action.startsWith('unsubscribe')) return unsubscribe(app, facts, 'page', scope)
    const decision = resubscribeLimiter.take(rateLimitKey(facts), 1, RESUBSCRIBE_RATE)
    requireTaken(decision, 'Try again later.', 'too_many_changes')
    return resubscribe(app, facts, scope)
  }

  return new Elysia()
    .get(
      `${UNSUBSCRIBE_PATH}/:token`,
      ({ params, request }) => {
        const facts = readFacts(params.token)
        if (!facts) return createIncompleteLinkPage(request)
        const texts = chooseOurTexts(request)
        const shown = choosePage(app, texts, facts, readSubscriptionState(app.db, facts), page.askPage)
        return localisedResponse(texts.language, shown)
      },
      { detail: hidden },
    )
    .get(UNSUBSCRIBE_PATH, ({ request }) => createIncompleteLinkPage(request), { detail: hidden })
    .get(`${UNSUBSCRIBE_PATH}/*`, ({ request }) => createIncompleteLinkPage(request), { detail: hidden })
    .post(
      `${UNSUBSCRIBE_PATH}/:token`,
      async ({ params, body, request }) => {
        const facts = readFacts(params.token)
        if (!facts) return createIncompleteLinkPage(request)
        const texts = chooseOurTexts(request)
        try {
          const state = await applyAction(facts, parseAction(body))
          return localisedResponse(texts.language, choosePage(app, texts, facts, state, page.startedPage))
        } catch (error) {
          if (!(error instanceof AppError)) throw error
          const { status, retryAfterSeconds } = error
          const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
          return localisedResponse(texts.language, page.notDonePage(texts, status === 429), status, headers)
        }
      },
      { detail: { ...hidden, ...acceptsBody('anything') } },
    )
}

/** For readers who follow a link without its token, with a damaged one or with an extra path. */
function createIncompleteLinkPage(request: Request): Response {
  const texts = chooseOurTexts(request)
  return localisedResponse(texts.language, page.unknownLinkPage(texts), 404)
}

/** The link in the text of a welcome names a contact; other links name a recipient. */
const rateLimitKey = ({ emailId, recipientId }: UnsubscribeFacts): string =>
  `${emailId === 0 ? 'contact' : 'recipient'} ${recipientId}`

const ACTIONS: readonly page.PageAction[] = ['unsubscribe', 'unsubscribe-all', 'resubscribe', 'resubscribe-all']

/** The form field of mail programs (RFC 8058 §3.2). */
const ONE_CLICK_FIELD = 'List-Unsubscribe'

/** The action of a button. Any other body comes from a mail program, which can only unsubscribe. */
function parseAction(body: unknown): page.PageAction | undefined {
  if (typeof body !== 'object' || body === null || ONE_CLICK_FIELD in body) return undefined
  const provided = 'action' in body ? body.action : undefined
  return ACTIONS.find((action) => action === provided)
}

/** The page for the state of the address; the page of `renderSubscribed` if the address still gets the mail. */
function choosePage(
  { db }: Pick<App, 'db'>,
  ours: ShownTexts,
  facts: UnsubscribeFacts,
  state: SubscriptionState | undefined,
  renderSubscribed: (texts: ShownTexts, subscription: page.Subscription) => Html,
): Html {
  const subscription: page.Subscription = {
    address: facts.address,
    // The domain as readers know it: bücher.example, not xn--bcher-kva.example.
    senderDomain: domainToUnicode(facts.senderDomain) || facts.senderDomain,
    isOfPart: isForStreamOrList(facts),
    partName: state?.partName ?? null,
  }
  if (!state) return page.senderGonePage(ours, subscription)
  const { language } = ours
  const texts = findShownTexts(db, facts.accountUuid, { language, sender: subscription.senderDomain })
  if (state.isBlocked) return page.blockedPage(texts, subscription, state.isOffAll || state.isOffNamed)
  if (state.isOffAll) return page.stoppedPage(texts, subscription, 'resubscribe-all')
  return state.isOffNamed ? page.stoppedPage(texts, subscription) : renderSubscribed(texts, subscription)
}
