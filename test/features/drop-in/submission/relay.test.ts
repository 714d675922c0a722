/**
 * @module A real Postfix with OpenDKIM as the client, as on a host whose programs send by the local mail server: it
 * signs what they send, adds fields of its own, and passes it on with a login. Nothing that a person would not see as
 * wrong comes back as a bounce.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createTransport } from 'nodemailer'
import { eventually } from '#test/support/app.ts'
import { VERIFIED } from '#test/support/email-api.ts'
import { isOpenDkimAvailable, type OpenDkim, startOpenDkim } from '#test/support/opendkim.ts'
import { isPostfixAvailable, type Postfix, startPostfix } from '#test/support/postfix.ts'
import { type SubmissionFixture, startSubmissionFixture } from './fixture.ts'

const isAvailable = isPostfixAvailable() && isOpenDkimAvailable()

describe.skipIf(!isAvailable)('a Postfix with OpenDKIM', () => {
  let service: SubmissionFixture
  let signer: OpenDkim
  let postfix: Postfix
  beforeAll(async () => {
    service = await startSubmissionFixture()
    signer = await startOpenDkim(VERIFIED)
    postfix = await startPostfix({
      // Takes the bounces of the relay.
      mailboxes: ['bounces@relay.test'],
      relay: { port: service.port },
      settings: {
        myhostname: 'relay.test',
        smtpd_milters: `inet:127.0.0.1:${signer.port}`,
        milter_default_action: 'tempfail',
        smtp_tls_security_level: 'encrypt',
        smtp_sasl_auth_enable: 'yes',
        smtp_sasl_password_maps: `static:apikey:${service.key}`,
        smtp_sasl_security_options: 'noanonymous',
      },
    })
  })
  afterAll(async () => {
    await postfix?.[Symbol.asyncDispose]()
    await signer?.[Symbol.asyncDispose]()
    await service?.[Symbol.asyncDispose]()
  })

  /** Sends from a program of the host; resolves with the email once Postfix has passed it on. */
  async function send(
    subject: string,
    fields: readonly string[],
    to: readonly string[],
  ): Promise<Record<string, unknown>> {
    const transport = createTransport({ host: '127.0.0.1', port: postfix.port, tls: { rejectUnauthorized: false } })
    const raw = [
      `From: Ada <ada@${VERIFIED}>`,
      'To: bob@receiver.test',
      `Subject: ${subject}`,
      ...fields,
      '',
      'Hello.',
      '',
    ]
    await transport.sendMail({ envelope: { from: 'bounces@relay.test', to: [...to] }, raw: raw.join('\r\n') })
    transport.close()
    const id = await eventually(async () => {
      const { body } = await service.api('GET', `/v1/emails?subject=${encodeURIComponent(subject)}`)
      return (body as { data: { id: string }[] }).data[0]?.id
    })
    return service.detail(id)
  }

  // Proves: submission-1
  test('signs, and its mail is accepted without its signature', async () => {
    const email = await send('Signed', ['X-Mailer: Cron'], ['bob@receiver.test'])
    expect(email).toMatchObject({ status: 'queued', headers: { 'X-Mailer': 'Cron' } })
    const source = await service.readSource(String(email['id']))
    expect(source).not.toMatch(/^(?:DKIM-|Received)/m)
    const line = await eventually(() => /status=sent \(250 .*$/m.exec(postfix.log())?.[0])
    expect(line).toMatch(/ - dropped: DKIM-Filter\)$/)
  })

  // Proves: submission-1
  test.each([
    ['a contact form', ['Reply-To: <>', 'Return-Receipt-To: webmaster']],
    [
      'a newsletter',
      ['List-Unsubscribe: <https://app.test/leave?list=7&token=AAAA', ' BBBB>, (or write)', 'Precedence: bulk'],
    ],
    ['a long report', [`X-Spam-Report: ${'* a rule of the filter that says much\r\n\t'.repeat(60)}* end`]],
  ])('passes on the mail of %s', async (name, fields) => {
    expect(await send(`Mail of ${name}`, fields, ['bob@receiver.test'])).toMatchObject({ status: 'queued' })
  })

  // Proves: submission-2
  test('gets a bounce only for the recipient to whom nothing can be sent', async () => {
    const to = ['bob@receiver.test', 'admin@intranet', 'eve@receiver.test']
    expect(await send('Three', [], to)).toMatchObject({ to: 'bob@receiver.test', bcc: ['eve@receiver.test'] })
    const bounce = await eventually(() => postfix.messages('bounces@relay.test')[0])
    const report = bounce.toString()
    expect(report).toContain('553 5.1.3 The domain "intranet" has no dot.')
    expect(report.match(/^Final-Recipient: .*$/gm)?.map((line) => line.trim())).toEqual([
      'Final-Recipient: rfc822; admin@intranet',
    ])
  })
})
