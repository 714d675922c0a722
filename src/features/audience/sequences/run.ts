/**
 * @module Sends the steps of sequences: each is a notice that is due when its delay is over. The transaction that accepts
 * its email moves the person on and schedules the next step, so each step is sent exactly once, wherever the process ends,
 * and a machine that slept for days sends one. What the account cannot send waits; a step that cannot be sent as it is
 * delays its person only. A second notice has the people of a sequence follow its changes, in batches.
 */
import type { Database } from 'bun:sqlite'
import { isDeepStrictEqual } from 'node:util'
import { findAccountUuid } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { readFence } from '#features/core/fence/restored.ts'
import {
  countRestoredNotices,
  deleteNotice,
  listRestoredNotices,
  type Notice,
  type NoticeKind,
  type OwnerNotice,
  postponeNotice,
  scheduleNotice,
} from '#features/core/notices/notices.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft, type Draft } from '#features/sending/accept/draft.ts'
import { createUnsubscribeToken, createUnsubscribeUrl } from '#features/sending/unsubscribe/headers.ts'
import { findContact } from '#features/setup/contact-store/find.ts'
import { findListById } from '#features/setup/contact-store/lists.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { canonicaliseLocale } from '#features/setup/templates/locale.ts'
import type { Tx } from '#platform/db/commit.ts'
import { isStorageFailure } from '#platform/disk/storage-errors.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import * as people from './people.ts'
import { CHANGE_KIND, findNextStep, findSequence, type Sequence, type Step, toDelayMs } from './sequences.ts'

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

/** Reschedules some people of a sequence, or deletes them after it; the data of the notice is the last one before them. */
function followChange(app: App, tx: Tx, notice: Notice): void {
  // It was changed again: the newer notice begins with the first person.
  if (!deleteNotice(tx, notice)) return
  const sequence = findSequence(tx.db, notice.topic)
  const batch = people.listPeopleAfter(tx.db, notice.topic, Number(notice.data ?? 0), CHANGE_BATCH_SIZE)
  for (const person of batch)
    if (sequence) people.schedulePerson(app, tx, sequence, person)
    else people.deletePerson(tx, person)
  const last = batch.at(-1)
  if (last) scheduleNotice(app, tx, { ...notice, data: String(last.id) })
}

/** Sends a step, ends its person, or postpones it; true if the account cannot send for now. Throws storage errors. */
async function sendStep(app: App, notice: Notice): Promise<boolean> {
  const { clock, commit, db } = app
  const { accountId } = notice
  const person = people.findPerson(db, notice.topic)
  const sequence = person && findSequence(db, person.sequenceId)
  const accountUuid = findAccountUuid(db, accountId)
  // Its sequence or account is being deleted, and it with them.
  if (!sequence || !accountUuid) {
    await commit.writeFromReserve((tx) => deleteNotice(tx, notice))
    return false
  }
  const step = findNextStep(sequence, person.place)
  const reason = people.findStopReason(db, sequence, person)
  const isActive = sequence.definition.status === 'active'
  if (!isActive || !step || reason !== undefined) {
    await commit.writeFromReserve((tx) => {
      if (!deleteNotice(tx, notice)) return
      if (isActive) people.endPerson(app, tx, person, reason ?? null)
      else people.schedulePerson(app, tx, sequence, person)
    })
    return false
  }
  try {
    const draft = createStepDraft(app, { sequence, step, person, accountUuid })
    await acceptEmail(app, createSystemActor({ accountId, accountUuid }), draft, undefined, (tx, { id: emailId }) => {
      const isSame = isDeepStrictEqual(findSequence(tx.db, sequence.id), sequence)
      const isWanted = isSame && people.findStopReason(tx.db, sequence, person) === undefined
      if (!isWanted || !deleteNotice(tx, notice)) throw new WithdrawnError()
      const sent = JSON.stringify([...(JSON.parse(person.sent) as string[]), emailId])
      move(app, tx, sequence, { ...person, place: step.id, sinceAt: clock.now(), sent, reason: null })
    })
  } catch (error) {
    if (error instanceof WithdrawnError) return false
    if (isStorageFailure(error)) throw error
    if (error instanceof AppError && ![404, 413, 422].includes(error.status)) return true
    if (!(error instanceof AppError)) app.log.error({ err: error, accountId }, 'a step of a sequence failed; retrying')
    const why = error instanceof AppError ? error.message : 'The service failed; its log says why.'
    const problem = `Step ${sequence.definition.steps.indexOf(step) + 1} cannot be sent: ${why}`
    await commit.writeFromReserve((tx) => {
      postponeNotice(tx, notice, clock.now() + backoffDelayMs(notice.attempts + 1, RETRY_DELAYS))
      people.storePerson(tx, { ...person, reason: problem })
      scheduleNotice(app, tx, { accountId, kind: FAILED_KIND, topic: sequence.id, data: problem, dueAt: clock.now() })
    })
  }
  return false
}

