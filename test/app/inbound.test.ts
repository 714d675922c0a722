/** @module Tests of `tassis inbound`: received mail that could not be parsed. */
import { Database } from 'bun:sqlite'
import { expect, setDefaultTimeout, test } from 'bun:test'
import { join } from 'node:path'
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { createDataFolder, runTassis, runTassisList, setUpAccount } from './process.ts'

// Commands run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

// Proves: inbound-25
test('unparsed mail is listed and can be parsed again; mail that still cannot be parsed stays listed', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const opened = openApp(loadConfig({ ...data.settings }).config)
  const { app } = opened
  const domain = app.db
    .query<{ accountId: number; domainId: number }, []>('SELECT account_id AS accountId, id AS domainId FROM domains')
    .get() ?? { accountId: 0, domainId: 0 }
  const problem = 'The parser crashed on it.\u001b[2J'
  const good = await storeTestInbound(app, domain, {
    raw: 'From: a@b.test\r\nSubject: Hello\r\n\r\nHello.\r\n',
    problem,
  })
  const returns = '\r'.repeat(2000)
  const bad = await storeTestInbound(app, domain, {
    raw: `Content-Type: multipart/mixed; boundary=x\r\n\r\n${returns}`,
    problem,
  })
  await opened.close()

  const listed = async () => {
    const messages = await runTassisList<{ id: string; kind: string }>(['inbound', 'list'], data.settings)
    return messages.map(({ id, kind }) => [id, kind])
  }
  expect(await listed()).toEqual([
    [good, 'inbound'],
    [bad, 'inbound'],
  ])
  expect((await runTassis(['inbound', 'list'], data.settings)).stdout).not.toContain('\u001b')
  expect(await runTassis(['inbound', 'retry'], data.settings)).toEqual({
    exitCode: 2,
    stdout: '',
    stderr: 'tassis: Give the ID of a message, or --all.\n',
  })
  expect(await runTassis(['inbound', 'retry', good], data.settings)).toEqual({
    exitCode: 0,
    stdout: '1 message parsed.\n',
    stderr: '',
  })
  expect(await runTassis(['inbound', 'retry', '--all'], data.settings)).toEqual({
    exitCode: 1,
    stdout: `0 messages parsed.\n${bad} still cannot be parsed: The message has more than 1,000 carriage returns in a row.\n`,
    stderr: '',
  })
  expect(await listed()).toEqual([[bad, 'inbound']])
  using db = new Database(join(data.path, 'tassis.db'), { readonly: true })
  const entries = db
    .query("SELECT actor_id, resource_id FROM audit_logs WHERE action = 'operator.message_retried' ORDER BY id")
    .all()
  expect(entries).toEqual([
    { actor_id: 'cli', resource_id: good },
    { actor_id: 'cli', resource_id: bad },
  ])
})
