/**
 * @module /confirm: the page behind a confirmation link. Public: anyone with the token may use it. GET and HEAD ask and
 * never act, because scanners and prefetchers follow every link of a message; POST confirms, once.
 */
import type { Database } from 'bun:sqlite'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/base-url.ts'
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { type Html, unlistedResponse } from '#platform/http/html.ts'
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
      ({ params }) => {
        const facts = openConfirmToken(app.keys, params.token)
        if (!facts) return unlistedResponse(incompleteLinkPage(), 404)
        return toResponse(facts, readLinkState(app, facts, app.eventTime()), formUrl, confirmationPage)
      },
      { detail: hiddenDetail },
    )
    .post(
      `${CONFIRM_PATH}/:token`,
      async ({ params }) => {
        const facts = openConfirmToken(app.keys, params.token)
        if (!facts) return unlistedResponse(incompleteLinkPage(), 404)
        try {
          return toResponse(facts, await confirmSubscription(app, facts), formUrl, confirmedPage)
        } catch (error) {
          if (!(error instanceof AppError)) throw error
          return unlistedResponse(notStoredPage(), error.status)
        }
      },
      { detail: { ...hiddenDetail, ...acceptsBody('anything') } },
    )
}

/**
 * The page for the state of a link.
 * @param ifOpen the page for an open link: the question in a GET, the confirmation in a POST
 */
function toResponse(
  facts: ConfirmFacts,
  state: LinkState,
  formUrl: (listId: number) => string | undefined,
  ifOpen: (question: PageSubject) => Html,
): Response {
  if (state.kind === 'gone') return unlistedResponse(nothingToConfirmPage(), 410)
  const { list, contact } = state
  const question = { listName: list.name, address: contact.email, senderDomain: facts.senderDomain }
  switch (state.kind) {
    case 'open':
      return unlistedResponse(ifOpen(question))
    case 'active':
      return unlistedResponse(alreadyConfirmedPage(question))
    case 'replaced':
      return unlistedResponse(linkReplacedPage(question), 410)
    case 'expired':
      return unlistedResponse(linkExpiredPage(question, formUrl(list.id)), 410)
    case 'refused':
      return unlistedResponse(linkWithdrawnPage(question, formUrl(list.id)), 410)
  }
}
