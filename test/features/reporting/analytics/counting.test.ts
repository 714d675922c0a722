/**
 * @module What each outcome of an email counts, on which day and in which domain; and that the check finds differences.
 */
import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { checkConsistency } from '#app/cli/check.ts'
import {
  DAILY_COLUMNS,
  DAILY_FIELDS,
  type DailyStats,
  dayOf,
  ERASED_DOMAIN,
} from '#features/core/events/daily-stats.ts'
import { raiseHorizon } from '#features/core/events/purge.ts'
import { changeWithRecount } from '#features/reporting/analytics/recount.ts'
import { bounceLate, confirmUncertain, requeueFinished } from '#features/sending/queue/attempt-transitions.ts'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import { unsubscribe } from '#features/sending/unsubscribe/unsubscribe.ts'
import type { Tx } from '#platform/db/open.ts'
import { parseUuid } from '#platform/ids.ts'
import { days, minutes } from '#platform/units.ts'
import { createComplaints, type DeliveredEmail } from '#test/features/receiving/complaints/fixture.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { NOW, UNVERIFIED } from '#test/support/email-api.ts'
import { readTrackedRecipient } from '#test/support/tracked-recipient.ts'

let mail: Awaited<ReturnType<typeof createComplaints>>
beforeEach(async () => {
  mail = await createComplaints()
})
afterEach(async () => {
  await mail[Symbol.asyncDispose]()
})

const TODAY = dayOf(NOW)
const now = () => mail.service.app.eventTime()
const write = <T extends object | undefined | boolean | number>(run: (tx: Tx) => T) =>
  mail.service.app.commit.write<unknown>((tx) => void run(tx))

/** Every row: `day+0 domain` with its non-zero columns. The total is `all`. */
function figures(): Record<string, Partial<DailyStats>> {
  const rows = mail.service.app.db
    .query<{ day: number; domain: string } & DailyStats, []>(
      `SELECT day, domain, ${DAILY_FIELDS.map((field) => `${DAILY_COLUMNS[field]} AS ${field}`).join(', ')} FROM daily_figures ORDER BY day, domain`,
    )
    .all()
  return Object.fromEntries(
    rows.map(({ day, domain, ...values }) => [
      `day+${day - TODAY} ${domain === '' ? 'all' : domain}`,
      Object.fromEntries(Object.entries(values).filter(([, n]) => n !== 0)),
    ]),
  )
}

const balanced = () => expectBalanced({ ...mail.service, delivery: undefined })

const visit = (email: DeliveredEmail, index: number, url?: string, visitor: 'human' | 'machine' = 'human') =>
  write((tx) => {
    const recipientId = email.recipients[index]?.id ?? 0
    const recipient = readTrackedRecipient(tx.db, recipientId)
    recordEngagement(mail.service.app, tx, { recipient, url, visitor, ipAddress: null, userAgent: null })
    return undefined
  })

test('a delivery, bounce or failure counts on its day, in the domain of the recipient', async () => {
  await mail.accepted({ to: ['a@one.test', 'b@one.test'], cc: ['c@two.test'] })
  mail.service.clock.advance(days(1))
  await mail.deliver('sent')
  await mail.accepted({ to: 'a@one.test' })
  await mail.deliver('bounced')
  await mail.accepted({ to: 'a@one.test' })
  await mail.deliver('failed')
  expect(figures()).toEqual({
    'day+0 all': { sent: 3 },
    'day+0 one.test': { sent: 2 },
    'day+0 two.test': { sent: 1 },
    'day+1 all': { sent: 2, delivered: 3, bounced: 1 },
    'day+1 one.test': { sent: 2, delivered: 2, bounced: 1 },
    'day+1 two.test': { delivered: 1 },
  })
  balanced()
})

test('a late bounce removes the delivery from its day, and an empty row with it', async () => {
  const { emailId, recipients } = await mail.delivered({ to: 'a@one.test', send_at: undefined })
  await mail.accepted({ to: 'b@two.test' })
  mail.service.clock.advance(days(2))
  const at = { recipientId: recipients[0]?.id ?? 0, emailId, now: now() }
  await write((tx) => bounceLate(tx, at, { bounceType: 'soft', bounceCategory: 'other' }))
  expect(figures()).toEqual({
    'day+0 all': { sent: 2 },
    'day+0 one.test': { sent: 1 },
    'day+0 two.test': { sent: 1 },
    'day+2 all': { bounced: 1 },
    'day+2 one.test': { bounced: 1 },
  })
  balanced()
})

