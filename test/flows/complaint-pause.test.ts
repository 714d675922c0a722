/**
 * @module End to end: which complaints pause an account. Reports are submitted to the listener, SPF is checked, and the
 * abuse check runs.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { count } from '#features/core/events/record.ts'
import { startAbuseWatch } from '#features/reporting/abuse/watch.ts'
import { toAccountMetric } from '#features/setup/streams/reputation.ts'
import { type Copy, complaintAbout, HOST, type PostOffice, startPostOffice } from './post-office.ts'

const YAHOO = 'feedback@arf.mail.yahoo.com'
const MICROSOFT = 'staff@hotmail.com'

let office: PostOffice
const copies: Copy[] = []
beforeAll(async () => {
  office = await startPostOffice({ TASSIS_PLANS: 'unlimited.abuse_watch=true' })
  const { app, actor } = office
  await app.commit.write((tx) => count(tx, actor.accountId, toAccountMetric('delivered'), app.clock.now(), 190))
  const addresses = Array.from({ length: 12 }, (_, number) => `customer-${number}@receiver.test`)
  const sent = await Promise.all(addresses.map((to) => office.sendBulk({ to })))
  copies.push(...addresses.map((address, index) => sent[index]?.copyFor(address) as Copy))
}, 240_000)
afterAll(() => office[Symbol.asyncDispose]())

const report = (copy: Copy | undefined, mailFrom: string) => ({
  mailFrom,
  to: `fbl@${HOST}`,
  raw: copy ? complaintAbout(copy) : '',
})

async function isPaused(): Promise<boolean> {
  // The abuse check starts with every account, and `stop` waits until it has finished.
  await startAbuseWatch(office.app).stop()
  const { body } = await office.api('GET', '/v1/account')
  return JSON.stringify(body).includes('"source":"reputation"')
}

// Proves: notify-41
test('unverified reports suppress the recipients they prove but never pause an account, and neither do reports of a single feedback loop', async () => {
  await office.submit(...copies.slice(0, 6).map((copy) => report(copy, 'mallory@receiver.test')))
  await office.submit(report(copies[6], ''))
  expect((await office.suppressions()).map(({ reason }) => reason)).toEqual(Array(7).fill('complaint'))
  expect(await isPaused()).toBe(false)
  await office.submit(...copies.slice(2, 7).map((copy) => report(copy, YAHOO)))
  expect(await isPaused()).toBe(false)
  await office.submit(report(copies[7], MICROSOFT))
  expect(await isPaused()).toBe(true)
})
