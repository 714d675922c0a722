/** @module Unmodified mail clients, each with nothing but its documented settings, against the service. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createTransport } from 'nodemailer'
import { VERIFIED } from '#test/support/email-api.ts'
import { idOf, type SubmissionFixture, startSubmissionFixture } from './fixture.ts'

const PHPMAILER = '/usr/share/php/libphp-phpmailer/autoload.php'
const DJANGO = '/usr/lib/python3/dist-packages/django'
const SYMFONY = '/usr/share/php/Symfony/Component/Mailer/autoload.php'
const RUBY_MAIL = '/usr/share/doc/ruby-mail'

let service: SubmissionFixture

beforeAll(async () => {
  service = await startSubmissionFixture()
})
afterAll(() => service[Symbol.asyncDispose]())

/** The newest email. */
async function readNewest(): Promise<Record<string, unknown>> {
  const { body } = await service.api('GET', '/v1/emails?per_page=1')
  const [email] = (body as { data: { id: string }[] }).data
  return service.detail(email?.id)
}

async function run(command: readonly string[], stdin = ''): Promise<{ exitCode: number; output: string }> {
  const child = Bun.spawn([...command], { stdin: Buffer.from(stdin), stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { exitCode, output: stdout + stderr }
}

describe('Nodemailer', () => {
  const createClient = (secure: boolean, pass = service.key) =>
    createTransport({
      host: '127.0.0.1',
      port: secure ? service.tlsPort : service.port,
      secure,
      auth: { user: 'apikey', pass },
      tls: { rejectUnauthorized: false },
    })

  test.each([['TLS', true] as const, ['STARTTLS', false] as const])('sends with %s', async (_, secure) => {
    const sent = await createClient(secure).sendMail({
      from: `Ada <ada@${VERIFIED}>`,
      to: 'Bob <bob@receiver.test>',
      cc: 'carol@receiver.test',
      bcc: 'dora@receiver.test',
      subject: 'Grüße',
      text: 'Hello',
      html: '<img src="cid:logo">',
      attachments: [{ filename: 'a.png', content: Buffer.from([1, 2, 3]), cid: 'logo' }],
    })
    const id = idOf(sent.response)
    expect(await service.detail(id)).toMatchObject({
      message_id: sent.messageId,
      from_address: `Ada <ada@${VERIFIED}>`,
      to: 'bob@receiver.test',
      cc: ['carol@receiver.test'],
      bcc: ['dora@receiver.test'],
      subject: 'Grüße',
      text_body: 'Hello',
      html_body: '<img src="cid:logo">',
      attachments: [{ filename: 'a.png', content_type: 'image/png', content_id: 'logo', size: 3 }],
    })
    expect(await service.readSource(id)).toContain(`Message-ID: ${sent.messageId}\r\n`)
  })

  test('gets our sentence as its error, for a wrong key and for a domain of somebody else', async () => {
    const mail = { from: 'ada@other.test', to: 'bob@receiver.test', subject: 'S', text: 'T' }
    expect(
      await createClient(false, 'wrong')
        .sendMail(mail)
        .catch((error: unknown) => error),
    ).toMatchObject({
      code: 'EAUTH',
      responseCode: 535,
    })
    expect(
      await createClient(false)
        .sendMail(mail)
        .catch((error: unknown) => error),
    ).toMatchObject({
      responseCode: 550,
      response: '550 5.7.1 The domain other.test is not registered on this account; add it with POST /v1/domains.',
    })
  })

  test('sends many messages over pooled connections', async () => {
    const transport = createTransport({
      pool: true,
      maxConnections: 3,
      host: '127.0.0.1',
      port: service.port,
      auth: { user: 'apikey', pass: service.key },
      tls: { rejectUnauthorized: false },
    })
    const sent = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        transport.sendMail({ from: `ada@${VERIFIED}`, to: 'bob@receiver.test', subject: `Pooled ${i}`, text: 'T' }),
      ),
    )
    transport.close()
    expect(new Set(sent.map(({ response }) => idOf(response))).size).toBe(50)
  })
})

