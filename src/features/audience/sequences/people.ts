/**
 * @module The people in a sequence: they enter by their contact list or by an event, once, and stop when they answer,
 * leave, bounce or do what an event says. What stops an address elsewhere is found before each step.
 */
import type { Database } from 'bun:sqlite'
import type { Static } from '@sinclair/typebox'
import type { Actor, App, Reply } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { cancelNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { requireAllowedDomain } from '#features/setup/api-keys/limits.ts'
import { findContactById } from '#features/setup/contact-store/find.ts'
import type { Tx } from '#platform/db/commit.ts'
import { insertSql, prepareStatements } from '#platform/db/open.ts'
import { belowId, type RowWindow } from '#platform/db/row-window.ts'
import { conflict, invalid, notFound } from '#platform/errors.ts'
import { isoTimeOrNull } from '#platform/http/envelope.ts'
import { mapFromPhp } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import { newUuid } from '#platform/ids.ts'
import { KiB, seconds } from '#platform/units.ts'
import { domainOfMailbox, normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import { type NewEvent, PersonRecord } from './model.ts'
import { findNextStep, findSequence, getSequence, listOfList, listSequences, type Sequence } from './sequences.ts'
import type { sequencePeople } from './tables.ts'

export type Person = Readonly<typeof sequencePeople.$inferSelect>

/** The notice whose time is that of the next step; its topic is the person. */
export const STEP_KIND = 'sequence_step'
const MAX_VARIABLES_BYTES = 8 * KiB
/** Of those who enter by events; contacts are limited by the plan. */
const MAX_ACTIVE = 100_000

const SELECT = `SELECT id, uuid, account_id AS accountId, sequence_id AS sequenceId, address_key AS addressKey, email, contact_id AS contactId,
  variables, status, reason, place, since_at AS sinceAt, sent, created_at AS createdAt, ended_at AS endedAt FROM sequence_people`

const sql = prepareStatements((db) => ({
  enter: db.prepare<{ id: number }, [Record<string, string | number | Uint8Array | null>]>(
    `${insertSql('sequence_people', 'uuid accountId sequenceId addressKey email contactId variables status place sinceAt sent createdAt')}
     ON CONFLICT DO NOTHING RETURNING id`,
  ),
  byId: db.prepare<Person, [number]>(`${SELECT} WHERE id = ?`),
  ofAddress: db.prepare<Person, [number, string]>(`${SELECT} WHERE account_id = ? AND address_key = ?`),
  after: db.prepare<Person, [number, number, number]>(`${SELECT} WHERE sequence_id = ? AND id > ? ORDER BY id LIMIT ?`),
  recipients: db.prepare<{ address: string }, [number]>('SELECT address FROM recipients WHERE email_id = ?'),
  end: db.prepare('UPDATE sequence_people SET status = ?, reason = ?, ended_at = ? WHERE id = ? AND ended_at IS NULL'),
  explain: db.prepare('UPDATE sequence_people SET reason = ? WHERE id = ? AND ended_at IS NULL'),
  advance: db.prepare(
    `UPDATE sequence_people SET place = ?, since_at = ?, sent = json_insert(sent, '$[#]', ?), reason = NULL
     WHERE id = ? AND place = ? AND ended_at IS NULL`,
  ),
  page: db.prepare<Person, [number, number, number, number]>(
    `${SELECT} INDEXED BY sequence_people_page WHERE sequence_id = ? AND id < ? ORDER BY id DESC LIMIT ? OFFSET ?`,
  ),
  count: db.prepare<{ n: number }, [number]>('SELECT count(*) AS n FROM sequence_people WHERE sequence_id = ?'),
  countActive: db.prepare<{ n: number }, [number]>(
    "SELECT count(*) AS n FROM sequence_people WHERE sequence_id = ? AND status = 'active'",
  ),
  delete: db.prepare('DELETE FROM sequence_people WHERE id = ?'),
}))

export const findPerson = (db: Database, id: number): Person | undefined => sql(db).byId.get(id) ?? undefined

/** The next people of a sequence, by row id. */
export const listPeopleAfter = (db: Database, { id }: Sequence, after: number, limit: number): Person[] =>
  sql(db).after.all(id, after, limit)

export type EnterApp = Pick<App, 'clock' | 'noticeDue'>

/** When the next step of a person is due; at once if it only has to be found that there is none. */
const dueTime = (sequence: Sequence, { place, sinceAt }: Pick<Person, 'place' | 'sinceAt'>) =>
  sinceAt + seconds(findNextStep(sequence, place)?.delay ?? 0)

/** Schedules the next step of a person, or cancels it while its sequence is not active. */
export function schedulePerson(app: EnterApp, tx: Tx, sequence: Sequence, person: Person): void {
  const { id: topic, accountId, endedAt } = person
  if (endedAt !== null || sequence.status !== 'active') cancelNotice(tx, STEP_KIND, topic)
  else scheduleNotice(app, tx, { accountId, kind: STEP_KIND, topic, dueAt: dueTime(sequence, person) })
}

interface Entry {
  readonly email: string
  readonly contactId?: number
  /** JSON object. */
  readonly variables?: string | null
}

/** Enters an address; false if it is or was in the sequence. */
function enter(app: EnterApp, tx: Tx, sequence: Sequence, { email, contactId, variables }: Entry): boolean {
  const { id: sequenceId, accountId } = sequence
  const now = app.clock.now()
  const row = { uuid: newUuid(), accountId, sequenceId, addressKey: normaliseAddress(email), email }
  const start = { status: 'active', place: 0, sinceAt: now, sent: '[]', createdAt: now }
  const optional = { contactId: contactId ?? null, variables: variables ?? null }
  const entered = sql(tx.db).enter.get({ ...row, ...start, ...optional })
  const person = entered && findPerson(tx.db, entered.id)
  if (person) schedulePerson(app, tx, sequence, person)
  return person != null
}

/** Enters a contact that has just become active into the sequences of its list. */
export function enterOfList(app: EnterApp, tx: Tx, contactId: number, listId: number): void {
  for (const sequence of listOfList(tx.db, listId)) {
    const contact = findContactById(tx.db, contactId)
    if (contact) enter(app, tx, sequence, { email: contact.email, contactId })
  }
}

/** Ends a person, if it has not ended. @param reason why it is stopped; undefined: it got all steps */
export const endPerson = (app: EnterApp, tx: Tx, { id }: Person, reason?: string): boolean =>
  sql(tx.db).end.run(reason ? 'stopped' : 'finished', reason ?? null, app.clock.now(), id).changes > 0

/** Says why the next step of a person could not be sent yet. */
export const explainDelay = (tx: Tx, { id }: Person, problem: string): void => void sql(tx.db).explain.run(problem, id)

/** Moves a person on after a step was accepted; false if it has moved or ended since it was read. */
export const advancePerson = (app: App, tx: Tx, { id, place }: Person, step: number, emailId: string): boolean =>
  sql(tx.db).advance.run(step, app.clock.now(), emailId, id, place).changes > 0

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
    const sequences = listSequences(tx.db, accountId).filter(({ status }) => status !== 'draft')
    const ending = new Set(sequences.filter(({ stop_event }) => stop_event === name).map(({ id }) => id))
    const people = sql(tx.db).ofAddress.all(accountId, normaliseAddress(address))
    const stopped = people.filter((one) => ending.has(one.sequenceId) && endPerson(app, tx, one, 'event'))
    const starting = sequences.filter(({ event }) => event === name)
    for (const { id, from } of starting) {
      requireAllowedDomain(actor, domainOfMailbox(from))
      if ((sql(tx.db).countActive.get(id)?.n ?? 0) >= MAX_ACTIVE)
        throw conflict('too_many_people', `At most ${MAX_ACTIVE} people can be active in a sequence.`)
    }
    const entered = starting.filter((one) => enter(app, tx, one, { email: address, variables: json }))
    return { entered: entered.length, stopped: stopped.length }
  })
}

