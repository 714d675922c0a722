/** @module Consistency rules of contacts: their counters, and the fields that each status allows. */
import { createCounterRule } from '#features/core/events/counter-rules.ts'
import { codeRows, queryRule, type Row } from '#platform/db/consistency.ts'
import { CONTACT_METRIC_PREFIX, CONTACT_STATUSES, toContactStatus, toContactStatusCode } from './status.ts'

export const contactCounters = createCounterRule({
  rule: 'the counters of contacts by list and status equal a recount',
  prefix: CONTACT_METRIC_PREFIX,
  counted: `SELECT account_id, list_id || ':' || v.name AS name, 0 AS hour, count(*) AS n FROM contacts
    JOIN ${codeRows(CONTACT_STATUSES)} v ON code = status GROUP BY 1, 2`,
})

const describeContact = (r: Row): string => `contact ${r['id']} is ${toContactStatus(Number(r['status']))}`

export const contactConfirmations = queryRule({
  rule: 'no active contact has an open confirmation, and no pending contact was ever active',
  sql: `SELECT id, status FROM contacts
    WHERE status = ${toContactStatusCode('active')} AND (confirming_since IS NOT NULL OR confirmed_at IS NULL)
      OR status = ${toContactStatusCode('pending')} AND confirmed_at IS NOT NULL`,
  describe: describeContact,
})

export const contactOptIns = queryRule({
  rule: 'only active contacts are opted in again after their address left all lists',
  sql: `SELECT id, status FROM contacts WHERE opted_in_at IS NOT NULL AND status <> ${toContactStatusCode('active')}`,
  describe: describeContact,
})
