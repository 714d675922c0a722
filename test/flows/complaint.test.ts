/**
 * @module End to end: complaints. An email is sent and arrives, the receiver's provider submits a feedback report to
 * the listener, and the complaint appears in events, webhook, suppression list and complaint rate.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { expectBalanced } from '#test/support/consistency.ts'
import { UUID } from '#test/support/email-api.ts'
import { createOperatorClient } from '#test/support/operator-client.ts'
import { type Copy, complaintAbout, HOST, type PostOffice, startPostOffice } from './post-office.ts'

let office: PostOffice
beforeAll(async () => {
  office = await startPostOffice()
}, 240_000)
afterAll(async () => {
  expectBalanced(office)
  await office[Symbol.asyncDispose]()
})

/** A report that returns the received copy itself, below its server's trace field. */
function createReturning(copy: Copy): Uint8Array {
  const [head = ''] = Buffer.from(complaintAbout(copy)).toString('latin1').split('Content-Type: message/rfc822')
  const returned = `Return-Path: <${copy.mailFrom}>\r\n${copy.raw}`
  return Buffer.from(`${head}Content-Type: message/rfc822\r\n\r\n${returned}\r\n--report-1--\r\n`, 'latin1')
}

/** What `tassis complaints` shows of the account. */
async function listComplaints() {
  const { operator } = createOperatorClient(office.opened)
  const { data: newest } = await operator.listComplaints({ per_page: 100 })
  const rates = await operator.listComplaintRates()
  const account = rates.data.find(({ account_id: id }) => id === office.actor.accountUuid)
  if (!account) throw new Error('the account is not shown')
  return { ...account, newest }
}

/** The stored effects of all complaints about one email. */
async function readEffects(emailId: string) {
  const { events } = (await office.detail(emailId)) as { events: { type: string; recipient: string | null }[] }
  const suppressions = await office.suppressions()
  const { newest } = await listComplaints()
  return {
    events: events.flatMap(({ type, recipient }) => (type === 'complained' ? [recipient] : [])),
    suppressed: suppressions.flatMap((entry) =>
      entry.sourceEmailId === emailId ? [`${entry.address} ${entry.reason}`] : [],
    ),
    shown: newest.flatMap((row) => (row.email_id === emailId ? [`${row.complainer} ${row.feedback_type}`] : [])),
  }
}

const FBL = `fbl@${HOST}`

test.each<[string, string, (copy: Copy) => string]>([
  ['the return path', 'verp@receiver.test', ({ mailFrom }) => mailFrom],
  ['the feedback address', 'fbl@receiver.test', () => FBL],
  ['abuse@', 'abuse@receiver.test', () => `abuse@${HOST}`],
])(
  'a report at %s is recorded once, suppresses the complaining recipient, and counts',
  async (_, address, to) => {
    const { api, actor, accepted, detail } = office
    const email = await office.sendBulk({ to: address })
    const copy = email.copyFor(address)
    const hook = await office.createHook(['complained'])
    const before = await listComplaints()
    const report = { mailFrom: 'fbl@provider.test', to: to(copy), raw: createReturning(copy) }
    expect(await office.submit(report)).toEqual([expect.stringMatching(/^250 /)])

    const complained = {
      events: [address],
      suppressed: [`${address} complaint`],
      shown: [`${address} abuse`],
    }
    expect(await readEffects(email.id)).toEqual(complained)
    const received = await hook.receivedEvents(1)
    expect(received).toEqual([
      {
        event: 'complained',
        event_id: expect.stringMatching(UUID),
        account_id: actor.accountUuid,
        timestamp: expect.stringMatching(/Z$/),
        email_id: email.id,
        to_address: address,
        complainer: address,
        feedback_type: 'abuse',
        original_message_id: email.messageId,
        recipient: address,
        tags: [],
        metadata: {},
      },
    ])

    // The same report again, and another provider's at another address.
    await office.submit(
      report,
      { to: FBL, raw: complaintAbout(copy, 'fraud') },
      { to: copy.mailFrom, raw: createReturning(copy) },
    )
    expect(await readEffects(email.id)).toEqual(complained)
    const { delivered, complaints, rate } = await listComplaints()
    expect([delivered, complaints, rate]).toEqual([
      before.delivered,
      before.complaints + 1,
      (before.complaints + 1) / before.delivered,
    ])

    const next = await accepted({ to: address.toUpperCase(), transactional: true })
    expect((await detail(next.id))['status']).toBe('rejected')
    const { body } = await api('GET', '/v1/audit-logs?action=suppression.created&per_page=1')
    expect(body).toMatchObject({ data: [{ resource_id: address, metadata: { reason: 'complaint' } }] })
    expect(await hook.receivedEvents(1)).toEqual(received)
  },
  240_000,
)
