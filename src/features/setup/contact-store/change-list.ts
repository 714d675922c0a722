/**
 * @module Creates, changes and deletes contact lists. The only writer of `contact_lists`. A deleted list keeps its row
 * without its welcome email; its name is free again. `contact-lists/contacts.ts` deletes its contacts in batches.
 */
import type { Database } from 'bun:sqlite'
import { prepareCount, requirePlanCapacity } from '#features/core/accounts/limits.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange, describeChanges } from '#features/core/audit-logs/audit.ts'
import { requireAllowedDomain } from '#features/setup/api-keys/limits.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { parseSender } from '#features/setup/domains/sending.ts'
import { requireValidSource } from '#features/setup/templates/render.ts'
import { findTemplateById, MAX_SUBJECT_LENGTH, validateBody } from '#features/setup/templates/templates.ts'
import { insertSql, prepareStatements, setSql, type Tx } from '#platform/db/open.ts'
import { AppError, conflict, invalid } from '#platform/errors.ts'
import { parseName } from '#platform/http/validation.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { type ContactList, getList, listContactLists } from './lists.ts'

/** The fields of a list that its account sets. */
type ListFields = Omit<ContactList, 'id' | 'uuid' | 'accountId' | 'createdAt' | 'updatedAt'>

/**
 * An undefined field means the default for a new list, and the current value in a change. Null, `''` and, for flags,
 * false mean none.
 */
export type ListInput = Pick<ListFields, 'name'> & {
  readonly [Field in Exclude<keyof ListFields, 'name' | 'welcomeTemplateId'>]?: ListFields[Field] | undefined
} & {
  /** Public id. */
  readonly welcomeTemplateId?: string | null | undefined
}

/** Lists per account. */
export const MAX_LISTS = 10_000
export const MAX_DESCRIPTION_LENGTH = 2000

const NEW_LIST: ListFields = {
  name: '',
  description: null,
  doubleOptIn: false,
  welcomeEnabled: false,
  welcomeDelaySeconds: 0,
  welcomeFrom: null,
  welcomeSubject: null,
  welcomeHtml: null,
  welcomeText: null,
  welcomeTemplateId: null,
}

const FIELDS = Object.keys(NEW_LIST) as (keyof ListFields)[]
const CHANGEABLE = `${FIELDS.join(' ')} updatedAt`

const sql = prepareStatements((db) => ({
  existing: prepareCount(db, 'contact_lists INDEXED BY contact_lists_name WHERE account_id = ? AND deleted_at IS NULL'),
  sameName: db.prepare<{ id: number }, [number, string, number]>(
    'SELECT id FROM contact_lists WHERE account_id = ? AND name = ? AND deleted_at IS NULL AND id <> ?',
  ),
  insert: db.prepare(insertSql('contact_lists', `uuid accountId createdAt ${CHANGEABLE}`)),
  update: db.prepare(`UPDATE contact_lists SET ${setSql(CHANGEABLE)} WHERE id = $id`),
  delete: db.prepare(
    `UPDATE contact_lists SET deleted_at = ?1, updated_at = ?1, welcome_enabled = 0, welcome_subject = NULL, welcome_html = NULL, welcome_text = NULL
     WHERE id = ?2`,
  ),
  deleted: db.prepare<{ id: number; uuid: Uint8Array }, [number]>(
    'SELECT id, uuid FROM contact_lists WHERE id > ? AND deleted_at IS NOT NULL AND emptied_at IS NULL ORDER BY id LIMIT 1',
  ),
  empty: db.prepare('UPDATE contact_lists SET emptied_at = ? WHERE id = ? AND deleted_at IS NOT NULL'),
}))

/**
 * Creates a list. Throws 409 `contact_list_exists` when the account has one with this name, 409
 * `too_many_contact_lists`, 403 `plan_limit_reached`, 403 `insufficient_scope` for a welcome email when the actor may
 * not send, 422 for invalid fields, and 422 `template_error` for parts of the welcome email that can never be rendered.
 */
