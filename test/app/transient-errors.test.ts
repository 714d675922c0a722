/**
 * @module Tests that transient errors have no permanent effect. The service runs as a process: with a database that
 * another process has locked, without free file descriptors, on a full disk, with many idle clients, and suspended.
 */
import { Database } from 'bun:sqlite'
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import {
  createClient,
  createDataFolder,
  MAIN,
  runTassis,
  runTassisJson,
  runTassisProcess,
  type Settings,
  setUpAccount,
  startServing,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const MAIL = { from: 'ada@sender.test', to: 'bob@receiver.test', subject: 'Hello', text_body: 'It works.' }

interface Balances {
  readonly ok: boolean
  readonly balances: readonly { readonly accepted: number; readonly sent: number; readonly open: number }[]
}

/** Whether all accepted mail is sent. */
const areAllSent = async (settings: Settings, accepted: number): Promise<boolean> => {
  const { ok, balances } = await runTassisJson<Balances>(['check'], settings)
  expect(ok).toBe(true)
  expect(balances[0]).toMatchObject({ accepted })
  return balances[0]?.sent === accepted
}

// Proves: storage-1
test('while another process holds the database sends wait or get 503, the rest runs, and no mail is lost or fails', async () => {
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DELIVERY: 'capture', TASSIS_LOG_LEVEL: 'silent' }
  const { key } = await setUpAccount(settings, { verified: true })
  await using service = await startServing(settings)
  const api = createClient(service.url, key)
  expect((await api('POST', '/v1/emails', MAIL)).status).toBe(202)
  using other = new Database(join(data.path, 'tassis.db'))
  other.run('PRAGMA busy_timeout = 10000')
  other.run('BEGIN IMMEDIATE')
  let answeredSends = 0
  const send = () => api('POST', '/v1/emails', MAIL).finally(() => answeredSends++)
  const sends = Promise.all(Array.from({ length: 30 }, send))
  // SQLite's busy timeout would block the event loop here for the five seconds after which sends are refused.
  for (let i = 0; i < 2; i++) {
    expect((await api('GET', '/v1/emails')).status).toBe(200)
    expect((await fetch(`${service.url}/healthz`)).status).toBe(200)
  }
  expect(answeredSends).toBe(0)
  other.run('ROLLBACK')
  expect(new Set((await sends).map(({ status }) => status))).toEqual(new Set([202]))
  // The service is in the middle of its deliveries.
  other.run('BEGIN EXCLUSIVE')
  const { status, headers, body } = await api('POST', '/v1/emails', MAIL)
  expect({ status, retryAfter: headers.get('retry-after'), code: body.code }).toEqual({
    status: 503,
    retryAfter: '5',
    code: 'storage_unavailable',
  })
  other.run('ROLLBACK')
  await eventually(() => areAllSent(settings, 31))
})

