/**
 * @module Creates, changes, reads and deletes sequences: emails that each person gets one after the other. The ids of
 * steps grow in their order, and a person's place is the id of the step sent last. So a removed step leaves its people
 * before the next one, and a step that is added before their place is not sent to them.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { scheduleNotice } from '#features/core/notices/notices.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { requireRegisteredDomain } from '#features/sending/accept/sendable.ts'
import { requireAllowedDomain } from '#features/setup/api-keys/limits.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { getList } from '#features/setup/contact-store/lists.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { hasTemplate } from '#features/setup/templates/templates.ts'
import type { Tx } from '#platform/db/commit.ts'
import { insertSql, prepareStatements, setSql } from '#platform/db/open.ts'
import { newestFirst, type RowWindow } from '#platform/db/row-window.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { parseName } from '#platform/http/validation.ts'
import { toWire } from '#platform/http/wire.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { type SequenceInput, SequenceRecord, type Settings } from './model.ts'
import type { sequences } from './tables.ts'

export type Step = Settings['steps'][number] & { readonly id: number }

/** What a sequence is, as it is stored. */
export interface Definition extends Readonly<Omit<Settings, 'steps'>> {
  readonly stream: string
  readonly steps: readonly Step[]
  /** The highest id that a step had. */
  readonly lastId: number
}

type Row = Readonly<typeof sequences.$inferSelect>
export type Sequence = Omit<Row, 'definition'> & { readonly definition: Definition }

const MAX_SEQUENCES = 100
const MAX_DELAY_MS = days(365)
/** The notice that has the people of a sequence follow a change, in batches. */
export const CHANGE_KIND = 'sequence_change'

const SELECT = `SELECT id, uuid, account_id AS accountId, list_id AS listId, definition, created_at AS createdAt,
  updated_at AS updatedAt FROM sequences`

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Row, [number, Uint8Array]>(`${SELECT} WHERE account_id = ? AND uuid = ?`),
  list: newestFirst<Row, [number]>(db, SELECT, 'sequences WHERE account_id = ?'),
  ofList: db.prepare<Row, [number]>(`${SELECT} WHERE list_id = ?`),
  byId: db.prepare<Row, [number]>(`${SELECT} WHERE id = ?`),
  insert: db.prepare(insertSql('sequences', 'uuid accountId listId definition createdAt updatedAt')),
  update: db.prepare(`UPDATE sequences SET ${setSql('listId definition updatedAt')} WHERE id = $id`),
  delete: db.prepare('DELETE FROM sequences WHERE id = ?'),
}))

const toSequence = (row: Row): Sequence => ({ ...row, definition: JSON.parse(row.definition) as Definition })

/** The account's sequence; throws 404. */
export function getSequence(db: Database, accountId: number, id: string): Sequence {
  const row = sql(db).byUuid.get(accountId, parseUuidParam(id, 'sequence_not_found', 'sequence'))
  if (!row) throw notFoundById('sequence_not_found', 'sequence')
  return toSequence(row)
}

const ALL: RowWindow = { limit: MAX_SEQUENCES, offset: 0 }

/** A page of the account's sequences, or all; newest first. */
export function listSequences(db: Database, accountId: number, page = ALL) {
  const { rows, total } = sql(db).list(page, accountId)
  return { rows: rows.map(toSequence), total }
}

/** Those that the contacts of a list enter. */
export const listOfList = (db: Database, listId: number): Sequence[] => sql(db).ofList.all(listId).map(toSequence)

export function findSequence(db: Database, rowId: number): Sequence | undefined {
  const row = sql(db).byId.get(rowId)
  return row ? toSequence(row) : undefined
}

/** The step after a place; 0 is before the first one. */
export const findNextStep = ({ definition }: Sequence, place: number): Step | undefined =>
  definition.steps.find(({ id }) => id > place)

const UNITS: Readonly<Record<string, (n: number) => number>> = { s: seconds, m: minutes, h: hours, d: days }

export const toDelayMs = ({ delay }: Pick<Step, 'delay'>): number =>
  UNITS[delay.at(-1) ?? '']?.(Number.parseInt(delay, 10)) ?? 0

export function toSequenceWire({ definition: { lastId, steps, ...settings }, ...row }: Sequence) {
  return toWire(SequenceRecord, row, { ...settings, steps: steps.map(({ id, ...step }) => step) })
}

const BLANK: Definition = {
  ...{ name: '', from: '', reply_to: null, stream: DEFAULT_STREAM, list_id: null, event: null, stop_event: null },
  ...{ status: 'draft', steps: [], lastId: 0 },
}

