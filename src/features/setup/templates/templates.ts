/**
 * @module Creates, changes, finds and deletes templates. The only writer of `templates`. A deleted template keeps its
 * row without bodies, because emails refer to it; its alias is free again. `render.ts` renders templates.
 */
import type { Database } from 'bun:sqlite'
import { prepareCount, requirePlanCapacity, storeWithinPlan } from '#features/core/accounts/limits.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange, describeChanges } from '#features/core/audit-logs/audit.ts'
import { insertSql, newestFirst, prepareStatements, type RowWindow, setSql } from '#platform/db/open.ts'
import { AppError, conflict, invalid } from '#platform/errors.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { parseName } from '#platform/http/validation.ts'
import { formatUuid, newUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { TemplateSource } from '#platform/template/renderer.ts'
import { KiB, MiB } from '#platform/units.ts'
import { listFallbacks, parseLocale } from './locale.ts'
import { requireValidSource } from './render.ts'
import type { templates } from './tables.ts'
import { deleteVersions, getVersion, recordVersion } from './versions.ts'

export type Template = Readonly<Omit<typeof templates.$inferSelect, 'deletedAt'>>

export type TemplateName = Pick<Template, 'alias' | 'locale'>

/** A template as listed: without long bodies. */
export interface ListedTemplate extends Omit<Template, 'testData'> {
  /** 1: a long body is omitted. */
  readonly isTruncated: number
}

export interface TemplateInput extends Pick<Template, 'alias' | 'name' | 'subject' | 'htmlBody' | 'textBody'> {
  readonly testData?: string | null
  readonly locale?: string | null
}

/** An undefined field keeps its current value. */
export type TemplateChange = { readonly [Field in keyof TemplateInput]?: TemplateInput[Field] | undefined }

export interface ChangeOptions {
  /** Version that the change is based on; undefined: any. */
  readonly ifVersion?: number | undefined
  /** Former version whose texts the change has. */
  readonly restoredVersion?: number
}

/** Templates per account. */
export const MAX_TEMPLATES = 10_000
export const MAX_ALIAS_LENGTH = 100
const MAX_NAMED_LOCALES = 20
export const MAX_SUBJECT_LENGTH = 998
export const MAX_BODY_BYTES = 1 * MiB
export const MAX_TEST_DATA_BYTES = 64 * KiB
/** Larger bodies are omitted from lists, because a page has up to a hundred templates. */
export const MAX_LISTED_BYTES = 64 * KiB

const ALIAS = /^[A-Za-z0-9._-]{1,100}$/

const COLUMNS =
  'id, uuid, account_id AS accountId, alias, locale, name, subject, foreign_id AS foreignId, version, created_at AS createdAt, updated_at AS updatedAt'
const BODIES = 'html_body AS htmlBody, text_body AS textBody, test_data AS testData'
const isLongSql = (column: string): string => `coalesce(octet_length(${column}), 0) > ${MAX_LISTED_BYTES}`
const LISTED_BODIES = `CASE WHEN ${isLongSql('html_body')} THEN NULL ELSE html_body END AS htmlBody,
  CASE WHEN ${isLongSql('text_body')} THEN NULL ELSE text_body END AS textBody, (${isLongSql('html_body')} OR ${isLongSql('text_body')}) AS isTruncated`

/** What a change may change. */
const CHANGEABLE = 'alias locale name subject htmlBody textBody testData version updatedAt'

/** ?2: text in lower case; empty: all. SQLite folds the letters A to Z only. ?3: whole alias; null: all. */
const MATCHES = "(?2 = '' OR instr(lower(alias), ?2) > 0 OR instr(lower(name), ?2) > 0) AND (?3 IS NULL OR alias = ?3)"

const sql = prepareStatements((db) => ({
  existing: prepareCount(db, 'templates INDEXED BY templates_alias WHERE account_id = ? AND deleted_at IS NULL'),
  byUuid: db.prepare<Template, [Uint8Array, number]>(
    `SELECT ${COLUMNS}, ${BODIES} FROM templates WHERE uuid = ? AND account_id = ? AND deleted_at IS NULL`,
  ),
  byAlias: db.prepare<Template, [number, string, string | null]>(
    `SELECT ${COLUMNS}, ${BODIES} FROM templates WHERE account_id = ? AND alias = ? AND locale IS ? AND deleted_at IS NULL`,
  ),
  locales: db.prepare<Pick<Template, 'locale'>, [number, string]>(
    `SELECT locale FROM templates WHERE account_id = ? AND alias = ? AND deleted_at IS NULL ORDER BY locale LIMIT ${MAX_TEMPLATES}`,
  ),
  renameLocales: db.prepare(
    'UPDATE templates SET alias = ?, updated_at = ? WHERE account_id = ? AND alias = ? AND deleted_at IS NULL',
  ),
  byId: db.prepare<Template, [number]>(
    `SELECT ${COLUMNS}, ${BODIES} FROM templates WHERE id = ? AND deleted_at IS NULL`,
  ),
  uuidOf: db.prepare<{ uuid: UuidBytes }, [number]>('SELECT uuid FROM templates WHERE id = ?'),
  byForeignId: db.prepare<TemplateName, [number, number]>(
    'SELECT alias, locale FROM templates WHERE account_id = ? AND foreign_id = ? AND deleted_at IS NULL',
  ),
  byRowId: db.prepare<TemplateName, [number, number]>(
    'SELECT alias, locale FROM templates WHERE account_id = ? AND id = ? AND deleted_at IS NULL',
  ),
  // Uses the index of existing rows, so that deleted rows are not scanned, however many there are. A search reads alias
  // and name of every template of the account: at most MAX_TEMPLATES. They precede the bodies in a row.
  list: newestFirst<ListedTemplate, [number, string, string | null]>(
    db,
    `SELECT ${COLUMNS}, ${LISTED_BODIES} FROM templates`,
    `templates INDEXED BY templates_alias WHERE account_id = ?1 AND deleted_at IS NULL AND ${MATCHES}`,
  ),
  insert: db.prepare(insertSql('templates', `uuid accountId foreignId createdAt ${CHANGEABLE}`)),
  update: db.prepare(`UPDATE templates SET ${setSql(CHANGEABLE)} WHERE id = $id`),
  delete: db.prepare(
    "UPDATE templates SET subject = '', html_body = NULL, text_body = NULL, test_data = NULL, updated_at = ?1, deleted_at = ?1 WHERE id = ?2",
  ),
}))

/** Whether the account has a template with this alias and exactly this locale. */
export const hasTemplate = (db: Database, accountId: number, alias: string, locale: string | null = null): boolean =>
  findTemplateByAlias(db, accountId, alias, locale) !== undefined

/** The template with this alias and exactly this locale. */
export const findTemplateByAlias = (
  db: Database,
  accountId: number,
  alias: string,
  locale: string | null = null,
): Template | undefined => sql(db).byAlias.get(accountId, alias, locale) ?? undefined

const listLocales = (db: Database, accountId: number, alias: string): (string | null)[] =>
  sql(db)
    .locales.all(accountId, alias)
    .map(({ locale }) => locale)

/**
 * The template with an alias in a language: that of the locale, else of a broader one, else the default one. Throws the
 * 422 `template_not_found`, which names the languages that there are.
 */
export function requireTemplate(db: Database, accountId: number, { alias, locale }: TemplateName): Template {
  for (const candidate of listFallbacks(locale)) {
    const found = findTemplateByAlias(db, accountId, alias, candidate)
    if (found) return found
  }
  const others = listLocales(db, accountId, alias)
  const shown = alias.slice(0, MAX_ALIAS_LENGTH)
  if (others.length === 0)
    throw invalid('template_alias', `There is no template with the alias "${shown}".`, 'template_not_found')
  const names = `${others.slice(0, MAX_NAMED_LOCALES).join(', ')}${others.length > MAX_NAMED_LOCALES ? ', …' : ''}`
  const wanted = locale === null ? 'without a locale' : `in ${locale} and has no default one`
  throw invalid(
    'locale',
    `The template "${shown}" does not exist ${wanted}; it exists in ${names}. Set one of these as locale, or make a template with this alias and no locale.`,
    'template_not_found',
  )
}

/** The number by which clients of another provider know a template. */
export const toTemplateNumber = ({ id, foreignId }: Pick<Template, 'id' | 'foreignId'>): number => foreignId ?? id

/** Name of the account's template with the number that `toTemplateNumber` returns; undefined when it has none. */
export function findTemplateByNumber(db: Database, accountId: number, number: number): TemplateName | undefined {
  if (!Number.isSafeInteger(number)) return undefined
  return sql(db).byForeignId.get(accountId, number) ?? sql(db).byRowId.get(accountId, number) ?? undefined
}

/** The account's template with a public id; undefined when it has none, or the text is not a UUID. */
export function findTemplateById(db: Database, accountId: number, id: string): Template | undefined {
  const uuid = parseUuid(id)
  return (uuid && sql(db).byUuid.get(uuid, accountId)) ?? undefined
}

/** The template with a row id; undefined when it was deleted. */
export const findTemplateByRowId = (db: Database, rowId: number): Template | undefined =>
  sql(db).byId.get(rowId) ?? undefined

/** Public id of the template with a row id, deleted ones included. */
export function findTemplateUuid(db: Database, rowId: number): string | undefined {
  const row = sql(db).uuidOf.get(rowId)
  return row ? formatUuid(row.uuid) : undefined
}

export function getTemplate(db: Database, accountId: number, id: string): Template {
  const template = findTemplateById(db, accountId, id)
  if (!template) throw notFoundById('template_not_found', 'template')
  return template
}

type Sources = Pick<TemplateChange, 'subject' | 'htmlBody' | 'textBody'>

/** The part of a template that the renderer needs. */
export const toTemplateSource = ({ subject, htmlBody, textBody }: Sources): TemplateSource => ({
  subject,
  html: htmlBody ?? undefined,
  text: textBody ?? undefined,
})

/**
 * A page of the account's templates, newest first.
 * @param search part of alias or name; empty: all templates
 * @param alias whole alias, whose languages are listed; null: all templates
 */
export const listTemplates = (
  db: Database,
  accountId: number,
  page: RowWindow,
  search = '',
  alias: string | null = null,
): { rows: ListedTemplate[]; total: number } =>
  sql(db).list(
    page,
    accountId,
    search.replace(/[A-Z]/g, (letter) => letter.toLowerCase()),
    alias,
  )

/**
 * Creates a template once all its parts are known to be renderable. Throws 422 `template_error` with a detail for each
 * part that is not, 409 `template_exists` when the account has one with this alias and locale, and 403 `plan_limit_reached`.
 * @param foreignId its number at the provider from which it is imported
 */
export async function createTemplate(
  app: App,
  actor: Actor,
  input: TemplateInput,
  foreignId: number | null = null,
): Promise<Template> {
  const provided = applyChange(input, validateChange(input))
  requireUnusedAlias(app.db, actor.accountId, provided)
  await requireValidSource(app, actor.accountId, toTemplateSource(provided))
  return app.commit.write((tx) => {
    requireUnusedAlias(tx.db, actor.accountId, provided)
    requireUnusedForeignId(tx.db, actor.accountId, foreignId)
    requirePlanCapacity(app, tx, actor.accountId, 'templates', sql(tx.db).existing)
    if (sql(tx.db).existing.get(actor.accountId, MAX_TEMPLATES)?.n === MAX_TEMPLATES)
      throw conflict(
        'too_many_templates',
        `An account has at most ${MAX_TEMPLATES} templates; delete one you no longer need.`,
      )
    const uuid = newUuid()
    const now = app.eventTime()
    const { alias, name, testData = null, locale = null } = provided
    const row = { uuid, accountId: actor.accountId, foreignId, version: 1, createdAt: now, updatedAt: now }
    storeWithinPlan(app, tx, actor.accountId, () => sql(tx.db).insert.run({ ...provided, testData, locale, ...row }))
    const id = formatUuid(uuid)
    auditChange(app, tx, actor, 'template.created', id, { alias, ...(locale && { locale }), name })
    const created = getTemplate(tx.db, actor.accountId, id)
    recordVersion(tx, created.id, created, actor, now)
    return created
  })
}

/**
 * Changes the provided fields, once all provided parts are known to be renderable. A change of subject or bodies
 * increments the version. Throws 422 when no field is provided, 409 `template_changed` when the template has another
 * version than `ifVersion`, and as `createTemplate` does.
 */
export async function changeTemplate(
  app: App,
  actor: Actor,
  id: string,
  change: TemplateChange,
  { ifVersion, restoredVersion }: ChangeOptions = {},
): Promise<Template> {
  if (Object.values(change).every((value) => value === undefined))
    throw invalid(
      'body',
      'At least one of alias, locale, name, subject, html_body, text_body and test_data must be set.',
    )
  const provided = validateChange(change)
  requireVersion(getTemplate(app.db, actor.accountId, id), ifVersion)
  await requireValidSource(app, actor.accountId, toTemplateSource(provided))
  return app.commit.write((tx) => {
    const before = getTemplate(tx.db, actor.accountId, id)
    requireVersion(before, ifVersion)
    const after = applyChange(before, provided)
    const followers = moveAlias(tx.db, before, after)
    const { alias, locale, name, subject, htmlBody, textBody } = after
    const isOther = subject !== before.subject || htmlBody !== before.htmlBody || textBody !== before.textBody
    const version = before.version + (isOther ? 1 : 0)
    const now = app.eventTime()
    if (followers) sql(tx.db).renameLocales.run(alias, now, actor.accountId, before.alias)
    storeWithinPlan(app, tx, actor.accountId, () => sql(tx.db).update.run({ ...after, version, updatedAt: now }))
    if (isOther) recordVersion(tx, before.id, { version, subject, htmlBody, textBody }, actor, now)
    const changes = describeChanges(before, { alias, locale, name, subject, version })
    const metadata = { alias, name, version, restored_version: restoredVersion, ...changes }
    auditChange(app, tx, actor, 'template.updated', before.uuid, metadata)
    return getTemplate(tx.db, actor.accountId, id)
  })
}

/** Gives a template the texts of a former version, as a new version. Throws 404, and as `changeTemplate` does. */
export function restoreVersion(
  app: App,
  actor: Actor,
  id: string,
  restoredVersion: number,
  ifVersion: number | undefined,
): Promise<Template> {
  const template = getTemplate(app.db, actor.accountId, id)
  const { subject, htmlBody, textBody } = getVersion(app.db, template.id, restoredVersion)
  return changeTemplate(app, actor, id, { subject, htmlBody, textBody }, { ifVersion, restoredVersion })
}

function requireVersion({ version }: Template, ifVersion: number | undefined): void {
  if (ifVersion === undefined || ifVersion === version) return
  throw new AppError(
    409,
    'template_changed',
    `The template has version ${version} now, your change is based on version ${ifVersion}; read the template, and send the change again with if_version ${version}.`,
    { facts: { version } },
  )
}

/** Deletes a template. Emails made from it still refer to it; sends that use it fail from now on. */
export const deleteTemplate = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const template = getTemplate(tx.db, actor.accountId, id)
    sql(tx.db).delete.run(app.eventTime(), template.id)
    deleteVersions(tx, template.id)
    auditChange(app, tx, actor, 'template.deleted', template.uuid, { alias: template.alias, name: template.name })
  })

