/**
 * @module The people in a sequence: they enter by their contact list, by an event or by hand, once, and stop when they
 * answer, leave, bounce or do what an event says. What stops an address elsewhere is found before each step.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App, Reply } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { cancelNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { engagementBit } from '#features/sending/queue/settle.ts'
import { findContact, findContactById } from '#features/setup/contact-store/find.ts'
import type { Tx } from '#platform/db/commit.ts'
import { insertSql, prepareStatements } from '#platform/db/open.ts'
import { belowId, type RowWindow } from '#platform/db/row-window.ts'
import { conflict, invalid, notFound } from '#platform/errors.ts'
import { isoTimeOrNull } from '#platform/http/envelope.ts'
import { mapFromPhp } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import { newUuid } from '#platform/ids.ts'
import { KiB, seconds } from '#platform/units.ts'
import { normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import { type PERSON_STATES, PersonRecord } from './model.ts'
import { findNextStep, findSequence, getSequence, listOfList, listSequences, type Sequence } from './sequences.ts'
import type { sequencePeople } from './tables.ts'

export type Person = Readonly<typeof sequencePeople.$inferSelect>
type Status = (typeof PERSON_STATES)[number]

/** The notice whose time is that of the next step; its topic is the person. */
export const STEP_KIND = 'sequence_step'
const MAX_VARIABLES_BYTES = 8 * KiB
/** Of those who enter by events or by hand; contacts are limited by the plan. */
const MAX_ACTIVE = 100_000
/** People whose emails are counted, which takes some milliseconds. */
const MAX_COUNTED = 2000

const SELECT = `SELECT id, uuid, account_id AS accountId, sequence_id AS sequenceId, address_key AS addressKey, email, contact_id AS contactId,
  variables, state, reason, place, since_at AS sinceAt, sent, created_at AS createdAt, ended_at AS endedAt FROM sequence_people`
const countSql = (event: 'opened' | 'clicked') =>
  `coalesce(sum(engagement & ${engagementBit(event)} <> 0), 0) AS ${event}`

const sql = prepareStatements((db) => ({
  enter: db.prepare<{ id: number }, [Record<string, string | number | Uint8Array | null>]>(
    `${insertSql('sequence_people', 'uuid accountId sequenceId addressKey email contactId variables state place sinceAt sent createdAt')}
     ON CONFLICT DO NOTHING RETURNING id`,
  ),
  byId: db.prepare<Person, [number]>(`${SELECT} WHERE id = ?`),
  one: db.prepare<Person, [number, string]>(`${SELECT} WHERE sequence_id = ? AND address_key = ?`),
  ofAddress: db.prepare<Person, [number, string]>(`${SELECT} WHERE account_id = ? AND address_key = ?`),
  after: db.prepare<Person, [number, number, number]>(`${SELECT} WHERE sequence_id = ? AND id > ? ORDER BY id LIMIT ?`),
  recipients: db.prepare<{ address: string }, [number]>('SELECT address FROM recipients WHERE email_id = ?'),
  end: db.prepare('UPDATE sequence_people SET state = ?, reason = ?, ended_at = ? WHERE id = ? AND ended_at IS NULL'),
  advance: db.prepare(
    `UPDATE sequence_people SET place = ?1, since_at = ?2, sent = json_insert(sent, '$[#]', json_array(?1, ?3))
     WHERE id = ?4 AND place = ?5 AND ended_at IS NULL`,
  ),
  // All of them, or those of a state, each in the order of an index.
  page: db.prepare<Person, [number, number, number, number]>(
    `${SELECT} INDEXED BY sequence_people_page WHERE sequence_id = ? AND id < ? ORDER BY id DESC LIMIT ? OFFSET ?`,
  ),
  pageOf: db.prepare<Person, [number, string, number, number, number]>(
    `${SELECT} INDEXED BY sequence_people_state WHERE sequence_id = ? AND state = ? AND id < ? ORDER BY id DESC LIMIT ? OFFSET ?`,
  ),
  count: db.prepare<{ n: number }, [number]>('SELECT count(*) AS n FROM sequence_people WHERE sequence_id = ?'),
  countOf: db.prepare<{ n: number }, [number, string]>(
    'SELECT count(*) AS n FROM sequence_people WHERE sequence_id = ? AND state = ?',
  ),
  figures: db.prepare<Record<'id' | 'sent' | 'delivered' | 'opened' | 'clicked', number>, [number, number]>(
    `SELECT s.value ->> 0 AS id, count(*) AS sent, count(delivered_at) AS delivered, ${countSql('opened')}, ${countSql('clicked')}
     FROM (SELECT sent FROM sequence_people INDEXED BY sequence_people_page WHERE sequence_id = ? ORDER BY id DESC LIMIT ?),
       json_each(sent) s LEFT JOIN emails ON emails.uuid = unhex(s.value ->> 1, '-') GROUP BY 1`,
  ),
  delete: db.prepare('DELETE FROM sequence_people WHERE id = ?'),
}))

