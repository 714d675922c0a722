/** @module `tassis api`, and how commands fail: against real services, in real processes. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { VERSION } from '#app/version.ts'
import { startAdminSocket } from '#platform/http/admin-socket.ts'
import { systemClock } from '#platform/time/clock.ts'
import {
  createClient,
  createDataFolder,
  type DataFolder,
  MAIN,
  runTassis,
  runTassisJson,
  runTassisProcess,
  type Settings,
  setUpAccount,
  startServing,
  withApp,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const UNKNOWN = '0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000'
const BINARY = Uint8Array.from({ length: 300_000 }, (_, n) => n % 256)
const STREAM = ['api', 'GET', '/v1/events?after=0', '--header', 'accept:text/event-stream']

/** Runs `tassis`, to read its output as it comes or to end it; `shell` joins it with other programs. */
function startTassis(args: readonly string[], settings: Settings, shell?: string) {
  const command = [process.execPath, MAIN, ...args]
  return Bun.spawn(shell === undefined ? command : ['bash', '-c', shell, ...command], {
    env: { PATH: process.env['PATH'] ?? '', ...settings },
    stdout: 'pipe',
    stderr: 'pipe',
  })
}

/** Reads the output up to a text. */
async function readUntil(stream: ReadableStream<Uint8Array>, wanted: string): Promise<void> {
  const reader = stream.getReader()
  const decoder = new TextDecoder()
  for (let text = ''; !text.includes(wanted); ) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`the output ended without ${wanted}: ${text}`)
    text += decoder.decode(value, { stream: true })
  }
  reader.releaseLock()
}

describe('with a service', () => {
  let data: DataFolder
  let settings: Settings
  let service: Awaited<ReturnType<typeof startServing>>
  let attachment: string
  let send: () => Promise<void>
  beforeAll(async () => {
    data = createDataFolder()
    settings = { ...data.settings, TASSIS_DELIVERY: 'capture' }
    const { key } = await setUpAccount(settings, { verified: true })
    service = await startServing(settings)
    const ask = createClient(service.url, key)
    const attachments = [{ filename: 'a.bin', content: BINARY.toBase64(), content_type: 'application/octet-stream' }]
    const mail = { from: 'ada@sender.test', to: 'bob@one.test', subject: 'x', text_body: 'x', attachments }
    send = async () => expect((await ask('POST', '/v1/emails', mail)).status).toBe(202)
    await send()
    let id: string | undefined
    while (id === undefined) id = (await ask('GET', '/v1/captured-emails')).body.data[0]?.id
    attachment = `/v1/captured-emails/${id}/attachments/0`
  })
  afterAll(async () => {
    await service[Symbol.asyncDispose]()
    data[Symbol.dispose]()
  })

  const call = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await runTassis(['api', ...args], settings)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    return stdout === '' ? undefined : (JSON.parse(stdout) as { data: unknown }).data
  }

  // Proves: operator-31, operator-33
  test('commands have the service check, and delete what is due', async () => {
    expect(await call('GET', '/v1/operator/health')).toMatchObject({ url: service.url })
    expect(await call('POST', '/v1/operator/doctor/run')).toEqual({
      checked_at: expect.stringMatching(/Z$/) as string,
      findings: expect.arrayContaining([
        { check: 'service', status: 'ok', subject: null, message: 'The service takes and delivers mail.', fix: null },
      ]) as unknown,
    })
    expect(await call('POST', '/v1/operator/retention/run')).toEqual({
      content: 0,
      events: 0,
      inbound: 0,
      logs: 0,
      audit: 0,
    })
  })

  test('a body comes from standard input, also one that is not JSON; CSV and files arrive as they are', async () => {
    const made = await runTassisProcess(['api', 'post', '/v1/domains', '-'], settings, '{"domain": "two.test"}')
    expect(JSON.parse(made.stdout)).toMatchObject({ data: { status: 'pending' } })
    const csv = ['api', 'POST', '/v1/suppressions/import', '-', '--header', 'Content-Type: text/csv']
    expect((await runTassisProcess(csv, settings, 'email\nx@one.test\n')).exitCode).toBe(0)
    const { stdout } = await runTassis(['api', 'GET', '/v1/suppressions/export'], settings)
    expect(stdout.split('\n')[1]).toStartWith('x@one.test,')
    await using child = startTassis(['api', 'GET', attachment], settings)
    expect([Buffer.compare(await child.stdout.bytes(), BINARY), await child.exited]).toEqual([0, 0])
  })

  test.each([
    [['HEAD', '/v1/emails'], 2, 'The method is one of GET, POST, PUT, PATCH, DELETE.'],
    [['GET', '/emails'], 2, 'The path begins with /v1/, such as /v1/emails.'],
    [['GET', '/v1/emails', '{}'], 2, 'GET has no body; filters are a query, such as /v1/emails?status=bounced.'],
    [['GET', '/v1/emails', '--header', 'x'], 2, 'A header is NAME:VALUE, such as accept:text/csv, not "x".'],
    [['GET', '/v1/email'], 1, 'No such route; did you mean /v1/emails? /docs describes all routes.'],
    [['GET', '/v1/a b/ü%zz'], 1, 'No such route; /docs describes all routes.'],
    [['DELETE', '/v1/emails'], 1, 'DELETE is not allowed here; use GET, HEAD, POST.'],
    [['POST', '/v1/emails', '{'], 1, "The request body is not valid JSON: expected '}'."],
    [['POST', '/v1/emails', '{"from": 1}'], 1, 'to is required; from must be a string.'],
    [['GET', '/v1/emails', '--account', 'x'], 1, 'Account "x" not found; `tassis accounts list` shows all.'],
    [['GET', `/v1/emails/${UNKNOWN}`], 1, 'Email not found.'],
  ])('%j ends with %d and a sentence, or with JSON of one shape', async (args, exitCode, sentence) => {
    const said = await runTassis(['api', ...args], settings)
    expect(said).toEqual({ exitCode, stdout: '', stderr: `tassis: ${sentence}\n` })
    const { stderr, ...rest } = await runTassis(['api', ...args, '--json'], settings)
    expect({ ...rest, error: JSON.parse(stderr) as unknown }).toEqual({
      exitCode,
      stdout: '',
      error: { error: { code: expect.stringMatching(/^[a-z_]+$/), message: sentence } },
    })
  })

  test('events are printed as they come; Ctrl-C ends the command with 130, and a reader that has enough ends it with 0', async () => {
    await using child = startTassis(STREAM, settings)
    await readUntil(child.stdout, 'event: queued')
    child.kill('SIGINT')
    expect([await child.exited, await child.stderr.text()]).toEqual([130, ''])
    await using cut = startTassis(STREAM, settings, '"$0" "$@" | head -n 1; echo $PIPESTATUS')
    await readUntil(cut.stdout, '\n')
    // The next event finds nobody who reads it.
    await send()
    await readUntil(cut.stdout, '0\n')
    expect(await cut.stderr.text()).toBe('')
  })
})

