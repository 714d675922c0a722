/**
 * @module Sends a stored email again as a new one: same sender, recipients, subject, bodies, headers and attachments,
 * through the normal acceptance. The original stays as it is. Never repeats broadcasts, system mail and open emails.
 */
import type { Database } from 'bun:sqlite'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { readStoredContent } from '#features/core/app/stored-content.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { type AcceptedEmail, acceptEmail, resolveReplay, respondWithReplay } from '#features/sending/accept/accept.ts'
import type { Draft } from '#features/sending/accept/draft.ts'
import { createIdempotency } from '#features/sending/accept/idempotency.ts'
import type { DraftExtra, DraftRecipient, Idempotency } from '#features/sending/queue/email.ts'
import { describeAttachment, isContentDeleted, parseAttachments } from '#features/sending/queue/retire.ts'
import { isOpen } from '#features/sending/queue/status.ts'
import type { emails } from '#features/sending/queue/tables.ts'
import { isOwnSender } from '#features/setup/api-keys/limits.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { attempt, conflict, invalid } from '#platform/errors.ts'
import { serverBusy } from '#platform/http/body.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { domainOfMailbox, normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import type { ResendRequest } from './model.ts'
import { findEmail, type StoredEmail, type StoredRecipient } from './read.ts'
import { isSystemMail } from './wire.ts'

/** What acceptance needs and `StoredEmail` lacks. */
export interface Origin
  extends Readonly<
    Pick<typeof emails.$inferSelect, 'streamId' | 'broadcastId' | 'templateId' | 'listId' | 'sizeBytes'>
  > {
  /** Null: the stream was deleted. */
  readonly stream: string | null
}

const sql = prepareStatements((db) => ({
  origin: db.prepare<Origin, [number]>(
    `SELECT stream_id AS streamId, broadcast_id AS broadcastId, template_id AS templateId, list_id AS listId, slug AS stream, size_bytes AS sizeBytes
     FROM emails LEFT JOIN streams ON streams.id = stream_id WHERE emails.id = ?`,
  ),
}))

/** What a stored email was sent by, besides its own fields. */
export const findOrigin = (db: Database, emailId: number): Origin | undefined =>
  sql(db).origin.get(emailId) ?? undefined

/** Whether `resendEmail` would accept the email, with all of its recipients. */
export const isRepeatable = (app: App, email: StoredEmail, origin: Origin): boolean =>
  attempt(() => {
    requireRepeatable(app, email, origin)
    return chooseRecipients(email, undefined)
  }) !== undefined

/** Peak memory per octet of content: as read, and as packed for the store. */
const MEMORY_FACTOR = 3
/** As for the body of a request. */
const BYTES_PER_WORK_UNIT = 4 * KiB

/**
 * Sends a stored email again; resolves when the new email is on disk. Throws 404, 409 if it cannot be repeated, 410 if
 * its content is missing, 422 for recipients that it did not have, 503, and the errors of `acceptEmail`.
 * @param idempotencyHeader value of the header `Idempotency-Key`
 * @param admit throws when the account sends too fast; called after the idempotency key was looked up
 */
export async function resendEmail(
  app: App,
  actor: Actor,
  id: string,
  request: ResendRequest,
  idempotencyHeader: string | undefined,
  admit: () => void,
): Promise<AcceptedEmail & { readonly warnings: string[] }> {
  const uuid = parseUuidParam(id, 'email_not_found', 'email')
  const resendOf = formatUuid(uuid)
  const identity = { resend_of: resendOf, to: request.to ?? null }
  const idempotency = createIdempotency('Idempotency-Key', idempotencyHeader, identity)
  const replay = resolveReplay(app, actor, idempotency)
  if (replay) return { ...(await respondWithReplay(app, actor, replay)), warnings: [] }
  const { email, origin, stream, recipients, warnings } = readOriginal(app, actor, uuid, request)
  admit()
  const memory = app.memory.reserve(origin.sizeBytes * MEMORY_FACTOR)
  if (!memory) throw serverBusy()
  try {
    app.workBudget.charge(actor.accountId, origin.sizeBytes / BYTES_PER_WORK_UNIT)
    const read = () => readContent(app, email)
    // Reading attachments takes milliseconds.
    const content =
      email.attachments === null ? read() : await app.fairScheduler.run(getTenantId(app.db, actor.accountId), read)
    const draft: Draft = {
      from: email.from,
      fromDomain: domainOfMailbox(email.from),
      recipients,
      subject: email.subject,
      ...content,
      scheduledAt: undefined,
      stream,
      tracking: email.trackingOverride ?? undefined,
      transactional: email.transactional,
      templateId: origin.templateId ?? undefined,
      listId: origin.listId ?? undefined,
      idempotency,
      extra: copyExtra(email, resendOf, idempotency),
    }
    const accepted = await acceptEmail(app, actor, draft, undefined, (tx, response) => {
      // A person may have been erased, or the content removed, since it was read.
      const current = findEmail(tx.db, actor.accountId, uuid)
      if (!current) throw notFoundById('email_not_found', 'email')
      requireRepeatable(app, current, origin)
      if (!Bun.deepEquals(chooseRecipients(current, request.to), recipients))
        throw conflict('recipients_erased', 'A recipient of the email was erased in the meantime.')
      auditChange(app, tx, actor, 'email.repeated', resendOf, { new_email_id: response.id })
    })
    return { ...accepted, warnings: accepted.response.replayed ? [] : warnings }
  } finally {
    memory.release()
  }
}

