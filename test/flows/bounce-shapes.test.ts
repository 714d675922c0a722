/**
 * @module End to end: the DSNs of many mail systems. An email is sent and arrives, its report is submitted to the
 * listener as a mail server would, and the API shows the resulting state of the email.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { NO_REPORTS, SHAPES, type Shape, shapeBytes } from '../corpus/dsn/shapes.ts'
import { HOST, INBOUND_DOMAIN, type Letter, LOST_DOMAIN, type PostOffice, startPostOffice } from './post-office.ts'

interface Sent {
  readonly id: string
  readonly messageId: string
  readonly address: string
  readonly returnPath: string
}

/** Address that a report is sent to. Only the return path identifies the email; elsewhere the content must. */
type Place = 'return path' | 'return path of a lost email' | 'account' | 'host'

let office: PostOffice
const sent = new Map<string, Sent>()

const keyOf = (file: string, place: Place): string => `${file}.${place.replaceAll(' ', '-')}`

/** Each address is used once, because it may be suppressed. */
async function send(file: string, place: Place, domain: string): Promise<void> {
  const key = keyOf(file, place)
  const address = `${key}@${domain}`
  const email = await office.sendBulk({ to: address })
  sent.set(key, { ...email, address, returnPath: email.copyFor(address).mailFrom })
}

function findSent(file: string, place: Place): Sent {
  const found = sent.get(keyOf(file, place))
  if (!found) throw new Error(`nothing was sent for ${file}`)
  return found
}

function reportOf(file: string, place: Place, mailFrom = ''): Letter & { readonly to: string } {
  const { returnPath, messageId, address } = findSent(file, place)
  const to = { account: `${file}@${INBOUND_DOMAIN}`, host: `postmaster@${HOST}` }
  return {
    mailFrom,
    to: place === 'account' || place === 'host' ? to[place] : returnPath,
    raw: shapeBytes(file, { verp: returnPath, messageId, recipient: address }),
  }
}

/**
 * Domain of the email. A report that is not of a failure settles only an uncertain email, so its email must be lost in
 * transit.
 */
const domainOf = ([, , action]: Shape): string => (action === 'failed' ? 'receiver.test' : LOST_DOMAIN)
const before = (shape: Shape): string[] =>
  domainOf(shape) === LOST_DOMAIN ? ['queued', 'uncertain'] : ['queued', 'sent', 'delivered']

/** The expected state after a matched report, from the table of shapes. */
function expectedMatch(shape: Shape): { status: string; judgement: string | null; events: string[] } {
  const [, , action, , judgement] = shape
  if (action === 'failed') return { status: 'bounced', judgement, events: [...before(shape), 'bounced'] }
  if (action === 'delayed' || action === 'none') return expectedNoMatch(shape)
  return { status: 'sent', judgement: null, events: [...before(shape), 'sent', 'delivered'] }
}

const expectedNoMatch = (shape: Shape): ReturnType<typeof expectedMatch> => ({
  status: domainOf(shape) === LOST_DOMAIN ? 'uncertain' : 'sent',
  judgement: null,
  events: before(shape),
})

async function readEffects(file: string, place: Place): Promise<ReturnType<typeof expectedMatch>> {
  const { id, address } = findSent(file, place)
  const { recipients } = (await office.detail(id)) as { recipients: Record<string, string | null>[] }
  const [recipient] = recipients
  const reasons = (await office.suppressions()).flatMap((entry) => (entry.address === address ? [entry.reason] : []))
  const judgement = [
    recipient?.['bounce_type'],
    recipient?.['bounce_category'],
    ...reasons.map((reason) => (reason === 'hard_bounce' ? 'dead' : reason)),
  ].filter((word) => word !== null)
  return {
    status: String(recipient?.['status']),
    judgement: judgement.length === 0 ? null : judgement.join(' '),
    events: await office.eventTypes(id),
  }
}

/** Reports sent to an address of the host: all that do not identify their email, and one that does. */
const AT_HOST: readonly Shape[] = SHAPES.filter(
  ([file, , , , , , returned]) => returned === 'none' || file === 'gmail-unknown-user',
)

/**
 * Messages that are not reports, and whether they are stored for the operator: a person wrote them, or their kind is
 * unknown.
 */
const KEPT: Readonly<Record<string, boolean>> = {
  'no-bounce-challenge': true,
  'no-bounce-complaint': false,
  'no-bounce-employee-left': false,
  'no-bounce-forwarded-report': true,
  'no-bounce-out-of-office': false,
  'no-bounce-out-of-office-german': false,
  'no-bounce-read-receipt': false,
  'no-bounce-read-receipt-text': false,
  'no-bounce-ticket': true,
  'no-bounce-vacation': false,
  'no-bounce-vacation-quotes-report': true,
}

/** A report about an email that was lost in transit. */
const LATE = 'postfix-unknown-user'