/** Moves a person on, who ends after the last step. */
function move(app: App, tx: Tx, sequence: Sequence, moved: people.Person): void {
  people.storePerson(tx, moved)
  if (findNextStep(sequence, moved.place)) people.schedulePerson(app, tx, sequence, moved)
  else people.endPerson(app, tx, moved, null)
}

interface DueStep {
  readonly sequence: Sequence
  readonly step: Step
  readonly person: people.Person
  readonly accountUuid: UuidBytes
}

/** The email of a step, in the language of its person if the template has it. Throws an AppError for a wrong sender. */
function createStepDraft(app: App, { sequence, step, person, accountUuid }: DueStep): Draft {
  const { accountId, listId, definition } = sequence
  const { name, from, reply_to, stream } = definition
  const { email } = person
  const { template_alias } = step
  const list = listId === null ? undefined : findListById(app.db, listId)
  const contact = list && findContact(app.db, list.id, email)
  const token = createUnsubscribeToken(app.keys, {
    // The email is not stored yet; its link needs only the address.
    ...{ accountUuid, emailId: 0, recipientId: 0, address: email, senderDomain: domainOfMailbox(from) },
    streamId: list || stream === DEFAULT_STREAM ? 0 : (findStreamId(app.db, accountId, stream) ?? 0),
    listId: list?.id ?? 0,
  })
  const variables = JSON.parse(person.variables ?? '{}') as Record<string, unknown>
  const metadata = { ...(JSON.parse(contact?.metadata ?? '{}') as Record<string, unknown>), ...variables }
  const { locale } = metadata
  const draft = createDraft(app, {
    ...{ from, to: email, reply_to, stream, transactional: false, template_alias },
    locale: typeof locale === 'string' ? (canonicaliseLocale(locale) ?? null) : null,
    template_data: {
      ...variables,
      ...{ sequence: { name }, ...(list && { list: { name: list.name } }) },
      contact: { ...metadata, metadata, id: formatUuid(contact?.uuid ?? person.uuid), email },
      unsubscribe_url: createUnsubscribeUrl(app.config, token),
    },
    metadata: { sequence_id: formatUuid(sequence.uuid), step: template_alias },
  })
  return { ...draft, listId: list?.id }
}

/** How many steps wait as restored that were due before the restore, so that the lost time may have sent them. */
export const countRestoredSteps = (db: Database): number =>
  countRestoredNotices(db, [people.STEP_KIND], readFence(db)?.fencedAt)

/** Moves people past the steps that the lost time may have sent, because the operator dropped what was restored. */
export async function skipRestoredSteps(app: App): Promise<void> {
  const before = readFence(app.db)?.fencedAt ?? 0
  for (;;) {
    const notices = listRestoredNotices(app.db, people.STEP_KIND, before, CHANGE_BATCH_SIZE)
    if (notices.length === 0) return
    await app.commit.writeFromReserve((tx) => {
      for (const notice of notices) {
        const person = people.findPerson(tx.db, notice.topic)
        const sequence = person && findSequence(tx.db, person.sequenceId)
        if (!deleteNotice(tx, notice) || !sequence) continue
        let { place, sinceAt } = person
        for (let step = findNextStep(sequence, place); step && sinceAt + toDelayMs(step) <= before; ) {
          sinceAt += toDelayMs(step)
          place = step.id
          step = findNextStep(sequence, place)
        }
        move(app, tx, sequence, { ...person, place, sinceAt, reason: null })
      }
    })
  }
}

/** The mail to owners about sequences whose steps cannot be sent. */
export const SEQUENCE_NOTICE: OwnerNotice = {
  kind: FAILED_KIND,
  intervalMs: days(1),
  aheadMs: minutes(1),
  compose(app, { name }, notices) {
    const problems = notices.flatMap(({ topic, data }) => {
      const { definition } = findSequence(app.db, topic) ?? {}
      return definition?.status === 'active' ? [`${definition.name}: ${data}`] : []
    })
    if (problems.length === 0) return undefined
    const intro = `Steps of these sequences of the account ${name} cannot be sent to some people, whom the sequence shows with the reason. Nobody is lost: correct the step or its template, and what waits is sent within an hour.`
    return { subject: `A sequence of ${name} cannot send a step`, text: [intro, ...problems].join('\n\n') }
  },
}