export async function createList(app: App, actor: Actor, input: ListInput): Promise<ContactList> {
  const { accountId } = actor
  const check = (db: Database): ListFields => {
    const list = applyInput(db, accountId, NEW_LIST, input)
    requireSendScope(actor, NEW_LIST, list)
    requireUnusedName(db, accountId, list.name, 0)
    return list
  }
  check(app.db)
  await requireRenderableWelcome(app, accountId, input)
  return app.commit.write((tx) => {
    // Checked again: since the first check, the template or domain may have been deleted.
    const list = check(tx.db)
    requirePlanCapacity(app, tx, accountId, 'contact_lists', sql(tx.db).existing)
    if (listContactLists(tx.db, accountId, { limit: 0, offset: 0 }).total >= MAX_LISTS)
      throw conflict(
        'too_many_contact_lists',
        `An account has at most ${MAX_LISTS} contact lists; delete one you no longer need, or separate contacts by their metadata.`,
      )
    const uuid = newUuid()
    const id = formatUuid(uuid)
    const now = app.eventTime()
    sql(tx.db).insert.run({ ...list, uuid, accountId, createdAt: now, updatedAt: now })
    auditChange(app, tx, actor, 'contact_list.created', id, { name: list.name })
    return getList(tx.db, accountId, id)
  })
}

/** Changes a list; omitted fields keep their value. Throws as `createList` does, and 404. */
export async function changeList(app: App, actor: Actor, id: string, input: ListInput): Promise<ContactList> {
  const { accountId } = actor
  const check = (db: Database): { before: ContactList; after: ListFields } => {
    const before = getList(db, accountId, id)
    const after = applyInput(db, accountId, before, input)
    requireSendScope(actor, before, after)
    requireUnusedName(db, accountId, after.name, before.id)
    return { before, after }
  }
  check(app.db)
  await requireRenderableWelcome(app, accountId, input)
  return app.commit.write((tx) => {
    const { before, after } = check(tx.db)
    sql(tx.db).update.run({ ...after, updatedAt: app.eventTime(), id: before.id })
    // A row id, not the id of the template.
    const { welcomeTemplateId: _, ...told } = after
    auditChange(app, tx, actor, 'contact_list.updated', before.uuid, {
      name: after.name,
      ...describeChanges({ ...before }, told),
    })
    return getList(tx.db, accountId, id)
  })
}

/** Deletes a list. It disappears immediately; `removeDeletedLists` deletes its contacts later. Throws 404. */
export const deleteList = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const list = getList(tx.db, actor.accountId, id)
    sql(tx.db).delete.run(app.eventTime(), list.id)
    auditChange(app, tx, actor, 'contact_list.deleted', list.uuid, { name: list.name })
  })

/** The first deleted list after a row id that may still have contacts. */
export const findDeletedListAfter = (db: Database, after: number): { id: number; uuid: Uint8Array } | undefined =>
  sql(db).deleted.get(after) ?? undefined

/** Records that a deleted list has no contacts left. */
export const markEmptied = (app: Pick<App, 'eventTime'>, tx: Tx, listId: number): void =>
  void sql(tx.db).empty.run(app.eventTime(), listId)

function requireUnusedName(db: Database, accountId: number, name: string, except: number): void {
  if (sql(db).sameName.get(accountId, name, except))
    throw conflict('contact_list_exists', `This account already has a contact list "${name}".`)
}

/** The list after the change; throws the 422 of an invalid field. */
function applyInput(db: Database, accountId: number, before: ListFields, input: ListInput): ListFields {
  const resolve = <T>(provided: string | null | undefined, current: T, read: (text: string) => T): T | null =>
    provided === undefined ? current : provided ? read(provided) : null
  const body = (part: 'html' | 'text') => (text: string) => validateBody(`welcome_email_${part}_body`, text)
  const after: ListFields = {
    name: validateName(input.name),
    description: resolve(input.description, before.description, validateDescription),
    doubleOptIn: input.doubleOptIn ?? before.doubleOptIn,
    welcomeEnabled: input.welcomeEnabled ?? before.welcomeEnabled,
    welcomeDelaySeconds: input.welcomeDelaySeconds ?? before.welcomeDelaySeconds,
    welcomeFrom: resolve(input.welcomeFrom, before.welcomeFrom, (text) =>
      parseSender(db, accountId, 'welcome_email_from_address', text),
    ),
    welcomeSubject: resolve(input.welcomeSubject, before.welcomeSubject, validateSubject),
    welcomeHtml: resolve(input.welcomeHtml, before.welcomeHtml, body('html')),
    welcomeText: resolve(input.welcomeText, before.welcomeText, body('text')),
    welcomeTemplateId: resolve(input.welcomeTemplateId, before.welcomeTemplateId, (id) =>
      requireTemplate(db, accountId, id),
    ),
  }
  requireWelcomeContent(after)
  return after
}

