import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { readInstanceId } from '#features/core/fence/restored.ts'
import { createDomain, type Domain } from '#features/setup/domains/domains.ts'
import { vouchForDomain } from '#features/setup/domains/verify.ts'
import { formatUuid } from '#platform/ids.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { type BrowserSession, createTestUser, signIn } from '#test/support/users.ts'

describe('POST /v1/domains/{id}/test-email', () => {
  const clock = new ManualClock()
  let t: TestApi
  let developer: BrowserSession
  let count = 0
  let domain: Domain
  let path = ''

  beforeAll(async () => {
    t = await createTestApi({ clock })
    await createTestUser(t.app, t.actor, 'ada@example.net', 'developer')
    developer = await signIn(t, 'ada@example.net')
  })
  beforeEach(async () => {
    ;({ domain } = await createDomain(t.app, t.actor, `d${++count}.test`))
    path = `/v1/domains/${formatUuid(domain.uuid)}/test-email`
  })
  afterAll(() => t[Symbol.asyncDispose]())

  const verify = () => vouchForDomain(t.app, t.actor, formatUuid(domain.uuid))

  // Proves: domain-37
  test('sends an email from the domain to the signed-in user', async () => {
    await verify()
    const sent = await developer.ask('POST', path)
    expect(sent.status).toBe(202)
    expect(sent.body).toMatchObject({ data: { status: 'queued', to: 'ada@example.net', sandbox: false } })
    const email = await t.api('GET', `/v1/emails/${at(sent.body, 'data', 'id')}`)
    expect(email.body).toMatchObject({
      data: {
        from_address: `Test <test@${domain.domain}>`,
        subject: `Test email from ${domain.domain}`,
        tags: ['test-email'],
        // Of two live copies of the data, it shows which one sends.
        headers: { 'X-Tassis-Instance': readInstanceId(t.app.db) },
      },
    })
    expect((await developer.ask('POST', path, { to: 'Ada@Example.net' })).status).toBe(202)
  })

  // Proves: domain-37
  test('refuses other addresses', async () => {
    await verify()
    for (const to of ['bob@example.net', 'ada@example.net, bob@example.net', '']) {
      const refused = await developer.ask('POST', path, { to })
      expect(refused.status).toBe(422)
      expect(refused.body).toMatchObject({ details: [{ field: 'to' }] })
    }
  })

  // Proves: domain-37
  test('is a 409 while the domain is not verified', async () => {
    expect(await developer.ask('POST', path)).toMatchObject({ status: 409, body: { code: 'domain_not_verified' } })
  })

  // Proves: domain-37
  test('is limited to 5 an hour for a domain', async () => {
    await verify()
    for (let i = 0; i < 5; i++) expect((await developer.ask('POST', path)).status).toBe(202)
    const refused = await developer.ask('POST', path)
    expect(refused).toMatchObject({ status: 429, body: { code: 'rate_limited' } })
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(720)
    clock.advance(721_000)
    expect((await developer.ask('POST', path)).status).toBe(202)
  })

  // Proves: domain-37
  test('is for signed-in users who may send, not for API keys', async () => {
    await verify()
    expect(await t.api('POST', path)).toMatchObject({ status: 403, body: { code: 'session_required' } })
    await createTestUser(t.app, t.actor, `viewer${count}@example.net`, 'viewer')
    const viewer = await signIn(t, `viewer${count}@example.net`)
    expect(await viewer.ask('POST', path)).toMatchObject({ status: 403, body: { code: 'insufficient_role' } })
    expect((await developer.ask('POST', `/v1/domains/${t.actor.accountUuid}/test-email`)).status).toBe(404)
  })
})
