import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { findFeedbackLoop } from '#features/receiving/complaints/match.ts'
import { readComplaintRate } from '#features/receiving/complaints/rate.ts'
import type { AuthenticationResult, Verdict } from '#protocols/authentication/result.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { startWebhookService } from '#test/support/webhooks.ts'
import { addComplaints, createComplaints } from './fixture.ts'

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

const EXTRA = { feedbackLoops: ['fbl@provider.test', 'loops.provider.test'] }
const YAHOO = 'feedback@arf.mail.yahoo.com'

interface Sender {
  readonly mailFrom?: string
  readonly from?: readonly string[]
  readonly spf?: Verdict
  readonly identity?: 'mailfrom' | 'helo'
  readonly dkim?: Verdict
  readonly aligned?: boolean
}

function loopOf({
  mailFrom = '',
  from = [],
  spf = 'none',
  identity = 'mailfrom',
  dkim = 'none',
  aligned = true,
}: Sender) {
  const authentication = {
    details: { spf: { result: spf, identity }, dkim: [{ result: dkim, aligned }] },
  } as unknown as AuthenticationResult
  const received = { envelope: { mailFrom }, message: { fromAddresses: from }, authentication } as unknown
  return findFeedbackLoop(EXTRA, received as Parameters<typeof findFeedbackLoop>[1])
}

// Proves: notify-41
test.each([
  ['SPF passes for the envelope', { mailFrom: YAHOO, spf: 'pass' }, 'Yahoo'],
  ['the envelope is in capitals', { mailFrom: YAHOO.toUpperCase(), spf: 'pass' }, 'Yahoo'],
  ['an aligned signature passes for From', { from: ['staff@hotmail.com'], dkim: 'pass' }, 'Microsoft'],
  ['an address of the setting', { mailFrom: 'fbl@provider.test', spf: 'pass' }, 'fbl@provider.test'],
  ['a domain of the setting', { from: ['any@loops.provider.test'], dkim: 'pass' }, 'loops.provider.test'],
  ['nothing passes', { mailFrom: YAHOO, from: [YAHOO], spf: 'softfail', dkim: 'fail' }, undefined],
  ['SPF passes for HELO only', { mailFrom: YAHOO, spf: 'pass', identity: 'helo' }, undefined],
  ['SPF passes for another envelope', { mailFrom: 'a@mallory.test', from: [YAHOO], spf: 'pass' }, undefined],
  ['the signature is not aligned', { from: [YAHOO], dkim: 'pass', aligned: false }, undefined],
  ['From has two addresses', { from: [YAHOO, 'a@mallory.test'], dkim: 'pass' }, undefined],
  [
    'a mailbox that the public can have there',
    { from: ['mallory@hotmail.com'], mailFrom: 'mallory@hotmail.com', spf: 'pass', dkim: 'pass' },
    undefined,
  ],
  ['another address of the domain of a configured address', { mailFrom: 'a@provider.test', spf: 'pass' }, undefined],
] as const satisfies readonly (readonly [string, Sender, string | undefined])[])(
  'finds the feedback loop only with proof of its sender: %s',
  (_, sender, loop) => {
    expect(loopOf(sender)).toBe(loop)
  },
)

// Proves: status-21, notify-26
test("a Bcc recipient's complaint reaches the webhook with its fields, and stops all mail to that address", async () => {
  await using service = await startWebhookService({ settings: { TASSIS_PUBLIC_URL: 'https://mail.tassis.test' } })
  const complaints = addComplaints(service)
  const webhook = await service.addWebhook(['complained'])
  const email = await complaints.delivered({
    to: ['bob@provider.test', 'carl@provider.test'],
    bcc: ['erin@provider.test'],
    transactional: false,
  })
  await complaints.apply(await complaints.report('yahoo', email, 2))
  await complaints.apply(await complaints.report('comcast', email, 0))
  service.release()
  const [request] = await service.receiver.received(1)
  const told = { event: 'complained', to_address: 'bob@provider.test', complainer: 'erin@provider.test' }
  expect(JSON.parse(request?.text ?? '{}')).toMatchObject(told)
  expect((await service.settled(webhook, 1)).map(({ event, status }) => ({ event, status }))).toEqual([
    { event: 'complained', status: 'delivered' },
  ])
  expect(service.receiver.requests).toHaveLength(1)

  const detail = await service.detail(email.id)
  const events = detail['events'] as Record<string, unknown>[]
  expect([detail['to_address'], events.filter(({ event_type: type }) => type === 'complained')]).toEqual([
    told.to_address,
    [expect.objectContaining({ id: JSON.parse(request?.text ?? '{}').event_id, recipient: 'erin@provider.test' })],
  ])
  const next = await complaints.accepted({ to: ['Erin@Provider.test', 'bob@provider.test'], transactional: true })
  const { recipients } = (await service.detail(next.id)) as { recipients: Record<string, unknown>[] }
  expect(recipients.map(({ address, status }) => [address, status])).toEqual([
    ['Erin@provider.test', 'rejected'],
    ['bob@provider.test', 'queued'],
  ])
})
