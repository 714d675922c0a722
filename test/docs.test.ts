/**
 * @module Runs what the documents show. Examples marked `<!-- example: file -->` run as programs; every curl command of
 * the `sh` blocks runs against a service as `scripts/start` leaves it; the `bash` blocks about inbound mail run in a
 * shell beside a running service, as a newcomer would run them. An example whose language is not installed is
 * skipped.
 */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createDomain } from '#features/setup/domains/domains.ts'
import { generateSecret } from '#features/webhooks/webhooks/manage/secrets.ts'
import { createRequestHeaders } from '#features/webhooks/webhooks/manage/signature.ts'
import { hours } from '#platform/units.ts'
import { RED_PIXEL } from '#test/features/setup/wording/logos.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { createDataFolder, startServing } from './app/process.ts'
import { at, createTestApi, type TestApi } from './support/api.ts'
import { eventually } from './support/app.ts'
import { startDnsServer } from './support/dns-server.ts'
import { deliverMessage, getTestMailbox } from './support/mailboxes.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const ROOT = join(import.meta.dir, '..')
const events = await Bun.file(join(ROOT, 'docs/events.md')).text()
const suppressions = await Bun.file(join(ROOT, 'docs/suppressions-and-tracking.md')).text()
const receiving = await Bun.file(join(ROOT, 'docs/receiving.md')).text()
const contacts = await Bun.file(join(ROOT, 'docs/contacts.md')).text()
const signupForms = await Bun.file(join(ROOT, 'docs/signup-forms.md')).text()
const templates = await Bun.file(join(ROOT, 'docs/templates.md')).text()
const broadcasts = await Bun.file(join(ROOT, 'docs/broadcasts.md')).text()
const sequences = await Bun.file(join(ROOT, 'docs/sequences.md')).text()
const privacy = await Bun.file(join(ROOT, 'docs/privacy.md')).text()
const mailboxes = await Bun.file(join(ROOT, 'docs/agent-mailboxes.md')).text()
const readme = await Bun.file(join(ROOT, 'README.md')).text()
const simulator = await Bun.file(join(ROOT, 'docs/simulator.md')).text()
const gettingStarted = await Bun.file(join(ROOT, 'docs/getting-started.md')).text()

const EXAMPLE = /^<!-- example: (\S+) -->\n```\w+\n(.*?)^```$/gms
const examples = new Map([...events.matchAll(EXAMPLE)].map(([, name = '', code = '']) => [name, code] as const))

function temporaryFolder(files: Readonly<Record<string, string>>): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'tassis-test-'))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), text)
  }
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}

test('docs/events.md has examples of a reader, a receiver, and a verifier in four languages', () => {
  expect([...examples.keys()]).toEqual([
    'feed.ts',
    'receiver.ts',
    'standard.ts',
    'verify.ts',
    'verify.py',
    'verify.php',
    'verify.go',
  ])
})

test('the reader of Standard Webhooks in docs/events.md takes a signed request and no other', async () => {
  using folder = temporaryFolder({ 'standard.ts': examples.get('standard.ts') ?? '' })
  symlinkSync(join(ROOT, 'node_modules'), join(folder.path, 'node_modules'))
  const { readWebhook } = (await import(join(folder.path, 'standard.ts'))) as {
    readWebhook(request: Request, secret: string): Promise<unknown>
  }
  const secrets = { current: generateSecret() }
  const body = '{"event":"bounced","reason":"Grüße"}'
  const headers = createRequestHeaders({ id: 'a', event: 'bounced', attempt: 1, at: Date.now(), body }, secrets, [])
  const request = (text: string) => new Request('http://127.0.0.1/', { method: 'POST', headers, body: text })
  expect(await readWebhook(request(body), secrets.current)).toEqual(JSON.parse(body))
  expect(readWebhook(request(`${body} `), secrets.current)).rejects.toThrow('No matching signature')
})

