import { expect, setDefaultTimeout, test } from 'bun:test'
import { chmodSync, cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startService } from '#app/service.ts'
import { loadConfig } from '#app/settings.ts'
import { findContentProblem } from '#features/sending/delivery/verdict/held-mail.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { describeOwner } from '#platform/disk/data-owner.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { eventually } from '#test/support/app.ts'
import {
  createClient,
  createDataFolder,
  type DataFolder,
  runTassis,
  type Settings,
  setUpAccount,
  startServing,
} from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

const RESTORE = 'stop Tassis and restore the data directory from its backup'
const DELETE = 'stop Tassis and delete this file, which holds only captured mail'

test.each([
  ['serve', 'tassis.db', 'is not a database', RESTORE],
  ['check', 'tassis.db', 'is not a database', RESTORE],
  ['serve', 'capture.db', 'is not a database', DELETE],
  // The SQLite header stays intact, so SQLite accepts the file as a database.
  ['serve', 'tassis.db', 'is corrupt', RESTORE],
  ['check', 'tassis.db', 'is corrupt', RESTORE],
])('%s with a %s that %s exits with 2, names the file and says what to do', async (command, name, fault, remedy) => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const path = join(data.path, name)
  writeFileSync(path, fault === 'is corrupt' ? (await Bun.file(path).bytes()).fill(0xff, 100) : 'junk\n')
  expect(await runTassis([command], data.settings)).toEqual({
    exitCode: 2,
    stdout: '',
    stderr: `tassis: The file ${path} ${fault}; ${remedy}.\n`,
  })
})

/** Corrupts at most `most` pages after the first one of a database, each in a separate copy of the data. */
async function forEachCorruptPage(
  data: DataFolder,
  name: string,
  most: number,
  use: (settings: Settings, path: string) => Promise<void>,
): Promise<void> {
  const bytes = readFileSync(join(data.path, name))
  const pageBytes = bytes.readUInt16BE(16)
  const pages = bytes.length / pageBytes
  const step = Math.ceil(pages / most)
  for (let page = 1; page < pages; page += step) {
    using copy = createDataFolder()
    cpSync(data.path, copy.path, { recursive: true })
    const path = join(copy.path, name)
    writeFileSync(path, Buffer.from(bytes).fill(0xff, page * pageBytes, (page + 1) * pageBytes))
    await use({ ...copy.settings, TASSIS_LOG_LEVEL: 'silent' }, path)
  }
}

// Proves: storage-8
test('check reports a corrupt tassis.db and the remedy for every corrupt page', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const ends = new Set<string>()
  await forEachCorruptPage(data, 'tassis.db', 10, async (settings, path) => {
    const { exitCode, stdout, stderr } = await runTassis(['check'], settings)
    const output = stderr === '' ? stdout : stderr
    expect(output).toContain('is corrupt; stop Tassis and restore the data directory from its backup')
    expect([exitCode, stderr]).toEqual(
      exitCode === 2
        ? [2, `tassis: The file ${path} is corrupt; stop Tassis and restore the data directory from its backup.\n`]
        : [1, ''],
    )
    ends.add(String(exitCode))
  })
  expect([...ends].toSorted()).toEqual(['1', '2'])
})

// Proves: storage-8
test.each([
  ['tassis.db', RESTORE],
  ['capture.db', DELETE],
])('a start with any one corrupt page of %s reports it or serves', async (name, remedy) => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  let refused = 0
  await forEachCorruptPage(data, name, 24, async (settings, path) => {
    try {
      const service = await startService(loadConfig({ ...settings }).config)
      await service.stop()
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError)
      expect(error).toMatchObject({ message: `The file ${path} is corrupt; ${remedy}.` })
      refused++
    }
  })
  expect(refused).toBeGreaterThan(0)
})

