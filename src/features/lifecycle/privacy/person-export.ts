/**
 * @module Exports everything that an account has about one person, by address, as one streamed JSON text with contents.
 * Omits the other recipients of shared emails.
 */

import { contactWire } from '#features/audience/contact-lists/model.ts'
import { listSequencesOf } from '#features/audience/sequences/sequences.ts'
import { suppressionWire } from '#features/audience/suppressions/model.ts'
import { listSuppressions } from '#features/audience/suppressions/suppressions.ts'
import { EXPORT_WORK_UNITS } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { createBodyReader } from '#features/core/app/stored-content.ts'
import { toEventWire } from '#features/core/events/model.ts'
import { findMailboxById } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { findMessageById } from '#features/receiving/agent-mailboxes/messages.ts'
import { toMessageFields } from '#features/receiving/agent-mailboxes/model.ts'
import { findMessagesOfPerson } from '#features/receiving/agent-mailboxes/removal.ts'
import { findInboundById, findInboundOfPerson } from '#features/receiving/inbound/api/inbound-emails.ts'
import { toInboundWire } from '#features/receiving/inbound/api/model.ts'
import { createMaxAttempts } from '#features/sending/delivery/verdict/outcome.ts'
import { findEmail, readEmailEvents, type StoredEmail } from '#features/sending/emails/read.ts'
import { emailRowWire, isSystemMail, type RenderBodies, recipientWire } from '#features/sending/emails/wire.ts'
import { findEmailsTo } from '#features/sending/queue/erase.ts'
import { findContactsOf } from '#features/setup/contact-store/find.ts'
import { findListById } from '#features/setup/contact-store/lists.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { streamJson } from '#platform/http/download.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { perOwner } from '#platform/per-owner.ts'
import { Counts } from '#platform/queue/counts.ts'
import { requirePerson } from './erase.ts'
import type { Person } from './person.ts'

const sql = prepareStatements((db) => ({
  uuid: db.prepare<{ uuid: Uint8Array }, [number]>('SELECT uuid FROM emails WHERE id = ?'),
}))

/** Rows read per tick of the event loop. */
const ROWS_PER_TICK = 20
const SUPPRESSIONS_PER_BATCH = 100

/** Concurrent exports per account: each scans all rows, including those of other accounts. */
const MAX_CONCURRENT_EXPORTS = 2
const RUNNING_RETRY_SECONDS = 30
const getRunningExports = perOwner((_: App) => new Counts())

/** Responds with the export; throws 422 for an invalid address, 429 while too many exports run. */
export function exportPerson(
  app: App,
  actor: Actor,
  email: string | undefined,
  { request, renderedBodies }: { readonly request: Request; readonly renderedBodies: RenderBodies },
): Response {
  const person = requirePerson(email)
  if (request.method === 'HEAD') return new Response(null, { headers: { 'content-type': 'application/json' } })
  const { accountId } = actor
  const running = getRunningExports(app)
  if (running.of(accountId) >= MAX_CONCURRENT_EXPORTS)
    throw tooManyRequests(
      'export_running',
      `${MAX_CONCURRENT_EXPORTS} exports of persons are running; read them to their end, or try again afterwards.`,
      RUNNING_RETRY_SECONDS,
    )
  app.workBudget.spend(accountId, EXPORT_WORK_UNITS)
  const response = streamJson(app, request, generateExport(app, actor, person, renderedBodies), {
    filename: 'person.json',
    onEnded: () => running.add(accountId, -1),
  })
  running.add(accountId, 1)
  return response
}

async function* generateExport(
  app: App,
  actor: Actor,
  person: Person,
  renderedBodies: RenderBodies,
): AsyncGenerator<string, void> {
  /** Row ids, collected once because several parts need them. */
  const emailIds: number[] = []
  yield `{"exported_at":${JSON.stringify(isoTime(app.clock.now()))},"data":{"email_address":${JSON.stringify(person.addressKey)}`
  yield* generateArray('emails', emails(app, actor, person, renderedBodies, emailIds))
  yield* generateArray('events', events(app, actor, person, emailIds))
  yield* generateArray('suppressions', suppressions(app, actor, person))
  yield* generateArray(
    'unsubscribe_events',
    events(app, actor, person, emailIds, ({ type }) => type === 'unsubscribed'),
  )
  yield* generateArray('inbound_emails', inbound(app, actor, person))
  yield* generateArray('contacts', contacts(app, actor, person))
  yield* generateArray('sequences', listSequencesOf(app.db, actor.accountId, person.addressKey))
  yield* generateArray('mailbox_messages', messages(app, actor, person))
  yield '}}'
}

/** Yields a field with an array; an undefined record only yields to the event loop. */
async function* generateArray(
  name: string,
  records: Iterable<unknown> | AsyncIterable<unknown>,
): AsyncGenerator<string, void> {
  yield `,${JSON.stringify(name)}:[`
  let separator = ''
  for await (const record of records) {
    if (record === undefined) {
      yield ''
      continue
    }
    yield separator + JSON.stringify(record)
    separator = ','
  }
  yield ']'
}

