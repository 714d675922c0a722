import { afterEach, beforeEach, expect, test } from 'bun:test'
import { type Domain, markDeleted } from '#features/setup/domains/domains.ts'
import { LOSS_NOTICE } from '#features/setup/domains/notices.ts'
import { recheckDomains, verifyDomain } from '#features/setup/domains/verify.ts'
import { hours, minutes } from '#platform/units.ts'
import { createTestAccount } from '#test/support/app.ts'
import { createNoticeSender, listServiceMail } from '#test/support/notices.ts'
import { type DomainTest, startDomainTest } from './fixture.ts'

const dkimHost = (domain: Domain) => `${domain.dkimSelector}._domainkey.${domain.domain}`

let t: DomainTest
let sendDueNotices: () => Promise<void>

beforeEach(async () => {
  t = await startDomainTest()
  // This domain stays verified: the service sends its own mail from there.
  const operator = await createTestAccount(t.app)
  const { id, domain } = await t.register('service.test', operator)
  t.publish(domain)
  await verifyDomain(t.app, operator, id)
  sendDueNotices = createNoticeSender(t.app, LOSS_NOTICE)
})

afterEach(() => t[Symbol.asyncDispose]())

async function registerVerified(name: string): Promise<{ id: string; domain: Domain }> {
  const registered = await t.register(name)
  t.publish(registered.domain)
  await verifyDomain(t.app, t.actor, registered.id)
  return registered
}

function restore(domain: Domain): void {
  delete t.dns.zone[dkimHost(domain)]
  t.publish(domain, ['dkim'])
}

const subjects = (): string[] => listServiceMail(t.app).map(({ subject }) => subject)

/** Advances the clock as the service would see it: checks of DNS every half an hour, and the mails that follow. */
async function passTime(ms: number): Promise<void> {
  for (const until = t.clock.now() + ms; t.clock.now() < until; ) {
    t.clock.advance(Math.min(minutes(30), until - t.clock.now()))
    await recheckDomains(t.app)
    await sendDueNotices()
  }
}

const LOST = 'DNS records of example.com are missing'
const ENDED = 'Mail from example.com is refused: DNS records are missing'
const RESTORED = 'The DNS records of example.com are back'

// Proves: send-9
test('owners are mailed immediately when a verified domain loses records, each day while it sends, and when that ends', async () => {
  const { domain } = await registerVerified('example.com')
  t.break('NXDOMAIN', dkimHost(domain))
  await passTime(hours(6))
  expect(subjects()).toEqual([LOST])
  await passTime(hours(24))
  expect(subjects()).toEqual([LOST, LOST])
  await passTime(hours(50))
  expect(subjects()).toEqual([LOST, LOST, LOST, ENDED])
  await passTime(hours(72))
  expect(subjects()).toHaveLength(4)
  restore(domain)
  await passTime(hours(2))
  expect(subjects().slice(4)).toEqual([RESTORED])
})

// Proves: send-9
test('an owner whose only domain has lapsed gets the notice that its mail is refused from that domain', async () => {
  t.app.db.run("UPDATE domains SET deleted_at = 1 WHERE domain = 'service.test'")
  const { domain } = await registerVerified('example.com')
  t.break('NXDOMAIN', dkimHost(domain))
  await passTime(hours(80))
  expect(subjects().at(-1)).toBe(ENDED)
  const ended = t.app.db.query('SELECT from_address AS "from", sandbox FROM emails WHERE subject = ?').get(ENDED)
  expect(ended).toEqual({ from: 'no-reply@example.com', sandbox: 0 })
})

test("the mail goes to the account's address; it says which records are missing, since when, and until when the domain sends", async () => {
  const { id, domain } = await registerVerified('example.com')
  t.break('NXDOMAIN', dkimHost(domain))
  await verifyDomain(t.app, t.actor, id)
  await sendDueNotices()
  const [mail] = listServiceMail(t.app)
  expect(mail).toMatchObject({ to: 'owner@tassis.test', from: 'no-reply@service.test' })
  expect(mail?.text).toContain(
    '- example.com: dkim missing since 2026-01-01 00:00 UTC, sends until 2026-01-04 00:00 UTC',
  )
  expect(mail?.text).toContain('POST /v1/domains/{id}/verify')
})

test("the mail says which verified parent domain still sends a domain's mail", async () => {
  await registerVerified('example.com')
  const { id, domain } = await registerVerified('sub.example.com')
  t.break('NXDOMAIN', dkimHost(domain))
  await verifyDomain(t.app, t.actor, id)
  await sendDueNotices()
  expect(listServiceMail(t.app)[0]?.text).toContain(
    'sends until 2026-01-04 00:00 UTC; its mail is still sent under example.com\n',
  )
})

// Proves: send-9
test('records that come and go cause one loss mail a day, and one recovery mail for each', async () => {
  const { id, domain } = await registerVerified('example.com')
  for (let flap = 0; flap < 12; flap++) {
    t.break('NXDOMAIN', dkimHost(domain))
    await verifyDomain(t.app, t.actor, id)
    await passTime(minutes(60))
    restore(domain)
    await verifyDomain(t.app, t.actor, id)
    await passTime(minutes(60))
  }
  expect(subjects()).toEqual([LOST, RESTORED])
})

// Proves: send-9
test('domains of an account that lose records together are in one mail', async () => {
  const all = await Promise.all(['a.example', 'b.example'].map(registerVerified))
  for (const { domain } of all) t.break('NXDOMAIN', dkimHost(domain))
  for (const { id } of all) await verifyDomain(t.app, t.actor, id)
  await sendDueNotices()
  expect(subjects()).toEqual(['DNS records of 2 domains are missing'])
})

test('a domain deleted while it lacks records causes no more mail', async () => {
  const { id, domain } = await registerVerified('example.com')
  t.break('NXDOMAIN', dkimHost(domain))
  await verifyDomain(t.app, t.actor, id)
  await t.app.commit.write((tx) => markDeleted(t.app, tx, t.actor, id))
  await passTime(hours(25))
  expect(subjects()).toEqual([])
})
