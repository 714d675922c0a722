/** @module Lists the scopes, which scope implies which, and what a key may have and call whose sends are restricted. */
import type { Actor } from '#features/core/app/app.ts'
import { AppError } from '#platform/errors.ts'
import { insufficientScope } from '#platform/http/error-response.ts'
import type { CalledRoute } from '#platform/http/pipeline.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { isRestricted } from './limits.ts'

const RESOURCES = [
  'domains',
  'templates',
  'webhooks',
  'suppressions',
  'contacts',
  'inbound',
  'analytics',
  'mailboxes',
] as const

const ALL_SCOPES = [
  ...(['emails:send', 'emails:read'] as const),
  ...RESOURCES.flatMap((resource) => [`${resource}:read`, `${resource}:write`] as const),
  ...(['sub_accounts:manage', 'account:read', 'account:admin', 'drafts:release'] as const),
]

/** A scope by its name. */
export type Scope = (typeof ALL_SCOPES)[number]

/**
 * What a key may have whose sends are restricted: nothing by which it could lift its restriction, release its drafts,
 * have mail sent for it, or read mail to the people of the account.
 */
export const RESTRICTED_SCOPES: readonly string[] =
  'emails:send emails:read mailboxes:read mailboxes:write domains:read templates:read suppressions:read contacts:read analytics:read webhooks:read'.split(
    ' ',
  )

/** Of these, what a key for one mailbox may have. */
export const MAILBOX_SCOPES: readonly string[] = ['emails:send', 'mailboxes:read', 'mailboxes:write']

/** All scopes, compared with text from requests. */
export const SCOPES: readonly string[] = ALL_SCOPES

/** Implies every other scope. */
export const ADMIN_SCOPE = 'account:admin'

export const hasScope = (scopes: ReadonlySet<string>, scope: string): boolean =>
  scopes.has(scope) || scopes.has(ADMIN_SCOPE)

/** Whether the actor may read what the account's mail contains; the role support, which has no scope, may not. */
export const mayReadContent = ({ scopes }: Pick<Actor, 'scopes'>): boolean => hasScope(scopes, 'emails:read')

/**
 * Throws 403 `insufficient_scope` unless the actor has a scope that this request needs beyond the scope of its route.
 * @param purpose ends the sentence "which is needed …"
 */
export function requireScope({ scopes }: Actor, scope: string, purpose: string): void {
  if (!hasScope(scopes, scope)) throw insufficientScope(scope, purpose)
}

const MAILBOX_ROUTE = '/v1/agent-mailboxes/:id'
const MESSAGE_ROUTE = `${MAILBOX_ROUTE}/messages/:mid`

/**
 * What a restricted key may call besides reading. Each sends through the acceptance of email, where the limits are,
 * cancels drafts (`cancelEmail`), or changes a message of a mailbox. Any other route is closed to it, so a new one is
 * until it is known that it cannot send, release, or lift a restriction.
 */
const OPEN_ROUTES: ReadonlySet<string> = new Set([
  ...[
    ...['/v1/emails', '/v1/emails/batch', '/v1/emails/check', '/v1/emails/:id/cancel', '/v1/emails/:id/resend'],
    ...['/v1/templates/:id/render', '/mcp', `${MESSAGE_ROUTE}/ack`, `${MESSAGE_ROUTE}/nack`, `${MESSAGE_ROUTE}/reply`],
    ...['/api/v1/send/message', '/api/v1/send/raw'],
    // Of Resend, Postmark and Mailgun, also below their names.
    ...['/emails', '/emails/batch', '/emails/:id/cancel', '/v3/:domain/messages', '/v3/:domain/messages.mime'],
    ...['/email', '/email/batch', '/email/withTemplate', '/email/batchWithTemplates'],
  ].map((path) => `POST ${path}`),
  ...[`PUT ${MESSAGE_ROUTE}/labels`, `DELETE ${MESSAGE_ROUTE}`],
])

/**
 * Throws 403 `restricted_key` when the sends of the actor's key are restricted and the route is not for such keys.
 * @param called its pattern, such as `/v1/emails/:id`
 */
export function requireRouteOfKey({ limits }: Actor, { method, route, params }: CalledRoute): void {
  if (!isRestricted(limits)) return
  const own = limits?.mailboxId
  const pattern = route.replace(/^\/(?:resend|postmark|mailgun)(?=\/)/, '').replace(/(?<=.)\/$/, '')
  const isInMailbox = pattern === MAILBOX_ROUTE || pattern.startsWith(`${MAILBOX_ROUTE}/`)
  if (own && isInMailbox && params['id']?.toLowerCase() !== own) throw notFoundById('mailbox_not_found', 'mailbox')
  const isRead = method === 'GET' || method === 'HEAD'
  const isReadable = !own || isInMailbox || pattern === '/v1/agent-mailboxes'
  if (isRead ? isReadable : OPEN_ROUTES.has(`${method} ${pattern}`)) return
  throw new AppError(
    403,
    'restricted_key',
    own
      ? 'This API key is for one agent mailbox: it reads and answers its messages, and sends from its address. Use another key.'
      : 'This API key is restricted (drafts, allowed recipients or a daily limit), so it sends single emails and batches only and changes nothing else. Use another key, or ask a person.',
  )
}
