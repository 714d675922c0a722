import { expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import {
  createDataFolder,
  runTassis,
  runTassisJson,
  runTassisList,
  type Settings,
  setUpAccount,
  startServing,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const refusesConnections = (url: string): Promise<boolean> =>
  fetch(`${url}/healthz`).then(
    () => false,
    () => true,
  )

interface Balances {
  readonly ok: boolean
  readonly balances: readonly { readonly sent: number; readonly uncertain: number; readonly open: number }[]
}

/** Starts a service that is sending one message; its receiver answers the final dot only when `release` is called. */
async function serviceInData(settings: Settings) {
  const arrived = Promise.withResolvers<void>()
  const released = Promise.withResolvers<string>()
  const receiver = await startScriptedSmtp({
    body() {
      arrived.resolve()
      return released.promise
    },
  })
  const dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
  })
  const all = { ...settings, TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(receiver.port) }
  await setUpAccount(all, { verified: true })
  const service = await startServing(all)
  await runTassis(['send', '--from', 'ada@sender.test', '--to', 'bob@receiver.test', '--no-follow'], all)
  // The final dot has arrived; only the reply is missing.
  await arrived.promise
  return {
    settings: all,
    service,
    receiver,
    release: () => released.resolve('250 2.0.0 Queued'),
    async [Symbol.asyncDispose]() {
      released.resolve('250 2.0.0 Queued')
      await service[Symbol.asyncDispose]()
      await receiver[Symbol.asyncDispose]()
      await dns[Symbol.asyncDispose]()
    },
  }
}

test('a second serve on the same data directory exits with 1 and says why', async () => {
  using data = createDataFolder()
  await using _ = await startServing(data.settings)
  expect(await runTassis(['serve'], data.settings)).toEqual({
    exitCode: 1,
    stdout: '',
    stderr: `tassis: Another process is using ${data.path}; stop it, or give this one another TASSIS_DATA_DIR.\n`,
  })
})

test.each(['TASSIS_HTTP_ADDR', 'TASSIS_METRICS_ADDR', 'TASSIS_INBOUND_ADDR'])(
  'a port in use for %s exits with 1 and names the command that finds the program',
  async (variable) => {
    using data = createDataFolder()
    const blocker = createServer()
    await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve))
    const address = blocker.address()
    const port = typeof address === 'object' ? address?.port : 0
    const settings = { ...data.settings, [variable]: `127.0.0.1:${port}` }
    const { exitCode, stdout, stderr } = await runTassis(['serve'], settings)
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
    expect(stderr).toStartWith(
      `tassis: ${variable} is "127.0.0.1:${port}", but another program uses the port; see which with \`ss -ltnp sport = :${port}\` as root, and stop it`,
    )
    blocker.close()
  },
)

test('a wrong value exits with 2 and names the setting, the value and the allowed values', async () => {
  using data = createDataFolder()
  expect(await runTassis(['serve'], { ...data.settings, TASSIS_SMTP_PORT: 'smtp' })).toEqual({
    exitCode: 2,
    stdout: '',
    stderr: 'tassis: TASSIS_SMTP_PORT is "smtp"; allowed is a whole number from 1 to 65535.\n',
  })
})

test('a data directory that is a file, or whose path is too long for the socket, exits with 2', async () => {
  using data = createDataFolder()
  const file = join(data.path, 'file')
  writeFileSync(file, '')
  expect((await runTassis(['serve'], { ...data.settings, TASSIS_DATA_DIR: file })).stderr).toContain('which is a file;')
  for (const path of [file, join(data.path, 'x'.repeat(110))]) {
    const { exitCode, stdout, stderr } = await runTassis(['serve'], { ...data.settings, TASSIS_DATA_DIR: path })
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' })
    expect(stderr).toMatch(/^tassis: TASSIS_DATA_DIR is ".+", which .+; use a .+\.\n$/)
  }
})

test('a service starts although a killed one left its files and socket behind; at SIGTERM it ends with 0 and leaves neither a socket nor a write-ahead log', async () => {
  using data = createDataFolder()
  const killed = await startServing(data.settings)
  await killed[Symbol.asyncDispose]()
  expect(existsSync(join(data.path, 'admin.sock'))).toBe(true)
  await using service = await startServing(data.settings)
  expect((await runTassis(['accounts', 'list'], data.settings)).exitCode).toBe(0)
  service.signal('SIGTERM')
  expect(await service.exited).toBe(0)
  expect(existsSync(join(data.path, 'admin.sock'))).toBe(false)
  expect(existsSync(join(data.path, 'tassis.db-wal'))).toBe(false)
})

