/**
 * @module The people in a sequence: they enter by their contact list or by an event, once, and stop when they answer or do
 * what an event says. What stops an address elsewhere is found when it is shown, and before each step.
 */
import type { Database } from 'bun:sqlite'
import type { Static } from '@sinclair/typebox'
import { prepareCount } from '#features/core/accounts/limits.ts'
import type { Actor, App, Reply } from '#features/core/app/app.ts'
import { cancelNotice, findNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { requireAllowedDomain } from '#features/setup/api-keys/limits.ts'
import { findContact, findContactById } from '#features/setup/contact-store/find.ts'
import { findListById } from '#features/setup/contact-store/lists.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import type { Tx } from '#platform/db/commit.ts'
import { insertSql, prepareStatements, setSql } from '#platform/db/open.ts'
import { newestFirst, type RowWindow } from '#platform/db/row-window.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { isoTimeOrNull } from '#platform/http/envelope.ts'
import { mapFromPhp } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import { newUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { KiB } from '#platform/units.ts'
import { domainOfMailbox, normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import { type NewEvent, PersonRecord } from './model.ts'
import { findNextStep, findSequence, listOfList, listSequences, type Sequence, toDelayMs } from './sequences.ts'
import type { sequencePeople } from './tables.ts'

export type Person = Readonly<typeof sequencePeople.$inferSelect>

/** The notice whose time is that of the next step; its topic is the person. */
export const STEP_KIND = 'sequence_step'
const MAX_VARIABLES_BYTES = 8 * KiB
/** Of those who enter by events; contacts are limited by the plan. */
const MAX_ACTIVE = 100_000
/** When the steps of a paused sequence are due. They keep their notices, which a restore holds by their row ids. */
const NEVER: Millis = Date.UTC(9999, 0)

const COLUMNS = `id, uuid, account_id AS accountId, sequence_id AS sequenceId, address_key AS addressKey, email, variables,
  place, since_at AS sinceAt, sent, reason, created_at AS createdAt, ended_at AS endedAt`
const SELECT = `SELECT ${COLUMNS} FROM sequence_people`

const sql = prepareStatements((db) => ({
  enter: db.prepare<Person, [Record<string, string | number | Uint8Array | null>]>(
    `${insertSql('sequence_people', 'uuid accountId sequenceId addressKey email variables place sinceAt sent createdAt')}
     ON CONFLICT DO NOTHING RETURNING ${COLUMNS}`,
  ),
  byId: db.prepare<Person, [number]>(`${SELECT} WHERE id = ?`),
  ofAddress: db.prepare<Person, [number, string]>(`${SELECT} WHERE account_id = ? AND address_key = ?`),
  after: db.prepare<Person, [number, number, number]>(`${SELECT} WHERE sequence_id = ? AND id > ? ORDER BY id LIMIT ?`),
  list: newestFirst<Person, [number]>(
    db,
    SELECT,
    'sequence_people INDEXED BY sequence_people_page WHERE sequence_id = ?',
  ),
  active: prepareCount(db, 'sequence_people WHERE sequence_id = ? AND ended_at IS NULL'),
  recipients: db.prepare<{ address: string }, [number]>('SELECT address FROM recipients WHERE email_id = ?'),
  bounced: db.prepare<{ id: number }, [string]>(
    `SELECT emails.id FROM emails JOIN recipients ON email_id = emails.id WHERE uuid = unhex(?, '-') AND bounce_type = 'hard'`,
  ),
  update: db.prepare(
    `UPDATE sequence_people SET ${setSql('place sinceAt sent reason endedAt')} WHERE id = $id AND ended_at IS NULL`,
  ),
  delete: db.prepare('DELETE FROM sequence_people WHERE id = ?'),
}))

export const findPerson = (db: Database, id: number): Person | undefined => sql(db).byId.get(id) ?? undefined

/** The next people of a sequence, by row id. */
export const listPeopleAfter = (db: Database, sequenceId: number, after: number, limit: number): Person[] =>
  sql(db).after.all(sequenceId, after, limit)

/** Newest first. */
export const listPeople = (db: Database, { id }: Sequence, page: RowWindow) => sql(db).list(page, id)

export type EnterApp = Pick<App, 'clock' | 'noticeDue'>

/** Schedules the next step of a person; immediately if there is none, which ends it. */
export function schedulePerson(app: EnterApp, tx: Tx, sequence: Sequence, person: Person): void {
  const { id: topic, accountId, place } = person
  const step = findNextStep(sequence, place)
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
  const person = sql(tx.db).enter.get({ ...row, place: 0, sinceAt: now, sent: '[]', createdAt: now })
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
  sql(tx.db).update.run({ id, place, sinceAt, sent, reason, endedAt }).changes > 0

/** Ends a person, unless it has ended. @param reason why it is stopped; null: it got all steps */
export function endPerson(app: EnterApp, tx: Tx, person: Person, reason: string | null): boolean {
  cancelNotice(tx, STEP_KIND, person.id)
  return storePerson(tx, { ...person, reason, endedAt: app.clock.now() })
}

export function deletePerson(tx: Tx, { id }: Person): void {
  cancelNotice(tx, STEP_KIND, id)
  sql(tx.db).delete.run(id)
}

/** Deletes an address from all sequences of an account; returns from how many. */
export function erasePeople(tx: Tx, { accountId, addressKey }: { accountId: number; addressKey: string }): number {
  const people = sql(tx.db).ofAddress.all(accountId, addressKey)
  for (const person of people) deletePerson(tx, person)
  return people.length
}

/** Stops whoever answered an email of a sequence; call it in the transaction that accepts the answer. */
export function stopReplied(app: App, { tx, accountId, emailId, emailUuid }: Reply): void {
  for (const { address } of sql(tx.db).recipients.all(emailId))
    for (const person of sql(tx.db).ofAddress.all(accountId, normaliseAddress(address)))
      if (person.sent.includes(emailUuid)) endPerson(app, tx, person, 'replied')
}

const REASONS: Readonly<Record<string, string>> = {
  unsubscribe: 'unsubscribed',
  hard_bounce: 'bounced',
  complaint: 'complained',
}

/** Why a person gets no further step; undefined: nothing stops it. */
export function findStopReason(db: Database, sequence: Sequence, { email, sent }: Person): string | undefined {
  const { accountId, listId, definition } = sequence
  if (listId !== null) {
    const contact = findListById(db, listId) && findContact(db, listId, email)
    if (contact?.status !== 'active') return contact && contact.status !== 'pending' ? contact.status : 'removed'
  }
  const last = (JSON.parse(sent) as string[]).at(-1)
  if (last !== undefined && sql(db).bounced.get(last)) return 'bounced'
  const streamId = findStreamId(db, accountId, definition.stream) ?? 0
  const query = { accountId, address: email, transactional: false, streamId, listId: listId ?? undefined }
  const suppression = suppressionOf(db, query)
  return suppression && (REASONS[suppression.reason] ?? 'suppressed')
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
    const people = sql(tx.db).ofAddress.all(accountId, normaliseAddress(address))
    const stopped = people.filter((one) => ending.has(one.sequenceId) && endPerson(app, tx, one, 'event'))
    const starting = sequences.filter(({ definition }) => definition.event === name)
    for (const { id, definition } of starting) {
      requireAllowedDomain(actor, domainOfMailbox(definition.from))
      if ((sql(tx.db).active.get(id, MAX_ACTIVE)?.n ?? 0) >= MAX_ACTIVE)
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
  sql(db)
    .ofAddress.all(accountId, addressKey)
    .flatMap((person) => {
      const sequence = findSequence(db, person.sequenceId)
      return sequence ? [{ sequence: sequence.definition.name, ...toPersonWire(db, sequence, person) }] : []
    })
