/**
 * @module Runs the code of docs/integrations as its readers do: each example in a program of its own, unchanged but for
 * host and port, with the client that its registry has, over TLS. Examples whose client is not installed are skipped.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type SubmissionFixture, startSubmissionFixture } from '#test/features/drop-in/submission/fixture.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { NOW } from '#test/support/email-api.ts'

const ROOT = join(import.meta.dir, '..')
const PAGES = join(ROOT, 'docs/integrations')
const BUN = process.execPath
const FROM = 'Ada <ada@example.com>'
const TEXT = 'It is on its way.'

interface Case {
  readonly page: string
  readonly name: string
  /** The examples of the page that the program needs; the others do not run with it. */
  readonly examples: readonly string[]
  /** What surrounds an example in a real application, by file name. */
  readonly files?: Readonly<Record<string, string>>
  readonly command: readonly string[]
  /** More variables. `$URL` stands for the public URL, `$KEY` for the key. */
  readonly environment?: Readonly<Record<string, string>>
  /** Debian package without which the example is skipped, as it is without the program of the command. */
  readonly needs?: string
  /** Of the newest email. */
  readonly expected: Readonly<Record<string, unknown>>
  /** Of the output. `$ID` stands for the id of the email. */
  readonly prints?: string
}

const PHP_AUTOLOAD = (...files: readonly string[]) => ({
  'vendor/autoload.php': `<?php\n${files.map((file) => `require_once '/usr/share/php/${file}';`).join('\n')}`,
})

const DJANGO = (settings: string, send: string) => ({
  'run.py': `import os, django\nos.environ['DJANGO_SETTINGS_MODULE'] = '${settings}'\ndjango.setup()\nimport ${send}\n`,
})

