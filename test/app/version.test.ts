/** @module Tests of `tassis version`. */
import { expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatVersion, readSourceCommit, VERSION } from '#app/version.ts'
import { runTassis } from './process.ts'

test('the version of a source tree is the commit of the working copy, with -dirty for changes, or unknown without git', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-version-'))
  try {
    const git = (...args: string[]) =>
      Bun.spawnSync(['git', '-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.test', ...args]).stdout.toString()
    expect(readSourceCommit(folder)).toBe('unknown')
    git('init', '--quiet')
    writeFileSync(join(folder, 'a'), '1')
    git('add', 'a')
    git('commit', '--quiet', '--message', 'one')
    git('tag', 'a-tag')
    const commit = git('rev-parse', '--short=12', 'HEAD').trim()
    expect(commit).toMatch(/^[0-9a-f]{12}$/)
    expect(readSourceCommit(folder)).toBe(commit)
    writeFileSync(join(folder, 'a'), '2')
    expect(readSourceCommit(folder)).toBe(`${commit}-dirty`)
    // Sources inside the repository of another project.
    mkdirSync(join(folder, 'vendored'))
    expect(readSourceCommit(join(folder, 'vendored'))).toBe('unknown')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('`tassis version` and `tassis --version` print version and commit', async () => {
  const stdout = `${formatVersion()}\n`
  expect(stdout).toMatch(/^\S+ \((unknown|[0-9a-f]{12,}(-dirty)?)\)\n$/)
  expect(stdout).toStartWith(`${VERSION} `)
  for (const args of [['version'], ['--version']])
    expect(await runTassis(args, {})).toEqual({ exitCode: 0, stdout, stderr: '' })
})
