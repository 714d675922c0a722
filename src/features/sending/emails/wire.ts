/** @module The JSON of stored emails, their states, and their bodies, which are rendered for those of a broadcast. */

import type { Actor, App } from '#features/core/app/app.ts'
import { createBodyReader, toContentState } from '#features/core/app/stored-content.ts'
import { type EmailEvent, type RecordedEvent, toEventWire } from '#features/core/events/model.ts'
import { isRestoredReason } from '#features/core/fence/restored.ts'
import { type DraftExtra, messageIdOf } from '#features/sending/queue/email.ts'
import { findHoldReason } from '#features/sending/queue/hold-transitions.ts'
import { parseAttachments } from '#features/sending/queue/retire.ts'
import { toEngagements } from '#features/sending/queue/settle.ts'
import { isOpen } from '#features/sending/queue/status.ts'
import { hasScope, mayReadContent } from '#features/setup/api-keys/scopes.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { isoTime, isoTimeOrNull, toWire } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import {
  type ActionableExplanation,
  type Email,
  type EmailDetail,
  EmailRecipient,
  type EmailRow,
  type State,
} from './model.ts'
import type { StoredEmail, StoredRecipient } from './read.ts'

const formatOptionalUuid = (uuid: Uint8Array | null): string | null => (uuid === null ? null : formatUuid(uuid))

/** The recipient that determines the email's outcome: the first with the email's status, else the first. */
const findDecidingRecipient = (email: StoredEmail): StoredRecipient | undefined =>
  email.recipients.find((r) => r.status === email.status) ?? email.recipients[0]

const findEarliest = (times: readonly (number | null)[]): number | null => {
  const present = times.filter((time) => time !== null)
  return present.length === 0 ? null : Math.min(...present)
}

const addressesOfKind = (email: StoredEmail, kind: StoredRecipient['kind']): string[] =>
  email.recipients.filter((r) => r.kind === kind).map((r) => r.address)

/** Number of attempts in the retry schedule until an email expires, by its `expires_in` in seconds. */
export type MaxAttempts = (expiresIn: number | undefined) => number

/** The email as the API returns it, without bodies. */
function emailWire(email: StoredEmail, maxAttempts: MaxAttempts): Email {
  const extra = parseExtra(email)
  const deciding = findDecidingRecipient(email)
  const to = addressesOfKind(email, 'to')
  const unresolved = email.recipients.filter((r) => isOpen(r.status) || r.status === 'uncertain')
  const started = unresolved.length > 0 ? unresolved : email.recipients
  return {
    id: formatUuid(email.uuid),
    account_id: formatUuid(email.accountUuid),
    message_id: messageIdOf(email.uuid, email.from, extra.message_id),
    from_address: email.from,
    to_address: to[0] ?? '',
    cc: addressesOfKind(email, 'cc'),
    bcc: addressesOfKind(email, 'bcc'),
    subject: email.subject,
    tags: [...(extra.tags ?? [])],
    status: email.status,
    attempts: Math.max(0, ...email.recipients.map((r) => r.attempts)),
    max_attempts: maxAttempts(extra.expires_in),
    suppress_list_management_header: email.transactional,
    attachments:
      email.attachments === null ? null : parseAttachments(email.attachments).map(({ ref: _, ...file }) => file),
    delivery_started_at: isoTimeOrNull(findEarliest(started.map((r) => r.deliveryStartedAt))),
    domain_id: formatOptionalUuid(email.domainUuid),
    error_message: deciding?.lastError ?? null,
    expires_at: isoTimeOrNull(findEarliest(email.recipients.map((r) => r.expiresAt))),
    expires_in: extra.expires_in ?? null,
    headers: extra.headers ?? {},
    idempotency_key: extra.idempotency_key ?? null,
    metadata: extra.metadata ?? {},
    next_retry_at:
      email.status === 'scheduled' ? null : isoTimeOrNull(findEarliest(email.recipients.map(findNextRetry))),
    operation_id: formatOptionalUuid(email.operationUuid),
    reply_to: extra.reply_to ?? null,
    scheduled_at: isoTimeOrNull(email.scheduledAt),
    sending_ip: deciding?.sendingIp ?? null,
    sent_at: isoTimeOrNull(email.deliveredAt),
    smtp_response: deciding?.smtpResponse ?? null,
    stream_id: formatOptionalUuid(email.streamUuid),
    template_data: extra.template_data ?? null,
    template_id: formatOptionalUuid(email.templateUuid),
    tracking_override:
      email.trackingOverride && (email.trackingOverride.opens || email.trackingOverride.clicks || false),
    created_at: isoTime(email.createdAt),
    updated_at: isoTime(email.updatedAt),
  }
}

/** The fields that may hold secrets of a message, as they are where nothing was given. */
const NOTHING_GIVEN = { attachments: null, headers: {}, idempotency_key: null, metadata: {}, template_data: null }

/** What an actor may read of an email: what became of it, and its contents only if the actor may read these. */
export const hideContent = <T extends Email>(actor: Pick<Actor, 'scopes'>, email: T): T =>
  mayReadContent(actor) ? email : { ...email, ...NOTHING_GIVEN }

/** A clicked link may be one that sets a password. */
function hideLink(actor: Pick<Actor, 'scopes'>, event: EmailEvent): EmailEvent {
  if (mayReadContent(actor)) return event
  const { raw_payload: payload = null } = event
  return { ...event, link_url: null, raw_payload: payload && { ...payload, link_url: null } }
}

export const emailRowWire = (email: StoredEmail, maxAttempts: MaxAttempts): EmailRow => ({
  ...emailWire(email, maxAttempts),
  ...toRowFields(email),
})

