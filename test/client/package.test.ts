/**
 * @module The npm package as users get it: installed from its tarball into an empty folder, its README's examples
 * compiled and run in Node and Bun against a real service. Node and npm are skipped where they are not installed.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { generateSecret } from '#features/webhooks/webhooks/manage/secrets.ts'
import { createRequestHeaders } from '#features/webhooks/webhooks/manage/signature.ts'
import { buildClientPackage, CLIENT_PACKAGE } from '../../scripts/client-package.ts'
import { createDataFolder, type DataFolder, type RunningService, setUpAccount, startServing } from '../app/process.ts'

// Compilers, and services in processes of their own, on a machine that may be busy.
setDefaultTimeout(300_000)

const ROOT = join(import.meta.dir, '../..')
const MAX_MINIFIED_BYTES = 16 * 1024
const [FIRST_EMAIL, README] = await Promise.all(
  ['README.md', 'src/client/README.md'].map((file) => Bun.file(join(ROOT, file)).text()),
)
const EXAMPLES = new Map(
  [...`${FIRST_EMAIL}${README}`.matchAll(/^<!-- example: (\S+) -->\n```\w+\n(.*?)^```$/gms)].map(
    ([, name = '', code = '']) => [name, code],
  ),
)
/** What the examples use besides the package. */
const OTHER_PACKAGES = [
  '@react-email/render',
  '@types/node',
  '@types/react',
  'csstype',
  'react',
  'react-dom',
  'undici-types',
]

/** Compiles only if the types say what the methods do; each line that must not compile is marked. */
const TYPES = `import { type BouncedPayload, type Pages, Tassis, type WebhookEvent } from 'tassis'
const tassis = new Tassis({ url: 'https://mail.example.com', key: 'k', retries: 0, timeoutMs: 1 })
export const bounced = (event: WebhookEvent): BouncedPayload | undefined => event.event === 'bounced' ? event : undefined
export const link = (event: WebhookEvent): string => {
  // @ts-expect-error only some events have a link
  if (event.event === 'sent') return event.link_url
  return event.event === 'clicked' ? event.link_url : ''
}
export const name = (event: WebhookEvent): 'test' | 'other' => event.event === 'test' ? event.event : 'other'
export const pages: Pages<{ readonly data: readonly { readonly id: string }[] }> = tassis.emails.list()
export async function send(): Promise<string> {
  // @ts-expect-error an email has a sender
  await tassis.emails.send({ to: 'bob@example.net' })
  // @ts-expect-error text is a string
  await tassis.emails.send({ from: 'a@example.com', to: 'bob@example.net', text_body: 1 })
  const { data } = await tassis.emails.send({ from: 'a@example.com', to: ['b@example.net'], attachments: [{ filename: 'a', content: new Uint8Array() }] })
  // @ts-expect-error there is no such field
  data.nothing
  for await (const { domain } of tassis.domains.list({ per_page: 5 })) await tassis.domains.verify(domain)
  const { data: [first] } = await tassis.webhooks.list()
  return first?.url ?? data.id
}
`

let service: RunningService
let data: DataFolder
let key: string
const folder = mkdtempSync(join(tmpdir(), 'tassis-package-'))
beforeAll(async () => {
  await Bun.write(join(folder, CLIENT_PACKAGE), await buildClientPackage(1_774_000_000))
  data = createDataFolder()
  ;({ key } = await setUpAccount(data.settings, { verified: true }))
  service = await startServing(data.settings)
})
afterAll(async () => {
  await service?.[Symbol.asyncDispose]()
  data?.[Symbol.dispose]()
  rmSync(folder, { recursive: true, force: true })
})

/** Runs a program in a folder and returns what it prints. */
function run(command: readonly string[], cwd: string, variables: Readonly<Record<string, string>> = {}): string {
  const env = { PATH: process.env['PATH'] ?? '', HOME: folder, ...variables }
  const { success, stdout, stderr } = Bun.spawnSync([...command], { cwd, env })
  if (!success) throw new Error(`${command.join(' ')} failed:\n${stdout}${stderr}`)
  return stdout.toString()
}

