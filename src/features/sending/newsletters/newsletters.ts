/**
 * @module Creates, changes, deletes, reads and sends newsletters: messages to a contact list that are written before they
 * are sent. With `states.ts` the only writer of `newsletters`. Only drafts can be changed. A newsletter is sent by
 * starting a broadcast, whose status its own follows.
 */
import type { Database } from 'bun:sqlite'
import { isDeepStrictEqual } from 'node:util'
import type { Static } from '@sinclair/typebox'
import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { requireHeaderSafe } from '#features/sending/accept/attachments.ts'
import { BROADCAST_STREAM, type BroadcastStarted } from '#features/sending/broadcasts/model.ts'
import { applyTemplate, requireRegisteredSender } from '#features/sending/broadcasts/send.ts'
import { startBroadcast } from '#features/sending/broadcasts/start.ts'
import { type ContactList, findListById, getList } from '#features/setup/contact-store/lists.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { requireValidSource } from '#features/setup/templates/render.ts'
import { findTemplateById, findTemplateByRowId, toTemplateSource } from '#features/setup/templates/templates.ts'
import { insertSql, newestFirst, prepareStatements, type RowWindow, setSql, type Tx } from '#platform/db/open.ts'
import { type AppError, conflict, invalid } from '#platform/errors.ts'
import { isoTime, toWire } from '#platform/http/envelope.ts'
import { mapFromPhp, notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { formatMailbox, parseMailboxList } from '#protocols/address/parse.ts'
import * as model from './model.ts'
import { type NewsletterStatus, newsletterStatusCode, newsletterStatusName, startNewsletter } from './states.ts'
import type { newsletters } from './tables.ts'

export interface Newsletter extends Readonly<Omit<typeof newsletters.$inferSelect, 'operationId' | 'status'>> {
  readonly listUuid: UuidBytes
  readonly templateUuid: UuidBytes | null
  readonly operationUuid: UuidBytes | null
  readonly status: NewsletterStatus
}

/** A row of the list, without long bodies. */
export interface ListedNewsletter extends Newsletter {
  readonly isTruncated: boolean
}

/** The fields that its author provides, as in requests; omitted ones keep their value. Ids are public ids. */
type NewsletterInput = Static<typeof model.NewNewsletter>
type NewsletterChange = Static<typeof model.NewsletterChangeBody>

export const MAX_NEWSLETTERS = 10_000

type Row = Omit<Newsletter, 'status'> & { readonly status: number }

const COLUMNS = `newsletters.id, newsletters.uuid, newsletters.account_id AS accountId, list_id AS listId, contact_lists.uuid AS listUuid,
  newsletters.subject, from_address AS "from", template_id AS templateId, templates.uuid AS templateUuid, template_data AS templateData,
  reply_to AS replyTo, stream, newsletters.status, operations.uuid AS operationUuid, scheduled_at AS scheduledAt, sent_at AS sentAt,
  total_recipients AS totalRecipients, newsletters.created_at AS createdAt, newsletters.updated_at AS updatedAt`
const BODIES = 'newsletters.html_body AS htmlBody, newsletters.text_body AS textBody'
const isLongSql = (column: string): string =>
  `coalesce(octet_length(newsletters.${column}), 0) > ${model.MAX_LISTED_BYTES}`
const LISTED_BODIES = `CASE WHEN ${isLongSql('html_body')} THEN NULL ELSE newsletters.html_body END AS htmlBody,
  CASE WHEN ${isLongSql('text_body')} THEN NULL ELSE newsletters.text_body END AS textBody, (${isLongSql('html_body')} OR ${isLongSql('text_body')}) AS isTruncated`
// Includes newsletters whose list or template was deleted.
const JOINED_TABLES = `newsletters JOIN contact_lists ON contact_lists.id = list_id LEFT JOIN templates ON templates.id = template_id
  LEFT JOIN operations ON operations.id = operation_id`

const CHANGEABLE = 'listId subject fromAddress htmlBody textBody templateId templateData replyTo stream updatedAt'

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Row, [Uint8Array, number]>(
    `SELECT ${COLUMNS}, ${BODIES} FROM ${JOINED_TABLES} WHERE newsletters.uuid = ? AND newsletters.account_id = ?`,
  ),
  // A status of null: any. The index has all that is read to find the rows of a page.
  list: newestFirst<Row & { isTruncated: number }, [number, number | null]>(
    db,
    `SELECT ${COLUMNS}, ${LISTED_BODIES} FROM ${JOINED_TABLES}`,
    'newsletters INDEXED BY newsletters_status WHERE account_id = ? AND status = coalesce(?, status)',
    'newsletters.id',
  ),
  insert: db.prepare(insertSql('newsletters', `uuid accountId status createdAt ${CHANGEABLE}`)),
  update: db.prepare(`UPDATE newsletters SET ${setSql(CHANGEABLE)} WHERE id = $id AND status = $status`),
  delete: db.prepare('DELETE FROM newsletters WHERE id = ? AND status NOT IN (?, ?)'),
  forget: db.prepare('UPDATE newsletters SET operation_id = NULL WHERE operation_id = ?'),
}))

