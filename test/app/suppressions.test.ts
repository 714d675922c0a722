import { expect, setDefaultTimeout, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '#test/support/app.ts'
import {
  createClient,
  createDataFolder,
  MAIN,
  runTassis,
  runTassisJson,
  runTassisProcess,
  setUpAccount,
  startServing,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

test('addresses can be added, listed and removed with and without a service', async () => {
  using data = createDataFolder()
  const { key } = await setUpAccount(data.settings)
  const run = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await runTassis(['suppressions', ...args], data.settings)
    return { exitCode, out: stdout.trimEnd(), stderr }
  }
  expect(await run('list')).toEqual({ exitCode: 0, out: 'There is none.', stderr: '' })
  expect((await run('add', 'Bob@Bücher.test')).out).toMatch(
    /^Email address: +bob@xn--bcher-kva\.test\nReason: +manual$/m,
  )
  await using service = await startServing(data.settings)
  await run('add', 'carol@x.test', '--reason', 'complaint')
  expect((await createClient(service.url, key)('GET', '/v1/suppressions')).body.data).toMatchObject([
    { email_address: 'carol@x.test', reason: 'complaint' },
    { email_address: 'bob@xn--bcher-kva.test', reason: 'manual' },
  ])
  expect((await run('list', '--limit', '1')).out).toMatch(/\ncarol@x\.test +complaint .*\n… and more \(--limit\)$/)
  expect(await runTassisJson(['suppressions', 'list', '--reason', 'manual'], data.settings)).toMatchObject({
    pagination: { total: 1 },
    data: [{ email_address: 'bob@xn--bcher-kva.test' }],
  })
  const person = await runTassis(['people', 'show', 'Carol@x.test'], data.settings)
  expect(person.stdout).toMatch(/^Can receive: +no\nSentence: .* reported an email as spam\.$/m)
  expect(person.stdout).toMatch(/^complaint .* operator\n\nNo email to this address is stored\.$/m)
  expect((await run('remove', 'CAROL@x.test')).out).toBe('Removed 1 suppression.')
  expect((await run('remove', 'carol@x.test')).out).toBe('Removed 0 suppressions.')
  expect(await run('add', 'nobody')).toEqual({
    exitCode: 1,
    out: '',
    stderr: 'tassis: "nobody" is not an address: it has no @ after a local part.\n',
  })
})

test('a file can be imported and exported; invalid lines are listed and exit with 1, an invalid file changes nothing', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const file = join(data.path, 'list.csv')
  const importFile = async (content: string | Uint8Array) => {
    writeFileSync(file, content)
    return runTassis(['suppressions', 'import', file], data.settings)
  }
  const many = Array.from({ length: 2_500 }, (_, i) => `u${i}@x.test,old list`)
  const first = await importFile(`\ufeffemail_address,reason\n${many.join('\n')}\nnobody,x\n`)
  expect([first.exitCode, first.stdout]).toEqual([
    1,
    expect.stringMatching(/^Imported: +2500\n[\s\S]*\n {2}line 2502: "nobody" is not an address: it has no @ .*\n$/),
  ])
  const exported = await runTassis(['suppressions', 'export'], data.settings)
  expect(exported.stdout).toBe(
    ['email_address,reason,stream,list', ...many.map((line) => `${line},,`), ''].join('\r\n'),
  )
  const again = await importFile(exported.stdout)
  expect([again.exitCode, again.stdout]).toEqual([0, expect.stringMatching(/^Already suppressed: +2500$/m)])
  for (const [content, message] of [
    ['colour\nred\n', /no column email_address among "colour"/],
    [new Uint8Array([0x61, 0xe9]), /not in UTF-8/],
  ] as const) {
    const refused = await importFile(content)
    expect([refused.exitCode, refused.stdout]).toEqual([1, ''])
    expect(refused.stderr).toMatch(message)
  }
  const piped = (content: string | Uint8Array) =>
    runTassisProcess(['suppressions', 'import', '-'], data.settings, content)
  expect((await piped('Email\tOpt-out\n')).stderr).toMatch(/^tassis: The file is tab-separated/)
  expect((await piped('Email,Opt-out\na@x.test,x\nu1@x.test,x\n')).stdout).toMatch(/\nIgnored columns: +Opt-out\n$/)
  expect((await piped(new Uint8Array([0x61, 0xe9]))).stderr).toMatch(/^tassis: The file is not in UTF-8/)
  const missing = await runTassis(['suppressions', 'import', join(data.path, 'none.csv')], data.settings)
  expect([missing.exitCode, missing.stderr]).toEqual([1, expect.stringMatching(/none\.csv cannot be read: ENOENT/)])
})

test('export removes control characters for a terminal and writes unchanged bytes to a pipe', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const reason = 'clear\u001b[2J\u0007 \u009b31m\u202eover'
  expect((await runTassis(['suppressions', 'add', 'a@x.test', '--reason', reason], data.settings)).exitCode).toBe(0)
  expect((await runTassis(['suppressions', 'export'], data.settings)).stdout).toContain(reason)
  const chunks: Uint8Array[] = []
  await using terminal = new Bun.Terminal({ cols: 200, data: (_, chunk) => void chunks.push(chunk) })
  const child = Bun.spawn([process.execPath, MAIN, 'suppressions', 'export'], {
    env: { PATH: process.env['PATH'] ?? '', ...data.settings },
    terminal,
  })
  expect(await child.exited).toBe(0)
  const lines = ['email_address,reason,stream,list', 'a@x.test,clear [2J   31m over,,', ''].join('\r\n')
  const shown = () => Buffer.concat(chunks).toString()
  await eventually(() => shown().length >= lines.length)
  expect(shown()).toBe(lines)
})
