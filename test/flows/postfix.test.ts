import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { simpleParser } from 'mailparser'
import { openUnsubscribeToken } from '#features/sending/unsubscribe/headers.ts'
import { eventually } from '#test/support/app.ts'
import type { Zone } from '#test/support/dns-server.ts'
import { createFolder } from '#test/support/folder.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { isPostfixAvailable, type Postfix, startPostfix } from '#test/support/postfix.ts'
import { hasDkimpy, verifyWithDkimpy, verifyWithMailauth } from '../protocols/dkim/verifiers.ts'

const ZONE: Zone = {
  'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
  'mx.receiver.test': { A: ['127.0.0.1'] },
}

const suite = describe.skipIf(!isPostfixAvailable())

/** The only message in a mailbox, once it is there. */
const delivered = (postfix: Postfix, mailbox: string): Promise<Buffer> => eventually(() => postfix.messages(mailbox)[0])

/** The header lines of one name, unfolded; those that Postfix adds at the top come first. */
function headerLines(message: Buffer, name: string): string[] {
  const header = message.toString('latin1').split('\r\n\r\n')[0] ?? ''
  const lines = header.replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n')
  return lines.filter((line) => line.toLowerCase().startsWith(`${name.toLowerCase()}:`))
}

suite('to a Postfix that accepts everything for its mailboxes', () => {
  let postfix: Postfix
  let flow: MailFlow
  beforeAll(async () => {
    postfix = await startPostfix({
      mailboxes: ['bob', 'carol', 'dave', 'erin', 'frank', 'grace', 'heidi', 'ivan'].map(
        (user) => `${user}@receiver.test`,
      ),
      greylisted: ['greylist@receiver.test'],
      messageSizeLimitBytes: 1_000_000,
    })
    flow = await startMailFlow({
      zone: ZONE,
      smtpPort: postfix.port,
      settings: { TASSIS_PUBLIC_URL: 'https://mail.tassis.test' },
    })
  })
  afterAll(async () => {
    await flow?.[Symbol.asyncDispose]()
    await postfix?.[Symbol.asyncDispose]()
  })

  // Proves: send-15, send-16, send-37, delivery-11, delivery-12, delivery-13, delivery-14
  test('a message with all features arrives over TLS, signed, complete, and separately at To, Cc and Bcc', async () => {
    const binary = Buffer.from(Array.from({ length: 300 * 1024 }, (_, i) => (i * i * 31 + (i >> 8)) & 0xff))
    const csv = Buffer.from('name;town\r\nZoë;Łódź\r\n')
    const partFiles = () =>
      readdirSync(join(flow.service.dataDir, 'content'), { recursive: true, withFileTypes: true }).filter(
        (entry) => entry.isFile() && !/\.db(-|$)/.test(entry.name),
      ).length
    const filesBefore = partFiles()
    const sent = await flow.send({
      to: 'Bob Müller <bob@receiver.test>',
      cc: ['carol@receiver.test'],
      bcc: ['dave@receiver.test'],
      subject: 'Grüße aus Łódź 📬',
      html_body: '<p>Schöne <b>Grüße</b></p>',
      text_body: 'Schöne Grüße\n.\nfrom a dot\n',
      attachments: [
        { filename: 'übersicht.csv', content: csv.toString('base64'), content_type: 'text/csv' },
        { filename: 'random.bin', content: binary.toString('base64'), content_type: 'application/octet-stream' },
      ],
    })
    const email = await flow.settled(sent)
    expect(email.recipients.map(({ address, status, sendingIp }) => ({ address, status, sendingIp }))).toEqual(
      ['bob', 'carol', 'dave'].map((user) => ({
        address: `${user}@receiver.test`,
        status: 'sent',
        sendingIp: '127.0.0.1',
      })),
    )

    const messages = await Promise.all(
      ['bob', 'carol', 'dave'].map((user) => delivered(postfix, `${user}@receiver.test`)),
    )
    for (const message of messages) {
      expect(headerLines(message, 'Received').join()).toContain('using TLSv1.3 with cipher')
      const parsed = await simpleParser(message)
      expect(parsed.subject).toBe('Grüße aus Łódź 📬')
      expect(parsed.html).toBe('<p>Schöne <b>Grüße</b></p>')
      expect(parsed.text?.trimEnd()).toBe('Schöne Grüße\n.\nfrom a dot')
      expect(parsed.attachments.map(({ filename, contentType }) => ({ filename, contentType }))).toEqual([
        { filename: 'übersicht.csv', contentType: 'text/csv' },
        { filename: 'random.bin', contentType: 'application/octet-stream' },
      ])
      expect(parsed.attachments[0]?.content.equals(csv)).toBe(true)
      expect(parsed.attachments[1]?.content.equals(binary)).toBe(true)
      expect(headerLines(message, 'To')).toEqual(['To: =?UTF-8?Q?Bob_M=C3=BCller?= <bob@receiver.test>'])
      expect(headerLines(message, 'Cc')).toEqual(['Cc: carol@receiver.test'])
      expect(headerLines(message, 'Message-ID')).toEqual([`Message-ID: ${sent.message_id}`])
    }

    // Our message never names the Bcc recipient; Postfix adds X-Original-To and Delivered-To for the copy's own
    // recipient.
    const ours = messages.map((message) => message.subarray(message.indexOf('DKIM-Signature:')).toString('latin1'))
    for (const text of ours) {
      expect(text).not.toContain('dave')
      expect(text).not.toMatch(/^bcc:/im)
    }
    expect(new Set(ours).size).toBe(1)

    const returnPaths = messages.map((message) => headerLines(message, 'Return-Path')[0] ?? '')
    for (const path of returnPaths) expect(path).toMatch(/^Return-Path: <[a-z2-7+=-]{1,64}@send\.sender\.test>$/)
    expect(new Set(returnPaths).size).toBe(3)

    expect(await Promise.all(messages.map((message) => verifyWithMailauth(message, flow.dkimRecord)))).toEqual([
      'pass',
      'pass',
      'pass',
    ])
    if (hasDkimpy) expect(verifyWithDkimpy(messages, flow.dkimRecord)).toEqual([true, true, true])

    // The large attachment was read from a file, not from the database.
    expect(partFiles() - filesBefore).toBe(1)
  })

  // Proves: send-45
  test("both fields of one-click unsubscribe arrive complete and signed, and each copy has its own recipient's link", async () => {
    const users = ['heidi@receiver.test', 'ivan@receiver.test']
    const [to = '', ...cc] = users
    await flow.settled(await flow.send({ to, cc, transactional: false }))
    const messages = await Promise.all(users.map((user) => delivered(postfix, user)))
    for (const [i, message] of messages.entries()) {
      expect(headerLines(message, 'List-Unsubscribe-Post')).toEqual([
        'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
      ])
      const [field = ''] = headerLines(message, 'List-Unsubscribe')
      const [, token = ''] =
        /^List-Unsubscribe: <https:[^<>,]+\/u\/([\w-]+)>, <mailto:[^<>,]+\?subject=\1>$/.exec(field) ?? []
      expect(openUnsubscribeToken(flow.app.keys, token)?.address).toBe(users[i] ?? '')
    }
    const tampered = messages.map((message) => Buffer.from(message.toString('latin1').replace('/u/', '/U/'), 'latin1'))
    const all = [...messages, ...tampered]
    const verdicts = await Promise.all(all.map((message) => verifyWithMailauth(message, flow.dkimRecord)))
    expect(verdicts).toEqual(['pass', 'pass', 'fail', 'fail'])
    if (hasDkimpy) expect(verifyWithDkimpy(all, flow.dkimRecord)).toEqual([true, true, false, false])
  })

  // Proves: status-15, delivery-9, delivery-10
  test('the delivery event has the server, its reply, the source address and the TLS of the session', async () => {
    const { events } = await flow.outcome('erin@receiver.test')
    expect(events).toEqual([
      { type: 'sent', recipient: 'erin@receiver.test', data: {} },
      {
        type: 'delivered',
        recipient: 'erin@receiver.test',
        data: {
          smtp_response: expect.stringMatching(/^250 2\.0\.0 Ok: queued as [0-9A-F]+$/),
          ip_address: '127.0.0.1',
          remote_mta: 'mx.receiver.test [127.0.0.1]',
          tls: expect.stringMatching(/^TLSv1\.3 TLS_\w+, certificate not verified: DEPTH_ZERO_SELF_SIGNED_CERT$/),
          timings: expect.objectContaining({ mail: expect.any(Number), body: expect.any(Number) }),
        },
      },
    ])
  })

  // Proves: email-19, status-5, status-23, delivery-15
  test('an unknown user bounces hard as invalid_recipient, and DATA never begins', async () => {
    const { recipient, events } = await flow.outcome('unknown@receiver.test')
    const reply = '550 5.1.1 <unknown@receiver.test>: Recipient address rejected: User unknown in virtual mailbox table'
    expect(recipient).toMatchObject({
      status: 'bounced',
      bounceType: 'hard',
      bounceCategory: 'invalid_recipient',
      attempts: 1,
      nextAt: null,
      deliveryStartedAt: null,
      smtpResponse: reply,
    })
    expect(events).toMatchObject([
      {
        type: 'bounced',
        data: { bounce_type: 'hard', bounce_category: 'invalid_recipient', diagnostic_code: `smtp; ${reply}` },
      },
    ])
  })

  // Proves: email-19, status-1, status-16, delivery-15
  test('a greylisted recipient is deferred and due again in 60 to 66 seconds', async () => {
    const before = flow.app.clock.now()
    const { recipient, events } = await flow.outcome('greylist@receiver.test')
    const reply = '450 4.2.0 <greylist@receiver.test>: Recipient address rejected: Greylisted'
    expect(recipient).toMatchObject({
      status: 'queued',
      attempts: 1,
      deliveryStartedAt: null,
      smtpResponse: reply,
      lastError: reply,
    })
    const after = flow.app.clock.now()
    expect(recipient.nextAt).toBeGreaterThanOrEqual(before + 60_000)
    expect(recipient.nextAt).toBeLessThanOrEqual(after + 66_000)
    expect(events).toMatchObject([
      { type: 'deferred', data: { smtp_response: reply, next_retry_at: recipient.nextAt } },
    ])
  })

  // Proves: status-10
  test('one rejected recipient of three bounces alone; the email is bounced, the others receive it', async () => {
    // Another address than above, which is suppressed by now.
    const sent = await flow.send({ to: ['frank@receiver.test', 'nobody@receiver.test'], cc: ['erin@receiver.test'] })
    const email = await flow.settled(sent)
    expect(email.recipients.map(({ status }) => status)).toEqual(['sent', 'bounced', 'sent'])
    expect(email.status).toBe('bounced')
  })

  // Proves: delivery-16
  test('a message above the announced SIZE bounces as message_too_large without DATA', async () => {
    const content = Buffer.alloc(900_000, 7).toString('base64')
    const { recipient } = await flow.outcome('frank@receiver.test', {
      subject: 'Too large',
      attachments: [{ filename: 'large.bin', content, content_type: 'application/octet-stream' }],
    })
    expect(recipient).toMatchObject({
      status: 'bounced',
      bounceType: 'soft',
      bounceCategory: 'message_too_large',
      deliveryStartedAt: null,
    })
    expect(postfix.messages('frank@receiver.test').some((message) => message.includes('Too large'))).toBe(false)
  })

  test('many messages share sessions, and each arrives once', async () => {
    // Postfix writes its log later than it serves: by this rejection, all that was logged before is written.
    await flow.outcome('logged@receiver.test')
    await eventually(() => postfix.log().includes('<logged@receiver.test>'))
    const sessions = () => postfix.log().match(/smtpd\[\d+\]: Anonymous TLS connection established/g)?.length ?? 0
    const sessionsBefore = sessions()
    const subjects = Array.from({ length: 40 }, (_, i) => `Number ${i}`)
    const sent = await Promise.all(subjects.map((subject) => flow.send({ to: 'grace@receiver.test', subject })))
    for (const response of sent) expect((await flow.settled(response)).status).toBe('sent')
    const arrived = await eventually(() => {
      const found = postfix
        .messages('grace@receiver.test')
        .flatMap((message) => headerLines(message, 'Subject').filter((line) => line.includes('Number')))
      return found.length >= subjects.length && found
    })
    expect(sessions() - sessionsBefore).toBeLessThanOrEqual(10)
    expect(arrived.sort()).toEqual(subjects.map((subject) => `Subject: ${subject}`).sort())
  })
})