/** Throws the 404 or 422 of the first invalid field, 409 for too many. */
export const createSequence = (app: App, actor: Actor, input: SequenceInput): Promise<Sequence> =>
  app.commit.write((tx) => {
    const { accountId } = actor
    if (listSequences(tx.db, accountId).total >= MAX_SEQUENCES)
      throw conflict('too_many_sequences', `An account has at most ${MAX_SEQUENCES} sequences; delete one.`)
    const now = app.eventTime()
    const row = { uuid: newUuid(), accountId, createdAt: now, updatedAt: now }
    sql(tx.db).insert.run({ ...row, ...applyInput(app, tx.db, actor, BLANK, input) })
    auditChange(app, tx, actor, 'sequence.created', row.uuid)
    return getSequence(tx.db, accountId, formatUuid(row.uuid))
  })

/** Changes a sequence, also while people are in it. Throws what `createSequence` throws, and 422 without a field. */
export const changeSequence = (app: App, actor: Actor, id: string, input: SequenceInput): Promise<Sequence> =>
  app.commit.write((tx) => {
    const before = getSequence(tx.db, actor.accountId, id)
    if (Object.keys(input ?? {}).length === 0) throw invalid('body', 'Provide at least one field to change.')
    const after = applyInput(app, tx.db, actor, before.definition, input)
    sql(tx.db).update.run({ ...after, id: before.id, updatedAt: app.eventTime() })
    scheduleFollowing(app, tx, before)
    auditChange(app, tx, actor, 'sequence.updated', before.uuid, input.status && { status: input.status })
    return getSequence(tx.db, actor.accountId, id)
  })

/** Deletes a sequence; then its people. */
export const deleteSequence = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const before = getSequence(tx.db, actor.accountId, id)
    sql(tx.db).delete.run(before.id)
    scheduleFollowing(app, tx, before)
    auditChange(app, tx, actor, 'sequence.deleted', before.uuid, { name: before.definition.name })
  })

const scheduleFollowing = (app: App, tx: Tx, { id: topic, accountId }: Sequence): void =>
  scheduleNotice(app, tx, { accountId, kind: CHANGE_KIND, topic, dueAt: app.clock.now() })

/** What is stored of a changed sequence. */
function applyInput(app: App, db: Database, actor: Actor, before: Definition, { steps, ...changes }: SequenceInput) {
  const { accountId } = actor
  const given = { ...before, ...changes }
  const { event, status, from, reply_to } = given
  const stream = given.stream || DEFAULT_STREAM
  const draft = createDraft(app, { from, to: from, subject: '-', text_body: '-', reply_to })
  requireAllowedDomain(actor, draft.fromDomain)
  requireRegisteredDomain(db, accountId, 'from', draft.fromDomain)
  const list = given.list_id ? getList(db, accountId, given.list_id) : undefined
  if ((list === undefined) === (event === null))
    throw invalid('event', 'Set either list_id or event, and the other to null.')
  if (findStreamId(db, accountId, stream) === undefined)
    throw invalid('stream', `There is no stream "${stream.slice(0, 100)}".`, 'stream_not_found')
  const after: Definition = {
    ...given,
    ...{ name: parseName(given.name).toWellFormed(), from: draft.from, reply_to: draft.extra.reply_to ?? null, stream },
    list_id: list ? formatUuid(list.uuid) : null,
    ...(steps && parseSteps(db, accountId, steps, before)),
  }
  if (status === 'active') requireScope(actor, 'emails:send', 'for the emails of an active sequence')
  if (status === 'active' && after.steps.length === 0)
    throw invalid('steps', 'A sequence needs a step before it is activated.')
  return { listId: list?.id ?? null, definition: JSON.stringify(after) }
}

/**
 * A step keeps its id as long as its template is in the sequence. New ones get ids between those around them; behind the
 * last one, an id that nobody's place has.
 */
function parseSteps(
  db: Database,
  accountId: number,
  inputs: Settings['steps'],
  before: Definition,
): Pick<Definition, 'steps' | 'lastId'> {
  const steps: Step[] = []
  let { lastId } = before
  const known = new Map(before.steps.map(({ template_alias, id }) => [template_alias, id]))
  for (const [index, input] of inputs.entries()) {
    const { template_alias: alias } = input
    const field = `steps.${index}`
    if (!hasTemplate(db, accountId, alias)) {
      const hint = `There is no template with the alias "${alias.slice(0, 100)}"; GET /v1/templates lists them.`
      throw invalid(`${field}.template_alias`, hint, 'template_not_found')
    }
    if (toDelayMs(input) > MAX_DELAY_MS) throw invalid(`${field}.delay`, 'delay must be at most 365 days.')
    const last = steps.at(-1)?.id ?? 0
    const next = inputs.slice(index).find((later) => known.has(later.template_alias))
    const nextId = next && (known.get(next.template_alias) ?? 0)
    const id = known.get(alias) ?? (nextId === undefined ? ++lastId : (last + nextId) / 2)
    if (id <= last || steps.some((step) => step.template_alias === alias))
      throw invalid(field, 'Each template can be in a sequence once, and those that stay must keep their order.')
    steps.push({ ...input, id })
  }
  return { steps, lastId }
}