const CASES: readonly Case[] = [
  {
    page: 'nodemailer',
    name: 'sends',
    examples: ['nodemailer.ts'],
    command: [BUN, 'nodemailer.ts'],
    expected: {
      idempotency_key: 'order-1017-shipped',
      tags: ['order', 'shipped'],
      metadata: { order: 1017 },
      attachments: [{ filename: 'logo.png', content_id: 'logo', size: 8 }],
    },
    prints: '250 2.0.0 Ok: queued as $ID\n',
  },
  {
    page: 'resend-sdk',
    name: 'schedules and cancels',
    examples: ['resend.ts'],
    command: [BUN, 'resend.ts'],
    environment: { RESEND_BASE_URL: '$URL/resend', RESEND_API_KEY: '$KEY' },
    expected: { status: 'cancelled', tags: ['order:1017'], text_body: null },
    prints: 'canceled\n',
  },
  {
    page: 'postmark-sdk',
    name: 'sends',
    examples: ['postmark.ts'],
    command: [BUN, 'postmark.ts'],
    expected: { idempotency_key: 'order-1017-shipped', tags: ['shipped'], metadata: { order: '1017' }, headers: {} },
    prints: '$ID\n',
  },
  {
    page: 'react-email',
    name: 'sends a component',
    examples: ['react-email.tsx'],
    command: [BUN, 'react-email.tsx'],
    expected: {
      html_body: expect.stringMatching(
        /<h1>Hello (<!-- -->)?Bob &amp; Co<\/h1>.*https:\/\/example\.com\/orders\/1017/s,
      ),
      text_body: null,
    },
    prints: '$ID\n',
  },
  {
    page: 'better-auth',
    name: 'verifies an address',
    examples: ['auth.ts'],
    command: [BUN, 'run.ts'],
    environment: { BETTER_AUTH_SECRET: 'a-secret-of-the-application-1017', BETTER_AUTH_TELEMETRY: '0' },
    files: {
      'database.ts': `import { memoryAdapter } from 'better-auth/adapters/memory'
        export const database = memoryAdapter({ user: [], session: [], account: [], verification: [] })`,
      'run.ts': `import { auth } from './auth'
        const post = (path, body) => auth.handler(new Request('https://app.example.com/api/auth' + path, { method: 'POST',
          headers: { 'content-type': 'application/json', origin: 'https://app.example.com' }, body: JSON.stringify(body) }))
        const email = 'bob@example.net'
        const { status } = await post('/sign-up/email', { email, password: 'a-long-password', name: 'Bob' })
        const reset = await post('/request-password-reset', { email, redirectTo: '/reset' })
        console.log(status, reset.status)`,
    },
    expected: {
      subject: 'Reset your password',
      text_body: expect.stringMatching(
        /^Choose a new password: https:\/\/app\.example\.com\/api\/auth\/reset-password\/\S+$/,
      ),
      tags: ['auth'],
      tracking_override: false,
      expires_in: 3600,
    },
    prints: '200 200\n',
  },
  {
    page: 'authjs',
    name: 'sends a link to sign in',
    examples: ['auth-config.ts'],
    command: [BUN, 'run.ts'],
    environment: { AUTH_SECRET: 'a-secret-of-the-application-1017' },
    files: {
      'adapter.ts': `const none = async () => null
        const methods = ['useVerificationToken', 'getUserByEmail', 'createUser', 'getUser', 'getUserByAccount', 'updateUser',
          'linkAccount', 'createSession', 'getSessionAndUser', 'updateSession', 'deleteSession']
        export const adapter = { ...Object.fromEntries(methods.map((name) => [name, none])),
          createVerificationToken: async (token) => token }`,
      'run.ts': `import { Auth } from '@auth/core'
        import { config } from './auth-config'
        const base = 'https://app.example.com/auth'
        const csrf = await Auth(new Request(base + '/csrf'), config)
        const { csrfToken } = await csrf.json()
        const body = new URLSearchParams({ email: 'bob@example.net', csrfToken })
        const cookie = csrf.headers.getSetCookie().map((one) => one.split(';')[0]).join('; ')
        const done = await Auth(new Request(base + '/signin/nodemailer', { method: 'POST', headers: { cookie }, body }), config)
        console.log(done.headers.get('location'))`,
    },
    expected: {
      subject: 'Sign in to app.example.com',
      text_body: expect.stringContaining('https://app.example.com/auth/callback/nodemailer?'),
    },
    prints: 'https://app.example.com/auth/verify-request?provider=nodemailer&type=email\n',
  },
  {
    page: 'supabase',
    name: 'the hook sends the template of an action',
    examples: ['signup.json', 'ask.sh'],
    command: [BUN, 'run.ts'],
    files: {
      'run.ts': `import { Webhook } from 'standardwebhooks'
        const created = await fetch('https://mail.example.com/v1/templates', { method: 'POST',
          headers: { authorization: 'Bearer ' + process.env.TASSIS_API_KEY, 'content-type': 'application/json' },
          body: await Bun.file('signup.json').text() })
        const asked = JSON.parse(await new Response(Bun.spawn(['bash', 'ask.sh']).stdout).text())
        const url = 'https://mail.example.com' + asked.data.url.replace(/^.*?(?=\\/hooks)/, '')
        const body = JSON.stringify({ user: { email: 'bob@example.net' }, email_data: { email_action_type: 'signup',
          token: '305805', token_hash: 'abc', site_url: 'https://abc.supabase.co/auth/v1', redirect_to: '' } })
        const signature = new Webhook(asked.data.secret.replace('v1,', '')).sign('1', new Date(SIGNED_AT), body)
        const sent = await fetch(url, { method: 'POST', body, headers: { 'webhook-id': '1',
          'webhook-timestamp': String(SIGNED_AT / 1000), 'webhook-signature': signature } })
        console.log(created.status, sent.status, await sent.text())`.replaceAll('SIGNED_AT', String(NOW)),
    },
    expected: {
      subject: 'Confirm your address',
      html_body: expect.stringMatching(
        /<b>305805<\/b>.*https:\/\/abc\.supabase\.co\/auth\/v1\/verify\?token=abc&amp;type=signup/,
      ),
    },
    prints: '201 200 {}\n',
  },
  {
    page: 'n8n',
    name: 'the body of the HTTP request is accepted',
    examples: ['body.json'],
    command: [BUN, 'run.ts'],
    files: {
      'run.ts': `const response = await fetch('https://mail.example.com/v1/emails', { method: 'POST',
        headers: { authorization: 'Bearer ' + process.env.TASSIS_API_KEY, 'content-type': 'application/json',
          'idempotency-key': '42-0' }, body: await Bun.file('body.json').text() })
        console.log(response.status, (await response.json()).data.id)`,
    },
    expected: { tags: ['n8n'], idempotency_key: '42-0' },
    prints: '202 $ID\n',
  },
  {
    page: 'php',
    name: 'sends with PHPMailer',
    needs: 'libphp-phpmailer',
    examples: ['mail.php'],
    files: PHP_AUTOLOAD('libphp-phpmailer/autoload.php'),
    command: ['php', 'mail.php'],
    expected: {
      idempotency_key: 'order-1017-shipped',
      tags: ['order', 'shipped'],
      html_body: expect.stringContaining(`<p>${TEXT}</p>`),
    },
    prints: '$ID\n',
  },
  {
    page: 'php',
    name: 'sends without a library',
    examples: ['http.php'],
    command: ['php', 'http.php'],
    expected: { idempotency_key: 'order-1017-shipped', metadata: { order: 1017 } },
    prints: '$ID\n',
  },
  {
    page: 'symfony',
    name: 'sends',
    needs: 'php-symfony-mailer',
    examples: ['send.php'],
    files: PHP_AUTOLOAD('Symfony/Component/Mailer/autoload.php', 'Symfony/Component/Mime/autoload.php'),
    command: ['php', 'send.php'],
    environment: { MAILER_DSN: 'smtps://apikey:$KEY@mail.example.com:465' },
    expected: {
      idempotency_key: 'order-1017-shipped',
      html_body: `<p>${TEXT}</p>`,
      attachments: [{ filename: 'order.csv', content_type: 'text/csv', size: 13 }],
    },
  },
  {
    page: 'symfony',
    name: "sends by Postmark's interface",
    needs: 'php-symfony-postmark-mailer',
    examples: ['send.php'],
    files: PHP_AUTOLOAD(
      'Symfony/Component/HttpClient/autoload.php',
      'Symfony/Component/Mailer/autoload.php',
      'Symfony/Component/Mailer/Bridge/Postmark/autoload.php',
    ),
    command: ['php', '-d', 'curl.cainfo=../ca.pem', 'send.php'],
    environment: { MAILER_DSN: 'postmark+api://$KEY@mail.example.com' },
    expected: { idempotency_key: 'order-1017-shipped', html_body: `<p>${TEXT}</p>` },
  },
  {
    page: 'wordpress',
    name: 'sends with PHPMailer, as WordPress runs the hook',
    needs: 'libphp-phpmailer',
    examples: ['tassis-mail.php'],
    files: {
      'run.php': `<?php
        require '/usr/share/php/libphp-phpmailer/autoload.php';
        define('TASSIS_API_KEY', getenv('TASSIS_API_KEY'));
        $hooks = [];
        function add_action($name, $call) { global $hooks; $hooks[$name] = $call; }
        function add_filter($name, $call) { add_action($name, $call); }
        require 'tassis-mail.php';
        $mail = new PHPMailer\\PHPMailer\\PHPMailer(true);
        $mail->setFrom($hooks['wp_mail_from'](), $hooks['wp_mail_from_name']());
        $mail->addAddress('bob@example.net');
        $mail->Subject = 'Your order';
        $mail->Body = '${TEXT}';
        $hooks['phpmailer_init']($mail);
        $mail->send();`,
    },
    command: ['php', 'run.php'],
    expected: { tags: ['wordpress'] },
  },
  {
    page: 'django',
    name: 'sends by SMTP',
    needs: 'python3-django',
    examples: ['smtp_settings.py', 'send_smtp.py'],
    files: DJANGO('smtp_settings', 'send_smtp'),
    command: ['/usr/bin/python3', 'run.py'],
    expected: { idempotency_key: 'order-1017-shipped', tags: ['order', 'shipped'], html_body: `<p>${TEXT}</p>` },
  },
  {
    page: 'django',
    name: 'sends with Anymail',
    needs: 'python3-django-anymail',
    examples: ['anymail_settings.py', 'send_anymail.py'],
    files: DJANGO('anymail_settings', 'send_anymail'),
    command: ['/usr/bin/python3', 'run.py'],
    expected: { tags: ['shipped'], metadata: { order: '1017' }, idempotency_key: 'order-1017-shipped' },
    prints: "$ID {'sent'}\n",
  },
  {
    page: 'rails',
    name: 'sends with Action Mailer',
    needs: 'ruby-actionmailer',
    examples: ['settings.rb', 'order_mailer.rb'],
    files: {
      'run.rb': `require "action_mailer"
        config = Struct.new(:action_mailer).new(ActionMailer::Base)
        eval File.read("settings.rb")
        require "./order_mailer"
        OrderMailer.shipped(1017).deliver_now`,
    },
    command: ['ruby', 'run.rb'],
    expected: { idempotency_key: 'order-1017-shipped', tags: ['order', 'shipped'], html_body: `<p>${TEXT}</p>` },
  },
  ...['http', 'smtp'].map(
    (way): Case => ({
      page: 'go',
      name: `sends by ${way.toUpperCase()}`,
      examples: [`${way}/main.go`],
      command: ['go', 'run', `${way}/main.go`],
      expected: way === 'http' ? { tags: ['order', 'shipped'] } : { idempotency_key: 'order-1017-shipped' },
      ...(way === 'http' && { prints: '$ID\n' }),
    }),
  ),
]

