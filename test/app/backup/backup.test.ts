/** @module Backups of a running service, by the commands that operators use. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { createBackup } from '#app/backup/create-backup.ts'
import { BackupError } from '#app/backup/errors.ts'
import { formatManifest, type Manifest, parseManifest } from '#app/backup/manifest.ts'
import { startService } from '#app/service.ts'
import { loadConfig } from '#app/settings.ts'
import { KeyRing, parseMasterKeys } from '#platform/crypto/crypto.ts'
import { systemClock } from '#platform/time/clock.ts'
import { flipBit } from '#test/support/bit-flip.ts'
import {
  createClient,
  createDataFolder,
  type DataFolder,
  runTassis,
  runTassisJson,
  runTassisProcess,
  setUpAccount,
  startServing,
  withApp,
} from '../process.ts'

// Commands run as processes would, on a machine that may be busy.
setDefaultTimeout(300_000)

let data: DataFolder
let service: Awaited<ReturnType<typeof startServing>>
let key: string
/** Folders for the targets of one test each. */
const root = mkdtempSync(join(tmpdir(), 'tassis-backup-'))
let folders = 0
const newFolder = (): string => join(root, String(++folders))

const send = async (text: string, attachment?: Uint8Array): Promise<string> => {
  const content = Buffer.from(attachment ?? []).toString('base64')
  const { body } = await createClient(service.url, key)('POST', '/v1/emails', {
    from: 'ada@sender.test',
    to: 'bob@receiver.test',
    subject: 'Hi',
    text_body: text,
    ...(attachment && { attachments: [{ filename: 'a.bin', content, content_type: 'application/octet-stream' }] }),
  })
  return body.data.id
}

interface Report {
  readonly path: string
  readonly total_bytes: number
  readonly written_bytes: number
  readonly warnings: readonly string[]
  readonly removed: readonly string[]
}

const backUp = (target: string, ...options: string[]): Promise<Report> =>
  runTassisJson<Report>(['backup', target, ...options], data.settings)

const restore = (backup: string, into: string, ...options: string[]) =>
  runTassis(['restore', backup, '--into', into, ...options], data.settings)

beforeAll(async () => {
  data = createDataFolder()
  ;({ key } = await setUpAccount(data.settings, { verified: true }))
  // Mail stays in the queue: there is no DNS.
  service = await startServing(data.settings)
  // Above the size of blobs that are files.
  await send('with a large attachment', randomBytes(400_000))
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  data[Symbol.dispose]()
  rmSync(root, { recursive: true, force: true })
})

function randomBytes(size: number): Uint8Array {
  const bytes = new Uint8Array(size)
  for (let from = 0; from < size; from += 65_536) crypto.getRandomValues(bytes.subarray(from, from + 65_536))
  return bytes
}

const listFiles = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(folder, name)).isFile())
    .sort()

/** Changes one byte in the middle of a file. */
function flipByte(path: string, at = Math.floor(statSync(path).size / 2), count = 1): void {
  const bytes = readFileSync(path)
  for (let i = at; i < at + count; i++) bytes[i] = (bytes[i] ?? 0) ^ 1
  // A new file: the old one may be a link.
  rmSync(path)
  writeFileSync(path, bytes)
}

