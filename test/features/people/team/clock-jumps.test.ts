/**
 * @module Clocks that were wrong for a while, such as those of machines that start before they synchronise: sessions
 * and links still end when they should.
 */
import { expect, test } from 'bun:test'
import { createUserResetLink } from '#features/people/team/user-admin.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createTestUser, findToken, PASSWORD, postForm, signIn } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const START = Date.UTC(2026, 0, 1)
const WRONG = START + days(3650)

interface Service extends TestApi {
  readonly clock: ManualClock
}

/** A service whose clock was ten years ahead when it started. */
async function createService(): Promise<Service> {
  const clock = new ManualClock(WRONG)
  const service = await createTestApi({ clock })
  await createTestUser(service.app, service.actor, ADA, 'owner')
  return { ...service, clock }
}

test('a session created while the clock was years ahead ends once the clock is corrected, and a new one lasts as long as any other', async () => {
  await using service = await createService()
  const { app, clock } = service
  const made = await signIn(service, ADA)
  app.eventTime()
  clock.jumpTo(START + days(13))
  expect((await made.ask('GET', '/v1/account')).status).toBe(401)
  const after = await signIn(service, ADA)
  clock.advance(days(13))
  expect((await after.ask('GET', '/v1/account')).status).toBe(200)
  await app.commit.barrier()
  clock.advance(days(14))
  expect((await after.ask('GET', '/v1/account')).status).toBe(401)
})

test('a password link and an invitation expire in time, whatever the clock showed before', async () => {
  await using service = await createService()
  const { app, clock, url } = service
  app.eventTime()
  const early = findToken(await createUserResetLink(app, ADA))
  clock.jumpTo(START)
  const confirm = async (token: string) =>
    (await postForm(url, '/reset-password', { token, password: `${PASSWORD} new` })).status
  expect(await confirm(early)).toBe(422)
  const token = findToken(await createUserResetLink(app, ADA))
  clock.advance(hours(24))
  expect(await confirm(token)).toBe(422)
  const key = { key: service.key }
  await service.api('POST', '/v1/team/invitations', { email: 'bob@people.test', role: 'viewer' }, key)
  clock.advance(days(7) + minutes(1))
  const { body } = await service.api('GET', '/v1/team/invitations')
  expect(body).toMatchObject({ data: [] })
})
