/**
 * @module Tests that transient errors have no permanent effect. The service runs as a process: with a database that
 * another process has locked, without free file descriptors, and on a full disk.
 */
import { Database } from 'bun:sqlite'
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import {
  createDataFolder,
  MAIN,
  runTassis,
  runTassisJson,
  type Settings,
  setUpAccount,
  startServing,
} from './process.ts'

setDefaultTimeout(300_000)

const MAIL = { from: 'ada@sender.test', to: 'bob@receiver.test', subject: 'Hello', text_body: 'It works.' }

interface Answer {
  readonly status: number
  readonly retryAfter: string | null
  // biome-ignore lint/suspicious/noExplicitAny: the tests read properties that they know to exist
  readonly body: any
}

const createApi =
  (url: string, key: string, { keepalive = true } = {}) =>
  async (method: string, path: string, body?: object): Promise<Answer> => {
    const response = await fetch(url + path, {
      keepalive,
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, retryAfter: response.headers.get('retry-after'), body: await response.json() }
  }

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

describe('while another process holds the database', () => {
  // Proves: storage-1
  test('sends wait, lists are readable, the event loop runs, and no mail is lost or fails', async () => {
    using data = createDataFolder()
    const settings = { ...data.settings, TASSIS_DELIVERY: 'capture' }
    const { key } = await setUpAccount(settings, { verified: true })
    await using service = await startServing(settings)
    const api = createApi(service.url, key)
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
    await eventually(() => areAllSent(settings, 31))
  })

  // Proves: storage-1
  test('a send that waits too long gets 503 with Retry-After, and delivery continues when the lock is released', async () => {
    using data = createDataFolder()
    const settings = { ...data.settings, TASSIS_DELIVERY: 'capture', TASSIS_LOG_LEVEL: 'silent' }
    const { key } = await setUpAccount(settings, { verified: true })
    await using service = await startServing(settings)
    const api = createApi(service.url, key)
    const accepted = await Promise.all(Array.from({ length: 20 }, () => api('POST', '/v1/emails', MAIL)))
    expect(new Set(accepted.map(({ status }) => status))).toEqual(new Set([202]))
    using other = new Database(join(data.path, 'tassis.db'))
    other.run('PRAGMA busy_timeout = 10000')
    // The service is in the middle of its deliveries.
    other.run('BEGIN EXCLUSIVE')
    const { status, retryAfter, body } = await api('POST', '/v1/emails', MAIL)
    expect({ status, retryAfter, code: body.code }).toEqual({
      status: 503,
      retryAfter: '5',
      code: 'storage_unavailable',
    })
    other.run('ROLLBACK')
    await eventually(() => areAllSent(settings, 20))
  })
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
  const api = createApi(service.url, key)
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
  expect({ status: refused.status, retryAfter: refused.retryAfter }).toEqual({ status: 503, retryAfter: '5' })
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
  const ballast = join(data.path, 'ballast')
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
    await eventually(() => existsSync(ballast) && statSync(ballast).size === 4_194_304)
    // The next service has the same port, and must not be sent a request over a connection of this one.
    const api = createApi(service.url, key, { keepalive: false })
    expect((await api('POST', '/v1/emails', MAIL)).status).toBe(202)
    // An orderly stop, so that the next start has to create new write-ahead logs.
    service.signal('SIGTERM')
    expect(await service.exited).toBe(0)
    return {
      ballast,
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
  test('deletes the ballast to serve reads, refuses sends with 507 and accepts them when there is space', async () => {
    using disk = await mountSmallDisk()
    const { api } = disk
    disk.fill()
    await using _ = await startServing(disk.settings)
    expect(existsSync(disk.ballast)).toBe(false)
    const { status, body } = await api('GET', '/v1/emails')
    expect({ status, emails: body.data.length }).toEqual({ status: 200, emails: 1 })
    expect((await api('POST', '/v1/emails', MAIL)).status).toBe(507)
    const ready = await fetch(`${disk.url}/readyz`)
    expect(ready.status).toBe(503)
    expect(await ready.text()).toContain('too little free space')
    disk.makeRoom()
    await eventually(async () => (await api('POST', '/v1/emails', MAIL)).status === 202)
  })

  // Proves: storage-2
  test('waits without a ballast, says why, exits with 0 at a signal, and continues when there is space', async () => {
    using disk = await mountSmallDisk()
    rmSync(disk.ballast)
    disk.fill()
    {
      await using child = Bun.spawn([process.execPath, MAIN, 'serve'], {
        env: { PATH: process.env['PATH'] ?? '', ...disk.settings },
      })
      await eventually(() => fetch(`${disk.url}/healthz`).catch(() => undefined))
      child.kill('SIGTERM')
      expect(await child.exited).toBe(0)
    }
    const starting = startServing(disk.settings)
    const answer = (path: string) => fetch(disk.url + path).catch(() => undefined)
    await eventually(() => answer('/healthz'))
    expect((await answer('/healthz'))?.status).toBe(200)
    const ready = await answer('/readyz')
    expect(ready?.status).toBe(503)
    expect(await ready?.text()).toContain('The service cannot start yet: the disk is full.')
    expect(await disk.api('POST', '/v1/emails', MAIL)).toMatchObject({ status: 503, retryAfter: '10' })
    disk.makeRoom()
    await using _ = await starting
    expect((await disk.api('GET', '/v1/emails')).status).toBe(200)
    await eventually(async () => (await disk.api('POST', '/v1/emails', MAIL)).status === 202)
  })
})
