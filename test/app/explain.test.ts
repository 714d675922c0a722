/** @module Tests of `tassis explain`: what an operator reads about an email that did not arrive. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { createDataFolder, runTassis, runTassisJson, type Settings, setUpAccount, startServing } from './process.ts'

// Commands run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

interface Explanation {
  readonly recipients: readonly { readonly attempts: readonly object[] }[]
}

/** Serves with this receiving server, runs the command, sends to each address, and explains it after its attempt. */
async function explainAll(script: SmtpScript, addresses: readonly string[], command?: readonly string[]) {
  await using server = await startScriptedSmtp(script)
  await using dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(server.port) }
  await setUpAccount(settings, { verified: true })
  await using _ = await startServing(settings)
  if (command) await runTassisJson(command, settings)
  const texts: string[] = []
  for (const to of addresses) texts.push((await runTassis(['explain', await sendTo(to, settings)], settings)).stdout)
  return texts
}

/** Returns the id of an email once it was attempted. */
async function sendTo(to: string, settings: Settings, isAttempted = true): Promise<string> {
  const from = ['--account', 'Acme', '--from', 'ada@sender.test', '--subject', 'Code \u202e\u0085', '--no-follow']
  const { id } = await runTassisJson<{ id: string }>(['send', '--to', to, ...from], settings)
  await eventually(async () => {
    const { recipients } = await runTassisJson<Explanation>(['explain', id], settings)
    return !isAttempted || recipients[0]?.attempts.length === 1
  })
  return id
}

test('explain shows why, what comes next, who must act, and the attempts with their dialogue', async () => {
  const texts = await explainAll(
    {
      rcpt: (line) => (line.includes('<grey') ? '450 4.2.0 Greylisted \u001b[2J\u009b31m, try again' : '250 ok'),
      body: '250 2.0.0 Queued as 1',
    },
    ['ok@receiver.test', 'grey@receiver.test'],
  )
  for (const text of texts) {
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
    expect(text).toMatch(/^Subject: +Code *$/m)
  }
  const [ok = '', grey = ''] = texts
  expect(ok).toMatch(/^State: +sent\n\nok@.*\n {2}Why: +The receiving server accepted it\.$/m)
  expect(ok).toMatch(/^ {2}Next: +nothing$/m)
  expect(ok).toMatch(/^ {4}Timings: +connect \d+, greeting \d+, ehlo \d+, mail \d+/m)
  expect(ok).toMatch(/^ +\d+ < 250 2\.0\.0 Queued as 1$/m)
  expect(grey).toMatch(/^grey@receiver\.test \(to\): deferred after 1 attempt\n {2}Why: +Not accepted yet: /m)
  expect(grey).toMatch(/^ {2}Who acts: +nobody\n {2}Next: +attempt \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(in \d+ s\)$/m)
  expect(grey).toMatch(/^ {4}Source: +127\.0\.0\.1\n {4}Host: +receiver\.test\n {4}Address: +127\.0\.0\.1$/m)
})

// Proves: operator-42
test('explain names the account when it is paused', async () => {
  await using dns = await startDnsServer({ 'broken.test': 'SERVFAIL' })
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address }
  await setUpAccount(settings, { verified: true })
  await using _ = await startServing(settings)
  const id = await sendTo('bob@broken.test', settings)
  const explain = async (email: string) => (await runTassis(['explain', email], settings)).stdout
  const deferred = /^ {2}Why: +Not accepted yet: .* its DNS does not answer/m
  expect(await explain(id)).toMatch(deferred)

  await runTassisJson(['accounts', 'pause', 'Acme', '--reason', 'Bought addresses.'], settings)
  const paused = await explain(id)
  expect(paused).toMatch(/^ {2}Who acts: +operator\n {2}Next: +nothing, until that has ended$/m)
  const [, resume = ''] =
    /The account is paused: Bought addresses\.\n {2}To do: .*`tassis (accounts resume [\da-f-]+)` ends/.exec(paused) ??
    []
  expect((await runTassis(resume.split(' '), settings)).exitCode).toBe(0)
  expect(await explain(id)).toMatch(deferred)
})

test('explain names the redirect of the operator when its host is not reached', async () => {
  const redirect = ['queue', 'redirect', '--domain', 'receiver.test', '--to', '[127.0.0.1]', '--yes']
  const [text] = await explainAll({ greeting: { drop: 'end' } }, ['bob@receiver.test'], redirect)
  expect(text).toMatch(
    /^ {2}Why: +The last attempt failed at the host that you chose\. You redirect this mail to \[127\.0\.0\.1\]; `tassis queue release --only redirect --domain receiver\.test` ends that\.\n {2}Who acts: +operator$/m,
  )
})
