/**
 * @module /webhooks: who is signed in sees and replaces the signing secrets of the account's webhooks, and sends test events. GET shows no secret and changes
 * nothing, but asks before one is replaced; a POST of the page itself does, and each is in the audit log.
 */
import { Elysia } from 'elysia'
import { accountOfActor } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { loginFor, WEBHOOKS_PATH } from '#features/people/team/links.ts'
import { sessionOf } from '#features/people/team/login.ts'
import { refusedPage } from '#features/people/team/page.ts'
import type { People } from '#features/people/team/people.ts'
import { csrfToken, isCsrfToken } from '#features/people/team/sessions.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { OWN_FORM_HEADERS, ownFormResponse } from '#platform/http/html.ts'
import { formatUuid } from '#platform/ids.ts'
import { BACK, REPLACE, REVEAL, ROTATE, replacePage, type ShownWebhook, TEST, webhooksPage } from './page.ts'
import { revealSecret, rotateSecret } from './secret.ts'
import { sendTestEvent } from './test-event.ts'
import { getWebhook, listWebhooks } from './webhooks.ts'

const MOST_SHOWN = 100

/** What a button did, to be shown with its webhook. */
type Told = Pick<ShownWebhook, 'id' | 'secret' | 'isRotated' | 'isTested'>

export function webhookPages(app: App, people: People) {
  const shown = (actor: Actor, told?: Told): Response => {
    const { webhooks, total } = listWebhooks(app.db, actor.accountId, { limit: MOST_SHOWN, offset: 0 })
    return ownFormResponse(
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

  const asked = (actor: Actor, id: string): Response => {
    requireSecrets(actor)
    const { uuid, url, updatedAt } = getWebhook(app.db, actor.accountId, id)
    const csrf = csrfToken(app, sessionOf(actor))
    return ownFormResponse(replacePage({ id: formatUuid(uuid), url, version: String(updatedAt), csrfToken: csrf }))
  }

  /** Runs what the page does for whoever is signed in; others are sent to sign in, and a refusal becomes a page. */
  const forPeople = async (
    request: Request,
    work: (actor: Actor) => Response | Promise<Response>,
  ): Promise<Response> => {
    try {
      people.requireOwnHost(request)
      const actor = people.signedIn(request)
      if (!actor)
        return new Response(null, { status: 303, headers: { ...OWN_FORM_HEADERS, location: loginFor(WEBHOOKS_PATH) } })
      if (!hasScope(actor.scopes, 'webhooks:read'))
        throw new AppError(403, 'insufficient_role', 'Your role does not show webhooks; ask an owner or admin.')
      return await work(actor)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return ownFormResponse(refusedPage(error.message, BACK), error.status)
    }
  }

  return new Elysia()
    .get(
      WEBHOOKS_PATH,
      ({ request, query }) =>
        forPeople(request, (actor) =>
          Object.hasOwn(query, REPLACE) ? asked(actor, fieldOf(query, REPLACE)) : shown(actor),
        ),
      { detail: { hide: true } },
    )
    .post(
      WEBHOOKS_PATH,
      ({ request, body }) =>
        forPeople(request, async (actor) => {
          people.requireOwnOrigin(request)
          const [id, action] = [fieldOf(body, 'id'), fieldOf(body, 'action')]
          if (!isCsrfToken(app, sessionOf(actor), fieldOf(body, 'csrf_token')))
            throw new AppError(403, 'csrf_failed', 'The page is too old; open it again.')
          requireSecrets(actor)
          if (action === TEST) {
            await sendTestEvent(app, actor, id)
            return shown(actor, { id, isTested: true })
          }
          if (action === REVEAL)
            return shown(actor, { id, secret: await revealSecret(app, actor, id), isRotated: false })
          if (action === ROTATE) {
            // A second click, or a page that is loaded again, replaces nothing: somebody has noted the new one already.
            const seen = Number(fieldOf(body, 'version'))
            return shown(actor, { id, secret: await rotateSecret(app, actor, id, seen), isRotated: true })
          }
          throw new AppError(404, 'page_not_found', 'There is no such button; open the page again.')
        }),
      { detail: { hide: true, ...acceptsBody('json-or-form') } },
    )
}

const LONGEST_FIELD = 1000

/** A field of the form, or of the query; empty when it was not sent, or cannot be one. */
function fieldOf(given: unknown, name: string): string {
  const value =
    typeof given === 'object' && given !== null && Object.hasOwn(given, name) ? Reflect.get(given, name) : ''
  return typeof value === 'string' && value.length <= LONGEST_FIELD ? value : ''
}

function requireSecrets({ scopes }: Actor): void {
  if (!hasScope(scopes, 'webhooks:write'))
    throw new AppError(
      403,
      'insufficient_role',
      'Your role does not show secrets and sends no tests; ask an owner or admin.',
    )
}
