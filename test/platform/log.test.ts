import { describe, expect, test } from 'bun:test'
import { AppError } from '#platform/errors.ts'
import { createLog, redactAddresses } from '#platform/log/log.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const written = (write: (log: ReturnType<typeof createLog>) => void, level = 'info'): string => {
  let lines = ''
  const log = createLog(level, {
    write(line) {
      lines += line
    },
  })
  write(log)
  return lines
}

test('addresses are redacted everywhere: in message, fields, nested objects and errors', () => {
  const lines = written((log) => {
    log.info({ to: 'ada.lovelace@example.com', nested: { list: ['bob@example.net'] } }, 'sent to carol@example.org')
    log.error({ err: new Error('550 5.1.1 <dan+tag@sub.example.com> unknown') }, 'refused')
  })
  for (const local of ['ada.lovelace', 'bob', 'carol', 'dan+tag']) expect(lines).not.toContain(`${local}@`)
  for (const kept of ['a***@example.com', 'b***@example.net', 'c***@example.org', 'd***@sub.example.com'])
    expect(lines).toContain(kept)
})

test('addresses with non-ASCII characters are redacted too', () => {
  expect(redactAddresses('jörg@bücher.example and 用户@例子.测试')).toBe('j***@bücher.example and 用***@例子.测试')
})

test('a line is one JSON object with time and level, and lower levels are omitted', () => {
  const line = JSON.parse(
    written((log) => {
      log.debug('not this')
      log.warn({ count: 2 }, 'this')
    }),
  ) as Record<string, unknown>
  expect(line).toEqual({ level: 'warn', time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/), count: 2, msg: 'this' })
})

test('an error that was made for its reader has no stack, unless another caused it', () => {
  const errorOf = (err: Error) => JSON.parse(written((log) => log.error({ err }, 'not stored'))).err
  const error = new AppError(503, 'storage_failed', 'Try again in some seconds.')
  expect(errorOf(error)).toEqual({ code: 'storage_failed', message: 'Try again in some seconds.' })
  const caused = new AppError(503, 'storage_failed', 'Try again.', { cause: new Error('EIO: i/o error') })
  expect(errorOf(caused).stack).toContain('EIO: i/o error')
  expect(errorOf(new TypeError('a bug')).stack).toContain('log.test.ts')
})

describe('repeated errors and warnings', () => {
  const start = () => {
    const clock = new ManualClock()
    const lines: { level: string; msg: string; leftOut?: number; n?: number }[] = []
    const log = createLog('info', { write: (line) => void lines.push(JSON.parse(line)) }, clock)
    return { clock, lines, log }
  }
  const messages = ({ lines }: ReturnType<typeof start>) => lines.map(({ msg }) => msg)

  test('are written five times in a second, and counted before the next one', () => {
    const run = start()
    const { clock, lines, log } = run
    for (let n = 0; n < 100; n++) log.error({ n }, 'the disk failed')
    expect(messages(run)).toEqual(Array(5).fill('the disk failed'))
    clock.advance(1000)
    log.error({ n: 100 }, 'the disk failed')
    expect(lines.slice(5)).toMatchObject([
      { level: 'error', leftOut: 95, msg: '95 lines like the next one were suppressed' },
      { n: 100 },
    ])
  })

  test('do not suppress lines of other kinds, and lines below warning level are never suppressed', () => {
    const run = start()
    const { lines, log } = run
    for (let n = 0; n < 20; n++) {
      log.warn('slow')
      log.error('slow')
      log.error(new Error('another'))
      log.info('told')
    }
    const counts = Map.groupBy(lines, ({ level, msg }) => `${level} ${msg}`)
    expect(Object.fromEntries([...counts].map(([kind, all]) => [kind, all.length]))).toEqual({
      'warn slow': 5,
      'error slow': 5,
      'error another': 5,
      'info told': 20,
    })
  })
})