beforeAll(async () => {
  office = await startPostOffice()
  await Promise.all([
    ...SHAPES.filter((shape) => domainOf(shape) === 'receiver.test').flatMap(([file]) => [
      send(file, 'return path', 'receiver.test'),
      send(file, 'account', 'receiver.test'),
    ]),
    ...NO_REPORTS.map(([file]) => send(file, 'return path', 'receiver.test')),
  ])
  // Last, because a host that loses a connection is avoided for a while.
  for (const shape of SHAPES.filter((each) => domainOf(each) === LOST_DOMAIN)) {
    await send(shape[0], 'return path', LOST_DOMAIN)
    await send(shape[0], 'account', LOST_DOMAIN)
  }
  for (const shape of AT_HOST) await send(shape[0], 'host', domainOf(shape))
  await send(LATE, 'return path of a lost email', LOST_DOMAIN)
  const replies = await office.submit(
    ...SHAPES.flatMap(([file]) => [reportOf(file, 'return path'), reportOf(file, 'account')]),
    ...NO_REPORTS.map(([file, isNull]) => reportOf(file, 'return path', isNull ? '' : 'bob@receiver.test')),
    ...AT_HOST.map(([file]) => reportOf(file, 'host')),
    reportOf(LATE, 'return path of a lost email'),
  )
  expect(replies.filter((reply) => !reply.startsWith('250'))).toEqual([])
}, 240_000)
afterAll(async () => {
  expectBalanced(office)
  await office[Symbol.asyncDispose]()
})

describe('a DSN in the shape of', () => {
  for (const shape of SHAPES) {
    const [file, , action, , , , returned] = shape

    // Proves: status-25
    test(`${file}, at the return path, is applied: ${action}`, async () => {
      expect(await readEffects(file, 'return path')).toEqual(expectedMatch(shape))
    })

    test(`${file}, at an address of the account, is matched by ${returned === 'none' ? 'nothing' : returned}`, async () => {
      expect(await readEffects(file, 'account')).toEqual(
        returned === 'none' ? expectedNoMatch(shape) : expectedMatch(shape),
      )
    })
  }
})

for (const shape of AT_HOST) {
  const [file, , , , , , returned] = shape
  test(`${file}, at an address of the host, is matched by ${returned === 'none' ? 'nothing' : returned}`, async () => {
    expect(await readEffects(file, 'host')).toEqual(returned === 'none' ? expectedNoMatch(shape) : expectedMatch(shape))
  })
}

test('a report of a failure settles an uncertain email, which is then no dead letter', async () => {
  expect(await readEffects(LATE, 'return path of a lost email')).toEqual({
    status: 'bounced',
    judgement: 'hard invalid_recipient dead',
    events: ['queued', 'uncertain', 'bounced'],
  })
  const { id } = findSent(LATE, 'return path of a lost email')
  const { body } = await office.api('GET', '/v1/dead-letters?count=200')
  const dead = (at(body, 'data') as Record<string, unknown>[]).map((letter) => letter['email_id'])
  const delayed = SHAPES.filter(([, , action]) => action === 'delayed').map(([file]) => file)
  expect(dead).not.toContain(id)
  expect(dead).toContain(findSent(delayed[0] ?? '', 'return path').id)
})

test.each(NO_REPORTS)('%s at the return path is not a bounce', async (file) => {
  const isComplaint = file === 'no-bounce-complaint'
  expect(await readEffects(file, 'return path')).toEqual({
    status: 'sent',
    judgement: isComplaint ? 'complaint' : null,
    events: ['queued', 'sent', 'delivered', ...(isComplaint ? ['complained'] : [])],
  })
  const stored = office.operatorMail().filter(({ to }) => to === findSent(file, 'return path').returnPath)
  expect(stored.map(({ kind, reason }) => [kind, reason])).toEqual(
    KEPT[file] ? [['bounce', 'The message came to a return path. It is not a readable report.']] : [],
  )
})

test('reports that match no email are stored for the operator, applied reports are not', () => {
  const others = office.operatorMail().filter(({ to }) => !to.startsWith('b-'))
  const unmatchedShapes = AT_HOST.filter(([, , , , , , returned]) => returned === 'none')
  expect(others.map(({ kind, to, reason }) => [kind, to, reason])).toEqual(
    unmatchedShapes.map(() => ['bounce', `postmaster@${HOST}`, 'The report names no email of this service.']),
  )
  expect(office.operatorMail()).toHaveLength(unmatchedShapes.length + Object.values(KEPT).filter(Boolean).length)
})

test('a forged return path is rejected in the session, whatever the message', async () => {
  const report = reportOf(LATE, 'return path')
  const forged = report.to.replace(/.(?=@)/, (last) => (last === 'a' ? 'b' : 'a'))
  expect(await office.submit({ ...report, to: forged })).toEqual(['550 5.1.1 User unknown'])
})
