import { expect, test } from 'bun:test'
import { createDomain } from '#features/setup/domains/domains.ts'
import { formatUuid } from '#platform/ids.ts'
import { createTestApi } from '#test/support/api.ts'
import { describeInBrowser } from '#test/support/dashboard.ts'
import { createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'

describeInBrowser('the sender rules of a domain', (open) => {
  test('say in a sentence how many are met, and what needs work; paper shows all', async () => {
    await using service = await createTestApi({ settings: { TASSIS_PUBLIC_URL: 'http://mail.tassis.test' } })
    const { app, actor } = service
    await createTestUser(app, actor, ADA, 'owner')
    const { domain } = await createDomain(app, actor, 'example.com')
    app.db.run('UPDATE domains SET verified_at = 1, spf_verified = 1, dkim_verified = 1, checked_at = ?', [
      app.clock.now(),
    ])
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo(`/domains/${formatUuid(domain.uuid)}`)
    await page.getByText(/^example\.com meets \d+ of \d+ rules of 11 receivers/).waitFor()
    const broken = page.locator('[data-part=urgent] [data-state=broken]', { hasText: 'DMARC policy' })
    expect(await broken.textContent()).toContain('Yahoo and AOL, iCloud Mail')
    expect(await broken.textContent()).toContain('There is no valid DMARC record at _dmarc.example.com.')
    expect(await broken.textContent()).toContain('To do: Publish the DMARC record')
    const seznam = page.locator('[data-receiver=seznam]')
    expect(await seznam.locator('[data-state=unknown]').first().isVisible()).toBe(false)
    await seznam.locator('summary').click()
    expect(await seznam.locator('[data-state=unknown]').first().isVisible()).toBe(true)
    const apple = page.locator('[data-receiver=apple] [data-state=broken]')
    expect(await apple.isVisible()).toBe(false)
    await page.emulateMedia({ media: 'print' })
    expect(await apple.isVisible()).toBe(true)
    expect(await page.getByRole('navigation').first().isVisible()).toBe(false)
    await dashboard.expectHarmless()
  })
})
