/** @module Backups in S3-compatible storage, and scheduled backups. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BackupError } from '#app/backup/errors.ts'
import { compareFiles } from '#app/backup/manifest.ts'
import { S3Backups } from '#app/backup/s3.ts'
import { CommandError } from '#app/cli/options.ts'
import { parseS3Url } from '#platform/settings/s3-url.ts'
import { MiB } from '#platform/units.ts'
import { type S3Stub, startS3Stub } from '#test/support/s3-stub.ts'
import { createDataFolder, type DataFolder, runTassis, runTassisJson, type Settings, setUpAccount } from '../process.ts'

setDefaultTimeout(300_000)

let data: DataFolder
let storage: S3Stub
let settings: Settings
const root = mkdtempSync(join(tmpdir(), 'tassis-s3-'))

beforeAll(async () => {
  data = createDataFolder()
  await setUpAccount(data.settings)
  // Large enough to be sent in parts.
  mkdirSync(join(data.path, 'imports'))
  writeFileSync(join(data.path, 'imports', 'large.csv'), Buffer.alloc(20 * MiB, 'a,b\n'))
})
beforeEach(() => {
  storage = startS3Stub()
  settings = {
    ...data.settings,
    TASSIS_BACKUP_S3_URL: `${storage.url}/${storage.bucket}/mail/one`,
    TASSIS_BACKUP_S3_ACCESS_KEY_ID: storage.accessKeyId,
    TASSIS_BACKUP_S3_SECRET_ACCESS_KEY: storage.secretAccessKey,
    TASSIS_BACKUP_KEEP: '2',
  }
  return () => storage[Symbol.asyncDispose]()
})
afterAll(() => {
  data[Symbol.dispose]()
  rmSync(root, { recursive: true, force: true })
})

interface Report {
  readonly path: string
  readonly sent_bytes: number
  readonly total_bytes: number
  readonly removed: readonly string[]
}

const backUp = (): Promise<Report> => runTassisJson<Report>(['backup'], settings)

const keysBelow = (start: string): string[] => [...storage.objects.keys()].filter((key) => key.startsWith(start)).sort()

test('a backup in the storage can be verified and restored, and no copy of it stays here', async () => {
  const { path, sent_bytes: sentBytes, total_bytes: totalBytes } = await backUp()
  expect(path).toMatch(/^s3:tassis-\d{8}T\d{6}Z$/)
  expect(sentBytes).toBeGreaterThan(1_000_000)
  expect(sentBytes).toBeLessThanOrEqual(totalBytes)
  expect(readdirSync(join(data.path, 'backup-staging'))).toEqual([])
  expect((await runTassis(['backup', '--list'], settings)).stdout).toBe(`${path}\n`)
  expect(await runTassisJson(['backup', '--list'], settings)).toEqual({ data: [path] })
  expect((await runTassis(['backup', '--verify', path], settings)).exitCode).toBe(0)
  const into = join(root, 'restored')
  const key = join(data.path, 'master.key')
  expect(await runTassis(['restore', path, '--into', into, '--key', key], settings)).toMatchObject({ exitCode: 0 })
  expect((await runTassis(['check'], { ...settings, TASSIS_DATA_DIR: into })).exitCode).toBe(0)
})

test('files that are there are not sent again, and go with the last backup that holds them', async () => {
  await backUp()
  const second = await backUp()
  expect(second.sent_bytes).toBeLessThan(second.total_bytes)
  const third = await backUp()
  expect(third.removed).toHaveLength(1)
  expect(keysBelow('mail/one/tassis-')).toHaveLength(2)
  const held = new Set<string>()
  for (const key of keysBelow('mail/one/tassis-')) {
    const manifest = JSON.parse(Buffer.from(storage.objects.get(key) ?? []).toString()) as {
      files: { sha256: string }[]
    }
    for (const { sha256 } of manifest.files) held.add(`mail/one/files/${sha256}`)
  }
  expect(keysBelow('mail/one/files/')).toEqual([...held].sort())
  expect((await runTassis(['backup', '--verify', third.path], settings)).exitCode).toBe(0)
})

test('a changed and a missing object are named', async () => {
  const { path } = await backUp()
  const [, manifest] = [...storage.objects].find(([key]) => key.endsWith('manifest.json')) ?? []
  const { files } = JSON.parse(Buffer.from(manifest ?? []).toString()) as { files: { path: string; sha256: string }[] }
  const main = files.find((file) => file.path === 'tassis.db')
  const bytes = storage.objects.get(`mail/one/files/${main?.sha256}`)
  if (bytes) bytes[5000] = (bytes[5000] ?? 0) ^ 1
  const changed = await runTassis(['backup', '--verify', path], settings)
  expect([changed.exitCode, changed.stdout]).toEqual([1, expect.stringContaining('tassis.db is not as it was written')])
  const into = join(root, 'damaged')
  const restored = await runTassis(['restore', path, '--into', into, '--key', join(data.path, 'master.key')], settings)
  expect([restored.exitCode, restored.stderr]).toEqual([1, expect.stringContaining('is damaged: tassis.db')])
  storage.objects.delete(`mail/one/files/${main?.sha256}`)
  expect((await runTassis(['backup', '--verify', path], settings)).stdout).toContain('tassis.db is missing')
})

test('failures say what to do, and never show the secret', async () => {
  const failure = async (more: Settings): Promise<string> => {
    const { exitCode, stdout, stderr } = await runTassis(['backup'], { ...settings, ...more })
    expect(exitCode).toBe(1)
    expect(stdout + stderr).not.toContain(more['TASSIS_BACKUP_S3_SECRET_ACCESS_KEY'] ?? storage.secretAccessKey)
    expect(readdirSync(join(data.path, 'backup-staging'))).toEqual([])
    return stderr
  }
  expect(await failure({ TASSIS_BACKUP_S3_SECRET_ACCESS_KEY: 'wrong' })).toContain('correct the access key')
  expect(await failure({ TASSIS_BACKUP_S3_ACCESS_KEY_ID: 'wrong' })).toContain('correct the access key')
  expect(await failure({ TASSIS_BACKUP_S3_URL: `${storage.url}/nowhere` })).toContain('create the bucket')
  expect(await failure({ TASSIS_BACKUP_S3_URL: 'http://127.0.0.1:9/bucket' })).toContain('check TASSIS_BACKUP_S3_URL')
  storage.failure = 500
  expect(await failure({})).toContain('failed (InternalError')
  Object.assign(storage, { failure: 403, failureCode: 'RequestTimeTooSkewed' })
  expect(await failure({})).toContain('; the clock of this machine differs by more than 15 minutes')
  Object.assign(storage, { failure: undefined, failureCode: 'InternalError' })
  const incomplete = await runTassis(['backup'], { ...settings, TASSIS_BACKUP_S3_ACCESS_KEY_ID: '' })
  expect(incomplete.stderr).toContain('set TASSIS_BACKUP_S3_ACCESS_KEY_ID')
  expect((await runTassis(['restore', 's3:tassis-1'], settings)).stderr).toContain('holds no backup')
  expect((await runTassis(['config'], settings)).stdout).not.toContain(storage.secretAccessKey)
  expect((await runTassis(['backup'], data.settings)).stderr).toContain('No place for backups is set')
})

test('a restore says that the storage failed in the middle, and not that the backup is damaged', async () => {
  const { path } = await runTassisJson<{ path: string }>(['backup'], settings)
  const reader = await new S3Backups({
    endpoint: storage.url,
    bucket: storage.bucket,
    prefix: 'mail/one',
    region: 'us-east-1',
    accessKeyId: storage.accessKeyId,
    secretAccessKey: storage.secretAccessKey,
  }).open(path.slice('s3:'.length))
  storage.failure = 500
  const error = await compareFiles(reader).catch((thrown: unknown) => thrown)
  expect(error).not.toBeInstanceOf(BackupError)
  expect(error).toBeInstanceOf(CommandError)
  expect(String(error)).toContain(`The storage ${storage.url}/${storage.bucket}/mail/one failed (InternalError`)
})

test.each([
  ['https://s3.test/b', { endpoint: 'https://s3.test', bucket: 'b', prefix: 'tassis', region: 'us-east-1' }],
  ['http://h:9/b/x/y?region=eu-1', { endpoint: 'http://h:9', bucket: 'b', prefix: 'x/y', region: 'eu-1' }],
  ['https://s3.test', undefined],
  ['https://user:secret@s3.test/b', undefined],
  ['https://s3.test/b/', undefined],
])('the place %p is parsed', (url, place) => expect(parseS3Url(url)).toEqual(place))
