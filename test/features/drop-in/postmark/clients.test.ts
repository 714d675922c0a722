/**
 * @module Postmark's clients of other languages as Debian has them, each with nothing but its documented settings. A
 * client that is not installed is skipped; scripts/setup-test-tools installs them.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { simpleParser } from 'mailparser'
import { addSuppression } from '#features/audience/suppressions/suppressions.ts'
import { at } from '#test/support/api.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { createEmailApi, type EmailApi, UUID } from '#test/support/email-api.ts'

const ANYMAIL = '/usr/lib/python3/dist-packages/anymail/backends/postmark.py'
const SYMFONY = '/usr/share/php/Symfony/Component/Mailer/Bridge/Postmark/autoload.php'
const RUBY = '/usr/share/doc/ruby-postmark'

const FILE = Buffer.from(Array.from({ length: 5001 }, (_, n) => (n * 37) % 256))

let service: EmailApi
let folder: string
beforeAll(async () => {
  service = await createEmailApi()
  await addSuppression(service.app, service.actor, { address: 'gone@receiver.test', reason: 'hard_bounce' })
  folder = mkdtempSync(join(tmpdir(), 'tassis-test-'))
  writeFileSync(join(folder, 'file.bin'), FILE)
})
afterAll(async () => {
  rmSync(folder, { recursive: true })
  await service[Symbol.asyncDispose]()
})

/** Runs a program; returns the JSON that it prints. */
async function run(command: readonly string[], source: string): Promise<unknown> {
  const script = join(folder, 'script')
  writeFileSync(script, source)
  const child = Bun.spawn([...command, script], { cwd: folder, stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  try {
    return JSON.parse(stdout)
  } catch {
    return { stdout, stderr }
  }
}

/** Expects the email that each of the programs sends. */
async function expectSent(id: unknown): Promise<void> {
  expect(await service.detail(id)).toMatchObject({
    from_address: 'Ada <ada@sender.test>',
    to: 'bob@receiver.test',
    cc: ['carl@receiver.test'],
    bcc: ['dora@receiver.test'],
    reply_to: 'help@sender.test',
    subject: 'Grüße',
    text_body: 'Hello, Bob.',
    html_body: '<p>Hello, Bob.</p>',
    tags: ['welcome'],
    metadata: { order: '42' },
    headers: { 'X-Own': 'yes' },
    attachments: [{ filename: 'file.bin', size: FILE.length }],
  })
  const { body } = await service.api('GET', `/resend/emails/${id}/attachments/0`)
  const { pathname, search } = new URL(String(at(body, 'download_url')))
  const content = await (await fetch(`${service.url}${pathname}${search}`)).bytes()
  expect(FILE.equals(content)).toBe(true)
}

test.skipIf(!existsSync(ANYMAIL))('Django with anymail sends, and gets its own error and status', async () => {
  const printed = await run(
    ['/usr/bin/python3'],
    `import json
from django.conf import settings
settings.configure(EMAIL_BACKEND='anymail.backends.postmark.EmailBackend',
  ANYMAIL={'POSTMARK_SERVER_TOKEN': '${service.key}', 'POSTMARK_API_URL': '${service.url}/postmark/'})
from django.core.mail import EmailMultiAlternatives
from anymail.exceptions import AnymailError, AnymailRecipientsRefused
mail = EmailMultiAlternatives('Grüße', 'Hello, Bob.', 'Ada <ada@sender.test>', ['bob@receiver.test'],
  ['dora@receiver.test'], cc=['carl@receiver.test'], reply_to=['help@sender.test'], headers={'X-Own': 'yes'})
mail.attach_alternative('<p>Hello, Bob.</p>', 'text/html')
mail.attach('file.bin', open('file.bin', 'rb').read(), 'application/octet-stream')
mail.tags = ['welcome']
mail.metadata = {'order': '42'}
mail.send()
refused = ''
try:
  EmailMultiAlternatives('S', 'T', 'ada@sender.test', ['gone@receiver.test']).send()
except AnymailRecipientsRefused as error:
  refused = str(error)
some = EmailMultiAlternatives('S', 'T', 'ada@sender.test', ['gone@receiver.test', 'bob@receiver.test'])
some.send()
wrong = ''
try:
  EmailMultiAlternatives('S', 'T', 'ada@other.test', ['bob@receiver.test']).send()
except AnymailError as error:
  wrong = str(error)
print(json.dumps({'id': mail.anymail_status.message_id, 'refused': refused, 'wrong': wrong,
  'statuses': {name: r.status for name, r in some.anymail_status.recipients.items()}}))
`,
  )
  expect(printed).toEqual({
    id: expect.stringMatching(UUID),
    refused: 'All message recipients were rejected or invalid',
    wrong: expect.stringContaining('The domain other.test is not registered on this account'),
    statuses: { 'gone@receiver.test': 'rejected', 'bob@receiver.test': 'sent' },
  })
  await expectSent(at(printed, 'id'))
})

// Proves: send-32
test.skipIf(!existsSync(ANYMAIL))(
  'Django with anymail encodes names, which are decoded, also where it folds them',
  async () => {
    const printed = await run(
      ['/usr/bin/python3'],
      `import json
from django.conf import settings
settings.configure(EMAIL_BACKEND='anymail.backends.postmark.EmailBackend',
  ANYMAIL={'POSTMARK_SERVER_TOKEN': '${service.key}', 'POSTMARK_API_URL': '${service.url}/postmark/'})
from django.core.mail import EmailMessage
mail = EmailMessage('Grüße', 'Hello, Bob.', 'Jürgen <ada@sender.test>', ['"Müller, Bob" <bob@receiver.test>'],
  ['Dörte <dora@receiver.test>'], cc=['Łukasz <carl@receiver.test>'], reply_to=['${'株式会社サンプル'.repeat(6)} <help@sender.test>'])
mail.send()
print(json.dumps({'id': mail.anymail_status.message_id}))
`,
    )
    const id = at(printed, 'id')
    const { body } = await service.api('GET', `/v1/emails/${id}/source`)
    const header = String(at(body, 'data', 'source')).split('\r\n\r\n')[0] ?? ''
    const { headers } = await simpleParser(header)
    expect(await service.detail(id)).toMatchObject({
      from_address: '"Jürgen" <ada@sender.test>',
      reply_to: `"${'株式会社サンプル'.repeat(6)}" <help@sender.test>`,
    })
    const names = ['from', 'to', 'cc', 'reply-to'].map((name) => at(headers.get(name), 'value', 0, 'name'))
    expect(names).toEqual(['Jürgen', 'Müller, Bob', 'Łukasz', '株式会社サンプル'.repeat(6)])
  },
)

describe.skipIf(!existsSync(SYMFONY) || Bun.which('php') === null)('Symfony', () => {
  test('sends to a host of which it can set only the name, and gets our sentence', async () => {
    // Symfony requires TLS.
    const authority = createCertificateAuthority()
    writeFileSync(join(folder, 'ca.pem'), authority.pem)
    const { cert, key } = authority.issue(['localhost'])
    await using proxy = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      tls: { cert, key },
      fetch: (request) => {
        const { pathname } = new URL(request.url)
        return fetch(`${service.url}${pathname}`, { method: 'POST', headers: request.headers, body: request.body })
      },
    })
    const printed = await run(
      ['php'],
      `<?php
require '${SYMFONY}';
require '/usr/share/php/Symfony/Component/HttpClient/autoload.php';
use Symfony\\Component\\Mailer\\{Mailer, Transport};
use Symfony\\Component\\Mailer\\Header\\{MetadataHeader, TagHeader};
use Symfony\\Component\\Mime\\Email;
$client = Symfony\\Component\\HttpClient\\HttpClient::create(['cafile' => 'ca.pem']);
$transport = (new Transport([new Symfony\\Component\\Mailer\\Bridge\\Postmark\\Transport\\PostmarkTransportFactory(null, $client)]))
  ->fromString('postmark+api://${service.key}@localhost:${proxy.port}');
$mail = (new Email())->from('Ada <ada@sender.test>')->to('bob@receiver.test')->cc('carl@receiver.test')
  ->bcc('dora@receiver.test')->replyTo('help@sender.test')->subject('Grüße')->text('Hello, Bob.')
  ->html('<p>Hello, Bob.</p>')->attachFromPath('file.bin');
$mail->getHeaders()->add(new TagHeader('welcome'))->add(new MetadataHeader('order', '42'))->addTextHeader('X-Own', 'yes');
$sent = $transport->send($mail);
try {
  $transport->send((new Email())->from('ada@other.test')->to('bob@receiver.test')->subject('S')->text('T'));
} catch (Symfony\\Component\\Mailer\\Exception\\HttpTransportException $error) {
  $wrong = $error->getMessage();
}
echo json_encode(['id' => $sent->getMessageId(), 'wrong' => $wrong ?? '']);
`,
    )
    expect(printed).toEqual({
      id: expect.stringMatching(UUID),
      wrong: expect.stringMatching(/The domain other\.test is not registered .*\(code 400\)/),
    })
    await expectSent(at(printed, 'id'))
  })
})

