import { describe, expect, test } from 'bun:test'
import type { Dsn } from '#protocols/dsn/fields.ts'
import { isAutoReplyOrReceipt, parseDsn } from '#protocols/dsn/parse.ts'
import { parseMessage } from '#protocols/mime/parse.ts'
import { NO_REPORTS, SHAPES, shapeBytes } from '../../corpus/dsn/shapes.ts'

const ABOUT = {
  verp: 'b-aaaaaaaaaaaabpuqezd3mhv2yqpv6ljgxm@send.sender.test',
  messageId: '<0195c2d0-7f61-7c3e-8f25-0123456789ab@sender.test>',
  recipient: 'bob@receiver.test',
}

async function parseRaw(bytes: Uint8Array, mailFrom = ''): Promise<Dsn | undefined> {
  return parseDsn(await parseMessage(bytes, { mailFrom }), { mailFrom })
}

const mail = (...lines: string[]): Uint8Array => Buffer.from(lines.join('\r\n'))

/** A report with this status part. */
const standard = (...status: string[]): Uint8Array =>
  mail(
    'From: MAILER-DAEMON@mx.test',
    'To: b-x@send.sender.test',
    'Subject: Report',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'Words.',
    '--b',
    'Content-Type: message/delivery-status',
    '',
    ...status,
    '',
    '--b--',
    '',
  )

describe('a DSN in the shape', () => {
  // Proves: status-33
  for (const [file, , action, status, , named, returned] of SHAPES)
    test(`${file} reports ${action} with ${status ?? 'no status'}`, async () => {
      const report = await parseRaw(shapeBytes(file, ABOUT))
      const isNamed = (name: string | null) => name === ABOUT.recipient
      const entry =
        report?.recipients.find((one) => isNamed(one.finalRecipient) || isNamed(one.originalRecipient)) ??
        report?.recipients[0]
      const back = [
        report?.originalMessageId === ABOUT.messageId && 'id',
        report?.originalReturnPath === ABOUT.verp && 'path',
      ].filter((what) => what !== false)
      expect({
        action: entry?.action,
        status: entry?.status,
        named: isNamed(entry?.finalRecipient ?? null)
          ? 'final'
          : isNamed(entry?.originalRecipient ?? null)
            ? 'original'
            : 'nobody',
        returned: back.join('+') || 'none',
      }).toEqual({ action, status, named, returned })
    })
})

describe('not a DSN:', () => {
  // Proves: status-33
  for (const [file, isNull, isReplyOrReceipt] of NO_REPORTS)
    test(`${file}, ${isReplyOrReceipt ? 'an' : 'no'} automatic reply or receipt`, async () => {
      const mailFrom = isNull ? '' : 'bob@receiver.test'
      const message = await parseMessage(shapeBytes(file, ABOUT), { mailFrom })
      expect([parseDsn(message, { mailFrom }), isAutoReplyOrReceipt(message, mailFrom)]).toEqual([
        undefined,
        isReplyOrReceipt,
      ])
    })

  test("a person's mail with the words of one", async () => {
    const bytes = mail(
      'From: Bob <bob@x.test>',
      'Subject: Undelivered Mail Returned to Sender',
      '',
      '<carol@x.test>:',
      '550 5.1.1 User unknown',
    )
    expect(await parseRaw(bytes, 'bob@x.test')).toBeUndefined()
  })

  test('mail from the null reverse-path with the words of one and no other sign', async () => {
    const bytes = mail('From: Bob <bob@x.test>', 'Subject: Hello', '', 'It said: 550 5.1.1 User unknown')
    expect(await parseRaw(bytes)).toBeUndefined()
  })

  test.each([
    ['Re: Your parcel could not be delivered', 'Thank you, I am travelling until Monday.'],
    ['AW: Ihr Paket wurde nicht zugestellt', 'Ich bin ab Montag wieder da.'],
    ['[#99] Your parcel could not be delivered', 'We have got your message and will look at it.'],
    ['Autosvar: Order devuelto', 'Jag har semester.'],
  ])('a reply from the null reverse-path whose repeated subject has the words of one: %s', async (subject, text) => {
    const bytes = mail('From: Bob <bob@x.test>', `Subject: ${subject}`, 'In-Reply-To: <1@sender.test>', '', text)
    expect(await parseRaw(bytes)).toBeUndefined()
  })

  // Proves: status-25
  test.each([
    ['Successful Mail Delivery Report', 'Your message was successfully delivered to the destinations listed below.'],
    ['Delivery status notification: relayed', 'Your message was relayed to these recipients.'],
    [
      'Delivery Status Notification',
      'Delivery to these recipients is complete, but no delivery notification was sent.',
    ],
  ])('a success message of a mail system: %s', async (subject, text) => {
    const bytes = mail('From: MAILER-DAEMON@x.test', `Subject: ${subject}`, '', text, '', '<bob@x.test>: 250 2.0.0 Ok')
    expect(await parseRaw(bytes)).toBeUndefined()
  })

  test('a message with Return-Path <> in its own header that came from another reverse-path', async () => {
    const bytes = mail(
      'Return-Path: <>',
      'From: Bob <bob@x.test>',
      'Subject: Undeliverable',
      '',
      '550 5.1.1 User unknown',
    )
    expect(await parseRaw(bytes, 'bob@x.test')).toBeUndefined()
  })

  test('a status part that a person attached', async () => {
    const bytes = Buffer.from(
      standard('Final-Recipient: rfc822; bob@x.test', 'Action: failed', 'Status: 5.1.1')
        .toString()
        .replace('MAILER-DAEMON@mx.test', 'Bob <bob@x.test>')
        .replace('multipart/report; report-type=delivery-status', 'multipart/mixed'),
    )
    expect(await parseRaw(bytes, 'bob@x.test')).toBeUndefined()
  })

  test.each([
    'Out of Office: Undeliverable: Hello',
    'AW: Automatische Antwort: Hallo',
    'Réponse automatique : Bonjour',
    'Respuesta automática: Hola',
    'Risposta automatica: Ciao',
    'Resposta automática: Oi',
    '自動返信: こんにちは',
    'Read: Hello',
    'Gelesen: Hallo',
  ])('an automatic reply from a mail system: %s', async (subject) => {
    const bytes = mail(
      'From: MAILER-DAEMON@x.test',
      `Subject: =?utf-8?B?${Buffer.from(subject).toString('base64')}?=`,
      '',
      'Your message could not be delivered to me. 550 5.1.1 User unknown',
    )
    expect(await parseRaw(bytes)).toBeUndefined()
  })
})