describe('a signature verifier of docs/events.md:', () => {
  const SECRET = 'whsec_exampleSecret'
  const NOW_SECONDS = 1_795_255_200
  const BODY = '{"event":"bounced","smtp_response":"550 5.1.1 gibt es nicht, Grüße"}\n'

  const macOf = (t: number | string, body = BODY, secret = SECRET) =>
    createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')
  const headerOf = (t: number | string, body?: string, secret?: string) => `t=${t},v1=${macOf(t, body, secret)}`

  const CASES: readonly (readonly [name: string, header: string, isGood: boolean])[] = [
    ['that is valid', headerOf(NOW_SECONDS), true],
    ['300 seconds old', headerOf(NOW_SECONDS - 300), true],
    ['300 seconds ahead', headerOf(NOW_SECONDS + 300), true],
    ['301 seconds old', headerOf(NOW_SECONDS - 301), false],
    ['301 seconds ahead', headerOf(NOW_SECONDS + 301), false],
    ['of another body', headerOf(NOW_SECONDS, `${BODY} `), false],
    ['under another secret', headerOf(NOW_SECONDS, BODY, 'whsec_another'), false],
    ['under the secret without its prefix', headerOf(NOW_SECONDS, BODY, 'exampleSecret'), false],
    ['with another time than the signed one', `t=${NOW_SECONDS - 1},v1=${macOf(NOW_SECONDS)}`, false],
    ['that is truncated', headerOf(NOW_SECONDS).slice(0, -1), false],
    ['without v1', `t=${NOW_SECONDS}`, false],
    ['with an empty v1', `t=${NOW_SECONDS},v1=`, false],
    ['without t', `v1=${macOf('')}`, false],
    ['with an empty t', headerOf(''), false],
    ['with a t that is not a number', headerOf('now'), false],
    ['with a t of 5,000 digits', headerOf('9'.repeat(5000)), false],
    ['that is empty', '', false],
    ['that has only separators', ',=,,==', false],
  ]

  interface Runtime {
    readonly example: string
    readonly program: string
    readonly args: readonly string[]
    /**
     * Path of the example. `driver` is the program around it, which reads the cases from standard input and prints a
     * JSON list of booleans.
     */
    readonly path: string
    readonly driver: Readonly<Record<string, string>>
  }

  const RUNTIMES: readonly Runtime[] = [
    {
      example: 'verify.ts',
      program: process.execPath,
      args: ['run.ts'],
      path: 'verify.ts',
      driver: {
        'run.ts': `import { isSigned } from './verify.ts'
          const { secret, now, body, headers } = await Bun.stdin.json()
          console.log(JSON.stringify(headers.map((header) => isSigned(secret, header, Buffer.from(body, 'base64'), now))))`,
      },
    },
    {
      example: 'verify.py',
      program: 'python3',
      args: ['run.py'],
      path: 'verify.py',
      driver: {
        'run.py': [
          'import base64, json, sys',
          'from verify import is_signed',
          'given = json.load(sys.stdin)',
          'body = base64.b64decode(given["body"])',
          'print(json.dumps([is_signed(given["secret"], header, body, given["now"]) for header in given["headers"]]))',
        ].join('\n'),
      },
    },
    {
      example: 'verify.php',
      program: 'php',
      args: ['run.php'],
      path: 'verify.php',
      driver: {
        'run.php': `<?php
          require __DIR__ . '/verify.php';
          $given = json_decode(stream_get_contents(STDIN), true);
          $check = fn ($header) => isSigned($given['secret'], $header, base64_decode($given['body']), $given['now']);
          echo json_encode(array_map($check, $given['headers']));`,
      },
    },
    {
      example: 'verify.go',
      program: 'go',
      args: ['run', '.'],
      path: 'hooks/verify.go',
      driver: {
        'go.mod': 'module example.test/verify\n\ngo 1.20\n',
        'main.go': `package main

          import (
            "encoding/json"
            "os"
            "time"

            "example.test/verify/hooks"
          )

          func main() {
            var given struct {
              Secret  string
              Now     int64
              Body    []byte
              Headers []string
            }
            if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
              panic(err)
            }
            results := []bool{}
            for _, header := range given.Headers {
              results = append(results, hooks.IsSigned(given.Secret, header, given.Body, time.Unix(given.Now, 0)))
            }
            json.NewEncoder(os.Stdout).Encode(results)
          }`,
      },
    },
  ]

  for (const { example, program, args, path, driver } of RUNTIMES) {
    test.skipIf(Bun.which(program) === null)(`${example} accepts exactly the valid signatures and never throws`, () => {
      using folder = temporaryFolder({ ...driver, [path]: examples.get(example) ?? '' })
      const headers = CASES.map(([, header]) => header)
      const given = { secret: SECRET, now: NOW_SECONDS, body: Buffer.from(BODY).toString('base64'), headers }
      const { exitCode, stdout, stderr } = Bun.spawnSync([program, ...args], {
        cwd: folder.path,
        stdin: Buffer.from(JSON.stringify(given)),
        // Go must not download another version, and Python must not write byte code beside the example.
        env: { ...process.env, GOTOOLCHAIN: 'local', PYTHONDONTWRITEBYTECODE: '1' },
      })
      expect({ exitCode, stderr: String(stderr) }).toEqual({ exitCode: 0, stderr: '' })
      const results = JSON.parse(String(stdout)) as boolean[]
      expect(CASES.map(([name], index) => [name, results[index]])).toEqual(CASES.map(([name, , good]) => [name, good]))
    })
  }
})

