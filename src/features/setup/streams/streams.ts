/**
 * @module Creates, reads, changes and deletes message streams, which separate the reputations of an account. The only
 * writer of `streams`. A deleted stream keeps its row, because emails refer to it; its slug is free again.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange, describeChanges } from '#features/core/audit-logs/audit.ts'
import { codesOf, newestFirst, prepareStatements, type RowWindow, setSql, type Tx } from '#platform/db/open.ts'
import { conflict, invalid, notFound } from '#platform/errors.ts'
import { parseName } from '#platform/http/validation.ts'
import { formatUuid, newUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import type { streams } from './tables.ts'

/** Which mail of an account goes first. The position is the stored code. */
export const STREAM_PRIORITIES = ['normal', 'high', 'low'] as const
export type StreamPriority = (typeof STREAM_PRIORITIES)[number]

export const { codeOf: toPriorityCode, nameOf: toPriorityName } = codesOf('stream priority', STREAM_PRIORITIES)

/** `priority` is its code. */
export type Stream = Readonly<Omit<typeof streams.$inferSelect, 'accountId' | 'pool' | 'deletedAt'>>

interface FoundStream extends Pick<Stream, 'id' | 'expiresIn' | 'priority'> {
  /** The pool of outgoing addresses that an operator gave its mail; null: none. */
  readonly pool: string | null
}

const COLUMNS =
  'id, uuid, slug, name, expires_in AS expiresIn, priority, created_at AS createdAt, updated_at AS updatedAt'

