import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findInstalledData } from '#app/cli/installed-data.ts'

const root = mkdtempSync(join(tmpdir(), 'tassis-units-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const UNIT = readFileSync(join(import.meta.dir, '../../contrib/systemd/tassis.service'), 'utf8')
const withFile = (line: string) => UNIT.replace(/^Environment=TASSIS_DATA_DIR.*/m, line)

test.each([
  ['the unit of this project', { 'tassis.service': UNIT }, '/var/lib/tassis'],
  ['quotes', { 'tassis.service': withFile('Environment="A=b c" "TASSIS_DATA_DIR=/srv/my mail"') }, '/srv/my mail'],
  ['a value in quotes', { 'tassis.service': withFile("Environment=TASSIS_DATA_DIR='/srv/mail'") }, '/srv/mail'],
  ['a specifier', { 'tassis.service': withFile('Environment=TASSIS_DATA_DIR=%S/tassis') }, '/var/lib/tassis'],
  [
    'a file of variables',
    {
      'tassis.service': withFile('EnvironmentFile=-ROOT/env'),
      env: '# TASSIS_DATA_DIR=/old\nTASSIS_DATA_DIR="/srv/file"\n',
    },
    '/srv/file',
  ],
  [
    'a file of variables, and a file of settings',
    {
      'tassis.service': withFile('EnvironmentFile=ROOT/env'),
      env: 'TASSIS_CONFIG=ROOT/t.toml\n',
      't.toml': '# data_dir = "/old"\ndata_dir = "/srv/toml"\n',
    },
    '/srv/toml',
  ],
  [
    'a drop-in, which overrides the unit',
    { 'tassis.service': UNIT, 'tassis.service.d/override.conf': '[Service]\nEnvironment=TASSIS_DATA_DIR=/srv/moved\n' },
    '/srv/moved',
  ],
  ['another name of the unit', { 'tassis-mail.service': UNIT }, '/var/lib/tassis'],
  ['a comment', { 'tassis.service': withFile('#Environment=TASSIS_DATA_DIR=/old') }, undefined],
  ['no unit', { 'other.service': UNIT }, undefined],
])('%s', (name, files, dataDir) => {
  const folder = join(root, name.replaceAll(' ', '-'))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, path, '..'), { recursive: true })
    writeFileSync(join(folder, path), text.replaceAll('ROOT', folder))
  }
  expect(findInstalledData([join(folder, 'missing'), folder])?.dataDir).toBe(dataDir)
})