const toRowFields = (email: StoredEmail) => ({
  state: toEmailState(email),
  to: addressesOfKind(email, 'to').join(', '),
  sandbox: email.sandbox,
  engagement: toEngagements(email.engagement),
})

/** Has the fields of the email twice, at the top and nested: some clients read the former, some the latter. */
export function emailDetailWire(
  email: StoredEmail,
  context: EmailBodies & {
    readonly maxAttempts: MaxAttempts
    readonly events: readonly RecordedEvent[]
    readonly explanation: ActionableExplanation
    readonly keys: KeyRing
    readonly actor: Pick<Actor, 'accountId' | 'scopes'>
  },
): EmailDetail {
  const { actor } = context
  const shown = hideContent(actor, emailWire(email, context.maxAttempts))
  const full = { ...shown, html_body: context.html, text_body: context.text }
  return {
    ...full,
    ...context.explanation,
    ...toRowFields(email),
    ...(mayReadContent(actor) ? toContentState(context.isContentMissing) : { content: 'hidden' }),
    resend_of: parseExtra(email).resend_of ?? null,
    delivered_at: isoTimeOrNull(email.deliveredAt),
    recipients: email.recipients.map(recipientWire),
    email: full,
    events: context.events.map((event) =>
      hideLink(
        actor,
        toEventWire(event, full.id, { accountId: actor.accountId, accountUuid: full.account_id }, context.keys),
      ),
    ),
  }
}

/** References to the attachment contents; undefined for content deleted by retention. */
export const attachmentRefs = ({ attachments }: Pick<StoredEmail, 'attachments'>): (number | undefined)[] =>
  parseAttachments(attachments).map(({ ref }) => ref)

/** When a recipient that was attempted, or whose host is not tried now, is attempted next. */
const findNextRetry = ({ status, attempts, nextAt, retryAt }: StoredRecipient): Millis | null =>
  status === 'queued' && (attempts > 0 || retryAt !== nextAt) ? retryAt : null

export const recipientWire = (recipient: StoredRecipient): EmailRecipient =>
  toWire(EmailRecipient, recipient, { next_retry_at: isoTimeOrNull(findNextRetry(recipient)) })

const parseExtra = ({ extra }: Pick<StoredEmail, 'extra'>): DraftExtra => JSON.parse(extra ?? '{}') as DraftExtra

/** Whether this is system mail, whose body only its recipient may read. */
export const isSystemMail = (email: Pick<StoredEmail, 'extra'>): boolean => parseExtra(email).of_service === true

/** Whether an actor who may read sent mail may not read this body: system mail, or received mail that was forwarded. */
export const isBodyHidden = ({ scopes }: Pick<Actor, 'scopes'>, email: Pick<StoredEmail, 'extra'>): boolean =>
  isSystemMail(email) || (parseExtra(email).whole !== undefined && !hasScope(scopes, 'inbound:read'))

type StateFacts = Pick<StoredRecipient, 'status' | 'attempts' | 'lastError' | 'isCaptured'>

/** Why it waits until somebody ends that: for its account, its content or as restored; undefined if it is not held. */
export function findHold({ status, lastError }: Pick<StateFacts, 'status' | 'lastError'>): string | undefined {
  if (status !== 'queued' || lastError === null) return undefined
  return isRestoredReason(lastError) ? lastError.slice(lastError.indexOf(' ') + 1) : findHoldReason(lastError)
}

export function toRecipientState(recipient: StateFacts): State {
  const { status, attempts, isCaptured } = recipient
  if (status === 'sent' && isCaptured) return 'captured'
  if (status !== 'queued') return status
  if (findHold(recipient) !== undefined) return 'held'
  return attempts > 0 ? 'deferred' : 'queued'
}

/** Of several recipients, one that is held or deferred decides. */
export function toEmailState({
  status,
  engagement,
  recipients,
}: Pick<StoredEmail, 'status' | 'engagement' | 'recipients'>): State {
  const states = recipients.map(toRecipientState)
  if (isOpen(status)) return states.find((state) => state === 'held' || state === 'deferred') ?? status
  if (status !== 'sent') return status
  if (toEngagements(engagement).includes('complained')) return 'complained'
  return states.includes('captured') ? 'captured' : status
}

/** Renders the bodies of a broadcast email, by row id; empty if the template fails for its recipient. */
export type RenderBodies = (
  emailId: number,
) => Promise<{ readonly html?: string | undefined; readonly text?: string | undefined }>

export interface EmailBodies {
  readonly html: string | null
  readonly text: string | null
  /** Whether a body or an attachment is missing from the content store. */
  readonly isContentMissing: boolean
}

/** The bodies that an actor may read: none of system mail. */
export const readBodiesAs = async (
  actor: Pick<Actor, 'scopes'>,
  ...given: Parameters<typeof readEmailBodies>
): Promise<EmailBodies> =>
  mayReadContent(actor) ? readEmailBodies(...given) : { html: null, text: null, isContentMissing: false }

/** The bodies that the account may read: none of system mail. */
export async function readEmailBodies(
  app: Pick<App, 'content'>,
  email: StoredEmail,
  renderBodies: RenderBodies,
): Promise<EmailBodies> {
  const isHidden = isSystemMail(email)
  const bodies = createBodyReader(app)
  bodies.check(attachmentRefs(email))
  // The rendered bodies need the stored sources.
  if (email.isOfBroadcast) bodies.check([email.htmlRef ?? undefined, email.textRef ?? undefined])
  const read = (ref: number | null) => (isHidden ? null : bodies.read(ref))
  const rendered = email.isOfBroadcast ? (bodies.isMissing ? {} : await renderBodies(email.id)) : undefined
  const html = rendered ? (rendered.html ?? null) : read(email.htmlRef)
  const text = rendered ? (rendered.text ?? null) : read(email.textRef)
  return { html, text, isContentMissing: bodies.isMissing }
}
