import { expect, test } from 'bun:test'
import { startReportsFixture } from '#test/features/receiving/domain-reports/fixture.ts'
import { overflowPx } from '#test/support/browser.ts'
import { describeInBrowser, findAxeViolations, heading } from '#test/support/dashboard.ts'
import { createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'

describeInBrowser('the reports about a domain in the dashboard', (open) => {
  test('sentences come first, then sources and TLS failures; on a phone and on a desktop nothing overflows', async () => {
    await using service = await startReportsFixture()
    const { app, actor, domainId } = service
    await createTestUser(app, actor, ADA, 'owner')
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo(`/domains/${domainId}`)
    await heading(page, 'No reports yet')
    await service.receiveRecords(
      [{ ip: '2001:db8:85a3:1234:5678:8a2e:370:7334', count: 1200, signatures: [['<b>x</b>', '<b>x</b>', 'pass']] }],
      {},
    )
    await service.receiveTls(600, [['certificate-expired', 400, 'mail.tassis.test']])
    await dashboard.load(`/domains/${domainId}`)
    const first = page.locator('[data-finding]').first()
    await first.waitFor()
    expect(await first.textContent()).toContain('400 TLS sessions of 1,000 to mail.tassis.test failed')
    await page.getByText('somebody abuses the domain').waitFor()
    await page.getByText('Neither ours nor of a known service').waitFor()
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 })
      await page.getByText('its certificate has expired').first().waitFor()
      expect(await overflowPx(page)).toBeLessThanOrEqual(0)
      expect(await findAxeViolations(page)).toEqual([])
    }
    await dashboard.expectHarmless()
  })
})
