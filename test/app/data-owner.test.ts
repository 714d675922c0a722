/**
 * @module Tests that a data directory stays usable for the user of the service when root runs commands on it while the
 * service is stopped: a service that root ran, restores and backups. The commands are tried by `json-output.test.ts`.
 */
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { eventually } from '#test/support/app.ts'
import {
  createClient,
  createDataFolder,
  type DataFolder,
  listForeign,
  MAIN,
  OWNER,
  runTassis,
  type Settings,
  startServing,
} from './process.ts'

setDefaultTimeout(300_000)

/** A user who has nothing to do with the data. */
const STRANGER = 61_235

/** A directory as an installation prepares it: empty, and of the user of the service. */
function createOwnedFolder(): DataFolder {
  const data = createDataFolder()
  chownSync(data.path, OWNER, OWNER)
  return { ...data, settings: { ...data.settings, TASSIS_DELIVERY: 'capture', TASSIS_LOG_LEVEL: 'silent' } }
}

/** Runs a program of the service as another user than root. */
async function runAs(uid: number, args: readonly string[], settings: Settings) {
  await using child = Bun.spawn(toUser(uid, [process.execPath, MAIN, ...args]), {
    env: { PATH: process.env['PATH'] ?? '', ...settings },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { exitCode, stdout, stderr }
}

const toUser = (uid: number, command: readonly string[]): string[] => [
  'setpriv',
  `--reuid=${uid}`,
  `--regid=${uid}`,
  '--clear-groups',
  ...command,
]

const MAIL = {
  from: 'ada@sender.test',
  to: 'bob@receiver.test',
  subject: 'Hello',
  text_body: 'It works.',
  // Large enough for a file of its own.
  attachments: [{ filename: 'a.bin', content_type: 'application/octet-stream', content: 'AAAA'.repeat(200_000) }],
}

/** Starts the service as the owner of the data, sends an email and reads it, and stops. */
async function useAsOwner(settings: Settings): Promise<void> {
  await runTassis(['domains', 'add', 'sender.test', '--account', 'Acme'], settings)
  await runTassis(['domains', 'verify', 'sender.test', '--account', 'Acme', '--without-dns'], settings)
  const created = await runAs(OWNER, ['keys', 'create', '--account', 'Acme', '--name', 'used', '--json'], settings)
  const { key } = JSON.parse(created.stdout).data as { key: string }
  {
    await using service = await startServing(settings, 'serve', { prefix: toUser(OWNER, []) })
    const ask = createClient(service.url, key)
    const { status, body } = await ask('POST', '/v1/emails', MAIL)
    expect([status, (await ask('GET', `/v1/emails/${body.data.id}`)).status]).toEqual([202, 200])
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200)
    service.signal('SIGTERM')
    expect(await service.exited).toBe(0)
  }
  expect(await runAs(OWNER, ['check'], settings)).toMatchObject({ exitCode: 0, stderr: '' })
}

// Only root may act as another user.
describe.skipIf(process.getuid?.() !== 0)('what root runs while the service is stopped', () => {
  const createAccount = async (): Promise<DataFolder> => {
    const owned = createOwnedFolder()
    await runTassis(['accounts', 'create', '--name', 'Acme', '--email', 'ada@acme.test'], owned.settings)
    return owned
  }

  test.each(['serve', 'start'])('%s gives what it wrote to the owner when it ends', async (command) => {
    using data = await createAccount()
    const { settings } = data
    const link = join(data.path, 'link')
    symlinkSync(MAIN, link)
    lchownSync(link, 0, 0)
    await using service = await startServing(settings, command)
    service.signal('SIGTERM')
    expect(await service.exited).toBe(0)
    expect(listForeign(data.path)).toEqual([])
    // What a link leads to stays as it is.
    expect(lstatSync(MAIN).uid).not.toBe(OWNER)
    if (command === 'serve') await useAsOwner(settings)
    Bun.spawnSync(['rm', link])
  })

  test('a service that cannot start, because its port is taken', async () => {
    using data = await createAccount()
    using other = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
    const settings = { ...data.settings, TASSIS_HTTP_ADDR: `127.0.0.1:${other.port}` }
    expect(await runTassis(['serve'], settings)).toMatchObject({ exitCode: 1 })
    expect(listForeign(data.path)).toEqual([])
  })

  test('a restore, from a backup that only root may read', async () => {
    using data = await createAccount()
    const { settings } = data
    using backups = createDataFolder()
    chmodSync(backups.path, 0o700)
    expect(await runTassis(['backup', backups.path, '--with-key'], settings)).toMatchObject({ exitCode: 0 })
    const backup = join(backups.path, readdirSync(backups.path)[0] ?? '')
    expect(lstatSync(backup).uid).toBe(0)
    using restored = createOwnedFolder()
    mkdirSync(join(restored.path, 'lost+found'))
    expect(await runTassis(['restore', backup], restored.settings)).toMatchObject({ exitCode: 0 })
    // It belongs to the file system.
    expect(listForeign(restored.path)).toEqual(['lost+found'])
    await useAsOwner(restored.settings)
  })

  test('a restore that fails, from a damaged backup', async () => {
    using data = await createAccount()
    using backups = createDataFolder()
    await runTassis(['backup', backups.path, '--with-key'], data.settings)
    const backup = join(backups.path, readdirSync(backups.path)[0] ?? '')
    appendFileSync(join(backup, 'capture.db'), 'x')
    using restored = createOwnedFolder()
    expect(await runTassis(['restore', backup], restored.settings)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('capture.db'),
    })
    expect(readdirSync(restored.path)).toEqual(['lock'])
    expect(listForeign(restored.path)).toEqual([])
  })

  test('a copy without its lock, marked as a copy, and a backup inside the directory', async () => {
    using data = await createAccount()
    rmSync(join(data.path, 'lock'))
    expect(await runTassis(['fence', 'mark'], data.settings)).toMatchObject({ exitCode: 0 })
    expect(await runTassis(['backup', join(data.path, 'backups')], data.settings)).toMatchObject({ exitCode: 0 })
    expect(listForeign(data.path)).toEqual([])
  })

  test('a master key outside of the data directory that only root may read and replace', async () => {
    using keys = createDataFolder()
    chmodSync(keys.path, 0o700)
    using owned = createOwnedFolder()
    const keyed = { ...owned.settings, TASSIS_MASTER_KEY_FILE: join(keys.path, 'master.key') }
    writeFileSync(keyed.TASSIS_MASTER_KEY_FILE, `${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 })
    const create = ['accounts', 'create', '--name', 'Acme', '--email', 'ada@acme.test']
    expect(await runTassis(create, keyed)).toMatchObject({ exitCode: 0 })
    expect(await runTassis(['keys', 'rotate-master'], keyed)).toMatchObject({ exitCode: 0 })
    expect(listForeign(owned.path)).toEqual([])
    expect(lstatSync(keyed.TASSIS_MASTER_KEY_FILE).uid).toBe(0)
  })

  // Not in a container that may mount nothing.
  test.skipIf(Bun.spawnSync(['unshare', '--mount', 'true']).exitCode !== 0)(
    'on a disk that became read-only, the service and commands say so with exit code 2, also those that only read',
    async () => {
      using data = createOwnedFolder()
      // In its own process, which leaves no index of the write-ahead log, so that SQLite would have to write one.
      await runAs(OWNER, ['accounts', 'create', '--name', 'Acme', '--email', 'ada@acme.test'], data.settings)
      const script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
      for (const args of [['serve'], ['queue'], ['api', 'POST', '/v1/domains', '{}'], ['check'], ['audit', 'list']]) {
        const command = [process.execPath, MAIN, ...args]
        await using child = Bun.spawn(['unshare', '--mount', 'sh', '-c', script, data.path, ...command], {
          env: { PATH: process.env['PATH'] ?? '', ...data.settings },
          stdout: 'pipe',
          stderr: 'pipe',
        })
        expect({ args, stdout: await child.stdout.text(), stderr: await child.stderr.text() }).toEqual({
          args,
          stdout: '',
          stderr: expect.stringMatching(/which cannot be used \(EROFS: read-only file system, .{1,200}may write to/),
        })
        expect(await child.exited).toBe(2)
      }
    },
  )

  test('a command that is killed', async () => {
    using owned = createOwnedFolder()
    const create = [process.execPath, MAIN, 'accounts', 'create', '--name', 'Acme', '--email', 'ada@acme.test']
    await using child = Bun.spawn(create, {
      env: { PATH: process.env['PATH'] ?? '', ...owned.settings },
      stdout: 'ignore',
      stderr: 'ignore',
    })
    await eventually(() => readdirSync(owned.path).length > 0)
    child.kill('SIGKILL')
    await child.exited
    expect(listForeign(owned.path)).toEqual([])
  })
})

describe.skipIf(process.getuid?.() !== 0)('a file that belongs to root', () => {
  const chown = (path: string) => `\`chown -R ${OWNER}:${OWNER} ${path}\``

  /** A data directory with an account and an email, whose every file belongs to its owner. */
  let data: DataFolder
  let month: string
  beforeAll(async () => {
    data = createOwnedFolder()
    await runTassis(['accounts', 'create', '--name', 'Acme', '--email', 'ada@acme.test'], data.settings)
    await runTassis(['domains', 'add', 'sender.test'], data.settings)
    await runTassis(['domains', 'verify', 'sender.test', '--without-dns'], data.settings)
    await runTassis(['send', '--from', 'a@sender.test', '--to', 'b@c.test', '--text', 'x'], data.settings)
    month = `content/${readdirSync(join(data.path, 'content')).find((name) => name.endsWith('.db'))}`
  })
  afterEach(() => {
    rmSync(join(data.path, 'notes.txt'), { force: true })
    for (const name of ['', ...readdirSync(data.path, { recursive: true, encoding: 'utf8' })]) {
      const path = join(data.path, name)
      chownSync(path, OWNER, OWNER)
      chmodSync(path, lstatSync(path).isDirectory() ? 0o700 : 0o600)
    }
  })
  afterAll(() => data[Symbol.dispose]())

  test.each(['tassis.db', 'master.key', 'content', 'MONTH'])(
    '%s: serve, commands and root say which and how to mend it, with exit code 2; doctor does, too',
    async (name) => {
      const path = join(data.path, name === 'MONTH' ? month : name)
      chownSync(path, 0, 0)
      chmodSync(path, lstatSync(path).isDirectory() ? 0o700 : 0o600)
      const message = `User ${OWNER} may not use ${path}, which belongs to user root; as root, run ${chown(data.path)}.`
      const failure = { exitCode: 2, stdout: '', stderr: `tassis: ${message}\n` }
      if (name === 'tassis.db') {
        const served = await runAs(OWNER, ['serve'], data.settings)
        expect(served).toMatchObject({ exitCode: 2, stdout: '' })
        expect(JSON.parse(served.stderr)).toMatchObject({ level: 'error', msg: `tassis: ${message}` })
      }
      expect(await runAs(OWNER, ['check'], data.settings)).toEqual(failure)
      expect(await runTassis(['queue'], data.settings)).toEqual(failure)
      const { stdout } = await runTassis(['doctor'], data.settings)
      // Of the database, this may be what belongs to it.
      expect(stdout).toContain(`FAILED  owners: ${path}`)
      expect(stdout).toContain(` belongs to user root, the data directory to user ${OWNER}`)
      expect(stdout).toContain(`Run ${chown(data.path)} as root.`)
    },
  )

  test('a stranger learns whose data they are, and what to do if they are his', async () => {
    for (const args of [['queue'], ['check'], ['api', 'GET', '/v1/account']])
      expect(await runAs(STRANGER, args, data.settings)).toEqual({
        exitCode: 2,
        stdout: '',
        stderr: `tassis: User ${STRANGER} may not use ${data.path}, which belongs to user ${OWNER}; run this as the user of the service, or, if that is ${STRANGER}, run \`chown -R ${STRANGER}:${STRANGER} ${data.path}\` as root.\n`,
      })
    const { stdout } = await runAs(STRANGER, ['doctor'], data.settings)
    expect(stdout).toContain(`FAILED  privileges: User ${STRANGER} may not use ${data.path}, which belongs to`)
    const unborn = await runAs(STRANGER, ['doctor'], { ...data.settings, TASSIS_DATA_DIR: '/tassis-of-nobody' })
    expect(unborn.stdout).toContain('FAILED  privileges: This user cannot write to /.')
  })

  test('an own file without rights is allowed by chmod', async () => {
    chmodSync(join(data.path, 'tassis.db'), 0o400)
    expect((await runAs(OWNER, ['queue'], data.settings)).stderr).toBe(
      `tassis: User ${OWNER} may not use ${data.path}/tassis.db, which belongs to user ${OWNER}; allow it: \`chmod -R u+rwX ${data.path}\`.\n`,
    )
  })

  test('what is not of Tassis stops nothing', async () => {
    writeFileSync(join(data.path, 'notes.txt'), '', { mode: 0o600 })
    expect(await runAs(OWNER, ['queue'], data.settings)).toMatchObject({ exitCode: 0, stderr: '' })
  })
})
