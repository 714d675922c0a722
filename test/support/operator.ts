/** @module Operators for tests: users with the right and an authenticator app, signed in over HTTP. */
import { Secret, TOTP } from 'otpauth'
import { setUserOperator } from '#features/people/team/operator-routes.ts'
import { at, type TestApi } from './api.ts'
import { type BrowserSession, createTestUser, PASSWORD, signIn } from './users.ts'

/** Sets up an authenticator app in a session; resolves with its secret. */
export async function setUpTotp({ app }: Pick<TestApi, 'app'>, session: BrowserSession): Promise<string> {
  const begun = await session.ask('POST', '/v1/auth/totp', { password: PASSWORD })
  const secret = String(at(begun.body, 'data', 'secret'))
  const code = createCode(secret, app.clock.now())
  const confirmed = await session.ask('POST', '/v1/auth/totp/confirm', { code })
  if (confirmed.status !== 200) throw new Error(`not confirmed: ${JSON.stringify(confirmed.body)}`)
  return secret
}

/** The code that an authenticator app shows at a time. */
export const createCode = (secret: string, timestamp: number): string =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp })

/** A new user of the first account who is an operator, in a session that has used the authenticator app. */
export async function signInAsOperator(
  service: TestApi,
  email = 'olga@people.test',
): Promise<BrowserSession & { readonly totpSecret: string }> {
  await createTestUser(service.app, service.actor, email, 'owner')
  await setUserOperator(service.app, email, true)
  const session = await signIn(service, email)
  return { ...session, totpSecret: await setUpTotp(service, session) }
}