/** Throws 409 when a new name is in use. Returns whether the other languages of a default template get its new alias. */
function moveAlias(db: Database, before: Template, after: TemplateName): boolean {
  if (after.alias === before.alias && after.locale === before.locale) return false
  const isDefault = before.locale === null && after.locale === null
  for (const locale of isDefault ? listLocales(db, before.accountId, before.alias) : [after.locale])
    requireUnusedAlias(db, before.accountId, { alias: after.alias, locale })
  return isDefault
}

function requireUnusedAlias(db: Database, accountId: number, { alias, locale = null }: Partial<TemplateName>): void {
  if (alias !== undefined && hasTemplate(db, accountId, alias, locale))
    throw conflict(
      'template_exists',
      `This account already has a template with the alias "${alias}"${locale === null ? '' : ` in ${locale}`}.`,
    )
}

function requireUnusedForeignId(db: Database, accountId: number, foreignId: number | null): void {
  const found = foreignId === null ? null : sql(db).byForeignId.get(accountId, foreignId)
  if (found)
    throw conflict(
      'template_exists',
      `The template ${foreignId} was imported before, as the template "${found.alias}".`,
    )
}

const applyChange = <T extends TemplateInput>(before: T, provided: TemplateChange): T => ({
  ...before,
  ...Object.fromEntries(Object.entries(provided).filter(([, value]) => value !== undefined)),
})