const toNewsletter = (row: Row): Newsletter => ({ ...row, status: newsletterStatusName(row.status) })

/** The account's newsletter; throws 404 when it has none with this id. */
export function getNewsletter(db: Database, accountId: number, id: string): Newsletter {
  const row = sql(db).byUuid.get(parseUuidParam(id, 'newsletter_not_found', 'newsletter'), accountId)
  if (!row) throw notFoundById('newsletter_not_found', 'newsletter')
  return toNewsletter(row)
}

/** A page of the account's newsletters, newest first. */
export function listNewsletters(
  db: Database,
  accountId: number,
  page: RowWindow,
  status?: NewsletterStatus,
): { newsletters: ListedNewsletter[]; total: number } {
  const code = status === undefined ? null : newsletterStatusCode(status)
  const { rows, total } = sql(db).list(page, accountId, code)
  return { newsletters: rows.map((row) => ({ ...toNewsletter(row), isTruncated: row.isTruncated === 1 })), total }
}

/** The 409 for actions that only a draft allows. */
export const createNotDraftError = ({ status }: Pick<Newsletter, 'status'>, done: string): AppError =>
  conflict('newsletter_not_draft', `The newsletter is ${status}, so it can no longer be ${done}; create a new one.`)

/**
 * Creates a draft after checking that every part can be rendered. Throws 404 `contact_list_not_found`, 422 for invalid
 * addresses, templates and sources, 409 when the account has too many.
 */
export async function createNewsletter(app: App, actor: Actor, input: NewsletterInput): Promise<Newsletter> {
  const stored = { ...NO_PARTS, ...toStoredFields(app.db, actor.accountId, input) } as StoredFields
  await requireValidSource(app, actor.accountId, toTemplateSource(stored))
  return app.commit.write((tx) => {
    if (listNewsletters(tx.db, actor.accountId, { limit: 0, offset: 0 }).total >= MAX_NEWSLETTERS)
      throw conflict(
        'too_many_newsletters',
        `An account has at most ${MAX_NEWSLETTERS} newsletters; delete one that is no longer needed.`,
      )
    const uuid = newUuid()
    const now = app.eventTime()
    storeWithinPlan(app, tx, actor.accountId, () =>
      sql(tx.db).insert.run({
        ...toColumns(stored, now),
        uuid,
        accountId: actor.accountId,
        status: newsletterStatusCode('draft'),
        createdAt: now,
      }),
    )
    const id = formatUuid(uuid)
    auditChange(app, tx, actor, 'newsletter.created', id)
    return getNewsletter(tx.db, actor.accountId, id)
  })
}

/** Changes a draft. Throws 422 without a field, 409 `newsletter_not_draft`, and what `createNewsletter` throws. */
export async function changeNewsletter(
  app: App,
  actor: Actor,
  id: string,
  change: NewsletterChange,
): Promise<Newsletter> {
  if (Object.values(change).every((value) => value === undefined))
    throw invalid(
      'body',
      'Provide at least one of list_id, subject, from_address, html_body, text_body, template_id, template_data, reply_to and stream.',
    )
  requireDraft(getNewsletter(app.db, actor.accountId, id))
  const provided = toStoredFields(app.db, actor.accountId, change)
  await requireValidSource(app, actor.accountId, toTemplateSource(provided))
  return app.commit.write((tx) => {
    const before = getNewsletter(tx.db, actor.accountId, id)
    requireDraft(before)
    storeWithinPlan(app, tx, actor.accountId, () =>
      sql(tx.db).update.run({
        ...toColumns({ ...before, ...provided }, app.eventTime()),
        id: before.id,
        status: newsletterStatusCode('draft'),
      }),
    )
    auditChange(app, tx, actor, 'newsletter.updated', before.uuid)
    return getNewsletter(tx.db, actor.accountId, id)
  })
}

/** Deletes a newsletter, not its emails; 409 `newsletter_not_draft` while it is scheduled or being sent. */
export const deleteNewsletter = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const newsletter = getNewsletter(tx.db, actor.accountId, id)
    const { changes } = sql(tx.db).delete.run(
      newsletter.id,
      newsletterStatusCode('scheduled'),
      newsletterStatusCode('sending'),
    )
    if (changes === 0) throw createInProgressError(newsletter)
    auditChange(app, tx, actor, 'newsletter.deleted', newsletter.uuid, { subject: newsletter.subject })
  })

function requireDraft(newsletter: Newsletter): void {
  // Cancelling a scheduled newsletter turns it back into a draft.
  if (newsletter.status === 'scheduled') throw createInProgressError(newsletter)
  if (newsletter.status !== 'draft') throw createNotDraftError(newsletter, 'changed')
}

const createInProgressError = ({ status, operationUuid }: Newsletter): AppError =>
  conflict(
    'newsletter_not_draft',
    `The newsletter is ${status}; cancel it first with POST /v1/operations/${operationUuid ? formatUuid(operationUuid) : '{id}'}/cancel.`,
  )

