/**
 * @module Sequences, emails that each person gets one after the other, and the people in them. Steps have ids that grow in
 * their order, and a person's place is the id of the step sent last: so a removed step leaves its people before the next
 * one, and a step that is added before their place is not sent to them. People enter by their contact list or by an event,
 * once, and stop when they answer or do what an event says; what stops an address elsewhere is found when it is shown,
 * and before each step.
 */
import type { Database } from 'bun:sqlite'
import type { Static } from '@sinclair/typebox'
import { prepareCount } from '#features/core/accounts/limits.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { cancelNotice, findNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { requireRegisteredDomain } from '#features/sending/accept/sendable.ts'
import { requireAllowedDomain } from '#features/setup/api-keys/limits.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { findContact, findContactById } from '#features/setup/contact-store/find.ts'
import { findListById, getList } from '#features/setup/contact-store/lists.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { hasTemplate } from '#features/setup/templates/templates.ts'
import { insertSql, newestFirst, prepareStatements, type RowWindow, setSql, type Tx } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { isoTimeOrNull, toWire } from '#platform/http/envelope.ts'
import { mapFromPhp, notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { parseName } from '#platform/http/validation.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { days, hours, KiB, type Millis, minutes, seconds } from '#platform/units.ts'
import { domainOfMailbox, normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import { type NewEvent, PersonRecord, type SequenceInput, SequenceRecord, type Settings } from './model.ts'
import type { sequencePeople, sequences } from './tables.ts'

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
export type Person = Readonly<typeof sequencePeople.$inferSelect>

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
const listOfList = (db: Database, listId: number): Sequence[] => sql(db).ofList.all(listId).map(toSequence)

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
    throw invalid('event', 'Set either a contact list (list_id) or an event, not both.')
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

/** The notice whose time is that of the next step; its topic is the person. */
export const STEP_KIND = 'sequence_step'
const MAX_VARIABLES_BYTES = 8 * KiB
/** Of those who enter by events; contacts are limited by the plan. */
const MAX_ACTIVE = 100_000
/** When the steps of a paused sequence are due. They keep their notices, which a restore holds by their row ids. */
const NEVER: Millis = Date.UTC(9999, 0)

const PERSON = `id, uuid, account_id AS accountId, sequence_id AS sequenceId, address_key AS addressKey, email, variables,
  place, since_at AS sinceAt, sent, reason, created_at AS createdAt, ended_at AS endedAt`
const SELECT_PEOPLE = `SELECT ${PERSON} FROM sequence_people`

const people = prepareStatements((db) => ({
  enter: db.prepare<Person, [Record<string, string | number | Uint8Array | null>]>(
    `${insertSql('sequence_people', 'uuid accountId sequenceId addressKey email variables place sinceAt sent createdAt')}
     ON CONFLICT DO NOTHING RETURNING ${PERSON}`,
  ),
  byId: db.prepare<Person, [number]>(`${SELECT_PEOPLE} WHERE id = ?`),
  ofAddress: db.prepare<Person, [number, string]>(`${SELECT_PEOPLE} WHERE account_id = ? AND address_key = ?`),
  after: db.prepare<Person, [number, number, number]>(
    `${SELECT_PEOPLE} WHERE sequence_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
  list: newestFirst<Person, [number]>(
    db,
    SELECT_PEOPLE,
    'sequence_people INDEXED BY sequence_people_page WHERE sequence_id = ?',
  ),
  active: prepareCount(db, 'sequence_people WHERE sequence_id = ? AND ended_at IS NULL'),
  recipients: db.prepare<{ accountId: number; uuid: UuidBytes; address: string }, [number]>(
    'SELECT emails.account_id AS accountId, uuid, address FROM emails JOIN recipients ON email_id = emails.id WHERE emails.id = ?',
  ),
  bounced: db.prepare<{ id: number }, [string]>(
    `SELECT emails.id FROM emails JOIN recipients ON email_id = emails.id WHERE uuid = unhex(?, '-') AND bounce_type = 'hard'`,
  ),
  update: db.prepare(
    `UPDATE sequence_people SET ${setSql('place sinceAt sent reason endedAt')} WHERE id = $id AND ended_at IS NULL`,
  ),
  delete: db.prepare('DELETE FROM sequence_people WHERE id = ?'),
}))

/** The next people of a sequence, by row id. */
export const listPeopleAfter = (db: Database, sequenceId: number, after: number, limit: number): Person[] =>
  people(db).after.all(sequenceId, after, limit)

/** Newest first. */
export const listPeople = (db: Database, { id }: Sequence, page: RowWindow) => people(db).list(page, id)

type EnterApp = Pick<App, 'clock' | 'noticeDue'>

/** Schedules the next step of a person, which keeps its notice while its sequence is paused. */
export function schedulePerson(app: EnterApp, tx: Tx, sequence: Sequence, person: Person): void {
  const { id: topic, accountId } = person
  const step = findNextStep(sequence, person.place)
  // A clock that was ahead does not delay it further.
  const since = Math.min(person.sinceAt, app.clock.now())
  const dueAt = sequence.definition.status === 'active' ? since + (step ? toDelayMs(step) : 0) : NEVER
  if (person.endedAt === null) scheduleNotice(app, tx, { accountId, kind: STEP_KIND, topic, dueAt })
}

/** Enters an address; false if it is or was in the sequence. */
function enter(app: EnterApp, tx: Tx, sequence: Sequence, email: string, variables: string | null = null): boolean {
  const { id: sequenceId, accountId } = sequence
  const now = app.clock.now()
  const row = { uuid: newUuid(), accountId, sequenceId, addressKey: normaliseAddress(email), email, variables }
  const person = people(tx.db).enter.get({ ...row, place: 0, sinceAt: now, sent: '[]', createdAt: now })
  if (person) schedulePerson(app, tx, sequence, person)
  return person !== null
}

/** Enters a contact that has just become active into the sequences of its list. */
export function enterOfList(app: EnterApp, tx: Tx, contactId: number, listId: number): void {
  for (const sequence of listOfList(tx.db, listId)) {
    const contact = findContactById(tx.db, contactId)
    if (contact && sequence.definition.status !== 'draft') enter(app, tx, sequence, contact.email)
  }
}

/** Stores how far a person is, unless it has ended since it was read. */
export const storePerson = (tx: Tx, { id, place, sinceAt, sent, reason, endedAt }: Person): boolean =>
  people(tx.db).update.run({ id, place, sinceAt, sent, reason, endedAt }).changes > 0

/** Ends a person, unless it has ended. @param reason why it is stopped; null: it got all steps */
function endPerson(app: EnterApp, tx: Tx, person: Person, reason: string | null): boolean {
  cancelNotice(tx, STEP_KIND, person.id)
  return storePerson(tx, { ...person, reason, endedAt: app.clock.now() })
}

/** Stores how far a person is, and schedules its next step, or ends it if there is none or a reason to stop. */
export function placePerson(app: EnterApp, tx: Tx, sequence: Sequence, person: Person, reason?: string): void {
  const isDone = findNextStep(sequence, person.place) === undefined || reason !== undefined
  if (isDone && sequence.definition.status === 'active') endPerson(app, tx, person, reason ?? null)
  else {
    storePerson(tx, person)
    schedulePerson(app, tx, sequence, person)
  }
}

export function deletePerson(tx: Tx, { id }: Person): void {
  cancelNotice(tx, STEP_KIND, id)
  people(tx.db).delete.run(id)
}

/** Deletes an address from all sequences of an account; returns from how many. */
export function erasePeople(tx: Tx, { accountId, addressKey }: { accountId: number; addressKey: string }): number {
  const found = people(tx.db).ofAddress.all(accountId, addressKey)
  for (const person of found) deletePerson(tx, person)
  return found.length
}

/** Stops whoever answered an email of a sequence; call it in the transaction that accepts the answer. */
export function stopReplied(app: App, { tx, emailId }: { readonly tx: Tx; readonly emailId: number }): void {
  for (const { accountId, uuid, address } of people(tx.db).recipients.all(emailId))
    for (const person of people(tx.db).ofAddress.all(accountId, normaliseAddress(address)))
      if (person.sent.includes(formatUuid(uuid))) endPerson(app, tx, person, 'replied')
}

const REASONS: Readonly<Record<string, string>> = {
  unsubscribe: 'unsubscribed',
  hard_bounce: 'bounced',
  complaint: 'complained',
}

/** Why a person gets no further step; undefined: nothing stops it. */
function findStopReason(db: Database, sequence: Sequence, { email, sent }: Person): string | undefined {
  const { accountId, listId, definition } = sequence
  if (listId !== null) {
    const contact = findListById(db, listId) && findContact(db, listId, email)
    if (contact?.status !== 'active') return contact && contact.status !== 'pending' ? contact.status : 'removed'
  }
  const last = (JSON.parse(sent) as string[]).at(-1)
  if (last !== undefined && people(db).bounced.get(last)) return 'bounced'
  const streamId = findStreamId(db, accountId, definition.stream) ?? 0
  const query = { accountId, address: email, transactional: false, streamId, listId: listId ?? undefined }
  const suppression = suppressionOf(db, query)
  return suppression && (REASONS[suppression.reason] ?? 'suppressed')
}

/** A person with its next step, if there is one, and why it must not get it. */
export function findPerson(db: Database, id: number) {
  const person = people(db).byId.get(id)
  const sequence = person && findSequence(db, person.sequenceId)
  if (!sequence) return undefined
  const step = findNextStep(sequence, person.place)
  return { person, sequence, step, reason: findStopReason(db, sequence, person) }
}

/**
 * An event of the account: its address enters the sequences that it starts, and stops in those that it ends. Throws 403
 * if the key may not send from the domain of one that it starts, 409 if one is full.
 */
export function recordEvent(app: App, actor: Actor, { name, email, variables }: Static<typeof NewEvent>) {
  const { accountId } = actor
  const parsed = parseMailbox(email)
  if (parsed.kind === 'invalid') throw invalid('email', parsed.reason, 'invalid_address')
  const { address } = parsed
  const json = variables ? JSON.stringify(mapFromPhp(variables)) : null
  if (Buffer.byteLength(json ?? '') > MAX_VARIABLES_BYTES)
    throw invalid('variables', `variables must have at most ${MAX_VARIABLES_BYTES} bytes of JSON.`)
  return app.commit.write((tx) => {
    const sequences = listSequences(tx.db, accountId).rows.filter(({ definition }) => definition.status !== 'draft')
    const ending = new Set(sequences.filter(({ definition }) => definition.stop_event === name).map(({ id }) => id))
    const found = people(tx.db).ofAddress.all(accountId, normaliseAddress(address))
    const stopped = found.filter((one) => ending.has(one.sequenceId) && endPerson(app, tx, one, 'event'))
    const starting = sequences.filter(({ definition }) => definition.event === name)
    for (const { id, definition } of starting) {
      requireAllowedDomain(actor, domainOfMailbox(definition.from))
      if ((people(tx.db).active.get(id, MAX_ACTIVE)?.n ?? 0) >= MAX_ACTIVE)
        throw conflict('too_many_people', `At most ${MAX_ACTIVE} people can be active in a sequence.`)
    }
    const entered = starting.filter((one) => enter(app, tx, one, address, json))
    return { entered: entered.length, stopped: stopped.length }
  })
}

export function toPersonWire(db: Database, sequence: Sequence, person: Person) {
  const { id, endedAt, sent, variables } = person
  const stop = endedAt === null ? findStopReason(db, sequence, person) : person.reason
  const isActive = endedAt === null && stop === undefined
  const isDue = isActive && sequence.definition.status === 'active'
  return toWire(PersonRecord, person, {
    status: isActive ? 'active' : stop ? 'stopped' : 'finished',
    reason: stop ?? person.reason,
    steps_sent: (JSON.parse(sent) as unknown[]).length,
    next_due_at: isoTimeOrNull((isDue && findNotice(db, STEP_KIND, id)?.dueAt) || null),
    variables: variables === null ? null : (JSON.parse(variables) as unknown),
  })
}

/** What the sequences of an account have of an address. */
export const listSequencesOf = (db: Database, accountId: number, addressKey: string) =>
  people(db)
    .ofAddress.all(accountId, addressKey)
    .flatMap((person) => {
      const sequence = findSequence(db, person.sequenceId)
      return sequence ? [{ sequence: sequence.definition.name, ...toPersonWire(db, sequence, person) }] : []
    })
