/**
 * @module Sends the steps of sequences: each is a notice that is due when its delay is over. The transaction that accepts
 * its email moves the person on and schedules the next step, so each step is sent exactly once, wherever the process ends,
 * and a machine that slept for days sends one. What the account cannot send waits; a step that cannot be sent as it is
 * delays its person only. A second notice has the people of a sequence follow its changes, in batches.
 */
import { findAccountUuid } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import {
  deleteNotice,
  type Notice,
  type NoticeKind,
  type OwnerNotice,
  postponeNotice,
  scheduleNotice,
} from '#features/core/notices/notices.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { createUnsubscribeToken, createUnsubscribeUrl } from '#features/sending/unsubscribe/headers.ts'
import { findContactById } from '#features/setup/contact-store/find.ts'
import { findListById } from '#features/setup/contact-store/lists.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { formatBroadcastData } from '#features/setup/templates/broadcast-data.ts'
import { canonicaliseLocale, listFallbacks } from '#features/setup/templates/locale.ts'
import { startRenderSession } from '#features/setup/templates/render.ts'
import {
  findTemplateByAlias,
  findTemplateById,
  type Template,
  toTemplateSource,
} from '#features/setup/templates/templates.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isStorageFailure } from '#platform/disk/storage-errors.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import * as people from './people.ts'
import { CHANGE_KIND, deleteSequenceRow, findNextStep, findSequence, type Sequence, type Step } from './sequences.ts'

const sql = prepareStatements((db) => ({
  bounced: db.prepare<{ id: number }, [string]>(
    `SELECT emails.id FROM emails JOIN recipients ON email_id = emails.id WHERE uuid = unhex(?, '-') AND bounce_type = 'hard'`,
  ),
}))

/** Steps of an account that are sent at the same time: each holds its bodies in memory. */
const BATCH_SIZE = 20
/** People who follow a change in one transaction. */
const CHANGE_BATCH_SIZE = 250
/** Delays of a person whose step cannot be sent. */
const RETRY_DELAYS = { minMs: minutes(1), maxMs: hours(1) }
/** The notice to owners; its data is the last problem. */
const FAILED_KIND = 'sequence_failed'

/** Thrown to roll back the acceptance of a step when its sequence or person has changed. */
class WithdrawnError extends Error {}

/** The kinds that `core/notices/notices.ts` sends. */
export const createSequenceKinds = (app: App): readonly NoticeKind[] => [
  {
    kind: people.STEP_KIND,
    batchSize: BATCH_SIZE,
    async send(notices) {
      const results = await Promise.allSettled(notices.map((notice) => sendStep(app, notice)))
      const failed = results.find(({ status }) => status === 'rejected')
      if (failed?.status === 'rejected') throw failed.reason
      return results.some((result) => result.status === 'fulfilled' && result.value) ? 'held' : undefined
    },
  },
  {
    kind: CHANGE_KIND,
    batchSize: 1,
    async send([notice]) {
      if (notice) await app.commit.writeFromReserve((tx) => followChange(app, tx, notice))
      return undefined
    },
  },
]

/** Reschedules some people of a sequence, or deletes them with it; the data of the notice is the last one before them. */
function followChange(app: App, tx: Tx, notice: Notice): void {
  // It was changed again: the newer notice begins with the first person.
  if (!deleteNotice(tx, notice)) return
  const sequence = findSequence(tx.db, notice.topic)
  if (!sequence) return
  const isDeleted = sequence.status === 'deleted'
  const batch = people.listPeopleAfter(tx.db, sequence, Number(notice.data ?? 0), CHANGE_BATCH_SIZE)
  for (const person of batch)
    if (isDeleted) people.deletePerson(tx, person)
    else people.schedulePerson(app, tx, sequence, person)
  const last = batch.at(-1)
  if (last) scheduleNotice(app, tx, { ...notice, data: String(last.id) })
  else if (isDeleted) deleteSequenceRow(tx, sequence.id)
}

interface DueStep {
  readonly sequence: Sequence
  readonly step: Step
  readonly person: people.Person
  readonly accountUuid: UuidBytes
}

/** Sends a step, ends its person, or postpones it; true if the account cannot send for now. Throws storage errors. */
async function sendStep(app: App, notice: Notice): Promise<boolean> {
  const { clock, commit, db } = app
  const { accountId } = notice
  const person = people.findPerson(db, notice.topic)
  const sequence = person && findSequence(db, person.sequenceId)
  const accountUuid = findAccountUuid(db, accountId)
  const step = person && sequence && findNextStep(sequence, person.place)
  const isOver = !person || person.endedAt !== null || sequence?.status !== 'active' || !accountUuid
  const reason = isOver || !step ? undefined : findStopReason(app, sequence, person)
  if (isOver || !step || reason !== undefined) {
    await commit.writeFromReserve((tx) => {
      if (deleteNotice(tx, notice) && !isOver) people.endPerson(app, tx, person, reason)
    })
    return false
  }
  try {
    const draft = await createStepDraft(app, { sequence, step, person, accountUuid })
    await acceptEmail(app, createSystemActor({ accountId, accountUuid }), draft, undefined, (tx, { id: emailId }) => {
      const isSame = findSequence(tx.db, sequence.id)?.updatedAt === sequence.updatedAt
      const isWanted = isSame && findStopReason(app, sequence, person) === undefined
      if (!isWanted || !deleteNotice(tx, notice) || !people.advancePerson(app, tx, person, step.id, emailId))
        throw new WithdrawnError()
      const moved = people.findPerson(tx.db, person.id)
      if (!findNextStep(sequence, step.id)) people.endPerson(app, tx, person)
      else if (moved) people.schedulePerson(app, tx, sequence, moved)
    })
  } catch (error) {
    if (error instanceof WithdrawnError) return false
    if (isStorageFailure(error)) throw error
    if (error instanceof AppError && ![404, 413, 422].includes(error.status)) return true
    if (!(error instanceof AppError)) app.log.error({ err: error, accountId }, 'a step of a sequence failed; retrying')
    const why = error instanceof AppError ? error.message : 'The service failed; its log says why.'
    const problem = `Step ${sequence.steps.indexOf(step) + 1} cannot be sent: ${why}`
    await commit.writeFromReserve((tx) => {
      postponeNotice(tx, notice, clock.now() + backoffDelayMs(notice.attempts + 1, RETRY_DELAYS))
      people.explainDelay(tx, person, problem)
      scheduleNotice(app, tx, { accountId, kind: FAILED_KIND, topic: sequence.id, data: problem, dueAt: clock.now() })
    })
  }
  return false
}

