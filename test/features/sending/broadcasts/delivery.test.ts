import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { type ParsedMail, simpleParser } from 'mailparser'
import { openUnsubscribeToken } from '#features/sending/unsubscribe/headers.ts'
import { systemClock } from '#platform/time/clock.ts'
import { at } from '#test/support/api.ts'
import { createTestApp, eventually, type TestAppOptions } from '#test/support/app.ts'
import {
  addContacts,
  countByStatus,
  createContacts,
  getOperation,
  newList,
  readBroadcastEmails,
  type TestContact,
  waitForOperation,
} from '#test/support/broadcasts.ts'
import { createEmailApi, type EmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { createFolder } from '#test/support/folder.ts'
import { type ScriptedSmtp, startScriptedSmtp } from '#test/support/scripted-smtp.ts'

type Json = Record<string, unknown>

interface Flow extends AsyncDisposable {
  readonly service: EmailApi
  /** Everything that arrived since the last `forget`. */
  arrived(): Promise<ParsedMail[]>
  /** Number of messages with a final dot since then, replied to or not. */
  count(): number
  forget(): void
  /** From now on the receiver replies to no final dot, until `open`. */
  shut(): void
  open(): void
}

const relaySettings = (port: number, more: Readonly<Record<string, string>> = {}) => ({
  TASSIS_DELIVERY: 'relay',
  TASSIS_RELAY_URL: `smtp://127.0.0.1:${port}`,
  TASSIS_RELAY_TLS: 'opportunistic',
  TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
  ...more,
})

const listMessages = (receiver: ScriptedSmtp): Buffer[] => receiver.sessions.flatMap(({ messages }) => messages)

/** A service whose mail goes to one receiver, on the real clock. */
async function startFlow(options: Pick<TestAppOptions, 'broadcastAhead' | 'dataDir'> = {}): Promise<Flow> {
  let gate = Promise.withResolvers<void>()
  gate.resolve()
  let forgotten = 0
  const receiver = await startScriptedSmtp({ body: () => gate.promise.then(() => '250 2.0.0 Queued') })
  const service = await createEmailApi({
    clock: systemClock,
    delivers: true,
    runsTasks: true,
    settings: relaySettings(receiver.port),
    ...options,
  })
  return {
    service,
    arrived: () =>
      Promise.all(
        listMessages(receiver)
          .slice(forgotten)
          .map((raw) => simpleParser(raw)),
      ),
    count: () => listMessages(receiver).length - forgotten,
    forget() {
      forgotten = listMessages(receiver).length
    },
    shut() {
      gate = Promise.withResolvers<void>()
    },
    open: () => gate.resolve(),
    async [Symbol.asyncDispose]() {
      gate.resolve()
      await service[Symbol.asyncDispose]()
      await receiver[Symbol.asyncDispose]()
    },
  }
}

const NEWS = { from_address: 'Ada <ada@sender.test>', subject: 'News', text_body: 'Hello.' }

async function createList({ service }: Flow, contacts: readonly TestContact[], name = 'News'): Promise<string> {
  const id = await newList(service, name)
  await addContacts(service.app, id, contacts)
  return id
}

async function startBroadcast({ service }: Flow, listId: string, request: Json = {}): Promise<string> {
  const answer = await service.api('POST', '/v1/emails/broadcast', { contact_list_id: listId, ...NEWS, ...request })
  if (answer.status !== 202) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
  return String(at(answer.body, 'data', 'operation_id'))
}

const control = ({ service }: Flow, id: string, verb: 'pause' | 'resume' | 'cancel') =>
  service.api('POST', `/v1/operations/${id}/${verb}`)

/** The operation once none of its emails is open. */
const waitForSettled = ({ service }: Flow, id: string) =>
  eventually(async () => {
    const operation = await getOperation(service, id)
    const { queued, processing, scheduled } = countByStatus(operation)
    const isOpen = ['waiting', 'sending', 'cancelling'].includes(operation.metadata.state)
    return isOpen || queued || processing || scheduled ? undefined : operation
  })

const readTo = ({ to }: ParsedMail): string => (Array.isArray(to) ? to : [to]).map((one) => one?.text ?? '').join()
const listAddresses = (mails: readonly ParsedMail[]): string[] => mails.map(readTo).sort()
const findUnsubscribeLink = (mail: ParsedMail): string => /https:\S+\/u\/[\w.-]+/.exec(String(mail.text))?.[0] ?? ''
/** Acts like a mail program that uses the link of a message. */
const oneClick = ({ service }: Flow, link: string) =>
  fetch(`${service.url}${new URL(link).pathname}`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'List-Unsubscribe=One-Click',
  })

