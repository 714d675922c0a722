/** @module Every table states what becomes of its rows, and the deletion of accounts, retention and erasure can do it. */
import { expect, test } from 'bun:test'
import { TABLE_FACTS } from '#features/core/app/table-facts.ts'
import { ACCOUNT_TABLES } from '#features/lifecycle/privacy/account-rows.ts'
import { STEPS } from '#features/lifecycle/privacy/erase-steps.ts'
import { createTestApp } from '#test/support/app.ts'

/** Whose statements are not in a `tables.ts`: SQLite's, those of search indexes, and that of migrations. */
const UNSTATED = /^(?:sqlite_\w+|(?:email|mailbox)_search(?:_\w+)?|migrations)$/

test('every table states the facts of its rows', async () => {
  await using service = await createTestApp()
  const tables = service.app.db
    .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    .all()
    .map(({ name }) => name)
  expect([...TABLE_FACTS.keys()].toSorted()).toEqual(tables.filter((name) => !UNSTATED.test(name)))
})

test('every column that a table states exists, and the rows of another table are those of an account', async () => {
  await using service = await createTestApp()
  const missing: string[] = []
  for (const [table, { account, content = [], rawMail = [], attachments, kept, personTexts }] of TABLE_FACTS) {
    const has = service.app.db
      .query<{ name: string }, [string]>('SELECT name FROM pragma_table_info(?)')
      .all(table)
      .map(({ name }) => name)
    const stated = [
      ...content,
      ...rawMail,
      attachments,
      kept?.since,
      ...(personTexts ? ['id', 'account_id', ...personTexts] : []),
    ]
    if (typeof account === 'string') stated.push(account)
    else if (!('except' in account)) {
      stated.push(account[0])
      if (TABLE_FACTS.get(account[1])?.account !== 'account_id') missing.push(`${table}: ${account[1]}`)
    }
    missing.push(
      ...stated.filter((column) => column !== undefined && !has.includes(column)).map((column) => `${table}.${column}`),
    )
  }
  expect(missing).toEqual([])
})

test('only few tables with an account_id leave their rows to other code when the account is deleted', async () => {
  await using service = await createTestApp()
  const withAccount = service.app.db
    .query<{ name: string }, []>(
      "SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c WHERE t.type = 'table' AND c.name = 'account_id' ORDER BY 1",
    )
    .all()
  const removed = new Set(ACCOUNT_TABLES.map(({ table }) => table))
  expect(withAccount.map(({ name }) => name).filter((name) => !removed.has(name))).toEqual([
    'account_deletions',
    'audit_logs',
    'emails',
    'operations',
  ])
})

/** Tables that are scanned as a whole: work in progress, rows of some days, and few rows. */
const SMALL: readonly string[] = ['contact_imports', 'batch_replies', 'invitations', 'password_resets']

test('rows of an account, and those that have expired, are found by an index', async () => {
  await using service = await createTestApp()
  const expired = [...TABLE_FACTS].flatMap(([table, { kept }]) =>
    kept ? [{ table, where: `${kept.since} <= ?` }] : [],
  )
  const scanned = [...ACCOUNT_TABLES, ...expired].filter(({ table, where }) =>
    service.app.db
      .query<{ detail: string }, [number]>(`EXPLAIN QUERY PLAN DELETE FROM ${table} WHERE ${where} LIMIT 200`)
      .all(1)
      .some(({ detail }) => detail.startsWith('SCAN')),
  )
  expect(scanned.map(({ table }) => table).toSorted()).toEqual(SMALL.toSorted())
})

test('the erasure of a person has a step for each table with texts', () => {
  const names = STEPS.map(({ name }) => name)
  const withTexts = [...TABLE_FACTS].filter(([, { personTexts }]) => personTexts).map(([table]) => table)
  expect(withTexts.filter((table) => !names.includes(table))).toEqual([])
})
