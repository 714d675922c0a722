import { expect, test } from 'bun:test'
import { createLog, redactAddresses } from '#platform/log.ts'

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

test('addresses are shortened wherever they stand: message, fields, nested objects and errors', () => {
  const lines = written((log) => {
    log.info({ to: 'ada.lovelace@example.com', nested: { list: ['bob@example.net'] } }, 'sent to carol@example.org')
    log.error({ err: new Error('550 5.1.1 <dan+tag@sub.example.com> unknown') }, 'refused')
  })
  for (const local of ['ada.lovelace', 'bob', 'carol', 'dan+tag']) expect(lines).not.toContain(`${local}@`)
  for (const kept of ['a***@example.com', 'b***@example.net', 'c***@example.org', 'd***@sub.example.com'])
    expect(lines).toContain(kept)
})

test('addresses with characters beyond ASCII are shortened too', () => {
  expect(redactAddresses('jörg@bücher.example and 用户@例子.测试')).toBe('j***@bücher.example and 用***@例子.测试')
})

test('a line is one JSON object with time and level, and lower levels are left out', () => {
  const line = JSON.parse(
    written((log) => {
      log.debug('not this')
      log.warn({ count: 2 }, 'this')
    }),
  ) as Record<string, unknown>
  expect(line).toEqual({ level: 'warn', time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/), count: 2, msg: 'this' })
})