export const findPerson = (db: Database, id: number): Person | undefined => sql(db).byId.get(id) ?? undefined

/** The next people of a sequence, by row id. */
export const listPeopleAfter = (db: Database, { id }: Sequence, after: number, limit: number): Person[] =>
  sql(db).after.all(id, after, limit)

export type EnterApp = Pick<App, 'clock' | 'noticeDue'>

/** Schedules the next step of a person, or cancels it while its sequence is not active. */
export function schedulePerson(app: EnterApp, tx: Tx, sequence: Sequence, person: Person): void {
  const { id: topic, accountId, place, sinceAt, endedAt } = person
  const isDue = endedAt === null && sequence.status === 'active'
  const dueAt = sinceAt + seconds(findNextStep(sequence, place)?.delay ?? 0)
  if (isDue) scheduleNotice(app, tx, { accountId, kind: STEP_KIND, topic, dueAt })
  else cancelNotice(tx, STEP_KIND, topic)
}

interface Entry {
  readonly email: string
  readonly contactId?: number | undefined
  /** JSON object. */
  readonly variables?: string | undefined
}

/** Enters an address; undefined if it is or was in the sequence. */
function enter(app: EnterApp, tx: Tx, sequence: Sequence, { email, contactId, variables }: Entry): Person | undefined {
  const { id: sequenceId, accountId } = sequence
  const now = app.clock.now()
  const row = { uuid: newUuid(), accountId, sequenceId, addressKey: normaliseAddress(email), email }
  const start = { state: 'active', place: 0, sinceAt: now, sent: '[]', createdAt: now }
  const optional = { contactId: contactId ?? null, variables: variables ?? null }
  const entered = sql(tx.db).enter.get({ ...row, ...start, ...optional })
  const person = entered && findPerson(tx.db, entered.id)
  if (person) schedulePerson(app, tx, sequence, person)
  return person ?? undefined
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

type Input = { readonly email: string; readonly variables?: Parameters<typeof mapFromPhp>[0] | null }

function checkEntry({ email, variables }: Input): Entry {
  const parsed = parseMailbox(email)
  if (parsed.kind === 'invalid') throw invalid('email', parsed.reason, 'invalid_address')
  const json = variables ? JSON.stringify(mapFromPhp(variables)) : undefined
  if (Buffer.byteLength(json ?? '') <= MAX_VARIABLES_BYTES) return { email: parsed.address, variables: json }
  throw invalid('variables', `variables must have at most ${MAX_VARIABLES_BYTES} bytes of JSON.`)
}

function requireCapacity(db: Database, { id }: Sequence): void {
  if ((sql(db).countOf.get(id, 'active')?.n ?? 0) >= MAX_ACTIVE)
    throw conflict('too_many_people', `At most ${MAX_ACTIVE} people can be active in a sequence.`)
}

/** An event of the account: its address enters the sequences that it starts, and stops in those that it ends. */
export function recordEvent(app: App, actor: Actor, { name, ...input }: Input & { readonly name: string }) {
  const entry = checkEntry(input)
  return app.commit.write((tx) => {
    const sequences = listSequences(tx.db, actor.accountId).filter(({ status }) => status !== 'draft')
    const ending = new Set(sequences.filter(({ stopEvent }) => stopEvent === name).map(({ id }) => id))
    const people = sql(tx.db).ofAddress.all(actor.accountId, normaliseAddress(entry.email))
    const stopped = people.filter((one) => ending.has(one.sequenceId) && endPerson(app, tx, one, 'event'))
    const starting = sequences.filter(({ event }) => event === name)
    for (const sequence of starting) requireCapacity(tx.db, sequence)
    return { entered: starting.filter((one) => enter(app, tx, one, entry)).length, stopped: stopped.length }
  })
}

/** Adds an address. Throws 404, 422, and 409 for a draft, and for an address that is or was in the sequence. */
export function addPerson(app: App, actor: Actor, id: string, input: Input) {
  const entry = checkEntry(input)
  return app.commit.write((tx) => {
    const sequence = getSequence(tx.db, actor.accountId, id)
    if (sequence.status === 'draft')
      throw conflict('sequence_not_active', 'The sequence is a draft; activate it first.')
    const contact = sequence.listId === null ? undefined : findContact(tx.db, sequence.listId, entry.email)
    if (sequence.listId !== null && contact?.status !== 'active')
      throw invalid('email', 'The address is no active contact of the list of this sequence.', 'contact_not_found')
    requireCapacity(tx.db, sequence)
    const person = enter(app, tx, sequence, { ...entry, contactId: contact?.id })
    if (!person) throw conflict('person_exists', 'The address is in this sequence, or was.')
    auditChange(app, tx, actor, 'sequence.person_added', sequence.uuid)
    return toPersonWire(sequence, person)
  })
}

/** Stops a person, who does not enter again. Throws 404. */
export const removePerson = (app: App, actor: Actor, id: string, email: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const sequence = getSequence(tx.db, actor.accountId, id)
    const person = sql(tx.db).one.get(sequence.id, normaliseAddress(email))
    if (!person) throw notFound('person_not_found', 'The address is not in this sequence.')
    if (endPerson(app, tx, person, 'removed')) auditChange(app, tx, actor, 'sequence.person_removed', sequence.uuid)
  })

