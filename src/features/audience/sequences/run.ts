/**
 * @module Sends the steps of sequences: each is a notice that is due when its delay is over. The transaction that accepts
 * its email moves the person on and schedules the next step, so each step is sent exactly once, wherever the process ends,
 * and a machine that slept for days sends one. What the account cannot send waits; what cannot be sent as it is pauses
 * the sequence. A second notice has the people of a sequence follow its changes, in batches.
 */
import { findAccountUuid } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import {
  deleteNotice,
  type Notice,
  type NoticeKind,
  type OwnerNotice,
  scheduleNotice,
} from '#features/core/notices/notices.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { createUnsubscribeToken, createUnsubscribeUrl } from '#features/sending/unsubscribe/headers.ts'
import { type Contact, findContactById } from '#features/setup/contact-store/find.ts'
import { findListById } from '#features/setup/contact-store/lists.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { formatBroadcastData } from '#features/setup/templates/broadcast-data.ts'
import { startRenderSession } from '#features/setup/templates/render.ts'
import { findTemplateByRowId, toTemplateSource } from '#features/setup/templates/templates.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isStorageFailure } from '#platform/disk/storage-errors.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { hours, minutes } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import * as people from './people.ts'
import {
  CHANGE_KIND,
  deleteSequenceRow,
  findNextStep,
  findSequence,
  pauseFailing,
  type Sequence,
  type Step,
} from './sequences.ts'

const sql = prepareStatements((db) => ({
  bounced: db.prepare<{ id: number }, [string]>(
    `SELECT emails.id FROM emails JOIN recipients ON email_id = emails.id WHERE uuid = unhex(?, '-') AND bounce_type = 'hard'`,
  ),
}))

/** Steps of an account that are sent at the same time: each holds its bodies in memory. */
const BATCH_SIZE = 20
/** People who follow a change in one transaction. */
const CHANGE_BATCH_SIZE = 250
const PAUSED_KIND = 'sequence_paused'

/** Thrown to roll back the acceptance of a step when its sequence or person has changed. */
class WithdrawnError extends Error {}

