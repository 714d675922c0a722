/**
 * @module Creates, changes, reads and deletes sequences: emails that each person gets one after the other. The ids of
 * steps grow in their order, and a person's place is the id of the step sent last. So a removed step leaves its people
 * before the next one, and a step that is added before their place is not sent to them.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { scheduleNotice } from '#features/core/notices/notices.ts'
import { requireHeaderSafe } from '#features/sending/accept/attachments.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { requireRegisteredDomain } from '#features/sending/accept/sendable.ts'
import { requireAllowedDomain } from '#features/setup/api-keys/limits.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { findListById, getList, namedList } from '#features/setup/contact-store/lists.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import * as templates from '#features/setup/templates/templates.ts'
import type { Tx } from '#platform/db/commit.ts'
import { insertSql, prepareStatements } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { parseName } from '#platform/http/validation.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import type { SequenceInput, STATUSES } from './model.ts'
import type { sequences } from './tables.ts'

export interface Step {
  readonly id: number
  /** Seconds. */
  readonly delay: number
  /** Row id. */
  readonly templateId: number
  readonly subject: string | null
}

export interface Definition {
  readonly name: string
  readonly from: string
  readonly replyTo: string | null
  readonly stream: string
  readonly event: string | null
  readonly stopEvent: string | null
  readonly steps: readonly Step[]
}

type Row = Readonly<typeof sequences.$inferSelect>
export type Sequence = Omit<Row, 'definition'> & Definition

const MAX_SEQUENCES = 100
const MAX_DELAY_SECONDS = 365 * 86_400
/** The notice that has the people of a sequence follow a change, in batches. */
export const CHANGE_KIND = 'sequence_change'

const COLUMNS = `id, uuid, account_id AS accountId, status, pause_reason AS pauseReason, list_id AS listId, definition,
  created_at AS createdAt, updated_at AS updatedAt`
const LIVE = `SELECT ${COLUMNS} FROM sequences WHERE status <> 'deleted' AND`

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Row, [number, Uint8Array]>(`${LIVE} account_id = ? AND uuid = ?`),
  ofAccount: db.prepare<Row, [number]>(`${LIVE} account_id = ? ORDER BY id DESC`),
  ofList: db.prepare<Row, [number]>(`${LIVE} list_id = ? AND status <> 'draft'`),
  byId: db.prepare<Row, [number]>(`SELECT ${COLUMNS} FROM sequences WHERE id = ?`),
  insert: db.prepare(insertSql('sequences', 'uuid accountId status listId definition createdAt updatedAt')),
  update: db.prepare(
    'UPDATE sequences SET status = ?, pause_reason = ?, list_id = ?, definition = ?, updated_at = ? WHERE id = ?',
  ),
  delete: db.prepare('DELETE FROM sequences WHERE id = ?'),
}))

const toSequence = ({ definition, ...row }: Row): Sequence => ({ ...row, ...(JSON.parse(definition) as Definition) })

const toDefinition = ({ name, from, replyTo, stream, event, stopEvent, steps }: Definition): string =>
  JSON.stringify({ name, from, replyTo, stream, event, stopEvent, steps } satisfies Definition)

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

export function toSequenceWire(db: Database, sequence: Sequence) {
  const { uuid, accountId, status, listId, name, from, stream, event } = sequence
  const list = listId === null ? undefined : namedList(db, accountId, listId)
  return {
    ...{ id: formatUuid(uuid), name, from, reply_to: sequence.replyTo, stream, event, stop_event: sequence.stopEvent },
    list_id: list ? formatUuid(list.uuid) : null,
    status: status as (typeof STATUSES)[number],
    pause_reason: sequence.pauseReason,
    steps: sequence.steps.map(({ templateId, ...step }) => ({
      ...step,
      template_id: templates.findTemplateUuid(db, templateId) ?? null,
    })),
    created_at: isoTime(sequence.createdAt),
    updated_at: isoTime(sequence.updatedAt),
  }
}

type Fields = Definition & Pick<Sequence, 'status' | 'pauseReason' | 'listId'>
const NOTHING = { listId: null, pauseReason: null, replyTo: null, event: null, stopEvent: null }
const BLANK: Fields = { ...NOTHING, status: 'draft', name: '', from: '', stream: DEFAULT_STREAM, steps: [] }

/** Throws the 404 or 422 of the first invalid field, 409 for too many. */
export const createSequence = (app: App, actor: Actor, input: SequenceInput): Promise<Sequence> =>
  app.commit.write((tx) => {
    const { accountId } = actor
    if (sql(tx.db).ofAccount.all(accountId).length >= MAX_SEQUENCES)
      throw conflict('too_many_sequences', `An account has at most ${MAX_SEQUENCES} sequences; delete one.`)
    const fields = applyInput(app, tx.db, actor, BLANK, input)
    const { status, listId } = fields
    const row = { uuid: newUuid(), accountId, createdAt: app.eventTime(), updatedAt: app.eventTime() }
    sql(tx.db).insert.run({ ...row, status, listId, definition: toDefinition(fields) })
    auditChange(app, tx, actor, 'sequence.created', row.uuid)
    return getSequence(tx.db, accountId, formatUuid(row.uuid))
  })