/** Newest first. */
export function listPeople(db: Database, { id }: Sequence, status: Status | undefined, page: RowWindow) {
  const { limit, offset } = page
  return status
    ? {
        people: sql(db).pageOf.all(id, status, belowId(page), limit, offset),
        total: sql(db).countOf.get(id, status)?.n ?? 0,
      }
    : { people: sql(db).page.all(id, belowId(page), limit, offset), total: sql(db).count.get(id)?.n ?? 0 }
}

export function toPersonWire(sequence: Sequence, person: Person) {
  const { state, sent, variables, endedAt, place, sinceAt } = person
  const next = endedAt === null ? findNextStep(sequence, place) : undefined
  return toWire(PersonRecord, person, {
    ...{ status: state as Status, steps_sent: (JSON.parse(sent) as unknown[]).length },
    next_due_at: isoTimeOrNull(next ? sinceAt + seconds(next.delay) : null),
    variables: variables === null ? null : (JSON.parse(variables) as unknown),
  })
}

/** By id of the step, what became of the emails to the newest people. */
export const readFigures = (db: Database, { id }: Sequence) =>
  new Map(
    sql(db)
      .figures.all(id, MAX_COUNTED)
      .map(({ id: step, ...figures }) => [step, figures]),
  )

/** What the sequences of an account have of an address. */
export const listSequencesOf = (db: Database, accountId: number, addressKey: string) =>
  sql(db)
    .ofAddress.all(accountId, addressKey)
    .flatMap((person) => {
      const sequence = findSequence(db, person.sequenceId)
      return sequence ? [{ sequence: sequence.name, ...toPersonWire(sequence, person) }] : []
    })
