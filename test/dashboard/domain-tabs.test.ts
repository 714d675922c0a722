import { expect, test } from 'bun:test'
import { startReportsFixture } from '#test/features/receiving/domain-reports/fixture.ts'
import { overflowPx } from '#test/support/browser.ts'
import { describeInBrowser, findAxeViolations, heading } from '#test/support/dashboard.ts'
import { createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'

describeInBrowser('what receivers say about a domain in the dashboard', (open) => {
  test('reports: sentences come first, then sources; rules: what needs work comes first, and paper shows all', async () => {
    await using service = await startReportsFixture({ TASSIS_PUBLIC_URL: 'http://mail.tassis.test' })
    const { app, actor, domainId } = service
    app.db.run('UPDATE domains SET verified_at = 1, spf_verified = 1, dkim_verified = 1, checked_at = ?', [
      app.clock.now(),
    ])
    await createTestUser(app, actor, ADA, 'owner')
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    const expectFits = async () => {
      for (const width of [390, 1440]) {
        await page.setViewportSize({ width, height: 900 })
        expect(await overflowPx(page)).toBeLessThanOrEqual(0)
        expect(await findAxeViolations(page)).toEqual([])
      }
    }
    await dashboard.goTo(`/domains/${domainId}`)
    const setup = page.getByRole('tab', { name: 'Setup' })
    await setup.focus()
    await page.keyboard.press('ArrowRight')
    await heading(page, 'No reports yet')
    await page.getByText('No DMARC record of sender.test asks for reports here.').waitFor()
    await service.receiveRecords(
      [{ ip: '2001:db8:85a3:1234:5678:8a2e:370:7334', count: 1200, signatures: [['<b>x</b>', '<b>x</b>', 'pass']] }],
      {},
    )
    await service.receiveTls(600, [['certificate-expired', 400, 'mail.tassis.test']])
    await dashboard.load(`/domains/${domainId}?tab=reports`)
    await page.getByRole('tab', { name: /^Reports ?, with problems/, selected: true }).waitFor()
    const first = page.locator('[data-finding]').first()
    expect(await first.textContent()).toContain('400 TLS sessions of 1,000 to mail.tassis.test failed')
    expect(await first.textContent()).toContain('Problem')
    await page.getByText('somebody abuses the domain').waitFor()
    await page.getByText('Neither ours nor of a known service').waitFor()
    await expectFits()

    await page.getByRole('tab', { name: /^Sender rules ?, with problems/ }).click()
    await page.getByText(/^sender\.test meets \d+ of the \d+ rules that 12 /).waitFor()
    const urgent = page.getByRole('list', { name: 'What needs work' })
    const broken = urgent.locator('[data-finding^=broken]', { hasText: 'DMARC policy' })
    expect(await broken.textContent()).toContain('Yahoo and AOL, iCloud Mail')
    expect(await broken.textContent()).toContain('There is no valid DMARC record at _dmarc.sender.test.')
    expect(await broken.textContent()).toContain('To do: Publish the DMARC record')
    const seznam = page.locator('[data-receiver=seznam]')
    expect(await seznam.locator('[data-finding^=unknown]').first().isVisible()).toBe(false)
    await seznam.locator('summary').click()
    expect(await seznam.locator('[data-finding^=unknown]').first().isVisible()).toBe(true)
    const advised = page.locator('[data-finding^=met], [data-finding^=unknown]', { hasText: 'To do:' })
    expect(await advised.count()).toBe(0)
    await expectFits()
    const apple = page.locator('[data-receiver=apple] [data-finding^=broken]').first()
    expect(await apple.isVisible()).toBe(false)
    await page.emulateMedia({ media: 'print' })
    expect(await apple.isVisible()).toBe(true)
    for (const role of ['navigation', 'tablist', 'button'] as const)
      expect([role, await page.getByRole(role).count()]).toEqual([role, 0])
    await dashboard.expectHarmless()
  })
})
