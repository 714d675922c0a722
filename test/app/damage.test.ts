import { expect, test } from 'bun:test'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { whoOwns } from '#app/cli/owner.ts'
import { dataFolder, setUp, tassis } from './process.ts'

test.each([
  ['serve', 'tassis.db', 'stop Tassis and put the data directory back from its backup'],
  ['check', 'tassis.db', 'stop Tassis and put the data directory back from its backup'],
  ['serve', 'capture.db', 'stop Tassis and delete this file, which holds only captured mail'],
])(
  '%s with a %s that is no database exits with 2, names the file and says what to do',
  async (command, name, remedy) => {
    using data = dataFolder()
    await setUp(data.settings)
    const path = join(data.path, name)
    writeFileSync(path, 'junk\n')
    expect(await tassis([command], data.settings)).toEqual({
      exitCode: 2,
      stdout: '',
      stderr: `tassis: The file ${path} is not a database; ${remedy}.\n`,
    })
  },
)

test.each(['serve', 'check'])(
  '%s with a tassis.db whose pages are overwritten says that it is damaged',
  async (command) => {
    using data = dataFolder()
    await setUp(data.settings)
    const path = join(data.path, 'tassis.db')
    const file = Bun.file(path)
    const bytes = await file.bytes()
    // The header of SQLite stays, so that it takes it for its own.
    bytes.fill(0xff, 100)
    writeFileSync(path, bytes)
    const { exitCode, stderr } = await tassis([command], data.settings)
    expect({ exitCode, stderr }).toEqual({
      exitCode: 2,
      stderr: `tassis: The file ${path} is damaged; stop Tassis and put the data directory back from its backup.\n`,
    })
  },
)

test.skipIf(process.getuid?.() === 0)('data that this user may not read are not said to be missing', async () => {
  using data = dataFolder()
  await setUp(data.settings)
  chmodSync(data.path, 0)
  const { exitCode, stderr } = await tassis(['queue'], data.settings)
  chmodSync(data.path, 0o700)
  expect({ exitCode, stderr }).toEqual({
    exitCode: 2,
    stderr: `tassis: This user may not read the data in ${data.path}, which belongs to ${whoOwns(data.path)}; run the command as that user.\n`,
  })
})

test('the owner of a path is told by name, and of one that is not there that of the folder above', () => {
  expect(whoOwns('/')).toBe('user root')
  expect(whoOwns('/not/there')).toBe('user root')
})