test.skipIf(!existsSync(RUBY))("Postmark's gem sends, reads back, lists, and gets its own error classes", async () => {
  const { hostname, port } = new URL(service.url)
  const printed = await run(
    ['ruby'],
    `require 'json'
require 'base64'
require 'postmark'
settings = { host: '${hostname}', port: ${port}, secure: false, path_prefix: '/postmark/' }
client = Postmark::ApiClient.new('${service.key}', settings)
sent = client.deliver(from: 'Ada <ada@sender.test>', to: 'bob@receiver.test', cc: 'carl@receiver.test',
  bcc: 'dora@receiver.test', reply_to: 'help@sender.test', subject: 'Grüße', text_body: 'Hello, Bob.',
  html_body: '<p>Hello, Bob.</p>', tag: 'welcome', metadata: { order: '42' },
  headers: [{ name: 'X-Own', value: 'yes' }],
  attachments: [{ name: 'file.bin', content: Base64.strict_encode64(File.binread('file.bin')), content_type: 'application/octet-stream' }])
def error_of
  yield
  nil
rescue StandardError => error
  [error.class.name, error.respond_to?(:recipients) ? error.recipients : nil]
end
puts JSON.generate(
  id: sent[:message_id],
  subject: client.get_message(sent[:message_id])[:subject],
  listed: client.get_messages(tag: 'welcome', count: 1).map { |message| message[:message_id] },
  inactive: error_of { client.deliver(from: 'ada@sender.test', to: 'gone@receiver.test', subject: 'S', text_body: 'T') },
  invalid: error_of { client.deliver(from: 'ada@sender.test', to: 'bob', subject: 'S', text_body: 'T') },
  key: error_of { Postmark::ApiClient.new('wrong', settings).deliver(from: 'a@b.test', to: 'c@d.test', subject: 'S', text_body: 'T') },
)
`,
  )
  expect(printed).toEqual({
    id: expect.stringMatching(UUID),
    subject: 'Grüße',
    listed: [at(printed, 'id')],
    inactive: ['Postmark::InactiveRecipientError', ['gone@receiver.test']],
    invalid: ['Postmark::InvalidEmailAddressError', null],
    key: ['Postmark::InvalidApiKeyError', null],
  })
  await expectSent(at(printed, 'id'))
})
