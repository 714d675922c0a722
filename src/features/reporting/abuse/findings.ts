/** @module Stores and lists abuse findings for the operator. The only writer of `abuse_findings`. Pauses no account. */
import type { Database } from 'bun:sqlite'
import type { PauseSource } from '#features/core/accounts/pause.ts'
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { insertSql, prepareStatements } from '#platform/db/open.ts'
import { belowId, type RowWindow } from '#platform/db/row-window.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { abuseFindings } from './tables.ts'

export interface NewAbuseFinding {
  readonly accountId: number
  readonly source: PauseSource
  readonly reason: string
  readonly detail?: Readonly<Record<string, unknown>> | undefined
  readonly emailId?: number | undefined
  readonly isPause: boolean
}

export interface AbuseFinding
  extends Readonly<Pick<typeof abuseFindings.$inferSelect, 'id' | 'source' | 'reason' | 'detail' | 'createdAt'>> {
  readonly accountUuid: UuidBytes
  readonly accountName: string
  /** Null if the finding concerns no email, or a deleted one. */
  readonly emailUuid: UuidBytes | null
  readonly paused: number
}

const COLUMNS = `abuse_findings.id, accounts.uuid AS accountUuid, name AS accountName, source, reason, detail, emails.uuid AS emailUuid, paused,
  abuse_findings.created_at AS createdAt FROM abuse_findings JOIN accounts ON accounts.id = abuse_findings.account_id
  LEFT JOIN emails ON emails.id = abuse_findings.email_id`

const sql = prepareStatements((db) => ({
  insert: db.prepare<unknown, [Omit<typeof abuseFindings.$inferSelect, 'id'>]>(
    insertSql('abuse_findings', 'accountId source reason detail emailId paused createdAt'),
  ),
  page: db.prepare<AbuseFinding, [number | null, number, number, number]>(
    `SELECT ${COLUMNS} WHERE abuse_findings.account_id = coalesce(?, abuse_findings.account_id) AND abuse_findings.id < ?
     ORDER BY abuse_findings.id DESC LIMIT ? OFFSET ?`,
  ),
  count: db.prepare<{ n: number }, [number | null]>(
    'SELECT COUNT(*) AS n FROM abuse_findings WHERE account_id = coalesce(?, account_id)',
  ),
}))

export function addFinding(app: App, tx: Tx, finding: NewAbuseFinding): void {
  sql(tx.db).insert.run({
    ...finding,
    detail: finding.detail ? JSON.stringify(finding.detail) : null,
    emailId: finding.emailId ?? null,
    paused: finding.isPause,
    createdAt: app.eventTime(),
  })
}

/** A page of the findings, newest first, of all accounts unless `accountId` is set, with the number on all pages. */
export const listFindings = (
  db: Database,
  accountId: number | undefined,
  window: RowWindow,
): { readonly findings: AbuseFinding[]; readonly total: number } => ({
  findings: sql(db).page.all(accountId ?? null, belowId(window), window.limit, window.offset),
  total: sql(db).count.get(accountId ?? null)?.n ?? 0,
})
