/** @module The deletion of accounts covers every table. */
import { expect, test } from 'bun:test'
import { SOURCES } from '#features/core/content-gc/sources.ts'
import { ACCOUNT_TABLES, LARGE_TABLES, LAST_TABLES } from '#features/lifecycle/privacy/account-tables.ts'
import { createTestApp } from '#test/support/app.ts'

/**
 * Tables without account data, or only with digests and numbers that are meaningless after the deletion; with the
 * reason.
 */
const NOT_OF_ACCOUNTS: Readonly<Record<string, string>> = {
  audit_chain: 'ends of the chain of the audit log: hashes',
  billing_events: 'ids of the payment provider, for 60 days',
  content_cursor: 'a position in the emails',
  content_garbage: 'references, swept before the deletion is complete',
  form_asks: 'keyed digests of addresses, for 30 days',
  inbound_receipts: 'messages on their way, for seconds',
  meta: 'values of the installation',
  migrations: 'names of migrations',
  mta_sts_policies: 'policies that recipient domains publish',
  operator_mail: 'mail to the operator',
  provider_pairs: 'limits and suspensions by provider and outgoing address',
  retention_left: 'row ids',
  tls_session_counts: 'numbers of sessions to mail hosts, for days',
  warm_ups: 'daily budgets of our outgoing addresses',
}

test('every table loses the rows of a deleted account, or has no account data', async () => {
  await using service = await createTestApp()
  const tables = service.app.db
    .query<{ name: string }, []>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'mailbox_search_%' AND name NOT LIKE 'email_search_%' ORDER BY name",
    )
    .all()
    .map(({ name }) => name)
  const known = [
    ...ACCOUNT_TABLES.map(({ table }) => table),
    ...LARGE_TABLES,
    ...LAST_TABLES,
    ...Object.keys(NOT_OF_ACCOUNTS),
  ]
  expect(known.toSorted()).toEqual(tables)
})

test('every table with content references drops them', () => {
  const sources = Object.values(SOURCES).flat()
  const own = new Set([...LARGE_TABLES, ...Object.keys(NOT_OF_ACCOUNTS)])
  const letting = ACCOUNT_TABLES.filter(({ refs }) => refs !== undefined).map(({ table }) => table)
  const expected = [...new Set(sources.map(({ table }) => table))].filter((table) => !own.has(table))
  expect(letting.toSorted()).toEqual(expected.toSorted())
})

/** Tables that are scanned as a whole, with the reason. */
const SMALL: readonly string[] = [
  // Work in progress.
  'contact_imports',
]

test('rows of an account are found by an index, because each batch queries every table', async () => {
  await using service = await createTestApp()
  const scanned = ACCOUNT_TABLES.filter(({ table, where }) =>
    service.app.db
      .query<{ detail: string }, [number]>(`EXPLAIN QUERY PLAN DELETE FROM ${table} WHERE ${where} LIMIT 200`)
      .all(1)
      .some(({ detail }) => detail.startsWith('SCAN')),
  )
  expect(scanned.map(({ table }) => table)).toEqual(SMALL.toSorted())
})
