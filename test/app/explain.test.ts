/** @module Tests of `tassis explain`: what an operator reads about an email that did not arrive. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { createDataFolder, runTassis, runTassisJson, type Settings, setUpAccount, startServing } from './process.ts'

// Commands run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

interface Explanation {
  readonly recipients: readonly { readonly who_must_act: string; readonly attempts: readonly object[] }[]
}

/** Serves with this receiving server, sends to these addresses, and explains each email once `isReady`: attempted. */
async function explainAll(
  script: SmtpScript,
  addresses: readonly string[],
  more: (port: number) => Settings = () => ({}),
  isReady = ({ recipients }: Explanation) => (recipients[0]?.attempts.length ?? 0) > 0,
  commands: readonly (readonly string[])[] = [],
): Promise<{ texts: string[]; views: Explanation[] }> {
  await using server = await startScriptedSmtp(script)
  await using dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  using data = createDataFolder()
  const settings = {
    ...data.settings,
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_SMTP_PORT: String(server.port),
    ...more(server.port),
  }
  const { key } = await setUpAccount(settings, { verified: true })
  await using service = await startServing(settings)
  for (const command of commands) await runTassisJson(command, settings)
  const texts: string[] = []
  const views: Explanation[] = []
  for (const to of addresses) {
    const response = await fetch(`${service.url}/v1/emails`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        from: 'ada@sender.test',
        to,
        subject: 'Code \u202e\u0085',
        text_body: 'x',
        expires_in: 3600,
      }),
    })
    const { id } = at(await response.json(), 'data') as { id: string }
    const view = await eventually(async () => {
      const found = await runTassisJson<Explanation>(['explain', id], settings)
      return isReady(found) ? found : undefined
    })
    views.push(view)
    texts.push((await runTassis(['explain', id], settings)).stdout)
  }
  return { texts, views }
}

test('explain shows attempts with dialogue, what comes next and who must act', async () => {
  const { texts, views } = await explainAll(
    {
      rcpt: (line) =>
        line.includes('<grey')
          ? '450 4.2.0 Greylisted \u001b[2J\u009b31m, try again'
          : line.includes('<gone')
            ? '550 5.1.1 No such user'
            : '250 ok',
      body: (_, { commands }) =>
        commands.some((line) => line.includes('<lost')) ? { drop: 'reset' } : '250 2.0.0 Queued as 1',
    },
    ['ok@receiver.test', 'grey@receiver.test', 'gone@receiver.test', 'lost@receiver.test'],
  )
  expect(views.map(({ recipients }) => recipients[0]?.who_must_act)).toEqual(['nobody', 'nobody', 'sender', 'sender'])
  for (const text of texts) {
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
    expect(text).toMatch(/^Subject: +Code *$/m)
  }
  const [ok = '', grey = '', gone = '', lost = ''] = texts
  expect(ok).toMatch(/^ {2}Next: +nothing$/m)
  expect(ok).toMatch(/^ {4}Timings: +connect \d+ ms, greeting \d+ ms, ehlo \d+ ms, mail \d+ ms/m)
  expect(ok).toMatch(/^ +\d+ < 250 2\.0\.0 Queued as 1$/m)
  expect(grey).toMatch(/^ {2}Next: +attempt \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(in \d+ s\)$/m)
  expect(grey).toMatch(/^ {2}Who acts: +nobody$/m)
  expect(grey).toMatch(/^ {4}Server: +receiver\.test \[127\.0\.0\.1\], from 127\.0\.0\.1$/m)
  expect(gone).toMatch(/^gone@receiver\.test \(to\): bounced after 1 attempt$/m)
  expect(gone).toMatch(/^ {2}Why: +The address does not exist, or /m)
  expect(lost).toMatch(/^lost@receiver\.test \(to\): uncertain after 1 attempt$/m)
  expect(lost).toContain('may deliver it twice')
})