/** Changes a sequence, also while people are in it. Throws what `createSequence` throws. */
export const changeSequence = (app: App, actor: Actor, id: string, input: SequenceInput): Promise<Sequence> =>
  app.commit.write((tx) => {
    const before = getSequence(tx.db, actor.accountId, id)
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

/** Pauses a sequence whose step cannot be sent; false if it was changed since it was read. */
export function pauseFailing(app: App, tx: Tx, actor: Actor, sequence: Sequence, reason: string): boolean {
  if (findSequence(tx.db, sequence.id)?.updatedAt !== sequence.updatedAt) return false
  store(app, tx, sequence, { ...sequence, status: 'paused', pauseReason: reason })
  auditChange(app, tx, actor, 'sequence.paused', sequence.uuid, { reason })
  return true
}

function store(app: App, tx: Tx, { id, accountId, updatedAt }: Sequence, after: Fields): void {
  // No two versions have the same time: what was rendered from one is not sent after the next.
  const changedAt = Math.max(app.eventTime(), updatedAt + 1)
  sql(tx.db).update.run(after.status, after.pauseReason, after.listId, toDefinition(after), changedAt, id)
  scheduleNotice(app, tx, { accountId, kind: CHANGE_KIND, topic: id, dueAt: changedAt })
}

function applyInput(app: App, db: Database, actor: Actor, before: Fields, input: SequenceInput): Fields {
  const { accountId } = actor
  const { name = before.name, from = before.from, reply_to = before.replyTo, stream = before.stream, list_id } = input
  const { status = before.status, event = before.event, stop_event: stopEvent = before.stopEvent } = input
  const draft = createDraft(app, { from, to: from, subject: '-', text_body: '-', reply_to })
  requireAllowedDomain(actor, draft.fromDomain)
  requireRegisteredDomain(db, accountId, 'from', draft.fromDomain)
  requireHeaderSafe('name', name)
  const after: Fields = {
    ...{ name: parseName(name).toWellFormed(), from: draft.from, replyTo: draft.extra.reply_to ?? null },
    ...{ status, event, stopEvent, stream: stream || DEFAULT_STREAM },
    pauseReason: input.status === undefined ? before.pauseReason : null,
    listId: list_id ? getList(db, accountId, list_id).id : list_id === null ? null : before.listId,
    steps: input.steps ? parseSteps(db, accountId, input.steps, before.steps) : before.steps,
  }
  if ((after.listId === null) === (event === null))
    throw invalid('event', 'Set either list_id or event, and the other to null.')
  if (findStreamId(db, accountId, after.stream) === undefined)
    throw invalid('stream', `There is no stream "${after.stream.slice(0, 100)}".`, 'stream_not_found')
  if (status === 'paused' && before.status === 'draft') throw invalid('status', 'A draft sends nothing; omit status.')
  if (status !== 'active') return after
  requireScope(actor, 'emails:send', 'for the emails of an active sequence')
  if (after.steps.length === 0) throw invalid('steps', 'A sequence needs a step before it is activated.')
  if (!after.steps.every(({ templateId }) => templates.findTemplateByRowId(db, templateId)))
    throw invalid('steps', 'The template of a step was deleted; set another one.', 'template_not_found')
  if (after.listId !== null && !findListById(db, after.listId))
    throw invalid('list_id', 'The contact list was deleted; set another one.', 'contact_list_not_found')
  return after
}

type StepInput = NonNullable<SequenceInput['steps']>[number]

/** New steps get ids between those around them. */
function parseSteps(db: Database, accountId: number, inputs: readonly StepInput[], before: readonly Step[]): Step[] {
  const steps: Step[] = []
  for (const [index, input] of inputs.entries()) {
    const field = `steps.${index}`
    const { template_id, template_alias, subject } = input
    const last = steps.at(-1)?.id ?? 0
    if (input.id !== undefined && (input.id <= last || !before.some(({ id }) => id === input.id)))
      throw invalid(`${field}.id`, 'Steps that stay must have their ids and their order; omit the id of a new step.')
    const next = inputs.slice(index).find(({ id }) => id !== undefined)?.id
    const highest = Math.max(last, ...before.map(({ id }) => id))
    const id = input.id ?? (next === undefined ? Math.floor(highest) + 1 : (last + next) / 2)
    if (id === last || (id === next && input.id === undefined))
      throw invalid(field, 'Too many steps were added and removed here; add it elsewhere.')
    const template = template_id
      ? templates.findTemplateById(db, accountId, template_id)
      : templates.findTemplateByAlias(db, accountId, template_alias ?? '')
    const hint = 'Set template_id or template_alias to that of a template; GET /v1/templates lists them.'
    if (!template) throw invalid(`${field}.template_id`, hint, 'template_not_found')
    const delay = parseDelay(`${field}.delay`, input.delay, index === 0 ? 0 : 1)
    steps.push({ id, delay, templateId: template.id, subject: subject || null })
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
