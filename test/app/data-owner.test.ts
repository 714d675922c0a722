/**
 * @module Tests that a data directory stays usable for the user of the service when root runs commands on it while the
 * service is stopped: every command of the program, a service that root ran, restores and backups.
 */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
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
import type { Command } from 'commander'
import { createProgram } from '#app/cli/program.ts'
import { addBenchCommand } from '#bench/command.ts'
import { eventually } from '#test/support/app.ts'
import { createDataFolder, type DataFolder, MAIN, runTassis, type Settings, startServing } from './process.ts'

setDefaultTimeout(300_000)

/** A user without a name, who owns the data; another one, who has nothing to do with it. */
const OWNER = 61_234
const STRANGER = 61_235

/** A directory as an installation prepares it: empty, and of the user of the service. */
function createOwnedFolder(): DataFolder {
  const data = createDataFolder()
  chownSync(data.path, OWNER, OWNER)
  return { ...data, settings: { ...data.settings, TASSIS_DELIVERY: 'capture', TASSIS_LOG_LEVEL: 'silent' } }
}

const listForeign = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const { uid, gid } = lstatSync(join(folder, name))
    return uid !== OWNER || gid !== OWNER
  })

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
  const { key } = JSON.parse(created.stdout) as { key: string }
  {
    await using service = await startServing(settings, 'serve', { prefix: toUser(OWNER, []) })
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const sent = await fetch(`${service.url}/v1/emails`, { method: 'POST', headers, body: JSON.stringify(MAIL) })
    const { data } = (await sent.json()) as { data: { id: string } }
    expect(sent.status).toBe(202)
    expect((await fetch(`${service.url}/v1/emails/${data.id}`, { headers })).status).toBe(200)
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200)
    service.signal('SIGTERM')
    expect(await service.exited).toBe(0)
  }
  expect(await runAs(OWNER, ['check'], settings)).toMatchObject({ exitCode: 0, stderr: '' })
}

/** Every command but those that run a service, which have tests of their own. */
const COMMANDS: readonly (readonly [args: string, exitCode?: number])[] = [
  ['accounts create --name Acme --email ada@acme.test --plan unlimited'],
  ['accounts create --name Other --email eve@other.test'],
  ['accounts list'],
  ['accounts show Acme'],
  ['accounts pool Acme'],
  ['accounts plan Acme business'],
  ['accounts plan Acme unlimited'],
  ['accounts pause Acme --reason Test.'],
  ['accounts resume Acme'],
  ['accounts findings'],
  ['accounts delete Other --confirm Other'],
  ['accounts deletions'],
  ['keys create --name app'],
  ['keys import re_0123456789abcdef0123456789abcdef --name old'],
  ['keys list'],
  ['keys revoke old'],
  ['keys rotate-master'],
  ['keys list-master'],
  ['users create ada@acme.test'],
  ['users list'],
  ['users reset ada@acme.test'],
  ['users role ada@acme.test owner'],
  ['users totp-off ada@acme.test'],
  ['users operator ada@acme.test'],
  ['users sessions ada@acme.test'],
  ['users sign-out ada@acme.test'],
  ['users remove ada@acme.test'],
  ['domains add sender.test'],
  ['domains verify sender.test --without-dns'],
  ['domains list'],
  ['domains records sender.test'],
  ['domains rotate-dkim sender.test'],
  ['domains vouch sender.test'],
  ['send --from ada@sender.test --to bob@receiver.test --text Hello'],
  ['emails list'],
  ['emails show 1', 1],
  ['emails explain 1', 1],
  ['emails retry 1', 1],
  ['emails cancel 1', 1],
  ['emails resend 1 --yes', 1],
  ['explain 1', 1],
  ['queue'],
  ['queue hold --domain receiver.test --yes'],
  ['queue release --domain receiver.test --yes'],
  ['queue redirect --domain receiver.test --to mx.other.test --yes'],
  ['queue retry --domain receiver.test --yes'],
  ['queue bounce --domain receiver.test --reason Test. --yes'],
  ['queue drop --domain receiver.test --yes'],
  ['dead-letters list'],
  ['dead-letters retry --all --yes', 1],
  ['fence'],
  ['fence mark'],
  ['fence release --yes'],
  ['fence drop --yes', 1],
  ['providers'],
  ['providers resume gmail', 1],
  ['operations list'],
  ['operations show 1', 1],
  ['operations pause 1', 1],
  ['operations resume 1', 1],
  ['operations cancel 1', 1],
  ['lists'],
  ['suppressions add bob@receiver.test'],
  ['suppressions list'],
  ['suppressions export'],
  ['suppressions remove bob@receiver.test'],
  ['suppressions import CSV'],
  ['templates import --from postmark --url http://127.0.0.1:9', 2],
  ['webhooks list'],
  ['webhooks secret 1 --rotate', 1],
  ['webhooks test 1', 1],
  ['webhooks deliveries 1', 1],
  ['complaints'],
  ['inbound list'],
  ['inbound retry --all'],
  ['mail list'],
  ['mail show 1', 1],
  ['mail retry 1', 1],
  ['mail delete 1', 1],
  ['reports list'],
  ['reports show 1', 1],
  ['certificates list'],
  ['certificates retry', 1],
  ['audit verify'],
  ['audit list'],
  ['backup'],
  ['backup BACKUPS/more'],
  ['backup --list'],
  ['disk'],
  ['retention run'],
  ['check'],
  ['config'],
  ['health', 1],
  ['doctor'],
  ['domains remove sender.test --yes'],
  ['version'],
]
/** They run until they are stopped, or have tests of their own below. */
const NOT_IN_TABLE = ['listen', 'mcp', 'restore', 'serve', 'start']