const findHeader = (mail: ParsedMail, name: string): string | undefined =>
  mail.headerLines
    .filter(({ key }) => key === name)
    .map(({ line }) =>
      line
        .slice(line.indexOf(':') + 1)
        .replace(/\s+/g, ' ')
        .trim(),
    )
    .join('|')

describe('a broadcast', () => {
  // Proves: broadcast-1, broadcast-2
  test('sends every active contact one rendered message with the list to unsubscribe from', async () => {
    await using flow = await startFlow()
    const { service, arrived } = flow
    const list = await createList(flow, [...createContacts(30), { email: 'pending@receiver.test', status: 'pending' }])
    const operation = await startBroadcast(flow, list, {
      subject: 'Number {{ contact.number }} of {{ list.name }}',
      html_body: '<p>{{ contact.email }}</p><a href="{{ unsubscribe_url }}">Leave</a>',
      text_body: 'You are {{ contact.metadata.number }}.\nLeave: {{ unsubscribe_url }}',
    })
    const over = await waitForSettled(flow, operation)
    expect([over.status, over.completed_items, countByStatus(over)]).toEqual(['completed', 30, { sent: 30 }])
    const mails = await arrived()
    expect(listAddresses(mails)).toEqual(
      createContacts(30)
        .map(({ email }) => email)
        .sort(),
    )
    const listRow = service.app.db.query<{ id: number }, []>('SELECT id FROM contact_lists').get()?.id
    for (const mail of mails) {
      const address = readTo(mail)
      const number = /\d+/.exec(address)?.[0]
      const link = findUnsubscribeLink(mail)
      expect({
        subject: mail.subject,
        text: String(mail.text).split('\n')[0],
        html: mail.html,
        header: mail.headerLines.find(({ key }) => key === 'list-unsubscribe')?.line.replace(/\s+/g, ' '),
        post: mail.headerLines.find(({ key }) => key === 'list-unsubscribe-post')?.line,
        listId: findHeader(mail, 'list-id'),
        feedbackId: findHeader(mail, 'feedback-id'),
        precedence: findHeader(mail, 'precedence'),
        token: openUnsubscribeToken(service.app.keys, link.slice(link.lastIndexOf('/') + 1)),
      }).toEqual({
        subject: `Number ${number} of News`,
        text: `You are ${number}.`,
        html: expect.stringContaining(`<p>${address}</p><a href="${link}">`),
        header: expect.stringContaining(`<${link}>`),
        post: 'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
        // RFC 2919, and the four fields of Gmail.
        listId: `<${list}.sender.test>`,
        feedbackId: expect.stringMatching(new RegExp(`^${operation}:[0-9a-f]{1,8}:broadcast:tassis$`)),
        precedence: 'bulk',
        token: expect.objectContaining({ address, listId: listRow, streamId: 0 }),
      })
    }
    const rows = at((await service.api('GET', '/v1/emails?per_page=1')).body, 'data')
    const detail = await service.detail(at(rows, 0, 'id'))
    const same = mails.find((mail) => readTo(mail) === detail['to_address'])
    expect([detail['subject'], detail['text_body'], detail['html_body']]).toEqual([
      same?.subject ?? '',
      String(same?.text).trimEnd(),
      String(same?.html).trimEnd(),
    ])
  })

  // Proves: broadcast-7
  test('skips contacts who unsubscribe with one click while it is being sent, for this list only', async () => {
    await using flow = await startFlow({ broadcastAhead: 10 })
    const contacts = createContacts(40)
    const list = await createList(flow, contacts)
    const other = await createList(flow, contacts.slice(-1), 'Other')
    const text_body = 'Leave: {{ unsubscribe_url }}'
    await waitForSettled(flow, await startBroadcast(flow, list, { text_body }))
    const last = (await flow.arrived()).find((mail) => readTo(mail) === 'contact-40@receiver.test')
    flow.shut()
    const second = await startBroadcast(flow, list, { subject: 'Second' })
    await eventually(() => flow.count() > 40)
    expect((await oneClick(flow, last ? findUnsubscribeLink(last) : '')).status).toBe(200)
    flow.open()
    const over = await waitForSettled(flow, second)
    // Skipped before it was enqueued, or rejected after it, depending on the progress.
    const { sent, rejected = 0 } = countByStatus(over) as Record<string, number>
    expect([sent, over.failed_items + rejected, over.completed_items + over.failed_items]).toEqual([39, 1, 40])
    const seconds = (await flow.arrived()).filter(({ subject }) => subject === 'Second')
    expect(listAddresses(seconds)).toEqual(
      contacts
        .slice(0, 39)
        .map(({ email }) => email)
        .sort(),
    )
    const path = `/v1/contact-lists/${list}/contacts/contact-40@receiver.test`
    expect(at((await flow.service.api('GET', path)).body, 'data', 'status')).toBe('unsubscribed')
    expect(countByStatus(await waitForSettled(flow, await startBroadcast(flow, other)))).toEqual({ sent: 1 })
  })
})