test('a service that stops or is killed during the command is named, also in the middle of a response', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    await using service = await startServing(data.settings)
    await using child = startTassis(STREAM, data.settings)
    await readUntil(child.stdout, ':')
    process.kill(service.pid, signal)
    const stderr = await child.stderr.text()
    // A service that stops ends its streams.
    const stopped = 'tassis: The service stopped during the command; `tassis queue` shows what it had accepted.\n'
    expect({ signal, exitCode: await child.exited, stderr }).toEqual({
      signal,
      exitCode: signal === 'SIGTERM' ? 0 : 1,
      stderr: signal === 'SIGTERM' ? '' : stopped,
    })
  }
})

test('without a service the same requests are served by the command; only a stream of events needs one', async () => {
  using data = createDataFolder()
  const { accountId } = await setUpAccount(data.settings)
  expect(await runTassisJson(['api', 'GET', '/v1/account'], data.settings)).toMatchObject({ id: accountId })
  const made = await runTassisProcess(['api', 'POST', '/v1/domains', '-'], data.settings, '{"domain": "two.test"}')
  expect(JSON.parse(made.stdout)).toMatchObject({ data: { dns_records: {} } })
  expect(await runTassis(STREAM, data.settings)).toEqual({
    exitCode: 1,
    stdout: '',
    stderr: `tassis: No service runs on ${data.path}; start it with \`tassis serve\`.\n`,
  })
})

test('a stream may be silent for long', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  await using _service = await startServing(data.settings)
  await using child = startTassis(STREAM, data.settings)
  // After 15 s without an event.
  await readUntil(child.stdout, ': heartbeat')
})

test('a service of another version refuses commands in one sentence; those that need none work', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const other = startAdminSocket({
    dataDir: data.path,
    version: '9.9.9',
    fetch: async () => Response.json({ data: 'of another version' }),
    clock: systemClock,
  })
  try {
    const sentence = `The running service is version 9.9.9 and this command is version ${VERSION}; use the same version, or restart the service.`
    for (const args of [
      ['api', 'GET', '/v1/account'],
      ['keys', 'list'],
      ['retention', 'run'],
    ])
      expect(await runTassis(args, data.settings)).toEqual({ exitCode: 1, stdout: '', stderr: `tassis: ${sentence}\n` })
    const { stderr } = await runTassis(['keys', 'list', '--json'], data.settings)
    expect(JSON.parse(stderr)).toEqual({ error: { code: 'version_mismatch', message: sentence } })
    for (const args of [['check'], ['disk'], ['config'], ['audit', 'list'], ['backup', `${data.path}/b`]])
      expect(await runTassis(args, data.settings)).toMatchObject({ exitCode: 0, stderr: '' })
    const { findings } = JSON.parse((await runTassis(['doctor', '--json'], data.settings)).stdout).data as {
      findings: { check: string }[]
    }
    expect(findings.find(({ check }) => check === 'service')).toMatchObject({ status: 'failure', message: sentence })
  } finally {
    await other.stop()
  }
})

test('Ctrl-C in a long list ends the command with 130 and leaves the data intact', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  await withApp(data.settings, (app) => {
    const columns =
      'account_id, dkim_selector, dkim_public_key, dkim_private_key, sending_subdomain, next_check_at, created_at, updated_at'
    app.db.run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
       INSERT INTO domains (uuid, domain, ${columns}) SELECT randomblob(16), 'd' || i || ?, ${columns} FROM domains, n`,
      [`${`.${'x'.repeat(60)}`.repeat(3)}.sender.test`],
    )
  })
  // More than a pipe holds, of which only the first octet is read: the command waits in the middle of its output.
  const shell = 'exec "$0" "$@" > >(head -c 1; tail --pid=$$ -f /dev/null)'
  await using child = startTassis(['api', 'GET', '/v1/domains?per_page=100'], data.settings, shell)
  await readUntil(child.stdout, '{')
  child.kill('SIGINT')
  expect([await child.exited, await child.stderr.text()]).toEqual([130, ''])
  expect(await runTassis(['check'], data.settings)).toMatchObject({ exitCode: 0, stderr: '' })
})
