/**
 * @module Turns a broadcast request into the input of `startBroadcast`: list, sender and content. Missing parts come
 * from the template, as sources, because all parts are rendered for each contact. Never sends.
 */
import type { Database } from 'bun:sqlite'
import type { Static } from '@sinclair/typebox'
import type { Actor, App } from '#features/core/app/app.ts'
import { waitUntilDurable } from '#features/sending/accept/accept.ts'
import { requireHeaderSafe } from '#features/sending/accept/attachments.ts'
import { createResponseKey, findStoredResponse } from '#features/sending/accept/idempotency.ts'
import { requireRegisteredDomain } from '#features/sending/accept/sendable.ts'
import { getList } from '#features/setup/contact-store/lists.ts'
import { parseLocale } from '#features/setup/templates/locale.ts'
import { requireTemplate, type Template } from '#features/setup/templates/templates.ts'
import { invalid } from '#platform/errors.ts'
import { mapFromPhp } from '#platform/http/schemas.ts'
import { formatMailbox, parseMailbox } from '#protocols/address/parse.ts'
import type { BroadcastStarted, NewBroadcast } from './model.ts'
import { startBroadcast } from './start.ts'

/** The mailbox in header form. Throws 422 `invalid_address`, or `domain_not_found` if its domain is not registered. */
export function requireRegisteredSender(db: Database, accountId: number, fromAddress: string): string {
  const parsed = parseMailbox(fromAddress)
  if (parsed.kind === 'invalid') throw invalid('from_address', `from_address: ${parsed.reason}`, 'invalid_address')
  requireRegisteredDomain(db, accountId, 'from_address', parsed.domain)
  return formatMailbox(parsed)
}

/**
 * Starts a broadcast, or returns the stored response of its idempotency key. Throws 404 when the account has no such
 * list, and everything that `startBroadcast` throws.
 * @param admit throws when the account sends too fast
 */
export async function sendBroadcast(
  app: App,
  actor: Actor,
  body: Static<typeof NewBroadcast>,
  idempotencyKey: string | undefined,
  admit: () => void,
): Promise<BroadcastStarted> {
  const replyKey = await createResponseKey(app, actor, idempotencyKey, body)
  // A repeated request must not fail checks whose result has changed since the first: list, domain, `send_at`.
  const earlier = replyKey && findStoredResponse<{ data: BroadcastStarted }>(app.db, actor, replyKey)
  if (earlier) return waitUntilDurable(app, earlier.data)
  admit()
  const list = getList(app.db, actor.accountId, body.contact_list_id)
  const from = requireRegisteredSender(app.db, actor.accountId, body.from_address)
  const { template_alias: alias } = body
  const locale = parseLocale(body.locale, Boolean(alias))
  const template = alias ? requireTemplate(app.db, actor.accountId, { alias, locale }) : undefined
  if (body.subject) requireHeaderSafe('subject', body.subject)
  return startBroadcast(app, actor, {
    type: 'broadcast',
    list,
    from,
    ...applyTemplate({ subject: body.subject, html: body.html_body, text: body.text_body }, template),
    templateData: mapFromPhp(body.template_data) ?? undefined,
    replyTo: body.reply_to || undefined,
    headers: mapFromPhp(body.headers) ?? undefined,
    tags: body.tags ?? undefined,
    sendAt: body.send_at || undefined,
    stream: body.stream || undefined,
    replyKey,
  })
}

type Part = string | null | undefined

/** Each provided part overrides that of the template, which supplies the others. Clients send '' for an unset field. */
export const applyTemplate = (
  provided: { readonly subject: Part; readonly html: Part; readonly text: Part },
  template: Template | undefined,
) => ({
  subject: provided.subject || template?.subject,
  html: provided.html || (template?.htmlBody ?? undefined),
  text: provided.text || (template?.textBody ?? undefined),
  template: template && { id: template.id, version: template.version },
})
