/**
 * @module `bun test/build/smoke.ts dist/tassis`: tests that the compiled executable works alone, in an empty folder
 * with an empty environment. Covers its commands, Workers, migrations and assets, one email from the API to the capture
 * store with tracking and unsubscribing, its webhook, a message received over STARTTLS, a template and the shutdown.
 * On failure prints the log of the service and exits with 1. scripts/test runs it after the build; `bun test` does not.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { startHttpsReceiver } from '#test/support/https-receiver.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import manifest from '../../package.json'

const [executableArgument = 'dist/tassis'] = process.argv.slice(2)
const executable = resolve(executableArgument)
const folder = mkdtempSync(join(tmpdir(), 'tassis-smoke-'))
const receiver = await startHttpsReceiver({ names: ['127.0.0.1'] })
const env = {
  TASSIS_DATA_DIR: join(folder, 'data'),
  TASSIS_HTTP_ADDR: '127.0.0.1:0',
  TASSIS_INBOUND_ADDR: '127.0.0.1:0',
  TASSIS_HOSTNAME: 'mail.smoke.test',
  TASSIS_DELIVERY: 'capture',
  TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
  TASSIS_EXTRA_CA_FILE: receiver.caFile,
}

/** Runs a command to its end and returns its output; an exit code other than 0 is an error. */
async function runCommand(...args: string[]): Promise<string> {
  const child = Bun.spawn([executable, ...args], { cwd: folder, env, stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr, code] = await Promise.all([readText(child.stdout), readText(child.stderr), child.exited])
  assert.equal(code, 0, `tassis ${args.join(' ')} ended with ${code}: ${stderr}`)
  return stdout
}

const readText = (stream: ReadableStream<Uint8Array>): Promise<string> => new Response(stream).text()

interface Running {
  readonly url: string
  /** Port of inbound mail on 127.0.0.1. */
  readonly smtpPort: number
  readonly log: () => string
  /** Sends SIGTERM; resolves with the exit code. */
  stop(): Promise<number>
}

async function startService(): Promise<Running> {
  const child = Bun.spawn([executable, 'serve'], { cwd: folder, env, stdout: 'pipe', stderr: 'pipe' })
  const log = readText(child.stderr)
  let output = ''
  for await (const chunk of child.stdout) {
    output += Buffer.from(chunk).toString()
    const [, url, smtpPort] = /listens on (http:\/\/\S+) .* inbound mail at 127\.0\.0\.1:(\d+)/.exec(output) ?? []
    if (url !== undefined) {
      return {
        url,
        smtpPort: Number(smtpPort),
        log: () => output,
        async stop() {
          child.kill('SIGTERM')
          const code = await child.exited
          output += await log
          return code
        },
      }
    }
  }
  throw new Error(`serve ended with ${await child.exited} before it listened: ${await log}`)
}

/** Polls until the result meets the condition, for at most two minutes. */
async function waitUntil<T>(what: string, ask: () => Promise<T>, isMet: (answer: T) => boolean): Promise<T> {
  const patienceUntil = performance.now() + 120_000
  for (;;) {
    const answer = await ask()
    if (isMet(answer)) return answer
    assert.ok(performance.now() < patienceUntil, `${what}; the last answer: ${JSON.stringify(answer)}`)
    await Bun.sleep(20)
  }
}

interface Answer {
  readonly data: { readonly id: string; readonly status: string; readonly sandbox: boolean; readonly raw: string }
}

async function checkEmail(url: string, key: string): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const webhook = JSON.stringify({ url: receiver.url('127.0.0.1', '/hook'), events: ['delivered', 'clicked'] })
  const created = await fetch(`${url}/v1/webhooks`, { method: 'POST', headers, body: webhook })
  assert.equal(created.status, 201, await created.clone().text())
  const body = JSON.stringify({
    from: 'Ada <ada@smoke.test>',
    to: 'bob@receiver.test',
    subject: 'Grüße',
    html_body: '<p>From the <a href="https://shop.test/">executable</a></p>',
    tracking: true,
    transactional: false,
    attachments: [{ filename: 'a.txt', content: 'aGk=', content_type: 'text/plain' }],
  })
  const sent = await fetch(`${url}/v1/emails`, { method: 'POST', headers, body })
  assert.equal(sent.status, 202, await sent.clone().text())
  const { id } = ((await sent.json()) as Answer).data
  const email = async () => ((await (await fetch(`${url}/v1/emails/${id}`, { headers })).json()) as Answer).data
  await waitUntil('the email is not sent', email, ({ status }) => status === 'sent')
  const captured = await fetch(`${url}/v1/emails/${id}/captured`, { headers })
  assert.equal(captured.status, 200, await captured.clone().text())
  const { raw } = ((await captured.json()) as Answer).data
  assert.match(raw, /^DKIM-Signature: .*? d=smoke\.test;/s)
  assert.match(raw, /^Subject: =\?UTF-8\?/m)
  const unfolded = raw.replace(/=?\r\n/g, '')
  const path = (pattern: RegExp): string => {
    const found = pattern.exec(unfolded)?.[0]
    assert.ok(found, `no ${pattern} in ${raw}`)
    return found
  }
  const click = await fetch(`${url}${path(/\/t\/c\/[\w-]+\/[\w-]+/)}`, {
    redirect: 'manual',
    headers: { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' },
  })
  assert.deepEqual([click.status, click.headers.get('location')], [302, 'https://shop.test/'])
  const deliveries = await receiver.received(2)
  assert.deepEqual(deliveries.map((request) => request.headers['x-service-event']).sort(), ['clicked', 'delivered'])
  const leave = await fetch(`${url}${path(/\/u\/[\w-]+/)}`, { method: 'POST', body: 'List-Unsubscribe=One-Click' })
  assert.equal(leave.status, 200)
  const list = await (await fetch(`${url}/v1/suppressions`, { headers })).json()
  assert.equal((list as { pagination: { total: number } }).pagination.total, 1)
}

/** A message in a charset that the runtime does not support itself. */
const INCOMING = [
  'From: Bob <bob@customer.test>',
  'To: agent@smoke.test',
  'Subject: =?iso-2022-jp?B?GyRCRnxLXBsoQg==?=',
  'MIME-Version: 1.0',
  'Content-Type: multipart/mixed; boundary="b"',
  '',
  '--b',
  'Content-Type: text/plain; charset=koi8-r',
  'Content-Transfer-Encoding: base64',
  '',
  '0NLJ18XU',
  '--b',
  'Content-Type: application/octet-stream; name="a.bin"',
  'Content-Disposition: attachment; filename="a.bin"',
  'Content-Transfer-Encoding: base64',
  '',
  'AAEC/w==',
  '--b--',
  '.',
  '',
].join('\r\n')

async function checkInboundMessage({ url, smtpPort }: Running, key: string): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const mailbox = await fetch(`${url}/v1/agent-mailboxes`, { method: 'POST', headers, body: '{"local_part":"agent"}' })
  assert.equal(mailbox.status, 201, await mailbox.clone().text())
  const { id } = ((await mailbox.json()) as Answer).data
  await using client = await connectSmtp(smtpPort)
  await client.reply()
  await client.say('EHLO customer.test')
  await client.startTls()
  await client.say('EHLO customer.test')
  await client.say('MAIL FROM:<bob@customer.test>')
  assert.match(await client.say('RCPT TO:<agent@smoke.test>'), /^250/)
  assert.match(await client.say('RCPT TO:<other@smoke.test>'), /^250/)
  await client.say('DATA')
  await client.write(INCOMING)
  assert.match(await client.reply(), /^250/)
  const get = async (path: string) => (await (await fetch(`${url}${path}`, { headers })).json()) as never
  interface Received {
    readonly data: readonly { readonly id: string; readonly subject: string; readonly text_body: string }[]
  }
  const listed = () => get('/v1/inbound') as Promise<Received>
  const [received] = (await waitUntil('the message is not stored', listed, ({ data }) => data.length === 1)).data
  assert.equal(received?.subject, '日本')
  const attachment = await fetch(`${url}/v1/inbound/${received.id}/attachments/0`, { headers })
  assert.deepEqual([...(await attachment.bytes())], [0, 1, 2, 255])
  const search = `/v1/agent-mailboxes/${id}/messages/search?q=${encodeURIComponent('привет')}`
  const found = () => get(search) as Promise<Received>
  assert.equal(
    (await waitUntil('the message is not found', found, ({ data }) => data.length === 1)).data[0]?.subject,
    '日本',
  )
}

