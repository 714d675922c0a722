/**
 * @module Signup forms: at most one per contact list, each with a public page. Only this module writes `signup_forms`.
 * It checks a form's fields and look; `contact-lists/subscribe.ts` handles submitted addresses. The form of a deleted
 * list does not exist for anyone; its row is deleted with the account.
 */
import type { Database } from 'bun:sqlite'
import { findNoReplySender } from '#features/audience/contact-lists/subscription-mails.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { type ContactList, getList } from '#features/setup/contact-store/lists.ts'
import { parseSender } from '#features/setup/domains/sending.ts'
import { insertSql, newestFirst, prepareStatements, type RowWindow, setSql } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { formatUuid, newUuid, randomBelow, type UuidBytes } from '#platform/ids.ts'
import type { CustomField } from './custom-fields.ts'
import type { Messages } from './messages.ts'
import type { signupForms } from './tables.ts'
import type { Theme } from './theme.ts'

const MAX_TITLE_PART_LENGTH = 40
const RANDOM_LENGTH = 6
const RADIX = 36

/** A slug for a title: `newsletter-a1b2c3`; without ASCII letters and digits `form-a1b2c3`. */
function createSlug(title: string): string {
  const random = Array.from({ length: RANDOM_LENGTH }, () => randomBelow(RADIX).toString(RADIX)).join('')
  return `${slugify(title) || 'form'}-${random}`
}

/** Lower-case ASCII letters and digits with hyphens between words, at most 40. */
const slugify = (title: string): string =>
  title
    .toLowerCase()
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, MAX_TITLE_PART_LENGTH)
    .replace(/-$/, '')

type Row = Readonly<Omit<typeof signupForms.$inferSelect, 'isActive'>> & {
  readonly accountUuid: UuidBytes
  readonly listUuid: UuidBytes
  readonly isActive: number
}

export interface SignupForm extends Omit<Row, 'customFields' | 'theme' | 'messages' | 'isActive'> {
  readonly customFields: readonly CustomField[]
  readonly theme: Theme
  readonly messages: Messages
  readonly isActive: boolean
}

const OF_LIVE_LISTS =
  'signup_forms f JOIN contact_lists ON contact_lists.id = f.list_id AND contact_lists.deleted_at IS NULL'
const SELECT = `SELECT f.id, f.uuid, f.account_id AS accountId, accounts.uuid AS accountUuid, list_id AS listId, contact_lists.uuid AS listUuid, slug, title,
  f.description, from_address AS fromAddress, redirect_url AS redirectUrl, success_message AS successMessage, custom_fields AS customFields, theme, messages,
  is_active AS isActive, f.created_at AS createdAt, f.updated_at AS updatedAt FROM ${OF_LIVE_LISTS} JOIN accounts ON accounts.id = f.account_id`

/** What a change may change. */
const CHANGEABLE = 'title description fromAddress redirectUrl successMessage customFields theme messages updatedAt'

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Row, [Uint8Array, number]>(`${SELECT} WHERE f.uuid = ? AND f.account_id = ?`),
  bySlug: db.prepare<Row, [string]>(`${SELECT} WHERE slug = ? AND accounts.deleted_at IS NULL`),
  list: newestFirst<Row, [number]>(db, SELECT, `${OF_LIVE_LISTS} WHERE f.account_id = ?`, 'f.id'),
  ofList: db.prepare<{ uuid: Uint8Array }, [number]>('SELECT uuid FROM signup_forms WHERE list_id = ?'),
  activeOfList: db.prepare<{ slug: string }, [number]>(
    'SELECT slug FROM signup_forms WHERE list_id = ? AND is_active = 1',
  ),
  insert: db.prepare(insertSql('signup_forms', `uuid accountId listId slug isActive createdAt ${CHANGEABLE}`)),
  update: db.prepare(`UPDATE signup_forms SET ${setSql(CHANGEABLE)} WHERE id = $id`),
  setActive: db.prepare('UPDATE signup_forms SET is_active = ?, updated_at = ? WHERE id = ?'),
  delete: db.prepare('DELETE FROM signup_forms WHERE id = ?'),
}))

const toSignupForm = ({ customFields, theme, messages, isActive, ...row }: Row): SignupForm => ({
  ...row,
  customFields: JSON.parse(customFields) as CustomField[],
  theme: JSON.parse(theme) as Theme,
  messages: JSON.parse(messages) as Messages,
  isActive: isActive === 1,
})

/** Slug of the list's form, while it is active. */
export const findActiveSlug = (db: Database, listId: number): string | undefined =>
  sql(db).activeOfList.get(listId)?.slug

/** The account's form; throws 404 `signup_form_not_found` when none has this id. */
export function getForm(db: Database, accountId: number, id: string): SignupForm {
  const row = sql(db).byUuid.get(parseUuidParam(id, 'signup_form_not_found', 'signup form'), accountId)
  if (!row) throw notFoundById('signup_form_not_found', 'signup form')
  return toSignupForm(row)
}

/** The form with a slug, of any account, active or not; undefined when there is none, or its list was deleted. */
export function findFormBySlug(db: Database, slug: string): SignupForm | undefined {
  const row = sql(db).bySlug.get(slug)
  return row ? toSignupForm(row) : undefined
}

/** A page of the account's forms, newest first. */
export function listForms(db: Database, accountId: number, page: RowWindow) {
  const { rows, total } = sql(db).list(page, accountId)
  return { forms: rows.map(toSignupForm), total }
}

