import { afterEach, beforeEach, expect, test } from 'bun:test'
import { startLossNotices } from '#features/people/domain-notices/losses.ts'
import { type Domain, markDeleted } from '#features/setup/domains/domains.ts'
import { recheckDomains } from '#features/setup/domains/recheck.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import type { DueLoop } from '#platform/queue/due-loop.ts'
import { hours, minutes } from '#platform/units.ts'
import { type DomainTest, startDomainTest } from '#test/features/setup/domains/fixture.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'

const dkimHost = (domain: Domain) => `${domain.dkimSelector}._domainkey.${domain.domain}`

let t: DomainTest
let loop: DueLoop

beforeEach(async () => {
  t = await startDomainTest()
  // This domain stays verified: the service sends its own mail from there.
  const operator = await createTestAccount(t.app)
  const { id, domain } = await t.register('service.test', operator)
  t.publish(domain)
  await verifyDomain(t.app, operator, id)
  loop = startLossNotices(t.app)
})

afterEach(async () => {
  await loop.stop()
  await t[Symbol.asyncDispose]()
})

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

const subjects = (): string[] =>
  t.app.db
    .query<{ subject: string }, []>('SELECT subject FROM emails ORDER BY id')
    .all()
    .map(({ subject }) => subject)

const dueCount = (): number =>
  t.app.db
    .query<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM domains WHERE loss_notice_due_at <= ?')
    .get(t.clock.now())?.n ?? 0

/**
 * Advances the clock as the service would see it: a check for due notices every few minutes, and the mails that follow.
 */
async function passTime(ms: number): Promise<void> {
  for (const until = t.clock.now() + ms; t.clock.now() < until; ) {
    t.clock.advance(Math.min(minutes(30), until - t.clock.now()))
    await recheckDomains(t.app)
    await sendDueNotices()
  }
}

const sendDueNotices = (): Promise<unknown> =>
  eventually(() => {
    loop.wake()
    return dueCount() === 0
  })

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

// Proves: send-9
test('owners of domains that had lapsed before an upgrade are mailed once at the first start', async () => {
  await loop.stop()
  const { id } = await t.register('example.com')
  // The state that the migration leaves.
  t.app.db.run("UPDATE domains SET records_lost_at = 9, loss_notice_due_at = 0 WHERE domain = 'example.com'")
  loop = startLossNotices(t.app)
  await passTime(hours(30))
  expect(subjects()).toEqual([ENDED])
  expect(t.stored(id)).toMatchObject({ lossNotice: 'ended', lossNoticeDueAt: null })
})

// Proves: send-9
test('a mail that could be sent to no one stays due, and is retried after a day', async () => {
  await loop.stop()
  loop = startLossNotices({ ...t.app, config: { ...t.app.config, systemFrom: 'desk@unknown.test' } })
  const { id, domain } = await registerVerified('example.com')
  t.break('NXDOMAIN', dkimHost(domain))
  await verifyDomain(t.app, t.actor, id)
  await sendDueNotices()
  expect(subjects()).toEqual([])
  expect(t.stored(id)).toMatchObject({ lossNotice: null, lossNoticeDueAt: t.clock.now() + hours(24) })
  await loop.stop()
  loop = startLossNotices(t.app)
  await passTime(hours(24))
  expect(subjects()).toEqual([LOST])
})

test("the mail goes to the account's address; it says which records are missing, since when, and until when the domain sends", async () => {
  const { id, domain } = await registerVerified('example.com')
  t.break('NXDOMAIN', dkimHost(domain))
  await verifyDomain(t.app, t.actor, id)
  await sendDueNotices()
  const row = t.app.db
    .query<{ address: string; from: string; ref: number }, []>(
      'SELECT address, from_address AS "from", text_ref AS ref FROM emails JOIN recipients ON email_id = emails.id',
    )
    .get()
  expect(row).toMatchObject({ address: 'owner@tassis.test', from: 'no-reply@service.test' })
  const text = new TextDecoder().decode(t.app.content.get(row?.ref ?? 0))
  expect(text).toContain('- example.com: dkim missing since 2026-01-01 00:00 UTC, sends until 2026-01-04 00:00 UTC')
  expect(text).toContain('POST /v1/domains/{id}/verify')
})

test("the mail says which verified parent domain still sends a domain's mail", async () => {
  await registerVerified('example.com')
  const { id, domain } = await registerVerified('sub.example.com')
  t.break('NXDOMAIN', dkimHost(domain))
  await verifyDomain(t.app, t.actor, id)
  await sendDueNotices()
  const row = t.app.db.query<{ ref: number }, []>('SELECT text_ref AS ref FROM emails').get()
  expect(new TextDecoder().decode(t.app.content.get(row?.ref ?? 0))).toContain(
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
test('domains of an account that lose records together are in one mail; an account gets one an hour', async () => {
  const all = await Promise.all(['a.example', 'b.example', 'c.example'].map(registerVerified))
  for (const { domain } of all.slice(0, 2)) t.break('NXDOMAIN', dkimHost(domain))
  await loop.stop()
  for (const { id } of all.slice(0, 2)) await verifyDomain(t.app, t.actor, id)
  loop = startLossNotices(t.app)
  await sendDueNotices()
  expect(subjects()).toEqual(['DNS records of 2 domains are missing'])
  const third = all[2]
  if (!third) throw new Error('not registered')
  t.break('NXDOMAIN', dkimHost(third.domain))
  await verifyDomain(t.app, t.actor, third.id)
  await passTime(minutes(50))
  expect(subjects()).toHaveLength(1)
  await passTime(minutes(20))
  expect(subjects().slice(1)).toEqual(['DNS records of c.example are missing'])
})

test('a domain deleted while it lacks records causes no more mail', async () => {
  const { id, domain } = await registerVerified('example.com')
  await loop.stop()
  t.break('NXDOMAIN', dkimHost(domain))
  await verifyDomain(t.app, t.actor, id)
  await t.app.commit.write((tx) => markDeleted(t.app, tx, t.actor, id))
  loop = startLossNotices(t.app)
  await passTime(hours(25))
  expect(subjects()).toEqual([])
})
