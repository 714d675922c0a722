/**
 * @module Creates, changes, reads and deletes sequences: emails that each person gets one after the other. The ids of
 * steps grow in their order, and a person's place is the id of the step sent last. So a removed step leaves its people
 * before the next one, and a step that is added before their place is not sent to them.
 */
import type { Database } from 'bun:sqlite'
import type { Static } from '@sinclair/typebox'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { scheduleNotice } from '#features/core/notices/notices.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { requireRegisteredDomain } from '#features/sending/accept/sendable.ts'
import { requireAllowedDomain } from '#features/setup/api-keys/limits.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { getList } from '#features/setup/contact-store/lists.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { findTemplateByAlias, findTemplateById } from '#features/setup/templates/templates.ts'
import type { Tx } from '#platform/db/commit.ts'
import { insertSql, prepareStatements } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { parseName } from '#platform/http/validation.ts'
import { toWire } from '#platform/http/wire.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { type Definition, type SequenceInput, SequenceRecord } from './model.ts'
import type { sequences } from './tables.ts'

type Row = Readonly<typeof sequences.$inferSelect>
type Status = Static<typeof SequenceRecord>['status'] | 'deleted'
export type Sequence = Omit<Row, 'definition' | 'status'> & Definition & { readonly status: Status }
export type Step = Definition['steps'][number]

const MAX_SEQUENCES = 100
const MAX_DELAY_SECONDS = 365 * 86_400
/** The notice that has the people of a sequence follow a change, in batches. */
export const CHANGE_KIND = 'sequence_change'

const SELECT = `SELECT id, uuid, account_id AS accountId, status, list_id AS listId, definition, created_at AS createdAt,
  updated_at AS updatedAt FROM sequences WHERE`

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Row, [number, Uint8Array]>(`${SELECT} status <> 'deleted' AND account_id = ? AND uuid = ?`),
  ofAccount: db.prepare<Row, [number]>(`${SELECT} status <> 'deleted' AND account_id = ? ORDER BY id DESC`),
  ofList: db.prepare<Row, [number]>(`${SELECT} status IN ('active', 'paused') AND list_id = ?`),
  byId: db.prepare<Row, [number]>(`${SELECT} id = ?`),
  lastPlace: db.prepare<{ place: number | null }, [number]>(
    `SELECT max(place) AS place FROM sequence_people WHERE sequence_id = ? AND status = 'active'`,
  ),
  insert: db.prepare(insertSql('sequences', 'uuid accountId status listId definition createdAt updatedAt')),
  update: db.prepare('UPDATE sequences SET status = ?, list_id = ?, definition = ?, updated_at = ? WHERE id = ?'),
  delete: db.prepare('DELETE FROM sequences WHERE id = ?'),
}))

const toSequence = ({ definition, ...row }: Row): Sequence => ({
  ...row,
  ...{ status: row.status as Status, ...(JSON.parse(definition) as Definition) },
})

const toDefinition = ({ name, from, reply_to, stream, list_id, event, stop_event, steps }: Definition): Definition => ({
  ...{ name, from, reply_to, stream, list_id, event, stop_event, steps },
})

/** The account's sequence; throws 404. */
export function getSequence(db: Database, accountId: number, id: string): Sequence {
  const row = sql(db).byUuid.get(accountId, parseUuidParam(id, 'sequence_not_found', 'sequence'))
  if (!row) throw notFoundById('sequence_not_found', 'sequence')
  return toSequence(row)
}

/** Newest first. */
export const listSequences = (db: Database, accountId: number): Sequence[] =>
  sql(db).ofAccount.all(accountId).map(toSequence)

/** Those that the contacts of a list enter, also paused ones. */
export const listOfList = (db: Database, listId: number): Sequence[] => sql(db).ofList.all(listId).map(toSequence)

/** Also one that is being deleted. */
export function findSequence(db: Database, rowId: number): Sequence | undefined {
  const row = sql(db).byId.get(rowId)
  return row ? toSequence(row) : undefined
}

/** The step after a place; 0 is before the first one. */
export const findNextStep = ({ steps }: Definition, place: number): Step | undefined =>
  steps.find(({ id }) => id > place)

export const toSequenceWire = (sequence: Sequence) =>
  toWire(SequenceRecord, sequence as Sequence & { status: 'active' }, toDefinition(sequence))

type Fields = Definition & Pick<Sequence, 'status' | 'listId'>
const NOTHING = { list_id: null, listId: null, reply_to: null, event: null, stop_event: null, steps: [] }

/** Throws the 404 or 422 of the first invalid field, 409 for too many. */
export const createSequence = (app: App, actor: Actor, input: SequenceInput): Promise<Sequence> =>
  app.commit.write((tx) => {
    const { accountId } = actor
    if (sql(tx.db).ofAccount.all(accountId).length >= MAX_SEQUENCES)
      throw conflict('too_many_sequences', `An account has at most ${MAX_SEQUENCES} sequences; delete one.`)
    const blank = { ...NOTHING, id: 0, status: 'draft' as const, name: '', from: '', stream: DEFAULT_STREAM }
    const { status, listId, ...fields } = applyInput(app, tx.db, actor, blank, input)
    const row = { uuid: newUuid(), accountId, createdAt: app.eventTime(), updatedAt: app.eventTime() }
    sql(tx.db).insert.run({ ...row, status, listId, definition: JSON.stringify(fields) })
    auditChange(app, tx, actor, 'sequence.created', row.uuid)
    return getSequence(tx.db, accountId, formatUuid(row.uuid))
  })