const opensslCommand = /^openssl req .*$/m.exec(events)?.[0] ?? ''

/** Returns a function that reads the next line of a program's output; empty at its end. */
function linesOf(output: ReadableStream<Uint8Array>): () => Promise<string> {
  const reader = output.getReader()
  const decoder = new TextDecoder()
  let text = ''
  return async () => {
    while (!text.includes('\n')) {
      const { done, value } = await reader.read()
      if (done) return text
      text += decoder.decode(value, { stream: true })
    }
    const [line = '', ...rest] = text.split('\n')
    text = rest.join('\n')
    return line
  }
}

const DOMAIN = 'example.test'

/**
 * Starts a service in the state in which `scripts/start` leaves it: an account, its domain, a key and one captured
 * email. DNS resolves no name, so webhooks reach nothing.
 */
async function startFresh(): Promise<TestApi> {
  const dns = await startDnsServer({})
  const service = await createTestApi({
    delivers: true,
    settings: { TASSIS_DELIVERY: 'capture', TASSIS_DNS_SERVERS: dns.address },
  })
  await createDomain(service.app, service.actor, DOMAIN)
  const email = { from: `Tassis <hello@${DOMAIN}>`, to: `you@${DOMAIN}`, subject: 'The first', text_body: 'It works.' }
  const { body } = await service.api('POST', '/v1/emails', email)
  const id = String(at(body, 'data', 'id'))
  await eventually(async () => at((await service.api('GET', `/v1/emails/${id}`)).body, 'data', 'status') === 'sent')
  return {
    ...service,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns.close()
    },
  }
}

test('the reader of docs/events.md reads every event once and continues where it stopped', async () => {
  await using service = await startFresh()
  using folder = temporaryFolder({ 'feed.ts': examples.get('feed.ts') ?? '' })
  const { readFeed } = (await import(join(folder.path, 'feed.ts'))) as {
    readFeed: (
      base: string,
      key: string,
      position: number,
      handle: (events: readonly { seq: number; type: string }[], next: number) => Promise<void>,
    ) => Promise<number>
  }
  const read: string[] = []
  const readFrom = (position: number) =>
    readFeed(service.url, service.key, position, async (few) => {
      read.push(...few.map(({ seq, type }) => `${seq} ${type}`))
    })
  const position = await readFrom(0)
  const email = { from: `ada@${DOMAIN}`, to: `bob@${DOMAIN}`, subject: 'Later', text_body: 'Hi' }
  const sendAt = new Date(service.app.clock.now() + hours(1)).toISOString()
  expect((await service.api('POST', '/v1/emails', { ...email, send_at: sendAt })).status).toBe(202)
  expect([position, await readFrom(position)]).toEqual([3, 4])
  expect(read).toEqual(['1 queued', '2 sent', '3 delivered', '4 scheduled'])
  await expect(readFeed(service.url, 'wrong', 0, async () => {})).rejects.toThrow('401')
})

/** The curl commands of a document, each on one line. */
const curlCommands = (markdown: string): string[] =>
  [...markdown.matchAll(/^```sh\n(.*?)^```$/gms)]
    .flatMap(([, block = '']) => block.replace(/\\\n\s*/g, '').split('\n'))
    .filter((line) => line.startsWith('curl '))

/** Returns the arguments that a shell would pass to curl. */
function argumentsOf(command: string, variables: Readonly<Record<string, string>>): string[] {
  // An unset variable is an error.
  const script = `set -u; curl() { printf '%s\\0' "$@"; }; ${command}`
  const { stdout, stderr } = Bun.spawnSync(['bash', '-c', script], { env: variables })
  if (stderr.length > 0) throw new Error(`${command}: ${stderr}`)
  return String(stdout).split('\0').slice(0, -1)
}