test('a standard DSN is read completely, unfolded and without types', async () => {
  expect(await parseRaw(shapeBytes('postfix-unknown-user', ABOUT))).toEqual({
    recipients: [
      {
        action: 'failed',
        finalRecipient: ABOUT.recipient,
        originalRecipient: ABOUT.recipient,
        status: '5.1.1',
        diagnostic: `550 5.1.1 <${ABOUT.recipient}>: Recipient address rejected: User unknown in virtual mailbox table`,
        remoteMta: 'store.receiver.test',
      },
    ],
    originalMessageId: ABOUT.messageId,
    originalReturnPath: ABOUT.verp,
  })
})

test('a DSN in words has its address, its diagnostic and the returned headers', async () => {
  expect(await parseRaw(shapeBytes('qmail-remote-refusal', ABOUT))).toEqual({
    recipients: [
      {
        action: 'failed',
        finalRecipient: ABOUT.recipient,
        originalRecipient: null,
        status: '5.2.1',
        diagnostic: '550 5.2.1 Mailbox is disabled Giving up on 192.0.2.40.',
        remoteMta: null,
      },
    ],
    originalMessageId: ABOUT.messageId,
    originalReturnPath: ABOUT.verp,
  })
})

describe('the original Message-ID, when nothing is returned, is', () => {
  const STATUS = ['Final-Recipient: rfc822; bob@x.test', 'Action: failed', 'Status: 5.1.1']

  test('that of the status part', async () => {
    const report = await parseRaw(standard('Original-Message-ID: <one@sender.test>', '', ...STATUS))
    expect(report?.originalMessageId).toBe('<one@sender.test>')
  })

  test.each(['In-Reply-To: <two@sender.test>', 'References: <one@sender.test> <two@sender.test>'])(
    'the one that the DSN answers: %s',
    async (field) => {
      const text = standard(...STATUS).toString()
      const report = await parseRaw(Buffer.from(text.replace('Subject: Report', `Subject: Report\r\n${field}`)))
      expect(report?.originalMessageId).toBe('<two@sender.test>')
    },
  )
})

test('the return path is also found in Received', async () => {
  const report = await parseRaw(
    mail(
      'From: MAILER-DAEMON@x.test',
      'Subject: failure notice',
      '',
      '<bob@x.test>:',
      'Sorry, no mailbox here by that name. (#5.1.1)',
      '',
      '--- Below this line is a copy of the message.',
      '',
      'Received: from mail.tassis.test by x.test',
      `\t(envelope-from <${ABOUT.verp}>) id 1`,
      'Subject: Hello',
      '',
      'Message-ID: <not-a-header@sender.test>',
    ),
  )
  expect({ path: report?.originalReturnPath, id: report?.originalMessageId }).toEqual({ path: ABOUT.verp, id: null })
})