/** Checks that the executable contains the WASM of the template engine and its Worker finds it. */
async function checkTemplate(url: string, key: string): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const template = { alias: 'hi', name: 'Hi', subject: 'Hi {{ name }}', html_body: '<p>{{ name|upper|center(9) }}</p>' }
  const created = await fetch(`${url}/v1/templates`, { method: 'POST', headers, body: JSON.stringify(template) })
  assert.equal(created.status, 201, await created.clone().text())
  const { id } = ((await created.json()) as Answer).data
  const body = '{"template_data":{"name":"<Ada>"}}'
  const rendered = await fetch(`${url}/v1/templates/${id}/render`, { method: 'POST', headers, body })
  assert.equal(rendered.status, 200, await rendered.clone().text())
  const { data } = (await rendered.json()) as { readonly data: Readonly<Record<string, unknown>> }
  assert.deepEqual([data['subject'], data['html_body']], ['Hi <Ada>', '<p>  &lt;ADA&gt;  </p>'])
}

/** Checks that the executable contains the pages and both descriptions. */
async function checkDocs(url: string): Promise<void> {
  const page = await checkEncodings(`${url}/docs`, /no-cache/)
  const operation = /href="(\/docs\/[^"]+)"/.exec(page)?.[1]
  assert.ok(operation, `/docs does not list the operations: ${page.slice(0, 500)}`)
  await checkEncodings(`${url}${operation}`, /no-cache/)
  assert.match(await checkEncodings(`${url}/openapi.json`, /no-cache/), /"\/v1\/emails"/)
  assert.match(await checkEncodings(`${url}/openapi-operator.json`, /no-cache/), /"\/v1\/operator\//)
}

