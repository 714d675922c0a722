/** @module The rules of operators as delivery looks them up: at once after their commit, although their absence is kept. */
import { expect, test } from 'bun:test'
import {
  addRule,
  findHold,
  findPool,
  findRedirect,
  hasProviderRules,
  removeRules,
} from '#features/sending/queue/queue-rules.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'

const RULE = { reason: 'a test', createdBy: 'operator', createdAt: 0 } as const

test('rules are found in their transaction and after its commit, and not after a failed one', async () => {
  await using service = await createTestApp()
  const { app } = service
  const { db, commit } = app
  const { accountId } = await createTestAccount(app)
  const lane = `${accountId}:held.test`
  const look = (database = db) => ({
    hold: findHold(database, lane)?.reason,
    redirect: findRedirect(database, lane),
    pool: findPool(database, accountId),
    ofProviders: hasProviderRules(database),
  })
  const none = { hold: undefined, redirect: undefined, pool: undefined, ofProviders: false }
  expect(look()).toEqual(none)

  const seen = await commit.write((tx) => {
    addRule(tx, { ...RULE, kind: 'hold', selector: { domain: 'held.test' } })
    return look(tx.db)
  })
  expect(seen).toEqual({ ...none, hold: 'a test' })
  expect(look()).toEqual({ ...none, hold: 'a test' })

  const failing = commit.write((tx) => {
    addRule(tx, { ...RULE, kind: 'redirect', selector: { accountId }, target: 'mx.other.test' })
    expect(look(tx.db).redirect).toBe('mx.other.test')
    throw new Error('refused')
  })
  await expect(failing).rejects.toThrow('refused')
  expect(look()).toEqual({ ...none, hold: 'a test' })

  await commit.write((tx) => {
    addRule(tx, { ...RULE, kind: 'redirect', selector: { provider: 'gmail' }, target: 'mx.other.test' })
    addRule(tx, { ...RULE, kind: 'pool', selector: { accountId }, target: 'news' })
  })
  expect(look()).toEqual({ hold: 'a test', redirect: undefined, pool: 'news', ofProviders: true })
  expect(findRedirect(db, lane, 'gmail')).toBe('mx.other.test')

  await commit.write((tx) => removeRules(tx, {}, undefined))
  await commit.write((tx) => removeRules(tx, {}, 'pool'))
  expect(look()).toEqual(none)
})
