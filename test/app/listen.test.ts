/** @module `tassis listen`, with a real service and a program that verifies by the library of Standard Webhooks. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Webhook } from 'standardwebhooks'
import { deriveListenSecret, type ListenOptions, listen } from '#app/cli/listen.ts'
import { eventually } from '#test/support/app.ts'
import { createWebhookApi, type WebhookApi } from '../features/webhooks/webhooks/fixture.ts'
import { createDataFolder, MAIN, runTassis, setUpAccount, startServing } from './process.ts'

setDefaultTimeout(300_000)

let service: WebhookApi
beforeAll(async () => {
  service = await createWebhookApi()
})
afterAll(() => service[Symbol.asyncDispose]())

/** A program of a developer, which stores what it gets. */
function startProgram(status = 204) {
  const got: { body: string; headers: Record<string, string> }[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      got.push({ body: await request.text(), headers: Object.fromEntries(request.headers) })
      return new Response(null, { status })
    },
  })
  return { got, url: `http://127.0.0.1:${server.port}/hooks`, [Symbol.asyncDispose]: () => server.stop(true) }
}

function startListening(options: Partial<ListenOptions> & { forward: string }) {
  const lines: string[] = []
  const ending = new AbortController()
  const ended = listen({
    url: service.url,
    key: service.key,
    format: 'tassis',
    events: [],
    after: undefined,
    signal: ending.signal,
    print: (line) => lines.push(line),
    ...options,
  })
  const stop = (): Promise<number | undefined> => {
    ending.abort()
    return ended
  }
  return { lines, ended, stop, waiting: () => eventually(() => lines.find((line) => line.includes('waiting'))) }
}

/** Records events of a new email and returns their positions. */
async function tellEvents(...types: Parameters<WebhookApi['tell']>[0]): Promise<number[]> {
  const { emailId, recipientIds } = service.rowsOf((await service.accepted()).id)
  return await service.tell(types, { emailId, recipientId: recipientIds[0] ?? 0 })
}

describe('tassis listen', () => {
  // Proves: webhook-15
  test('posts what happens from then on, signed with the secret that it prints, and goes on by position', async () => {
    await using program = startProgram()
    await tellEvents('delivered')
    const first = startListening({ forward: program.url })
    await first.waiting()
    const [seq = 0] = await tellEvents('bounced')
    await eventually(() => first.lines.find((line) => line.startsWith(`${seq} bounced`)))
    expect(await first.stop()).toBeGreaterThanOrEqual(seq)
    const secret = first.lines[0]?.replace('Secret: ', '') ?? ''
    expect(secret).toBe(deriveListenSecret(service.key))
    const { body, headers } = program.got[0] ?? { body: '', headers: {} }
    expect(program.got).toHaveLength(1)
    // The clock of the service is not that of the machine; the requests are signed by the command.
    expect(new Webhook(secret).verify(body, headers)).toMatchObject({
      event: 'bounced',
      event_id: headers['webhook-id'],
    })
    expect(() => new Webhook(secret).verify(body.replace('bounced', 'clicked'), headers)).toThrow()
    expect(first.lines.at(-1)).toMatch(new RegExp(`^${seq} bounced bob@receiver.test: 204 in \\d+ ms$`))

    const [later = 0] = await tellEvents('opened', 'delivered')
    const second = startListening({ forward: program.url, after: seq, events: ['opened'], format: 'resend' })
    await eventually(() => second.lines.find((line) => line.startsWith(`${later} opened`)))
    await second.stop()
    expect(program.got.slice(1).map((request) => JSON.parse(request.body).type)).toEqual(['email.opened'])
  })

  test('prints a line for a program that refuses or does not answer, and goes on', async () => {
    await using program = startProgram(500)
    const [seq = 0] = await tellEvents('bounced')
    const refused = startListening({ forward: program.url, after: seq - 1 })
    await eventually(() => refused.lines.find((line) => line.includes(': 500 in')))
    await refused.stop()
    const silent = startListening({ forward: 'http://127.0.0.1:9/', after: seq - 1 })
    await eventually(() => silent.lines.find((line) => line.endsWith('no answer from http://127.0.0.1:9/')))
    expect(await silent.stop()).toBeGreaterThanOrEqual(seq)
  })

  test('goes on with the first event that is still stored', async () => {
    await using program = startProgram()
    const [, seq = 0] = await tellEvents('delivered', 'bounced')
    service.app.db.run('DELETE FROM events WHERE seq < ?', [seq])
    const listening = startListening({ forward: program.url, after: 0 })
    await eventually(() => listening.lines.find((line) => line.startsWith(`${seq} bounced`)))
    await listening.stop()
  })

  test('waits for a service that cannot be reached', async () => {
    const listening = startListening({ forward: 'http://127.0.0.1:9/', url: 'http://127.0.0.1:9' })
    await eventually(() => listening.lines.find((line) => line.includes('at http://127.0.0.1:9 cannot be reached')))
    expect(await listening.stop()).toBeUndefined()
  })

  test('ends with the reason for a key or an event that the service refuses', async () => {
    const forward = 'http://127.0.0.1:9/'
    await expect(startListening({ forward, key: 'wrong' }).ended).rejects.toThrow('Invalid API key')
    await expect(startListening({ forward, events: ['wrong'] }).ended).rejects.toThrow('wrong')
    const [seq = 0] = await tellEvents('bounced')
    const key = await service.newKey(['emails:read'])
    await expect(startListening({ forward, key, after: seq - 1 }).ended).rejects.toThrow('webhooks:read')
  })

  test('asks the running service for its address, and takes the key from TASSIS_API_KEY', async () => {
    using folder = createDataFolder()
    const { key } = await setUpAccount(folder.settings)
    await using running = await startServing(folder.settings)
    await using program = startProgram()
    // The port was chosen by the system, and this shell has another one in its settings.
    const settings = { ...folder.settings, TASSIS_HTTP_ADDR: '127.0.0.1:9', TASSIS_API_KEY: key }
    await using child = Bun.spawn([process.execPath, MAIN, 'listen', '--forward', program.url], {
      env: { PATH: process.env['PATH'] ?? '', ...settings },
      stdout: 'pipe',
      stderr: 'inherit',
    })
    let output = ''
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      output += chunk
      if (/waiting for events|cannot be reached/.test(output)) break
    }
    child.kill()
    expect(output).toContain('waiting for events')
    const wrong = await runTassis(['listen', '--forward', program.url], { ...settings, TASSIS_API_KEY: 'wrong' })
    expect(wrong.stderr).toBe('tassis: Invalid API key\n')
    expect((await runTassis(['health'], settings)).stdout).toBe(`ready: ${running.url}\n`)
  })

  test('says what is wrong with its options', async () => {
    using folder = createDataFolder()
    const run = async (...args: string[]) => (await runTassis(['listen', ...args], folder.settings)).stderr
    expect(await run('--forward', 'ftp://127.0.0.1/')).toContain('It must be a URL')
    expect(await run('--forward', 'http://127.0.0.1:3000/')).toContain('No API key')
    expect(await run('--forward', 'http://127.0.0.1:3000/', '--key-file', '/none')).toContain('/none cannot be read')
    expect(await run('--forward', 'http://127.0.0.1:3000/', '--format', 'x')).toContain('tassis, resend, postmark')
  })
})
