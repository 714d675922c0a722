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
import type { Tx } from '#platform/db/open.ts'
import { isStorageFailure } from '#platform/disk/storage-errors.ts'
import { AppError, conflict } from '#platform/errors.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { hours, minutes } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import {
  CHANGE_KIND,
  deletePerson,
  findPerson,
  findSequence,
  listPeopleAfter,
  type Person,
  placePerson,
  type Sequence,
  STEP_KIND,
  type Step,
  schedulePerson,
  storePerson,
  toDelayMs,
} from './sequences.ts'

/** Steps of an account that are sent at the same time: each holds its bodies in memory. */
const BATCH_SIZE = 20
/** People who follow a change in one transaction. */
const CHANGE_BATCH_SIZE = 250
/** Delays of a person whose step cannot be sent. */
const RETRY_DELAYS = { minMs: minutes(1), maxMs: hours(1) }

/** The kinds that `core/notices/notices.ts` sends. */
export const createSequenceKinds = (app: App): readonly NoticeKind[] => [
  {
    kind: STEP_KIND,
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
  const batch = listPeopleAfter(tx.db, notice.topic, Number(notice.data ?? 0), CHANGE_BATCH_SIZE)
  for (const person of batch)
    if (sequence) schedulePerson(app, tx, sequence, person)
    else deletePerson(tx, person)
  const last = batch.at(-1)
  if (last) scheduleNotice(app, tx, { ...notice, data: String(last.id) })
}

/** Sends a step, ends its person, or postpones it; true if the account cannot send for now. Throws storage errors. */
async function sendStep(app: App, notice: Notice): Promise<boolean> {
  const { clock, commit, db } = app
  const { accountId } = notice
  const found = findPerson(db, notice.topic)
  const accountUuid = findAccountUuid(db, accountId)
  if (!found?.step || found.reason !== undefined || found.sequence.definition.status !== 'active' || !accountUuid) {
    await commit.writeFromReserve((tx) => {
      if (!deleteNotice(tx, notice) || !found || !accountUuid) return
      placePerson(app, tx, found.sequence, found.person, found.reason)
    })
    return false
  }
  const { person, sequence, step } = found
  try {
    const draft = createStepDraft(app, sequence, step, person, accountUuid)
    await acceptEmail(app, createSystemActor({ accountId, accountUuid }), draft, undefined, (tx, { id: emailId }) => {
      if (!isDeepStrictEqual(findPerson(tx.db, notice.topic), found) || !deleteNotice(tx, notice))
        throw conflict('sequence_changed', 'The sequence or the person has changed.')
      const sent = JSON.stringify([...(JSON.parse(person.sent) as string[]), emailId])
      placePerson(app, tx, sequence, { ...person, place: step.id, sinceAt: clock.now(), sent, reason: null })
    })
  } catch (error) {
    if (isStorageFailure(error)) throw error
    if (error instanceof AppError && ![404, 413, 422].includes(error.status)) return true
    if (!(error instanceof AppError)) app.log.error({ err: error, accountId }, 'a step of a sequence failed; retrying')
    const why = error instanceof AppError ? error.message : 'The service failed; its log says why.'
    const reason = `Step ${sequence.definition.steps.indexOf(step) + 1} cannot be sent: ${why}`
    await commit.writeFromReserve((tx) => {
      postponeNotice(tx, notice, clock.now() + backoffDelayMs(notice.attempts + 1, RETRY_DELAYS))
      storePerson(tx, { ...person, reason })
    })
  }
  return false
}

/** The email of a step, in the language of its person if the template has it. Throws an AppError for a wrong sender. */
function createStepDraft(app: App, sequence: Sequence, step: Step, person: Person, accountUuid: UuidBytes): Draft {
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
  countRestoredNotices(db, [STEP_KIND], readFence(db)?.fencedAt)

/** Moves people past the steps that the lost time may have sent, because the operator dropped what was restored. */
export async function skipRestoredSteps(app: App): Promise<void> {
  const before = readFence(app.db)?.fencedAt ?? 0
  for (;;) {
    // Also of those whose sequence is paused, which are due at no time.
    const notices = listRestoredNotices(app.db, STEP_KIND, CHANGE_BATCH_SIZE)
    if (notices.length === 0) return
    await app.commit.writeFromReserve((tx) => {
      for (const notice of notices) {
        const found = findPerson(tx.db, notice.topic)
        if (!deleteNotice(tx, notice) || !found) continue
        let { sinceAt, place } = found.person
        for (const step of found.sequence.definition.steps.filter(({ id }) => id > place)) {
          if (sinceAt + toDelayMs(step) > before) break
          sinceAt += toDelayMs(step)
          place = step.id
        }
        placePerson(app, tx, found.sequence, { ...found.person, place, sinceAt })
      }
    })
  }
}
