/**
 * @module Deletes accounts. One transaction ends all access, sending and receiving. Then an operation works in batches
 * and survives a crash: it cancels waiting mail, removes rows and content, and finally overwrites the bytes in the
 * files. An empty row stays, so that the account's number is not reused; audit log entries stay without personal
 * fields. Steps: mail (cancel waiting recipients, wait for those in flight) → rows → late (rows written by requests
 * that were in progress) → service (system mail about the account) → log → bytes.
 */
import type { Database } from 'bun:sqlite'
import { listImportFiles } from '#features/audience/contact-lists/imports.ts'
import { removeSpooledFile } from '#features/audience/contact-lists/spool.ts'
import type { Account } from '#features/core/accounts/accounts.ts'
import { closeAccount, emptyAccount, listOpenSubAccounts } from '#features/core/accounts/rows.ts'
import { announceAccessChange, announceSendingChange } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { eraseAccountAuditEntries } from '#features/core/audit-logs/erase.ts'
import { requestScrub } from '#features/core/content-gc/sweep.ts'
import { deleteOperationsOfAccount, insertOperation } from '#features/core/operations/operations.ts'
import { tryEndBilling } from '#features/people/billing/checkout.ts'
import { removeTeam } from '#features/people/team/users.ts'
import { skipRecipientBatch } from '#features/sending/broadcasts/erase.ts'
import { cancelWaitingMail, hasMailInFlight } from '#features/sending/queue/erase.ts'
import { findMailAbout } from '#features/sending/system-mail/send.ts'
import { ACCOUNT_TAG_BYTES } from '#features/sending/tracking/tokens.ts'
import { deleteKeysOfAccount } from '#features/setup/api-keys/keys.ts'
import { closeDomains } from '#features/setup/domains/domains.ts'
import { deleteAccountWebhooks } from '#features/webhooks/webhooks/manage/change.ts'
import { codesOf, prepareStatements, type Tx } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { type DueLoop, isDue, startDueLoop } from '#platform/queue/due-loop.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { type Millis, minutes, seconds } from '#platform/units.ts'
import { findNextEmails, removeAccountRows } from './account-rows.ts'
import { eraseEmail } from './erase-steps.ts'
import type { accountDeletions } from './tables.ts'

/** The stored code of a step is its position, so only append. */
const STEPS = ['mail', 'rows', 'late', 'log', 'bytes', 'service'] as const
type Step = (typeof STEPS)[number]
const CODES = codesOf<Step>('step of the deletion of an account', STEPS)

/** Interval of checks for mail in flight. */
const IN_FLIGHT_CHECK_MS = seconds(20)
/** After this time, every request that began before the deletion has ended. */
const MAX_REQUEST_MS = minutes(10)
/** Longest wait of a step. A due time further ahead was stored while the clock was wrong. */
const MAX_WAIT_MS = minutes(10)
/**
 * Delay before the scrub, so that one scrub serves an account with its sub-accounts, and other accounts deleted at the
 * same time.
 */
const SCRUB_DELAY_MS = seconds(30)
const SCRUB_RETRY_MS = minutes(2)
const BILLING_RETRY_MS = minutes(10)
const AUDIT_BATCH_SIZE = 500
const SUB_ACCOUNTS_PER_BATCH = 20
/** Actor of the loop, which closes accounts that a crash left open; `beginDeletion` sets the account. */
const SYSTEM: Actor = { accountId: 0, accountUuid: '', type: 'system', id: 'system', scopes: new Set() }
/** Retry delay of a failed step, so that it does not block other deletions. */
const FAILURE_RETRY_MS = minutes(1)

type Deletion = Readonly<typeof accountDeletions.$inferSelect>

const COLUMNS =
  'account_id AS accountId, operation_id AS operationId, step, cursor, rows, due_at AS dueAt, created_at AS createdAt'

const sql = prepareStatements((db) => ({
  insert: db.prepare(
    'INSERT INTO account_deletions (account_id, operation_id, step, cursor, rows, due_at, created_at) VALUES (?, ?, 0, 0, 0, ?, ?)',
  ),
  next: db.prepare<Deletion, []>(`SELECT ${COLUMNS} FROM account_deletions ORDER BY due_at, account_id LIMIT 1`),
  atStep: db.prepare<Deletion, [number]>(`SELECT ${COLUMNS} FROM account_deletions WHERE step = ? ORDER BY account_id`),
  move: db.prepare(
    'UPDATE account_deletions SET step = ?, cursor = ?, rows = rows + ?, due_at = ? WHERE account_id = ?',
  ),
  delete: db.prepare('DELETE FROM account_deletions WHERE account_id = ?'),
}))