describe('the address of a recipient (RFC 3464 §2.3, RFC 6533 §3)', () => {
  test.each([
    ['rfc822; bob@x.test', 'bob@x.test'],
    ['RFC822;<bob@x.test>', 'bob@x.test'],
    ['rfc822; bob+2Btag@x.test', 'bob+tag@x.test'],
    ['rfc822; bob+20@x.test', 'bob+20@x.test'],
    ['utf-8; j\\x{FC}rgen@x.test', 'jürgen@x.test'],
    ['utf-8; \\x{1F600}@x.test', '😀@x.test'],
    ['utf-8; jürgen@bücher.test', 'jürgen@bücher.test'],
    ['utf-8; \\x{D800}\\x{0A}@x.test', '\\x{D800}\\x{0A}@x.test'],
    ['X400; /C=DE/S=BOB', null],
    [`rfc822; ${'b'.repeat(1000)}@x.test`, null],
  ])('%s is %s', async (field, address) => {
    const bytes = standard(`Final-Recipient: ${field}`, 'Action: failed', 'Status: 5.1.1')
    expect((await parseRaw(bytes))?.recipients.map(({ finalRecipient }) => finalRecipient)).toEqual([address])
  })
})

describe('the action', () => {
  // Proves: status-25
  test.each([
    ['failed', '5.0.0', 'failed'],
    ['Failed (permanently)', '5.0.0', 'failed'],
    ['failure', '5.0.0', 'failed'],
    ['expanded', '2.0.0', 'expanded'],
    ['Deliverable', '2.1.5', 'none'],
    ['deliverable', '5.0.0', 'none'],
    ['failed', '2.0.0', 'none'],
    ['delivered', '5.0.0', 'delivered'],
    ['delayed', '5.0.0', 'delayed'],
    ['nonsense', '2.0.0', 'none'],
    ['nonsense', '5.0.0', 'failed'],
    ['nonsense', '4.0.0', 'delayed'],
  ])('%s with status %s is %s', async (action, status, expected) => {
    const bytes = standard('Final-Recipient: rfc822; bob@x.test', `Action: ${action}`, `Status: ${status}`)
    expect((await parseRaw(bytes))?.recipients.map((recipient) => String(recipient.action))).toEqual([expected])
  })
})

describe('hostile input', () => {
  test('of too many recipients the first 100 count', async () => {
    const groups = Array.from({ length: 5000 }, (_, n) => [
      `Final-Recipient: rfc822; b${n}@x.test`,
      'Action: failed',
      '',
    ])
    expect((await parseRaw(standard(...groups.flat())))?.recipients.length).toBe(100)
  })

  test('a diagnostic of a megabyte is truncated to 2,000 characters', async () => {
    const folded = Array.from({ length: 10_000 }, () => ` ${'x'.repeat(100)}`)
    const bytes = standard(
      'Final-Recipient: rfc822; bob@x.test',
      'Action: failed',
      'Diagnostic-Code: smtp; 550 no',
      ...folded,
    )
    expect((await parseRaw(bytes))?.recipients.map(({ diagnostic }) => diagnostic?.length)).toEqual([2000])
  })

  // Each is the worst case of one expression or loop; a quadratic one would take minutes and fail the run.
  const LONG = 1_000_000
  test.each([
    ['one line', 'a'],
    ['addresses', 'a@b '],
    ['at signs', '@'],
    ['dashes', '-'],
    ['endless marks', '---x'],
    ['words of a cause', 'mailbox '],
    ['words of causes in other languages', 'postfach adresse caixa buzón '],
    ['blank lines', '\r\n'],
    ['lines of addresses', '<a@b.test>:\r\n'],
    ['lines of replies', '550 a\r\n'],
    ['lines of dashes', `${'-'.repeat(60)}\r\n`],
    ['headers', 'A: b\r\n'],
    ['digits', '5.1.'],
    ['spaces', ' '],
    ['quotes', '"'],
    ['angle brackets', '<'],
  ])(
    'a text of a megabyte of %s is parsed quickly: not a DSN, or one with few addresses if the subject says so',
    async (_, piece) => {
      const text = piece.repeat(Math.ceil(LONG / piece.length)).slice(0, LONG)
      const read = (subject: string) => parseRaw(mail('From: MAILER-DAEMON@x.test', `Subject: ${subject}`, '', text))
      expect(await read('Hello')).toBeUndefined()
      const count = (await read('Undeliverable'))?.recipients.length ?? 0
      expect(count >= 1 && count <= 50).toBe(true)
    },
  )
})