/** Checks that the executable contains the dashboard. */
async function checkDashboard(url: string): Promise<void> {
  const page = await (await fetch(`${url}/app`)).text()
  const script = /<script[^>]* src="([^"]+)"/.exec(page)?.[1]
  assert.ok(script, `no script in ${page}`)
  await checkEncodings(`${url}${script}`, /immutable/)
}

/** Checks that the executable has a file in each encoding, and returns it. */
async function checkEncodings(url: string, caching: RegExp): Promise<string> {
  const texts = await Promise.all(
    ['br', 'gzip', 'identity'].map(async (encoding) => {
      const file = await fetch(url, { headers: { 'accept-encoding': encoding } })
      assert.equal(file.status, 200)
      assert.equal(file.headers.get('content-encoding') ?? 'identity', encoding)
      assert.match(file.headers.get('cache-control') ?? '', caching)
      return file.text()
    }),
  )
  assert.equal(new Set(texts).size, 1, `the encodings of ${url} differ`)
  return texts[0] ?? ''
}

let running: Running | undefined
try {
  assert.match(
    await runCommand('version'),
    new RegExp(
      `^${RegExp.escape(manifest.version)} \\((?:unknown|[0-9a-f]{12,}(?:-dirty)?, \\d{4}-\\d\\d-\\d\\d)\\)\n$`,
    ),
  )
  // The executable reads no settings from its working directory.
  writeFileSync(join(folder, '.env'), 'TASSIS_DELIVERY=nonsense\n')
  writeFileSync(join(folder, 'bunfig.toml'), 'preload = ["./missing.ts"]\n')
  assert.match(await runCommand('config'), /TASSIS_HOSTNAME +environment +mail\.smoke\.test/)

  running = await startService()
  await runCommand('accounts', 'create', '--name', 'Smoke', '--email', 'smoke@smoke.test')
  await runCommand('domains', 'add', 'smoke.test')
  // Sandbox mail is not tracked.
  await runCommand('domains', 'verify', 'smoke.test', '--without-dns')
  const { data } = JSON.parse(await runCommand('keys', 'create', '--name', 'smoke', '--json')) as {
    readonly data: { readonly key: string }
  }
  const { key } = data
  await checkEmail(running.url, key)
  await checkInboundMessage(running, key)
  await checkTemplate(running.url, key)
  await checkDocs(running.url)
  await checkDashboard(running.url)
  assert.equal(await running.stop(), 0, 'SIGTERM did not end the service with exit code 0')

  await runCommand('check')
  running = await startService()
  assert.equal(await running.stop(), 0, 'SIGTERM did not end the second run of the service with exit code 0')
  console.log('The executable works.')
} catch (error) {
  await running?.stop()
  console.error(error)
  console.error(`Log of the service:\n${running?.log() ?? '(it did not run)'}`)
  process.exitCode = 1
} finally {
  await receiver.close()
  rmSync(folder, { recursive: true, force: true })
}
