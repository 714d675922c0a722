/** @module Sends a newsletter by starting a broadcast; the status of the newsletter follows that of the broadcast. */
import { isDeepStrictEqual } from 'node:util'
import type { Static } from '@sinclair/typebox'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import type { BroadcastStarted } from '#features/sending/broadcasts/model.ts'
import { applyTemplate, requireRegisteredSender } from '#features/sending/broadcasts/send.ts'
import { startBroadcast } from '#features/sending/broadcasts/start.ts'
import { type ContactList, findListById } from '#features/setup/contact-store/lists.ts'
import { findTemplateByRowId } from '#features/setup/templates/templates.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { SendNewsletter } from './model.ts'
import { createNotDraftError, getNewsletter, type Newsletter } from './newsletters.ts'
import { startNewsletter } from './states.ts'

/**
 * Sends a draft to the active contacts of its list, now or later. Of two concurrent requests one gets 409
 * `newsletter_not_draft`. Throws 422 when the draft has no body, or when its list, template or domain was deleted; and
 * what `startBroadcast` throws.
 * @param admit throws when the account sends too fast
 */
export async function sendNewsletter(
  app: App,
  actor: Actor,
  id: string,
  { send_at: sendAt, max_recipients: maxRecipients }: Static<typeof SendNewsletter>,
  admit: () => void,
): Promise<BroadcastStarted> {
  const newsletter = getNewsletter(app.db, actor.accountId, id)
  if (newsletter.status !== 'draft') throw createNotDraftError(newsletter, 'sent')
  admit()
  const input = {
    type: 'newsletter_send',
    newsletterId: newsletter.id,
    list: requireList(app, newsletter),
    from: requireRegisteredSender(app.db, actor.accountId, newsletter.from),
    ...readContent(app, newsletter),
    replyTo: newsletter.replyTo ?? undefined,
    sendAt: sendAt || undefined,
  } as const
  return startBroadcast(app, actor, input, (tx, operation) => {
    if (operation.total > (maxRecipients ?? Number.POSITIVE_INFINITY))
      throw conflict(
        'too_many_recipients',
        `The newsletter has ${operation.total} recipients now, which is more than ${maxRecipients}; nothing was sent. Count them again, and send it with a higher max_recipients.`,
      )
    const current = getNewsletter(tx.db, actor.accountId, id)
    if (current.status !== 'draft') throw createNotDraftError(current, 'sent')
    // The newsletter may have been edited during the snapshot. It must not be marked as sent with a text other than the
    // one that is sent.
    if (!isDeepStrictEqual(current, newsletter))
      throw conflict('newsletter_changed', 'The newsletter was changed while it was being sent; send it again.')
    const now = app.eventTime()
    const { scheduledAt } = operation
    if (!startNewsletter(tx, newsletter.id, { ...operation, operationId: operation.id, scheduledAt, now }))
      throw new Error(`newsletter ${newsletter.id} is not a draft`)
    audit(app, tx, actor, {
      action: 'newsletter.started',
      resourceType: 'newsletter',
      resourceId: formatUuid(newsletter.uuid),
      metadata: {
        operation_id: operation.uuid,
        total_recipients: operation.total,
        ...(scheduledAt !== undefined && { scheduled_at: isoTime(scheduledAt) }),
      },
    })
  })
}

/** The list of a newsletter. Throws 422 when it was deleted. */
export function requireList({ db }: App, { listId }: Newsletter): ContactList {
  const list = findListById(db, listId)
  if (list) return list
  throw invalid(
    'list_id',
    'The contact list of this newsletter was deleted; set another one with PUT.',
    'contact_list_not_found',
  )
}

/** The sources and data of a newsletter; its template supplies missing bodies. Throws 422 when that was deleted. */
export function readContent({ db }: App, { templateId, templateData, subject, htmlBody, textBody }: Newsletter) {
  const template = templateId === null ? undefined : findTemplateByRowId(db, templateId)
  if (templateId !== null && !template)
    throw invalid(
      'template_id',
      'The template of this newsletter was deleted; set another one, or null, with PUT.',
      'template_not_found',
    )
  return {
    ...applyTemplate({ subject, html: htmlBody, text: textBody }, template),
    templateData: JSON.parse(templateData ?? '{}') as Record<string, unknown>,
  }
}
