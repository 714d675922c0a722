/** @module Tests of the Debian package, what it is made of, and how a release is published. */
import { expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'
import { formatBash, formatManPage, listWords } from '../../scripts/command-files.ts'
import { buildDeb, debName } from '../../scripts/deb.ts'
import { listCommands, readChanges } from '../../scripts/publish.ts'

const ROOT = join(import.meta.dir, '../..')
const UNIT = 'usr/lib/systemd/system/tassis.service'
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

function inFolder<T>(use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-deb-'))
  try {
    return use(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const dpkgDeb = (...args: string[]): string => Bun.spawnSync(['dpkg-deb', ...args]).stdout.toString()

test.skipIf(Bun.which('dpkg-deb') === null)('a package has the same bytes again, and what Debian expects', () =>
  inFolder((folder) => {
    const executable = join(folder, 'tassis')
    writeFileSync(executable, '#!/bin/sh\n')
    const build = (name: string): Uint8Array<ArrayBuffer> => {
      mkdirSync(join(folder, name))
      const inputs = { version: '1.2.0-rc.1', epoch: 1_774_000_000, architecture: 'arm64' }
      return buildDeb({ ...inputs, executable, licences: 'MIT' }, join(folder, name))
    }
    const content = build('one')
    expect(Buffer.compare(content, build('two'))).toBe(0)
    const deb = join(folder, 'tassis.deb')
    writeFileSync(deb, content)
    expect(dpkgDeb('--field', deb, 'Version', 'Architecture')).toBe('Version: 1.2.0~rc.1\nArchitecture: arm64\n')
    const lines = dpkgDeb('--contents', deb).trim().split('\n')
    expect(lines.filter((line) => !line.includes(' root/root ') || !line.includes(' 2026-03-20 '))).toEqual([])
    const modes = Object.fromEntries(
      lines.map((line) => [line.split(' ./').at(-1), line.slice(0, 10)]).filter(([path]) => !path?.endsWith('/')),
    )
    expect(modes).toMatchObject({
      'usr/bin/tassis': '-rwxr-xr-x',
      'usr/lib/tassis/tassis': '-rwxr-xr-x',
      [UNIT]: '-rw-r--r--',
      'usr/lib/sysusers.d/tassis.conf': '-rw-r--r--',
      'etc/tassis/tassis.toml': '-rw-r-----',
      'usr/share/man/man1/tassis.1.gz': '-rw-r--r--',
      'usr/share/doc/tassis/copyright': '-rw-r--r--',
    })
    expect(dpkgDeb('--info', deb, 'conffiles')).toBe('/etc/tassis/tassis.toml\n')
    // Nothing removes data.
    for (const script of ['postinst', 'prerm', 'postrm']) expect(dpkgDeb('--info', deb, script)).not.toMatch(/\brm\b/)
    const unit = Bun.spawnSync([
      'sh',
      '-c',
      'dpkg-deb --fsys-tarfile "$0" | tar -xO "./$1"',
      deb,
      UNIT,
    ]).stdout.toString()
    for (const line of ['ExecStart=/usr/lib/tassis/tassis serve', 'StateDirectory=tassis', 'User=tassis'])
      expect(unit).toContain(`\n${line}\n`)
    expect(unit.match(/^Environment=.*$/gm)).toEqual(['Environment=TASSIS_CONFIG=/etc/tassis/tassis.toml'])
    expect(debName({ version: '1.2.0-rc.1', architecture: 'arm64' })).toBe('tassis_1.2.0-rc.1_arm64.deb')
  }),
)

test('the program accepts the settings of the package, as they are and with each line in use', () =>
  inFolder((folder) => {
    const file = join(folder, 'tassis.toml')
    const settings = (text: string) => {
      writeFileSync(file, text)
      const { report } = loadConfig({ TASSIS_CONFIG: file })
      return Object.fromEntries(report.filter(({ source }) => source === 'file').map((row) => [row.tomlKey, row.value]))
    }
    const text = read('contrib/debian/tassis.toml')
    const shipped = { inbound_addr: '0.0.0.0:25', data_dir: '/var/lib/tassis', backup_dir: '/var/lib/tassis/backups' }
    expect(settings(text)).toEqual(shipped)
    expect(Object.keys(settings(text.replaceAll(/^#(?=\w+ = )/gm, ''))).sort()).toEqual(
      [
        ...Object.keys(shipped),
        ...['acme_terms_agreed', 'hostname', 'https_addr', 'operator_email', 'public_url', 'trusted_proxies'],
      ].sort(),
    )
    // As the unit and postinst look for it.
    expect(text).not.toMatch(/^hostname *=/m)
  }))

test('bash completes commands, choices and options', () =>
  inFolder((folder) => {
    const file = join(folder, 'tassis')
    writeFileSync(file, formatBash())
    const complete = (...words: string[]): string[] =>
      Bun.spawnSync([
        'bash',
        '-c',
        `. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tassis; echo "\${COMPREPLY[*]}"`,
        ...[file, 'tassis', ...words],
      ])
        .stdout.toString()
        .trim()
        .split(' ')
    expect(complete('us')).toEqual(['users'])
    expect(complete('users', 'rese')).toEqual(['reset'])
    expect(complete('users', 'create', 'ada@example.com', '--ro')).toEqual(['--role'])
    expect(complete('accounts', 'plan', 'Acme', 'ente')).toEqual(['enterprise'])
  }))

test('the man page has a section for each command', () => {
  const page = formatManPage('1.2.3', 1_774_000_000)
  const sections = page.match(/^\.SS .*$/gm) ?? []
  const paths = listWords().map(([path]) => path)
  const commands = paths.filter((path) => !paths.some((other) => other.startsWith(`${path} `)))
  expect(commands.length).toBeGreaterThan(60)
  const known = sections.map((line) => line.replaceAll('\\-', '-'))
  expect(commands.filter((path) => !known.some((line) => line.startsWith(`.SS "${path}`)))).toEqual([])
  expect(page.split('\n').filter((line) => /^\.(?!TH|SH|SS|TP|B |I |RI )/.test(line))).toEqual([])
})

test('the workflow runs scripts that exist and pins its actions', () => {
  const { permissions, jobs } = Bun.YAML.parse(read('.github/workflows/release.yml')) as {
    permissions: object
    jobs: { release: { permissions: Record<string, string>; steps: { uses?: string; run?: string }[] } }
  }
  const { steps } = jobs.release
  expect(permissions).toEqual({})
  expect(Object.keys(jobs.release.permissions)).toEqual(['contents', 'packages', 'id-token', 'attestations'])
  for (const { uses = '' } of steps.filter((step) => step.uses)) expect(uses).toMatch(/^[\w/-]+@[0-9a-f]{40}$/)
  const scripts = steps.flatMap(({ run = '' }) => run.match(/scripts\/[\w./-]+/g) ?? [])
  expect(scripts.filter((script) => !existsSync(join(ROOT, script)))).toEqual([])
  expect(scripts).toEqual(['scripts/runtimes/package.json', 'scripts/release', 'scripts/check-deb', 'scripts/publish'])
})

test('publishing pushes an image of each architecture and joins them, then npm, then the release', () =>
  inFolder((outdir) => {
    writeFileSync(join(outdir, 'SHA256SUMS'), '')
    const common = {
      repository: 'Acme/mail',
      outdir,
      epoch: 1,
      commit: 'abc',
      folder: '/x',
      isReleased: false,
      hasProvenance: false,
    }
    const commands = listCommands({ ...common, version: '1.2.3', hasNpmToken: true }, 'Changes').map((c) => c.join(' '))
    expect(commands.map((command) => command.split(' ').slice(0, 3).join(' '))).toEqual([
      ...['docker buildx build', 'docker buildx build', 'docker buildx imagetools'],
      ...[`npm publish ${outdir}/tassis-0.1.0.tgz`, 'gh release create'],
    ])
    expect(commands[1]).toContain('--platform linux/arm64 --push')
    expect(commands[2]).toEndWith(
      '--tag ghcr.io/acme/tassis:1.2.3 --tag ghcr.io/acme/tassis:latest ghcr.io/acme/tassis:1.2.3-amd64 ghcr.io/acme/tassis:1.2.3-arm64',
    )
    expect(commands[4]).toEndWith(`--notes Changes ${outdir}/SHA256SUMS`)
    const again = { ...common, isReleased: true, version: '1.2.3', hasNpmToken: false }
    expect(listCommands(again, '').at(-1)?.slice(0, 3)).toEqual(['gh', 'release', 'upload'])
    const early = listCommands({ ...common, version: '2.0.0-rc.1', hasNpmToken: false }, '').map((c) => c.join(' '))
    expect([early.length, early[2]?.includes('latest'), early[3]?.includes('--prerelease')]).toEqual([4, false, true])
  }))

test('a version without a section in the changelog is not released', () => {
  expect(readChanges('1.1.0', '# Changelog\n\n## 1.1.0\n\n- More\n\n## 1.0.0\n\n- First\n')).toBe('- More')
  expect(() => readChanges('1.1', '## 1.1.0\n')).toThrow('no section ## 1.1')
})
