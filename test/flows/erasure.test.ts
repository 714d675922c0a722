/**
 * @module End to end: the erasure of one person. A person who received mail, opened, clicked, bounced, complained,
 * unsubscribed, wrote, and was imported among others is erased. Then the service stops, and every file of its data
 * directory is searched. The others have lost nothing.
 */
import { expect, test } from 'bun:test'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { days, seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { UNVERIFIED } from '#test/support/email-api.ts'
import { createFolder } from '#test/support/folder.ts'
import { grepData } from '#test/support/grep-data.ts'
import { type Copy, complaintAbout, HOST, INBOUND_DOMAIN, type PostOffice, startPostOffice } from './post-office.ts'

type Json = Record<string, unknown>

/** No other address contains these words, and neither does our own code. */
const MARK = 'marker.qzx'
const PERSON = `Marker.Qzx@receiver.test`
const KEY = PERSON.toLowerCase()
/** Words that only the person's mail contains. */
const SECRET = 'quizzaciously'
const WORDS = [MARK, 'marker%2eqzx', SECRET]
const OTHERS = Array.from({ length: 50 }, (_, i) => `person${i}@receiver.test`)
const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0'
const HTML = `<p>${SECRET} <a href="https://shop.test/?for=${encodeURIComponent(PERSON)}">Shop</a></p>`

const requestOk = async (office: PostOffice, method: string, path: string, body?: unknown): Promise<unknown> => {
  const answer = await office.api(method, path, body)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
  return answer.body
}

/** Opens a copy and clicks in it, as a browser does. */
async function engageWith(office: PostOffice, copy: Copy): Promise<void> {
  const text = copy.raw.replace(/=\r\n/g, '').replace(/=3D/g, '=')
  for (const kind of ['o', 'c']) {
    const path = new RegExp(`https://${HOST.replaceAll('.', '\\.')}(/t/${kind}/[\\w/-]+)`).exec(text)?.[1]
    if (!path) throw new Error(`no link of kind ${kind} in ${text}`)
    await fetch(`${office.url}${path}`, { redirect: 'manual', headers: { 'user-agent': BROWSER } })
  }
}

async function unsubscribe(office: PostOffice, copy: Copy): Promise<void> {
  const path = /<https:\/\/[^/]+(\/u\/[^>]+)>/.exec(copy.header('List-Unsubscribe'))?.[1]
  const form = new FormData()
  form.set('List-Unsubscribe', 'One-Click')
  expect((await fetch(`${office.url}${path}`, { method: 'POST', body: form })).status).toBe(200)
}

/** A DSN about a failure, as servers write it. */
const bounceOf = (copy: Copy): string =>
  [
    'From: MAILER-DAEMON@receiver.test',
    `To: ${copy.mailFrom}`,
    'Subject: Undelivered Mail',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    `<${copy.recipient}>: 550 5.1.1 no such user`,
    '--b',
    'Content-Type: message/delivery-status',
    '',
    'Reporting-MTA: dns; mx.receiver.test',
    '',
    `Final-Recipient: rfc822; ${copy.recipient}`,
    'Action: failed',
    'Status: 5.1.1',
    `Diagnostic-Code: smtp; 550 5.1.1 <${copy.recipient}>: no such user`,
    '',
    '--b',
    'Content-Type: message/rfc822',
    '',
    copy.raw,
    '--b--',
    '',
  ].join('\r\n')

const letterFrom = (
  from: string,
  to: string,
  subject: string,
  text: string,
): { mailFrom: string; to: string; raw: string } => ({
  mailFrom: from,
  to,
  raw: `From: Somebody <${from}>\r\nTo: <${to}>\r\nSubject: ${subject}\r\nMessage-ID: <${Bun.hash(from + subject)}@provider.test>\r\n\r\n${text}\r\n`,
})

/** The system clock, which a test can advance. */
function adjustableClock(): Clock & { setForward(byMs: number): void } {
  let aheadMs = 0
  return {
    ...systemClock,
    now: () => systemClock.now() + aheadMs,
    monotonicMs: () => systemClock.monotonicMs() + aheadMs,
    setForward: (byMs) => {
      aheadMs += byMs
    },
  }
}

/**
 * Everything that can happen to an address, for the person and, mostly, for others. Returns values that later steps
 * need.
 */
async function createHistory(office: PostOffice) {
  const listId = String(at(await requestOk(office, 'POST', '/v1/contact-lists', { name: 'People' }), 'data', 'id'))
  await requestOk(office, 'POST', `/v1/contact-lists/${listId}/contacts`, { email: PERSON, metadata: { note: SECRET } })
  await requestOk(office, 'POST', `/v1/contact-lists/${listId}/contacts`, {
    contacts: OTHERS.map((email) => ({ email })),
  })
  const imported = await fetch(`${office.url}/v1/contact-lists/${listId}/contacts/import`, {
    method: 'POST',
    headers: { authorization: `Bearer ${office.key}`, 'content-type': 'text/csv' },
    body: `email,status\n${OTHERS[0]},active\n${PERSON},active,too many\n${PERSON} twice,active\n`,
  })
  expect(imported.status).toBe(202)
  const hook = await office.createHook([
    'sent',
    'delivered',
    'bounced',
    'opened',
    'clicked',
    'complained',
    'unsubscribed',
  ])

  const about = { subject: `For ${PERSON}`, html_body: HTML, tracking: true, metadata: { who: PERSON }, tags: [SECRET] }
  const alone = await office.sendBulk({ ...about, to: `Their Name <${PERSON}>`, idempotency_key: `welcome ${PERSON}` })
  await engageWith(office, alone.copyFor(PERSON))
  const bounced = await office.sendBulk({ ...about, to: PERSON })
  const complained = await office.sendBulk({ ...about, to: PERSON, headers: { 'X-For': PERSON } })
  const unsubscribed = await office.sendBulk({ ...about, to: PERSON, reply_to: PERSON })
  const shared = await office.sendBulk({ ...about, to: [OTHERS[0], PERSON], cc: [OTHERS[1]] })
  await engageWith(office, shared.copyFor(OTHERS[0] ?? ''))
  await engageWith(office, shared.copyFor(PERSON))
  // Large enough to be stored in a separate file, and incompressible.
  const noise = Buffer.from(Array.from({ length: 300_000 }, (_, i) => Bun.hash.wyhash(String(i)) % 251n).map(Number))
  const attached = await office.sendBulk({
    ...about,
    to: PERSON,
    attachments: [
      {
        filename: `${PERSON}.bin`,
        content_type: 'application/octet-stream',
        content: Buffer.concat([noise, Buffer.from(PERSON)]).toString('base64'),
      },
    ],
  })
  const captured = at(
    await requestOk(office, 'POST', '/v1/emails', { ...about, from: `ada@${UNVERIFIED}`, to: PERSON }),
    'data',
  )
  await eventually(async () => (await office.api('GET', `/v1/emails/${at(captured, 'id')}/captured`)).status === 200)
  const batch = await office.api(
    'POST',
    '/v1/emails/batch',
    {
      emails: [PERSON, OTHERS[2]].map((to) => ({
        from: 'ada@sender.test',
        to,
        subject: 'Batch',
        text_body: to === PERSON ? SECRET : 'hello',
      })),
    },
    { headers: { 'idempotency-key': 'batch-1' } },
  )
  expect(batch.status).toBe(202)
  // Longer than the clock is set forward below.
  const later = new Date(systemClock.now() + days(7)).toISOString()
  const waiting = await office.accepted({ ...about, to: PERSON, send_at: later })
  const waitingTogether = await office.accepted({ ...about, to: [PERSON, OTHERS[3]], send_at: later })
  const others = await office.sendBulk({
    subject: 'For others',
    html_body: HTML.replace(SECRET, 'hello').replace(/\?for=[^"]*/, ''),
    to: OTHERS[4],
  })

  await requestOk(office, 'POST', '/v1/emails/broadcast', {
    contact_list_id: listId,
    from_address: 'ada@sender.test',
    subject: 'News',
    text_body: 'Hello {{ contact.email }}',
  })
  await eventually(() => office.copies.filter((copy) => copy.header('Subject') === 'News').length >= 50, 60_000)

  const mailbox = `/v1/agent-mailboxes/${at(await requestOk(office, 'POST', '/v1/agent-mailboxes', { local_part: 'agent' }), 'data', 'id')}`
  const replies = await office.submit(
    letterFrom(PERSON, `anything@${INBOUND_DOMAIN}`, 'A question', `${SECRET} is my question`),
    letterFrom(OTHERS[5] ?? '', `anything@${INBOUND_DOMAIN}`, 'Another question', 'plain words'),
    letterFrom(PERSON, `agent@${INBOUND_DOMAIN}`, `About ${SECRET}`, `${SECRET} again`),
    letterFrom(OTHERS[6] ?? '', `agent@${INBOUND_DOMAIN}`, 'About plain words', 'plain words again'),
  )
  const messages = at(await requestOk(office, 'GET', `${mailbox}/messages`), 'data') as Json[]
  const theirs = messages.find(({ subject }) => String(subject).includes(SECRET))
  await requestOk(office, 'POST', `${mailbox}/messages/${theirs?.['id']}/reply`, { text_body: `${SECRET} indeed` })
  await eventually(() => office.copies.some((copy) => copy.raw.includes(`${SECRET} indeed`)))

  await unsubscribe(office, unsubscribed.copyFor(PERSON))
  const copy = bounced.copyFor(PERSON)
  const reports = await office.submit(
    { to: copy.mailFrom, raw: bounceOf(copy) },
    { to: complained.copyFor(PERSON).mailFrom, raw: complaintAbout(complained.copyFor(PERSON)) },
    // About an email that we do not know.
    { to: `postmaster@${HOST}`, raw: bounceOf({ ...copy, mailFrom: 'x', raw: 'Subject: x\r\n\r\nx' }) },
  )
  expect([...replies, ...reports].filter((reply) => !reply.startsWith('250'))).toEqual([])
  await hook.receivedEvents(20)
  return { listId, mailbox, alone, shared, attached, waiting, waitingTogether, others }
}

// Proves: privacy-3
test('no data of an erased person is left in the data directory, the address stays suppressed, other data is unchanged', async () => {
  using folder = createFolder()
  const dataDir = folder.path
  const clock = adjustableClock()
  const office = await startPostOffice({}, { runsTasks: true, dataDir, clock })
  let isStopped = false
  try {
    const { listId, mailbox, alone, shared, waiting, waitingTogether, others } = await createHistory(office)
    const before = await office.suppressions()
    // In rows, content, captures and raw mail at least, or the search at the end would prove nothing.
    const places = new Set(grepData(dataDir, WORDS).map((line) => line.split('/')[0]?.split(':')[0]))
    expect([...places]).toEqual(expect.arrayContaining(['capture.db', 'content', 'raw-mail', 'tassis.db']))
    const begun = await requestOk(office, 'DELETE', `/v1/gdpr/erase?email=${encodeURIComponent(PERSON)}`)
    expect(begun).toEqual({
      data: { email_address: KEY, rows_deleted: expect.any(Number), message: expect.any(String) },
      operation_id: expect.any(String),
    })
    // Mail to another recipient still waits for its time; the test cancels it, because nothing else would end it.
    await requestOk(office, 'POST', `/v1/emails/${waitingTogether.id}/cancel`)
    const operation = await eventually(async () => {
      // Content that was stored twice is deleted some minutes later.
      clock.setForward(seconds(20))
      office.app.removalDue.emit()
      const found = at(await requestOk(office, 'GET', `/v1/operations/${at(begun, 'operation_id')}`), 'data') as Json
      return found['status'] === 'completed' && found
    }, 110_000)
    expect(operation).toMatchObject({ operation_type: 'gdpr_erase', error_summary: null, failed_items: 0 })
    expect(Number(at(operation, 'metadata', 'rows_deleted'))).toBeGreaterThan(30)

    const emptied = { subject: '', tags: [], metadata: {}, html_body: null, text_body: null, attachments: null }
    expect(await office.detail(alone.id)).toMatchObject({ ...emptied, to: 'erased@erased.invalid', status: 'sent' })
    expect(await office.detail(shared.id)).toMatchObject({
      ...emptied,
      to: `${OTHERS[0]}, erased@erased.invalid`,
      cc: [OTHERS[1]],
    })
    expect(await office.detail(waiting.id)).toMatchObject({ ...emptied, status: 'cancelled' })
    expect(await office.detail(others.id)).toMatchObject({ subject: 'For others', to: OTHERS[4], status: 'sent' })
    const contacts = await requestOk(office, 'GET', `/v1/contact-lists/${listId}/contacts?per_page=100`)
    expect((at(contacts, 'data') as Json[]).map(({ email }) => email).toSorted()).toEqual(OTHERS.toSorted())
    const messages = at(await requestOk(office, 'GET', `${mailbox}/messages`), 'data') as Json[]
    expect(messages.map(({ subject }) => subject)).toEqual(['About plain words'])
    const received = at(await requestOk(office, 'GET', '/v1/inbound'), 'data') as Json[]
    expect(received.map(({ subject }) => subject)).toEqual(['Another question'])

    const after = await office.suppressions()
    expect(after).toEqual(
      before.map((entry) => ({
        ...entry,
        address: entry.address === KEY ? expect.stringMatching(/^erased:[0-9a-f]{64}$/) : entry.address,
      })),
    )
    const again = await office.accepted({ to: PERSON.toUpperCase(), transactional: true })
    expect(again['status']).toBe('rejected')
    await requestOk(office, 'DELETE', `/v1/gdpr/erase?email=${encodeURIComponent(PERSON)}`)
    await eventually(() => {
      clock.setForward(seconds(20))
      office.app.removalDue.emit()
      return office.app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM erasures').get()?.n === 0
    }, 110_000)
    expectBalanced(office)
    await office[Symbol.asyncDispose]()
    isStopped = true
    expect(grepData(dataDir, WORDS)).toEqual([])
  } finally {
    if (!isStopped) await office[Symbol.asyncDispose]()
  }
}, 300_000)
