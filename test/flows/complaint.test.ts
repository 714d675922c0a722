/**
 * @module End to end: complaints. An email is sent and arrives, the receiver's provider submits a feedback report to
 * the listener, and the complaint appears in events, webhook, suppression list and complaint rate.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { complaintAdminCommands } from '#app/cli/complaints.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { UUID } from '#test/support/email-api.ts'
import { listShapeNames } from '../protocols/arf/shapes.ts'
import { type Copy, complaintAbout, HOST, type PostOffice, type SentEmail, startPostOffice } from './post-office.ts'

/**
 * What each shape proves in a report about a Bcc recipient's copy of an email to four recipients: the recipient, or
 * only the email. The report's sender is unverified, so a name in the report proves nothing.
 */
const SHAPES: Readonly<Record<string, 'recipient' | 'email'>> = {
  standard: 'recipient',
  'headers-only': 'recipient',
  'nothing-returned': 'recipient',
  yahoo: 'recipient',
  'gmail-like': 'email',
  comcast: 'email',
  fastmail: 'email',
  'mail-ru': 'recipient',
  'signal-spam': 'email',
  aol: 'recipient',
  'microsoft-jmrp': 'email',
  'microsoft-spf': 'recipient',
  'unsubscribe-link-only': 'recipient',
  'several-recipients': 'email',
  fraud: 'recipient',
  virus: 'recipient',
  'opt-out': 'recipient',
  'blank-lines': 'recipient',
  'fields-as-text': 'recipient',
  'x-arf': 'recipient',
}
const TYPES: Readonly<Record<string, string>> = { fraud: 'fraud', virus: 'virus', 'opt-out': 'other' }
const FBL = `fbl@${HOST}`
const ABUSE = `abuse@${HOST}`

const reportOf = (name: string, copy: Copy, others: readonly string[] = []) => complaintAbout(copy, name, others[0])

/** A report that returns the received copy itself, below its server's trace field. */
function createReturning(copy: Copy): Uint8Array {
  const [head = ''] = Buffer.from(reportOf('standard', copy)).toString('latin1').split('Content-Type: message/rfc822')
  const returned = `Return-Path: <${copy.mailFrom}>\r\n${copy.raw}`
  return Buffer.from(`${head}Content-Type: message/rfc822\r\n\r\n${returned}\r\n--report-1--\r\n`, 'latin1')
}

/** The output of `tassis complaints` for the account. */
async function listComplaints() {
  const [show] = complaintAdminCommands
  if (!show) throw new Error('the command does not exist')
  const { accounts, data: newest } = await show.run(
    { opened: office.opened, delivery: office.delivery },
    { limit: 500 },
  )
  const account = accounts.find(({ account_id: id }) => id === office.actor.accountUuid)
  if (!account) throw new Error('the account is not shown')
  return { ...account, newest }
}

/** The stored effects of all complaints about one email. */
async function readEffects({ id }: SentEmail) {
  const { events } = (await office.detail(id)) as { events: { type: string; recipient: string | null }[] }
  const suppressions = await office.suppressions()
  const { newest } = await listComplaints()
  return {
    events: events.flatMap(({ type, recipient }) => (type === 'complained' ? [recipient] : [])),
    suppressed: suppressions.flatMap((entry) =>
      entry.sourceEmailId === id ? [`${entry.address} ${entry.reason}`] : [],
    ),
    shown: newest.flatMap((row) => (row.email_id === id ? [`${row.complainer} ${row.feedback_type}`] : [])),
  }
}

const complained = (address: string, type = 'abuse') => ({
  events: [address],
  suppressed: [`${address} complaint`],
  shown: [`${address} ${type}`],
})
const NOTHING = { events: [], suppressed: [], shown: [] }

/**
 * Emails by the name of their test. All are sent and received before any test, because the first events of an email are
 * delivered only after two seconds.
 */