// Proves: storage-8
test('check names the emails whose content is in a corrupt or missing file of the content store', async () => {
  using data = createDataFolder()
  const { key } = await setUpAccount(data.settings)
  const service = await startService(loadConfig({ ...data.settings }).config)
  const mail = { from: 'a@sender.test', to: 'b@receiver.test', subject: 'x', text_body: 'Hello.' }
  const { data: email } = (await createClient(service.url, key)('POST', '/v1/emails', mail)).body
  await service.stop()
  const folder = join(data.path, 'content')
  const [month] = readdirSync(folder).filter((name) => /^\d{4}-\d{2}\.db$/.test(name))
  const path = join(folder, month ?? '')
  writeFileSync(path, 'junk\n')
  const { exitCode, stdout, stderr } = await runTassis(['check'], data.settings)
  expect([exitCode, stderr]).toEqual([1, ''])
  expect(stdout).toContain(`email ${email.id} refers to blob 1 of`)
  expect(stdout).toContain(
    `The file ${path} is not a database; stop Tassis and restore the data directory from its backup.`,
  )
})

// Proves: storage-6, storage-8
test('content whose write-ahead log was lost is a 410 and named by check, not an internal error', async () => {
  using data = createDataFolder()
  const { key } = await setUpAccount(data.settings)
  const ask = async (url: string, method: string, path: string, body?: unknown) => {
    const { status, body: answer } = await createClient(url, key)(method, `/v1/emails${path}`, body)
    return { status, id: answer.data?.id, content: answer.data?.content, code: answer.code }
  }
  using copy = createDataFolder()
  let id: string | undefined
  const expectMissing = async (url: string) => {
    expect(await ask(url, 'GET', `/${id}`)).toMatchObject({ status: 200, content: 'missing' })
    expect((await ask(url, 'POST', `/${id}/cancel`)).status).toBe(200)
    expect(await ask(url, 'POST', `/${id}/resend`, {})).toMatchObject({ status: 410, code: 'content_missing' })
  }
  {
    await using service = await startServing({ ...data.settings, TASSIS_LOG_LEVEL: 'silent' })
    const sendAt = new Date(Date.now() + 3_600_000).toISOString()
    const email = { from: 'a@sender.test', to: 'b@receiver.test', subject: 'x', text_body: 'Hello.', send_at: sendAt }
    id = (await ask(service.url, 'POST', '', email)).id
    // As after a death of the process, but without the log of the content.
    cpSync(data.path, copy.path, {
      recursive: true,
      filter: (path) => !/content\/[^/]*-(?:wal|shm)$/.test(path) && !/(?:admin\.sock|lock)$/.test(path),
    })
    // While the service runs, only the connection that writes still has the log.
    for (const name of readdirSync(join(data.path, 'content')).filter((each) => each.endsWith('-wal')))
      rmSync(join(data.path, 'content', name))
    await ask(service.url, 'POST', '', { ...email, send_at: undefined })
    using main = openReadOnly(join(data.path, 'tassis.db'), 0)
    await eventually(() => findContentProblem(main) !== undefined)
    await expectMissing(service.url)
  }
  {
    await using service = await startServing({ ...copy.settings, TASSIS_LOG_LEVEL: 'silent' })
    await expectMissing(service.url)
  }
  const { exitCode, stdout } = await runTassis(['check'], copy.settings)
  expect([exitCode, stdout]).toEqual([1, expect.stringContaining(`email ${id} refers to blob 1 of`)])
})

test.skipIf(process.getuid?.() === 0)('data that this user may not read is not reported as missing', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  chmodSync(data.path, 0)
  const { exitCode, stderr } = await runTassis(['queue'], data.settings)
  chmodSync(data.path, 0o700)
  expect({ exitCode, stderr }).toEqual({
    exitCode: 2,
    stderr: `tassis: ${describeOwner(data.path).replace('user', 'User')} may not use ${data.path}, which belongs to ${describeOwner(data.path)}; allow it: \`chmod -R u+rwX ${data.path}\`.\n`,
  })
})

test('describeOwner names the owner of a path, or of its parent folder if the path does not exist', () => {
  expect(describeOwner('/')).toBe('user root')
  expect(describeOwner('/not/there')).toBe('user root')
})
