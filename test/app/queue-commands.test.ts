import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { join } from 'node:path'
import { checkConsistency, hideDeletedAccounts } from '#app/cli/check.ts'
import type { App } from '#features/core/app/app.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { holdWithoutContent } from '#features/sending/delivery/verdict/held-mail.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTestAccount, createTestApp, eventually } from '#test/support/app.ts'
import {
  createClient,
  createDataFolder,
  type DataFolder,
  runTassis,
  runTassisJson,
  runTassisProcess,
  setUpAccount,
  startServing,
} from './process.ts'

setDefaultTimeout(300_000)

let data: DataFolder
let key: string
let accountId: string
beforeAll(async () => {
  data = createDataFolder()
  ;({ key, accountId } = await setUpAccount(data.settings, { verified: true }))
})
afterAll(() => data[Symbol.dispose]())

const openData = () => new Database(join(data.path, 'tassis.db'), { readonly: true })
const countWaiting = (domain: string): number => {
  using db = openData()
  return (
    db
      .query<{ n: number }, [string]>(
        "SELECT count(*) AS n FROM recipients WHERE next_at IS NOT NULL AND lane LIKE '%:' || ?",
      )
      .get(domain)?.n ?? 0
  )
}
/** Differences between counters and rows. */
function findDifferences(): unknown[] {
  using db = openData()
  hideDeletedAccounts(db)
  return checkConsistency(db).filter(({ differences }) => differences.length > 0)
}

/** Sends to many addresses of a domain, an hour from now. */
async function fill(url: string, domain: string, count: number): Promise<void> {
  const send_at = new Date(Date.now() + 3_600_000).toISOString()
  for (let from = 0; from < count; from += 500) {
    const emails = Array.from({ length: Math.min(500, count - from) }, (_, i) => ({
      from: 'ada@sender.test',
      to: `r${from + i}@${domain}`,
      subject: 'Hi',
      text_body: 'Hi',
      send_at,
    }))
    const answer = await createClient(url, key)('POST', '/v1/emails/batch', { emails })
    expect(answer.status).toBe(202)
  }
}

test('the commands ask first, act in the running service, and say what they did', async () => {
  await using service = await startServing(data.settings)
  await fill(service.url, 'one.test', 12)
  const run = (...args: string[]) => runTassis(['queue', ...args], data.settings)
  const refused = await runTassisProcess(['queue', 'drop', '--domain', 'one.test'], data.settings)
  expect(refused).toEqual({
    exitCode: 1,
    stdout: '',
    stderr: 'tassis: 12 waiting messages match, and 0 in delivery; nothing was changed. Add --yes to drop them.\n',
  })
  expect((await run('hold', '--domain', 'one.test', '--reason', 'They asked', '--yes')).stdout).toBe(
    'Waiting:     12\nIn delivery: 0\nAll of it, and mail that comes later, is held until `tassis queue release --domain one.test`.\n',
  )
  const shown = (await run()).stdout
  expect(shown).toMatch(
    /\none\.test \(low priority of Acme\) +12 +.* held since .* until you release it .*: They asked\n/,
  )
  expect(shown).toMatch(/\nhold +one\.test .* cli +They asked\n/)
  expect((await run('retry', '--account', 'acme', '--yes')).stdout).toBe(
    'Changed:     0\nIn delivery: 0\nHeld:        12\nWhat is held or in delivery was left alone; see `tassis queue`.\n',
  )
  expect((await run('redirect', '--account', 'Acme', '--to', '[192.0.2.7]', '--yes')).stdout).toBe(
    'Waiting:     12\nIn delivery: 0\n`tassis queue retry --account Acme` sends what waits for another attempt.\n',
  )
  expect((await run('release', '--account', 'Acme', '--only', 'redirect', '--yes')).stdout).toMatch(
    /\nredirect +Acme +\[192\.0\.2\.7\] .* cli\n$/,
  )
  expect((await run('release', '--domain', 'one.test', '--yes')).stdout).toMatch(
    /\nhold +one\.test .* cli +They asked\n$/,
  )
  expect((await run('release', '--domain', 'one.test', '--yes')).stdout).toBe(
    'No hold or redirect matches; `tassis queue` shows them.\n',
  )
  expect((await run('bounce', '--domain', 'one.test', '--reason', 'A mistake', '--yes')).stdout).toMatch(
    /^Changed: +12\n/,
  )
  expect(await runTassisJson(['queue', 'drop', '--domain', 'one.test', '--yes'], data.settings)).toEqual({
    changed: 0,
    in_delivery: 0,
    held: 0,
    suspended: [],
  })
  expect(findDifferences()).toEqual([])
  const { stdout } = await runTassis(['audit', 'list'], data.settings)
  for (const action of ['held', 'retried', 'redirected', 'released', 'bounced', 'dropped'])
    expect(stdout).toContain(`queue.${action}`)
})

