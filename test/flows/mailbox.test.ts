/**
 * @module End to end: an agent mailbox. A message arrives at the listener and wakes the consumer that waits for it over
 * HTTP, the consumer's reply is sent over SMTP, and the answer to it joins the same conversation. Each test uses its
 * own mailbox.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { UUID } from '#test/support/email-api.ts'
import { INBOUND_DOMAIN, type Letter, type PostOffice, startPostOffice } from './post-office.ts'

let office: PostOffice
beforeAll(async () => {
  office = await startPostOffice()
})
afterAll(async () => {
  expectBalanced(office)
  await office[Symbol.asyncDispose]()
})

type Json = Record<string, unknown>

/** Creates a mailbox and returns its path. */
async function createMailbox(localPart: string): Promise<string> {
  const created = await office.api('POST', '/v1/agent-mailboxes', { local_part: localPart, display_name: 'Agent' })
  expect(created.status).toBe(201)
  return `/v1/agent-mailboxes/${at(created.body, 'data', 'id')}`
}

const BOB = 'bob@receiver.test'

interface LetterFields {
  readonly to: string
  readonly id: string
  readonly subject: string
  readonly text: string
  readonly inReplyTo?: string
  readonly references?: string
}

/** A message from Bob's mail program. */
function letter({ to, id, subject, text, inReplyTo, references }: LetterFields): Letter {
  const head = [
    `From: Bob Baker <${BOB}>`,
    `To: <${to}>`,
    `Subject: ${subject}`,
    `Message-ID: ${id}`,
    ...(inReplyTo === undefined ? [] : [`In-Reply-To: ${inReplyTo}`]),
    ...(references === undefined ? [] : [`References: ${references}`]),
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: 8bit',
  ]
  return { mailFrom: BOB, to, raw: Buffer.from(`${head.join('\r\n')}\r\n\r\n${text}`) }
}

const TIME = expect.stringMatching(/^\d{4}-\d{2}-\d{2}T.*Z$/)