test('explain names the operator for mail that waits for a suspended provider, before its first attempt', async () => {
  const { texts, views } = await explainAll(
    { rcpt: () => '554 5.7.1 Client host [127.0.0.1] blocked using zen.spamhaus.org' },
    ['first@receiver.test', 'second@receiver.test'],
    undefined,
    ({ recipients }) => recipients[0]?.who_must_act === 'operator',
  )
  expect(views.map(({ recipients }) => recipients[0]?.attempts.length)).toEqual([1, 0])
  expect(texts[1]).toMatch(/^ {2}Next: +attempt once the suspension ends$/m)
  expect(texts[1]).toMatch(
    /^ {2}Why: +It waits: .* is suspended until .* blocked using zen\.spamhaus\.org\. `tassis p/m,
  )
})

test('explain names our DNS servers when they do not answer, and the account when it is paused', async () => {
  const dns = await startDnsServer({ 'broken.test': 'SERVFAIL' })
  let isDnsUp = true
  const stopDns = async () => {
    if (isDnsUp) await dns.close()
    isDnsUp = false
  }
  await using _dns = { [Symbol.asyncDispose]: stopDns }
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address }
  await setUpAccount(settings, { verified: true })
  await using _ = await startServing(settings)
  const send = async (to: string) => {
    const args = [
      'send',
      '--account',
      'Acme',
      '--from',
      'ada@sender.test',
      '--to',
      to,
      '--subject',
      'Hi',
      '--no-follow',
    ]
    return (await runTassisJson<{ id: string }>(args, settings)).id
  }
  const id = await send('bob@broken.test')
  await eventually(async () => {
    const { recipients } = await runTassisJson<Explanation>(['explain', id], settings)
    return recipients[0]?.attempts.length === 1
  })
  const explain = async (email: string) => (await runTassis(['explain', email], settings)).stdout
  expect(await explain(id)).toMatch(
    /^ {2}Who acts: +nobody\n {2}Why: +A domain does not exist, .* The mail is retried\.$/m,
  )

  await stopDns()
  const down =
    /^ {2}Next: +attempt once DNS answers\n {2}Who acts: +you, .*\n {2}Why: +The DNS servers of this service do not answer, .* `tassis doctor` names them/m
  expect(await explain(id)).toMatch(down)
  expect(await explain(await send('carl@other.test'))).toMatch(down)

  await runTassisJson(['accounts', 'pause', 'Acme', '--reason', 'Bought addresses.'], settings)
  const paused = await explain(id)
  expect(paused).toMatch(/^ {2}Next: +nothing, until the account may send again\n {2}Who acts: +you, /m)
  const [, resume = ''] =
    /The account is paused: Bought addresses\. .*`tassis (accounts resume [\da-f-]+)` ends/.exec(paused) ?? []
  expect((await runTassis(resume.split(' '), settings)).exitCode).toBe(0)
  expect(await explain(id)).toMatch(down)
})

test('explain names the redirect of the operator when its host is not reached', async () => {
  const { texts } = await explainAll({ greeting: { drop: 'end' } }, ['bob@receiver.test'], undefined, undefined, [
    ['queue', 'redirect', '--domain', 'receiver.test', '--to', '[127.0.0.1]', '--yes'],
  ])
  expect(texts[0]).toMatch(
    /^ {2}Who acts: +you, .*\n {2}Why: +The last attempt failed at the host that you chose\. You redirect this mail to \[127\.0\.0\.1\]; `tassis queue redirect --off --domain receiver\.test` ends that\.$/m,
  )
})

test('explain names the operator when the smarthost has no valid certificate, and says what was captured', async () => {
  const relay = await explainAll({ extensions: ['STARTTLS'] }, ['bob@receiver.test'], (port) => ({
    TASSIS_DELIVERY: 'relay',
    TASSIS_RELAY_URL: `smtp://127.0.0.1:${port}`,
  }))
  expect(relay.views[0]?.recipients[0]?.who_must_act).toBe('operator')
  expect(relay.texts[0]).toMatch(/^ {4}Category: +tls_failure$/m)
  const captured = await explainAll({}, ['bob@receiver.test'], () => ({ TASSIS_DELIVERY: 'capture' }))
  expect(captured.texts[0]).toMatch(/^ {2}Why: +It was captured, not sent: the delivery mode is `capture`\.$/m)
})

test('explain of an unknown email names the command that lists ids', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const missing = await runTassis(['explain', '01234567'], data.settings)
  expect([missing.exitCode, missing.stderr]).toEqual([1, expect.stringContaining('tassis emails list')])
})