const REASONS = new Map([
  ['unsubscribe', 'unsubscribed'],
  ['hard_bounce', 'bounced'],
  ['complaint', 'complained'],
])

/** Why a person gets no further step; undefined: nothing stops it. */
function findStopReason({ db }: App, { accountId, listId, stream }: Sequence, person: people.Person) {
  if (listId !== null) {
    const contact = findContactById(db, person.contactId ?? 0)
    if (!contact || contact.listId !== listId || contact.status === 'pending' || !findListById(db, listId))
      return 'removed'
    if (contact.status !== 'active') return contact.status
  }
  const last = (JSON.parse(person.sent) as string[]).at(-1)
  if (last !== undefined && sql(db).bounced.get(last)) return 'bounced'
  const streamId = findStreamId(db, accountId, stream ?? '') ?? 0
  const query = { accountId, address: person.email, transactional: false, streamId, listId: listId ?? undefined }
  const suppression = suppressionOf(db, query)
  return suppression && (REASONS.get(suppression.reason) ?? 'suppressed')
}

/** The template of a step in the language of a person, if there is one. */
function findStepTemplate({ db }: App, accountId: number, step: Step, locale: unknown): Template {
  const named = findTemplateById(db, accountId, step.template_id)
  if (!named) throw invalid('template_id', 'Its template was deleted; set another one.', 'template_not_found')
  const tag = typeof locale === 'string' ? canonicaliseLocale(locale) : undefined
  for (const candidate of tag === undefined ? [] : listFallbacks(tag)) {
    const found = findTemplateByAlias(db, accountId, named.alias, candidate)
    if (found) return found
  }
  return named
}

/** Throws an AppError that says what is wrong with the step, or that it cannot be rendered at the moment. */
async function createStepDraft(app: App, { sequence, step, person, accountUuid }: DueStep) {
  const { accountId, from, reply_to, listId, name } = sequence
  const stream = sequence.stream ?? DEFAULT_STREAM
  const { email } = person
  const contact = findContactById(app.db, person.contactId ?? 0)
  const list = listId === null ? undefined : findListById(app.db, listId)
  const token = createUnsubscribeToken(app.keys, {
    // The email is not stored yet; its link needs only the address.
    ...{ accountUuid, emailId: 0, recipientId: 0, address: email, senderDomain: domainOfMailbox(from) },
    streamId: list || stream === DEFAULT_STREAM ? 0 : (findStreamId(app.db, accountId, stream) ?? 0),
    listId: list?.id ?? 0,
  })
  const variables = JSON.parse(person.variables ?? '{}') as Record<string, unknown>
  const metadata = { ...(JSON.parse(contact?.metadata ?? '{}') as Record<string, unknown>), ...variables }
  const template = findStepTemplate(app, accountId, step, metadata['locale'])
  const shared = { ...variables, sequence: { name }, ...(list && { list: { name: list.name } }) }
  using rendering = startRenderSession(app)
  const parts = await rendering.render({
    accountId,
    urgency: 'bulk',
    source: toTemplateSource({ ...template, subject: step.subject ?? template.subject }),
    dataJson: formatBroadcastData({
      shared: JSON.stringify(shared),
      contact: { id: formatUuid(contact?.uuid ?? person.uuid), email, metadata },
      unsubscribeUrl: createUnsubscribeUrl(app.config, token),
    }),
  })
  const draft = createDraft(app, {
    ...{ from, to: email, reply_to, stream, transactional: false },
    ...{ subject: parts.subject ?? null, html_body: parts.html ?? null, text_body: parts.text ?? null },
    metadata: { sequence_id: formatUuid(sequence.uuid), step_id: step.id },
  })
  return { ...draft, listId: list?.id, templateId: template.id }
}

/** The mail to owners about sequences whose steps cannot be sent. */
export const SEQUENCE_NOTICE: OwnerNotice = {
  kind: FAILED_KIND,
  intervalMs: days(1),
  aheadMs: minutes(1),
  compose(app, { name }, notices) {
    const problems = notices.flatMap(({ topic, data }) => {
      const sequence = findSequence(app.db, topic)
      return sequence?.status === 'active' ? [`${sequence.name}: ${data}`] : []
    })
    if (problems.length === 0) return undefined
    const intro = `Steps of these sequences of the account ${name} cannot be sent to some people, whom the sequence shows with the reason. Nobody is lost: correct the step or its template, and what waits is sent within an hour.`
    return { subject: `A sequence of ${name} cannot send a step`, text: [intro, ...problems].join('\n\n') }
  },
}
