import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readComplaintRate } from '#features/receiving/complaints/rate.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createComplaints } from './fixture.ts'

/** How each shape identifies the last of four recipients, a Bcc; `email`: only the email. */
const SHAPES: Readonly<Record<string, 'address' | 'link' | 'name' | 'email'>> = {
  standard: 'address',
  'headers-only': 'address',
  'nothing-returned': 'address',
  yahoo: 'address',
  'gmail-like': 'email',
  comcast: 'email',
  fastmail: 'email',
  'mail-ru': 'address',
  'signal-spam': 'name',
  aol: 'address',
  'microsoft-jmrp': 'name',
  'microsoft-spf': 'address',
  'unsubscribe-link-only': 'link',
  'several-recipients': 'email',
  fraud: 'address',
  virus: 'address',
  'opt-out': 'address',
  'blank-lines': 'address',
  'fields-as-text': 'address',
  'x-arf': 'address',
}
const TYPES: Readonly<Record<string, string>> = { fraud: 'fraud', virus: 'virus', 'opt-out': 'other' }

// One service for all: every test has its own emails and addresses.
let complaints: Awaited<ReturnType<typeof createComplaints>>
beforeAll(async () => {
  complaints = await createComplaints()
})
afterAll(async () => {
  expectBalanced({ ...complaints.service, delivery: undefined })
  await complaints[Symbol.asyncDispose]()
})

/** State after a complaint of a recipient, and its result. */
const LEFT = { result: 'applied' as const, complaints: 1 }

/**
 * Sends an email, applies a report of a shape about a recipient's copy, and returns the resulting state.
 * @param place `proven`: from a known feedback loop
 */
async function outcome(
  name: string,
  recipientCount: 1 | 4,
  index: number,
  place: 'fbl' | 'return path' | 'proven' = 'fbl',
) {
  const { service } = complaints
  const { app, actor } = service
  const domain = `${name}-${recipientCount}-${index}-${place.replace(' ', '-')}.test`
  const [to, second, cc, bcc] = ['bob', 'carl', 'dora', 'erin'].map((local) => `${local}@${domain}`)
  const many = recipientCount === 4 ? { to: [to, second], cc: [cc], bcc: [bcc] } : { to }
  const email = await complaints.delivered({ ...many, transactional: false })
  const report = await complaints.report(name, email, index)
  const counted = () => readComplaintRate(app.db, actor.accountId, { from: 0, to: app.clock.now() }).complaints
  const before = counted()
  const recipient = email.recipients[index]
  const at = { fbl: {}, 'return path': { recipientId: recipient?.id }, proven: { feedbackLoop: 'Yahoo' } }[place]
  const { kind } = await complaints.apply(report, { ...at, rawRef: 7 })
  const isOf = ({ emailId }: { readonly emailId: number }) => emailId === email.emailId
  return {
    result: kind,
    complaints: counted() - before,
    events: complaints.events().filter(isOf),
    suppressions: complaints.suppressions().filter(({ sourceEmailId }) => sourceEmailId === email.emailId),
    rows: complaints.rows().filter(isOf),
    /** Expected state after a complaint of the recipient. */
    ofRecipient: {
      events: [
        {
          emailId: email.emailId,
          recipientId: recipient?.id ?? 0,
          data: { complainer: recipient?.address, feedback_type: TYPES[name] ?? 'abuse' },
        },
      ],
      suppressions: [
        { address: recipient?.address ?? '', covers: 0, reason: 'complaint', sourceEmailId: email.emailId },
      ],
      rows: [row(recipient?.id ?? 0)],
    },
    ofNobody: { events: [], suppressions: [], rows: [row(null)] },
  }

  function row(recipientId: number | null) {
    const type = TYPES[name] ?? 'abuse'
    return { emailId: email.emailId, recipientId, type, reporter: report.userAgent, rawRef: 7 }
  }
}

describe('a report in the shape', () => {
  // Proves: status-21, notify-27
  test.each(Object.keys(SHAPES))('%s suppresses the only recipient of its email, with an event', async (name) => {
    const { ofRecipient, ofNobody: _, ...left } = await outcome(name, 1, 0)
    expect(left).toEqual({ ...LEFT, ...ofRecipient })
  })

  // Proves: status-21, notify-39
  test.each(Object.entries(SHAPES))('%s about a Bcc recipient of four is matched by its %s', async (name, sign) => {
    const { ofRecipient, ofNobody, ...left } = await outcome(name, 4, 3, 'proven')
    expect(left).toEqual(
      sign === 'email' ? { result: 'counted' as const, complaints: 1, ...ofNobody } : { ...LEFT, ...ofRecipient },
    )
  })

  // Proves: notify-42
  test.each(Object.entries(SHAPES).filter(([, sign]) => sign === 'name'))(
    '%s from an unproven sender matches only the email by its %s, which the other recipients know',
    async (name) => {
      const { ofNobody, ofRecipient: _, ...left } = await outcome(name, 4, 3)
      expect(left).toEqual({ result: 'counted' as const, complaints: 1, ...ofNobody })
    },
  )

  // Proves: notify-39
  test.each(Object.keys(SHAPES))('%s to the return path of a recipient concerns that recipient', async (name) => {
    const { ofRecipient, ofNobody: _, ...left } = await outcome(name, 4, 2, 'return path')
    expect(left).toEqual({ ...LEFT, ...ofRecipient })
  })
})
