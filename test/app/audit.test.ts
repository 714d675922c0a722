import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { rewriteAuditChain } from '#test/support/audit-chain.ts'
import { createDataFolder, type DataFolder, runTassis, runTassisJson, runTassisList } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

interface Verified {
  readonly ok: boolean
  readonly entries: number
  readonly head: { readonly id: number; readonly hash: string }
  readonly expected: { readonly found: boolean } | null
  readonly broken: readonly { readonly position: number }[]
}

let intact: DataFolder
let head: string

// Two accounts with one key each.
beforeAll(async () => {
  intact = createDataFolder()
  for (const name of ['one', 'two']) {
    await runTassis(['accounts', 'create', '--name', name, '--email', `${name}@x.test`], intact.settings)
    await runTassis(['keys', 'create', '--account', name, '--name', `app\u001b[31m ${name}`], intact.settings)
  }
  head = (await runTassisJson<Verified>(['audit', 'verify'], intact.settings)).head.hash
})

afterAll(() => intact[Symbol.dispose]())

/** Copies the intact data and applies a change. */
function copyWithChange(change: string): DataFolder {
  const data = createDataFolder()
  cpSync(intact.path, data.path, { recursive: true })
  const db = new Database(join(data.path, 'tassis.db'))
  db.run(change)
  db.close()
  return data
}

test('verify prints the entry count and the newest hash of an intact log and exits with 0', async () => {
  const { exitCode, stdout, stderr } = await runTassis(['audit', 'verify'], intact.settings)
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  expect(stdout).toMatch(/^Entries: +4$/m)
  expect(stdout).toMatch(new RegExp(`^Head: +ID 4, hash ${head}$`, 'm'))
  expect(stdout).toContain('\nThe log is unchanged. Store the hash elsewhere: ')
})

// Proves: audit-6
test('verify names an entry with one changed byte and exits with 1, and `tassis check` finds it', async () => {
  using data = copyWithChange("UPDATE audit_logs SET ip_address = '192.0.2.1' WHERE id = 3")
  const { exitCode, stdout } = await runTassis(['audit', 'verify'], data.settings)
  expect(exitCode).toBe(1)
  expect(stdout).toMatch(
    /\n3 +[0-9a-f-]{36} +20.*Z +has a changed actor, address, resource, metadata, salt or digest\n\nThe log was CHANGED\.\n$/,
  )
  const check = await runTassis(['check'], data.settings)
  expect(check.exitCode).toBe(1)
  expect(check.stdout).toContain('WRONG  the audit log is unchanged')
})

test('--expect finds an earlier hash in a log that continues from it, but not in a rewritten log', async () => {
  expect(await runTassisJson<Verified>(['audit', 'verify', '--expect', head], intact.settings)).toMatchObject({
    ok: true,
    expected: { hash: head, found: true },
  })
  using data = copyWithChange("UPDATE audit_logs SET action = 'x.forged' WHERE id = 1")
  {
    using db = new Database(join(data.path, 'tassis.db'))
    rewriteAuditChain(db)
  }
  const plain = await runTassis(['audit', 'verify'], data.settings)
  const { exitCode, stdout } = await runTassis(['audit', 'verify', '--expect', head], data.settings)
  expect([plain.exitCode, exitCode]).toEqual([0, 1])
  expect(stdout).toMatch(new RegExp(`^Expected: +hash ${head}, found no$`, 'm'))
})

test('list shows entries of all accounts or of one, newest first, without control characters', async () => {
  const { exitCode, stdout } = await runTassis(['audit', 'list'], intact.settings)
  expect(exitCode).toBe(0)
  expect(stdout).not.toContain('\u001b')
  const columns = stdout
    .split('\n')
    .slice(1, 5)
    .map((line) => line.split(/ {2,}/).slice(1, 4))
  expect(columns).toEqual([
    ['two', 'api_key.created', 'operator'],
    ['two', 'account.created', 'operator'],
    ['one', 'api_key.created', 'operator'],
    ['one', 'account.created', 'operator'],
  ])
  const one = await runTassisList<{ action: string; position: number }>(
    ['audit', 'list', '--account', 'one', '--action', 'api_key.created', '--since', '2020-01-01'],
    intact.settings,
  )
  expect(one).toMatchObject([{ action: 'api_key.created', position: 2 }])
  const cut = await runTassisJson(['audit', 'list', '--limit', '1'], intact.settings)
  expect(cut).toMatchObject({ data: [{ action: 'api_key.created' }], has_more: true })
  expect((await runTassis(['audit', 'list', '--limit', '1'], intact.settings)).stdout).toEndWith(
    '… and more (--limit)\n',
  )
  expect((await runTassis(['audit', 'list', '--since', '2999-01-01'], intact.settings)).stdout).toBe('No entries.\n')
  expect((await runTassis(['audit', 'list', '--since', 'soon'], intact.settings)).exitCode).toBe(2)
  expect((await runTassis(['audit', 'list', '--account', 'nobody'], intact.settings)).exitCode).toBe(1)
})