const sql = prepareStatements((db) => ({
  bySlug: db.prepare<FoundStream, [number, string]>(
    'SELECT id, expires_in AS expiresIn, priority, pool FROM streams WHERE account_id = ? AND slug = ? AND deleted_at IS NULL',
  ),
  byUuid: db.prepare<Stream, [Uint8Array, number]>(
    `SELECT ${COLUMNS} FROM streams WHERE uuid = ? AND account_id = ? AND deleted_at IS NULL`,
  ),
  list: newestFirst<Stream, [number]>(
    db,
    `SELECT ${COLUMNS} FROM streams`,
    'streams WHERE account_id = ? AND deleted_at IS NULL',
  ),
  insert: db.prepare(
    'INSERT INTO streams (uuid, account_id, slug, name, expires_in, priority, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  ),
  update: db.prepare(`UPDATE streams SET ${setSql('slug name expiresIn priority updatedAt')} WHERE id = $id`),
  delete: db.prepare('UPDATE streams SET deleted_at = ? WHERE id = ?'),
  pool: db.prepare<{ pool: string | null }, [number]>('SELECT pool FROM streams WHERE id = ?'),
  pools: db.prepare<{ stream: string; pool: string }, [number]>(
    'SELECT slug AS stream, pool FROM streams WHERE account_id = ? AND pool IS NOT NULL AND deleted_at IS NULL ORDER BY slug',
  ),
  setPool: db.prepare('UPDATE streams SET pool = ? WHERE id = ?'),
}))

export const DEFAULT_STREAM = 'transactional'

const SLUG = /^[a-z0-9][a-z0-9-]{0,62}$/

/** The stream with a slug; undefined when the account has none. */
export const findStream = (db: Database, accountId: number, slug: string): FoundStream | undefined =>
  sql(db).bySlug.get(accountId, slug) ?? undefined

/** Row id of the stream with a slug; undefined when the account has none. */
export const findStreamId = (db: Database, accountId: number, slug: string): number | undefined =>
  findStream(db, accountId, slug)?.id

/** Fields of a stream that a client sets. */
export interface StreamInput {
  readonly slug: string
  readonly name: string
  readonly expires_in?: number | null | undefined
  readonly priority?: StreamPriority | undefined
}

/** Inserts a stream whose slug is known to be free. */
export function insertStream(tx: Tx, accountId: number, stream: StreamInput, now: Millis): UuidBytes {
  const uuid = newUuid()
  const { slug, name, expires_in: expiresIn = null, priority = 'normal' } = stream
  sql(tx.db).insert.run(uuid, accountId, slug, name, expiresIn, toPriorityCode(priority), now, now)
  return uuid
}

/** The account's stream with this id; throws 404. */
export function getStream(db: Database, accountId: number, id: string): Stream {
  const uuid = parseUuid(id)
  const stream = uuid && sql(db).byUuid.get(uuid, accountId)
  if (!stream) throw notFound('stream_not_found', 'Stream not found.')
  return stream
}

/** A page of the account's streams, newest first. */
export function listStreams(db: Database, accountId: number, page: RowWindow) {
  const { rows: streams, total } = sql(db).list(page, accountId)
  return { streams, total }
}

/** Creates a stream. Throws 409 `stream_exists` when the account has one with this slug. */
export function createStream(app: App, actor: Actor, input: StreamInput): Promise<Stream> {
  const slug = validateSlug(input.slug)
  const name = parseName(input.name)
  return app.commit.write((tx) => {
    requireUnusedSlug(tx.db, actor.accountId, slug)
    const id = formatUuid(insertStream(tx, actor.accountId, { ...input, slug, name }, app.eventTime()))
    const { expires_in, priority } = input
    auditChange(app, tx, actor, 'stream.created', id, { slug, name, expires_in: expires_in ?? undefined, priority })
    return getStream(tx.db, actor.accountId, id)
  })
}

/**
 * Changes the provided fields. Throws 422 when none is provided. Throws 409 for a new slug of the stream
 * `transactional`, which sends use by default.
 */
export function changeStream(
  app: App,
  actor: Actor,
  id: string,
  change: { readonly [Field in keyof StreamInput]?: StreamInput[Field] | undefined },
): Promise<Stream> {
  const { expires_in: expiresIn, priority } = change
  if ([change.slug, change.name, expiresIn, priority].every((value) => value === undefined))
    throw invalid('body', 'At least one of slug, name, expires_in and priority must be set.')
  const slug = change.slug === undefined ? undefined : validateSlug(change.slug)
  const name = change.name === undefined ? undefined : parseName(change.name)
  return app.commit.write((tx) => {
    const stream = getStream(tx.db, actor.accountId, id)
    if (slug !== undefined && slug !== stream.slug) {
      requireNotDefault(stream, 'renamed')
      requireUnusedSlug(tx.db, actor.accountId, slug)
    }
    sql(tx.db).update.run({
      ...{ id: stream.id, slug: slug ?? stream.slug, name: name ?? stream.name, updatedAt: app.eventTime() },
      expiresIn: expiresIn === undefined ? stream.expiresIn : expiresIn,
      priority: priority === undefined ? stream.priority : toPriorityCode(priority),
    })
    const after = { slug, name, expires_in: expiresIn, priority }
    const before = { ...stream, expires_in: stream.expiresIn, priority: toPriorityName(stream.priority) }
    auditChange(app, tx, actor, 'stream.updated', stream.uuid, { ...after, ...describeChanges(before, after) })
    return getStream(tx.db, actor.accountId, id)
  })
}

/** Whether mail of an account in a stream is still waiting or being sent. Takes row ids. */
export type HasOpenMail = (db: Database, accountId: number, streamId: number) => boolean

/** Deletes a stream. Throws 409 for `transactional`, and while mail of the stream is not final. */
export function deleteStream(app: App, actor: Actor, id: string, hasOpenMail: HasOpenMail): Promise<void> {
  return app.commit.writeFromReserve((tx) => {
    const stream = getStream(tx.db, actor.accountId, id)
    requireNotDefault(stream, 'deleted')
    if (hasOpenMail(tx.db, actor.accountId, stream.id)) {
      throw conflict(
        'stream_in_use',
        `Mail of the stream "${stream.slug}" is still queued or scheduled; wait until it is sent, or cancel it.`,
      )
    }
    sql(tx.db).delete.run(app.eventTime(), stream.id)
    auditChange(app, tx, actor, 'stream.deleted', stream.uuid, { slug: stream.slug })
  })
}

/** The pool of outgoing addresses of a stream; undefined: none. Takes its row id. */
export const findStreamPool = (db: Database, streamId: number): string | undefined =>
  sql(db).pool.get(streamId)?.pool ?? undefined

/** The streams of an account that have a pool of outgoing addresses, by slug. */
export const listStreamPools = (db: Database, accountId: number): { stream: string; pool: string }[] =>
  sql(db).pools.all(accountId)

/** Sets the pool of outgoing addresses of a stream, for mail that is accepted from now on; null: none. */
export function setStreamPool(tx: Tx, streamId: number, pool: string | null): void {
  sql(tx.db).setPool.run(pool, streamId)
}

function requireUnusedSlug(db: Database, accountId: number, slug: string): void {
  if (findStreamId(db, accountId, slug) !== undefined)
    throw conflict('stream_exists', `This account already has a stream "${slug}".`)
}

function requireNotDefault(stream: Stream, verb: 'renamed' | 'deleted'): void {
  if (stream.slug === DEFAULT_STREAM)
    throw conflict(
      'stream_protected',
      `The stream "${DEFAULT_STREAM}" is the default of every send and cannot be ${verb}.`,
    )
}

function validateSlug(slug: string): string {
  if (!SLUG.test(slug))
    throw invalid(
      'slug',
      'The slug must have 1 to 63 characters of a to z, 0 to 9 and "-", and begin with a letter or digit.',
    )
  return slug
}
