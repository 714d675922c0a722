/**
 * @module End to end: storage budgets. Remote clients fill the budget of received mail over SMTP, and accounts that use
 * little of it lose nothing.
 */
import { expect, test } from 'bun:test'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { INBOUND_DOMAIN, startPostOffice } from './post-office.ts'

const random = (bytes: number): string =>
  (
    Buffer.from(crypto.getRandomValues(new Uint8Array(bytes)))
      .toString('base64')
      .match(/.{1,76}/g) ?? []
  ).join('\r\n')

test('mail to invented addresses of one tenant deletes neither a job nor routed mail of another', async () => {
  await using office = await startPostOffice({ TASSIS_INBOUND_MAX_BYTES: '2MiB' })
  const { app, api, submit: handIn, newAccount, newKey } = office
  const attacked = await newAccount()
  const { domain } = await createDomain(app, attacked, 'attacked.test')
  app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1 WHERE id = ?', [domain.id])
  const mailbox = await api('POST', '/v1/agent-mailboxes', { local_part: 'jobs' })
  const letter = (to: string, bytes: number) => ({
    to,
    mailFrom: 'stranger@elsewhere.test',
    raw: `From: stranger@elsewhere.test\r\nSubject: A job\r\n\r\n${random(bytes)}\r\n`,
  })
  const domains = at((await api('GET', '/v1/domains')).body, 'data') as { id: string; domain: string }[]
  const domainId = domains.find((each) => each.domain === INBOUND_DOMAIN)?.id
  const route = { domain_id: domainId, pattern: 'support', match_type: 'exact' }
  expect((await api('POST', '/v1/inbound-routes', route)).status).toBe(201)
  await handIn(letter(`jobs@${INBOUND_DOMAIN}`, 1000), letter(`support@${INBOUND_DOMAIN}`, 1000))
  await handIn(...Array.from({ length: 30 }, (_, n) => letter(`invented-${n}@attacked.test`, 80_000)))
  const list = async (key?: string) =>
    at((await api('GET', '/v1/inbound', undefined, key ? { key } : {})).body, 'pagination', 'total')
  const theirs = await newKey([], attacked)
  expect(await list(theirs)).toBe(30)
  await runRetention(app)
  expect(Number(await list(theirs))).toBeLessThan(30)
  expect(await list()).toBe(1)
  const job = await api('GET', `/v1/agent-mailboxes/${at(mailbox.body, 'data', 'id')}/messages/next?timeout=0`)
  expect({ status: job.status, subject: at(job.body, 'data', 'subject') }).toEqual({ status: 200, subject: 'A job' })
  expectBalanced(office)
})
