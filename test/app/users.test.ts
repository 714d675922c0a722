import { expect, setDefaultTimeout, test } from 'bun:test'
import { findToken, postForm, signIn } from '#test/support/users.ts'
import {
  createDataFolder,
  runTassis,
  runTassisJson,
  runTassisList,
  runTassisProcess,
  setUpAccount,
  startServing,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const PASSWORD = 'heron lamp orbit fudge'
const EMAIL = 'ada@people.test'

interface Shown {
  readonly id: string
  readonly email: string
  readonly name: string
  readonly has_password: boolean
  readonly link?: string | null
  readonly accounts: readonly { readonly role: string }[]
}

// Proves: user-17, operator-60
test('a user can be created with a link to set the password, listed, signed out, reset and removed', async () => {
  using data = createDataFolder()
  const { settings } = data
  await setUpAccount(settings)
  await using service = await startServing(settings)
  const created = await runTassis(['users', 'create', EMAIL, '--name', 'Ada'], settings)
  expect(created).toEqual({
    exitCode: 0,
    stdout: expect.stringMatching(/^http:\/\/\S+\/reset-password\?token=[\w-]{43}\n$/),
    stderr: expect.stringMatching(
      /^Created user ada@people\.test \([0-9a-f-]{36}\), owner\. The link sets a password once, within 24 hours: /,
    ),
  })
  const token = findToken(created.stdout)
  const set = await postForm(service.url, '/reset-password', { token, password: PASSWORD })
  expect([set.status, String(set.body)]).toEqual([200, expect.stringContaining('Your account is ready.')])
  const session = await signIn(service, EMAIL, { password: PASSWORD })
  expect((await session.ask('GET', '/v1/account')).status).toBe(200)

  const [listed] = await runTassisList<Shown>(['users', 'list'], settings)
  expect(listed).toMatchObject({ email: EMAIL, name: 'Ada', has_password: true, accounts: [{ role: 'owner' }] })
  expect((await runTassis(['users', 'sessions', EMAIL], settings)).stdout).toContain('127.0.0.1')
  expect((await runTassis(['users', 'sign-out', EMAIL], settings)).stdout).toBe('Ended: 1\n')
  expect((await session.ask('GET', '/v1/account')).status).toBe(401)
  expect((await runTassis(['users', 'totp-off', EMAIL], settings)).exitCode).toBe(0)
  const { link } = await runTassisJson<{ link: string }>(['users', 'reset', EMAIL], settings)
  expect(link).toMatch(/\/reset-password\?token=[\w-]{43}$/)
  expect((await runTassis(['users', 'remove', EMAIL], settings)).stdout).toMatch(
    /^Email: +ada@people\.test\n.*\nHas owner: +no\n$/,
  )
  expect(await runTassisList<Shown>(['users', 'list'], settings)).toEqual([])
})

test('a password is read from standard input, never from an argument; a user who is added to a second account keeps it', async () => {
  using data = createDataFolder()
  const { settings } = data
  await setUpAccount(settings)
  const create = ['users', 'create', EMAIL, '--role', 'admin']
  const weak = await runTassisProcess([...create, '--password-stdin'], settings, 'password123\n')
  expect([weak.exitCode, weak.stderr]).toEqual([1, expect.stringContaining('attackers')])
  const created = await runTassisProcess([...create, '--password-stdin', '--json'], settings, `${PASSWORD}\n`)
  expect((JSON.parse(created.stdout) as { data: Shown }).data).toMatchObject({
    has_password: true,
    link: null,
    accounts: [{ role: 'admin' }],
  })
  expect((await runTassis(['users', 'role', EMAIL, 'owner'], settings)).stdout).toMatch(/^Role: +owner$/m)
  const last = await runTassis(['users', 'role', EMAIL, 'viewer'], settings)
  expect([last.exitCode, last.stderr]).toEqual([1, expect.stringContaining('the only owner')])
  expect(created.stdout).not.toContain(PASSWORD)
  await runTassis(['accounts', 'create', '--name', 'Second', '--email', 'x@people.test'], settings)
  const second = await runTassisProcess([...create, '--account', 'Second', '--password-stdin'], settings, PASSWORD)
  expect([second.exitCode, second.stderr]).toEqual([
    1,
    expect.stringContaining('There is already a user ada@people.test'),
  ])
  const added = await runTassisJson<Shown>([...create, '--account', 'Second'], settings)
  expect(added).toMatchObject({ link: null, accounts: [{ role: 'owner' }, { role: 'admin' }] })
})