const WELCOME_FIELDS = FIELDS.filter((field) => field.startsWith('welcome'))

/** Throws 403 when the change affects the welcome email and the actor may not send, or not from this domain. */
function requireSendScope(actor: Actor, before: ListFields, after: ListFields): void {
  if (!after.welcomeEnabled || WELCOME_FIELDS.every((field) => after[field] === before[field])) return
  requireScope(actor, 'emails:send', 'for welcome emails')
  if (!actor.limits?.domains) return
  if (after.welcomeFrom === null)
    throw invalid(
      'welcome_email_from_address',
      'This API key is restricted to domains, so the welcome email must have a From address at one of them.',
    )
  requireAllowedDomain(actor, domainOfMailbox(after.welcomeFrom))
}

function requireWelcomeContent(list: ListFields): void {
  const { welcomeEnabled, welcomeTemplateId, welcomeSubject, welcomeHtml, welcomeText } = list
  if (!welcomeEnabled || welcomeTemplateId !== null) return
  if (welcomeSubject !== null && (welcomeHtml !== null || welcomeText !== null)) return
  throw invalid(
    'welcome_email_enabled',
    'A welcome email must have welcome_email_template_id, or welcome_email_subject with welcome_email_html_body, welcome_email_text_body or both.',
  )
}

/** Throws 422 for parts that can never be rendered. */
async function requireRenderableWelcome(app: App, accountId: number, input: ListInput): Promise<void> {
  try {
    await requireValidSource(app, accountId, {
      subject: input.welcomeSubject || undefined,
      html: input.welcomeHtml || undefined,
      text: input.welcomeText || undefined,
    })
  } catch (error) {
    throw error instanceof AppError && error.status === 422 ? toWelcomeError(error) : error
  }
}

/** Template errors name the parts of a template; this renames them to the fields of a list. */
function toWelcomeError({ code, message, details }: AppError): AppError {
  const renamed = details.map(({ field, message }) =>
    field === 'template'
      ? { field, message }
      : { field: `welcome_email_${field}`, message: `welcome_email_${message}` },
  )
  return new AppError(422, code, renamed[0]?.message ?? message, { details: renamed })
}

const CONTROL_CHARACTER = /[\0-\x1f\x7f-\x9f\u2028\u2029]/

function validateName(text: string): string {
  const name = parseName(text).toWellFormed()
  // The name appears in subjects and on pages that contacts see.
  if (CONTROL_CHARACTER.test(name)) throw invalid('name', 'The name must be one line without control characters.')
  return name
}

function validateDescription(text: string): string {
  if (text.length > MAX_DESCRIPTION_LENGTH)
    throw invalid('description', `The description must have at most ${MAX_DESCRIPTION_LENGTH} characters.`)
  return text.toWellFormed()
}

function validateSubject(text: string): string | null {
  if (text.length > MAX_SUBJECT_LENGTH)
    throw invalid('welcome_email_subject', `The subject must have at most ${MAX_SUBJECT_LENGTH} characters.`)
  return text.trim() === '' ? null : text.toWellFormed()
}

function requireTemplate(db: Database, accountId: number, id: string): number {
  const template = findTemplateById(db, accountId, id)
  if (!template)
    throw invalid(
      'welcome_email_template_id',
      'This account has no template with this id; GET /v1/templates lists them.',
      'template_not_found',
    )
  return template.id
}
