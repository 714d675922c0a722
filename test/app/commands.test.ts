import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  createDataFolder,
  type DataFolder,
  MAIN,
  runTassis,
  runTassisJson,
  runTassisList,
  runTassisProcess,
  setUpAccount,
  startServing,
  withApp,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const requestStatus = (url: string, key: string): Promise<number> =>
  fetch(`${url}/v1/account`, { headers: { authorization: `Bearer ${key}` } }).then((response) => response.status)

// Proves: account-13
test('without a service, commands open the data directory and see the changes of earlier commands', async () => {
  using data = createDataFolder()
  const account = ['accounts', 'create', '--name', 'Acme', '--email', 'ada@acme.test']
  const { id: accountId } = await runTassisJson<{ id: string }>(account, data.settings)
  const { id: domainId } = await runTassisJson<{ id: string }>(['domains', 'add', 'sender.test'], data.settings)
  const { id: keyId, key } = await runTassisJson<{ id: string; key: string }>(
    ['keys', 'create', '--name', 'app'],
    data.settings,
  )
  const accounts = await runTassisList<{ id: string; name: string; plan: string; monthly_quota: number | null }>(
    ['accounts', 'list'],
    data.settings,
  )
  expect(accounts.map(({ id, name, plan, monthly_quota }) => ({ id, name, plan, monthly_quota }))).toEqual([
    { id: accountId, name: 'Acme', plan: 'unlimited', monthly_quota: null },
  ])
  const keys = await runTassisProcess(['keys', 'list'], data.settings)
  expect(keys.stdout).toContain(keyId)
  expect(keys.stdout).toContain(key.slice(0, 16))
  expect(keys.stdout).not.toContain(key)
  expect(await runTassisList(['domains', 'list'], data.settings)).toMatchObject([{ id: domainId, status: 'pending' }])
  expect(existsSync(join(data.path, 'admin.sock'))).toBe(false)
})

describe('with a service', () => {
  let data: DataFolder
  let service: Awaited<ReturnType<typeof startServing>>
  beforeAll(async () => {
    data = createDataFolder()
    await setUpAccount(data.settings)
    service = await startServing(data.settings)
  })
  afterAll(async () => {
    await service[Symbol.asyncDispose]()
    data[Symbol.dispose]()
  })

  test('commands run over its socket and take effect immediately', async () => {
    const { key } = await runTassisJson<{ key: string }>(['keys', 'create', '--name', 'live'], data.settings)
    expect(await requestStatus(service.url, key)).toBe(200)
    const revoked = await runTassisProcess(['keys', 'revoke', key], data.settings)
    expect(revoked.exitCode).toBe(0)
    expect(revoked.stdout).not.toContain(key)
    expect(await requestStatus(service.url, key)).toBe(401)
  })

  test('keys create prints only the key on standard output', async () => {
    const created = await runTassisProcess(['keys', 'create', '--name', 'app'], data.settings)
    expect({ ...created, stdout: /^\S{20,}\n$/.test(created.stdout) }).toEqual({
      exitCode: 0,
      stdout: true,
      stderr: 'This is the key "app" (scopes: all). It is shown only once: store it.\n',
    })
  })

  // Proves: auth-3, operator-18
  test('an imported key works, read from standard input', async () => {
    const own = 'an-operators-own-key-0001'
    const imported = await runTassisProcess(['keys', 'import', '--name', 'old system'], data.settings, `${own}\n`)
    expect({ ...imported, stdout: imported.stdout.includes(own) }).toEqual({ exitCode: 0, stderr: '', stdout: false })
    expect(await requestStatus(service.url, own)).toBe(200)
  })

  test('only the owner can use the admin socket', async () => {
    expect(statSync(join(data.path, 'admin.sock')).mode & 0o777).toBe(0o600)
  })

  test('config names the settings that differ in the running service', async () => {
    expect((await runTassis(['config'], data.settings)).stderr).toBe('')
    const other = { ...data.settings, TASSIS_WORKERS: '3', TASSIS_RELAY_URL: 'smtp://user:hunter2@relay.test' }
    const { exitCode, stdout, stderr } = await runTassis(['config'], other)
    expect({ exitCode, stderr, isOfShell: /^TASSIS_WORKERS +environment +3$/m.test(stdout) }).toEqual({
      exitCode: 0,
      stderr: `The service running on ${data.path} has other values for TASSIS_WORKERS. These are the settings of this shell:\n`,
      isOfShell: true,
    })
  })

  test('a refusal prints one sentence and exits with 1', async () => {
    expect(await runTassis(['domains', 'add', 'sender.test'], data.settings)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'tassis: sender.test is already registered on this account.\n',
    })
  })
})