const sent = new Map<string, SentEmail>()

async function send(name: string, recipientCount: 1 | 4): Promise<void> {
  const [to, second, cc, bcc] = addressesOf(name)
  sent.set(name, await office.sendBulk(recipientCount === 1 ? { to } : { to: [to, second], cc: [cc], bcc: [bcc] }))
}

const addressesOf = (name: string): string[] =>
  ['bob', 'carl', 'dora', 'erin'].map((local) => `${local}.${name}@receiver.test`)

/** The copy of one recipient, counted from 0. */
function copyOf(name: string, index = 0): Copy {
  const copy = sent.get(name)?.copyFor(addressesOf(name)[index] ?? '')
  if (!copy) throw new Error(`nothing was sent for ${name}`)
  return copy
}

function emailOf(name: string): SentEmail {
  const email = sent.get(name)
  if (!email) throw new Error(`nothing was sent for ${name}`)
  return email
}

const PLACES: readonly (readonly [place: string, name: string, address: (copy: Copy) => string])[] = [
  ['the return path', 'verp', ({ mailFrom }) => mailFrom],
  ['the feedback address', 'fbl', () => FBL],
  ['abuse@', 'abuse', () => ABUSE],
]

let office: PostOffice
beforeAll(async () => {
  office = await startPostOffice()
  await Promise.all(PLACES.map(([, name]) => send(name, 1)))
  await send('together', 4)
  await send('praised', 1)
  await send('no-complaint', 1)
  const names = Object.keys(SHAPES)
  await Promise.all(
    names.flatMap((name) => [send(`${name}.one`, 1), send(`${name}.four`, 4), send(`${name}.proven`, 4)]),
  )
  const replies = await office.submit(
    ...names.flatMap((name) => {
      const others = addressesOf(`${name}.four`)
      const proven = copyOf(`${name}.proven`, 2)
      return [
        { to: FBL, raw: reportOf(name, copyOf(`${name}.one`)) },
        { to: ABUSE, raw: reportOf(name, copyOf(`${name}.four`, 3), others) },
        { to: proven.mailFrom, raw: reportOf(name, proven, addressesOf(`${name}.proven`)) },
      ]
    }),
  )
  expect(replies.filter((reply) => !reply.startsWith('250'))).toEqual([])
}, 240_000)
afterAll(async () => {
  expectBalanced(office)
  await office[Symbol.asyncDispose]()
})

describe('a report that returns the message', () => {
  test.each(PLACES)('at %s is recorded once, suppresses the complaining recipient, and counts', async (_, name, to) => {
    const { api, actor, accepted, detail } = office
    const [address = ''] = addressesOf(name)
    const email = emailOf(name)
    const copy = copyOf(name)
    const hook = await office.createHook(['complained'])
    const before = await listComplaints()
    const report = { mailFrom: 'fbl@provider.test', to: to(copy), raw: createReturning(copy) }
    expect(await office.submit(report)).toEqual([expect.stringMatching(/^250 /)])

    expect(await readEffects(email)).toEqual(complained(address))
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
      { to: FBL, raw: reportOf('fraud', copy) },
      { to: copy.mailFrom, raw: createReturning(copy) },
    )
    expect(await readEffects(email)).toEqual(complained(address))
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
  })
})

describe('a report in the shape', () => {
  test.each(Object.keys(SHAPES))(
    '%s at the feedback address is matched to the only recipient of its email',
    async (name) => {
      const [address = ''] = addressesOf(`${name}.one`)
      expect(await readEffects(emailOf(`${name}.one`))).toEqual(complained(address, TYPES[name]))
    },
  )

  test.each(Object.entries(SHAPES))(
    '%s at abuse@ about the Bcc recipient, one of four, finds the %s',
    async (name, found) => {
      const address = addressesOf(`${name}.four`)[3] ?? ''
      expect(await readEffects(emailOf(`${name}.four`))).toEqual(
        found === 'recipient'
          ? complained(address, TYPES[name])
          : { ...NOTHING, shown: [`null ${TYPES[name] ?? 'abuse'}`] },
      )
    },
  )

  test.each(Object.keys(SHAPES))('%s at the return path of one of four is matched to that recipient', async (name) => {
    const address = addressesOf(`${name}.proven`)[2] ?? ''
    expect(await readEffects(emailOf(`${name}.proven`))).toEqual(complained(address, TYPES[name]))
  })
})