/** Names of all commands that do something. */
const listCommands = (command: Command, path: readonly string[] = []): string[] =>
  command.commands.flatMap((each) => {
    const name = [...path, each.name()]
    const does = '_actionHandler' in each && each['_actionHandler'] !== null
    return [...(does ? [name.join(' ')] : []), ...listCommands(each, name)]
  })

// Only root may act as another user.
describe.skipIf(process.getuid?.() !== 0)('what root runs while the service is stopped', () => {
  const createAccount = async (): Promise<DataFolder> => {
    const owned = createOwnedFolder()
    await runTassis(['accounts', 'create', '--name', 'Acme', '--email', 'ada@acme.test'], owned.settings)
    return owned
  }

  test('the table has every command', () => {
    const known = listCommands(createProgram([], addBenchCommand))
    const tried = COMMANDS.map(([args]) => args)
    const missing = known.filter((name) => !tried.some((args) => `${args} `.startsWith(`${name} `)))
    expect(missing.filter((name) => !name.startsWith('bench')).sort()).toEqual(NOT_IN_TABLE)
  })

  // One test, because commands need what those before them created.
  test('commands leave nothing that belongs to root, and the service then reads and writes everything', async () => {
    using data = createOwnedFolder()
    using csv = createDataFolder()
    writeFileSync(join(csv.path, 'list.csv'), 'email\nx@receiver.test\n', { mode: 0o600 })
    const settings = {
      ...data.settings,
      TASSIS_BACKUP_DIR: join(data.path, 'backups'),
      TASSIS_DOCTOR_SMTP_DOMAINS: 'receiver.test',
    }
    for (const [args, exitCode = 0] of COMMANDS) {
      const words = args
        .replace('CSV', join(csv.path, 'list.csv'))
        .replace('BACKUPS', join(data.path, 'backups'))
        .split(' ')
      const ran = await runTassis(words, settings)
      expect({ args, exitCode: ran.exitCode, stderr: ran.stderr }).toMatchObject({ exitCode })
      expect({ args, foreign: listForeign(data.path) }).toEqual({ args, foreign: [] })
    }
    await useAsOwner(settings)
  })

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
    await useAsOwner(settings)
    Bun.spawnSync(['rm', link])
  })

  test('a service that cannot start, because its port is taken', async () => {
    using data = await createAccount()
    using other = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
    const settings = { ...data.settings, TASSIS_HTTP_ADDR: `127.0.0.1:${other.port}` }
    expect(await runTassis(['serve'], settings)).toMatchObject({ exitCode: 1 })
    expect(listForeign(data.path)).toEqual([])
    await useAsOwner(data.settings)
  })

  test('a restore, from a backup that only root may read', async () => {
    using data = await createAccount()
    const { settings } = data
    using backups = createDataFolder()
    chmodSync(backups.path, 0o700)
    const file = join(backups.path, 'copy.tar')
    expect(await runTassis(['backup', file, '--with-key'], settings)).toMatchObject({ exitCode: 0 })
    expect(lstatSync(file).uid).toBe(0)
    using restored = createOwnedFolder()
    mkdirSync(join(restored.path, 'lost+found'))
    expect(await runTassis(['restore', file], restored.settings)).toMatchObject({ exitCode: 0 })
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

  test('a copy without its lock, marked as a copy', async () => {
    using data = await createAccount()
    rmSync(join(data.path, 'lock'))
    expect(await runTassis(['fence', 'mark'], data.settings)).toMatchObject({ exitCode: 0 })
    expect(listForeign(data.path)).toEqual([])
    await useAsOwner(data.settings)
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
  async function createUsed() {
    const data = createOwnedFolder()
    await runTassis(['accounts', 'create', '--name', 'Acme', '--email', 'ada@acme.test'], data.settings)
    await runTassis(['domains', 'add', 'sender.test'], data.settings)
    await runTassis(['domains', 'verify', 'sender.test', '--without-dns'], data.settings)
    await runTassis(['send', '--from', 'a@sender.test', '--to', 'b@c.test', '--text', 'x'], data.settings)
    const month = readdirSync(join(data.path, 'content')).find((name) => name.endsWith('.db')) ?? ''
    return { data, month: `content/${month}` }
  }

  test.each([
    'tassis.db',
    'capture.db',
    'lock',
    'instance.json',
    'master.key',
    'content.ids',
    'content',
    'raw-mail',
    'MONTH',
  ])('%s: serve, commands and root say which and how to mend it, with exit code 2; doctor does, too', async (name) => {
    const { data, month } = await createUsed()
    using _ = data
    const path = join(data.path, name === 'MONTH' ? month : name)
    chownSync(path, 0, 0)
    chmodSync(path, lstatSync(path).isDirectory() ? 0o700 : 0o600)
    const message = `User ${OWNER} may not use ${path}, which belongs to user root; as root, run ${chown(data.path)}.`
    const failure = { exitCode: 2, stdout: '', stderr: `tassis: ${message}\n` }
    const served = await runAs(OWNER, ['serve'], data.settings)
    expect(served).toMatchObject({ exitCode: 2, stdout: '' })
    expect(JSON.parse(served.stderr)).toMatchObject({ level: 'error', msg: `tassis: ${message}` })
    expect(await runAs(OWNER, ['check'], data.settings)).toEqual(failure)
    expect(await runTassis(['queue'], data.settings)).toEqual(failure)
    const { stdout } = await runTassis(['doctor'], data.settings)
    // Of the database, this may be what belongs to it.
    expect(stdout).toContain(`FAILED  owners: ${path}`)
    expect(stdout).toContain(` belongs to user root, the data directory to user ${OWNER}`)
    expect(stdout).toContain(`Run ${chown(data.path)} as root.`)
  })

  test('a stranger learns whose data they are, and what to do if they are his', async () => {
    const { data } = await createUsed()
    using _ = data
    for (const args of [['queue'], ['check']])
      expect(await runAs(STRANGER, args, data.settings)).toEqual({
        exitCode: 2,
        stdout: '',
        stderr: `tassis: User ${STRANGER} may not use ${data.path}, which belongs to user ${OWNER}; run this as the user of the service, or, if that is ${STRANGER}, run \`chown -R ${STRANGER}:${STRANGER} ${data.path}\` as root.\n`,
      })
  })

  test('an own file without rights is allowed by chmod', async () => {
    const { data } = await createUsed()
    using _ = data
    chmodSync(join(data.path, 'tassis.db'), 0o400)
    expect((await runAs(OWNER, ['queue'], data.settings)).stderr).toBe(
      `tassis: User ${OWNER} may not use ${data.path}/tassis.db, which belongs to user ${OWNER}; allow it: \`chmod -R u+rwX ${data.path}\`.\n`,
    )
  })

  test('what is not of Tassis stops nothing', async () => {
    const { data } = await createUsed()
    using _ = data
    writeFileSync(join(data.path, 'notes.txt'), '', { mode: 0o600 })
    expect(await runAs(OWNER, ['queue'], data.settings)).toMatchObject({ exitCode: 0, stderr: '' })
  })
})
