/**
 * @module Deletes a domain: cancels its scheduled mail, and deletes its key once its open mail has ended, so that mail
 * queued before is still signed. Belongs to `emails`, because sending depends on domains and not the reverse.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { type Status, statusCode } from '#features/sending/queue/status.ts'
import { forgetCredentials, removePublication } from '#features/setup/dns-publish/credentials.ts'
import { type Domain, eraseDomain, listDeletedDomains, markDeleted } from '#features/setup/domains/domains.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { cancelInTransaction, SCHEDULED_ROW_COLUMNS, type ScheduledRow } from './scheduled.ts'

/** A position in the emails of one account and status, in the order of `emails_by_status`. */
type EmailPosition = Pick<ScheduledRow, 'createdAt' | 'id'>

const FIRST_POSITION: EmailPosition = { createdAt: -1, id: 0 }

const sql = prepareStatements((db) => ({
  // Emails have no index by domain: such an index would slow every send for the sake of rare deletions.
  byStatus: db.prepare<ScheduledRow, [number, number, number, number, number]>(
    `SELECT ${SCHEDULED_ROW_COLUMNS} FROM emails
     WHERE account_id = ? AND status = ? AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?`,
  ),
}))

/** Emails examined per transaction; this takes some 10 ms if all of them are cancelled. */
const CANCEL_BATCH_SIZE = 100
const READ_BATCH_SIZE = 1000
const DOMAIN_BATCH_SIZE = 100

/** Deletes a domain of the account; resolves when all its scheduled mail is cancelled. Throws a 404. */
export async function deleteDomain(app: App, actor: Actor, id: string): Promise<void> {
  // Nothing is accepted for the domain after this transaction, so the transactions that follow find all its scheduled
  // mail.
  const domain = await app.commit.writeFromReserve((tx) => {
    const deleted = markDeleted(app, tx, actor, id)
    forgetCredentials(app, tx, actor, deleted)
    return deleted
  })
  await cancelScheduledMail(app, actor, domain)
}

async function cancelScheduledMail(app: App, actor: Actor, domain: Domain): Promise<void> {
  for (const status of ['draft', 'scheduled'] as const)
    for (let position: EmailPosition | undefined = FIRST_POSITION; position; ) {
      const from: EmailPosition = position
      position = await app.commit.writeFromReserve((tx) => {
        const rows = readEmailsAfter(tx.db, domain, status, from, CANCEL_BATCH_SIZE)
        for (const email of rows) if (email.domainId === domain.id) cancelInTransaction(app, tx, actor, email)
        return rows.length < CANCEL_BATCH_SIZE ? undefined : rows.at(-1)
      })
    }
}

/**
 * Deletes the rows and keys of deleted domains whose mail has ended; returns how many. Finishes deletions that a crash
 * interrupted. Call it about every hour, one run at a time.
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
      await app.commit.writeFromReserve((tx) => {
        eraseDomain(tx, domain.id)
        // Still there after the deletion of an account.
        removePublication(tx, domain.id)
      })
      app.log.info({ domain: formatUuid(domain.uuid) }, 'deleted domain removed: all its mail has ended')
      removed++
    }
  }
}

async function hasOpenMail(app: App, domain: Domain): Promise<boolean> {
  // The statuses come in the order of an email's transitions, so an email that changes during the scan is found in its
  // next status. `queued` comes a second time, because a deferred email returns to it.
  for (const status of ['draft', 'scheduled', 'queued', 'processing', 'queued'] as const) {
    for (let position: EmailPosition | undefined = FIRST_POSITION; position; ) {
      const rows: ScheduledRow[] = readEmailsAfter(app.db, domain, status, position, READ_BATCH_SIZE)
      if (rows.some((email) => email.domainId === domain.id)) return true
      position = rows.length < READ_BATCH_SIZE ? undefined : rows.at(-1)
      // Lets requests run between batches.
      if (position) await yieldToEventLoop()
    }
  }
  return false
}

const readEmailsAfter = (
  db: Database,
  domain: Domain,
  status: Status,
  position: EmailPosition,
  limit: number,
): ScheduledRow[] => sql(db).byStatus.all(domain.accountId, statusCode(status), position.createdAt, position.id, limit)
