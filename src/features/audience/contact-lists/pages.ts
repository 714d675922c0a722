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
import { localisedResponse } from '#platform/http/language.ts'
import { confirmSubscription, type LinkState, readLinkState } from './confirm.ts'
import { CONFIRM_PATH, type ConfirmFacts, openConfirmToken } from './confirm-token.ts'
import { incompleteLinkPage, type LinkPage, linkPage, nothingToConfirmPage, notStoredPage } from './page.ts'

const hiddenDetail = { hide: true }

export interface ConfirmPageOptions {
  /** Slug of a list's signup form, by row id, while the form is active. */
  readonly findFormSlug: (db: Database, listId: number) => string | undefined
}

/** Creates the plugin of /confirm. */
export function confirmPages(app: App, { findFormSlug }: ConfirmPageOptions) {
  /** @param openPage the page of an open link: the question of a GET, the confirmation of a POST */
  const toResponse = (ours: ShownTexts, facts: ConfirmFacts, state: LinkState, openPage: LinkPage): Response => {
    const { language } = ours
    if (state.kind === 'gone') return localisedResponse(language, nothingToConfirmPage(ours), 410)
    const { kind, list, contact } = state
    const subject = { listName: list.name, address: contact.email, senderDomain: facts.senderDomain }
    const texts = findShownTexts(app.db, facts.accountUuid, { language, sender: facts.senderDomain, list: list.name })
    const slug = findFormSlug(app.db, list.id)
    const formUrl = slug && `${trimTrailingSlashes(app.config.publicUrl)}/subscribe/${slug}`
    const page = linkPage(texts, kind === 'open' ? openPage : kind, subject, formUrl)
    return localisedResponse(language, page, kind === 'open' || kind === 'active' ? 200 : 410)
  }
  return new Elysia()
    .get(
      `${CONFIRM_PATH}/:token`,
      ({ params, request }) => {
        const texts = chooseOurTexts(request)
        const facts = openConfirmToken(app.keys, params.token)
        if (!facts) return localisedResponse(texts.language, incompleteLinkPage(texts), 404)
        return toResponse(texts, facts, readLinkState(app, facts, app.eventTime()), 'question')
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
          return toResponse(texts, facts, await confirmSubscription(app, facts), 'confirmed')
        } catch (error) {
          if (!(error instanceof AppError)) throw error
          return localisedResponse(texts.language, notStoredPage(texts), error.status)
        }
      },
      { detail: { ...hiddenDetail, ...acceptsBody('anything') } },
    )
}