describe.skipIf(Bun.which('swaks') === null)('swaks', () => {
  test.each([
    ['STARTTLS and PLAIN', ['--tls', '--auth', 'PLAIN'], 'starttls'],
    ['STARTTLS and LOGIN', ['--tls', '--auth', 'LOGIN'], 'starttls'],
    ['TLS and pipelining', ['--tls-on-connect', '--auth', 'PLAIN', '--pipeline'], 'tls'],
  ])('sends with %s', async (name, options, kind) => {
    const port = kind === 'tls' ? service.tlsPort : service.port
    const { exitCode, output } = await run([
      ...['swaks', '--server', '127.0.0.1', '--port', String(port), ...options],
      ...['--auth-user', 'tassis', '--auth-password', service.key],
      ...['--from', `ada@${VERIFIED}`, '--to', 'bob@receiver.test', '--header', `Subject: ${name}`],
    ])
    expect({ exitCode, output: exitCode === 0 ? '' : output }).toEqual({ exitCode: 0, output: '' })
    expect(await readNewest()).toMatchObject({
      subject: name,
      to: 'bob@receiver.test',
      headers: { 'X-Mailer': expect.stringContaining('swaks') },
    })
  })
})

describe.skipIf(Bun.which('curl') === null)('curl', () => {
  test('sends as docs/submission.md shows it', async () => {
    const document = await Bun.file(join(import.meta.dir, '../../../../docs/submission.md')).text()
    const [, , block = ''] = document.split('```bash\n').map((text) => text.split('```')[0] ?? '')
    const script = block
      .replaceAll('127.0.0.1:1465', `127.0.0.1:${service.tlsPort}`)
      .replaceAll('example.test', VERIFIED)
      .replaceAll('$(cat data/first-key)', service.key)
    expect(await run(['bash', '-c', script])).toEqual({ exitCode: 0, output: '' })
    expect(await readNewest()).toMatchObject({ subject: 'Hello', tags: ['welcome'], text_body: 'By SMTP.\n' })
  })
})

describe.skipIf(Bun.which('msmtp') === null)('msmtp', () => {
  test.each([['starttls'], ['tls']])('sends with %s, trusting our certificate', async (kind) => {
    const { exitCode, output } = await run(
      [
        ...['msmtp', '--host=127.0.0.1', `--port=${kind === 'tls' ? service.tlsPort : service.port}`, '--tls=on'],
        ...[`--tls-starttls=${kind === 'tls' ? 'off' : 'on'}`, '--tls-host-override=mail.tassis.test'],
        ...[`--tls-trust-file=${join(service.dataDir, 'inbound-tls.pem')}`, '--auth=on', '--user=apikey'],
        ...[`--passwordeval=echo ${service.key}`, `--from=ada@${VERIFIED}`, '--read-recipients'],
      ],
      `From: ada@${VERIFIED}\nTo: bob@receiver.test\nBcc: dora@receiver.test\nSubject: By ${kind}\n\nHello\n.\n`,
    )
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: '' })
    expect(await readNewest()).toMatchObject({
      subject: `By ${kind}`,
      bcc: ['dora@receiver.test'],
      text_body: 'Hello\n.\n',
    })
  })
})

describe.skipIf(!existsSync(PHPMAILER))('PHPMailer', () => {
  test('sends HTML with a picture', async () => {
    const script = join(service.dataDir, 'mail.php')
    writeFileSync(
      script,
      `<?php
require '${PHPMAILER}';
$mail = new PHPMailer\\PHPMailer\\PHPMailer(true);
$mail->isSMTP();
$mail->Host = '127.0.0.1';
$mail->Port = ${service.port};
$mail->SMTPSecure = 'tls';
$mail->SMTPAuth = true;
$mail->Username = 'apikey';
$mail->Password = '${service.key}';
$mail->SMTPOptions = ['ssl' => ['verify_peer' => false, 'verify_peer_name' => false]];
$mail->CharSet = 'utf-8';
$mail->setFrom('ada@${VERIFIED}', 'Ada');
$mail->addAddress('bob@receiver.test', 'Bob');
$mail->addBCC('dora@receiver.test');
$mail->addCustomHeader('X-Tassis-Tags', 'php');
$mail->Subject = 'Grüße';
$mail->isHTML();
$mail->Body = '<img src="cid:logo">';
$mail->AltBody = 'Hello';
$mail->addStringEmbeddedImage("\\x01\\x02\\x03", 'logo', 'a.png', 'base64', 'image/png');
$mail->send();
echo $mail->getSMTPInstance()->getLastTransactionID();
`,
    )
    const { exitCode, output } = await run(['php', script])
    // PHPMailer reads the id from the reply.
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: expect.stringMatching(/^[0-9a-f-]{36}$/) })
    expect(await readNewest()).toMatchObject({
      id: output,
      subject: 'Grüße',
      tags: ['php'],
      bcc: ['dora@receiver.test'],
      html_body: expect.stringContaining('<img src="cid:logo">'),
      attachments: [{ filename: 'a.png', content_id: 'logo', size: 3 }],
    })
  })
})

