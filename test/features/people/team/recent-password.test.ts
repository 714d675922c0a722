/** @module Typing the password again: how long it counts, and what it is required for. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { minutes } from '#platform/units.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createTestUser, PASSWORD, signIn } from '#test/support/users.ts'

setDefaultTimeout(60_000)

const ADA = 'ada@people.test'

async function createService(): Promise<TestApi & { clock: ManualClock; reveal: string }> {
  const clock = new ManualClock(Date.UTC(2026, 2, 15))
  const service = await createTestApi({ clock })
  await createTestUser(service.app, service.actor, ADA, 'owner')
  const { body } = await service.api('POST', '/v1/webhooks', { url: 'https://127.0.0.1/hooks', events: ['sent'] })
  return { ...service, clock, reveal: `/v1/webhooks/${String(at(body, 'data', 'id'))}/secret/reveal` }
}

describe('the password of a session', () => {
  // Proves: user-20, notify-51
  test('counts for ten minutes after the sign-in, and again after it was confirmed', async () => {
    await using service = await createService()
    const { clock, reveal } = service
    const session = await signIn(service, ADA)
    expect((await session.ask('POST', reveal)).status).toBe(200)
    clock.advance(minutes(10))
    const refused = await session.ask('POST', reveal)
    expect([refused.status, at(refused.body, 'code')]).toEqual([403, 'password_required'])
    expect(at(refused.body, 'message')).toContain('POST /v1/auth/session/password')
    expect((await session.ask('POST', '/v1/auth/session/password', { password: PASSWORD })).status).toBe(204)
    expect((await session.ask('POST', reveal)).status).toBe(200)
    const actions = (at((await service.api('GET', '/v1/audit-logs')).body, 'data') as { action: string }[]).map(
      ({ action }) => action,
    )
    expect(actions.slice(0, 2)).toEqual(['webhook.secret_revealed', 'session.password_confirmed'])
    clock.advance(minutes(10))
    expect((await session.ask('POST', reveal)).status).toBe(403)
  })

  // Proves: user-20
  test('does not count in another session of the user, nor after the clock was set back far', async () => {
    await using service = await createService()
    const { clock, reveal } = service
    const first = await signIn(service, ADA)
    const second = await signIn(service, ADA)
    clock.advance(minutes(20))
    expect((await first.ask('POST', '/v1/auth/session/password', { password: PASSWORD })).status).toBe(204)
    expect((await second.ask('POST', reveal)).status).toBe(403)
    clock.jumpTo(clock.now() - minutes(15))
    expect((await first.ask('POST', reveal)).status).toBe(403)
  })

  // Proves: user-20
  test('that is wrong is a 422 on the field, and a 429 after too many; a key is a 403', async () => {
    await using service = await createService()
    const session = await signIn(service, ADA)
    const wrong = await session.ask('POST', '/v1/auth/session/password', { password: 'not this one' })
    expect([wrong.status, at(wrong.body, 'code'), at(wrong.body, 'details', 0, 'field')]).toEqual([
      422,
      'wrong_password',
      'password',
    ])
    const statuses: number[] = []
    for (let i = 0; i < 12; i++)
      statuses.push((await session.ask('POST', '/v1/auth/session/password', { password: 'not this one' })).status)
    expect(statuses.at(-1)).toBe(429)
    const byKey = await service.api('POST', '/v1/auth/session/password', { password: PASSWORD })
    expect([byKey.status, at(byKey.body, 'code')]).toEqual([403, 'session_required'])
  })

  // Proves: user-20
  test('counts after it was changed, and not in a session in which it was never typed', async () => {
    await using service = await createService()
    const { clock, reveal } = service
    const session = await signIn(service, ADA)
    clock.advance(minutes(11))
    const next = { current_password: PASSWORD, password: 'four other random words' }
    expect((await session.ask('PUT', '/v1/auth/password', next)).status).toBe(204)
    expect((await session.ask('POST', reveal)).status).toBe(200)
    service.app.db.run('UPDATE sessions SET password_at = NULL')
    expect((await session.ask('POST', reveal)).status).toBe(403)
  })
})