/** The fields that its author provides, as stored. */
type StoredFields = Pick<
  Newsletter,
  'listId' | 'subject' | 'from' | 'htmlBody' | 'textBody' | 'templateId' | 'templateData' | 'replyTo' | 'stream'
>

const NO_PARTS = { htmlBody: null, textBody: null, templateId: null, templateData: null, replyTo: null, stream: null }

/** The values of `CHANGEABLE`. */
const toColumns = ({ from, ...others }: StoredFields, updatedAt: Millis) => ({
  ...others,
  fromAddress: from,
  updatedAt,
})

/** Returns the provided fields, checked and in stored form. Throws the 404 or 422 of the first invalid field. */
function toStoredFields(db: Database, accountId: number, provided: NewsletterChange): Partial<StoredFields> {
  const { list_id, subject, from_address, html_body, text_body, template_id, template_data, reply_to, stream } =
    provided
  return {
    ...(list_id !== undefined && { listId: getList(db, accountId, list_id).id }),
    ...(subject !== undefined && { subject: parseSubject(subject) }),
    ...(from_address !== undefined && { from: requireRegisteredSender(db, accountId, from_address) }),
    // Clients send an empty body to mean none.
    ...(html_body !== undefined && { htmlBody: html_body || null }),
    ...(text_body !== undefined && { textBody: text_body || null }),
    ...(template_id !== undefined && { templateId: requireTemplateId(db, accountId, template_id) }),
    ...(template_data !== undefined && { templateData: formatTemplateData(mapFromPhp(template_data) ?? null) }),
    ...(reply_to !== undefined && { replyTo: parseReplyTo(reply_to) }),
    ...(stream !== undefined && { stream: requireStream(db, accountId, stream) }),
  }
}

function parseSubject(subject: string): string {
  if (subject.trim() === '') throw invalid('subject', 'subject must not be empty.')
  if (subject.length > model.MAX_SUBJECT_LENGTH)
    throw invalid('subject', `subject must have at most ${model.MAX_SUBJECT_LENGTH} characters.`)
  requireHeaderSafe('subject', subject)
  return subject
}

function requireTemplateId(db: Database, accountId: number, id: string | null): number | null {
  if (id === null || id === '') return null
  const template = findTemplateById(db, accountId, id)
  if (!template) throw invalid('template_id', 'Template not found.', 'template_not_found')
  return template.id
}

function requireStream(db: Database, accountId: number, slug: string | null): string | null {
  if (slug === null || slug === '' || slug === BROADCAST_STREAM) return null
  if (findStreamId(db, accountId, slug) === undefined)
    throw invalid('stream', 'The account has no stream with this slug.', 'stream_not_found')
  return slug
}

function formatTemplateData(data: Readonly<Record<string, unknown>> | null): string | null {
  if (data === null || Object.keys(data).length === 0) return null
  const json = JSON.stringify(data)
  if (Buffer.byteLength(json) > model.MAX_DATA_BYTES)
    throw invalid('template_data', `template_data must have at most ${model.MAX_DATA_BYTES} bytes of JSON.`)
  return json
}

function parseReplyTo(text: string | null): string | null {
  if (text === null || text === '') return null
  requireHeaderSafe('reply_to', text)
  const parsed = parseMailboxList(text)
  if (parsed.kind === 'invalid') throw invalid('reply_to', `reply_to: ${parsed.reason}`, 'invalid_address')
  return parsed.mailboxes.map(formatMailbox).join(', ')
}

/** Clears the operation of a newsletter and changes nothing else. */
export const unlinkOperation = (tx: Tx, operationId: number): void => void sql(tx.db).forget.run(operationId)

const formatUuidOrNull = (uuid: Newsletter['operationUuid']): string | null => (uuid === null ? null : formatUuid(uuid))

export const toNewsletterWire = (newsletter: Newsletter, accountUuid: string): model.NewsletterRecord =>
  toWire(model.NewsletterRecord, newsletter, {
    account_id: accountUuid,
    list_id: formatUuid(newsletter.listUuid),
    from_address: newsletter.from,
    template_id: formatUuidOrNull(newsletter.templateUuid),
    template_data: newsletter.templateData === null ? null : JSON.parse(newsletter.templateData),
    operation_id: formatUuidOrNull(newsletter.operationUuid),
  })

export const toNewsletterRowWire = (newsletter: ListedNewsletter, accountUuid: string): model.NewsletterRow => ({
  ...toNewsletterWire(newsletter, accountUuid),
  truncated: newsletter.isTruncated,
})

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
  { send_at: sendAt, max_recipients: maxRecipients }: Static<typeof model.SendNewsletter>,
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
    stream: newsletter.stream ?? undefined,
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
    auditChange(app, tx, actor, 'newsletter.started', newsletter.uuid, {
      operation_id: operation.uuid,
      total_recipients: operation.total,
      ...(scheduledAt !== undefined && { scheduled_at: isoTime(scheduledAt) }),
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