describe('a backup of a running service', () => {
  // Proves: storage-13
  test('can be restored elsewhere, with everything that was accepted before, and is sound there', async () => {
    const id = await send('before the backup')
    const { path } = await backUp(newFolder())
    const later = await send('after the backup')
    const into = newFolder()
    const restored = await restore(path, into, '--key', join(data.path, 'master.key'))
    expect(restored).toMatchObject({ exitCode: 0, stderr: '' })
    const written = listFiles(into).filter((name) => name !== 'lock')
    for (const name of written) expect([name, statSync(join(into, name)).mode & 0o777]).toEqual([name, 0o600])
    expect(statSync(into).mode & 0o777).toBe(0o700)
    const settings = { ...data.settings, TASSIS_DATA_DIR: into }
    const check = await runTassis(['check'], settings)
    expect(check.stdout).toContain('No inconsistencies found.')
    expect((await runTassis(['emails', 'show', id], settings)).exitCode).toBe(0)
    expect((await runTassis(['emails', 'show', later], settings)).exitCode).toBe(1)
  })

  test('is one folder with the mode 0700, whose databases need no write-ahead log, and holds the key only on request', async () => {
    const folder = newFolder()
    const { path } = await backUp(folder)
    expect(readdirSync(folder)).toEqual([path.slice(folder.length + 1)])
    expect(statSync(path).mode & 0o777).toBe(0o700)
    const files = listFiles(path)
    expect(files).toContain('tassis.db')
    expect(files).toContain('capture.db')
    expect(files).toContain('manifest.json')
    const listLarge = (names: readonly string[]) => names.filter((name) => name.endsWith('.zst'))
    expect(listLarge(files)).toEqual(listLarge(listFiles(data.path)))
    expect(listLarge(files)).not.toEqual([])
    expect(files.filter((name) => /wal|shm|journal|master\.key|lock|sock/.test(name))).toEqual([])
    for (const name of files) expect(statSync(join(path, name)).mode & 0o777).toBe(0o600)

    const secret = readFileSync(join(data.path, 'master.key'), 'utf8').trim()
    for (const name of files) expect(readFileSync(join(path, name)).includes(secret)).toBe(false)
    const withKey = await backUp(newFolder(), '--with-key')
    expect(readFileSync(join(withKey.path, 'master.key'), 'utf8').trim()).toBe(secret)
    expect((await restore(withKey.path, newFolder())).exitCode).toBe(0)

    // A newer key in front of it, since the backup, is kept: links in mail of that time need it.
    const both = join(root, 'both.key')
    writeFileSync(both, `${Buffer.from(randomBytes(32)).toString('base64')}\n${secret}\n`)
    const into = newFolder()
    expect(await restore(withKey.path, into, '--key', both)).toMatchObject({ exitCode: 0, stderr: '' })
    expect(readFileSync(join(into, 'master.key'), 'utf8')).toBe(readFileSync(both, 'utf8'))
    const taken = newFolder()
    mkdirSync(taken)
    writeFileSync(join(taken, 'master.key'), `${secret}\n`)
    expect((await restore(withKey.path, taken, '--key', both)).stderr).toContain('they differ; remove one of them')
    expect(readFileSync(join(taken, 'master.key'), 'utf8')).toBe(`${secret}\n`)
  })

  test('creates the folder that is named, but none above it, which may be a disk that is not mounted', async () => {
    const missing = join(newFolder(), 'backups')
    const problem = `tassis: The folder ${dirname(missing)} does not exist, so nothing was written. Mount its disk, or create the folder with \`mkdir -p ${missing}\`.\n`
    const { exitCode, stderr } = await runTassis(['backup', missing], data.settings)
    expect([exitCode, stderr]).toEqual([1, problem])
    expect(existsSync(dirname(missing))).toBe(false)
  })

  test.each(['a.tar', 'a.tar.zst'])('is not written into one file such as %s', async (name) => {
    const { exitCode, stderr } = await runTassis(['backup', join(newFolder(), name)], data.settings)
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('A backup is a folder;')])
  })

  test('shares unchanged content with the one before, unless that is damaged there', async () => {
    const folder = newFolder()
    const first = await backUp(folder)
    const second = await backUp(folder, '--keep', '2')
    const [blob = ''] = listFiles(first.path).filter((name) => name.endsWith('.zst'))
    expect(statSync(join(second.path, blob)).ino).toBe(statSync(join(first.path, blob)).ino)
    expect(second.total_bytes - second.written_bytes).toBeGreaterThanOrEqual(400_000)
    // The live file is never shared: who changes it must not change the backup.
    expect(statSync(join(second.path, blob)).ino).not.toBe(statSync(join(data.path, blob)).ino)

    flipByte(join(second.path, blob))
    const third = await backUp(folder, '--keep', '2')
    expect(third.warnings).toEqual([`${blob} is damaged in ${second.path}; it was copied again`])
    expect(third.removed).toEqual([first.path.slice(folder.length + 1)])
    expect(readdirSync(folder).sort()).toEqual([second.path, third.path].map((path) => path.slice(folder.length + 1)))
    expect((await runTassis(['backup', '--verify', third.path], data.settings)).exitCode).toBe(0)
    expect(readFileSync(join(third.path, blob))).toEqual(readFileSync(join(data.path, blob)))
  })

  // Proves: storage-17
  test('holds damaged content as it is, names it with the email that needs it, and does not call itself verified', async () => {
    const [image, file] = [randomBytes(50_000), randomBytes(400_000)]
    const ids = [await send('image', image), await send('file', file)]
    const shared = newFolder()
    await backUp(shared)
    const damage = () => [image, file].map((content) => flipBit(join(data.path, 'content'), content.subarray(20_000)))
    const [, damaged = ''] = damage()
    const folder = newFolder()
    const { exitCode, stdout } = await runTassis(['backup', folder], data.settings)
    const { path, warnings } = await backUp(newFolder())
    const again = await backUp(shared)
    damage()
    expect([exitCode, readdirSync(folder)]).toEqual([0, [expect.stringMatching(/^tassis-/)]])
    expect(stdout).toStartWith('Backup written, with warnings: ')
    expect(stdout).not.toContain('verified')
    expect(warnings).toEqual([
      expect.stringMatching(new RegExp(`^blob \\d+ in content/.*[.]db is damaged: needed by emails ${ids[0]}$`)),
      `${damaged.slice(data.path.length + 1)} is damaged: needed by emails ${ids[1]}`,
    ])
    for (const warning of warnings) expect(stdout).toContain(`  warning: ${warning}`)
    expect((await runTassis(['backup', '--verify', path], data.settings)).stdout).toContain(warnings[0] ?? 'none')
    // The previous backup has the file as it was, so this one has it too.
    expect(again.warnings).toEqual([
      `${damaged} is damaged; the backup has it as it was, so copy it from there`,
      warnings[0] ?? '',
    ])
    expect((await backUp(newFolder())).warnings).toEqual([])
  })

  test('removes what a killed backup left, and nothing else', async () => {
    const folder = newFolder()
    const left = `.tassis-20200101T000000Z-${process.pid}-${hostname()}.partial`
    const foreign = `.tassis-20200101T000000Z-1-elsewhere.partial`
    // This one may still be written: its machine is not this one, and it is new.
    const stamp = new Date().toISOString().replace(/[-:]|\.\d+/g, '')
    const fresh = `.tassis-${stamp}-1-elsewhere.partial`
    for (const name of [left, foreign, fresh, 'notes']) mkdirSync(join(folder, name), { recursive: true })
    const { path } = await backUp(folder)
    expect(readdirSync(folder).sort()).toEqual([fresh, 'notes', path.slice(folder.length + 1)].sort())
  })

  test('names every entry of a data directory as held or not held', async () => {
    const { DATABASES, FOLDERS, NOT_HELD } = await import('#app/backup/manifest.ts')
    const { STORES } = await import('#platform/content/files.ts')
    const known = [...DATABASES, ...STORES, ...STORES.map((store) => `${store}.ids`), ...FOLDERS, ...NOT_HELD]
    const found = readdirSync(data.path).filter((name) => !/-(wal|shm)$/.test(name))
    expect(found.filter((name) => !known.includes(name))).toEqual([])
  })
})