test('a kill in the middle leaves whole batches; the same command finishes the rest; a hold survives', async () => {
  const count = 1500
  let left: number
  const db = new Database(join(data.path, 'tassis.db'))
  // Each change takes some milliseconds, so that the kill meets the middle also when this process is stopped meanwhile.
  const slow = `CREATE TRIGGER slow AFTER UPDATE OF status ON recipients BEGIN
    SELECT count(*) FROM recipients a, (SELECT id FROM recipients LIMIT 60) b WHERE a.address || b.id = ''; END`
  {
    await using service = await startServing(data.settings)
    await fill(service.url, 'two.test', count)
    await runTassis(['queue', 'hold', '--account', accountId, '--yes'], data.settings)
    db.run(slow)
    const dropping = runTassisProcess(['queue', 'drop', '--domain', 'two.test', '--yes'], data.settings)
    await eventually(() => countWaiting('two.test') < count - 100)
    process.kill(service.pid, 'SIGKILL')
    await service.exited
    expect((await dropping).exitCode).not.toBe(0)
    left = countWaiting('two.test')
    db.run('DROP TRIGGER slow')
    db.close()
  }
  expect(left).toBeGreaterThan(0)
  expect(left % 50).toBe(0)
  expect(findDifferences()).toEqual([])
  await using _ = await startServing(data.settings)
  const again = await runTassis(['queue', 'drop', '--domain', 'two.test', '--yes'], data.settings)
  expect(again.stdout).toMatch(new RegExp(`^Changed: +${left}\n`, 'm'))
  expect(countWaiting('two.test')).toBe(0)
  expect(findDifferences()).toEqual([])
  const { rules } = await runTassisJson<{ rules: unknown[] }>(['queue'], data.settings)
  expect(rules).toMatchObject([{ kind: 'hold', account_id: accountId }])
  await runTassis(['queue', 'release', '--account', accountId, '--yes'], data.settings)
})

/** Accepts an email for each address, of a new account. */
async function accept(app: App, ...addresses: string[]): Promise<void> {
  const actor = await createTestAccount(app)
  await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  for (const to of addresses)
    await acceptEmail(app, actor, createDraft(app, { from: 'ada@sender.test', to, subject: 'Hi', text_body: 'Hi' }))
}

test('broadcast mail waits in a separate lane that names the domain', async () => {
  using data = createDataFolder()
  {
    await using service = await createTestApp({ dataDir: data.path })
    const { app } = service
    await accept(app, 'ann@receiver.test', 'bob@receiver.test')
    app.db.run("UPDATE recipients SET lane = 'bulk:1:receiver.test' WHERE address LIKE 'bob%'")
  }
  const first = await runTassis(['queue', '--limit', '1'], data.settings)
  expect(first.stdout).toMatch(/\nreceiver\.test \(Test\) +1 +.*\n… and more \(--limit\)\n/)
  const { stdout } = await runTassis(['queue', '--limit', '1', '--all'], data.settings)
  expect(stdout).toContain('2 messages to 2 destinations;')
  expect(stdout).toMatch(/\nreceiver\.test \(Test\) +1 +.*\nreceiver\.test \(broadcast of Test\) +1 +/)
  expect(await runTassisJson(['queue'], data.settings)).toMatchObject({
    health: { queue: { waiting: 2, lanes: 2 } },
    pagination: { total: 2 },
    data: [
      { lane: '1:receiver.test', account: 'Test' },
      { lane: 'bulk:1:receiver.test', account: 'Test' },
    ],
  })
})

// Proves: storage-7, operator-51
test('queue release releases mail that waited for its content and prints the number of messages', async () => {
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DELIVERY: 'capture' }
  {
    await using service = await createTestApp({ dataDir: data.path, settings: { TASSIS_DELIVERY: 'capture' } })
    const { app } = service
    await accept(app, 'ann@receiver.test')
    const recipient = app.db
      .query<{ recipientId: number; emailId: number }, []>(
        'SELECT id AS recipientId, email_id AS emailId FROM recipients',
      )
      .get() ?? { recipientId: 0, emailId: 0 }
    await app.commit.write((tx) => holdWithoutContent(app, tx, recipient))
  }
  const [before, released, again] = [
    await runTassis(['queue'], settings),
    await runTassis(['queue', 'release'], settings),
    await runTassisJson(['queue', 'release'], settings),
  ]
  expect(before.stdout).toContain('deferred: Held without its content: The stored content of the email is missing')
  expect(released).toEqual({
    exitCode: 0,
    stdout: '1 message released; messages whose content is still missing are held again.\n',
    stderr: '',
  })
  expect(again).toEqual({ released: 0 })
  const { data: entries } = await runTassisJson<{ data: unknown[] }>(['audit', 'list'], settings)
  expect(entries).toContainEqual(expect.objectContaining({ action: 'queue.content_released', actor_id: 'cli' }))
})
