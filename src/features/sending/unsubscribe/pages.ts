/**
 * @module /u: where List-Unsubscribe leads, for mail programs (RFC 8058) and people. Public: whoever has the token may. POST acts at once; GET and HEAD
 * never do, because scanners and prefetchers follow every link of a message. Neither needs a row of the email, and a paused account changes nothing.
 */
import { domainToUnicode } from 'node:url'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { AppError, tooMany } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { type Html, unlistedResponse } from '#platform/http/html.ts'
import { createRateLimiter, type Rate } from '#platform/http/rate-limit.ts'
import { UNSUBSCRIBE_PATH } from './headers.ts'
import {
  allStoppedPage,
  askPage,
  blockedPage,
  notDonePage,
  type PageAction,
  type Subscription,
  senderGonePage,
  startedPage,
  stoppedPage,
  unknownLinkPage,
} from './page.ts'
import { type Texts, textsFor } from './texts.ts'
import { LONGEST_TOKEN, openToken, type UnsubscribeFacts } from './token.ts'
import { namesPart, resubscribe, type Standing, standingOf, unsubscribe } from './unsubscribe.ts'

/**
 * Of one recipient's link. Only the way back has a limit: without it, going to and fro would make events and audit rows without end, and with it
 * everybody can still unsubscribe at any time.
 */
const WAYS_BACK: Rate = { burst: 10, ratePerSecond: 10 / 3600 }

/** Of a token with what may have come into it. */
const MOST_CHARACTERS = 2 * LONGEST_TOKEN

const hidden = { hide: true }

/** The plugin of /u. */
export function unsubscribePages(app: App) {
  const waysBack = createRateLimiter(app.clock)

  const factsOf = (token: string): UnsubscribeFacts | undefined => openToken(app.keys, withoutDamage(token))

  const act = (facts: UnsubscribeFacts, action: PageAction | undefined): Promise<Standing | undefined> => {
    switch (action) {
      case undefined:
        return unsubscribe(app, facts, 'one-click')
      case 'unsubscribe':
        return unsubscribe(app, facts, 'page')
      case 'unsubscribe-all':
        return unsubscribe(app, facts, 'page', 'all')
      case 'resubscribe':
      case 'resubscribe-all': {
        const decision = waysBack.take(bucketOf(facts), 1, WAYS_BACK)
        if (!decision.ok) throw tooMany('too_many_changes', 'Try again later.', decision.retryAfterSeconds)
        return resubscribe(app, facts, action === 'resubscribe' ? 'named' : 'all')
      }
    }
  }

  return new Elysia()
    .get(
      `${UNSUBSCRIBE_PATH}/:token`,
      ({ params, request }) => {
        const texts = textsOf(request)
        const facts = factsOf(params.token)
        return facts
          ? localisedResponse(texts, pageOf(texts, facts, standingOf(app.db, facts), askPage))
          : localisedResponse(texts, unknownLinkPage(texts), 404)
      },
      { detail: hidden },
    )
    .get(UNSUBSCRIBE_PATH, ({ request }) => cutLink(request), { detail: hidden })
    .get(`${UNSUBSCRIBE_PATH}/*`, ({ request }) => cutLink(request), { detail: hidden })
    .post(
      `${UNSUBSCRIBE_PATH}/:token`,
      async ({ params, body, request }) => {
        const texts = textsOf(request)
        const facts = factsOf(params.token)
        if (!facts) return localisedResponse(texts, unknownLinkPage(texts), 404)
        try {
          const standing = await act(facts, actionOf(body))
          return localisedResponse(texts, pageOf(texts, facts, standing, startedPage))
        } catch (error) {
          if (!(error instanceof AppError)) throw error
          const { status, retryAfterSeconds } = error
          const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
          return localisedResponse(texts, notDonePage(texts, status === 429), status, headers)
        }
      },
      { detail: { ...hidden, ...acceptsBody('anything') } },
    )
}

/**
 * Without what mail programs and people who copy put into a link: a full stop or bracket behind it, blanks, `=` and line breaks of quoted-printable.
 * A token has no such character, and what stays is sealed.
 */
const withoutDamage = (token: string): string => (token.length > MOST_CHARACTERS ? '' : token.replace(/[^\w-]/g, ''))

const textsOf = (request: Request): Texts => textsFor(request.headers.get('accept-language'))

/** For people who follow a link that was cut before its token, or has something behind it. */
function cutLink(request: Request): Response {
  const texts = textsOf(request)
  return localisedResponse(texts, unknownLinkPage(texts), 404)
}

/** The link in the text of a welcome names a contact where others name a recipient. */
const bucketOf = ({ emailId, recipientId }: UnsubscribeFacts): string =>
  `${emailId === 0 ? 'contact' : 'recipient'} ${recipientId}`

/** A page in the language that the reader's browser asks for. */
const localisedResponse = (
  { language }: Texts,
  page: Html,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response => unlistedResponse(page, status, { 'content-language': language, vary: 'accept-language', ...headers })

const ACTIONS: readonly PageAction[] = ['unsubscribe', 'unsubscribe-all', 'resubscribe', 'resubscribe-all']

/** The field of a mail program (RFC 8058 §3.2). */
const ONE_CLICK_FIELD = 'List-Unsubscribe'

/** What a button asked for. Every other body is that of a mail program, which has only one thing to say, whatever else it sends. */
function actionOf(body: unknown): PageAction | undefined {
  if (typeof body !== 'object' || body === null || ONE_CLICK_FIELD in body) return undefined
  const given = 'action' in body ? body.action : undefined
  return ACTIONS.find((action) => action === given)
}

/** The page for how the address stands; `ifOn` when it still gets mail. */
function pageOf(
  texts: Texts,
  facts: UnsubscribeFacts,
  standing: Standing | undefined,
  ifOn: (texts: Texts, subscription: Subscription) => Html,
): Html {
  const subscription: Subscription = {
    address: facts.address,
    // As people know it: bücher.example, not xn--bcher-kva.example.
    senderDomain: domainToUnicode(facts.senderDomain) || facts.senderDomain,
    isOfPart: namesPart(facts),
    partName: standing?.partName ?? null,
  }
  if (!standing) return senderGonePage(texts, subscription)
  if (standing.isBlocked) return blockedPage(texts, subscription, standing.isOffAll || standing.isOffNamed)
  if (standing.isOffAll) return allStoppedPage(texts, subscription)
  return standing.isOffNamed ? stoppedPage(texts, subscription) : ifOn(texts, subscription)
}
