/**
 * @module The routes of a key whose sends are restricted. Everything that is not listed is refused, so a new route is
 * closed to such keys until it is known that it cannot send, release, or lift a restriction.
 */
import type { Actor } from '#features/core/app/app.ts'
import { AppError } from '#platform/errors.ts'
import type { CalledRoute } from '#platform/http/pipeline.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { isRestricted } from './limits.ts'

const MAILBOX_ROUTE = '/v1/agent-mailboxes/:id'

/** Each of these sends through the acceptance of email, where the limits are, or changes a message of a mailbox. */
const OF_ALL = [
  ...['/v1/emails', '/v1/emails/batch', '/v1/emails/check', '/mcp'].map((path) => `POST ${path}`),
  // Resend; Postmark; Mailgun; all also below their prefix.
  'POST /v3/:domain/messages',
  ...['/emails', '/emails/batch', '/email', '/email/batch'].map((path) => `POST ${path}`),
  ...['/email/withTemplate', '/email/batchWithTemplates'].map((path) => `POST ${path}`),
  ...['ack', 'nack', 'reply'].map((name) => `POST ${MAILBOX_ROUTE}/messages/:mid/${name}`),
  ...[`PUT ${MAILBOX_ROUTE}/messages/:mid/labels`, `DELETE ${MAILBOX_ROUTE}/messages/:mid`],
]
const OF_MAILBOX: ReadonlySet<string> = new Set([...OF_ALL, 'GET /v1/agent-mailboxes'])
/** `cancelEmail` lets them cancel drafts only. */
const OF_OTHERS: ReadonlySet<string> = new Set([
  ...OF_ALL,
  ...['/v1/emails/:id/cancel', '/emails/:id/cancel'].map((path) => `POST ${path}`),
  ...['/v1/emails/:id/resend', '/v1/templates/:id/render'].map((path) => `POST ${path}`),
])

/**
 * Throws 403 `restricted_key` when the sends of the actor's key are restricted and the route is not for such keys.
 * @param called its pattern, such as `/v1/emails/:id`
 */
export function requireRouteOfKey({ limits }: Actor, called: CalledRoute): void {
  const { method, route, params } = called
  if (!isRestricted(limits)) return
  const mailbox = limits?.mailbox
  const isRead = method === 'GET' || method === 'HEAD'
  const pattern = route.replace(/^\/(?:postmark|mailgun|resend)(?=\/)/, '').replace(/(?<=.)\/$/, '')
  const name = `${isRead ? 'GET' : method} ${pattern}`
  const isInMailbox = pattern === MAILBOX_ROUTE || pattern.startsWith(`${MAILBOX_ROUTE}/`)
  if (mailbox && isInMailbox && params['id']?.toLowerCase() !== mailbox.id)
    throw notFoundById('mailbox_not_found', 'mailbox')
  if (mailbox ? OF_MAILBOX.has(name) || (isRead && isInMailbox) : isRead || OF_OTHERS.has(name)) return
  throw new AppError(
    403,
    'restricted_key',
    mailbox
      ? 'This API key is for one agent mailbox: it reads and answers its messages, and sends from its address. Use another key.'
      : 'This API key is restricted (drafts, allowed recipients or a daily limit), so it sends single emails and batches only and changes nothing else. Use another key, or ask a person.',
  )
}