// Proves: delivery-25
test('SIGTERM during DATA refuses new requests and waits for the reply, so the message is sent', async () => {
  using data = createDataFolder()
  await using running = await serviceInData(data.settings)
  running.service.signal('SIGTERM')
  await eventually(() => refusesConnections(running.service.url))
  running.release()
  expect(await running.service.exited).toBe(0)
  expect(await runTassisJson<Balances>(['check'], running.settings)).toMatchObject({
    ok: true,
    balances: [{ sent: 1, uncertain: 0, open: 0 }],
  })
})

// Proves: delivery-21, delivery-25
test('a second signal during DATA ends immediately with 1, and the next start marks the message uncertain', async () => {
  using data = createDataFolder()
  await using running = await serviceInData(data.settings)
  running.service.signal('SIGTERM')
  await eventually(() => refusesConnections(running.service.url))
  running.service.signal('SIGINT')
  expect(await running.service.exited).toBe(1)
  await using _ = await startServing(running.settings)
  expect(await runTassisJson<Balances>(['check'], running.settings)).toMatchObject({
    ok: true,
    balances: [{ sent: 0, uncertain: 1, open: 0 }],
  })
  expect(running.receiver.sessions).toHaveLength(1)
})

const LAST_LINE = 'Ctrl-C stops the service.'

test('the first start sends an email to the capture server and prints a working curl command; the next reuses the key', async () => {
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DELIVERY: 'capture' }
  let first: string
  {
    await using service = await startServing(settings, 'start')
    first = await eventually(() => service.output().includes(LAST_LINE) && service.output())
    expect(first).toMatch(/over the API: queued, sent, delivered; sent after \d+ ms\./)
    expect(first).toContain('\n  Inbound mail    off; to enable it, start with TASSIS_INBOUND_ADDR=127.0.0.1:2525\n')
    expect(first).toContain(
      '\n  Submission      off; to enable it, start with TASSIS_SUBMISSION_TLS_ADDR=127.0.0.1:1465\n',
    )
    expect(first).toContain('\n  Simulator       bounce@sim.mail.tassis.test and')
    expect(first.trimEnd().split('\n').length).toBeLessThanOrEqual(20)
    expect(first).toContain(`\n  Dashboard       ${service.url}/setup?token=`)
    expect(statSync(join(data.path, 'first-key')).mode & 0o777).toBe(0o600)
    const curl = /^curl .*\\\n.*$/m.exec(first)?.[0] ?? ''
    await using child = Bun.spawn(['bash', '-c', `${curl} --silent --output /dev/null --write-out '%{http_code}'`], {
      stdout: 'pipe',
    })
    expect(await child.stdout.text()).toBe('202')
    const commands = /^ {2}Commands +(.*) --help$/m.exec(first)?.[1] ?? ''
    await using listing = Bun.spawn(['bash', '-c', `${commands} domains list`], { env: {}, stdout: 'pipe' })
    expect(await listing.stdout.text()).toContain('example.test')
    service.signal('SIGINT')
    expect(await service.exited).toBe(0)
    await eventually(() => service.output().endsWith('\nStopped.\n'))
  }
  await runTassisJson(['domains', 'add', 'newer.test'], settings)
  const listening = { TASSIS_INBOUND_ADDR: '127.0.0.1:0', TASSIS_SUBMISSION_TLS_ADDR: '127.0.0.1:0' }
  await using again = await startServing({ ...settings, ...listening }, 'start')
  const second = await eventually(() => again.output().includes(LAST_LINE) && again.output())
  const keyOf = (output: string) => /Bearer (\S+)'/.exec(output)?.[1]
  expect(keyOf(second)).toBe(keyOf(first) ?? 'no key was printed')
  expect(second).toContain('<ada@example.test>')
  expect(second).toMatch(
    /\n {2}Inbound mail {4}at 127\.0\.0\.1:\d{4,5} for verified domains; `domains verify --without-dns` verifies one/,
  )
  expect(second).toMatch(/\n {2}Submission {6}at 127\.0\.0\.1:\d{4,5}; the password is the key\n/)
  expect(second).not.toContain('Sent a first email')
  expect(await runTassisList(['keys', 'list'], settings)).toHaveLength(1)
})