describe('a damaged backup', () => {
  const verify = async (path: string) => {
    const { exitCode, stdout, stderr } = await runTassis(['backup', '--verify', path], data.settings)
    return { exitCode, text: stdout + stderr }
  }
  /** Restores a damaged backup, which must leave nothing; returns the error. */
  const refusal = async (path: string): Promise<string> => {
    const into = newFolder()
    const { exitCode, stderr } = await restore(path, into, '--key', join(data.path, 'master.key'))
    expect(exitCode).toBe(1)
    expect(existsSync(into)).toBe(false)
    return stderr
  }

  // Proves: storage-13
  test('with one changed byte, or without one of its files, is named with the file, by verification and restore', async () => {
    const { path } = await backUp(newFolder())
    for (const [file, damage] of listFiles(path).flatMap(
      (name) =>
        [
          [name, flipByte],
          [name, rmSync],
        ] as const,
    )) {
      const copy = newFolder()
      cpSync(path, copy, { recursive: true })
      damage(join(copy, file))
      expect(await verify(copy)).toEqual({ exitCode: 1, text: expect.stringContaining(file) })
      expect(await refusal(copy)).toContain(file)
    }
  })

  test('with another manifest, of another version or with paths elsewhere, is refused', async () => {
    const { path } = await backUp(newFolder())
    const manifest = parseManifest(readFileSync(join(path, 'manifest.json'), 'utf8'), 'x')
    const rewrite = (changes: Partial<Manifest>): string => {
      const copy = newFolder()
      cpSync(path, copy, { recursive: true })
      writeFileSync(join(copy, 'manifest.json'), formatManifest({ ...manifest, ...changes }))
      return copy
    }
    const newer = rewrite({ schema: [...manifest.schema, { name: '9999_later', sha256: '' }], tassis: '9.0.0 (abc)' })
    expect(await refusal(newer)).toContain('is of Tassis 9.0.0 (abc). A newer version of Tassis wrote the database')
    // As versions before the first release wrote it.
    const unreleased = rewrite({ schema: ['0000_initial'] as never, tassis: '0.0.1 (abc)' })
    expect(await refusal(unreleased)).toContain('is of Tassis 0.0.1 (abc). A version from before the first release')
    const nextFormat = rewrite({ format: 2, tassis: '9.0.0 (abc)' })
    expect(await refusal(nextFormat)).toContain('was written by Tassis 9.0.0 (abc), in a newer format')
    const escaping = rewrite({ files: [{ path: '../evil', size: 0, sha256: '' }] })
    expect(await refusal(escaping)).toContain('is damaged: manifest.json')
    expect(() => parseManifest('null', 'x')).toThrow(BackupError)
  })
})