const csvOf = (markdown: string): string | undefined => /^```csv\n(.*?)^```$/ms.exec(markdown)?.[1]
/** Files that the commands send, by name. */
const FILES: Readonly<Record<string, string | Uint8Array<ArrayBuffer> | undefined>> = {
  '@logo.png': RED_PIXEL,
  '@list.csv': csvOf(suppressions),
  '@contacts.csv': csvOf(contacts),
}

interface Answer {
  readonly request: string
  readonly status: number
  readonly body: unknown
}

/** Sends the request that curl would send; throws on unknown options. Reads only the head of a stream. */
async function ask(given: readonly string[]): Promise<Answer> {
  const rest = [...given]
  const headers = new Headers()
  let [url, method, body]: [string, string | undefined, string | Uint8Array<ArrayBuffer> | undefined] = [
    '',
    undefined,
    undefined,
  ]
  for (let next = rest.shift(); next !== undefined; next = rest.shift()) {
    if (next === '-X') method = rest.shift()
    else if (next === '-d') body = rest.shift()
    else if (next === '--data-binary') body = FILES[rest.shift() ?? '']
    else if (next === '-o') rest.shift()
    else if (next === '-H') {
      const [name = '', value = ''] = (rest.shift() ?? '').split(': ', 2)
      headers.append(name, value)
    } else if (next.startsWith('http://')) url = next
    else if (next !== '-N') throw new Error(`this test does not know the curl option ${next}`)
  }
  const response = await fetch(url, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers,
    ...(body !== undefined && { body }),
  })
  const isJson = response.headers.get('content-type')?.startsWith('application/json')
  if (!isJson) await response.body?.cancel()
  const request = `${method ?? 'GET'} ${new URL(url).pathname}`
  return { request, status: response.status, body: isJson ? await response.json() : undefined }
}

interface Commands {
  readonly markdown: string
  /** The variables that the answer to a request sets, by the request without its id, as paths in the body. */
  readonly sets?: Readonly<Record<string, Readonly<Record<string, readonly (string | number)[]>>>>
  prepare?(service: TestApi): void
  /** What else an answer brings. */
  onAnswer?(answer: Answer, variables: Record<string, string>, service: TestApi): Promise<void>
  /** Parts of answers, by the end of the request. */
  readonly shows?: readonly (readonly [request: string, path: readonly (string | number)[], value: unknown])[]
}

