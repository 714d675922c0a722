import { expect, test } from 'bun:test'
import { createHttp } from '#app/http.ts'
import { decodeUnsubscribeAddress } from '#features/sending/unsubscribe/headers.ts'
import { createStream } from '#features/setup/streams/streams.ts'
import { verifyWithMailauth } from '#test/protocols/dkim/verifiers.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { type SinkMessage, startSink } from '#test/support/sink.ts'

const TO = 'bob@receiver.test'
const zone = { 'receiver.test': { A: ['127.0.0.1'] } }
const settings = { TASSIS_PUBLIC_URL: 'https://mail.tassis.test', ...siteLimits({ idle_seconds: 0 }) }

/** The fields of a message by lower-case name, unfolded. */
const fieldsOf = ({ raw }: SinkMessage): Map<string, string> => {
  const [header = ''] = raw.split('\r\n\r\n')
  const lines = header.replace(/\r\n(?=[ \t])/g, '').split('\r\n')
  return new Map(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  )
}

/** Sends the request of RFC 8058 §3.2 as a mail program does, to our port instead of the host in the URL. */
async function oneClick(message: SinkMessage, port: number): Promise<number> {
  const url = /<(https:[^>]*)>/.exec(fieldsOf(message).get('list-unsubscribe') ?? '')?.[1] ?? ''
  const { pathname } = new URL(url)
  const form = new FormData()
  form.set('List-Unsubscribe', 'One-Click')
  return (await fetch(`http://127.0.0.1:${port}${pathname}`, { method: 'POST', body: form })).status
}

function listen(flow: MailFlow) {
  const http = createHttp(flow.service.opened)
  const { port } = http.listen('127.0.0.1', 0)
  return { port, [Symbol.asyncDispose]: () => http.stop(0) }
}

// Proves: send-45, suppress-12
test('mail with transactional: false has both fields, signed; one click stops it without a session, and transactional mail is still sent', async () => {
  let sessions = 0
  await using sink = await startSink({
    onConnect(_session, done) {
      sessions++
      done()
    },
  })
  await using flow = await startMailFlow({ zone, smtpPort: sink.port, settings })
  await using http = listen(flow)
  const newsletter = { transactional: false, html_body: '<p>News</p>' }

  const { recipient: first } = await flow.outcome(TO, newsletter)
  const [received] = sink.messages
  if (!received) throw new Error('nothing was received')
  const fields = fieldsOf(received)
  expect(fields.get('list-unsubscribe-post')).toBe('List-Unsubscribe=One-Click')
  const [, token = '', mailbox = '', subject = ''] =
    /^<https:\/\/mail\.tassis\.test\/u\/([\w-]+)>, <mailto:([^@]+)@send\.sender\.test\?subject=([\w-]+)>$/.exec(
      fields.get('list-unsubscribe') ?? '',
    ) ?? []
  expect([subject, decodeUnsubscribeAddress(flow.app, mailbox)?.recipientId]).toEqual([token, first.id])
  expect(await verifyWithMailauth(Buffer.from(received.raw, 'latin1'), flow.dkimRecord)).toBe('pass')
  const signedNames = /\bh=([^;]*)/
    .exec(fields.get('dkim-signature') ?? '')?.[1]
    ?.replace(/\s/g, '')
    .split(':')
  expect(signedNames).toEqual(expect.arrayContaining(['list-unsubscribe', 'list-unsubscribe-post']))

  expect(await oneClick(received, http.port)).toBe(200)
  const before = sessions
  const stopped = await flow.outcome(TO, newsletter)
  expect(stopped.recipient.status).toBe('rejected')
  expect(stopped.events.map(({ type, data }) => [type, data.reason])).toEqual([['rejected', 'suppressed']])
  expect([sessions, sink.messages.length]).toEqual([before, 1])

  const transactional = await flow.outcome(TO, { subject: 'Your receipt' })
  expect(transactional.recipient.status).toBe('sent')
  const receipt = sink.messages.at(-1)
  expect([...(receipt ? fieldsOf(receipt).keys() : [])].filter((name) => name.startsWith('list-'))).toEqual([])
  expectBalanced(flow.service)
})

// Proves: status-22
test('each recipient of an email has their own unsubscribe address, and one unsubscribes alone', async () => {
  await using sink = await startSink()
  await using flow = await startMailFlow({ zone, smtpPort: sink.port, settings })
  await using http = listen(flow)
  await createStream(flow.app, flow.actor, { slug: 'news', name: 'News' })
  const to = [TO, 'eve@receiver.test']
  const request = { to, transactional: false, stream: 'news' }
  const sent = await flow.send(request)
  await flow.settled(sent)
  const fields = sink.messages.map((message) => fieldsOf(message).get('list-unsubscribe'))
  expect(new Set(fields).size).toBe(2)
  const toEve = sink.messages.find(({ rcptTo }) => rcptTo[0] === 'eve@receiver.test')
  if (!toEve) throw new Error('Eve received nothing')
  expect(await oneClick(toEve, http.port)).toBe(200)
  expect(flow.events(sent).filter(({ type }) => type === 'unsubscribed')).toEqual([
    {
      type: 'unsubscribed',
      recipient: 'eve@receiver.test',
      data: { stream: 'news', list_id: null, scope: 'stream', reason: 'one-click' },
    },
  ])

  const again = await flow.settled(await flow.send(request))
  expect(again.recipients.map(({ address, status }) => [address, status])).toEqual([
    [TO, 'sent'],
    ['eve@receiver.test', 'rejected'],
  ])
  // Another stream is not affected.
  const { recipient } = await flow.outcome('eve@receiver.test', { transactional: false })
  expect(recipient.status).toBe('sent')
  expectBalanced(flow.service)
})