/** Changes a sequence, also while people are in it. Throws what `createSequence` throws, and 422 without a field. */
export const changeSequence = (app: App, actor: Actor, id: string, input: SequenceInput): Promise<Sequence> =>
  app.commit.write((tx) => {
    const before = getSequence(tx.db, actor.accountId, id)
    if (Object.keys(input ?? {}).length === 0) throw invalid('body', 'Provide at least one field to change.')
    store(app, tx, before, applyInput(app, tx.db, actor, before, input))
    auditChange(app, tx, actor, 'sequence.updated', before.uuid, input.status && { status: input.status })
    return getSequence(tx.db, actor.accountId, id)
  })

/** Hides a sequence; then its people are deleted, then its row. */
export const deleteSequence = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const before = getSequence(tx.db, actor.accountId, id)
    store(app, tx, before, { ...before, status: 'deleted' })
    auditChange(app, tx, actor, 'sequence.deleted', before.uuid, { name: before.name })
  })

export const deleteSequenceRow = (tx: Tx, id: number): void => void sql(tx.db).delete.run(id)

function store(app: App, tx: Tx, { id, accountId, updatedAt }: Sequence, after: Fields): void {
  // No two versions have the same time: what was rendered from one is not sent after the next.
  const changedAt = Math.max(app.eventTime(), updatedAt + 1)
  sql(tx.db).update.run(after.status, after.listId, JSON.stringify(toDefinition(after)), changedAt, id)
  scheduleNotice(app, tx, { accountId, kind: CHANGE_KIND, topic: id, dueAt: changedAt })
}

function applyInput(
  app: App,
  db: Database,
  actor: Actor,
  before: Fields & Pick<Row, 'id'>,
  { steps, ...changes }: SequenceInput,
): Fields {
  const { accountId } = actor
  const { name, from, reply_to, stream, list_id, event, stop_event, status } = { ...before, ...changes }
  const draft = createDraft(app, { from, to: from, subject: '-', text_body: '-', reply_to })
  requireAllowedDomain(actor, draft.fromDomain)
  requireRegisteredDomain(db, accountId, 'from', draft.fromDomain)
  const list = list_id && list_id !== before.list_id ? getList(db, accountId, list_id) : undefined
  const after: Fields = {
    ...{ status, event, stop_event, stream: stream || DEFAULT_STREAM },
    ...{ name: parseName(name).toWellFormed(), from: draft.from, reply_to: draft.extra.reply_to ?? null },
    list_id: list ? formatUuid(list.uuid) : list_id || null,
    listId: list?.id ?? (list_id ? before.listId : null),
    steps: steps ? parseSteps(db, accountId, steps, before) : before.steps,
  }
  if ((after.list_id === null) === (event === null))
    throw invalid('event', 'Set either list_id or event, and the other to null.')
  if (findStreamId(db, accountId, after.stream ?? '') === undefined)
    throw invalid('stream', `There is no stream "${after.stream?.slice(0, 100)}".`, 'stream_not_found')
  if (status === 'paused' && before.status === 'draft') throw invalid('status', 'A draft sends nothing; omit status.')
  if (status !== 'active') return after
  requireScope(actor, 'emails:send', 'for the emails of an active sequence')
  if (after.steps.length === 0) throw invalid('steps', 'A sequence needs a step before it is activated.')
  return after
}

type StepInput = NonNullable<SequenceInput['steps']>[number]

/** New steps get ids between those around them; behind the last one, an id that nobody's place has. */
function parseSteps(db: Database, accountId: number, inputs: readonly StepInput[], before: Fields & { id: number }) {
  const steps: Step[] = []
  const places = [...before.steps.map(({ id }) => id), sql(db).lastPlace.get(before.id)?.place ?? 0]
  for (const [index, input] of inputs.entries()) {
    const field = `steps.${index}`
    const { template_id, template_alias, subject } = input
    const last = steps.at(-1)?.id ?? 0
    if (input.id !== undefined && (input.id <= last || !before.steps.some(({ id }) => id === input.id)))
      throw invalid(`${field}.id`, 'Steps that stay must have their ids and their order; omit the id of a new step.')
    const next = inputs.slice(index).find(({ id }) => id !== undefined)?.id
    const id = input.id ?? (next === undefined ? Math.floor(Math.max(last, ...places)) + 1 : (last + next) / 2)
    if (id === last || (id === next && input.id === undefined))
      throw invalid(field, 'Too many steps were added and removed here; add it elsewhere.')
    const template = template_id
      ? findTemplateById(db, accountId, template_id)
      : findTemplateByAlias(db, accountId, template_alias ?? '')
    const hint = 'Set template_id or template_alias to that of a template; GET /v1/templates lists them.'
    if (!template) throw invalid(`${field}.template_id`, hint, 'template_not_found')
    const delay = parseDelay(`${field}.delay`, input.delay, index === 0 ? 0 : 1)
    steps.push({ id, delay, template_id: formatUuid(template.uuid), subject: subject || null })
  }
  return steps
}

const DELAY = /^(\d{1,9})([smhd]?)$/
const UNIT_SECONDS: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3600, d: 86_400 }

function parseDelay(field: string, delay: number | string, min: number): number {
  const [, count, unit = ''] = DELAY.exec(String(delay)) ?? []
  const seconds = Number(count) * (UNIT_SECONDS[unit] ?? 0)
  if (seconds >= min && seconds <= MAX_DELAY_SECONDS) return seconds
  throw invalid(field, `delay must be ${min} seconds to 365 days: a number, or a text such as "3d", "2h" or "30m".`)
}