/** What is sent again and to whom. The warnings are in the order of the recipients; a suppression comes first. */
function readOriginal(app: App, actor: Actor, uuid: UuidBytes, request: ResendRequest) {
  const { accountId } = actor
  const email = findEmail(app.db, accountId, uuid)
  const origin = email && findOrigin(app.db, email.id)
  if (!email || !origin || !isOwnSender(app, actor, email.from)) throw notFoundById('email_not_found', 'email')
  const stream = requireRepeatable(app, email, origin)
  const recipients = chooseRecipients(email, request.to)
  const { streamId, listId } = origin
  const { transactional, sandbox } = email
  const addresses = new Set(recipients.map(({ address }) => address))
  const warnings = email.recipients.flatMap(({ address, status }) => {
    if (!addresses.has(address)) return []
    const query = { accountId, address, transactional, streamId, listId: listId ?? undefined }
    if (suppressionOf(app.db, query)) return [WARNINGS.suppressed(address)]
    if (status === 'uncertain') return [WARNINGS.uncertain(address)]
    return status === 'sent' && !sandbox ? [WARNINGS.delivered(address)] : []
  })
  return { email, origin, stream, recipients, warnings }
}

/** Returns the slug of the stream. Throws a 409 if the email cannot be sent again. */
function requireRepeatable(app: App, email: StoredEmail, { broadcastId, stream }: Origin): string {
  if (isOpen(email.status))
    throw conflict(
      'email_open',
      `The email is ${email.status}, so it is still being sent; wait until it has ended, or cancel it while it is scheduled.`,
    )
  if (broadcastId !== null)
    throw conflict(
      'email_of_broadcast',
      'An email of a broadcast cannot be sent again on its own; send the recipient a new email.',
    )
  if (isSystemMail(email))
    throw conflict('system_mail', 'Mail from the service to its users cannot be sent again; request it where it began.')
  if (JSON.parse(email.extra ?? '{}').whole)
    throw conflict('email_forwarded', 'A forwarded message cannot be sent again; send a new email.')
  if (isContentDeleted(app.db, email.id))
    throw conflict(
      'content_removed',
      'The content of this email is no longer stored, so it cannot be sent again; send a new email.',
    )
  if (stream === null)
    throw conflict('stream_deleted', 'The stream of this email was deleted; send a new email with another stream.')
  return stream
}

/** The recipients as they were, or those requested. Erased ones are skipped. */
function chooseRecipients({ recipients }: StoredEmail, requested: readonly string[] | undefined): DraftRecipient[] {
  const stored = recipients.filter(({ address }) => address !== ERASED_ADDRESS)
  if (stored.length === 0)
    throw conflict('recipients_erased', 'The recipients of this email were erased, so it cannot be sent again.')
  // The first of equal addresses stays.
  const byAddress = new Map(stored.toReversed().map((recipient) => [normaliseAddress(recipient.address), recipient]))
  const wanted = requested && new Set(requested.map((text, index) => requireRecipient(byAddress, text, index)))
  const chosen = wanted ? stored.filter((recipient) => wanted.has(recipient)) : stored
  return withToRecipient(chosen).map(toDraftRecipient)
}

function requireRecipient(
  byAddress: ReadonlyMap<string, StoredRecipient>,
  text: string,
  index: number,
): StoredRecipient {
  const field = `to.${index}`
  const parsed = parseMailbox(text)
  if (parsed.kind === 'invalid') throw invalid(field, `${field}: ${parsed.reason}`, 'invalid_address')
  const found = byAddress.get(normaliseAddress(parsed.address))
  if (!found)
    throw invalid(
      field,
      `${parsed.address} is not a recipient of this email; send only to its recipients, or send a new email.`,
    )
  return found
}

/** Without a To recipient, those in Cc, who saw each other, or a single one in Bcc are put there. */
function withToRecipient(chosen: readonly StoredRecipient[]): readonly StoredRecipient[] {
  const has = (kind: StoredRecipient['kind']) => chosen.some((recipient) => recipient.kind === kind)
  if (has('to')) return chosen
  if (!has('cc') && chosen.length > 1)
    throw invalid('to', 'Several Bcc recipients alone would see each other; send the email to one at a time.')
  const from = has('cc') ? 'cc' : 'bcc'
  return chosen.map((recipient) => (recipient.kind === from ? { ...recipient, kind: 'to' } : recipient))
}

const toDraftRecipient = ({ kind, address, mailbox }: StoredRecipient): DraftRecipient => ({
  kind,
  address,
  domain: address.slice(address.lastIndexOf('@') + 1),
  mailbox: mailbox ?? undefined,
})

/** Reads bodies and attachments. Throws a 410 if one is missing. */
const readContent = (
  { content }: App,
  { htmlRef, textRef, attachments }: StoredEmail,
): Pick<Draft, 'html' | 'text' | 'attachments'> =>
  readStoredContent(() => ({
    html: htmlRef === null ? undefined : content.get(htmlRef),
    text: textRef === null ? undefined : content.get(textRef),
    attachments: parseAttachments(attachments).map((file) => ({
      ...describeAttachment(file),
      // `isContentDeleted` has excluded attachments without a reference; no blob has the reference 0.
      content: content.get(file.ref ?? 0),
    })),
  }))

function copyExtra({ extra }: StoredEmail, resendOf: string, idempotency: Idempotency | undefined): DraftExtra {
  const { idempotency_key: _key, message_id: _id, date: _date, ...copied } = JSON.parse(extra ?? '{}') as DraftExtra
  return { ...copied, resend_of: resendOf, ...(idempotency && { idempotency_key: idempotency.key }) }
}

/** `uncertain`: the receiving server may have the first email. `suppressed`: the address is, for such mail. */
const WARNINGS = {
  delivered: (address: string) => `${address} got the first email, so this one arrives in addition.`,
  uncertain: (address: string) => `${address} may have got the first email, so it may arrive twice.`,
  suppressed: (address: string) => `${address} is suppressed, so it gets none.`,
}