const ID = ['data', 'id'] as const
const COMMANDS: Readonly<Record<string, Commands>> = {
  'README.md': { markdown: readme },
  'docs/getting-started.md': { markdown: gettingStarted },
  'docs/simulator.md': { markdown: simulator },
  'docs/suppressions-and-tracking.md': {
    markdown: suppressions,
    sets: { 'POST /v1/emails': { ID } },
    shows: [
      [
        '/import',
        [],
        { data: { imported: 2, already_suppressed: 0, invalid: 0, total: 2, ignored_columns: [] }, errors: [] },
      ],
    ],
  },
  'docs/privacy.md': { markdown: privacy, sets: { 'DELETE /v1/gdpr/erase': { OPERATION: ['operation_id'] } } },
  'docs/templates.md': {
    markdown: templates,
    sets: { 'POST /v1/templates': { ID } },
    async onAnswer({ request, body }, _, { api }) {
      if (request !== 'POST /v1/emails') return
      expect(at((await api('GET', `/v1/emails/${at(body, ...ID)}`)).body, 'data', 'subject')).toMatch(
        /^(?:Your order|Deine Bestellung) 7$/,
      )
    },
    shows: [
      ['/render', ['data', 'html_body'], '<ul><li>Nuts &amp; bolts</li></ul>'],
      ['/render', ['data', 'html_body'], null],
    ],
  },
  'docs/contacts.md': {
    markdown: contacts,
    sets: { 'POST /v1/contact-lists': { LIST: ID } },
    prepare: ({ app }) => app.db.run('UPDATE domains SET verified_at = 1'),
  },
  'docs/signup-forms.md': {
    markdown: signupForms,
    sets: { 'POST /v1/contact-lists': { LIST: ID }, 'POST /v1/signup-forms': { FORM: ID, SLUG: ['data', 'slug'] } },
    shows: [['/contacts', ['data', 0, 'metadata'], { first_name: 'Bob' }]],
  },
  'docs/broadcasts.md': {
    markdown: broadcasts,
    sets: {
      'POST /v1/contact-lists': { LIST: ID },
      'POST /v1/emails/broadcast': { OPERATION: ['data', 'operation_id'] },
      'POST /v1/newsletters': { NEWSLETTER: ID },
      'POST /v1/templates': { TEMPLATE: ID },
    },
    shows: [['/render', ['data', 'text_body'], 'Hello there. No more of Product news: https://example.test/u']],
  },
  'docs/sequences.md': { markdown: sequences, shows: [['/sequences/events', ['data'], { entered: 1, stopped: 0 }]] },
  'docs/agent-mailboxes.md': {
    markdown: mailboxes,
    sets: { 'POST /v1/agent-mailboxes': { MAILBOX: ID } },
    prepare: ({ app }) => app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1'),
    async onAnswer({ request, body }, variables, { app, actor }) {
      if (request === 'POST /v1/agent-mailboxes') {
        const mailbox = getTestMailbox(app, actor.accountId, String(at(body, ...ID)))
        await deliverMessage(app, mailbox, { raw: 'Subject: Help\r\n\r\nHi' })
      }
      if (request.endsWith('/next')) {
        variables['MESSAGE'] = String(at(body, ...ID))
        variables['LEASE'] = String(at(body, 'lease_token'))
      }
    },
  },
  'docs/events.md': {
    markdown: events,
    sets: { 'POST /v1/webhooks': { ID } },
    async onAnswer({ request }, variables, { api }) {
      // The command in the document lists failed deliveries, and here none has failed.
      if (!request.endsWith('/test')) return
      const { body } = await api('GET', `/v1/webhooks/${variables['ID']}/deliveries`)
      variables['DELIVERY'] = String(at(body, 'data', 0, 'id'))
    },
  },
}

test.each(Object.keys(COMMANDS))('every curl command of %s works on a fresh service', async (path) => {
  const { markdown, sets = {}, prepare, onAnswer, shows = [] } = COMMANDS[path] as Commands
  await using service = await startFresh()
  prepare?.(service)
  const DOMAIN = String(at((await service.api('GET', '/v1/domains')).body, 'data', 0, 'id'))
  const variables: Record<string, string> = { KEY: service.key, TASSIS: service.url, DOMAIN }
  const commands = curlCommands(markdown.replaceAll('http://127.0.0.1:8080', service.url))
  expect(commands).not.toBeEmpty()
  const shown: unknown[] = []
  for (const command of commands) {
    const answer = await ask(argumentsOf(command, variables))
    expect([200, 201, 202, 204], `${command}: ${JSON.stringify(answer)}`).toContain(answer.status)
    for (const [name, place] of Object.entries(sets[answer.request] ?? {}))
      variables[name] = String(at(answer.body, ...place))
    await onAnswer?.(answer, variables, service)
    const show = shows[shown.length]
    if (show !== undefined && answer.request.endsWith(show[0])) shown.push(at(answer.body, ...show[1]))
  }
  expect(shown).toEqual(shows.map(([, , value]) => value))
})

/** Returns the `bash` blocks of a document or of a section. */
const bashBlocks = (markdown: string): string[] =>
  [...markdown.matchAll(/^```bash\n(.*?)^```$/gms)].map(([, block = '']) => block)

interface Shell extends AsyncDisposable {
  /** Runs a block as the document has it, after the earlier blocks; returns its output. Throws when the block fails. */
  run(block: string): Promise<string>
  /** Returns the API's response to a GET. */
  get(path: string): Promise<unknown>
  /** Returns the value of a variable that a block has set. */
  valueOf(name: string): Promise<string>
}

/**
 * Starts what a newcomer has in two shells: `scripts/start` with inbound mail, and a shell beside it. Addresses and
 * folder are those of the test.
 */
