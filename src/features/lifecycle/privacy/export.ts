/**
 * @module Exports an account as one streamed JSON text: one export at a time, and one completed per hour. Changes made
 * during the export may be included or not.
 */

import { readExportedAt, recordExport } from '#features/core/accounts/rows.ts'
import { EXPORT_WORK_UNITS } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { streamJson } from '#platform/http/download.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { isDue } from '#platform/queue/due-loop.ts'
import type { Millis } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'
import { PARTS, toAccountPart } from './export-parts.ts'

const EXPORT_INTERVAL_MS = hours(1)
/** Retry-After while an export is running. */
const RUNNING_RETRY_SECONDS = 30

/**
 * Creates the function that responds with an export. It throws 429 `export_running` while another export of the account
 * runs, and 429 `export_limit` within an hour of a completed one.
 */
export function createAccountExport(app: App): (actor: Actor, request: Request) => Response {
  /** Accounts with a running export. */
  const running = new Set<number>()
  /** When an account's last export was completed; used until the database holds the time. */
  const completed = new Map<number, Millis>()
  return (actor, request) => {
    const { accountId } = actor
    const now = app.clock.now()
    const lastAt = completed.get(accountId) ?? readExportedAt(app.db, accountId)
    const nextAt = (lastAt ?? Number.NEGATIVE_INFINITY) + EXPORT_INTERVAL_MS
    if (!isDue(nextAt, now, EXPORT_INTERVAL_MS))
      throw tooManyRequests(
        'export_limit',
        'The account was exported within the last hour; try again later.',
        (nextAt - now) / 1000,
      )
    if (running.has(accountId))
      throw tooManyRequests(
        'export_running',
        'An export of the account is running; read it to its end, or try again afterwards.',
        RUNNING_RETRY_SECONDS,
      )
    if (request.method === 'HEAD') return new Response(null, { headers: { 'content-type': 'application/json' } })
    app.workBudget.spend(accountId, EXPORT_WORK_UNITS)
    const response = streamJson(app, request, generateExport(app, actor, now), {
      filename: 'account.json',
      onEnded(isWhole) {
        running.delete(accountId)
        if (!isWhole) return
        completed.set(accountId, app.clock.now())
        void recordCompletion(app, actor).finally(() => completed.delete(accountId))
      },
    })
    running.add(accountId)
    return response
  }
}

/** The JSON text in chunks of some milliseconds. */
export function* generateExport(app: App, actor: Actor, now: number): Generator<string> {
  yield `{"exported_at":${JSON.stringify(isoTime(now))},"data":{"account":${JSON.stringify(toAccountPart(app, actor))}`
  for (const [name, part] of Object.entries(PARTS)) {
    yield `,${JSON.stringify(name)}:[`
    let separator = ''
    for (const records of part(app, actor)) {
      if (records.length === 0) continue
      yield separator + records.map((record) => JSON.stringify(record)).join(',')
      separator = ','
    }
    yield ']'
  }
  yield '}}'
}

async function recordCompletion(app: App, actor: Actor): Promise<void> {
  try {
    await app.commit.write((tx) => {
      recordExport(tx, actor.accountId, app.clock.now())
      auditChange(app, tx, actor, 'account.exported', actor.accountUuid)
    })
  } catch (error) {
    // Harmless: without the record, the next export is merely allowed before the hour is over.
    app.log.error({ err: error, account: actor.accountUuid }, 'account export not recorded')
  }
}