/** An empty folder with the package and the examples. */
async function install(name: string, command: readonly string[]): Promise<string> {
  const path = join(folder, name)
  mkdirSync(path)
  await Bun.write(join(path, 'package.json'), '{ "private": true, "type": "module" }')
  run([...command, join(folder, CLIENT_PACKAGE)], path)
  const isOurs = (text: string) => !text.startsWith('.')
  expect(readdirSync(join(path, 'node_modules')).filter(isOurs)).toEqual(['tassis'])
  for (const other of OTHER_PACKAGES) {
    mkdirSync(dirname(join(path, 'node_modules', other)), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules', other), join(path, 'node_modules', other))
  }
  for (const [file, code] of EXAMPLES)
    await Bun.write(
      join(path, file),
      code
        .replace(/https:\/\/mail\.example\.com|http:\/\/127\.0\.0\.1:8080/, service.url)
        .replaceAll(/example\.(com|test)/g, 'sender.test'),
    )
  await Bun.write(join(path, 'types.ts'), TYPES)
  await Bun.write(join(path, 'invoice.pdf'), '%PDF')
  await Bun.write(
    join(path, 'call-webhook.js'),
    `const { POST } = await import(process.argv[2])
    const { headers, body } = JSON.parse(process.argv[3])
    console.log((await POST(new Request('http://127.0.0.1/', { method: 'POST', headers, body }))).status)`,
  )
  return path
}

/** Checks the types of files, and writes their JavaScript beside them unless `flags` say otherwise. */
const compile = (path: string, files: readonly string[], flags: readonly string[]): string =>
  run(
    [
      join(ROOT, 'node_modules/.bin/tsc'),
      ...['--ignoreConfig', '--strict', '--exactOptionalPropertyTypes', '--target', 'ES2022', '--jsx', 'react-jsx'],
      ...flags,
      ...files,
    ],
    path,
  )

/** Runs every example and checks what it prints, and what the service has then. */
async function runExamples(
  path: string,
  program: readonly string[],
  extension: (file: string) => string,
): Promise<void> {
  const print = (file: string, ...more: readonly string[]) =>
    run([...program, extension(file), ...more], path, { TASSIS_API_KEY: key, TASSIS_WEBHOOK_SECRET: secret, KEY: key })
  const read = async (id: string) => {
    const response = await fetch(`${service.url}/v1/emails/${id.trim()}`, {
      headers: { authorization: `Bearer ${key}` },
    })
    return ((await response.json()) as { data: Record<string, unknown> }).data
  }
  const secret = generateSecret()
  expect(print('tassis.ts').split('\n')[0]).toBe('queued Hello')
  const [id = '', status] = print('send.ts').trim().split(' ')
  expect([status, (await read(id))['text_body']]).toEqual(['queued', 'Hi Bob'])
  expect(print('errors.ts')).toStartWith('422 invalid_address ')
  const lines = print('lists.ts').trim().split('\n')
  expect(lines[0]).toMatch(/^(\d+) of \1$/)
  expect([lines.some((line) => line.startsWith(id)), /^\d+ queued /.test(lines.at(-1) ?? '')]).toEqual([true, true])
  expect(await read(print('attachments.ts'))).toMatchObject({
    attachments: [
      { filename: 'invoice.pdf', content_type: 'application/pdf', size: 4 },
      { filename: 'items.csv', content_type: 'text/csv', size: 11 },
    ],
  })
  const { html_body: html, text_body: text } = await read(print('react.tsx'))
  expect([String(html).replace('<!-- -->', ''), String(text).toLowerCase()]).toEqual([
    expect.stringContaining('<h1>Welcome, Bob</h1>'),
    'welcome, bob',
  ])
  const body = '{"event":"bounced","recipient":"bob@example.net","bounce_category":"policy","smtp_response":"550 No"}'
  const headers = createRequestHeaders(
    { id: 'e', event: 'bounced', attempt: 1, at: Date.now(), body },
    { current: secret },
    [],
  )
  const call = (given: object) =>
    run([...program, 'call-webhook.js', `./${extension('webhook.ts')}`, JSON.stringify(given)], path, {
      TASSIS_WEBHOOK_SECRET: secret,
    })
  expect(call({ headers, body })).toBe('bob@example.net policy 550 No\n204\n')
  expect(call({ headers, body: `${body} ` })).toBe('400\n')
}

describe('the package, installed in an empty folder,', () => {
  test.skipIf(!Bun.which('node') || !Bun.which('npm'))(
    'compiles strictly and does what its README shows, in Node',
    async () => {
      const path = await install('node', ['npm', 'install', '--offline', '--no-audit', '--no-fund'])
      const files = [...EXAMPLES.keys(), 'types.ts']
      compile(path, files, ['--module', 'nodenext', '--types', 'node', '--lib', 'ES2023'])
      compile(
        path,
        ['types.ts'],
        [
          '--noEmit',
          '--module',
          'preserve',
          '--moduleResolution',
          'bundler',
          '--types',
          '',
          '--lib',
          'ES2022,DOM,DOM.AsyncIterable',
        ],
      )
      await runExamples(path, ['node'], (file) => file.replace(/\.tsx?$/, '.js'))
    },
  )

  test('does what its README shows, in Bun', async () => {
    const path = await install('bun', [process.execPath, 'add'])
    await runExamples(path, [process.execPath], (file) => file)
    const { outputs } = await Bun.build({
      entrypoints: [join(path, 'node_modules/tassis/index.js')],
      external: ['node:*', '@react-email/render'],
      minify: true,
    })
    expect(outputs[0]?.size).toBeLessThanOrEqual(MAX_MINIFIED_BYTES)
  })

  test('needs @react-email/render only for React, and says so', async () => {
    const path = join(folder, 'bare')
    mkdirSync(join(path, 'node_modules'), { recursive: true })
    run(['tar', '-xzf', join(folder, CLIENT_PACKAGE)], path)
    await Bun.write(
      join(path, 'react.mjs'),
      `import { Tassis } from './package/index.js'
      const { emails } = new Tassis({ url: '${service.url}', key: '${key}' })
      await emails.send({ from: 'ada@sender.test', to: 'bob@example.net', subject: 'Hi', react: {} }).catch(({ message }) => console.log(message))`,
    )
    const message = '`react` needs a package that is not installed: npm install @react-email/render\n'
    expect(run([Bun.which('node') ?? process.execPath, 'react.mjs'], path)).toBe(message)
  })
})

test('the same commit makes the same tarball, without anything of this machine in it', async () => {
  const tarball = await buildClientPackage(1_774_000_000)
  expect(Buffer.compare(tarball, await Bun.file(join(folder, CLIENT_PACKAGE)).bytes())).toBe(0)
  expect(Buffer.from(Bun.gunzipSync(tarball)).includes(ROOT)).toBe(false)
})
