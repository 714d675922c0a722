import { expect, setDefaultTimeout, test } from 'bun:test'
import { connect } from 'node:net'
import { join } from 'node:path'
import { eventually } from '#test/support/app.ts'
import { createDataFolder, MAIN, type Settings } from '../process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

interface Line {
  readonly level?: string
  readonly msg: string
  readonly err?: { readonly message: string }
}

/** Parses every line; fails at the first that is no JSON object. */
const parseLines = (output: string): Line[] =>
  output.split('\n').flatMap((line) => {
    if (line === '') return []
    if (!line.startsWith('{')) throw new Error(`no JSON: ${line}`)
    return [JSON.parse(line) as Line]
  })

/** A service whose threads throw at SIGUSR2, with what it has printed so far. */
async function startThrowing(settings: Settings) {
  const data = createDataFolder()
  const child = Bun.spawn([process.execPath, '--preload', join(import.meta.dir, 'throws.ts'), MAIN, 'serve'], {
    env: {
      PATH: process.env['PATH'] ?? '',
      ...data.settings,
      TASSIS_LOG_LEVEL: 'debug',
      TASSIS_INBOUND_ADDR: '127.0.0.1:0',
      TASSIS_WORKERS: '1',
      ...settings,
    },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const printed = { stdout: '', stderr: '' }
  const read = async (name: 'stdout' | 'stderr'): Promise<void> => {
    for await (const text of child[name].pipeThrough(new TextDecoderStream())) printed[name] += text
  }
  const isRead = Promise.all([read('stdout'), read('stderr')])
  return {
    printed,
    child,
    url: await eventually(() => /listens on (http:\S+) /.exec(printed.stdout)?.[1]),
    /** Resolves with exit code and lines once the service has ended. */
    async ended() {
      const exitCode = await child.exited
      await isRead
      return { exitCode, stdout: parseLines(printed.stdout), stderr: parseLines(printed.stderr) }
    },
    async [Symbol.asyncDispose]() {
      await child[Symbol.asyncDispose]()
      data[Symbol.dispose]()
    },
  }
}

async function sendBadRequests(url: string): Promise<void> {
  await fetch(`${url}/v1/emails`, { method: 'POST', body: '{"from"', headers: { 'content-type': 'application/json' } })
  await fetch(`${url}/nowhere/%ff%00`)
  await new Promise<void>((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () =>
      socket.write('\u0000 not http\r\n\r\n', () => {
        socket.destroy()
        resolve()
      }),
    )
    socket.on('error', reject)
  })
}

/** What the log says when the Workers have thrown. */
const DEATHS = ['delivery worker died', 'SMTP listener died; restarting']

test('every line is one JSON object, through bad requests and dying Workers to SIGTERM', async () => {
  await using service = await startThrowing({})
  await sendBadRequests(service.url)
  // Again, because a Worker that is still being loaded does not hear it.
  await eventually(async () => {
    service.child.kill('SIGUSR2')
    await Bun.sleep(500)
    return DEATHS.every((text) => service.printed.stderr.includes(text))
  })
  service.child.kill('SIGTERM')
  const { exitCode, stdout, stderr } = await service.ended()
  expect(exitCode).toBe(0)
  expect(stdout.map(({ msg }) => msg).join('\n')).toContain('listens on http://127.0.0.1:')
  expect(stderr.at(-1)?.msg).toBe('stopped')
})

test('an error that no code catches ends the service with one JSON line', async () => {
  await using service = await startThrowing({ MAIN_THROWS: 'true' })
  service.child.kill('SIGUSR2')
  const { exitCode, stderr } = await service.ended()
  expect(exitCode).toBe(1)
  expect(stderr.find(({ level }) => level === 'fatal')).toMatchObject({ err: { message: 'main thrown' } })
})