describe('a restore is refused', () => {
  let path: string
  beforeAll(async () => {
    ;({ path } = await backUp(newFolder()))
  })
  const masterKey = () => join(data.path, 'master.key')

  test('without the key and with another key, and takes the key from where it is', async () => {
    expect((await restore(path, newFolder())).stderr).toMatch(
      / holds no master key, and needs the master key [0-9a-f]{12}; name its file with --key, /,
    )
    const other = join(root, 'other.key')
    writeFileSync(other, Buffer.alloc(32, 1).toString('base64'))
    expect((await restore(path, newFolder(), '--key', other)).stderr).toContain('is not the master key of tassis-')
    writeFileSync(join(root, 'bad.key'), 'short')
    expect((await restore(path, newFolder(), '--key', join(root, 'bad.key'))).stderr).toContain('32 bytes in base64')
    expect((await restore(path, newFolder(), '--key', '/nowhere')).stderr).toContain('cannot be read (ENOENT)')

    const into = newFolder()
    mkdirSync(into)
    cpSync(masterKey(), join(into, 'master.key'))
    expect((await restore(path, into)).exitCode).toBe(0)
    const configured = await runTassis(['restore', path, '--into', newFolder()], {
      ...data.settings,
      TASSIS_MASTER_KEY_FILE: masterKey(),
    })
    expect(configured.exitCode).toBe(0)
  })

  // Proves: storage-14
  test('over a running service, over other data, and while another restore runs', async () => {
    const running = await runTassis(['restore', path, '--key', masterKey()], data.settings)
    expect(running).toMatchObject({ exitCode: 1 })
    expect(running.stderr).toContain('is the data directory of a service, which may run')
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200)

    const taken = newFolder()
    mkdirSync(taken)
    writeFileSync(join(taken, 'something'), '')
    expect((await restore(path, taken, '--key', masterKey())).stderr).toContain('is not empty (it has something)')
    expect(readdirSync(taken)).toEqual(['something'])

    const both = newFolder()
    const again = ['restore', path, '--into', both, '--key', masterKey()]
    const results = await Promise.all([1, 2].map(() => runTassisProcess(again, data.settings)))
    expect(results.map(({ exitCode }) => exitCode).sort()).toEqual([0, 1])
    expect(results.map(({ stderr }) => stderr).join('')).toMatch(/another restore uses|is not empty/)
    expect((await runTassis(['check'], { ...data.settings, TASSIS_DATA_DIR: both })).exitCode).toBe(0)
  })

  test('for a folder of backups, which it lists, and for what is no backup', async () => {
    expect((await restore(join(path, '..'), newFolder())).stderr).toContain(`The newest is ${path}`)
    expect((await restore(data.path, newFolder())).stderr).toContain('is not a backup: it has no manifest.json')
    expect((await restore(masterKey(), newFolder())).stderr).toContain('is not a backup')
    expect((await restore('/nowhere', newFolder())).stderr).toBe('tassis: There is no backup at /nowhere.\n')
  })

  // Proves: storage-14
  test('of one that was interrupted, no service starts, and the next restore completes it', async () => {
    const into = newFolder()
    mkdirSync(join(into, 'content'), { recursive: true })
    writeFileSync(join(into, 'restore-in-progress'), '')
    writeFileSync(join(into, 'tassis.db.restoring'), 'half')
    const { config } = loadConfig({ ...data.settings, TASSIS_DATA_DIR: into })
    expect(startService(config)).rejects.toThrow('run `tassis restore` again')
    expect((await runTassis(['queue'], { ...data.settings, TASSIS_DATA_DIR: into })).stderr).toContain(
      'was interrupted',
    )
    expect((await restore(path, into, '--key', masterKey())).exitCode).toBe(0)
    expect((await runTassis(['check'], { ...data.settings, TASSIS_DATA_DIR: into })).exitCode).toBe(0)
  })
})

