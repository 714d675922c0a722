/**
 * @module Serves /webhooks, where signed-in users see and replace the signing secrets of the account's webhooks and
 * send test events. GET shows no secret and changes nothing; it can ask for confirmation before a replacement. Only a
 * POST from the page itself acts, and each such action has an audit entry. Secrets need a password typed a short while
 * ago.
 */
import { Elysia } from 'elysia'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import type { AuthContext } from '#features/people/team/auth-context.ts'
import { toLoginPath, WEBHOOKS_PATH } from '#features/people/team/links.ts'
import { confirmPasswordPage, errorPage } from '#features/people/team/page.ts'
import { confirmPassword, hasRecentPassword } from '#features/people/team/recent-password.ts'
import { getCsrfToken, isValidCsrfToken, requireSessionId } from '#features/people/team/sessions.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { OWN_FORM_HEADERS, ownFormResponse } from '#platform/http/html.ts'
import { formatUuid } from '#platform/ids.ts'
import {
  BACK_LINK,
  REPLACE,
  REVEAL,
  ROTATE,
  renderReplacePage,
  renderWebhooksPage,
  TEST,
  type WebhookView,
} from './page.ts'
import { revealSecret, rotateSecret } from './secret.ts'
import { sendTestEvent } from './test-event.ts'
import { getWebhook, listWebhooks } from './webhooks.ts'

const MAX_SHOWN = 100

/** The result of a button, shown with its webhook. */
type PageNotice = Pick<WebhookView, 'id' | 'secret' | 'isRotated' | 'isTested'>

export function webhookPages(app: App, people: AuthContext) {
  const respondWithPage = (actor: Actor, notice?: PageNotice): Response => {
    const { webhooks, total } = listWebhooks(app.db, actor.accountId, { limit: MAX_SHOWN, offset: 0 })
    return ownFormResponse(
      renderWebhooksPage({
        accountName: getAccount(app.config, app.db, actor.accountId).name,
        webhooks: webhooks.map(({ uuid, url, isActive }) => {
          const id = formatUuid(uuid)
          return { id, url, isActive, ...(notice?.id === id && notice) }
        }),
        total,
        canChange: hasScope(actor.scopes, 'webhooks:write'),
        csrfToken: getCsrfToken(app, requireSessionId(actor)),
      }),
    )
  }

  const respondWithConfirmation = (actor: Actor, id: string): Response => {
    requireSecretsAccess(actor)
    const { uuid, url, updatedAt } = getWebhook(app.db, actor.accountId, id)
    const csrf = getCsrfToken(app, requireSessionId(actor))
    return ownFormResponse(
      renderReplacePage({ id: formatUuid(uuid), url, version: String(updatedAt), csrfToken: csrf }),
    )
  }

  /** The page that asks for the password, unless it was typed a short while ago or is in the form. */
  const findPasswordQuestion = async (actor: Actor, body: unknown): Promise<Response | undefined> => {
    const [id, action, version] = [readField(body, 'id'), readField(body, 'action'), readField(body, 'version')]
    getWebhook(app.db, actor.accountId, id)
    if (hasRecentPassword(app, actor)) return undefined
    const csrfToken = getCsrfToken(app, requireSessionId(actor))
    const ask = (status: number, message?: string) =>
      ownFormResponse(
        confirmPasswordPage({
          path: WEBHOOKS_PATH,
          fields: { csrf_token: csrfToken, id, action, ...(version && { version }) },
          message,
        }),
        status,
      )
    const password = readField(body, 'password')
    if (password === '') return ask(200)
    try {
      await confirmPassword(app, people.attempts, actor, password)
      return undefined
    } catch (error) {
      if (!(error instanceof AppError) || error.status !== 422) throw error
      return ask(422, error.message)
    }
  }

  /** Runs a page function for the signed-in user. Redirects others to the sign-in page, and renders errors as pages. */
  const forUser = async (request: Request, work: (actor: Actor) => Response | Promise<Response>): Promise<Response> => {
    try {
      people.requireOwnHost(request)
      const actor = people.findActor(request)
      if (!actor) return redirectToLogin()
      if (!hasScope(actor.scopes, 'webhooks:read'))
        throw new AppError(403, 'insufficient_role', 'Your role does not show webhooks; ask an owner or admin.')
      return await work(actor)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return ownFormResponse(errorPage(error.message, BACK_LINK), error.status)
    }
  }

  return new Elysia()
    .get(
      WEBHOOKS_PATH,
      ({ request, query }) =>
        forUser(request, (actor) =>
          Object.hasOwn(query, REPLACE)
            ? respondWithConfirmation(actor, readField(query, REPLACE))
            : respondWithPage(actor),
        ),
      { detail: { hide: true } },
    )
    .post(
      WEBHOOKS_PATH,
      ({ request, body }) =>
        forUser(request, async (actor) => {
          people.requireOwnOrigin(request)
          const [id, action] = [readField(body, 'id'), readField(body, 'action')]
          if (!isValidCsrfToken(app, requireSessionId(actor), readField(body, 'csrf_token')))
            throw new AppError(403, 'csrf_failed', 'The page has expired; open it again.')
          requireSecretsAccess(actor)
          if (action === TEST) {
            await sendTestEvent(app, actor, id)
            return respondWithPage(actor, { id, isTested: true })
          }
          if (action === REVEAL || action === ROTATE) {
            const question = await findPasswordQuestion(actor, body)
            if (question) return question
          }
          if (action === REVEAL)
            return respondWithPage(actor, { id, secret: await revealSecret(app, actor, id), isRotated: false })
          if (action === ROTATE) {
            // A repeated click or reload replaces nothing, because the user may have copied the new secret already.
            const seen = Number(readField(body, 'version'))
            return respondWithPage(actor, { id, secret: await rotateSecret(app, actor, id, seen), isRotated: true })
          }
          throw new AppError(404, 'page_not_found', 'Unknown action; open the page again.')
        }),
      { detail: { hide: true, ...acceptsBody('json-or-form') } },
    )
}

function redirectToLogin(): Response {
  return new Response(null, { status: 303, headers: { ...OWN_FORM_HEADERS, location: toLoginPath(WEBHOOKS_PATH) } })
}

const MAX_FIELD_LENGTH = 1000

/** A field of the form or query; empty when it is missing or invalid. */
function readField(fields: unknown, name: string): string {
  const value =
    typeof fields === 'object' && fields !== null && Object.hasOwn(fields, name) ? Reflect.get(fields, name) : ''
  return typeof value === 'string' && value.length <= MAX_FIELD_LENGTH ? value : ''
}

function requireSecretsAccess({ scopes }: Actor): void {
  if (!hasScope(scopes, 'webhooks:write'))
    throw new AppError(
      403,
      'insufficient_role',
      'Your role does not show secrets and sends no tests; ask an owner or admin.',
    )
}
