import { expect, setDefaultTimeout, test } from 'bun:test'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { createDataFolder, runTassis, runTassisJson, setUpAccount, startServing } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

interface Line {
  readonly type?: string
  readonly status?: string
}

async function startReceiver(script: Parameters<typeof startScriptedSmtp>[0]) {
  const receiver = await startScriptedSmtp(script)
  const dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
  })
  const data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(receiver.port) }
  await setUpAccount(settings, { verified: true })
  return {
    receiver,
    settings,
    async [Symbol.asyncDispose]() {
      await receiver[Symbol.asyncDispose]()
      await dns[Symbol.asyncDispose]()
      data[Symbol.dispose]()
    },
  }
}

const MESSAGE = ['send', '--from', 'Ada <ada@sender.test>', '--to', 'bob@receiver.test']

test('send without a service delivers the message itself and prints each event until it is sent', async () => {
  await using peer = await startReceiver({})
  const { exitCode, stdout } = await runTassis([...MESSAGE, '--json'], peer.settings)
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)
  expect(exitCode).toBe(0)
  expect(lines.map(({ type, status }) => type ?? status)).toEqual(['queued', 'queued', 'sent', 'delivered', 'sent'])
  expect(peer.receiver.session.messages).toHaveLength(1)
})

test("send through a service prints the receiver's rejection and exits with 1", async () => {
  await using peer = await startReceiver({ rcpt: '550 5.1.1 No such user here' })
  await using _ = await startServing(peer.settings)
  const { exitCode, stdout } = await runTassis(MESSAGE, peer.settings)
  expect(exitCode).toBe(1)
  expect(stdout).toMatch(
    /bounced +bob@receiver\.test {2}550 5\.1\.1 No such user here {2}\(mx\.receiver\.test \[127\.0\.0\.1\]/,
  )
  expect(stdout.trimEnd()).toEndWith('Not accepted: there is no such mailbox.')
})

test('send prints how many recipients were reached and which were not', async () => {
  await using peer = await startReceiver({
    rcpt: (line) => (line.includes('carl') ? '550 5.1.1 No such user here' : '250 2.1.5 Ok'),
  })
  const args = [...MESSAGE, '--to', 'carl@receiver.test', '--to', 'dora@receiver.test']
  const result = await runTassis(args, peer.settings)
  expect(result.exitCode).toBe(1)
  expect(result.stdout.trimEnd()).toEndWith('\nOf 3 recipients: 2 sent, 1 bounced (carl@receiver.test).')
  // Carl is suppressed now.
  const { stdout } = await runTassis([...MESSAGE, '--to', 'carla@receiver.test', '--json'], peer.settings)
  expect(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({
    status: 'bounced',
    recipients: [
      { address: 'bob@receiver.test', status: 'sent' },
      { address: 'carla@receiver.test', status: 'bounced' },
    ],
  })
})

test('send says what the API refuses', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const other = await runTassis(['send', '--from', 'a@other.test', '--to', 'b@x.test'], data.settings)
  expect([other.exitCode, other.stderr]).toEqual([1, expect.stringContaining('other.test is not registered')])
})

test('queue shows what waits, why and until when, with and without a service', async () => {
  await using peer = await startReceiver({ rcpt: '450 4.2.0 Greylisted' })
  const service = await startServing(peer.settings)
  await runTassis([...MESSAGE, '--no-follow'], peer.settings)
  type Queue = {
    data: { lane: string; reason: string; first_due_at: string }[]
    recipients: { recipient: string; status: string; attempts: number; next_at: string; last_error: string | null }[]
  }
  const served = await eventually(async () => {
    const queue = await runTassisJson<Queue>(['queue'], peer.settings)
    return queue.data.some(({ reason: why }) => why.startsWith('deferred')) && queue
  })
  service.signal('SIGTERM')
  await service.exited
  const alone = await runTassisJson<Queue>(['queue'], peer.settings)
  const recipients = [
    { recipient: 'bob@receiver.test', status: 'queued', attempts: 1, last_error: '450 4.2.0 Greylisted' },
  ]
  const reason = expect.stringMatching(/^deferred: 450 4\.2\.0 Greylisted, next attempt in \d+ (s|min)$/)
  const data = [{ lane: expect.stringMatching(/^\d+:receiver\.test$/), reason }]
  const health = (is_delivering: boolean) => ({ is_delivering, queue: { waiting: 1 } })
  expect(served).toMatchObject({ health: health(true), data, recipients })
  expect(alone).toMatchObject({ health: health(false), data, recipients })
  expect(alone.data[0]?.first_due_at).toBe(alone.recipients[0]?.next_at ?? '')
  expect((await runTassis(['queue'], peer.settings)).stdout).toContain('NO SERVICE IS RUNNING')
})

// Proves: send-10
test('send from a never verified domain says that the message was captured, and why', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const { exitCode, stdout } = await runTassis(MESSAGE, data.settings)
  expect(exitCode).toBe(0)
  const [first = '', ...lines] = stdout.trimEnd().split('\n')
  expect(first).toEndWith('. It will not leave this machine.')
  for (const line of lines.slice(0, -1)) expect(line).toContain('sandbox')
  expect(lines.at(-1)).toBe('It was captured, not sent: the sending domain was never verified.')
  const json = await runTassis([...MESSAGE, '--json'], data.settings)
  const objects = json.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { sandbox?: boolean })
  expect(objects.length).toBeGreaterThan(3)
  for (const { sandbox } of objects) expect(sandbox).toBe(true)
})