/** Stops a person, who does not enter again. Throws 404. */
export const removePerson = (app: App, actor: Actor, id: string, email: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const sequence = getSequence(tx.db, actor.accountId, id)
    const people = sql(tx.db).ofAddress.all(actor.accountId, normaliseAddress(email))
    const person = people.find(({ sequenceId }) => sequenceId === sequence.id)
    if (!person) throw notFound('person_not_found', 'The address is not in this sequence.')
    if (endPerson(app, tx, person, 'removed')) auditChange(app, tx, actor, 'sequence.person_removed', sequence.uuid)
  })

/** Newest first. */
export const listPeople = (db: Database, { id }: Sequence, page: RowWindow) => ({
  people: sql(db).page.all(id, belowId(page), page.limit, page.offset),
  total: sql(db).count.get(id)?.n ?? 0,
})

export function toPersonWire(sequence: Sequence, person: Person) {
  const { status, sent, variables } = person
  const isWaiting = status === 'active' && findNextStep(sequence, person.place) !== undefined
  return toWire(PersonRecord, person, {
    ...{ status: status as Static<typeof PersonRecord>['status'], steps_sent: (JSON.parse(sent) as unknown[]).length },
    next_due_at: isoTimeOrNull(isWaiting ? dueTime(sequence, person) : null),
    variables: variables === null ? null : (JSON.parse(variables) as unknown),
  })
}

/** What the sequences of an account have of an address. */
export const listSequencesOf = (db: Database, accountId: number, addressKey: string) =>
  sql(db)
    .ofAddress.all(accountId, addressKey)
    .flatMap((person) => {
      const sequence = findSequence(db, person.sequenceId)
      return sequence ? [{ sequence: sequence.name, ...toPersonWire(sequence, person) }] : []
    })
