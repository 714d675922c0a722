/**
 * @module Writes the audit log: each change has an entry in its transaction, chained to the entry before. Only this
 * folder writes `audit_logs`. Entries never change, except that `erase.ts` erases personal fields and
 * deletes old entries. What operators look at is audited too: a view is refreshed every few seconds, so the same view of
 * a session once per VIEW_INTERVAL_MS; its entries belong to no account, as the views concern the whole installation.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { insertSql, prepareStatements, type Tx, toSnakeCase } from '#platform/db/open.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { type Millis, minutes } from '#platform/units.ts'
import { computeDigest, computeHash, createSalt, findNextInChain, setChainHead } from './chain.ts'
import type { auditLogs } from './tables.ts'

export interface AuditEntry {
  /** `resource.verb` in the past tense: `domain.created`. */
  readonly action: string
  readonly resourceType?: string
  /** Public id of the changed resource. */
  readonly resourceId?: string
  readonly metadata?: Readonly<Record<string, unknown>>
}

const sql = prepareStatements((db) => ({
  insert: db.prepare<unknown, [typeof auditLogs.$inferSelect]>(
    insertSql(
      'audit_logs',
      'id uuid accountId actorType actorId action resourceType resourceId ipAddress metadata createdAt salt digest hash',
    ),
  ),
}))

/** The actor for automatic changes by the service. */
export const createSystemActor = (account: { readonly accountId: number; readonly accountUuid: UuidBytes }): Actor => ({
  accountId: account.accountId,
  accountUuid: formatUuid(account.accountUuid),
  type: 'system',
  id: 'system',
  scopes: new Set(),
})

/** The actor of an entry. An entry without an account concerns the whole installation. */
export type AuditActor = Actor | (Pick<Actor, 'type' | 'id' | 'ipAddress'> & { readonly accountId: null })

/** The operator who uses commands, for entries that concern the whole installation. */
export const CLI_OPERATOR: AuditActor = { accountId: null, type: 'operator', id: 'cli' }

/** The service itself, for entries that concern the whole installation. */
export const SYSTEM_ACTOR: AuditActor = { accountId: null, type: 'system', id: 'system' }

/** Writes an entry; call it in the transaction of the change. */
export function audit(app: Pick<App, 'eventTime'>, tx: Pick<Tx, 'db'>, actor: AuditActor, entry: AuditEntry): void {
  const { id, before, notBefore } = findNextInChain(tx.db)
  // The database would return lone surrogates as other characters, and the hash would not match.
  const personal = {
    actorId: actor.id.toWellFormed(),
    ipAddress: actor.ipAddress?.toWellFormed() ?? null,
    resourceId: entry.resourceId?.toWellFormed() ?? null,
    metadata: entry.metadata ? JSON.stringify(entry.metadata) : null,
  }
  const lasting = {
    id,
    uuid: newUuid(),
    accountId: actor.accountId,
    actorType: actor.type,
    action: entry.action,
    resourceType: entry.resourceType ?? null,
    createdAt: Math.max(app.eventTime(), notBefore),
  }
  const salt = createSalt()
  const digest = computeDigest(salt, personal)
  const hash = computeHash(before, lasting, digest)
  sql(tx.db).insert.run({ ...lasting, ...personal, salt, digest, hash })
  setChainHead(tx.db, id, hash)
}

/**
 * Writes the entry of a change to a resource.
 * @param action `resource.verb`
 * @param id public id of the resource
 * @param resourceType if it is not what the action names
 */
export const auditChange = (
  app: Pick<App, 'eventTime'>,
  tx: Pick<Tx, 'db'>,
  actor: AuditActor,
  action: string,
  id: string | UuidBytes,
  metadata?: AuditEntry['metadata'],
  resourceType = action.slice(0, action.indexOf('.')),
): void =>
  audit(app, tx, actor, {
    action,
    resourceType,
    resourceId: typeof id === 'string' ? id : formatUuid(id),
    ...(metadata && { metadata }),
  })

export interface FieldChange {
  readonly field: string
  readonly from: unknown
  readonly to: unknown
}

/** Longer texts are cut: the entry says what was changed, it is no copy. */
const MAX_TEXT_LENGTH = 500

const shorten = (value: unknown): unknown =>
  typeof value === 'string' && value.length > MAX_TEXT_LENGTH ? `${value.slice(0, MAX_TEXT_LENGTH)}…` : (value ?? null)

/**
 * Metadata that tells the difference: the fields that have another value now. Undefined fields did not change.
 * @param after only what readers of the log may know: never a secret
 */
export const describeChanges = (
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): { readonly changes: readonly FieldChange[] } => ({
  changes: Object.entries(after).flatMap(([field, to]) =>
    to === undefined || Bun.deepEquals(before[field] ?? null, to)
      ? []
      : [{ field: toSnakeCase(field), from: shorten(before[field]), to: shorten(to) }],
  ),
})

const VIEW_INTERVAL_MS = minutes(15)
/** Of the views remembered, the oldest are forgotten first; they are then audited again. */
const MAX_VIEWS = 10_000

export interface View {
  /** What was seen: `queue`, `account` and so on. */
  readonly name: string
  /** Public id of the one resource that was seen. */
  readonly id?: string
}

/** The operator in entries without an account. */
export const toServiceActor = ({ type, id, ipAddress }: Actor): AuditActor => ({ accountId: null, type, id, ipAddress })

/** Times of the last entries of a service, by session and view, oldest first; forgotten at a restart. */
const getAudited = perOwner((_: App) => new Map<string, Millis>())

/** Resolves once the entry of a view, if it needs one, is stored. */
export async function recordView(app: App, actor: Actor, { name, id }: View): Promise<void> {
  // Who uses commands has the files of the service anyway.
  if (actor.type === 'operator') return
  const audited = getAudited(app)
  const key = `${actor.id} ${actor.sessionId} ${name} ${id ?? ''}`
  const now = app.clock.monotonicMs()
  if (now - (audited.get(key) ?? Number.NEGATIVE_INFINITY) < VIEW_INTERVAL_MS) return
  await app.commit.writeFromReserve((tx) =>
    audit(app, tx, toServiceActor(actor), {
      action: 'operator.viewed',
      resourceType: name,
      ...(id !== undefined && { resourceId: id }),
    }),
  )
  audited.delete(key)
  audited.set(key, now)
  for (const [oldest] of audited) {
    if (audited.size <= MAX_VIEWS) break
    audited.delete(oldest)
  }
}

/** The handler of a route that shows operators what `read` returns, without parameters. */
export const showView =
  <T>(app: App, name: string, read: () => T) =>
  async ({ actor }: { readonly actor: Actor }) => {
    await recordView(app, actor, { name })
    return dataBody(await read())
  }
