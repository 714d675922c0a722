/**
 * @module Names what entries of the audit log refer to: users, keys and resources, by their tables; what was deleted,
 * by the last name in the log. What an entry itself holds is for all who read the log, a present name for those who may
 * read the resource.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { findNameInLog } from '#features/core/audit-logs/read.ts'
import type { FindAuditNames } from '#features/core/audit-logs/routes.ts'
import { hasScope, type Scope } from '#features/setup/api-keys/scopes.ts'
import { parseUuid } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'

interface Named {
  readonly table: string
  /** The column, or the expression, that names a row. */
  readonly name: string
  /** Who may read the present name; undefined: whoever may read the log. */
  readonly scope?: Scope
}

/** The kinds of resource that are found by an index, so not contacts; those of `DELETED_LATER` stay for a while. */
const TABLES: Readonly<Record<string, Named>> = {
  api_key: { table: 'api_keys', name: 'name' },
  contact_list: { table: 'contact_lists', name: 'name', scope: 'contacts:read' },
  domain: { table: 'domains', name: 'domain', scope: 'domains:read' },
  email: { table: 'emails', name: 'subject', scope: 'emails:read' },
  invitation: { table: 'invitations', name: 'email' },
  newsletter: { table: 'newsletters', name: 'subject', scope: 'contacts:read' },
  sequence: { table: 'sequences', name: "definition ->> '$.name'", scope: 'contacts:read' },
  signup_form: { table: 'signup_forms', name: 'title', scope: 'contacts:read' },
  stream: { table: 'streams', name: 'name', scope: 'emails:read' },
  template: { table: 'templates', name: 'name', scope: 'templates:read' },
  webhook: { table: 'webhooks', name: "coalesce(nullif(description, ''), url)", scope: 'webhooks:read' },
}
const DELETED_LATER: ReadonlySet<string> = new Set(['contact_lists', 'domains', 'streams', 'templates', 'webhooks'])

type Statement = ReturnType<Database['prepare']>

const statementsOf = perOwner((_: Database) => new Map<string, Statement>())

function findRow(db: Database, text: string, ...values: readonly (Uint8Array | number)[]): string | undefined {
  const statements = statementsOf(db)
  const statement = statements.get(text) ?? db.prepare(text)
  statements.set(text, statement)
  return (statement.get(...values) as { readonly name: string } | null)?.name
}

const findUser = (db: Database, id: Uint8Array): string | undefined =>
  findRow(db, "SELECT iif(coalesce(name, '') = '', email, name) AS name FROM users WHERE uuid = ?", id)

const findAccount = (db: Database, id: Uint8Array, accountId: number): string | undefined =>
  findRow(db, 'SELECT name FROM accounts WHERE uuid = ? AND deleted_at IS NULL AND ? IN (id, parent_id)', id, accountId)

const findKind = (type: string): Named | undefined => (Object.hasOwn(TABLES, type) ? TABLES[type] : undefined)

const findScope = (type: string): Scope | undefined =>
  type === 'sub_account' ? 'sub_accounts:manage' : findKind(type)?.scope

/** The name of a resource that exists; undefined: it does not; null: its kind has no row of its own. */
function findResource(db: Database, accountId: number, type: string | null, id: string): string | null | undefined {
  const uuid = parseUuid(id)
  if (type === null || !uuid) return null
  if (type === 'user') return findUser(db, uuid)
  if (type === 'account' || type === 'sub_account') return findAccount(db, uuid, accountId)
  const { table, name } = findKind(type) ?? {}
  if (table === undefined) return null
  const isThere = DELETED_LATER.has(table) ? ' AND deleted_at IS NULL' : ''
  return findRow(
    db,
    `SELECT ${name} AS name FROM ${table} WHERE uuid = ? AND account_id = ?${isThere}`,
    uuid,
    accountId,
  )
}

export const createAuditNames =
  ({ db }: Pick<App, 'db'>): FindAuditNames =>
  ({ accountId, scopes }) => {
    const named = new Map<string, string | null>()
    /** Keys and names are looked up once for a page. */
    const findOnce = (id: string, find: () => string | null): string | null => {
      const known = named.get(id)
      if (known !== undefined) return known
      const name = find()
      named.set(id, name)
      return name
    }
    const nameActor = (type: string, id: string): string | null => {
      if (type === 'system') return 'Tassis'
      if (type === 'operator') return 'Operator'
      const uuid = parseUuid(id)
      if (!uuid) return null
      const found = type === 'user' ? findUser(db, uuid) : findResource(db, accountId, 'api_key', id)
      return found ?? findNameInLog(db, accountId, id) ?? null
    }
    return ({ actorType, actorId, resourceType, resourceId }) => {
      const actor_name = findOnce(`${actorType} ${actorId}`, () => nameActor(actorType, actorId))
      if (resourceId === null) return { actor_name, resource_name: null, resource_exists: null }
      const found = findResource(db, accountId, resourceType, resourceId)
      const scope = findScope(resourceType ?? '')
      const present = scope === undefined || hasScope(scopes, scope) ? found : undefined
      const logged = () => findNameInLog(db, accountId, resourceId) ?? (resourceId.includes('@') ? resourceId : null)
      return {
        actor_name,
        resource_name: present ?? findOnce(`resource ${resourceId}`, logged),
        resource_exists: found === null ? null : found !== undefined,
      }
    }
  }
