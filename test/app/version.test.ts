/** @module Tests of `tassis version`. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatVersion, readSourceState, VERSION } from '#app/version.ts'
import { runTassis } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

test('the version of a source tree is the commit of the working copy and its date, with -dirty for changes, or unknown without git', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-version-'))
  try {
    const git = (...args: string[]) =>
      Bun.spawnSync(['git', '-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t.test', ...args], {
        // A day earlier in UTC than at the place of the committer.
        env: { ...process.env, GIT_COMMITTER_DATE: '2026-03-01T00:30:00+02:00' },
      }).stdout.toString()
    expect(readSourceState(folder)).toEqual({ commit: 'unknown', date: '' })
    git('init', '--quiet')
    writeFileSync(join(folder, 'a'), '1')
    git('add', 'a')
    git('commit', '--quiet', '--message', 'one')
    git('tag', 'a-tag')
    const commit = git('rev-parse', '--short=12', 'HEAD').trim()
    expect(commit).toMatch(/^[0-9a-f]{12}$/)
    expect(readSourceState(folder)).toEqual({ commit, date: '2026-02-28' })
    writeFileSync(join(folder, 'a'), '2')
    expect(readSourceState(folder)).toEqual({ commit: `${commit}-dirty`, date: '2026-02-28' })
    // Sources inside the repository of another project.
    mkdirSync(join(folder, 'vendored'))
    expect(readSourceState(join(folder, 'vendored')).commit).toBe('unknown')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('`tassis version` and `tassis --version` print version, commit and date', async () => {
  const stdout = `${formatVersion()}\n`
  expect(stdout).toMatch(/^\S+ \((unknown|[0-9a-f]{12,}(-dirty)?, \d{4}-\d\d-\d\d)\)\n$/)
  expect(stdout).toStartWith(`${VERSION} `)
  for (const args of [['version'], ['--version']])
    expect(await runTassis(args, {})).toEqual({ exitCode: 0, stdout, stderr: '' })
})