describe('a small broadcast', () => {
  let flow: Flow
  beforeAll(async () => {
    flow = await startFlow()
  })
  beforeEach(() => flow.forget())
  afterAll(() => flow[Symbol.asyncDispose]())

  // Proves: broadcast-2
  test('with its own List-Id, Feedback-ID or Precedence keeps it; other mail has none of these fields', async () => {
    const list = await createList(flow, createContacts(1), 'Own fields')
    const headers = { 'list-id': 'News <news.sender.test>', 'Feedback-ID': 'a:b:c:acme1', Precedence: 'list' }
    await waitForSettled(flow, await startBroadcast(flow, list, { headers }))
    await flow.service.accepted({ to: 'bob@receiver.test', transactional: false })
    await eventually(() => flow.count() === 2)
    const mails = await flow.arrived()
    const shown = mails.map((mail) => Object.keys(headers).map((name) => findHeader(mail, name.toLowerCase())))
    expect(shown.toSorted()).toEqual([['', '', ''], Object.values(headers)])
  })

  // Proves: send-34
  test('whose template fails for one contact fails for that one only, with the reason', async () => {
    const { service } = flow
    const list = await createList(
      flow,
      [
        { email: 'ben@receiver.test', metadata: { name: 'Ben' } },
        { email: 'nameless@receiver.test' },
        { email: 'eve@receiver.test', metadata: { name: 'Eve' } },
        { email: 'long@receiver.test', metadata: { name: 'x'.repeat(1000) } },
        { email: 'control@receiver.test', metadata: { name: 'E\x1bve' } },
      ],
      'Failing',
    )
    const id = await startBroadcast(flow, list, { subject: 'For {{ contact.name }}' })
    const over = await waitForSettled(flow, id)
    expect([over.status, countByStatus(over)]).toEqual(['completed', { sent: 2, failed: 3 }])
    expect(listAddresses(await flow.arrived())).toEqual(['ben@receiver.test', 'eve@receiver.test'])
    const failed = at((await service.api('GET', `/v1/emails?status=failed&operation_id=${id}`)).body, 'data') as Json[]
    const details = await Promise.all(failed.map(({ id }) => service.detail(id)))
    const told = (address: string) => {
      const detail = details.find((one) => one['to_address'] === address)
      return [detail?.['subject'], detail?.['text_body'], String(detail?.['error_message'])]
    }
    expect(told('nameless@receiver.test')).toEqual([
      'For {{ contact.name }}',
      null,
      expect.stringContaining('"contact.name"'),
    ])
    expect(told('long@receiver.test')).toEqual(['For {{ contact.name }}', null, expect.stringContaining('1004')])
    expect(told('control@receiver.test')[2]).toContain('puts a control character into the subject')
    const letters = at((await service.api('GET', '/v1/dead-letters')).body, 'data') as Json[]
    const own = letters.filter((letter) => failed.some(({ id }) => id === letter['email_id']))
    expect(own.map((letter) => [letter['to_address'], letter['original_status']]).sort()).toEqual([
      ['control@receiver.test', 'failed'],
      ['long@receiver.test', 'failed'],
      ['nameless@receiver.test', 'failed'],
    ])
  })

  // Proves: send-34
  test('whose subject has a line break of a contact has one blank there', async () => {
    const metadata = { name: 'Eve\r\n  Bcc: mallory@receiver.test' }
    const list = await createList(flow, [{ email: 'eve@receiver.test', metadata }], 'Line break')
    await waitForSettled(flow, await startBroadcast(flow, list, { subject: 'For {{ contact.name }}' }))
    expect((await flow.arrived()).map((mail) => [readTo(mail), mail.subject])).toEqual([
      ['eve@receiver.test', 'For Eve Bcc: mallory@receiver.test'],
    ])
  })

  test('from a domain that is not verified is captured, rendered', async () => {
    const list = await createList(flow, createContacts(2), 'Captured')
    const request = { from_address: `ada@${UNVERIFIED}`, subject: 'Number {{ contact.number }}' }
    const id = await startBroadcast(flow, list, request)
    const over = await waitForSettled(flow, id)
    expect([countByStatus(over), flow.count()]).toEqual([{ sent: 2 }, 0])
    const rows = at((await flow.service.api('GET', `/v1/emails?operation_id=${id}`)).body, 'data') as Json[]
    const subjects = await Promise.all(
      rows.map(async ({ id }) => {
        const captured = await flow.service.api('GET', `/v1/emails/${id}/captured`)
        return (await simpleParser(String(at(captured.body, 'data', 'raw')))).subject
      }),
    )
    expect(subjects.sort()).toEqual(['Number 1', 'Number 2'])
  })
})

