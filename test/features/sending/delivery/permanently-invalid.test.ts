import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { BounceCategory } from '#features/sending/delivery/model/bounce-category.ts'
import { classifyReply } from '#features/sending/delivery/verdict/classify.ts'
import { isPermanentlyInvalid } from '#features/sending/delivery/verdict/permanently-invalid.ts'
import { parseReply } from '#test/corpus/replies/replies.ts'

type Phase = Parameters<typeof isPermanentlyInvalid>[1]

const FILE = readFileSync(new URL('../../../corpus/replies/addresses.txt', import.meta.url), 'utf8')

// Proves: suppress-8
test.each(
  FILE.split(/^## /m)
    .slice(1)
    .map((group) => group.trim().split('\n')),
)('an address is %s', (title = '', ...lines) => {
  const isDead = title.startsWith('dead')
  expect(lines.length).toBeGreaterThan(0)
  const wrong = lines.filter((line) => {
    const [, phase, text] = /^(\w+) \| (.*)$/.exec(line) ?? []
    return text === undefined || isPermanentlyInvalid(parseReply(text), phase as Phase) !== isDead
  })
  expect(wrong).toEqual([])
})

// Proves: suppress-8
test('bounces of invalid addresses have the category invalid_recipient or inactive_mailbox, and other bounces that of their cause', () => {
  const cases: [string, BounceCategory][] = [
    ['554 delivery error: dd Not a valid recipient', 'invalid_recipient'],
    ['554 Sorry, no mailbox here by that name. (#5.1.1)', 'invalid_recipient'],
    ['550 5.4.1 [x@y.test]: Recipient address rejected: Access denied. AS(201806281) [z]', 'invalid_recipient'],
    ['550 This account has been closed', 'inactive_mailbox'],
    ['550 5.2.1 Mailbox unavailable. Your IP address is blacklisted using SPAMHAUS-XBL', 'reputation'],
    ['450 4.2.1 The user you are trying to contact is receiving mail at a rate that', 'rate_limited'],
    ['550 5.2.1 The email account that you tried to reach is disabled', 'inactive_mailbox'],
    ['550 <spam@x.test>: Recipient address rejected: User unknown', 'invalid_recipient'],
  ]
  expect(cases.map(([text]) => [text, classifyReply(parseReply(text), 'body')])).toEqual(cases)
})

test('only the start of a very long reply is examined', () => {
  const judged = (words: number) => {
    const reply = parseReply(`554 ${'word '.repeat(words)}No such user`)
    return [isPermanentlyInvalid(reply, 'body'), classifyReply(reply, 'body')]
  }
  expect([judged(300), judged(13_000)]).toEqual([
    [true, 'invalid_recipient'],
    [false, 'unknown'],
  ])
})
