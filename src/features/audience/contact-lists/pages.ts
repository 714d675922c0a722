/**
 * @module /confirm: the page behind a confirmation link. Public: anyone with the token may use it. GET and HEAD ask and
 * never act, because scanners and prefetchers follow every link of a message; POST confirms, once.
 */
import type { Database } from 'bun:sqlite'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { chooseOurTexts, findShownTexts, type ShownTexts } from '#features/setup/wording/wording.ts'
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import type { Html } from '#platform/http/html.ts'
import { localisedResponse } from '#platform/http/language.ts'
import { confirmSubscription, type LinkState, readLinkState } from './confirm.ts'
import { CONFIRM_PATH, type ConfirmFacts, openConfirmToken } from './confirm-token.ts'
import {
  alreadyConfirmedPage,
  confirmationPage,
  confirmedPage,
  incompleteLinkPage,
  linkExpiredPage,
  linkReplacedPage,
  linkWithdrawnPage,
  nothingToConfirmPage,
  notStoredPage,
  type PageSubject,
} from './page.ts'

const hiddenDetail = { hide: true }

export interface ConfirmPageOptions {
  /** Slug of a list's signup form, by row id, while the form is active. */
  readonly findFormSlug: (db: Database, listId: number) => string | undefined
}

/** Creates the plugin of /confirm. */
export function confirmPages(app: App, { findFormSlug }: ConfirmPageOptions) {
  const formUrl = (listId: number): string | undefined => {
    const slug = findFormSlug(app.db, listId)
    return slug === undefined ? undefined : `${trimTrailingSlashes(app.config.publicUrl)}/subscribe/${slug}`
  }
  return new Elysia()
    .get(
      `${CONFIRM_PATH}/:token`,
      ({ params, request }) => {
        const texts = chooseOurTexts(request)
        const facts = openConfirmToken(app.keys, params.token)
        if (!facts) return localisedResponse(texts.language, incompleteLinkPage(texts), 404)
        return toResponse(texts, readLinkState(app, facts, app.eventTime()), {
          db: app.db,
          facts,
          formUrl,
          renderOpen: confirmationPage,
        })
      },
      { detail: hiddenDetail },
    )
    .post(
      `${CONFIRM_PATH}/:token`,
      async ({ params, request }) => {
        const texts = chooseOurTexts(request)
        const facts = openConfirmToken(app.keys, params.token)
        if (!facts) return localisedResponse(texts.language, incompleteLinkPage(texts), 404)
        try {
          return toResponse(texts, await confirmSubscription(app, facts), {
            db: app.db,
            facts,
            formUrl,
            renderOpen: confirmedPage,
          })
        } catch (error) {
          if (!(error instanceof AppError)) throw error
          return localisedResponse(texts.language, notStoredPage(texts), error.status)
        }
      },
      { detail: { ...hiddenDetail, ...acceptsBody('anything') } },
    )
}

interface LinkView {
  readonly db: Database
  readonly facts: ConfirmFacts
  readonly formUrl: (listId: number) => string | undefined
  /** The page for an open link: the question in a GET, the confirmation in a POST. */
  readonly renderOpen: (texts: ShownTexts, question: PageSubject) => Html
}

function toResponse(ours: ShownTexts, state: LinkState, { db, facts, formUrl, renderOpen }: LinkView): Response {
  const { language } = ours
  if (state.kind === 'gone') return localisedResponse(language, nothingToConfirmPage(ours), 410)
  const { list, contact } = state
  const question = { listName: list.name, address: contact.email, senderDomain: facts.senderDomain }
  const texts = findShownTexts(db, facts.accountUuid, { language, sender: facts.senderDomain, list: list.name })
  switch (state.kind) {
    case 'open':
      return localisedResponse(language, renderOpen(texts, question))
    case 'active':
      return localisedResponse(language, alreadyConfirmedPage(texts, question))
    case 'replaced':
      return localisedResponse(language, linkReplacedPage(texts, question), 410)
    case 'expired':
      return localisedResponse(language, linkExpiredPage(texts, question, formUrl(list.id)), 410)
    case 'refused':
      return localisedResponse(language, linkWithdrawnPage(texts, question, formUrl(list.id)), 410)
  }
}