async function readBodies(app: App, email: StoredEmail, renderedBodies: RenderBodies) {
  // A password link must reach no other person.
  if (isSystemMail(email)) return { html_body: null, text_body: null }
  if (!email.isOfBroadcast) return readStoredBodies(app, email)
  const { html = null, text = null } = await renderedBodies(email.id)
  return { html_body: html, text_body: text }
}

/**
 * The records of the rows that a search finds, by row id; undefined after each step of the search.
 * @param find searches some rows after an id
 */
async function* readFound(
  find: (after: number) => { readonly ids: readonly number[]; readonly next?: number | undefined },
  read: (id: number) => unknown,
): AsyncGenerator<unknown, void> {
  for (let after: number | undefined = 0; after !== undefined; ) {
    const found: ReturnType<typeof find> = find(after)
    for (const id of found.ids) {
      const record = await read(id)
      if (record !== undefined) yield record
    }
    after = found.next
    yield undefined
  }
}

function emails(
  app: App,
  { accountId }: Actor,
  { addressKey, is }: Person,
  renderedBodies: RenderBodies,
  emailIds: number[],
): AsyncGenerator<unknown, void> {
  const attempts = createMaxAttempts(app.config.retryExpiryHours)
  return readFound(
    (after) => findEmailsTo(app.db, { accountId, addressKey, isMatch: is, after, limit: ROWS_PER_TICK }),
    async (id) => {
      const email = findEmailById(app, accountId, id)
      if (!email) return undefined
      emailIds.push(id)
      const recipients = email.recipients.filter(({ address }) => is(address))
      return {
        ...emailRowWire({ ...email, recipients }, attempts),
        recipients: recipients.map(recipientWire),
        ...(await readBodies(app, email, renderedBodies)),
      }
    },
  )
}

function findEmailById(app: App, accountId: number, id: number): StoredEmail | undefined {
  const uuid = sql(app.db).uuid.get(id)?.uuid
  return uuid && findEmail(app.db, accountId, uuid)
}

/** Null for a body that is removed. */
function readStoredBodies(app: App, { htmlRef, textRef }: Pick<StoredEmail, 'htmlRef' | 'textRef'>) {
  const { read } = createBodyReader(app)
  return { html_body: read(htmlRef), text_body: read(textRef) }
}

function* events(
  app: App,
  { accountId, accountUuid }: Actor,
  { is }: Person,
  emailIds: readonly number[],
  isWanted: (event: { readonly type: string }) => boolean = () => true,
): Generator<unknown, void> {
  for (const id of emailIds) {
    const email = findEmailById(app, accountId, id)
    if (!email) continue
    const wire = emailRowWire(email, () => 0)
    for (const event of readEmailEvents(app, accountId, id))
      if (isWanted(event) && (event.recipient === null || is(event.recipient)))
        yield toEventWire(event, wire.id, { accountId, accountUuid }, app.keys)
    yield undefined
  }
}

function* suppressions(
  { db }: App,
  { accountId, accountUuid }: Actor,
  { addressKey }: Person,
): Generator<unknown, void> {
  for (let offset = 0; ; offset += SUPPRESSIONS_PER_BATCH) {
    const page = { limit: SUPPRESSIONS_PER_BATCH, offset }
    const rows = listSuppressions(db, accountId, { address: addressKey }, page).suppressions
    for (const row of rows) yield suppressionWire(row, accountUuid)
    if (rows.length < SUPPRESSIONS_PER_BATCH) return
    yield undefined
  }
}

const inbound = (app: App, { accountId, accountUuid }: Actor, { isNamedIn: isIn }: Person) =>
  readFound(
    (after) => findInboundOfPerson(app.db, { accountId, after, isIn, max: ROWS_PER_TICK }),
    (id) => {
      const email = findInboundById(app.db, id)
      return email && { ...toInboundWire(email, accountUuid), ...readStoredBodies(app, email) }
    },
  )

function* contacts({ db }: App, { accountId, accountUuid }: Actor, { addressKey }: Person): Generator<unknown, void> {
  for (const contact of findContactsOf(db, accountId, addressKey)) {
    const list = findListById(db, contact.listId)
    if (list) yield contactWire(contact, list, accountUuid)
  }
}

const messages = (app: App, { accountId }: Actor, { isNamedIn: isIn }: Person) =>
  readFound(
    (after) => findMessagesOfPerson(app.db, { accountId, after, isIn, max: ROWS_PER_TICK }),
    (id) => {
      const message = findMessageById(app.db, id)
      const mailbox = message && findMailboxById(app.db, message.mailboxId)
      return message && mailbox && { ...toMessageFields(message, mailbox), ...readStoredBodies(app, message) }
    },
  )