test('a backup that was written while secrets were sealed again needs the former key too, and says which', async () => {
  using stopped = createDataFolder()
  await setUpAccount(stopped.settings)
  const path = join(stopped.path, 'master.key')
  const old = readFileSync(path, 'utf8')
  const newest = `${Buffer.alloc(32, 5).toString('base64')}\n`
  // The moment after a start with a key that was put in by hand.
  writeFileSync(path, `${newest}${old}`)
  await withApp({ ...stopped.settings, TASSIS_LOG_LEVEL: 'silent' }, () => {})
  const [newestKey = '', formerKey = ''] =
    parseMasterKeys(`${newest}${old}`)?.map((each) => new KeyRing([each]).fingerprint().slice(0, 12)) ?? []

  const folder = newFolder()
  const written = await runTassis(['backup', folder], stopped.settings)
  expect(written.stdout).toContain(`\n  without the master keys ${newestKey}, ${formerKey}: keep a copy apart`)
  const backup = join(folder, readdirSync(folder)[0] ?? '')
  const verified = await runTassis(['backup', '--verify', backup], stopped.settings)
  expect(verified.exitCode).toBe(0)
  expect(verified.stdout).toMatch(new RegExp(`Master keys: +${newestKey}.*, ${formerKey}`))

  const into = newFolder()
  writeFileSync(join(root, 'newest.key'), newest)
  const refused = await restore(backup, into, '--key', join(root, 'newest.key'))
  expect([refused.exitCode, existsSync(into)]).toEqual([1, false])
  expect(refused.stderr).toContain(
    `lacks the former master key ${formerKey}: ${basename(backup)} was written while secrets were being sealed again`,
  )
  // The key of before the rotation is not enough either.
  writeFileSync(join(root, 'old.key'), old)
  const older = await restore(backup, into, '--key', join(root, 'old.key'))
  expect(older.stderr).toContain(`needs the master keys ${newestKey}, ${formerKey}; use the key file of that service.`)
  expect((await restore(backup, into, '--key', path)).exitCode).toBe(0)

  // A backup that would hold too few keys is not written.
  const short = { dataDir: stopped.path, folder: newFolder(), hostname: 'x', masterKey: newest }
  await expect(createBackup(short, systemClock)).rejects.toThrow(`lacks the master key ${formerKey}`)
  // The key file here may hold fewer keys than the backup needs.
  writeFileSync(path, newest)
  const warned = await runTassis(['backup', '--verify', backup], stopped.settings)
  expect(warned.exitCode).toBe(0)
  expect(warned.stdout).toMatch(new RegExp(`Missing master keys: +${formerKey}`))
  writeFileSync(path, `${newest}${old}`)
  // Nor does one need the former key once everything is sealed again.
  await runTassis(['keys', 'rotate-master'], stopped.settings)
  const { master_keys: masterKeys } = await runTassisJson<{ master_keys: string[] }>(
    ['backup', newFolder()],
    stopped.settings,
  )
  expect(masterKeys.map((each) => each.slice(0, 12))).toEqual([newestKey])
})

test('a disk that is full in the middle keeps nothing of the backup, and the service goes on', async () => {
  const disk = newFolder()
  mkdirSync(disk)
  // Room for the databases, which is checked before, but not for all files.
  const isMounted =
    Bun.which('mount') !== null && Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', disk]).success
  if (!isMounted) return
  try {
    mkdirSync(join(data.path, 'imports'), { recursive: true })
    writeFileSync(join(data.path, 'imports', 'large.csv'), Buffer.alloc(23 * 1024 * 1024, 1))
    const full = await runTassis(['backup', join(disk, 'backups')], data.settings)
    expect([full.exitCode, full.stderr]).toEqual([
      1,
      `tassis: The disk of ${disk}/backups is full; nothing of the backup was kept. Free space or use another disk.\n`,
    ])
    expect(readdirSync(join(disk, 'backups'))).toEqual([])
    writeFileSync(join(disk, 'filler'), Buffer.alloc(12 * 1024 * 1024))
    expect((await runTassis(['backup', disk], data.settings)).stderr).toContain('the databases alone need')
    rmSync(join(data.path, 'imports'), { recursive: true })
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200)
  } finally {
    Bun.spawnSync(['umount', '-l', disk])
  }
})
