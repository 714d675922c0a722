/** @module Mount points whose disk is missing, as /etc/fstab names them. */
import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createFolder, findUnmounted } from '#app/backup/files.ts'

const root = realpathSync(mkdtempSync(join(tmpdir(), 'tassis-mounts-')))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const [disk, plain, spaced] = ['disk', 'plain', 'a disk'].map((name) => join(root, name)) as [string, string, string]
const slashed = join(root, 'slashed')
for (const folder of [disk, plain, spaced, slashed]) mkdirSync(folder)
mkdirSync(join(disk, 'within'))
symlinkSync(join(disk, 'within'), join(root, 'link'))
const fstab = join(root, 'fstab')
writeFileSync(
  fstab,
  [
    '# UUID=1 /commented ext4 defaults 0 2',
    `#UUID=3 ${plain} ext4 defaults 0 2`,
    `UUID=2\t${disk} ext4 defaults,nofail 0 2`,
    `/dev/sdb1 ${spaced.replaceAll(' ', '\\040')} ext4 defaults 0 2`,
    `/srv ${join(root, 'bound')} none defaults,bind 0 0`,
    `UUID=5 ${slashed}/ ext4 defaults 0 2`,
    'proc /proc proc defaults 0 0',
    'UUID=4 none swap sw 0 0',
    '',
  ].join('\n'),
)

test.each([
  ['a mount point of fstab without its disk', disk, disk],
  ['a folder below it', join(disk, 'mail', 'backups'), disk],
  ['a link to a folder below it', join(root, 'link', 'x'), disk],
  ['a mount point with a blank in its name', join(spaced, 'x'), spaced],
  ['a mount point that fstab names with a slash at its end', join(slashed, 'x'), slashed],
  ['a bind mount, which may be on the same disk', join(root, 'bound'), undefined],
  ['a plain folder', join(plain, 'backups'), undefined],
  ['a mount point with its disk', '/proc/backups', undefined],
])('%s', (_, path, expected) => {
  expect(findUnmounted(path, fstab)).toBe(expected)
})

test('a folder for backups is not created on the wrong disk', async () => {
  const folder = join(disk, 'backups')
  await expect(createFolder(folder, fstab)).rejects.toThrow(
    `The disk of ${disk} is not mounted, so nothing was written. Mount it (\`mount ${disk}\`)`,
  )
  expect(existsSync(folder)).toBe(false)
})