/** May be indented, as part of a list. */
const EXAMPLE = /^ *<!-- example: (\S+) -->\n *```\w+\n(.*?)^ *```$/gms

/** The examples of a page, by their file names. */
async function readExamples(page: string): Promise<ReadonlyMap<string, string>> {
  const text = await Bun.file(join(PAGES, `${page}.md`)).text()
  return new Map([...text.matchAll(EXAMPLE)].map(([, name = '', code = '']) => [name, code]))
}

let service: SubmissionFixture
let folder: string
/** What a reverse proxy is to a real service: it has the certificate, and passes requests on. */
let proxy: ReturnType<typeof Bun.serve>

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tassis-test-'))
  const authority = createCertificateAuthority()
  const { cert, key } = authority.issue(['localhost'])
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  write('ca.pem', authority.pem)
  const files = { TASSIS_TLS_CERT_FILE: write('cert.pem', cert), TASSIS_TLS_KEY_FILE: write('key.pem', key) }
  service = await startSubmissionFixture({ settings: files })
  await service.addDomain(service.actor, 'example.com')
  proxy = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert, key },
    fetch({ url, method, headers, body }) {
      const { pathname, search } = new URL(url)
      return fetch(`${service.url}${pathname}${search}`, { method, headers, body, decompress: false })
    },
  })
})
afterAll(async () => {
  await proxy.stop(true)
  await service[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

/** A text of a page with the host and the ports of this test. */
const asHere = (text: string): string =>
  /\b(?:465|587)\b/.test(text)
    ? text
        .replaceAll('mail.example.com', 'localhost')
        .replace(/\b465\b/g, String(service.tlsPort))
        .replace(/\b587\b/g, String(service.port))
    : text.replaceAll('mail.example.com', `localhost:${proxy.port}`)

/** Runs a case in a folder of its own; returns what it printed. Throws when it fails. */
async function run({ page, examples, files = {}, command, environment = {} }: Case, path: string): Promise<string> {
  const shown = await readExamples(page)
  const programs = { ...Object.fromEntries(examples.map((name) => [name, shown.get(name) ?? ''])), ...files }
  for (const [name, text] of Object.entries(programs)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), asHere(text))
  }
  symlinkSync(join(ROOT, 'node_modules'), join(path, 'node_modules'))
  const asSet = (value: string) =>
    asHere(value.replace('$KEY', service.key).replace('$URL', 'https://mail.example.com'))
  const authority = join(folder, 'ca.pem')
  await using child = Bun.spawn([...command], {
    cwd: path,
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: path,
      TASSIS_API_KEY: service.key,
      NODE_EXTRA_CA_CERTS: authority,
      SSL_CERT_FILE: authority,
      REQUESTS_CA_BUNDLE: authority,
      PYTHONDONTWRITEBYTECODE: '1',
      PYTHONPATH: path,
      GOTOOLCHAIN: 'local',
      ...Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, asSet(value)])),
    },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  if (exitCode !== 0) throw new Error(`${command.join(' ')} ended with ${exitCode}: ${stdout}${stderr}`)
  return stdout
}

