import { describe, expect, test } from 'bun:test'
import { toMailboxKey } from '#protocols/address/parse.ts'

describe('the key of a mailbox', () => {
  test.each([
    ['ada@reader.test', 'ada@reader.test'],
    ['ada+news@reader.test', 'ada@reader.test'],
    ['ada+news+more@reader.test', 'ada@reader.test'],
    // Without what follows the plus, the local part would be empty, and these are different mailboxes.
    ['+ada@reader.test', '+ada@reader.test'],
    ['a.d.a@reader.test', 'a.d.a@reader.test'],
    ['a.d.a@gmail.com', 'ada@gmail.com'],
    ['a.d.a+news@googlemail.com', 'ada@gmail.com'],
    ['ada@mail.gmail.com', 'ada@mail.gmail.com'],
  ])('of %s is %s', (address, key) => {
    expect(toMailboxKey(address)).toBe(key)
  })
})