describe('while a broadcast is being sent', () => {
  /** Some of 60 have arrived, and the receiver replies to none of them. */
  const stopped = async (flow: Flow) => {
    const list = await createList(flow, createContacts(60))
    flow.shut()
    const id = await startBroadcast(flow, list)
    await eventually(() => flow.count() > 0)
    return id
  }

  // Proves: broadcast-5
  test('a pause lets attempts in flight end and begins nothing more until a resume', async () => {
    await using flow = await startFlow({ broadcastAhead: 10 })
    const id = await stopped(flow)
    expect((await control(flow, id, 'pause')).status).toBe(200)
    flow.open()
    const paused = await eventually(async () => {
      const now = await getOperation(flow.service, id)
      return countByStatus(now)['processing'] === undefined && now
    })
    // Mail that comes after all of it is delivered, so everything that could be sent was sent.
    const { id: later } = await flow.service.accepted()
    await eventually(async () => (await flow.service.detail(later))['status'] === 'sent')
    const { sent = 0, queued = 0 } = countByStatus(await getOperation(flow.service, id))
    expect([sent, sent + queued]).toEqual([countByStatus(paused)['sent'] ?? 0, paused.metadata.handed_over])
    expect([queued > 0, flow.count()]).toEqual([true, sent + 1])
    expect((await control(flow, id, 'resume')).status).toBe(200)
    const over = await waitForSettled(flow, id)
    expect([over.status, countByStatus(over)]).toEqual(['completed', { sent: 60 }])
    const mails = (await flow.arrived()).filter(({ subject }) => subject === 'News')
    expect(new Set(listAddresses(mails)).size).toBe(60)
    expect(mails).toHaveLength(60)
  })

  // Proves: broadcast-5
  test('a cancellation ends with consistent counts, and refunds the quota of unsent mail', async () => {
    await using flow = await startFlow({ broadcastAhead: 10 })
    const id = await stopped(flow)
    expect(flow.service.used()).toBe(60)
    expect((await control(flow, id, 'cancel')).status).toBe(200)
    // Attempts in flight are awaited, because they may return unattempted.
    await waitForOperation(flow.service, id, 'cancelling')
    flow.open()
    const over = await waitForSettled(flow, id)
    const { sent = 0, cancelled = 0 } = countByStatus(over)
    expect([over.status, over.metadata.state]).toEqual(['failed', 'cancelled'])
    expect([over.metadata.handed_over, over.metadata.left_out]).toEqual([sent, 60 - sent])
    expect([sent > 0, cancelled > 0]).toEqual([true, true])
    expect([flow.service.used(), flow.count()]).toEqual([sent, sent])
  })
})

// Proves: broadcast-7
test('a broadcast continues after a restart, and neither skips nor repeats a contact', async () => {
  using folder = createFolder()
  const dataDir = folder.path
  const contacts = createContacts(120)
  const first = await startFlow({ broadcastAhead: 10, dataDir })
  const list = await createList(first, contacts)
  await startBroadcast(first, list)
  await eventually(() => first.count() >= 15)
  await first[Symbol.asyncDispose]()
  const before = await first.arrived()
  expect(before.length).toBeLessThan(120)

  await using receiver = await startScriptedSmtp()
  const settings = relaySettings(receiver.port)
  await using again = await createTestApp({ dataDir, delivers: true, runsTasks: true, broadcastAhead: 10, settings })
  await eventually(() => {
    const emails = readBroadcastEmails(again.app)
    return emails.length === 120 && emails.every(({ status }) => status === 'sent')
  })
  const after = await Promise.all(listMessages(receiver).map((raw) => simpleParser(raw)))
  expect(listAddresses([...before, ...after])).toEqual(contacts.map(({ email }) => email).sort())
})