async function startInShells(more: Readonly<Record<string, string>> = {}): Promise<Shell> {
  const data = createDataFolder()
  const dns = await startDnsServer({})
  const smtpPort = await findFreePort()
  const settings = {
    ...data.settings,
    TASSIS_DELIVERY: 'capture',
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_INBOUND_ADDR: `127.0.0.1:${smtpPort}`,
    ...more,
  }
  const service = await startServing(settings, 'start')
  await eventually(() => service.output().includes('Ctrl-C stops the service.'))
  const key = (await Bun.file(join(data.path, 'first-key')).text()).trim()
  const variables = join(data.path, 'variables')
  writeFileSync(variables, '')
  const asHere = (block: string): string =>
    block
      .replaceAll('http://127.0.0.1:8080', service.url)
      .replaceAll('smtp://127.0.0.1:2525', `smtp://127.0.0.1:${smtpPort}`)
      .replaceAll('TASSIS_DATA_DIR=./data', `TASSIS_DATA_DIR=${data.path}`)
      .replaceAll('data/first-key', join(data.path, 'first-key'))
      // Not needed: the tests wait until the mail has arrived.
      .replaceAll(/^sleep 1\b.*$/gm, '')
  const run = async (block: string) => {
    const keep = `declare -p TASSIS KEY DOMAIN EMAIL CAPTURED UNSUBSCRIBE RETURN_PATH ROUTE >"${variables}" 2>/dev/null || true`
    const script = ['set -eu -o pipefail', `. "${variables}"`, asHere(block), keep].join('\n')
    await using child = Bun.spawn(['bash', '-c', script], {
      cwd: ROOT,
      // The `bun` of the documents is the program that runs the tests.
      env: { PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}` },
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
    if (exitCode !== 0) throw new Error(`${block} ended with ${exitCode}: ${stdout}${stderr}`)
    return stdout
  }
  return {
    run,
    valueOf: async (name) => (await run(`printf %s "$${name}"`)).trim(),
    async get(path) {
      return (await fetch(`${service.url}${path}`, { headers: { authorization: `Bearer ${key}` } })).json()
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns.close()
      data[Symbol.dispose]()
    },
  }
}

/** Returns the JSON responses in the output, whether each is on its own line or several follow each other on one. */
const answersIn = (output: string): unknown[] =>
  output
    .replaceAll(/\}(?=\{"data")/g, '}\n')
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as unknown)

describe.skipIf(Bun.which('curl') === null)('inbound mail works as the documents show it,', () => {
  const received = (shell: Shell, path: string) =>
    eventually(async () => at(await shell.get(path), 'pagination', 'total') === 1)

  test('in docs/receiving.md: a message is routed, a bounce corrects its email, a reader unsubscribes and complains', async () => {
    await using shell = await startInShells()
    const [, vouch = '', handIn = '', look = '', send = '', bounce = '', lookAgain = '', ...more] =
      bashBlocks(receiving)
    const [sendNews = '', unsubscribe = '', complain = '', lookAtEvents = '', routes = '', ...ofAWebhook] = more
    expect(ofAWebhook).toHaveLength(2)
    expect(await shell.run(vouch)).toStartWith('example.test counts as verified and accepts mail')
    await shell.run(handIn)
    await received(shell, '/v1/inbound')
    const [inbound] = answersIn(await shell.run(look))
    await shell.run(send)
    const email = `/v1/emails/${await shell.valueOf('EMAIL')}`
    const becomes = (status: string) => eventually(async () => at(await shell.get(email), 'data', 'status') === status)
    await becomes('sent')
    await shell.run(bounce)
    await becomes('bounced')
    const [bounced, suppressions] = answersIn(await shell.run(lookAgain))
    await shell.run(sendNews)
    const news = `/v1/emails/${await shell.valueOf('EMAIL')}`
    await eventually(async () => at(await shell.get(news), 'data', 'status') === 'sent')
    await shell.run(unsubscribe)
    const told = async () => at(await shell.get('/v1/events?types=unsubscribed,complained'), 'data') as unknown[]
    await eventually(async () => (await told()).length === 1)
    await shell.run(complain)
    await eventually(async () => (await told()).length === 2)
    const [ofNews] = answersIn(await shell.run(lookAtEvents))
    const [listed] = answersIn(await shell.run(routes))
    expect({
      inbound: ['status', 'rcpt_to', 'subject'].map((name) => at(inbound, 'data', 0, name)),
      events: (at(bounced, 'data', 'events') as { type: string }[]).map(({ type }) => type),
      suppressed: ['email_address', 'reason'].map((name) => at(suppressions, 'data', 0, name)),
      news: (at(ofNews, 'data') as { type: string; recipient: string }[]).map(
        (event) => `${event.recipient} ${event.type}`,
      ),
      route: at(listed, 'data', 0, 'pattern'),
    }).toEqual({
      inbound: ['received', ['support@example.test'], 'Help'],
      events: ['queued', 'sent', 'delivered', 'bounced'],
      suppressed: ['gone@customer.test', 'hard_bounce'],
      news: ['fan@customer.test unsubscribed', 'fan@customer.test complained'],
      route: 'support',
    })
  })

  test('in docs/getting-started.md and docs/agent-mailboxes.md: one message arrives at /v1/inbound, another in a mailbox', async () => {
    await using shell = await startInShells()
    const [start = '', vouch = '', look = '', ...more] = bashBlocks(gettingStarted)
    expect([start.includes('scripts/start'), more]).toEqual([true, []])
    await shell.run(vouch)
    await received(shell, '/v1/inbound')
    const [inbound] = answersIn(await shell.run(look))
    expect(['status', 'subject'].map((name) => at(inbound, 'data', 0, name))).toEqual(['no_route', 'Help'])

    const [, vouchAgain = '', handIn = ''] = bashBlocks(mailboxes)
    await shell.run(vouchAgain)
    const [create = ''] = curlCommands(mailboxes)
    const [made] = answersIn(
      await shell.run(`TASSIS=http://127.0.0.1:8080 KEY=$(cat data/first-key)\n${create.replace('curl', 'curl -sS')}`),
    )
    await shell.run(handIn)
    const messages = `/v1/agent-mailboxes/${at(made, 'data', 'id')}/messages`
    await received(shell, messages)
    expect(at(await shell.get(messages), 'data', 0, 'subject')).toBe('Help')
  })

  test.skipIf(Bun.which('openssl') === null)(
    'in docs/receiving.md: a route posts its mail to its webhook, and the receiver of docs/events.md finds it signed',
    async () => {
      const port = await findFreePort()
      using folder = temporaryFolder({
        'receiver.ts': examples.get('receiver.ts')?.replace('port: 9443', `port: ${port}`) ?? '',
        'verify.ts': examples.get('verify.ts') ?? '',
      })
      expect(Bun.spawnSync(['bash', '-c', opensslCommand], { cwd: folder.path }).exitCode).toBe(0)
      const command =
        /^TASSIS_INBOUND_ADDR=\S+ .* scripts\/start$/m.exec(receiving.replace(/^```bash\n.*?^```$/gms, ''))?.[0] ?? ''
      const named = [...command.matchAll(/(TASSIS_\w+)=(\S+)/g)].map(
        ([, name = '', value = '']) => [name, value] as const,
      )
      expect(named.map(([name]) => name)).toEqual([
        'TASSIS_INBOUND_ADDR',
        'TASSIS_EXTRA_CA_FILE',
        'TASSIS_ALLOW_PRIVATE_NETWORKS',
      ])
      const settings = Object.fromEntries(named.slice(1))
      await using shell = await startInShells({ ...settings, TASSIS_EXTRA_CA_FILE: join(folder.path, 'cert.pem') })
      const blocks = bashBlocks(receiving)
      const [, vouch = '', handIn = ''] = blocks
      const [putUrl = '', showSecret = ''] = blocks.slice(-2)
      await shell.run(vouch)
      const secret = (await shell.run(showSecret)).trim()
      await using receiver = Bun.spawn([process.execPath, 'receiver.ts'], {
        cwd: folder.path,
        // The secret stands between others, because a receiver may have several.
        env: { SECRETS: `whsec_other,${secret},` },
        stdout: 'pipe',
        stderr: 'inherit',
      })
      const lines = linesOf(receiver.stdout)
      expect(await lines()).toBe(`Listens on https://localhost:${port}/`)
      const [makeRoute = '', message = ''] = handIn.split(/^(?=printf)/m)
      await shell.run(makeRoute)
      const [changed] = answersIn(await shell.run(putUrl.replace('9443', String(port))))
      await shell.run(message)
      const told = await lines()
      const payload = JSON.parse(told.replace(/^signed /, '')) as unknown
      expect({
        route: ['pattern', 'webhook_url'].map((name) => at(changed, 'data', name)),
        payload: ['event', 'rcpt_to', 'subject'].map((name) => at(payload, name)),
      }).toEqual({
        route: ['support', `https://localhost:${port}/`],
        payload: ['email.inbound', ['support@example.test'], 'Help'],
      })
    },
  )
})