/** The kinds that `core/notices/notices.ts` sends. */
export const createSequenceKinds = (app: App): readonly NoticeKind[] => [
  {
    kind: people.STEP_KIND,
    batchSize: BATCH_SIZE,
    async send(notices) {
      const errors = await Promise.all(notices.map((notice) => sendStep(app, notice).catch((error: unknown) => error)))
      const failure = errors.find(
        (error) => error !== undefined && (!(error instanceof AppError) || isStorageFailure(error)),
      )
      if (failure !== undefined) throw failure
      return errors.some((error) => error !== undefined) ? 'held' : undefined
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
  const batch = sequence ? people.listPeopleAfter(tx.db, sequence, Number(notice.data ?? 0), CHANGE_BATCH_SIZE) : []
  const last = batch.at(-1)
  if (sequence)
    for (const person of batch)
      if (sequence.status === 'deleted') people.deletePerson(tx, person)
      else people.schedulePerson(app, tx, sequence, person)
  if (last) scheduleNotice(app, tx, { ...notice, data: String(last.id) })
  else if (sequence?.status === 'deleted') deleteSequenceRow(tx, sequence.id)
}

interface DueStep {
  readonly sequence: Sequence
  readonly step: Step
  readonly person: people.Person
  readonly contact: Contact | undefined
  readonly accountUuid: UuidBytes
}

/** Sends a step, or ends its person; throws what keeps the account from sending for now. */
async function sendStep(app: App, notice: Notice): Promise<void> {
  const { clock, commit, db } = app
  const person = people.findPerson(db, notice.topic)
  const sequence = person && findSequence(db, person.sequenceId)
  const accountUuid = findAccountUuid(db, notice.accountId)
  if (!person || person.endedAt !== null || sequence?.status !== 'active' || !accountUuid)
    return commit.writeFromReserve((tx) => void deleteNotice(tx, notice))
  const step = findNextStep(sequence, person.place)
  const reason = step && findStopReason(app, sequence, person)
  if (!step || reason !== undefined)
    return commit.writeFromReserve((tx) => {
      if (deleteNotice(tx, notice)) people.endPerson(app, tx, person, reason)
    })
  const actor = createSystemActor({ ...notice, accountUuid })
  const contact = person.contactId === null ? undefined : findContactById(db, person.contactId)
  try {
    const draft = await createStepDraft(app, { sequence, step, person, contact, accountUuid })
    await acceptEmail(app, actor, draft, undefined, (tx, { id: emailId }) => {
      const isSame = findSequence(tx.db, sequence.id)?.updatedAt === sequence.updatedAt
      const isWanted = isSame && findStopReason(app, sequence, person) === undefined
      if (!isWanted || !deleteNotice(tx, notice) || !people.advancePerson(app, tx, person, step.id, emailId))
        throw new WithdrawnError()
      const moved = people.findPerson(tx.db, person.id)
      if (!findNextStep(sequence, step.id)) people.endPerson(app, tx, person)
      else if (moved) people.schedulePerson(app, tx, sequence, moved)
    })
  } catch (error) {
    if (error instanceof WithdrawnError) return
    if (!(error instanceof AppError) || ![404, 413, 422].includes(error.status)) throw error
    const problem = `Step ${sequence.steps.indexOf(step) + 1} cannot be sent: ${error.message}`
    await commit.writeFromReserve((tx) => {
      if (pauseFailing(app, tx, actor, sequence, problem))
        scheduleNotice(app, tx, { ...notice, kind: PAUSED_KIND, topic: sequence.id, dueAt: clock.now() })
    })
  }
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
  const [, last] = (JSON.parse(person.sent) as [number, string][]).at(-1) ?? []
  if (last !== undefined && sql(db).bounced.get(last)) return 'bounced'
  const streamId = findStreamId(db, accountId, stream) ?? 0
  const query = { accountId, address: person.email, transactional: false, streamId, listId: listId ?? undefined }
  const suppression = suppressionOf(db, query)
  return suppression && (REASONS.get(suppression.reason) ?? 'suppressed')
}

/** Throws an AppError that says what is wrong with the step, or that it cannot be rendered at the moment. */
async function createStepDraft(app: App, { sequence, step, person, contact, accountUuid }: DueStep) {
  const { accountId, from, replyTo: reply_to, stream, listId, name } = sequence
  const { email } = person
  const template = findTemplateByRowId(app.db, step.templateId)
  if (!template) throw invalid('template_id', 'Its template was deleted; set another one.', 'template_not_found')
  const list = listId === null ? undefined : findListById(app.db, listId)
  const token = createUnsubscribeToken(app.keys, {
    // The email is not stored yet; its link needs only the address.
    ...{ accountUuid, emailId: 0, recipientId: 0, address: email, senderDomain: domainOfMailbox(from) },
    streamId: list || stream === DEFAULT_STREAM ? 0 : (findStreamId(app.db, accountId, stream) ?? 0),
    listId: list?.id ?? 0,
  })
  const variables = JSON.parse(person.variables ?? '{}') as Record<string, unknown>
  const metadata = { ...(JSON.parse(contact?.metadata ?? '{}') as Record<string, unknown>), ...variables }
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

/** The mail to owners about sequences that the service paused. */
export const SEQUENCE_NOTICE: OwnerNotice = {
  kind: PAUSED_KIND,
  intervalMs: hours(1),
  aheadMs: minutes(1),
  compose(app, { name }, notices) {
    const paused = notices.flatMap(({ topic }) => findSequence(app.db, topic) ?? []).filter((one) => one.pauseReason)
    if (paused.length === 0) return undefined
    const intro = `These sequences of the account ${name} are paused, because a step cannot be sent. Nobody is lost: correct the step and activate the sequence.`
    const reasons = paused.map((sequence) => `${sequence.name}: ${sequence.pauseReason}`)
    return { subject: `A sequence of ${name} is paused`, text: [intro, ...reasons].join('\n\n') }
  },
}