test('with several accounts, a command asks for --account and accepts its name or ID', async () => {
  using data = createDataFolder()
  const { accountId } = await setUpAccount(data.settings)
  await runTassisJson(['accounts', 'create', '--name', 'Other', '--email', 'bob@other.test'], data.settings)
  const refused = await runTassis(['keys', 'list'], data.settings)
  expect(refused.exitCode).toBe(1)
  expect(refused.stdout).toBe('')
  expect(refused.stderr).toMatch(/^tassis: There are 2 accounts; choose one with --account: .*\(Acme\).*\(Other\)\.\n$/)
  expect(await runTassisList(['keys', 'list', '--account', 'other'], data.settings)).toEqual([])
  expect(await runTassisList(['keys', 'list', '--account', accountId], data.settings)).toHaveLength(1)
})

test('a read-only command creates no database', async () => {
  using data = createDataFolder()
  const looked = await runTassisProcess(['queue'], data.settings)
  expect(looked.exitCode).toBe(2)
  expect(looked.stderr).toContain(`There is no Tassis data in ${data.path}`)
  expect(readdirSync(data.path)).toEqual([])
})

test('domains records --zone splits TXT into strings of at most 255 octets and comments out the inbound MX', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const { stdout } = await runTassis(['domains', 'records', 'sender.test', '--zone'], data.settings)
  const { dns_records: records } = await runTassisJson<{ dns_records: { dkim: { host: string; value: string } } }>(
    ['domains', 'records', 'sender.test'],
    data.settings,
  )
  const { dkim } = records
  const line = stdout.split('\n').find((text) => text.startsWith(`${dkim.host}. 3600 IN TXT `)) ?? ''
  const strings = [...line.matchAll(/"([^"]*)"/g)].map((match) => match[1] ?? '')
  expect(strings.length).toBeGreaterThan(1)
  expect(Math.max(...strings.map((text) => text.length))).toBeLessThanOrEqual(255)
  expect(strings.join('')).toBe(dkim.value)
  expect(stdout).toContain('send.sender.test. 3600 IN MX 10 mail.tassis.test.\n')
  expect(stdout).toContain('\n; sender.test. 3600 IN MX 10 mail.tassis.test.')
})

// Proves: operator-17
test('keys revoke takes a name; if several keys have it, it lists them and revokes none', async () => {
  using data = createDataFolder()
  const { key: first } = await setUpAccount(data.settings)
  await runTassisJson(['accounts', 'create', '--name', 'Other', '--email', 'bob@other.test'], data.settings)
  const create = (name: string, account: string) =>
    runTassisJson<{ id: string; key_prefix: string }>(
      ['keys', 'create', '--name', name, '--account', account],
      data.settings,
    )
  const other = await create('app', 'Other')
  const ci = await create('ci', 'Other')

  const ambiguous = await runTassis(['keys', 'revoke', 'app'], data.settings)
  expect(ambiguous.exitCode).toBe(1)
  expect(ambiguous.stderr).toStartWith('tassis: "app" matches several; give the ID of one: ')
  expect(ambiguous.stderr).toContain(`${other.id} (${other.key_prefix}…, app, account Other)`)
  expect(ambiguous.stderr).not.toContain(first)
  expect((await runTassis(['keys', 'revoke', 'ci'], data.settings)).stdout).toContain(`${ci.key_prefix}…, ci\n`)
  expect((await runTassis(['keys', 'revoke', 'app', '--account', 'Other'], data.settings)).exitCode).toBe(0)
  expect(await runTassisList(['keys', 'list', '--account', 'Other'], data.settings)).toEqual([])
  expect(await runTassisList(['keys', 'list', '--account', 'Acme'], data.settings)).toHaveLength(1)
})

test('domains remove asks, and finds the account that has the domain', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  await runTassisJson(['accounts', 'create', '--name', 'Other', '--email', 'bob@other.test'], data.settings)
  const remove = (...args: string[]) => runTassis(['domains', 'remove', ...args], data.settings)
  expect((await remove('none.test', '--yes')).stderr).toContain('"none.test" matches no domain')
  expect(await remove('sender.test')).toEqual({
    exitCode: 1,
    stdout: '',
    stderr: 'tassis: sender.test would be removed with its DKIM keys; nothing was changed. Add --yes to remove it.\n',
  })
  expect((await remove('Sender.test', '--yes')).stdout).toStartWith('Removed sender.test: ')
  expect(await runTassisList(['domains', 'list', '--account', 'Acme'], data.settings)).toEqual([])
})

test('on data of another version, commands name the version to use and end with 2', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const change = (sql: string) => {
    const db = new Database(join(data.path, 'tassis.db'))
    db.run(sql)
    db.close()
  }
  change("INSERT INTO migrations VALUES ('9999_later', '')")
  for (const command of [['queue'], ['check'], ['serve']])
    expect(await runTassis(command, data.settings)).toEqual({
      exitCode: 2,
      stdout: '',
      stderr:
        'tassis: A newer version of Tassis wrote the database, which has the migration 9999_later; use that version again.\n',
    })
  change('DELETE FROM migrations')
  const { exitCode, stderr } = await runTassis(['check'], data.settings)
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('An older version of Tassis wrote the database')])
  // As every version before the first release stored them.
  change(
    "DROP TABLE migrations; CREATE TABLE migrations (name TEXT PRIMARY KEY); INSERT INTO migrations VALUES ('0000_initial')",
  )
  for (const command of [['check'], ['audit', 'verify'], ['serve']])
    expect(await runTassis(command, data.settings)).toMatchObject({
      exitCode: 2,
      stderr:
        'tassis: A version from before the first release of Tassis wrote the database, and no release can read it; start with an empty data directory.\n',
    })
})