/** The fields that an account sets; `fromAddress` as the client wrote it. */
type FormInput = Pick<
  SignupForm,
  'title' | 'description' | 'fromAddress' | 'redirectUrl' | 'successMessage' | 'customFields' | 'theme' | 'messages'
>

/** Fields that are left out keep their value; theme, messages and custom fields are replaced as a whole. */
export type FormChange = { readonly [Field in keyof FormInput]?: FormInput[Field] | undefined }

/**
 * Creates the form of a list, active. Throws 404 `contact_list_not_found`; 409 `signup_form_exists`; 422 for an invalid
 * redirect_url or sender, and `no_verified_domain` where confirmations would have no sender.
 */
export function createForm(
  app: App,
  actor: Actor,
  listId: string,
  input: FormChange & Pick<FormInput, 'title'>,
): Promise<SignupForm> {
  requireRedirectUrl(input.redirectUrl)
  return app.commit.write((tx) => {
    const list = getList(tx.db, actor.accountId, listId)
    const fromAddress = resolveSender(tx.db, list, input.fromAddress ?? null)
    const existing = sql(tx.db).ofList.get(list.id)
    if (existing)
      throw conflict(
        'signup_form_exists',
        `The contact list already has a signup form; change ${formatUuid(existing.uuid)} instead.`,
      )
    const [uuid, slug, now] = [newUuid(), createSlug(input.title), app.eventTime()]
    const row = { uuid, accountId: actor.accountId, listId: list.id, slug, isActive: 1, createdAt: now, updatedAt: now }
    sql(tx.db).insert.run({ ...row, ...toColumnValues({ ...input, fromAddress }) })
    auditChange(app, tx, actor, 'signup_form.created', uuid, {
      list_id: formatUuid(list.uuid),
      slug,
      title: input.title,
    })
    return getForm(tx.db, actor.accountId, formatUuid(uuid))
  })
}

/** Changes the provided fields; an empty change is a 422. Throws 404, and 422 as `createForm`. */
export async function changeForm(app: App, actor: Actor, id: string, change: FormChange): Promise<SignupForm> {
  const changedFields = Object.entries(change).filter(([, value]) => value !== undefined)
  if (changedFields.length === 0)
    throw invalid(
      'body',
      'Set at least one of title, description, custom_fields, theme, messages, redirect_url, success_message and from_address.',
    )
  requireRedirectUrl(change.redirectUrl)
  return await app.commit.write((tx) => {
    const form = getForm(tx.db, actor.accountId, id)
    const fromAddress =
      change.fromAddress === undefined
        ? form.fromAddress
        : resolveSender(tx.db, getList(tx.db, actor.accountId, formatUuid(form.listUuid)), change.fromAddress)
    const changed = { ...form, ...Object.fromEntries(changedFields), fromAddress }
    sql(tx.db).update.run({ ...toColumnValues(changed), updatedAt: app.eventTime(), id: form.id })
    auditChange(app, tx, actor, 'signup_form.updated', form.uuid, {
      title: changed.title,
      changed: changedFields.map(([name]) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)),
    })
    return getForm(tx.db, actor.accountId, id)
  })
}

/** Deactivates a form, or activates it again. Throws 404. */
export function toggleForm(app: App, actor: Actor, id: string): Promise<SignupForm> {
  return app.commit.write((tx) => {
    const form = getForm(tx.db, actor.accountId, id)
    sql(tx.db).setActive.run(form.isActive ? 0 : 1, app.eventTime(), form.id)
    auditChange(app, tx, actor, `signup_form.${form.isActive ? 'deactivated' : 'activated'}`, form.uuid)
    return getForm(tx.db, actor.accountId, id)
  })
}

/** Deletes a form: its page is no longer available, and contacts that it added stay. Throws 404. */
export function deleteForm(app: App, actor: Actor, id: string): Promise<void> {
  return app.commit.writeFromReserve((tx) => {
    const form = getForm(tx.db, actor.accountId, id)
    sql(tx.db).delete.run(form.id)
    auditChange(app, tx, actor, 'signup_form.deleted', form.uuid)
  })
}

const toColumnValues = (form: FormChange & Pick<FormInput, 'title'>) => ({
  title: form.title,
  description: form.description ?? null,
  fromAddress: form.fromAddress ?? null,
  redirectUrl: form.redirectUrl ?? null,
  successMessage: form.successMessage ?? null,
  customFields: JSON.stringify(form.customFields ?? []),
  theme: JSON.stringify(form.theme ?? {}),
  messages: JSON.stringify(form.messages ?? {}),
})

/** Visitors' browsers follow this URL, so it must not contain a script or a password. */
function requireRedirectUrl(text: string | null | undefined): void {
  if (text === null || text === undefined) return
  // The parser would silently drop these characters, and the URL would not be the one that the account meant.
  const url = /[\0-\x1f\x7f]/.test(text) ? null : URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw invalid('redirect_url', 'redirect_url must be an http or https URL without credentials.')
}

/** The sender in its stored form; null: the default, which is determined when an email is sent. */
function resolveSender(db: Database, list: ContactList, text: string | null): string | null {
  if (text === null) {
    if (list.doubleOptIn && findNoReplySender(db, list.accountId) === undefined)
      throw invalid(
        'from_address',
        'The list has double opt-in, and the account has no verified domain to send confirmations from; verify a domain first.',
        'no_verified_domain',
      )
    return null
  }
  return parseSender(db, list.accountId, 'from_address', text)
}
