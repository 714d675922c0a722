import { describe, expect, test } from 'bun:test'
import { deriveEmailStatus, type Status } from '#features/sending/queue/status.ts'

const cases: readonly [recipients: Status[], email: Status][] = [
  [['queued'], 'queued'],
  [['scheduled'], 'scheduled'],
  [['queued', 'queued'], 'queued'],
  [['scheduled', 'scheduled'], 'scheduled'],
  [['queued', 'rejected'], 'queued'],
  [['queued', 'scheduled'], 'queued'],
  [['sent', 'scheduled'], 'processing'],
  [['processing', 'queued'], 'processing'],
  [['sent', 'queued'], 'processing'],
  [['bounced', 'processing'], 'processing'],
  [['sent', 'sent'], 'sent'],
  [['sent', 'bounced'], 'bounced'],
  [['uncertain', 'bounced', 'sent'], 'uncertain'],
  [['failed', 'uncertain', 'sent'], 'failed'],
  [['sent', 'rejected'], 'sent'],
  [['rejected', 'rejected'], 'rejected'],
  [['cancelled', 'cancelled'], 'cancelled'],
  [['rejected', 'cancelled'], 'cancelled'],
  [['rejected', 'scheduled'], 'scheduled'],
]

describe('the status of an email follows from its recipients', () => {
  // Proves: status-3, status-10
  for (const [recipients, email] of cases)
    test(`${recipients.join(' + ')} = ${email}`, () => expect(deriveEmailStatus(recipients)).toBe(email))
})

// Proves: status-10
test('a suppressed recipient never hides a bounce', () => {
  expect(deriveEmailStatus(['rejected', 'bounced'])).toBe('bounced')
})
