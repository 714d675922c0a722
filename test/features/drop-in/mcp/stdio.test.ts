/** @module `tassis mcp` as unmodified clients start it. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as EarlierTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { serveStdio } from '#features/drop-in/mcp/stdio.ts'
import { createDataFolder, MAIN, runTassis, runTassisProcess } from '#test/app/process.ts'
import { createEmailApi, EMAIL, type EmailApi } from '#test/support/email-api.ts'
import { type TestClient, wrapClient } from './clients.ts'

setDefaultTimeout(60_000)

let service: EmailApi
beforeAll(async () => {
  service = await createEmailApi()
})
afterAll(() => service[Symbol.asyncDispose]())

const started = (key: string) => ({
  command: process.execPath,
  args: [MAIN, 'mcp', '--url', service.url],
  env: { PATH: process.env['PATH'] ?? '', TASSIS_API_KEY: key },
})

const INFO = { name: 'test', version: '1.0.0' }

async function open(key: string): Promise<TestClient> {
  const client = new Client(INFO, { versionNegotiation: { mode: 'auto' } })
  await client.connect(new StdioClientTransport(started(key)))
  return wrapClient(client as never)
}

async function openEarlier(key: string): Promise<TestClient> {
  const client = new EarlierClient(INFO)
  await client.connect(new EarlierTransport(started(key)))
  return wrapClient(client as never)
}

test.each([
  ['the current protocol', open],
  ['an earlier protocol', openEarlier],
])('has the tools of the key and calls them, by %s', async (_, connect) => {
  await using model = await connect(await service.newKey(['emails:read', 'emails:send']))
  expect(await model.names()).toEqual(['find_emails', 'explain_email', 'list_events', 'send_email'])
  const { id } = await service.accepted(EMAIL)
  const answers = await Promise.all([1, 2, 3].map(() => model.call('explain_email', { id })))
  expect(answers.map(({ body }) => body)).toEqual(
    Array(3).fill(expect.objectContaining({ email: expect.objectContaining({ id }) })),
  )
})

test('without a key says where to get one', async () => {
  expect(await runTassis(['mcp'], {})).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/TASSIS_API_KEY.*tassis keys create --name assistant/s),
  })
})

test('answers each broken message with an error, and ends with its input', async () => {
  const input = `{\n\n${'x'.repeat(3_000_000)}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n{"jsonrpc":"2.0","id":7,"method":"ping"}`
  using data = createDataFolder()
  const keyFile = join(data.path, 'key')
  writeFileSync(keyFile, `${service.key}\n`)
  const { exitCode, stdout } = await runTassisProcess(['mcp', '--url', service.url, '--key-file', keyFile], {}, input)
  const answers = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object)
  expect(exitCode).toBe(0)
  expect(answers).toEqual(
    expect.arrayContaining([
      { jsonrpc: '2.0', id: null, error: { code: -32_700, message: 'The message is not a JSON object.' } },
      { jsonrpc: '2.0', id: null, error: { code: -32_700, message: 'The message has more than 2000000 characters.' } },
      { jsonrpc: '2.0', id: 7, result: {} },
    ]),
  )
  expect(answers).toHaveLength(3)
})

/** The answers to a message by an endpoint. */
async function ask(endpoint: string, key: string): Promise<unknown[]> {
  const answers: unknown[] = []
  const message = new TextEncoder().encode('{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n')
  const input = (async function* () {
    yield message
  })()
  await serveStdio({ endpoint, key, input, write: (answer) => answers.push(JSON.parse(answer)), fetch })
  return answers
}

test.each<[string, () => Promise<unknown[]>, string]>([
  ['a wrong key', () => ask(`${service.url}/mcp`, 'tassis_live_wrong'), 'Invalid API key'],
  ['no service', () => ask('http://127.0.0.1:9/mcp', service.key), 'does not answer'],
  ['another service', () => ask(`${service.url}/docs`, service.key), 'must be the address of a Tassis service'],
])('%s is an error of the request', async (_, run, message) => {
  expect(await run()).toEqual([
    { jsonrpc: '2.0', id: 1, error: expect.objectContaining({ message: expect.stringContaining(message) }) },
  ])
})
