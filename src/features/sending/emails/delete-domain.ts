/**
 * @module Deletes a domain: cancels its scheduled mail, and removes its key once its open mail has ended, so that what
 * was queued before is still signed. Lives here, because sending builds on domains and not the reverse.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { EMAIL_ROW_COLUMNS, type EmailRow } from '#features/sending/queue/settle.ts'
import { type Status, statusCode } from '#features/sending/queue/status.ts'
import { type Domain, eraseDomain, listDeletedDomains, markDeleted } from '#features/setup/domains/domains.ts'
import { yieldToEventLoop } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { cancelInTransaction } from './cancel.ts'

interface Row extends EmailRow {
  readonly uuid: Uint8Array
  readonly quotaMonth: number | null
  readonly domainId: number
}

/** A place in the emails of one account and status, in the order of `emails_by_status`. */
interface EmailPosition {
  readonly createdAt: number
  readonly id: number
}

const FIRST_POSITION: EmailPosition = { createdAt: -1, id: 0 }

const sql = prepareStatements((db) => ({
  // Emails are not indexed by domain: that would cost every email for the sake of a rare deletion.
  byStatus: db.prepare<Row, [number, number, number, number, number]>(
    `SELECT ${EMAIL_ROW_COLUMNS}, uuid, quota_month AS quotaMonth, domain_id AS domainId FROM emails
     WHERE account_id = ? AND status = ? AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?`,
  ),
}))

/** Emails looked at, and at most cancelled, in one transaction: some 10 ms. */
const CANCEL_BATCH_SIZE = 100
/** Emails looked at in one read. */
const READ_BATCH_SIZE = 1000
const DOMAIN_BATCH_SIZE = 100

/** Deletes the account's domain; resolves when all of its scheduled mail is cancelled. Throws 404. */
export async function deleteDomain(app: App, actor: Actor, id: string): Promise<void> {
  // Nothing is accepted for the domain after this transaction, so nothing is scheduled behind the back of the next ones.
  const domain = await app.commit.writeFromReserve((tx) => markDeleted(app, tx, actor, id))
  await cancelScheduledMail(app, actor, domain)
}

/** Cancels the scheduled mail of a deleted domain, slice by slice. */
async function cancelScheduledMail(app: App, actor: Actor, domain: Domain): Promise<void> {
  for (let position: EmailPosition | undefined = FIRST_POSITION; position; ) {
    const from: EmailPosition = position
    position = await app.commit.writeFromReserve((tx) => cancelBatch(app, tx, actor, domain, from))
  }
}

/** Returns where to go on; undefined at the end. */
function cancelBatch(app: App, tx: Tx, actor: Actor, domain: Domain, from: EmailPosition): EmailPosition | undefined {
  const rows = readEmailsAfter(tx.db, domain, 'scheduled', from, CANCEL_BATCH_SIZE)
  for (const email of rows) if (email.domainId === domain.id) cancelInTransaction(app, tx, actor, email)
  return rows.length < CANCEL_BATCH_SIZE ? undefined : rows.at(-1)
}

/**
 * Removes deleted domains, and their keys, whose mail is all final; returns how many. Finishes deletions that a crash cut short. Meant to be called
 * every hour or so, one run at a time.
 */
export async function removeDeletedDomains(app: App): Promise<number> {
  let removed = 0
  for (let after = 0; ; ) {
    const domains = listDeletedDomains(app.db, after, DOMAIN_BATCH_SIZE)
    const last = domains.at(-1)
    if (!last) return removed
    after = last.id
    for (const domain of domains) {
      await cancelScheduledMail(app, createSystemActor(domain), domain)
      if (await hasOpenMail(app, domain)) continue
      await app.commit.writeFromReserve((tx) => eraseDomain(tx, domain.id))
      app.log.info({ domain: formatUuid(domain.uuid) }, 'deleted domain removed, its mail is final')
      removed++
    }
  }
}

async function hasOpenMail(app: App, domain: Domain): Promise<boolean> {
  // In the order in which an email moves, so that one that moves on meanwhile is met at its next status.
  for (const status of ['scheduled', 'queued', 'processing', 'queued'] as const) {
    for (let position: EmailPosition | undefined = FIRST_POSITION; position; ) {
      const rows: Row[] = readEmailsAfter(app.db, domain, status, position, READ_BATCH_SIZE)
      if (rows.some((email) => email.domainId === domain.id)) return true
      position = rows.length < READ_BATCH_SIZE ? undefined : rows.at(-1)
      // Lets requests in between the slices.
      if (position) await yieldToEventLoop()
    }
  }
  return false
}

const readEmailsAfter = (db: Database, domain: Domain, status: Status, position: EmailPosition, limit: number): Row[] =>
  sql(db).byStatus.all(domain.accountId, statusCode(status), position.createdAt, position.id, limit)
