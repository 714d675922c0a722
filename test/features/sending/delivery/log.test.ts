/** @module Log lines about an email carry its public id. */
import { expect, test } from 'bun:test'
import { createLog } from '#platform/log/log.ts'
import { eventually } from '#test/support/app.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

test('the log line about an attempt has the id of the email, also after a rejection and without a mail host', async () => {
  await using receiver = await startScriptedSmtp({
    rcpt: (line) => (line.includes('<no@') ? '550 5.1.1 No such user' : '250 ok'),
  })
  const lines: Record<string, unknown>[] = []
  await using flow = await startMailFlow({
    zone: {
      'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
      'mx.receiver.test': { A: ['127.0.0.1'] },
      'null.test': { MX: [{ preference: 0, exchange: '' }] },
    },
    smtpPort: receiver.port,
    log: createLog('debug', { write: (line) => void lines.push(JSON.parse(line)) }),
  })
  for (const [to, kind] of [
    ['yes@receiver.test', 'sent'],
    ['no@receiver.test', 'bounced'],
    ['bob@null.test', 'bounced'],
  ] as const) {
    const { id } = await flow.send({ to })
    const line = await eventually(() => lines.find(({ email_id }) => email_id === id))
    expect([line['msg'], line['lane']]).toEqual([kind, expect.stringContaining(to.slice(to.indexOf('@') + 1))])
  }
})