// Proves: storage-1
test('without file descriptors a send gets 503, and due mail waits until some are free', async () => {
  using data = createDataFolder()
  await using receiver = await startScriptedSmtp({})
  await using dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
    // Of another host, so that no connection to it serves the others.
    'early.test': { MX: [{ preference: 10, exchange: 'mx.early.test' }] },
    'mx.early.test': { A: ['127.0.0.1'] },
  })
  const settings = {
    ...data.settings,
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_SMTP_PORT: String(receiver.port),
    TASSIS_LOG_LEVEL: 'silent',
  }
  const { key } = await setUpAccount(settings, { verified: true })
  await using service = await startServing(settings)
  const api = createClient(service.url, key)
  // Open files stay open.
  const allowFiles = (count: number) =>
    expect(Bun.spawnSync(['prlimit', `--pid=${service.pid}`, `--nofile=${count}:1024`]).exitCode).toBe(0)
  const emails = async (): Promise<{ id: string; status: string; error_message: string | null }[]> =>
    (await api('GET', '/v1/emails')).body.data
  // A Worker that still loads would end the process; both have loaded once these are sent.
  const early = { ...MAIL, to: 'bob@early.test' }
  for (let i = 0; i < 10; i++) expect((await api('POST', '/v1/emails', early)).status).toBe(202)
  await eventually(async () => (await emails()).every(({ status }) => status === 'sent'))
  // Late enough to become due while there are no free descriptors: even a busy machine has accepted them by then.
  const ahead = new Date(Date.now() + 10_000)
  for (let i = 0; i < 5; i++)
    expect((await api('POST', '/v1/emails', { ...MAIL, send_at: ahead.toISOString() })).status).toBe(202)
  allowFiles(3)
  const attachments = [{ filename: 'a.bin', content: 'A'.repeat(400_000), content_type: 'application/octet-stream' }]
  const refused = await api('POST', '/v1/emails', { ...MAIL, attachments })
  expect({ status: refused.status, retryAfter: refused.headers.get('retry-after') }).toEqual({
    status: 503,
    retryAfter: '5',
  })
  expect(JSON.stringify(refused.body)).not.toContain(data.path)
  // The requests keep the connection of this process in use, because there is none for another one.
  await eventually(async () => {
    expect((await emails()).filter(({ status }) => status !== 'scheduled' && status !== 'queued')).toHaveLength(10)
    return Date.now() > ahead.getTime() + 2000
  })
  allowFiles(1024)
  await eventually(async () => (await emails()).every(({ status }) => status === 'sent'))
  // Each is sent at its first attempt: missing descriptors do not count as a failure of the receiver.
  const all = await emails()
  for (const email of all)
    expect((await api('GET', `/v1/emails/${email.id}`)).body.data).toMatchObject({ attempts: 1, error_message: null })
  expect(all).toHaveLength(15)
})

