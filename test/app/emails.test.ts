/** @module Tests of `tassis emails`: how an operator finds an email and reads its history. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { createDataFolder, runTassis, runTassisJson, setUpAccount, startServing } from './process.ts'

// Commands run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

interface Listed {
  readonly total: number
  readonly data: readonly { readonly id: string; readonly subject: string; readonly message_id: string }[]
}

test('emails list finds emails by the filters of the API and fits 80 columns, and emails show describes one email', async () => {
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DELIVERY: 'capture' }
  await setUpAccount(settings, { verified: true })
  const send = (to: string, subject: string) =>
    runTassis(['send', '--from', 'Ada <ada@sender.test>', '--to', to, '--subject', subject], settings)
  await send('bob@receiver.test', 'Your invoice 4711 of a very long month')
  await send('somebody.with.a.long.name@subdomain.receiver.test', 'Your invoice 4712')
  await send('bob@receiver.test', 'Hello \u001b[31mred')

  await using _ = await startServing(settings)
  const all = await runTassis(['emails', 'list'], settings)
  const lines = all.stdout.trimEnd().split('\n')
  expect(lines).toHaveLength(4)
  expect(lines[0]).toMatch(/^ID +DAY AND TIME +STATUS +TO +SUBJECT$/)
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80)
  expect(all.stdout).not.toContain('\u001b')

  const subjects = async (...filters: string[]) => {
    const { data: emails, total } = await runTassisJson<Listed>(['emails', 'list', ...filters], settings)
    expect(total).toBe(emails.length)
    return emails.map(({ subject }) => subject)
  }
  expect(await subjects('--to', 'BOB@receiver.test', '--subject', 'invoice')).toEqual([
    'Your invoice 4711 of a very long month',
  ])
  expect(await subjects('--from', 'ada@sender.test', '--status', 'bounced')).toEqual([])
  expect(await subjects('--status', 'sent', '--subject', '4712')).toEqual(['Your invoice 4712'])
  expect(await subjects('--since', '2000-01-01', '--until', '2000-01-02')).toEqual([])
  const limited = await runTassis(['emails', 'list', '--limit', '1'], settings)
  expect(limited.stdout).toContain('… and 2 older (--limit)')
  const searched = await runTassis(
    ['emails', 'list', '--limit', '1', '--to', 'bob@receiver.test', '--status', 'sent'],
    settings,
  )
  expect(searched.stdout).toContain('… and at least 1 older (--limit)')
  const wrong = await runTassis(['emails', 'list', '--to', 'bob@@'], settings)
  expect([wrong.exitCode, wrong.stderr]).toEqual([1, expect.stringContaining('whole email address')])

  const shortId = lines[3]?.split(' ')[0] ?? ''
  const { stdout } = await runTassis(['emails', 'show', shortId], settings)
  expect(stdout).toMatch(/^State: +captured\. It was captured, not sent: the delivery mode .*$/m)
  expect(stdout).toMatch(/^ {2}to {3}bob@receiver\.test {2}sent after 1 attempt; delivered \d{4}-/m)
  expect(stdout).toMatch(/delivered +bob@receiver\.test/)
  const listed = await runTassisJson<Listed>(['emails', 'list', '--to', 'bob@receiver.test'], settings)
  const { id, message_id: messageId } = listed.data[1] ?? { id: '', message_id: '' }
  expect(await runTassisJson<object>(['emails', 'show', messageId], settings)).toMatchObject({
    id,
    recipients: [{ address: 'bob@receiver.test', status: 'sent' }],
    history: [{ type: 'queued' }, { type: 'sent' }, { type: 'delivered' }],
  })
  for (const unknown of ['01234567', 'x', '0'.repeat(33)]) {
    const missing = await runTassis(['emails', 'show', unknown], settings)
    expect([missing.exitCode, missing.stderr]).toEqual([1, expect.stringContaining('matches no email;')])
  }
})