test('complaints that name none of several recipients emit no event and suppress no one, but count up to the number of recipients', async () => {
  const email = emailOf('together')
  const hook = await office.createHook(['complained'])
  const before = (await listComplaints()).complaints
  // One report per recipient, none of which identifies its recipient, and two more.
  const reports = Array.from({ length: 6 }, (_, number) =>
    Buffer.concat([Buffer.from(`X-Report: ${number}\r\n`), reportOf('gmail-like', copyOf('together'))]),
  )
  await office.submit(...reports.map((raw) => ({ to: FBL, raw })))
  expect(await readEffects(email)).toEqual({ ...NOTHING, shown: Array(4).fill('null abuse') })
  expect((await listComplaints()).complaints).toBe(before + 4)

  // This one names its recipient and is delivered, so the webhook has received every earlier event.
  await office.submit({ to: copyOf('together', 1).mailFrom, raw: createReturning(copyOf('together', 1)) })
  const address = addressesOf('together')[1] ?? ''
  const received = await hook.receivedEvents(1)
  expect(received.map(({ email_id: id, complainer }) => [id, complainer])).toEqual([[email.id, address]])
  expect((await readEffects(email)).suppressed).toEqual([`${address} complaint`])
})

test('a not-spam report is stored, but neither notifies, suppresses nor counts', async () => {
  const before = (await listComplaints()).complaints
  await office.submit({ to: FBL, raw: reportOf('not-spam', copyOf('praised')) })
  expect(await readEffects(emailOf('praised'))).toEqual({
    ...NOTHING,
    shown: [`${addressesOf('praised')[0]} not-spam`],
  })
  expect((await listComplaints()).complaints).toBe(before)
})

test('other mail at abuse@ or the feedback address is stored for the operator', async () => {
  const copy = copyOf('no-complaint')
  const foreign = reportOf('gmail-like', {
    ...copy,
    header: (name) => copy.header(name).replace('@sender.test', '@x.test'),
  })
  const before = office.operatorMail().length
  await office.submit(
    ...['auth-failure', 'forwarded-by-a-person', 'login-attack'].map((name) => ({
      to: ABUSE,
      raw: reportOf(name, copy),
    })),
    { to: FBL, raw: foreign },
  )
  expect(await readEffects(emailOf('no-complaint'))).toEqual(NOTHING)
  expect(
    office
      .operatorMail()
      .slice(before)
      .toSorted((a, b) => a.subject.localeCompare(b.subject)),
  ).toEqual([
    {
      kind: 'abuse',
      to: ABUSE,
      subject: 'abuse report about 192.0.2.25',
      reason: 'The message is addressed to the operator.',
    },
    { kind: 'abuse', to: ABUSE, subject: 'DMARC failure report', reason: 'The message is addressed to the operator.' },
    {
      kind: 'complaint',
      to: FBL,
      subject: 'Feedback for campaign 7',
      reason: 'The report names no email of this service.',
    },
    {
      kind: 'abuse',
      to: ABUSE,
      subject: 'Fwd: Your weekly offers',
      reason: 'The message is addressed to the operator.',
    },
  ])
})

test('every report of the corpus occurs in one of these tests', () => {
  expect(listShapeNames()).toEqual(
    [...Object.keys(SHAPES), 'auth-failure', 'forwarded-by-a-person', 'login-attack', 'not-spam'].toSorted(),
  )
})