describe('a database that is missing or empty', () => {
  const gone = (path: string) => rmSync(join(path, 'tassis.db'))
  const emptied = (path: string) => truncateSync(join(path, 'tassis.db'))

  // Proves: storage-2
  test.each([
    ['missing', gone],
    ['empty', emptied],
  ] as const)(
    'stops the start and every command with one sentence while key and content exist (%s)',
    async (word, lose) => {
      using data = createDataFolder()
      await setUpAccount(data.settings)
      lose(data.path)
      for (const command of [
        ['serve'],
        ['check'],
        ['accounts', 'list'],
        ['accounts', 'create', '--name', 'B', '--email', 'b@b.test'],
      ])
        expect(await runTassis(command, data.settings)).toEqual({
          exitCode: 2,
          stdout: '',
          stderr: `tassis: The database ${data.path}/tassis.db is ${word}, but its content exists; restore the data directory from its backup, or, to start with an empty database, move everything in ${data.path} away first.\n`,
        })
      // No new database was created.
      const file = join(data.path, 'tassis.db')
      expect(existsSync(file) && statSync(file).size > 0).toBe(false)
    },
  )

  test('is not created beside received mail alone either', async () => {
    using data = createDataFolder()
    await setUpAccount(data.settings)
    gone(data.path)
    rmSync(join(data.path, 'content'), { recursive: true })
    const refusal = { exitCode: 2, stderr: expect.stringContaining('is missing, but its content exists') }
    expect(await runTassis(['serve'], data.settings)).toMatchObject(refusal)
    // Without the key too, once mail was received.
    rmSync(join(data.path, 'master.key'))
    mkdirSync(join(data.path, 'raw-mail', '2026-11'), { recursive: true })
    expect(await runTassis(['serve'], data.settings)).toMatchObject(refusal)
    expect(existsSync(join(data.path, 'tassis.db'))).toBe(false)
  })

  test('is created in an empty folder, also beside an existing key', async () => {
    using data = createDataFolder()
    writeFileSync(join(data.path, 'master.key'), `${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 })
    await using service = await startServing(data.settings)
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200)
  })
})

const mount = (...args: string[]): boolean => Bun.which('mount') !== null && Bun.spawnSync(['mount', ...args]).success

function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-mount-'))
  const mounted = mount('-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder)
  if (mounted) Bun.spawnSync(['umount', folder])
  rmSync(folder, { recursive: true, force: true })
  return mounted
}

/** Fills the remaining space of a disk. */
function fillDisk(filler: string): void {
  const fd = openSync(filler, 'w')
  const piece = Buffer.alloc(4096)
  try {
    for (;;) writeSync(fd, piece)
  } catch (error) {
    expect(error).toMatchObject({ code: 'ENOSPC' })
  } finally {
    closeSync(fd)
  }
}

/** Creates a used data directory with one email on a disk of some MiB; `fill` uses up all free space. */
async function mountSmallDisk() {
  const data = createDataFolder()
  if (!mount('-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', data.path)) throw new Error('cannot mount')
  const end = () => {
    Bun.spawnSync(['umount', '--lazy', data.path])
    data[Symbol.dispose]()
  }
  const filler = join(data.path, 'filler')
  const settings = {
    ...data.settings,
    TASSIS_HTTP_ADDR: `127.0.0.1:${await findFreePort()}`,
    TASSIS_DELIVERY: 'capture',
    TASSIS_LOG_LEVEL: 'silent',
    TASSIS_MIN_FREE_DISK: '6MiB',
  }
  try {
    const { key } = await setUpAccount(settings, { verified: true })
    await using service = await startServing(settings)
    // The next service has the same port, and must not be sent a request over a connection of this one.
    const api = createClient(service.url, key, { keepalive: false })
    expect((await api('POST', '/v1/emails', MAIL)).status).toBe(202)
    // An orderly stop, so that the next start has to create new write-ahead logs.
    service.signal('SIGTERM')
    expect(await service.exited).toBe(0)
    return {
      settings,
      api,
      url: service.url,
      fill: () => fillDisk(filler),
      makeRoom: () => rmSync(filler),
      [Symbol.dispose]: end,
    }
  } catch (error) {
    end()
    throw error
  }
}

describe.skipIf(!canMount())('a start on a disk that is full (needs root, to mount a tmpfs)', () => {
  // Proves: storage-2
  test('waits, says why, and ends at a signal; it continues when there is space', async () => {
    using disk = await mountSmallDisk()
    const { api } = disk
    const answer = (path: string) => fetch(disk.url + path).catch(() => undefined)
    disk.fill()
    {
      await using child = Bun.spawn([process.execPath, MAIN, 'serve'], {
        env: { PATH: process.env['PATH'] ?? '', ...disk.settings },
      })
      await eventually(() => answer('/healthz'))
      child.kill('SIGTERM')
      expect(await child.exited).toBe(0)
    }
    const starting = startServing(disk.settings)
    await eventually(() => answer('/healthz'))
    expect((await answer('/healthz'))?.status).toBe(200)
    const waiting = await answer('/readyz')
    expect(waiting?.status).toBe(503)
    expect(await waiting?.text()).toContain('The service cannot start yet: the disk is full.')
    const early = await api('POST', '/v1/emails', MAIL)
    expect([early.status, early.headers.get('retry-after')]).toEqual([503, '10'])
    disk.makeRoom()
    await using _ = await starting
    expect((await api('GET', '/v1/emails')).status).toBe(200)
    await eventually(async () => (await api('POST', '/v1/emails', MAIL)).status === 202)
  })
})

const LIMIT = 256

/** What strangers send before they are silent. */
const BEGINNINGS = [
  '',
  'GET / HTT',
  'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n',
  'POST /v1/emails HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n',
]

/** Opens idle connections from another address than that of other clients of a test. */
function openIdleConnections(port: number, count: number): Socket[] {
  return Array.from({ length: count }, (_, index) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' }, () =>
      socket.write(BEGINNINGS[index % BEGINNINGS.length] ?? ''),
    )
    return socket
      .on('error', () => undefined)
      .on('end', () => socket.destroy())
      .resume()
  })
}

// Proves: storage-1
test('idle connections of strangers leave some descriptors for Workers, the database and requests', async () => {
  using data = createDataFolder()
  const { key, domainId } = await setUpAccount(data.settings, { verified: true })
  await using service = await startServing({ ...data.settings, TASSIS_LOG_LEVEL: 'silent' }, 'serve', {
    descriptors: LIMIT,
  })
  const countOpen = () => readdirSync(`/proc/${service.pid}/fd`).length
  const ask = createClient(service.url, key)
  await ask('PATCH', `/v1/domains/${domainId}`, { inbound_enabled: true })
  const mailbox = await ask('POST', '/v1/agent-mailboxes', { local_part: 'agent' })
  const before = countOpen()
  // Neither is idle, although nothing is sent.
  const stream = await fetch(`${service.url}/v1/events`, {
    headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
  })
  const reader = stream.body?.getReader()
  const poll = ask('GET', `/v1/agent-mailboxes/${at(mailbox.body, 'data', 'id')}/messages/next?timeout=10`)
  const strangers = openIdleConnections(Number(new URL(service.url).port), LIMIT + 60)
  await eventually(() => strangers.filter(({ destroyed }) => destroyed).length > 60)
  // Starts the Worker that renders.
  const template = { name: 'Hello', alias: 'hello', subject: 'Hello {{ name }}', text_body: 'x' }
  expect((await ask('POST', '/v1/templates', template)).status).toBe(201)
  const attachments = [{ filename: 'a.bin', content: 'A'.repeat(400_000), content_type: 'application/octet-stream' }]
  const mail = { from: 'ada@sender.test', to: 'bob@receiver.test', template_alias: 'hello', attachments }
  for (let n = 0; n < 5; n++)
    expect((await ask('POST', '/v1/emails', { ...mail, template_data: { name: n } })).status).toBe(202)
  expect(countOpen()).toBeLessThan(0.95 * LIMIT)
  // Its time is over: nothing came in.
  expect((await poll).status).toBe(408)
  let events = ''
  while (!events.includes('event: queued')) {
    const { value, done } = (await reader?.read()) ?? { done: true }
    expect([events, done]).toEqual([events, false])
    events += new TextDecoder().decode(value)
  }
  for (const stranger of strangers) stranger.destroy()
  await reader?.cancel()
  // A Worker and what it and the first attachment have open are new.
  await eventually(() => countOpen() <= before + 20)
  expect((await ask('GET', '/v1/emails')).status).toBe(200)
})

test('commands end when the service does not respond, with a sentence or as JSON; commands that only read do not wait for it', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  await using service = await startServing(data.settings)
  service.signal('SIGSTOP')
  const settings = { ...data.settings, TASSIS_HTTP_ADDR: new URL(service.url).host }
  const run = (...args: string[]) => runTassisProcess(args, settings)
  const unresponsive = `The service that uses ${data.path} does not respond within 10 s: it is suspended, or its disk hangs`
  const [queue, explained, retried, config, health, ...readOnly] = await Promise.all([
    run('queue'),
    run('explain', 'bob@receiver.test', '--json'),
    run('queue', 'retry', '--domain', 'receiver.test', '--yes'),
    run('config'),
    run('health'),
    run('check'),
    run('disk'),
    run('audit', 'list'),
  ])
  for (const { exitCode, stdout, stderr } of [queue, retried]) {
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
    expect(stderr).toStartWith(`tassis: ${unresponsive}`)
  }
  expect(JSON.parse(explained.stderr)).toEqual({
    error: { code: 'service_unresponsive', message: expect.stringContaining(unresponsive) as string },
  })
  expect(config.exitCode).toBe(0)
  expect([health.exitCode, health.stderr]).toEqual([1, expect.stringContaining('No service answers')])
  for (const { exitCode, stderr } of readOnly) expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  service.signal('SIGCONT')
  expect((await run('queue')).exitCode).toBe(0)
})