test('a message wakes the waiting consumer, its reply is delivered in the thread, and the answer joins them', async () => {
  const { api } = office
  const mailbox = await createMailbox('agent')
  const address = `agent@${INBOUND_DOMAIN}`
  const hook = await office.createHook(['mailbox.message.received'])
  const mailboxId = mailbox.split('/').at(-1)

  // The request already waits when the message arrives; without being woken it would return a 408 after 58 seconds.
  let isAnswered = false
  const waiting = api('GET', `${mailbox}/messages/next?timeout=60`).finally(() => {
    isAnswered = true
  })
  expect(at((await api('GET', `${mailbox}/messages`)).body, 'data')).toEqual([])
  expect(isAnswered).toBe(false)
  const question = {
    to: `agent+orders@${INBOUND_DOMAIN}`,
    id: '<question@receiver.test>',
    subject: 'Wo ist mein Päckchen?',
  }
  expect(await office.submit(letter({ ...question, text: 'It was due on Tuesday.\r\n' }))).toEqual([
    expect.stringMatching(/^250 /),
  ])
  const { status, body } = await waiting
  const message = at(body, 'data') as Json
  expect([status, message]).toEqual([
    200,
    expect.objectContaining({
      mailbox_id: mailboxId,
      direction: 'received',
      message_id: question.id,
      mail_from: BOB,
      from_header: `Bob Baker <${BOB}>`,
      subject: question.subject,
      text_body: 'It was due on Tuesday.\n',
      html_body: null,
      read_at: null,
      source_ip: '127.0.0.1',
    }),
  ])

  const [told] = await hook.receivedEvents(1)
  expect<unknown>(told).toEqual({
    event: 'mailbox.message.received',
    mailbox_id: mailboxId,
    message: {
      id: message['id'],
      from: `Bob Baker <${BOB}>`,
      reply_to: null,
      subject: question.subject,
      text_body: 'It was due on Tuesday.\n',
      html_body: null,
      attachments: [],
      message_id: question.id,
      in_reply_to: null,
      references: null,
      thread_id: message['thread_id'],
      received_at: TIME,
    },
    authentication: expect.objectContaining({ spf: 'pass', dkim: 'none', dmarc: 'none', arc: 'none' }),
    source_ip: '127.0.0.1',
    timestamp: TIME,
  })

  const path = `${mailbox}/messages/${message['id']}`
  const lease = { lease_token: at(body, 'lease_token') }
  expect((await api('POST', `${path}/ack`, lease)).status).toBe(204)
  expect((await api('GET', `${mailbox}/messages/next?timeout=0`)).status).toBe(408)

  const replied = await api('POST', `${path}/reply`, { text_body: 'It is at your neighbour’s, Nürnberger Str. 7.' })
  expect([replied.status, replied.body]).toEqual([
    201,
    {
      data: {
        id: expect.stringMatching(UUID),
        status: 'queued',
        message_id: expect.stringMatching(/^<.+@inbound\.test>$/),
        to: BOB,
        subject: `Re: ${question.subject}`,
      },
    },
  ])
  const replyId = String(at(replied.body, 'data', 'message_id'))
  const copy = await eventually(() => office.copies.find((each) => each.header('Message-ID') === replyId))
  expect({
    recipient: copy.recipient,
    from: copy.header('From'),
    inReplyTo: copy.header('In-Reply-To'),
    references: copy.header('References'),
    signs: /\bd=([^;]+)/.exec(copy.header('DKIM-Signature'))?.[1],
  }).toEqual({
    recipient: BOB,
    from: `Agent <${address}>`,
    inReplyTo: question.id,
    references: question.id,
    signs: INBOUND_DOMAIN,
  })
  await eventually(async () => (await office.detail(at(replied.body, 'data', 'id')))['status'] === 'sent')

  const answer = {
    to: address,
    id: '<answer@receiver.test>',
    subject: `Re: ${question.subject}`,
    inReplyTo: replyId,
    references: `${question.id} ${replyId}`,
  }
  await office.submit(
    letter({
      ...answer,
      text: 'Found it, thank you!\r\n\r\nOn Tue, 3 Mar 2026, Agent wrote:\r\n> It is at your neighbour\r\n',
    }),
  )
  const second = at((await api('GET', `${mailbox}/messages/next?timeout=60`)).body, 'data') as Json
  expect(second).toMatchObject({
    thread_id: message['thread_id'],
    in_reply_to: replyId,
    references: `${question.id} ${replyId}`,
    text_body_stripped: 'Found it, thank you!',
  })
  const { body: thread } = await api('GET', `${mailbox}/threads/${message['thread_id']}`)
  expect((at(thread, 'data') as Json[]).map((each) => [each['direction'], each['message_id']])).toEqual([
    ['received', question.id],
    ['sent', replyId],
    ['received', answer.id],
  ])
  expect(at((await api('GET', `${mailbox}/threads`)).body, 'pagination', 'total')).toBe(1)

  const found = async (words: string) =>
    (at((await api('GET', `${mailbox}/messages/search?q=${encodeURIComponent(words)}`)).body, 'data') as Json[]).map(
      (each) => each['message_id'],
    )
  expect(await found('tuesday')).toEqual([question.id])
  expect(await found('NURNBERGER neighbour')).toEqual([replyId])
  expect(await found('packchen')).toEqual([answer.id, replyId, question.id])
  expect(await found('elephant')).toEqual([])

  // The answer is delivered too, but not the outgoing message.
  const both = await hook.receivedEvents(2)
  expect(both.map((each) => at(each, 'message', 'message_id'))).toEqual([question.id, answer.id])
  expect(at(both[1], 'message', 'text_body_stripped')).toBe('Found it, thank you!')
  expect(at((await api('GET', `${mailbox}/analytics`)).body, 'data')).toMatchObject({
    total_messages: 2,
    unread_messages: 1,
    total_threads: 1,
  })
})

const inboundOf = async (subject: string): Promise<Json[]> =>
  (at((await office.api('GET', '/v1/inbound')).body, 'data') as Json[]).filter((each) => each['subject'] === subject)

test('a message to two mailboxes and to an unknown address is stored once in each mailbox and once for the domain', async () => {
  const { api } = office
  const paths = [await createMailbox('left'), await createMailbox('right')]
  const attachment = Buffer.from(Array.from({ length: 1000 }, (_, index) => index % 256))
  const raw = [
    `From: Bob <${BOB}>`,
    'Subject: Photo',
    'Message-ID: <photo@receiver.test>',
    'MIME-Version: 1.0',
    'Content-Type: image/png; name="photo.png"',
    'Content-Disposition: attachment; filename="photo.png"',
    'Content-Transfer-Encoding: base64',
    '',
    attachment.toString('base64').replace(/.{76}/g, '$&\r\n'),
    '',
  ].join('\r\n')
  const to = ['left', 'other', 'right'].map((name) => `${name}@${INBOUND_DOMAIN}`)
  await office.submit({ mailFrom: BOB, to, raw })
  expect(await inboundOf('Photo')).toMatchObject([{ rcpt_to: [`other@${INBOUND_DOMAIN}`], status: 'no_route' }])
  for (const path of paths) {
    const { body } = await api('GET', `${path}/messages`)
    expect(at(body, 'data')).toMatchObject([
      { subject: 'Photo', attachments: [{ filename: 'photo.png', content_type: 'image/png', size: 1000 }] },
    ])
    const answer = await fetch(`${office.url}${path}/messages/${at(body, 'data', 0, 'id')}/attachments/0`, {
      headers: { authorization: `Bearer ${office.key}` },
    })
    expect(Buffer.from(await answer.arrayBuffer()).equals(attachment)).toBe(true)
  }
})
