/**
 * @module The saved versions of templates: recorded with each change of subject or bodies, listed, read and restored.
 * The only writer of `template_versions`.
 */
import type { Database } from 'bun:sqlite'
import type { Actor } from '#features/core/app/app.ts'
import { prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { MiB, type Millis } from '#platform/units.ts'
import type { templateVersions } from './tables.ts'

export type TemplateVersion = Readonly<Omit<typeof templateVersions.$inferSelect, 'templateId'>>
export type ListedVersion = Omit<TemplateVersion, 'htmlBody' | 'textBody'>
type TemplateTexts = Pick<TemplateVersion, 'version' | 'subject' | 'htmlBody' | 'textBody'>

/** Versions stored of a template, the current one included. */
export const MAX_VERSIONS = 50
/** Their texts together; the two newest are always stored. */
export const MAX_VERSIONS_BYTES = 4 * MiB
const MIN_VERSIONS = 2

const SIZE = 'octet_length(subject) + coalesce(octet_length(html_body), 0) + coalesce(octet_length(text_body), 0)'
const SAVED = 'actor_type AS actorType, actor_id AS actorId, created_at AS createdAt'

const sql = prepareStatements((db) => ({
  insert: db.prepare(
    `INSERT INTO template_versions (template_id, version, subject, html_body, text_body, actor_type, actor_id, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  ),
  page: db.prepare<ListedVersion, [number, number, number]>(
    `SELECT version, subject, ${SAVED} FROM template_versions WHERE template_id = ? ORDER BY version DESC LIMIT ? OFFSET ?`,
  ),
  count: db.prepare<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM template_versions WHERE template_id = ?'),
  one: db.prepare<TemplateVersion, [number, number]>(
    `SELECT version, subject, html_body AS htmlBody, text_body AS textBody, ${SAVED} FROM template_versions
     WHERE template_id = ? AND version = ?`,
  ),
  // Does not read the bodies themselves.
  sizes: db.prepare<{ version: number; sizeBytes: number }, [number]>(
    `SELECT version, ${SIZE} AS sizeBytes FROM template_versions WHERE template_id = ? ORDER BY version DESC`,
  ),
  deleteUpTo: db.prepare('DELETE FROM template_versions WHERE template_id = ? AND version <= ?'),
  deleteAll: db.prepare('DELETE FROM template_versions WHERE template_id = ?'),
}))

/** Records a version that `actor` saved, and deletes versions beyond the limits. */
export function recordVersion(
  tx: Tx,
  templateId: number,
  { version, subject, htmlBody, textBody }: TemplateTexts,
  actor: Pick<Actor, 'type' | 'id'>,
  at: Millis,
): void {
  sql(tx.db).insert.run(templateId, version, subject, htmlBody, textBody, actor.type, actor.id, at)
  let keptBytes = 0
  for (const [index, stored] of sql(tx.db).sizes.all(templateId).entries()) {
    keptBytes += stored.sizeBytes
    if (index < MIN_VERSIONS || (index < MAX_VERSIONS && keptBytes <= MAX_VERSIONS_BYTES)) continue
    sql(tx.db).deleteUpTo.run(templateId, stored.version)
    return
  }
}

export const deleteVersions = (tx: Tx, templateId: number): void => {
  sql(tx.db).deleteAll.run(templateId)
}

/** A page of the versions of a template, newest first. */
export const listVersions = (
  db: Database,
  templateId: number,
  page: Pick<RowWindow, 'limit' | 'offset'>,
): { versions: ListedVersion[]; total: number } => ({
  versions: sql(db).page.all(templateId, page.limit, page.offset),
  total: sql(db).count.get(templateId)?.n ?? 0,
})

/** A version of a template; throws 404. */
export function getVersion(db: Database, templateId: number, version: number): TemplateVersion {
  const found = sql(db).one.get(templateId, version)
  if (!found)
    throw notFound(
      'template_version_not_found',
      `This version is not stored: of a template the newest ${MAX_VERSIONS} versions are, at most ${MAX_VERSIONS_BYTES / MiB} MiB of them.`,
    )
  return found
}