/** An account to delete. */
type DeletedAccount = Pick<Account, 'id' | 'uuid'>

/**
 * Deletes an account with its sub-accounts; resolves when the end of all their access is on disk. The loop of
 * `startAccountRemoval` removes the rest as an operation. Deleting an account again changes nothing.
 * @param along runs in the same transaction
 */
export async function deleteAccount(
  app: App,
  actor: Actor,
  account: DeletedAccount,
  along?: (tx: Tx) => void,
): Promise<void> {
  let closed = await app.commit.writeFromReserve((tx) => {
    along?.(tx)
    beginDeletion(app, tx, actor, account)
    return closeSubAccounts(app, tx, actor, account.id)
  })
  // If the process crashes here, the first step of the parent's deletion closes the remaining sub-accounts.
  while (closed === SUB_ACCOUNTS_PER_BATCH)
    closed = await app.commit.writeFromReserve((tx) => closeSubAccounts(app, tx, actor, account.id))
}

/** Begins the deletion of some sub-accounts; returns their number. */
function closeSubAccounts(app: App, tx: Tx, actor: Actor, parentId: number): number {
  const subAccounts = listOpenSubAccounts(tx.db, parentId, SUB_ACCOUNTS_PER_BATCH)
  for (const each of subAccounts) beginDeletion(app, tx, actor, each)
  return subAccounts.length
}

function beginDeletion(app: App, tx: Tx, actor: Actor, account: DeletedAccount): void {
  const now = app.eventTime()
  if (!closeAccount(tx, account.id, now)) return
  const subject: Actor = { ...actor, accountId: account.id, accountUuid: formatUuid(account.uuid) }
  deleteKeysOfAccount(tx, account.id)
  removeTeam(tx, account.id)
  closeDomains(tx, account.id, now)
  deleteAccountWebhooks(app, tx, account.id)
  const { id: operationId, uuid } = insertOperation(app, tx, subject, {
    type: 'account_deletion',
    status: 'processing',
    total: 0,
  })
  sql(tx.db).insert.run(account.id, operationId, app.clock.now(), now)
  auditChange(app, tx, subject, 'account.deleted', subject.accountUuid, { operation_id: uuid })
  announceAccessChange(app, tx, account.id)
  announceSendingChange(app, tx, account.id)
  tx.afterCommit(() => app.removalDue.emit())
}

/** Incomplete deletions, for the operator. */
export const listOpenDeletions = (db: Database): { accountId: number; step: string; rows: number; dueAt: Millis }[] =>
  db
    .query<Deletion, []>(`SELECT ${COLUMNS} FROM account_deletions ORDER BY account_id`)
    .all()
    .map(({ accountId, step, rows, dueAt }) => ({ accountId, step: CODES.nameOf(step), rows, dueAt }))

/** Result of a step: how many rows it removed and when it continues, or the next step. */
interface StepOutcome {
  readonly rows?: number
  readonly cursor?: number
  readonly dueAt?: Millis
  readonly next?: Step
}

/** Starts the loop that removes the data of deleted accounts. */
export function startAccountRemoval(app: App): DueLoop {
  return startDueLoop({
    name: 'remove deleted accounts',
    clock: app.clock,
    log: app.log,
    wokenBy: [app.removalDue],
    step: async (ending) => {
      const deletion = sql(app.db).next.get()
      if (!deletion) return undefined
      if (!isDue(deletion.dueAt, app.clock.now(), MAX_WAIT_MS)) return deletion.dueAt
      await yieldToEventLoop()
      if (ending.aborted) return undefined
      try {
        await runStep(app, deletion)
      } catch (error) {
        await app.commit.writeFromReserve((tx) =>
          updateDeletion(tx, deletion, { cursor: deletion.cursor, dueAt: app.clock.now() + FAILURE_RETRY_MS }),
        )
        throw error
      }
      return app.clock.now()
    },
  })
}

async function runStep(app: App, deletion: Deletion): Promise<void> {
  switch (CODES.nameOf(deletion.step)) {
    case 'mail':
      return app.commit.writeFromReserve((tx) => updateDeletion(tx, deletion, cancelMail(app, tx, deletion)))
    case 'rows':
      return removeRows(app, deletion, { next: 'late', dueAt: deletion.createdAt + MAX_REQUEST_MS })
    case 'late':
      return removeRows(app, deletion, { next: 'service' })
    case 'service':
      return eraseServiceMail(app, deletion)
    case 'log':
      return finishAuditLog(app, deletion)
    case 'bytes':
      return scrubBytes(app, deletion)
  }
}

