/**
 * @module /confirm: where the link of a confirmation leads people. Public: whoever has the token may. GET and HEAD ask and never act, because scanners and
 * prefetchers follow every link of a message; POST confirms, once.
 */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { ownUrl } from '#features/sending/tracking/base-url.ts'
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { type Html, unlistedResponse } from '#platform/http/html.ts'
import { activeForm, confirm, type LinkStanding, linkStanding } from './confirm.ts'
import { CONFIRM_PATH, type ConfirmFacts, openConfirmToken } from './confirm-token.ts'
import {
  alreadyPage,
  askPage,
  confirmedPage,
  expiredPage,
  gonePage,
  notDonePage,
  type Question,
  refusedPage,
  replacedPage,
  unknownLinkPage,
} from './page.ts'

const hidden = { hide: true }

/** The plugin of /confirm. */
export function confirmPages(app: App) {
  return new Elysia()
    .get(
      `${CONFIRM_PATH}/:token`,
      ({ params }) => {
        const facts = openConfirmToken(app.keys, params.token)
        if (!facts) return unlistedResponse(unknownLinkPage(), 404)
        return pageOf(app, facts, linkStanding(app, facts, app.eventTime()), askPage)
      },
      { detail: hidden },
    )
    .post(
      `${CONFIRM_PATH}/:token`,
      async ({ params }) => {
        const facts = openConfirmToken(app.keys, params.token)
        if (!facts) return unlistedResponse(unknownLinkPage(), 404)
        try {
          return pageOf(app, facts, await confirm(app, facts), confirmedPage)
        } catch (error) {
          if (!(error instanceof AppError)) throw error
          return unlistedResponse(notDonePage(), error.status)
        }
      },
      { detail: { ...hidden, ...acceptsBody('anything') } },
    )
}

/** The page for how a link stands; `ifOpen` when it can be confirmed, or just was. */
function pageOf(app: App, facts: ConfirmFacts, standing: LinkStanding, ifOpen: (question: Question) => Html): Response {
  if (standing.kind === 'gone') return unlistedResponse(gonePage(), 410)
  const { list, contact } = standing
  const question = { listName: list.name, address: contact.email, senderDomain: facts.senderDomain }
  switch (standing.kind) {
    case 'open':
      return unlistedResponse(ifOpen(question))
    case 'active':
      return unlistedResponse(alreadyPage(question))
    case 'replaced':
      return unlistedResponse(replacedPage(question), 410)
    case 'expired':
      return unlistedResponse(expiredPage(question, formUrl(app, list.id)), 410)
    case 'refused':
      return unlistedResponse(refusedPage(question, formUrl(app, list.id)), 410)
  }
}

function formUrl({ db, config }: App, listId: number): string | undefined {
  const slug = activeForm(db, { id: listId })
  return slug === undefined ? undefined : `${ownUrl(config.publicUrl)}/subscribe/${slug}`
}
