/**
 * @module Recounts stats from emails, recipients, events and complaints: for `tassis check`, and for code that changes
 * rows after they were counted.
 */

import { addToRow, type DailyField } from '#features/core/events/daily-stats.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { NOT_SPAM } from '#features/receiving/complaints/apply.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { days } from '#platform/units.ts'

const DAY_MS = days(1)

/** SQL: the part of `address` after its last @. */
const DOMAIN = `substr(address, length(rtrim(address, replace(address, '@', ''))) + 1)`

const UNSENT = [statusCode('rejected'), statusCode('cancelled')].join(', ')

/** The contributions of emails: rows (account_id, at, domain, field); domain is null when unknown. */
const contributionsSql = (whereEmail: string): string => `
  SELECT account_id, created_at AS at, ${DOMAIN} AS domain, 'sent' AS field FROM emails JOIN recipients ON email_id = emails.id
    WHERE sandbox = 0 AND recipients.status NOT IN (${UNSENT}) ${whereEmail}
  UNION ALL SELECT account_id, recipients.delivered_at, ${DOMAIN}, 'delivered' FROM emails JOIN recipients ON email_id = emails.id
    WHERE sandbox = 0 AND recipients.delivered_at IS NOT NULL ${whereEmail}
  UNION ALL SELECT account_id, at, domain, CASE type WHEN ${toEventCode('bounced')} THEN 'bounced' WHEN ${toEventCode('opened')} THEN 'opens'
      WHEN ${toEventCode('clicked')} THEN 'clicks' ELSE 'unsubscribes' END
    FROM (${eventsSql(['bounced', 'opened', 'clicked', 'unsubscribed'], whereEmail)})
  UNION ALL SELECT complaints.account_id, complaints.created_at, ${DOMAIN}, 'complaints' FROM complaints JOIN emails ON emails.id = complaints.email_id
    LEFT JOIN recipients ON recipients.id = recipient_id WHERE sandbox = 0 AND feedback_type <> '${NOT_SPAM}' ${whereEmail}`

function eventsSql(types: readonly Parameters<typeof toEventCode>[0][], whereEmail: string): string {
  return `SELECT events.account_id, events.email_id, at, type, ${DOMAIN} AS domain FROM emails JOIN events ON events.email_id = emails.id
    LEFT JOIN recipients ON recipients.id = recipient_id AND recipients.email_id = emails.id
    WHERE type IN (${types.map(toEventCode).join(', ')}) AND sandbox = 0 ${whereEmail}`
}

/** The first event of a type of each email: once per domain, and once (domain '') for all domains. */
const firstEventsSql = (type: 'opened' | 'clicked', field: DailyField, whereEmail: string): string => `
  SELECT account_id, min(at) AS at, domain, '${field}' AS field FROM (${eventsSql([type], whereEmail)})
    WHERE domain IS NOT NULL GROUP BY email_id, domain
  UNION ALL SELECT account_id, min(at), '', '${field}' FROM (${eventsSql([type], whereEmail)}) GROUP BY email_id`

/**
 * SQL that recounts all stats: (account, day, domain, field, n).
 * @param whereEmail such as `AND emails.id = ?1`, to recount only these emails
 */
export const recountSql = (whereEmail = ''): string => `
  SELECT account_id AS account, at / ${DAY_MS} AS day, domain, field, count(*) AS n FROM (
    SELECT account_id, at, domain, field FROM (${contributionsSql(whereEmail)}) WHERE domain IS NOT NULL
    UNION ALL SELECT account_id, at, '', field FROM (${contributionsSql(whereEmail)})
    UNION ALL ${firstEventsSql('opened', 'openedEmails', whereEmail)}
    UNION ALL ${firstEventsSql('clicked', 'clickedEmails', whereEmail)})
  GROUP BY 1, 2, 3, 4`

interface RecountRow {
  readonly account: number
  readonly day: number
  readonly domain: string
  readonly field: DailyField
  readonly n: number
}

const sql = prepareStatements((db) => ({
  ofEmail: db.prepare<RecountRow, [number]>(recountSql('AND emails.id = ?1')),
}))

/**
 * Runs `change`, which alters rows of one email that stats count (a recipient's address, an event, a complaint), and
 * corrects the stats: subtracts what the email contributed before the change, and adds what it contributes afterwards.
 * Do not use it for changes that `countDaily` counts. Takes some 0.2 ms.
 */
export function changeWithRecount<T>(tx: Tx, emailId: number, change: () => T): T {
  const { ofEmail } = sql(tx.db)
  const before = ofEmail.all(emailId)
  const result = change()
  for (const { account, day, domain, field, n } of before) addToRow(tx, account, day, domain, field, -n)
  for (const { account, day, domain, field, n } of ofEmail.all(emailId)) addToRow(tx, account, day, domain, field, n)
  return result
}