test('a bounce that is retried and delivered counts as one sent, one bounce and one delivery', async () => {
  const { emailId, recipients } = await mail.accepted({ to: 'a@one.test' })
  await mail.deliver('bounced')
  const at = { recipientId: recipients[0]?.id ?? 0, emailId, lane: '1:one.test', nextAt: now(), now: now() }
  await write((tx) => requeueFinished(tx, { ...at, from: 'bounced' }))
  await mail.deliver('sent')
  expect(figures()).toEqual({
    'day+0 all': { sent: 1, bounced: 1, delivered: 1 },
    'day+0 one.test': { sent: 1, bounced: 1, delivered: 1 },
  })
  balanced()
})

test('uncertain mail counts as delivered when its receiver confirms it', async () => {
  const { emailId, recipients } = await mail.accepted({ to: 'a@one.test' })
  await mail.deliver('uncertain')
  expect(figures()).toEqual({ 'day+0 all': { sent: 1 }, 'day+0 one.test': { sent: 1 } })
  await write((tx) => confirmUncertain(tx, { recipientId: recipients[0]?.id ?? 0, emailId, now: now() }, {}))
  expect(figures()).toMatchObject({ 'day+0 one.test': { sent: 1, delivered: 1 } })
  balanced()
})

// Proves: analytics-8
test('opens and clicks count events; opened emails count once in total, and once per domain', async () => {
  const email = await mail.delivered({ to: ['a@one.test', 'b@one.test'], cc: ['c@two.test'] })
  const { clock } = mail.service
  await visit(email, 0, undefined, 'machine')
  await visit(email, 0)
  await visit(email, 0) // Within five minutes.
  await visit(email, 1)
  clock.advance(days(1))
  await visit(email, 2)
  await visit(email, 0)
  await visit(email, 0, 'https://shop.test/')
  await visit(email, 0, 'https://shop.test/other')
  clock.advance(minutes(10))
  await visit(email, 2, 'https://shop.test/')
  expect(figures()).toEqual({
    'day+0 all': { sent: 3, delivered: 3, opens: 2, openedEmails: 1 },
    'day+0 one.test': { sent: 2, delivered: 2, opens: 2, openedEmails: 1 },
    'day+0 two.test': { sent: 1, delivered: 1 },
    'day+1 all': { opens: 2, clicks: 3, clickedEmails: 1 },
    'day+1 one.test': { opens: 1, clicks: 2, clickedEmails: 1 },
    'day+1 two.test': { opens: 1, clicks: 1, openedEmails: 1, clickedEmails: 1 },
  })
  balanced()
})

test('complaints count in the domain of the complainer, and only in the total when that is unknown', async () => {
  const named = await mail.delivered({ to: ['a@one.test', 'b@two.test'] })
  await mail.apply(await mail.report('standard', named, 1))
  await mail.apply(await mail.report('comcast', await mail.delivered({ to: ['c@one.test', 'd@two.test'] })))
  expect(figures()).toEqual({
    'day+0 all': { sent: 4, delivered: 4, complaints: 2 },
    'day+0 one.test': { sent: 2, delivered: 2 },
    'day+0 two.test': { sent: 2, delivered: 2, complaints: 1 },
  })
  balanced()
})

test('an unsubscription is counted with its event', async () => {
  const { emailId, recipients } = await mail.delivered({ to: ['a@one.test'], transactional: false })
  const { app, actor } = mail.service
  const facts = {
    accountUuid: parseUuid(actor.accountUuid) ?? new Uint8Array(),
    address: 'a@one.test',
    emailId,
    recipientId: recipients[0]?.id ?? 0,
    streamId: 0,
    listId: 0,
    senderDomain: 'sender.test',
  }
  await unsubscribe(app, facts, 'page')
  await unsubscribe(app, facts, 'page')
  expect(figures()).toMatchObject({ 'day+0 all': { unsubscribes: 1 }, 'day+0 one.test': { unsubscribes: 1 } })
  balanced()
})

test('sandbox mail counts nothing', async () => {
  const email = await mail.delivered({ to: 'a@one.test', from: `ada@${UNVERIFIED}` })
  await visit(email, 0)
  await visit(email, 0, 'https://shop.test/')
  expect(figures()).toEqual({})
  balanced()
})