async function readNewest(): Promise<Record<string, unknown>> {
  const { body } = await service.api('GET', '/v1/emails?per_page=1')
  const [email] = (body as { data: { id: string }[] }).data
  return service.detail(email?.id)
}

const isInstalled = ({ command: [program = ''], needs }: Case): boolean =>
  Bun.which(program) !== null && (needs === undefined || existsSync(`/usr/share/doc/${needs}`))

describe.each([...Map.groupBy(CASES, ({ page }) => page)])('docs/integrations/%s.md', (_, cases) => {
  for (const one of cases) {
    test.skipIf(!isInstalled(one))(one.name, async () => {
      // A key in an example names one email, and here several examples have the same.
      service.app.db.run('DELETE FROM idempotency_keys')
      const path = mkdtempSync(join(folder, 'run-'))
      const output = await run(one, path)
      const email = await readNewest()
      expect(email).toMatchObject({
        from_address: FROM,
        to: expect.stringContaining('bob@example.net'),
        ...one.expected,
      })
      if (one.prints !== undefined) expect(output).toBe(one.prints.replace('$ID', String(email['id'])))
    })
  }
})

test('every example of every page is run', async () => {
  const pages = [...new Bun.Glob('*.md').scanSync(PAGES)].map((file) => file.replace('.md', ''))
  const shown = await Promise.all(
    pages.map(async (page) => [...(await readExamples(page)).keys()].map((name) => `${page}: ${name}`)),
  )
  const run = CASES.flatMap(({ page, examples }) => examples.map((name) => `${page}: ${name}`))
  expect(shown.flat().toSorted()).toEqual([...new Set(run)].toSorted())
})

test('the list of pages is complete', async () => {
  const list = await Bun.file(join(PAGES, 'README.md')).text()
  const pages = [...new Bun.Glob('*.md').scanSync(PAGES)].filter((file) => file !== 'README.md')
  // The row of our client links the page about clients.
  const linked = [...list.matchAll(/^\| \[.*?\]\(([^./]*\.md)\)/gm)].map(([, file]) => file)
  expect(linked.toSorted()).toEqual(pages.toSorted())
})
