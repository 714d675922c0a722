/** @module Counts who would get a broadcast to a list now, and who would be left out and why. Never writes. */
import { EXPORT_WORK_UNITS } from '#features/core/accounts/work-budget.ts'
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
import { createFairYield } from '#platform/time/clock.ts'
import { IS_SUPPRESSED } from './start.ts'

/** Contacts examined at a time: about 5 ms. */
const BATCH_SIZE = 2000
/** Contacts examined for one unit, in long lists; in short ones each contact is a unit. */
const CONTACTS_PER_WORK_UNIT = 20
/** However many lists are counted at the same time, each batch gets its own tick of the event loop. */
const yieldFairly = createFairYield()

const sql = prepareStatements((db) => ({
  // The parameters are numbered as IS_SUPPRESSED expects them.
  batch: db.prepare<{ last: number | null; n: number; stopped: number | null }, number[]>(
    `SELECT MAX(id) AS last, COUNT(*) AS n, SUM(stopped) AS stopped FROM (SELECT id, ${IS_SUPPRESSED} AS stopped
     FROM contacts INDEXED BY contacts_status WHERE list_id = ?2 AND status = ?3 AND id > ?4 ORDER BY id LIMIT ?5)`,
  ),
}))

/** Examines the contacts in batches, between which other requests are served: a second or two for a million. */
export async function countRecipients(
  { db, workBudget }: Pick<App, 'db' | 'workBudget'>,
  { id: listId, accountId }: ContactList,
  streamSlug: string,
) {
  const units = readContactCount(db, accountId, listId, 'active')
  workBudget.spend(accountId, Math.max(Math.min(units, EXPORT_WORK_UNITS), units / CONTACTS_PER_WORK_UNIT))
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
    await yieldFairly()
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
