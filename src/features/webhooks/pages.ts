/**
 * @module /webhooks: who is signed in sees and replaces the signing secrets of the account's webhooks. GET shows no secret; a POST of the page itself does, and
 * each is in the audit log.
 */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/app.ts'
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { type Html, htmlResponse } from '#platform/http/html.ts'
import { formatUuid } from '#platform/ids.ts'
import { accountOfActor } from '../accounts/accounts.ts'
import { hasScope } from '../api-keys/scopes.ts'
import { LOGIN_PATH, WEBHOOKS_PATH } from '../team/links.ts'
import { sessionOf } from '../team/login.ts'
import { refusedPage } from '../team/page.ts'
import type { People } from '../team/people.ts'
import { csrfToken, isCsrfToken } from '../team/sessions.ts'
import { REVEAL, ROTATE, webhooksPage } from './page.ts'
import { revealSecret, rotateSecret } from './secret.ts'
import { listWebhooks } from './webhooks.ts'

/** The origin of a form is told by browsers only if the page may be named. */
const HEADERS = { 'x-robots-tag': 'noindex, nofollow', 'referrer-policy': 'same-origin' }
const MOST_SHOWN = 100

const answer = (page: Html, status = 200): Response => htmlResponse(page, status, HEADERS)

export function webhookPages(app: App, people: People) {
  const shown = (actor: Actor, told?: { id: string; secret: string; isRotated: boolean }): Response => {
    const { webhooks, total } = listWebhooks(app.db, actor.accountId, { limit: MOST_SHOWN, offset: 0 })
    return answer(
      webhooksPage({
        accountName: accountOfActor(app.config, app.db, actor.accountId).name,
        webhooks: webhooks.map(({ uuid, url, isActive }) => {
          const id = formatUuid(uuid)
          return { id, url, isActive, ...(told?.id === id && told) }
        }),
        total,
        mayChange: hasScope(actor.scopes, 'webhooks:write'),
        csrfToken: csrfToken(app, sessionOf(actor)),
      }),
    )
  }

  /** Runs what the page does for whoever is signed in; others are sent to sign in, and a refusal becomes a page. */
  const forPeople = async (
    request: Request,
    work: (actor: Actor) => Response | Promise<Response>,
  ): Promise<Response> => {
    try {
      people.requireOwnHost(request)
      const actor = people.signedIn(request)
      if (!actor) return new Response(null, { status: 303, headers: { ...HEADERS, location: LOGIN_PATH } })
      if (!hasScope(actor.scopes, 'webhooks:read'))
        throw new AppError(403, 'insufficient_role', 'Your role does not show webhooks; ask an owner or admin.')
      return await work(actor)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return answer(refusedPage(error.message), error.status)
    }
  }

  return new Elysia()
    .get(WEBHOOKS_PATH, ({ request }) => forPeople(request, (actor) => shown(actor)), { detail: { hide: true } })
    .post(
      WEBHOOKS_PATH,
      ({ request, body }) =>
        forPeople(request, async (actor) => {
          people.requireOwnOrigin(request)
          const { csrf_token: token, id, action } = fieldsOf(body)
          if (!isCsrfToken(app, sessionOf(actor), token))
            throw new AppError(403, 'csrf_failed', 'The page is too old; open it again.')
          if (!hasScope(actor.scopes, 'webhooks:write'))
            throw new AppError(403, 'insufficient_role', 'Your role does not show secrets; ask an owner or admin.')
          if (action === REVEAL)
            return shown(actor, { id, secret: await revealSecret(app, actor, id), isRotated: false })
          if (action === ROTATE)
            return shown(actor, { id, secret: await rotateSecret(app, actor, id), isRotated: true })
          throw new AppError(404, 'page_not_found', 'There is no such button; open the page again.')
        }),
      { detail: { hide: true, ...acceptsBody('json-or-form') } },
    )
}

const LONGEST_FIELD = 1000

/** The fields of the form; empty where they were not sent, or cannot be one. */
function fieldsOf(body: unknown): { csrf_token: string; id: string; action: string } {
  const field = (name: string): string => {
    const value = typeof body === 'object' && body !== null && Object.hasOwn(body, name) ? Reflect.get(body, name) : ''
    return typeof value === 'string' && value.length <= LONGEST_FIELD ? value : ''
  }
  return { csrf_token: field('csrf_token'), id: field('id'), action: field('action') }
}
