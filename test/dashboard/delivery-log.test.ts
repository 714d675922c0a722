/** @module The timeline of an email in the dashboard. */
import { expect, test } from 'bun:test'
import { formatDialogue, formatTimings } from '#dashboard/screens/emails/format.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/browser.ts'
import { describeInBrowser } from '#test/support/dashboard.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { CAPTURE_OPTIONS, createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'

test('the dialogue is one line for each line, without characters that reorder it', () => {
  expect(
    formatDialogue([
      { at_ms: 0, from: 'note', text: 'connecting to mx [192.0.2.1]' },
      { at_ms: 1204, from: 'server', text: '220 \u202emx\u2028' },
      { at_ms: 1205, from: 'client', text: 'EHLO me' },
    ]),
  ).toBe('      0 * connecting to mx [192.0.2.1]\n   1204 < 220 \ufffdmx\ufffd\n   1205 > EHLO me')
})

test('timings say whether the session was reused', () => {
  expect(formatTimings({ connect: 3, mail: 1 })).toBe('connect 3 ms, mail 1 ms')
  expect(formatTimings({ mail: 1 })).toBe('session reused, mail 1 ms')
})

describeInBrowser('in a browser', (open) => {
  test('the dialogue is loaded on a click, and hostile text of a server is only text', async () => {
    const hostile = '<script>parent.ran=1</script><img src=x onerror=ran=1>\u202e{{7*7}}'
    await using server = await startScriptedSmtp({ rcpt: `450 4.2.0 ${hostile}`, greeting: `220 mx ${hostile}` })
    await using dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
    await using service = await createTestApi({
      ...CAPTURE_OPTIONS,
      settings: {
        ...CAPTURE_OPTIONS.settings,
        TASSIS_DELIVERY: 'direct',
        TASSIS_DNS_SERVERS: dns.address,
        TASSIS_SMTP_PORT: String(server.port),
      },
    })
    const { app, actor, api } = service
    await createTestUser(app, actor, ADA, 'owner')
    const { domain } = await createDomain(app, actor, 'sender.test')
    app.db.run('UPDATE domains SET verified_at = 1 WHERE id = ?', [domain.id])
    const sent = await api('POST', '/v1/emails', {
      from: 'ada@sender.test',
      to: 'bob@receiver.test',
      subject: 'Hello',
      text_body: 'Hello',
    })
    const id = String(at(sent.body, 'data', 'id'))
    await eventually(async () => at((await api('GET', `/v1/emails/${id}/attempts`)).body, 'pagination', 'total') === 1)

    await using dashboard = await open(service, ADA)
    const { page, goTo, requested } = dashboard
    const requests = () => requested.filter((url) => url.includes('/attempts')).length
    await goTo(`/emails/${id}`)
    const dialogue = page.locator('summary', { hasText: 'Dialogue' })
    await dialogue.waitFor()
    expect(requests()).toBe(0)
    await dialogue.click()
    const attempt = page.locator('[data-attempt]')
    await attempt.waitFor()
    await eventually(() => requests() === 1)
    await page.locator('.timeline').getByText('receiver.test [127.0.0.1]', { exact: true }).waitFor()
    const shown = await attempt.locator('pre').textContent()
    expect(shown).toContain('> RCPT TO:<bob@receiver.test>')
    expect(shown).toContain('<script>parent.ran=1</script>')
    expect(shown).not.toContain('\u202e')
    await dashboard.expectHarmless()
  })
})
