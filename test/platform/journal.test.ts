/** Lines in systemd's journal: a process whose standard error is the stream that JOURNAL_STREAM names, here a file. */
import { expect, test } from 'bun:test'
import { mkdtempSync, openSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addPriority } from '#platform/log/log.ts'

const MAIN = join(import.meta.dir, '../../src/main.ts')
const LOG = join(import.meta.dir, '../../src/platform/log/log.ts')

/**
 * Returns what a process writes to standard error.
 * @param isJournal whether standard error is the stream that the variable names
 */
function errorsOf(args: readonly string[], isJournal: boolean): string {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-journal-'))
  try {
    const path = join(folder, 'stream')
    const fd = openSync(path, 'w')
    const { dev, ino } = statSync(path)
    Bun.spawnSync([process.execPath, ...args], {
      env: {
        PATH: process.env['PATH'] ?? '',
        JOURNAL_STREAM: `${dev}:${isJournal ? ino : ino + 1}`,
        TASSIS_WORKERS: 'x',
      },
      stderr: fd,
      stdout: 'ignore',
    })
    return readFileSync(path, 'utf8')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const WRITES = `const { createLog } = await import(${JSON.stringify(LOG)}); const log = createLog('trace')
for (const level of ['fatal', 'error', 'warn', 'info', 'debug']) log[level](level)`

const priorities = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [, priority = '', json = ''] = /^(<\d>)?(\{.*\})$/.exec(line) ?? []
      return [priority, (JSON.parse(json) as { level: string }).level]
    })

test('log lines have the priority of their level when standard error is the journal, otherwise none', () => {
  expect(priorities(errorsOf(['-e', WRITES], true))).toEqual([
    ['<2>', 'fatal'],
    ['<3>', 'error'],
    ['<4>', 'warn'],
    ['', 'info'],
    ['<7>', 'debug'],
  ])
  expect(priorities(errorsOf(['-e', WRITES], false)).map(([priority]) => priority)).toEqual(Array(5).fill(''))
})

test('the error of a service that cannot start is a line of the log, and an error in the journal', () => {
  for (const isRead of [true, false]) {
    const text = errorsOf([MAIN, 'serve'], isRead)
    expect(priorities(text)).toEqual([[isRead ? '<3>' : '', 'error']])
    expect(text).toContain('"msg":"tassis: TASSIS_WORKERS is \\"x\\"')
  }
  expect(errorsOf([MAIN, 'queue'], false)).toStartWith('tassis: TASSIS_WORKERS is "x"')
})

test('each line of a text gets the priority', () => {
  expect(addPriority('error', 'Error: no\n    at once\n\nend\n')).toBe('<3>Error: no\n<3>    at once\n\n<3>end\n')
})