function cancelMail(app: App, tx: Tx, { accountId }: Deletion): StepOutcome {
  if (closeSubAccounts(app, tx, SYSTEM, accountId) > 0) return {}
  const rows = cancelWaitingMail(tx, accountId, app.eventTime())
  if (rows > 0 || skipRecipientBatch(app, tx, accountId) > 0) return {}
  return hasMailInFlight(tx.db, accountId) ? { dueAt: app.clock.now() + IN_FLIGHT_CHECK_MS } : { next: 'rows' }
}

/** Deletes files before the rows that refer to them, so that a crash in between orphans no file. */
async function removeRows(app: App, deletion: Deletion, whenDone: StepOutcome): Promise<void> {
  const { accountId } = deletion
  for (const file of listImportFiles(app.db, accountId)) await removeSpooledFile(app, file)
  await app.removeCaptures(findNextEmails(app.db, accountId))
  await app.commit.writeFromReserve((tx) => {
    const rows = removeAccountRows(app, tx, accountId)
    updateDeletion(tx, deletion, rows > 0 ? { rows } : whenDone)
  })
}

/**
 * Erases system mail to the account's users (invitations, links, notices), which is stored with the account that sent
 * it.
 */
async function eraseServiceMail(app: App, deletion: Deletion): Promise<void> {
  const { found, next } = findMailAbout(app.db, deletion.accountId, deletion.cursor)
  await app.removeCaptures(found.map(({ emailId }) => emailId))
  const isAll = () => true
  await app.commit.writeFromReserve((tx) => {
    let rows = 0
    for (const email of found) {
      const erased = eraseEmail(app, tx, { ...email, is: isAll, isIn: isAll })
      rows += erased.rows
      // An SMTP session is in progress.
      if (!erased.isEmptied)
        return updateDeletion(tx, deletion, {
          rows,
          cursor: email.emailId - 1,
          dueAt: app.clock.now() + IN_FLIGHT_CHECK_MS,
        })
    }
    return updateDeletion(tx, deletion, next === undefined ? { rows, next: 'log' } : { rows, cursor: next })
  })
}

/**
 * Ends billing first: the account's row, which is emptied here, holds the subscription. Then erases the log entries.
 */
async function finishAuditLog(app: App, deletion: Deletion): Promise<void> {
  const { accountId, cursor, createdAt } = deletion
  const hasEnded = cursor > 0 || (await tryEndBilling(app, accountId, createdAt))
  const retry: StepOutcome = { cursor, dueAt: app.clock.now() + BILLING_RETRY_MS }
  await app.commit.writeFromReserve((tx) =>
    updateDeletion(tx, deletion, hasEnded ? eraseAuditLog(app, tx, deletion) : retry),
  )
}

function eraseAuditLog(app: App, tx: Tx, { accountId, cursor }: Deletion): StepOutcome {
  const { next } = eraseAccountAuditEntries(tx, accountId, AUDIT_BATCH_SIZE, cursor)
  if (next !== undefined) return { cursor: next }
  deleteOperationsOfAccount(tx, accountId)
  emptyAccount(tx, accountId, ACCOUNT_TAG_BYTES)
  return { next: 'bytes', dueAt: app.clock.now() + SCRUB_DELAY_MS }
}

/**
 * The last step: removes the deletion itself once no file contains its bytes. One scrub, which reads all files, serves
 * all deletions at this step.
 */
async function scrubBytes(app: App, deletion: Deletion): Promise<void> {
  const ready = sql(app.db).atStep.all(deletion.step)
  // The clock may have jumped over the ten minutes that late requests may take, so look for their rows again.
  for (const { accountId } of ready)
    if ((await app.commit.writeFromReserve((tx) => removeAccountRows(app, tx, accountId))) > 0) return
  const isClean = await requestScrub(app)
  await app.commit.writeFromReserve((tx) => {
    for (const each of ready) {
      if (isClean) sql(tx.db).delete.run(each.accountId)
      else updateDeletion(tx, each, { dueAt: app.clock.now() + SCRUB_RETRY_MS })
    }
  })
  if (!isClean) return
  for (const { accountId, rows } of ready) app.log.info({ accountNumber: accountId, rows }, 'account deletion complete')
}

/** Stores a deletion's progress. It need not compare the previous progress: nothing else updates the row. */
function updateDeletion(tx: Tx, { accountId, step, dueAt }: Deletion, outcome: StepOutcome): void {
  const { rows = 0, cursor = 0, next } = outcome
  sql(tx.db).move.run(next === undefined ? step : CODES.codeOf(next), cursor, rows, outcome.dueAt ?? dueAt, accountId)
}
