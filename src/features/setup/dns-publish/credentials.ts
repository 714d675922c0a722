/**
 * @module What was last published for a domain, and the credentials that its owner lets us keep: sealed, used for that
 * domain alone, never returned. Only this file writes `dns_credentials`.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import type { SealedColumns } from '#platform/crypto/sealed-columns.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { auditDomain, type Domain } from '../domains/domains.ts'
import type { dnsCredentials } from './tables.ts'

type Stored = Readonly<typeof dnsCredentials.$inferSelect>
export type Publication = Omit<Stored, 'allowsPrivate'> & { readonly allowsPrivate: number }
export type Credentials = Readonly<Record<string, string>>

const COLUMNS = `domain_id AS domainId, provider, zone, fields, allows_private AS allowsPrivate, kept_at AS keptAt, published_at AS publishedAt,
  error, records_hash AS recordsHash, next_attempt_at AS nextAttemptAt FROM dns_credentials`

const sql = prepareStatements((db) => ({
  find: db.prepare<Publication, [number]>(`SELECT ${COLUMNS} WHERE domain_id = ?`),
  after: db.prepare<Publication, [number, Millis, number]>(
    `SELECT ${COLUMNS} WHERE domain_id > ? AND (fields IS NOT NULL OR published_at > ?) ORDER BY domain_id LIMIT ?`,
  ),
  put: db.prepare(
    `INSERT OR REPLACE INTO dns_credentials (domain_id, provider, zone, fields, allows_private, kept_at, published_at, error, records_hash, next_attempt_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ),
  remove: db.prepare('DELETE FROM dns_credentials WHERE domain_id = ?'),
}))

const toContext = (uuid: Uint8Array): string => `dns:${formatUuid(uuid)}`

export const SEALED_COLUMNS: readonly SealedColumns[] = [
  {
    table: 'dns_credentials',
    id: 'domain_id',
    owner: '(SELECT uuid FROM domains WHERE domains.id = domain_id)',
    columns: { fields: toContext },
  },
]

export const findPublication = (db: Database, { id }: Pick<Domain, 'id'>): Publication | undefined =>
  sql(db).find.get(id) ?? undefined

/** Those with kept credentials, and those that were published after a time, in order of the domain's row id. */
export const listPublications = (db: Database, after: number, since: Millis, limit: number): Publication[] =>
  sql(db).after.all(after, since, limit)

export const putPublication = (tx: Tx, row: Publication): void =>
  void sql(tx.db).put.run(
    ...[row.domainId, row.provider, row.zone, row.fields, row.allowsPrivate, row.keptAt, row.publishedAt],
    ...[row.error, row.recordsHash, row.nextAttemptAt],
  )

export const sealFields = ({ keys }: App, { uuid }: Domain, fields: Credentials): Uint8Array =>
  keys.seal(JSON.stringify(fields), toContext(uuid))

export const openFields = ({ keys }: App, { uuid }: Domain, { fields }: Publication): Credentials | undefined =>
  fields === null ? undefined : (JSON.parse(keys.unsealText(fields, toContext(uuid))) as Credentials)

export const removePublication = (tx: Tx, domainId: number): void => void sql(tx.db).remove.run(domainId)

/** Deletes the credentials of a domain, and what was published with them. */
export function forgetCredentials(app: App, tx: Tx, actor: Actor, domain: Domain): void {
  const known = findPublication(tx.db, domain)
  if (known?.fields) auditDomain(app, tx, actor, 'dns_credentials_deleted', domain, { provider: known.provider })
  removePublication(tx, domain.id)
}
