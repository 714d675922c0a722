/** @module Counts who would get a broadcast to a list now, and who would be left out and why. Never writes. */
import type { Database } from 'bun:sqlite'
import { EXPORT_WORK_UNITS, getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import type { ContactList } from '#features/setup/contact-store/lists.ts'
import {
  CONTACT_STATUSES,
  type ContactStatus,
  readContactCount,
  toContactStatusCode,
} from '#features/setup/contact-store/status.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { toSuppressionScopeCode } from '#features/setup/suppression-store/check.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { Slots } from '#platform/queue/slots.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { IS_SUPPRESSED } from './start.ts'

/** Contacts examined at a time: about 5 ms. */
const BATCH_SIZE = 2000
/** Contacts examined for one unit, in long lists; in short ones each contact is a unit. */
const CONTACTS_PER_WORK_UNIT = 20
const MAX_WAITING_PER_ACCOUNT = 4
const MAX_WAIT_MS = seconds(10)

const sql = prepareStatements((db) => ({
  // The parameters are numbered as IS_SUPPRESSED expects them.
  batch: db.prepare<{ last: number | null; n: number; stopped: number | null }, number[]>(
    `SELECT MAX(id) AS last, COUNT(*) AS n, SUM(stopped) AS stopped FROM (SELECT id, ${IS_SUPPRESSED} AS stopped
     FROM contacts INDEXED BY contacts_status WHERE list_id = ?2 AND status = ?3 AND id > ?4 ORDER BY id LIMIT ?5)`,
  ),
}))

type CounterApp = Pick<App, 'db' | 'workBudget' | 'clock'>

/**
 * Returns a function that counts the recipients of a list, one count at a time for an account with its sub-accounts.
 * Throws a 429 `rate_limited` when four others wait, or after 10 seconds of waiting.
 */
export function createRecipientCounter(app: CounterApp) {
  const tenants = new Map<number, Slots>()
  return async (list: ContactList, streamSlug: string) => {
    const tenant = getTenantId(app.db, list.accountId)
    const slots = tenants.get(tenant) ?? new Slots(1, MAX_WAITING_PER_ACCOUNT)
    tenants.set(tenant, slots)
    const waiting = new AbortController()
    const timer = app.clock.after(MAX_WAIT_MS, () => waiting.abort())
    try {
      const counted = await slots.run(waiting.signal, () => {
        timer.cancel()
        spendWork(app, list)
        return countRecipients(app.db, list, streamSlug)
      })
      if (counted) return counted
    } finally {
      timer.cancel()
      if (slots.isIdle && tenants.get(tenant) === slots) tenants.delete(tenant)
    }
    throw tooManyRequests(
      'rate_limited',
      'Recipients are counted once at a time for an account; wait as long as Retry-After says.',
      MAX_WAIT_MS / seconds(1),
    )
  }
}

function spendWork({ db, workBudget }: CounterApp, { id, accountId }: ContactList): void {
  const active = readContactCount(db, accountId, id, 'active')
  workBudget.spend(accountId, Math.max(Math.min(active, EXPORT_WORK_UNITS), active / CONTACTS_PER_WORK_UNIT))
}

/** Examines the contacts in batches, between which other requests are served: a second or two for a million. */
async function countRecipients(db: Database, list: ContactList, streamSlug: string) {
  const { id: listId, accountId } = list
  // No suppression is of this stream if the stream does not exist yet.
  const streamId = findStreamId(db, accountId, streamSlug) ?? -1
  const [active, all] = [toContactStatusCode('active'), toSuppressionScopeCode('all')]
  const examined = { contacts: 0, suppressed: 0 }
  for (let after = 0; ; ) {
    const batch = sql(db).batch.get(0, listId, active, after, BATCH_SIZE, all, streamId)
    examined.contacts += batch?.n ?? 0
    examined.suppressed += batch?.stopped ?? 0
    if (!batch || batch.last === null || batch.n < BATCH_SIZE) break
    after = batch.last
    await yieldToEventLoop()
  }
  const inactive = Object.fromEntries(
    CONTACT_STATUSES.filter((status) => status !== 'active').map((status) => [
      status,
      readContactCount(db, accountId, listId, status),
    ]),
  ) as Record<Exclude<ContactStatus, 'active'>, number>
  return {
    contacts: Object.values(inactive).reduce((sum, n) => sum + n, examined.contacts),
    recipients: examined.contacts - examined.suppressed,
    left_out: { suppressed: examined.suppressed, ...inactive },
  }
}