test('an option of a command is not taken for one of its subcommands', async () => {
  for (const args of [
    ['queue', 'release', '--all'],
    ['fence', 'release', '--limit', '3'],
    ['providers', 'resume', 'gmail', '--all'],
  ])
    expect(await runTassis(args, {})).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('unknown option') })
})

test.each([
  [['bogus'], "unknown command 'bogus'"],
  [['webhooks', 'lst'], "unknown command 'lst'\n(Did you mean list?)"],
  [['mail', 'show'], "missing required argument 'id'"],
  [['operations', 'pauze', 'x'], 'too many arguments'],
  [['disk', 'show', '1'], 'too many arguments'],
])('wrong usage %j exits with 2 and says where to look', async (args, problem) => {
  const { exitCode, stdout, stderr } = await runTassis(args, {})
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' })
  expect(stderr).toStartWith(`tassis: ${problem}`)
  expect(stderr).toEndWith('\n`tassis --help`, or --help after a command, shows what there is.\n')
})

test('config shows every setting and its source, but no secret', async () => {
  using data = createDataFolder()
  const file = join(data.path, 'tassis.toml')
  writeFileSync(file, 'workers = 3\n')
  const settings = {
    ...data.settings,
    TASSIS_CONFIG: file,
    TASSIS_RELAY_URL: 'smtp://user:hunter2@smtp.acme.test:587',
    TASSIS_MASTER_KEY: 'c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ=',
    TASSIS_STRICT_CLIENTS: '',
  }
  for (const flags of [[], ['--json'], ['--explain']]) {
    const { exitCode, stdout } = await runTassis(['config', ...flags], settings)
    expect(exitCode).toBe(0)
    expect(stdout).not.toContain('hunter2')
    expect(stdout).not.toContain('c2VjcmV0')
    // A dash is itself a value of some lists.
    if (flags.length === 0) expect(stdout).toMatch(/^TASSIS_STRICT_CLIENTS +default +\(empty\)$/m)
  }
  const shown = await runTassisList<{ variable: string; value: string; source: string }>(['config'], settings)
  const of = (name: string) => {
    const { value, source } = shown.find(({ variable }) => variable === name) ?? {}
    return { value, source }
  }
  expect(of('TASSIS_WORKERS')).toEqual({ value: '3', source: 'file' })
  expect(of('TASSIS_RELAY_URL')).toEqual({ value: '(set)', source: 'environment' })
  expect(of('TASSIS_SMTP_PORT')).toEqual({ value: '25', source: 'default' })
})

test('control characters from outside never reach the terminal', async () => {
  using data = createDataFolder()
  await runTassisJson(['accounts', 'create', '--name', 'A\u001b[2Jcme\u202e', '--email', 'a@acme.test'], data.settings)
  const { stdout } = await runTassis(['accounts', 'list'], data.settings)
  expect(stdout).toContain('A [2Jcme')
  expect(stdout).not.toContain('\u001b')
  expect(stdout).not.toContain('\u202e')
})

test('output larger than a pipe buffer arrives complete, and a closed pipe ends the command quietly', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  await withApp(data.settings, (app) => {
    // Long domain names make the list larger than 64 KiB.
    const columns =
      'account_id, dkim_selector, dkim_public_key, dkim_private_key, sending_subdomain, next_check_at, created_at, updated_at'
    app.db.run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
       INSERT INTO domains (uuid, domain, ${columns}) SELECT randomblob(16), 'd' || i || '.sender.test', ${columns} FROM domains, n`,
    )
  })
  const run = async (reader: string) => {
    const script = `"$0" "$1" domains list --json | ${reader}; echo "\${PIPESTATUS[0]}"`
    await using child = Bun.spawn(['bash', '-c', script, process.execPath, MAIN], {
      env: { PATH: process.env['PATH'] ?? '', ...data.settings },
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
    return { lines: stdout.trimEnd().split('\n'), stderr }
  }
  // The reader starts late, when the pipe is already full.
  const whole = await run('{ read -r first; sleep 1; echo "$first"; cat; }')
  expect(whole.stderr).toBe('')
  expect(whole.lines.at(-1)).toBe('0')
  const listed = JSON.parse(whole.lines.slice(0, -1).join('\n')) as { data: unknown[] }
  expect(listed.data).toHaveLength(901)
  const cut = await run('head -n 1')
  expect({ stderr: cut.stderr, exitCode: cut.lines.at(-1) }).toEqual({ stderr: '', exitCode: '0' })
})