describe.skipIf(!existsSync(DJANGO))('Django', () => {
  test.each([['EMAIL_USE_TLS'], ['EMAIL_USE_SSL']])('sends with %s', async (setting) => {
    const { exitCode, output } = await run([
      '/usr/bin/python3',
      '-c',
      `from django.conf import settings
settings.configure(EMAIL_HOST='127.0.0.1', EMAIL_PORT=${setting === 'EMAIL_USE_SSL' ? service.tlsPort : service.port}, ${setting}=True,
  EMAIL_HOST_USER='apikey', EMAIL_HOST_PASSWORD='${service.key}')
from django.core.mail import EmailMultiAlternatives
mail = EmailMultiAlternatives('${setting}', 'Hello', 'Ada <ada@${VERIFIED}>', ['bob@receiver.test'], ['dora@receiver.test'], headers={'X-Tassis-Metadata': '{"order": "42"}'})
mail.attach_alternative('<b>Hello</b>', 'text/html')
mail.attach('a.txt', 'Text', 'text/plain')
print(mail.send())
`,
    ])
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: '1\n' })
    expect(await readNewest()).toMatchObject({
      subject: setting,
      metadata: { order: '42' },
      bcc: ['dora@receiver.test'],
      text_body: 'Hello',
      html_body: '<b>Hello</b>',
      attachments: [{ filename: 'a.txt', content_type: 'text/plain; charset=utf-8', size: 4 }],
    })
  })
})

describe.skipIf(!existsSync(SYMFONY))('Symfony', () => {
  test.each([['smtps'], ['smtp']])('sends with %s', async (scheme) => {
    const script = join(service.dataDir, 'symfony.php')
    const port = scheme === 'smtps' ? service.tlsPort : service.port
    writeFileSync(
      script,
      `<?php
require '${SYMFONY}';
use Symfony\\Component\\Mailer\\Transport;
use Symfony\\Component\\Mime\\Email;
$mail = (new Email())->from('Ada <ada@${VERIFIED}>')->to('bob@receiver.test')->bcc('dora@receiver.test')
  ->subject('Grüße by ${scheme}')->text('Hello')->html('<img src="cid:logo">')->embed("\\x01\\x02\\x03", 'logo', 'image/png');
$mail->getHeaders()->addTextHeader('X-Tassis-Tags', 'symfony');
Transport::fromDsn('${scheme}://apikey:${service.key}@127.0.0.1:${port}?verify_peer=0')->send($mail);
`,
    )
    expect(await run(['php', script])).toEqual({ exitCode: 0, output: '' })
    expect(await readNewest()).toMatchObject({
      subject: `Grüße by ${scheme}`,
      tags: ['symfony'],
      bcc: ['dora@receiver.test'],
      html_body: expect.stringMatching(/^<img src="cid:[^"]+">$/),
      attachments: [{ filename: 'logo', content_type: 'image/png', content_id: expect.any(String), size: 3 }],
    })
  })
})

// What Rails sends with.
describe.skipIf(!existsSync(RUBY_MAIL))("Ruby's Mail", () => {
  test.each([
    ['TLS', 'tls: true'],
    ['STARTTLS', 'enable_starttls_auto: true'],
  ])('sends with %s', async (name, setting) => {
    const { exitCode, output } = await run([
      ...['ruby', '-r', 'mail', '-e'],
      `mail = Mail.new do
  from 'Ada <ada@${VERIFIED}>'
  to 'bob@receiver.test'
  bcc 'dora@receiver.test'
  subject 'Grüße by ${name}'
  text_part { body 'Hello' }
  html_part { content_type 'text/html; charset=UTF-8'; body '<b>Hello</b>' }
  add_file filename: 'a.txt', content: 'Text'
end
mail.header['X-Tassis-Tags'] = 'ruby'
mail.delivery_method :smtp, address: '127.0.0.1', port: ${name === 'TLS' ? service.tlsPort : service.port}, ${setting},
  user_name: 'apikey', password: '${service.key}', authentication: :plain, openssl_verify_mode: 'none'
mail.deliver!
`,
    ])
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: '' })
    expect(await readNewest()).toMatchObject({
      subject: `Grüße by ${name}`,
      tags: ['ruby'],
      bcc: ['dora@receiver.test'],
      text_body: 'Hello',
      html_body: '<b>Hello</b>',
      attachments: [{ filename: 'a.txt', size: 4 }],
    })
  })
})
