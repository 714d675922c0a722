/** @module Passkeys in Chromium, with its virtual authenticator: added in the profile, used to sign in and to confirm. */
import { expect, test } from 'bun:test'
import { setUserOperator } from '#features/people/team/operator-routes.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { describeInBrowser, heading } from '#test/support/dashboard.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { createTestUser, signIn } from '#test/support/users.ts'

const ADA = 'ada@people.test'

const AUTHENTICATOR = {
  protocol: 'ctap2',
  transport: 'internal',
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
} as const

describeInBrowser('a passkey', (open) => {
  test('is added in the profile, signs in from the sign-in page, opens the screens of operators, and is removed', async () => {
    const port = await findFreePort()
    const url = `http://localhost:${port}`
    await using service = await createTestApi({ port, settings: { TASSIS_PUBLIC_URL: url } })
    await createTestUser(service.app, service.actor, ADA, 'owner')
    await setUserOperator(service.app, ADA, true)
    await using dashboard = await open({ url }, ADA)
    const { page } = dashboard
    const devtools = await page.context().newCDPSession(page)
    await devtools.send('WebAuthn.enable')
    const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', { options: AUTHENTICATOR })
    await dashboard.load('/settings/profile')
    await page.getByRole('button', { name: 'Add a passkey' }).click()
    await page.getByLabel('Name').fill('Laptop')
    await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click()
    await page.getByRole('cell', { name: 'Laptop', exact: true }).waitFor()
    await page.context().clearCookies()
    await page.goto(`${url}/login?next=/app/settings/profile`)
    await page.getByRole('link', { name: 'Sign in with a passkey' }).click()
    await page.waitForURL(`${url}/app/settings/profile`)
    await heading(page, 'Your sign-in')
    await dashboard.load('/server')
    await page.getByRole('navigation', { name: 'Server' }).waitFor()
    // A session that has shown no second factor, with the same cookie.
    service.app.db.run('UPDATE sessions SET second_factor_at = NULL, password_at = NULL')
    await dashboard.load('/server/accounts')
    await page.getByRole('button', { name: 'Confirm' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Use a passkey' }).click()
    await page.getByRole('navigation', { name: 'Server' }).waitFor()
    // One that does not verify its user, or is used for another page, signs nobody in.
    await devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false })
    await page.context().clearCookies()
    await page.goto(`${url}/login/passkey`)
    await page.getByText('The browser used no passkey').waitFor()
    await devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true })
    await page.getByRole('button', { name: 'Use a passkey' }).click()
    await page.waitForURL(`${url}/app`)
    await dashboard.load('/settings/profile')
    // Removing it needs a second factor, which is asked for in between.
    service.app.db.run('UPDATE sessions SET second_factor_at = NULL')
    await page.getByRole('button', { name: 'Remove Laptop' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Use a passkey' }).click()
    await page.getByText('Signs you in by fingerprint').waitFor()
    await page.getByRole('cell', { name: 'Laptop', exact: true }).waitFor({ state: 'detached' })
    const session = await signIn({ url }, ADA)
    expect(at((await session.ask('GET', '/v1/auth/passkeys')).body, 'data')).toEqual([])
    expect(dashboard.errors).toEqual([])
    expect(await dashboard.policyViolations()).toEqual([])
  })
})