const validateChange = (change: TemplateChange): TemplateChange => ({
  alias: change.alias === undefined ? undefined : validateAlias(change.alias),
  locale: change.locale === undefined ? undefined : parseLocale(change.locale),
  name: change.name === undefined ? undefined : parseName(change.name),
  subject: change.subject === undefined ? undefined : validateSubject(change.subject),
  htmlBody: change.htmlBody === undefined ? undefined : validateBody('html_body', change.htmlBody),
  textBody: change.textBody === undefined ? undefined : validateBody('text_body', change.textBody),
  testData: change.testData == null ? change.testData : validateTestData(change.testData),
})

function validateAlias(alias: string): string {
  if (!ALIAS.test(alias))
    throw invalid(
      'alias',
      `The alias must have 1 to ${MAX_ALIAS_LENGTH} characters of A to Z, a to z, 0 to 9, ".", "_" and "-".`,
    )
  return alias
}

function validateSubject(subject: string): string {
  if (subject.trim() === '') throw invalid('subject', 'A template must have a subject; a send may override it.')
  if (subject.length > MAX_SUBJECT_LENGTH)
    throw invalid('subject', `The subject has ${subject.length} characters; at most ${MAX_SUBJECT_LENGTH} are allowed.`)
  return subject.toWellFormed()
}

function validateTestData(json: string): string {
  if (Buffer.byteLength(json) > MAX_TEST_DATA_BYTES)
    throw invalid('test_data', `test_data is larger than ${MAX_TEST_DATA_BYTES} bytes of JSON.`)
  return json
}

/** Clients send an empty body to mean none. */
export function validateBody(field: string, body: string | null): string | null {
  if (body === null || body === '') return null
  const sizeBytes = Buffer.byteLength(body)
  if (sizeBytes > MAX_BODY_BYTES)
    throw invalid(field, `${field} has ${sizeBytes} bytes; at most ${MAX_BODY_BYTES} are allowed.`)
  return body.toWellFormed()
}