suite('through a Postfix as smarthost', () => {
  const users = { tassis: 'geheim/ü 1' }
  const credentials = `tassis:${encodeURIComponent(users.tassis)}`
  let postfix: Postfix
  beforeAll(async () => {
    postfix = await startPostfix({ mailboxes: ['bob@elsewhere.test', 'carol@elsewhere.test'], users })
  })
  afterAll(() => postfix?.[Symbol.asyncDispose]())

  const relayTo = (url: string, relayTls: 'required' | 'opportunistic') =>
    startMailFlow({ settings: { TASSIS_DELIVERY: 'relay', TASSIS_RELAY_URL: url, TASSIS_RELAY_TLS: relayTls } })

  // Proves: delivery-18
  test('all mail goes there with AUTH over STARTTLS, without asking DNS for the recipient', async () => {
    await using flow = await relayTo(`smtp://${credentials}@127.0.0.1:${postfix.port}`, 'opportunistic')
    const { recipient } = await flow.outcome('bob@elsewhere.test')
    expect(recipient.status).toBe('sent')
    const message = await delivered(postfix, 'bob@elsewhere.test')
    expect(headerLines(message, 'Received').join()).toMatch(/using TLSv1\.3 .*\(Authenticated sender: tassis\)/)
    expect(await verifyWithMailauth(message, flow.dkimRecord)).toBe('pass')
    expect(flow.dns.queries).toEqual([])
  })

  test('a wrong password defers the mail with the reply of the smarthost, and nothing is submitted', async () => {
    await using flow = await relayTo(`smtp://tassis:wrong@127.0.0.1:${postfix.port}`, 'opportunistic')
    const { recipient, events } = await flow.outcome('carol@elsewhere.test')
    expect(recipient).toMatchObject({
      status: 'queued',
      attempts: 1,
      smtpResponse: expect.stringMatching(/^535 5\.7\.8 /),
    })
    expect(events).toMatchObject([{ type: 'deferred', data: { bounce_category: 'authentication' } }])
    expect(postfix.messages('carol@elsewhere.test')).toEqual([])
  })

  test('with TLS required an untrusted certificate defers the mail, and no password is sent', async () => {
    await using flow = await relayTo(`smtp://nobody:secret@127.0.0.1:${postfix.port}`, 'required')
    const { recipient, events } = await flow.outcome('carol@elsewhere.test')
    expect(recipient).toMatchObject({ status: 'queued', attempts: 1 })
    expect(events).toMatchObject([
      {
        type: 'deferred',
        data: {
          bounce_category: 'tls_failure',
          reason: expect.stringContaining('presented a self-signed certificate'),
        },
      },
    ])
    expect(postfix.log()).not.toContain('sasl_username=nobody')
  })

  test('smtps:// checks the certificate too', async () => {
    await using implicit = await startPostfix({ mailboxes: ['bob@elsewhere.test'], tls: 'implicit' })
    await using flow = await relayTo(`smtps://127.0.0.1:${implicit.port}`, 'opportunistic')
    const { events } = await flow.outcome('bob@elsewhere.test')
    expect(events).toMatchObject([{ type: 'deferred', data: { bounce_category: 'tls_failure' } }])
    expect(implicit.messages('bob@elsewhere.test')).toEqual([])
  })
})

