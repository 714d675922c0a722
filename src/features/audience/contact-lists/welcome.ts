/**
 * @module The welcome email of a list: builds a draft from the current list and contact. Never writes, and does not
 * decide who gets it.
 */
import type { App } from '#features/core/app/app.ts'
import { createDraft, type Draft } from '#features/sending/accept/draft.ts'
import { createUnsubscribeToken, createUnsubscribeUrl } from '#features/sending/unsubscribe/headers.ts'
import type { Contact } from '#features/setup/contact-store/find.ts'
import type { ContactList } from '#features/setup/contact-store/lists.ts'
import { formatBroadcastData, formatSharedData } from '#features/setup/templates/broadcast-data.ts'
import type { RenderSession } from '#features/setup/templates/render.ts'
import { findTemplateByRowId } from '#features/setup/templates/templates.ts'
import { invalid } from '#platform/errors.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import type { TemplateSource } from '#platform/template/renderer.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'

export interface Welcome {
  readonly accountUuid: UuidBytes
  readonly list: ContactList
  readonly contact: Contact
  /** Sender in header form. */
  readonly from: string
}

/**
 * The draft of a list's welcome for a contact. Throws an AppError that says what is wrong with the welcome: a template
 * error (422), a deleted template, an invalid sender; a 503 when it cannot be rendered at the moment.
 */
export async function createWelcomeDraft(app: App, welcome: Welcome, rendering: RenderSession): Promise<Draft> {
  const { list, contact, from } = welcome
  const parts = await rendering.render({
    accountId: list.accountId,
    urgency: 'bulk',
    source: toTemplateSource(app, list),
    dataJson: toDataJson(app, welcome),
  })
  const draft = createDraft(app, {
    from,
    to: contact.email,
    subject: parts.subject ?? null,
    html_body: parts.html ?? null,
    text_body: parts.text ?? null,
    transactional: false,
  })
  return { ...draft, listId: list.id, templateId: list.welcomeTemplateId ?? undefined }
}

/** A template takes precedence over the list's bodies; the list's subject takes precedence over the template's. */
function toTemplateSource(app: App, list: ContactList): TemplateSource {
  const subject = list.welcomeSubject ?? undefined
  if (list.welcomeTemplateId === null)
    return { subject, html: list.welcomeHtml ?? undefined, text: list.welcomeText ?? undefined }
  const template = findTemplateByRowId(app.db, list.welcomeTemplateId)
  if (!template)
    throw invalid(
      'welcome_email_template_id',
      'The template of the welcome email was deleted; set another one in the list.',
      'template_not_found',
    )
  return {
    subject: subject ?? template.subject,
    html: template.htmlBody ?? undefined,
    text: template.textBody ?? undefined,
  }
}

/** The variables are those of a broadcast to the list, so that one template serves both. */
function toDataJson({ keys, config }: App, { accountUuid, list, contact, from }: Welcome): string {
  const metadata: Record<string, unknown> = contact.metadata === null ? {} : JSON.parse(contact.metadata)
  const token = createUnsubscribeToken(keys, {
    accountUuid,
    // The email is not stored yet, and an unsubscribe link does not need its row. The contact's id serves as recipient
    // id, since each contact has its own.
    emailId: 0,
    recipientId: contact.id,
    address: contact.email,
    senderDomain: domainOfMailbox(from),
    streamId: 0,
    listId: list.id,
  })
  return formatBroadcastData({
    shared: formatSharedData(undefined, list),
    contact: { id: formatUuid(contact.uuid), email: contact.email, metadata },
    unsubscribeUrl: createUnsubscribeUrl(config, token),
  })
}