/** Result of the check of analytics. */
function differences(): string[] {
  using db = new Database(join(mail.service.dataDir, 'tassis.db'), { readonly: true })
  return checkConsistency(db)
    .filter(({ rule }) => rule.includes('analytics'))
    .flatMap(({ differences: found }) => found)
    .filter((text) => !text.includes('stream:'))
}

// Proves: analytics-9
test.each([
  ["UPDATE daily_figures SET sent = sent + 1 WHERE domain = 'one.test'", 'one.test, sent: 2 stored, counted 1'],
  ["UPDATE daily_figures SET opens = 0 WHERE domain = ''", 'all domains, opens: 0 stored, counted 1'],
  ["UPDATE daily_figures SET opened_emails = 2 WHERE domain = ''", 'all domains, openedEmails: 2 stored, counted 1'],
  ["DELETE FROM daily_figures WHERE domain = 'two.test'", 'two.test, sent: 0 stored, counted 1'],
  [
    "INSERT INTO daily_figures (account_id, day, domain, complaints) VALUES (1, 1, 'x.test', 3)",
    'account 1, 1970-01-02, x.test, complaints: 3 stored, counted 0',
  ],
  ["UPDATE counters SET value = 5 WHERE metric = 'account:delivered'", 'delivered: 2 stored, the hours sum up to 5'],
  ["DELETE FROM counters WHERE metric = 'event:opened'", 'opens: 1 stored, the hours sum up to 0'],
  [
    "INSERT INTO counters (account_id, metric, hour, value) VALUES (1, 'captured:clicked', 24, 2)",
    'clicks: 0 stored, the hours sum up to -2',
  ],
])('the check finds what differs after %s', async (statement, told) => {
  const email = await mail.delivered({ to: ['a@one.test', 'b@two.test'] })
  await visit(email, 0)
  expect(differences()).toEqual([])
  mail.service.app.db.run(statement)
  expect(differences()).toContainEqual(expect.stringContaining(told))
})

test('stats of an erased recipient stay in the total, and leave the domain', async () => {
  const email = await mail.delivered({ to: ['a@one.test', 'b@one.test', 'c@two.test'] })
  for (const index of [0, 1, 2]) await visit(email, index)
  await write((tx) =>
    changeWithRecount(tx, email.emailId, () => {
      tx.db.run(`UPDATE recipients SET address = 'erased@${ERASED_DOMAIN}' WHERE id = ?`, [
        email.recipients[1]?.id ?? 0,
      ])
      return true
    }),
  )
  expect(figures()).toEqual({
    'day+0 all': { sent: 3, delivered: 3, opens: 3, openedEmails: 1 },
    'day+0 one.test': { sent: 1, delivered: 1, opens: 1, openedEmails: 1 },
    'day+0 erased.invalid': { sent: 1, delivered: 1, opens: 1, openedEmails: 1 },
    'day+0 two.test': { sent: 1, delivered: 1, opens: 1, openedEmails: 1 },
  })
  mail.service.clock.advance(days(1))
  await visit(email, 1)
  expect(Object.keys(figures()).filter((name) => name.startsWith('day+1'))).toEqual([])
  balanced()
})

// Proves: analytics-9
test('after retention the check compares what remains, and still finds errors', async () => {
  const old = await mail.delivered({ to: 'a@one.test' })
  const kept = await mail.delivered({ to: 'a@one.test' })
  const { clock, app } = mail.service
  await visit(kept, 0)
  clock.advance(days(40))
  const recent = await mail.delivered({ to: 'b@one.test' })
  await visit(recent, 0)
  await visit(kept, 0)
  await visit(old, 0)
  await write((tx) => {
    raiseHorizon(tx, 'events', NOW + days(30))
    raiseHorizon(tx, 'logs', NOW + days(30))
    tx.db.run('DELETE FROM events WHERE at < ?', [NOW + days(30)])
    tx.db.run('DELETE FROM recipients WHERE email_id = ?', [old.emailId])
    tx.db.run('DELETE FROM emails WHERE id = ?', [old.emailId])
    return true
  })
  expect(differences()).toEqual([])
  app.db.run(`UPDATE daily_figures SET opens = opens + 1 WHERE day = ?`, [TODAY + 40])
  expect(differences()).toEqual([
    expect.stringContaining('all domains, opens: 4 stored'),
    expect.stringContaining('one.test, opens: 4 stored'),
    expect.stringContaining('opens: 4 stored, the hours sum up to 3'),
  ])
})