suite('through a farm of two Postfix behind one name', () => {
  const mailbox = 'bob@elsewhere.test'
  const toSubjects = (farm: readonly Postfix[]) =>
    farm.flatMap((postfix) => postfix.messages(mailbox).flatMap((message) => headerLines(message, 'Subject')))

  test('both get mail; when one dies, the other gets the rest, and every message arrives once', async () => {
    await using first = await startPostfix({ mailboxes: [mailbox] })
    await using second = await startPostfix({ mailboxes: [mailbox], address: '127.0.0.2', port: first.port })
    using folder = createFolder({ 'providers.toml': '[smarthost]\nmessages_per_connection = 1\n' })
    await using flow = await startMailFlow({
      zone: { 'relay.test': { A: ['127.0.0.1', '127.0.0.2'] } },
      settings: {
        TASSIS_DELIVERY: 'relay',
        TASSIS_RELAY_URL: `smtp://relay.test:${first.port}`,
        TASSIS_RELAY_TLS: 'opportunistic',
        TASSIS_PROVIDERS_FILE: folder.pathOf('providers.toml'),
      },
    })
    const subjects: string[] = []
    const send = async (count: number) => {
      const added = Array.from({ length: count }, (_, i) => `Number ${subjects.length + i}`)
      subjects.push(...added)
      const sent = await Promise.all(added.map((subject) => flow.send({ to: mailbox, subject })))
      return Promise.all(sent.map((one) => flow.settled(one)))
    }
    await send(40)
    await eventually(() => toSubjects([first, second]).length === subjects.length)
    const before = first.messages(mailbox).length
    expect(before).toBeGreaterThan(0)
    expect(before).toBeLessThan(subjects.length)
    await first.stop()
    const settled = await send(40)
    expect(
      settled
        .flatMap(({ recipients }) => recipients)
        .filter(({ status, attempts }) => status !== 'sent' || attempts !== 1),
    ).toEqual([])
    await eventually(() => toSubjects([first, second]).length === subjects.length)
    expect(first.messages(mailbox).length).toBe(before)
    expect(toSubjects([first, second]).sort()).toEqual(subjects.map((subject) => `Subject: ${subject}`).sort())
  })
})
