/**
 * @module Two mailboxes of one service that write to each other over real sockets: mail of one leaves by SMTP, returns
 * through the listener, is parsed and delivered to the other.
 */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { createTransport } from 'nodemailer'
import { systemClock } from '#platform/time/clock.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { createResolver } from '#test/support/resolver.ts'

// A service that sends to itself: half a minute on a busy machine.
setDefaultTimeout(150_000)

type Json = Record<string, unknown>

interface ReplyLoop extends EmailApi {
  /** Paths of the mailboxes one@sender.test and two@sender.test. */
  readonly one: string
  readonly two: string
  /** Submits a message from one to two at the listener, like another server. */
  comesToTwo(headers?: Readonly<Record<string, string>>): Promise<void>
}

async function startReplyLoop(): Promise<ReplyLoop> {
  const port = await findFreePort()
  const dns = await startDnsServer({
    'sender.test': { MX: [{ preference: 10, exchange: 'mx.sender.test' }] },
    'mx.sender.test': { A: ['127.0.0.1'] },
  })
  const service = await createEmailApi({
    clock: systemClock,
    delivers: true,
    receives: true,
    // A busy machine answers late, and a failed lookup would be repeated only minutes later.
    resolver: createResolver(dns, { timeoutMs: 20_000 }),
    settings: { TASSIS_SMTP_PORT: String(port), TASSIS_INBOUND_ADDR: `127.0.0.1:${port}` },
  })
  service.app.db.run('UPDATE domains SET inbound_enabled = 1 WHERE verified_at IS NOT NULL')
  const make = async (localPart: string) => {
    const made = await service.api('POST', '/v1/agent-mailboxes', { local_part: localPart })
    return `/v1/agent-mailboxes/${at(made.body, 'data', 'id')}`
  }
  return {
    ...service,
    one: await make('one'),
    two: await make('two'),
    async comesToTwo({ 'Message-ID': messageId = '<question@elsewhere.test>', ...headers } = {}) {
      const transport = createTransport({ host: '127.0.0.1', port, tls: { rejectUnauthorized: false } })
      const { rejected } = await transport.sendMail({
        from: 'one@sender.test',
        to: 'two@sender.test',
        subject: 'A question',
        text: 'Who are you?',
        messageId,
        headers,
      })
      transport.close()
      expect(rejected).toEqual([])
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns.close()
    },
  }
}

/** The newest message of a mailbox, once it has this many. */
const newest = ({ api }: ReplyLoop, mailbox: string, count: number): Promise<Json> =>
  eventually(async () => {
    const { body } = await api('GET', `${mailbox}/messages`)
    return at(body, 'pagination', 'total') === count && (at(body, 'data', 0) as Json)
  }, 60_000)

// Proves: mailbox-5
test('a question, its reply and the answer to that are one thread in each mailbox', async () => {
  await using loop = await startReplyLoop()
  const { api, one, two } = loop
  await loop.comesToTwo()
  const question = await newest(loop, two, 1)
  const reply = await api('POST', `${two}/messages/${question['id']}/reply`, { text_body: 'I am two.' })
  const came = await newest(loop, one, 1)
  expect(came).toMatchObject({
    message_id: at(reply.body, 'data', 'message_id'),
    in_reply_to: '<question@elsewhere.test>',
    references: '<question@elsewhere.test>',
    from_header: 'two@sender.test',
    subject: 'Re: A question',
  })
  const again = await api('POST', `${one}/messages/${came['id']}/reply`, { text_body: 'I see.' })
  expect(await newest(loop, two, 2)).toMatchObject({
    message_id: at(again.body, 'data', 'message_id'),
    references: `<question@elsewhere.test> ${at(reply.body, 'data', 'message_id')}`,
    subject: 'Re: A question',
    thread_id: question['thread_id'],
  })
  const threadsOf = async (mailbox: string) =>
    (at((await api('GET', `${mailbox}/threads`)).body, 'data') as Json[]).map((thread) => thread['message_count'])
  expect([await threadsOf(one), await threadsOf(two)]).toEqual([[2], [3]])
})

// Proves: mailbox-12
test('when both reply automatically, a message from one to the other gets one reply, and that reply gets none', async () => {
  await using loop = await startReplyLoop()
  const { api, app, one, two } = loop
  for (const mailbox of [one, two])
    await api('PATCH', `${mailbox}/auto-responder`, { enabled: true, rules: [{ reply: { text_body: 'I am away.' } }] })
  await loop.comesToTwo()
  expect(await newest(loop, one, 1)).toMatchObject({
    subject: 'Auto: A question',
    from_header: 'two@sender.test',
    in_reply_to: '<question@elsewhere.test>',
  })
  // Any reply has been sent when the processing of received mail has ended.
  await loop.inbound?.stop()
  expect(app.db.query('SELECT from_address AS "from", subject FROM emails').all()).toEqual([
    { from: 'two@sender.test', subject: 'Auto: A question' },
  ])
})

test('an automatic reply to a message without a usable Message-ID is in the thread of the message', async () => {
  await using loop = await startReplyLoop()
  const { api, app, two } = loop
  await api('PATCH', `${two}/auto-responder`, { enabled: true, rules: [{ reply: { text_body: 'I am away.' } }] })
  await loop.comesToTwo({ 'Message-ID': `<${'a'.repeat(600)}@elsewhere.test>` })
  await eventually(() => app.db.query('SELECT id FROM emails').get())
  const threads = (await api('GET', `${two}/threads`)).body
  expect(at(threads, 'data')).toMatchObject([{ subject: 'Auto: A question', message_count: 2 }])
})

// Proves: mailbox-12
test('an automatic message is received and not answered', async () => {
  await using loop = await startReplyLoop()
  const { api, app, two } = loop
  await api('PATCH', `${two}/auto-responder`, { enabled: true, rules: [{ reply: { text_body: 'I am away.' } }] })
  await loop.comesToTwo({ 'Auto-Submitted': 'auto-generated' })
  await loop.comesToTwo({ Precedence: 'bulk' })
  await loop.comesToTwo({ 'List-Unsubscribe': '<mailto:x@elsewhere.test>' })
  await loop.comesToTwo({ 'X-Auto-Response-Suppress': 'OOF' })
  await newest(loop, two, 4)
  await loop.inbound?.stop()
  expect(app.db.query('SELECT COUNT(*) AS n FROM emails').get()).toEqual({ n: 0 })
})
