/**
 * @module Defines the steps of an erasure, in order. Each step reads a limited batch and returns a function that writes
 * the changes in the transaction that also stores the progress; so a crash repeats a step and skips none. Sources of
 * new rows come before the tables that hold these rows. Dropping the address from the erasure itself comes after all
 * steps that need the address.
 */

import {
  eraseContacts,
  eraseFormSubmissions,
  findNewestImport,
  isImportOpen,
} from '#features/audience/contact-lists/erase.ts'
import { erasePeople } from '#features/audience/sequences/sequences.ts'
import type { App } from '#features/core/app/app.ts'
import { TABLE_FACTS } from '#features/core/app/table-facts.ts'
import { eraseMatchingAuditEntries } from '#features/core/audit-logs/erase.ts'
import { requestScrub } from '#features/core/content-gc/sweep.ts'
import { eraseEvents } from '#features/core/events/purge.ts'
import { eraseCorrespondent, eraseMessages, findMessagesOfPerson } from '#features/receiving/agent-mailboxes/removal.ts'
import { eraseComplaints } from '#features/receiving/complaints/removal.ts'
import { eraseInbound, findInboundOfPerson } from '#features/receiving/inbound/api/inbound-emails.ts'
import { findNewestQueueEntryId, hasQueueEntryUpTo } from '#features/receiving/inbound/process/queue.ts'
import { eraseOperatorMail, findReportsAbout } from '#features/receiving/postmaster/store.ts'
import { changeWithRecount } from '#features/reporting/analytics/recount.ts'
import { getRequestLog } from '#features/reporting/logs/request-log.ts'
import { eraseInStoredResponses } from '#features/sending/accept/idempotency.ts'
import {
  findNextOpenBroadcast,
  findWaitingRecipients,
  isTakingSnapshot,
  skipRecipients,
} from '#features/sending/broadcasts/erase.ts'
import { resolveDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import {
  anonymiseRecipients,
  cancelRecipients,
  eraseEmailContent,
  eraseShown,
  findEmailsShowing,
  findEmailsTo,
} from '#features/sending/queue/erase.ts'
import { deleteEngagement } from '#features/sending/tracking/engage.ts'
import { eraseSuppressions } from '#features/setup/suppression-store/suppress.ts'
import { eraseDeliveries, eraseEventDeliveries } from '#features/webhooks/webhooks/deliver/outcome.ts'
import type { Tx } from '#platform/db/open.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'
import {
  deleteErasure,
  dropAddress,
  type Erasure,
  hashAddress,
  listOpenEmails,
  recordOpenEmail,
  removeOpenEmail,
} from './erasures.ts'
import type { Person } from './person.ts'

/** Result of a step's write. */
export interface StepOutcome {
  /** Rows erased. */
  readonly rows?: number
  /** Cursor of this step's next batch; undefined: the step is complete. */
  readonly next?: number | undefined
  /** How long to wait before the next batch or step. */
  readonly waitMs?: number
  readonly isEnd?: boolean
}

export type StepWrite = (tx: Tx) => StepOutcome
/** @param person the person to erase; NOBODY once the address is dropped */
type Step = (app: App, erasure: Erasure, person: Person) => StepWrite | Promise<StepWrite>

/** Interval of checks for work in progress, which ends automatically. */
const IN_PROGRESS_RETRY_MS = seconds(5)
/** Interval of checks for other recipients' mail, which may wait for its time or its server. */
const OTHERS_RETRY_MS = minutes(1)
const SCRUB_RETRY_MS = minutes(1)
/** Emails per transaction: each takes some 0.3 ms, plus its events. */
const MAX_EMAILS = 20
/** Messages per transaction: each is removed from the search index. */
const MAX_MESSAGES = 20
const AUDIT_BATCH_SIZE = 500

const DONE: StepOutcome = {}

/**
 * Creates a step that waits for everything pending when it began. The cursor is the newest pending id plus one, so that
 * 0 means "not begun".
 */
const createWaitStep =
  (newest: (app: App) => number, isLeft: (app: App, erasure: Erasure, upTo: number) => boolean): Step =>
  (app, erasure) => {
    const cursor = erasure.cursor === 0 ? newest(app) + 1 : erasure.cursor
    return () => (isLeft(app, erasure, cursor - 1) ? { next: cursor, waitMs: IN_PROGRESS_RETRY_MS } : DONE)
  }

/** Accepted mail that is not yet processed: it may create any kind of row. */
const queueEntries = createWaitStep(
  ({ db }) => findNewestQueueEntryId(db),
  ({ db }, _, upTo) => hasQueueEntryUpTo(db, upTo),
)

const imports = createWaitStep(
  ({ db }) => findNewestImport(db),
  ({ db }, { accountId }, upTo) => isImportOpen(db, accountId, upTo),
)

const contacts: Step =
  (app, { accountId, cursor }, { addressKey }) =>
  (tx) => {
    const contactKey = { accountId, addressKey }
    const removed = cursor === 0 ? eraseContacts(tx, contactKey) + erasePeople(tx, contactKey) : 0
    const { rows, next } = eraseFormSubmissions(app, tx, contactKey, cursor)
    return { rows: removed + rows, next }
  }

/** Handles one broadcast at a time; the cursor is the broadcast handled before. */
const broadcasts: Step = async (app, { accountId, cursor }, person) => {
  const broadcastId = findNextOpenBroadcast(app.db, accountId, cursor)
  if (broadcastId === undefined) return () => DONE
  if (isTakingSnapshot(app.db, broadcastId)) return () => ({ next: cursor, waitMs: IN_PROGRESS_RETRY_MS })
  const contactIds: number[] = []
  for (let after: number | undefined = 0; after !== undefined; ) {
    const found: ReturnType<typeof findWaitingRecipients> = findWaitingRecipients(app.db, {
      broadcastId,
      after,
      is: person.is,
    })
    contactIds.push(...found.contactIds)
    after = found.next
    await yieldToEventLoop()
  }
  return (tx) => ({ rows: skipRecipients(app, tx, broadcastId, contactIds), next: broadcastId })
}

const mailboxes: Step = (app, { accountId, cursor: after }, { addressKey, isNamedIn: isIn }) => {
  const { ids, next } = findMessagesOfPerson(app.db, { accountId, after, isIn, max: MAX_MESSAGES })
  return (tx) => {
    const rows = eraseMessages(app, tx, ids)
    return { rows: next === undefined ? rows + eraseCorrespondent(tx, accountId, addressKey) : rows, next }
  }
}

const inbound: Step = (app, erasure, { isNamedIn: isIn }) => {
  const { accountId, cursor: after } = erasure
  const { ids, next } = findInboundOfPerson(app.db, { accountId, after, isIn, max: MAX_MESSAGES })
  return (tx) => ({ rows: eraseInbound(app, tx, ids, (emailId) => recordOpenEmail(tx, erasure, emailId)), next })
}

/** Every report may contain these addresses; they identify no person. */
const SYSTEM_ADDRESSES = /^(?:postmaster|mailer-daemon|abuse)@/

const reports: Step = (app, { cursor: after }, { addressKey, isIn }) => {
  if (SYSTEM_ADDRESSES.test(addressKey)) return () => DONE
  const { ids, next } = findReportsAbout(app, { after, isIn })
  return (tx) => ({ rows: eraseOperatorMail(app, tx, ids), next })
}

const emails: Step = async (app, erasure, person) => {
  const { accountId, cursor: after } = erasure
  const { addressKey, is } = person
  const { ids: emailIds, next } = findEmailsTo(app.db, { accountId, addressKey, isMatch: is, after, limit: MAX_EMAILS })
  const othersIds = findEmailsShowing(app.db, { accountId, isMatch: is, after, upTo: next })
  // Captures are removed before the rows of their emails, so that a crash in between orphans no capture.
  await app.removeCaptures([...emailIds, ...othersIds])
  return (tx) => {
    const shown = othersIds.filter((id) => eraseShown(tx, id, is))
    const rows = emailIds.reduce((sum, id) => sum + eraseFromEmail(app, tx, erasure, person, id), 0)
    return { rows: rows + shown.length, next }
  }
}

/**
 * Erases the person from one email and returns the rows erased. Records the email for later if it is in flight or has
 * other open recipients.
 */
function eraseFromEmail(app: App, tx: Tx, erasure: Erasure, person: Person, emailId: number): number {
  const { rows, isEmptied } = eraseEmail(app, tx, { accountId: erasure.accountId, emailId, ...person })
  if (!isEmptied) recordOpenEmail(tx, erasure, emailId)
  return rows
}

/**
 * Erases a person from one email, without recording it: `isEmptied` is false while a delivery is in flight or other
 * recipients are open.
 */
export function eraseEmail(
  app: App,
  tx: Tx,
  {
    accountId,
    emailId,
    is,
    isIn,
  }: { readonly accountId: number; readonly emailId: number } & Pick<Person, 'is' | 'isIn'>,
): { readonly rows: number; readonly isEmptied: boolean } {
  const { isInFlight } = cancelRecipients(app, tx, emailId, is)
  const changed = changeWithRecount(tx, emailId, () => {
    const { recipientIds, isAll } = anonymiseRecipients(tx, emailId, is)
    return { recipientIds, isAll, seqs: eraseEvents(tx, { accountId, emailId, recipientIds, matches: isIn }) }
  })
  const { recipientIds, isAll, seqs } = changed
  // With other recipients, anonymous engagement stays: it determines the first open or click of an email.
  deleteEngagement(tx, emailId, isAll ? recipientIds : [])
  for (const id of recipientIds) resolveDeadLetter(tx, id)
  const rows =
    recipientIds.length +
    seqs.length +
    eraseComplaints(app, tx, emailId, recipientIds) +
    eraseEventDeliveries(tx, accountId, seqs)
  const isEmptied = !isInFlight && eraseEmailContent(app, tx, emailId)
  return { rows: isEmptied ? rows + 1 : rows, isEmptied }
}

/** Emails with a delivery to the person in flight: until it ends, the address is still needed. */
const emailsInFlight: Step = async (app, erasure, person) => {
  const emailIds = listOpenEmails(app.db, erasure, erasure.cursor, MAX_EMAILS)
  await app.removeCaptures(emailIds)
  return (tx) => {
    let rows = 0
    for (const emailId of emailIds) {
      const { isInFlight } = cancelRecipients(app, tx, emailId, person.is)
      if (isInFlight) return { rows, next: emailId - 1, waitMs: IN_PROGRESS_RETRY_MS }
      removeOpenEmail(tx, erasure, emailId)
      rows += eraseFromEmail(app, tx, erasure, person, emailId)
    }
    return { rows, next: emailIds.length < MAX_EMAILS ? undefined : emailIds.at(-1) }
  }
}

const deliveries: Step =
  (_, { accountId, cursor: after }, { isIn }) =>
  (tx) =>
    eraseDeliveries(tx, { accountId, after, matches: isIn })

/** Rows read per transaction: some 3 ms. */
const TEXTS_BATCH_SIZE = 100

/** Creates a step that replaces the address in the texts that a table states as such; its rows stay. */
const createTextStep = (table: string): Step => {
  const columns = TABLE_FACTS.get(table)?.personTexts ?? []
  const select = `SELECT id, ${columns.join(', ')} FROM ${table} WHERE account_id = ? AND id > ? ORDER BY id LIMIT ${TEXTS_BATCH_SIZE}`
  const update = `UPDATE ${table} SET ${columns.map((column) => `${column} = ?`).join(', ')} WHERE account_id = ? AND id = ?`
  return (_, { accountId, cursor: after }, { eraseFrom }) =>
    ({ db }) => {
      const rows = db
        .query<{ id: number } & Record<string, string | null>, [number, number]>(select)
        .all(accountId, after)
      let changed = 0
      for (const row of rows) {
        const texts = columns.map((column) => row[column] ?? null)
        const erased = texts.map((text) => (text === null ? null : eraseFrom(text)))
        if (erased.every((text, at) => text === texts[at])) continue
        db.query(update).run(...erased, accountId, row.id)
        changed++
      }
      return { rows: changed, next: rows.length < TEXTS_BATCH_SIZE ? undefined : rows.at(-1)?.id }
    }
}

const requestLogTexts = createTextStep('request_logs')

const requestLogs: Step = async (app, erasure, person) => {
  await getRequestLog(app).flush()
  return requestLogTexts(app, erasure, person)
}

const replies: Step =
  (app, { accountId, cursor: after }, { eraseFrom }) =>
  (tx) =>
    eraseInStoredResponses(app, tx, { accountId, after, erased: eraseFrom })

const suppressions: Step =
  (_, { accountId }, { addressKey }) =>
  (tx) => ({ rows: eraseSuppressions(tx, accountId, addressKey) })

const log: Step =
  (_, { accountId, cursor: after }, { isIn }) =>
  (tx) =>
    eraseMatchingAuditEntries(tx, { accountId, after, limit: AUDIT_BATCH_SIZE, matches: isIn })

const address: Step = (_, erasure) => (tx) => {
  hashAddress(tx, erasure)
  return DONE
}

/** Completes the erasure, unless other recipients are open. */
const forget: Step = (_, erasure) => (tx) => {
  if (listOpenEmails(tx.db, erasure, 0, 1).length === 0) return complete(tx, erasure)
  dropAddress(tx, erasure)
  return DONE
}

const bytes: Step = async (app, { cursor }) => {
  const isClean = await requestScrub(app)
  return () => (isClean ? DONE : { next: cursor, waitMs: SCRUB_RETRY_MS })
}

/** Empties each email with other recipients once all of these have ended. */
const otherRecipients: Step = async (app, erasure) => {
  const emailIds = listOpenEmails(app.db, erasure, erasure.cursor, MAX_EMAILS)
  await app.removeCaptures(emailIds)
  return (tx) => {
    let rows = 0
    for (const emailId of emailIds) {
      if (!eraseEmailContent(app, tx, emailId)) continue
      removeOpenEmail(tx, erasure, emailId)
      rows++
    }
    if (emailIds.length === MAX_EMAILS) return { rows, next: emailIds.at(-1) }
    return listOpenEmails(tx.db, erasure, 0, 1).length === 0 ? { rows } : { rows, next: 0, waitMs: OTHERS_RETRY_MS }
  }
}

function complete(tx: Tx, erasure: Erasure): StepOutcome {
  deleteErasure(tx, erasure)
  return { isEnd: true }
}

const end: Step = (_, erasure) => (tx) => complete(tx, erasure)

/** The stored code of a step is its position, so only append. */
export const STEPS: readonly { readonly name: string; readonly run: Step }[] = [
  // First, cancel mail waiting for the person.
  { name: 'emails', run: emails },
  { name: 'receipts', run: queueEntries },
  { name: 'imports', run: imports },
  { name: 'contacts', run: contacts },
  { name: 'broadcasts', run: broadcasts },
  { name: 'mailboxes', run: mailboxes },
  { name: 'inbound', run: inbound },
  { name: 'reports', run: reports },
  // A second pass: contacts, broadcasts and mailboxes may have created more emails until their own steps ran.
  { name: 'later emails', run: emails },
  { name: 'under way', run: emailsInFlight },
  { name: 'webhook deliveries', run: deliveries },
  { name: 'operations', run: createTextStep('operations') },
  { name: 'replies', run: replies },
  { name: 'inbound_routes', run: createTextStep('inbound_routes') },
  { name: 'inbound_emails', run: createTextStep('inbound_emails') },
  { name: 'abuse_findings', run: createTextStep('abuse_findings') },
  { name: 'request_logs', run: requestLogs },
  { name: 'suppressions', run: suppressions },
  { name: 'log', run: log },
  { name: 'address', run: address },
  { name: 'bytes', run: bytes },
  { name: 'forgotten', run: forget },
  { name: 'others', run: otherRecipients },
  { name: 'bytes of others', run: bytes },
  { name: 'end', run: end },
]

/** The first slow step: requests do not wait for it. */
export const FIRST_LONG_STEP = STEPS.findIndex(({ run }) => run === bytes)
/** Whether a step scrubs the files. Erasures share a scrub, which takes minutes for large stores. */
export const isScrubStep = (step: number): boolean => STEPS[step]?.run === bytes
/** From this step on, the address is unknown. */
export const FIRST_WITHOUT_ADDRESS = STEPS.findIndex(({ run }) => run === address) + 1
