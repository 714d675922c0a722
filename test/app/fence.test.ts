/**
 * @module Restored copies of a data directory: what was open waits as `restored`, and nothing of the lost time is
 * mistaken for anything else. A receiver counts.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fenceIfCopied } from '#app/fence/instance.ts'
import { dropFence, readFenceView, releaseFence } from '#app/fence/release.ts'
import { listAccounts } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { verifyAuditLog } from '#features/core/audit-logs/chain.ts'
import { listNewestAuditEntries } from '#features/core/audit-logs/read.ts'
import { deriveEventUuid, readLastSeq } from '#features/core/events/record.ts'
import { markAsCopy, readFence } from '#features/core/fence/restored.ts'
import { toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import { changeMail, parseSelector } from '#features/sending/delivery/control/operator-queue.ts'
import { describeLanes, listLaneRecipients, readLanes } from '#features/sending/delivery/control/queue-view.ts'
import { findEmailsTo } from '#features/sending/queue/erase.ts'
import { findMailAbout } from '#features/sending/system-mail/send.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { openDatabase } from '#platform/db/open.ts'
import { createLog } from '#platform/log/log.ts'
import { days, hours } from '#platform/units.ts'
import { runTassisJson } from '#test/app/process.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { createTestAccount, createTestApp, eventually, type TestApp, type TestAppOptions } from '#test/support/app.ts'
import { addContacts, newList } from '#test/support/broadcasts.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { signInAsOperator } from '#test/support/operator.ts'
import { createResolver } from '#test/support/resolver.ts'
import { type Sink, startSink } from '#test/support/sink.ts'

setDefaultTimeout(300_000)

const OPERATOR = { accountId: null, type: 'operator', id: 'cli' } as const

let folder: string
let sink: Sink
let dns: DnsServer
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tassis-fence-'))
  sink = await startSink()
  const MX = (domain: string) => ({
    [domain]: { MX: [{ preference: 1, exchange: `mx.${domain}` }] },
    [`mx.${domain}`]: { A: ['127.0.0.1'] },
  })
  dns = await startDnsServer({ ...MX('one.test'), ...MX('two.test') })
})
afterAll(async () => {
  await sink[Symbol.asyncDispose]()
  await dns.close()
  rmSync(folder, { recursive: true, force: true })
})

/** How often an address got mail, from all services together. */
const countReceived = (address: string): number => sink.messages.filter(({ rcptTo }) => rcptTo.includes(address)).length

let directories = 0
const nextPath = (): string => join(folder, `data-${++directories}`)

const open = (dataDir: string, options: TestAppOptions = {}) =>
  createTestApp({
    dataDir,
    resolver: createResolver(dns, { timeoutMs: 5000, trustsAuthenticity: false }),
    ...options,
    settings: { TASSIS_SMTP_PORT: String(sink.port), ...options.settings },
  })

const findActor = (app: App): Actor => {
  const [account] = listAccounts(app.config, app.db)
  if (!account) throw new Error('there is no account')
  return toOperatorActor(account)
}

const send = async (app: App, to: string, request: Partial<SendRequest> = {}): Promise<string> => {
  const draft = { from: 'ada@sender.test', to, subject: 'Hi', text_body: 'Hi', ...request }
  return (await acceptEmail(app, findActor(app), createDraft(app, draft))).response.id
}

/** A stopped service with due mail to names at one.test and two.test. Returns its data directory. */
async function createOriginal(addresses: readonly string[]): Promise<string> {
  const dataDir = nextPath()
  await using service = await open(dataDir)
  await createDomain(service.app, await createTestAccount(service.app), 'sender.test')
  service.app.db.run('UPDATE domains SET verified_at = 1')
  for (const address of addresses) await send(service.app, address)
  return dataDir
}

const TAKEN_AT = Date.UTC(2026, 0, 2)

/** Copies a stopped data directory as a backup does; returns the copy. */
function backUp(original: string): string {
  const copy = nextPath()
  cpSync(original, copy, { recursive: true })
  const db = openDatabase(join(copy, 'tassis.db'))
  markAsCopy(db, { kind: 'backup', takenAt: TAKEN_AT })
  db.close()
  return copy
}

const readOpen = ({ db }: App) =>
  db
    .query<{ address: string; lastError: string | null }, []>(
      'SELECT address, last_error AS lastError FROM recipients WHERE next_at IS NOT NULL ORDER BY address',
    )
    .all()

/** Resolves once all open mail is held as restored. */
const allHeld = (app: App) =>
  eventually(() => readOpen(app).every(({ lastError }) => lastError?.startsWith('restored: ')))

/** The data are consistent, and nothing is in flight. */
async function expectSettled(service: TestApp): Promise<void> {
  await eventually(() => service.delivery?.scheduler.inFlight === 0)
  expectBalanced(service)
}

const readIds = ({ db }: App) =>
  db.query<{ email: number; recipient: number }, []>('SELECT email_id AS email, id AS recipient FROM recipients').all()

const listEventIds = ({ db, keys }: App): string[] =>
  db
    .query<{ accountId: number; seq: number }, []>('SELECT account_id AS accountId, seq FROM events')
    .all()
    .map(({ accountId, seq }) => deriveEventUuid(keys, accountId, seq))

test('a restored copy sends nothing that the lost time sent, and its new rows and events share no id with it', async () => {
  const original = await createOriginal(['ann@one.test', 'bob@two.test'])
  const copy = backUp(original)
  const known = { ids: [] as ReturnType<typeof readIds>, eventIds: [] as string[], lastSeq: 0 }
  {
    await using lost = await open(original, { delivers: true })
    await send(lost.app, 'cem@one.test')
    await eventually(() => readOpen(lost.app).length === 0)
    known.ids = readIds(lost.app)
    known.eventIds = listEventIds(lost.app)
    known.lastSeq = readLastSeq(lost.app.db, findActor(lost.app).accountId)
  }
  await using restored = await open(copy, { delivers: true, runsTasks: true })
  const { app } = restored
  await send(app, 'dan@one.test')
  await eventually(() => countReceived('dan@one.test') === 1)
  await allHeld(app)
  expect([countReceived('ann@one.test'), countReceived('bob@two.test'), countReceived('cem@one.test')]).toEqual([
    1, 1, 1,
  ])

  const before = new Set(known.ids.flatMap(({ email, recipient }) => [`e${email}`, `r${recipient}`]))
  const after = readIds(app).filter(({ email }) => email > (readFence(app.db)?.lastIds['emails'] ?? 0))
  expect(after).toHaveLength(1)
  expect(
    after.flatMap(({ email, recipient }) => [`e${email}`, `r${recipient}`]).filter((id) => before.has(id)),
  ).toEqual([])
  // The events of the backup keep their ids; those of the lost time and later ones share none.
  const ofBackup = new Set(listEventIds(app).filter((id) => known.eventIds.includes(id)))
  expect(ofBackup.size).toBe(2)
  expect(readLastSeq(app.db, findActor(app).accountId)).toBeGreaterThan(known.lastSeq + 1_000_000)
  await expectSettled(restored)

  await eventually(async () => {
    const reasons = await describeLanes(app, restored.delivery?.scheduler, await readLanes(app))
    return reasons.length === 2 && reasons.every((reason) => reason.startsWith('restored: '))
  })
})

test('what waits is shown, and released or dropped in parts', async () => {
  const copy = backUp(await createOriginal(['a@one.test', 'b@one.test', 'c@two.test', 'd@two.test']))
  // A second fence holds what the first held.
  expect(await start(copy)).toEqual({ isFenced: true, open: 4 })
  await using restored = await open(backUp(copy), { delivers: true })
  const { app } = restored
  await allHeld(app)
  const view = await readFenceView(app)
  expect(view).toMatchObject({
    kind: 'backup',
    taken_at: new Date(TAKEN_AT).toISOString(),
    recipients: 4,
    broadcasts: 0,
  })
  expect(view?.groups.map(({ account, domain, recipients }) => [account, domain, recipients]).sort()).toEqual([
    ['Test', 'one.test', 2],
    ['Test', 'two.test', 2],
  ])
  expect(await releaseFence(app, OPERATOR, { domain: 'one.test' })).toEqual({ released: 2, due: 2, is_ended: false })
  // The receiver has them before the service has stored that.
  await eventually(() => readOpen(app).length === 2)
  expect([countReceived('a@one.test'), countReceived('b@one.test')]).toEqual([1, 1])
  expect(countReceived('c@two.test')).toBe(0)
  // A repeated release changes nothing.
  expect(await releaseFence(app, OPERATOR, { domain: 'one.test' })).toEqual({ released: 0, due: 0, is_ended: false })
  expect(await dropFence(app, OPERATOR, {})).toEqual({ dropped: 2, next_cursor: null, is_ended: true })
  expect([readOpen(app), await readFenceView(app), countReceived('c@two.test')]).toEqual([[], undefined, 0])
  await expectSettled(restored)
})

test('scheduled mail is held when its time comes, and a release before that leaves its time', async () => {
  const original = await createOriginal([])
  {
    await using service = await open(original)
    await send(service.app, 'later@one.test', { send_at: new Date(Date.now() + hours(1)).toISOString() })
  }
  await using restored = await open(backUp(original), { delivers: true })
  const { app } = restored
  expect((await readFenceView(app))?.recipients).toBe(1)
  app.db.run('UPDATE recipients SET next_at = ?', [Date.now()])
  app.mailDue.emit({ lane: '1:one.test', at: Date.now() })
  await allHeld(app)
  const selector = parseSelector(app, { domain: 'one.test' })
  const retried = await changeMail(app, OPERATOR, 'retry', selector, { reason: '', after: undefined })
  expect(retried).toMatchObject({ changed: 0, held: 1 })
  expect(listLaneRecipients(app.db, '1:one.test', 1, undefined)).toMatchObject([{ waits_for: 'fence' }])
  expect(await releaseFence(app, OPERATOR, {})).toEqual({ released: 1, due: 1, is_ended: true })
  await eventually(() => countReceived('later@one.test') === 1)
})

/** What a start finds: what waits as restored, and whether a copy was fenced. */
async function start(dataDir: string): Promise<{ isFenced: boolean; open: number }> {
  await using service = await open(dataDir)
  return { isFenced: readFence(service.app.db) !== undefined, open: readOpen(service.app).length }
}

test('a database that comes without its directory is fenced; a directory that was moved is not', async () => {
  const original = await createOriginal(['moved@one.test'])
  const replica = nextPath()
  mkdirSync(replica)
  for (const name of ['tassis.db', 'master.key']) cpSync(join(original, name), join(replica, name))
  expect(await start(replica)).toEqual({ isFenced: true, open: 1 })
  const moved = nextPath()
  cpSync(original, moved, { recursive: true })
  expect(await start(moved)).toEqual({ isFenced: false, open: 1 })
})

test('an older database that is put back into its directory is fenced, and once', async () => {
  const original = await createOriginal(['older@one.test'])
  const kept = join(folder, 'kept.db')
  cpSync(join(original, 'tassis.db'), kept)
  expect((await start(original)).isFenced).toBe(false)
  {
    await using lost = await open(original, { delivers: true })
    await eventually(() => readOpen(lost.app).length === 0)
  }
  cpSync(kept, join(original, 'tassis.db'))
  const readFenceOnce = async () => {
    await using restored = await open(original)
    return { fence: readFence(restored.app.db), open: readOpen(restored.app).length }
  }
  const first = await readFenceOnce()
  expect([first.fence?.kind, first.open]).toEqual(['copy', 1])
  expect(await readFenceOnce()).toEqual(first)
})

test('a directory that another machine uses is refused until that has been silent for a while', async () => {
  const dataDir = await createOriginal([])
  const path = join(dataDir, 'instance.json')
  const file = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>
  expect(file['machine']).toBeNull()
  const other = { machine_id: 'another', boot_id: 'another', pid: 7 }
  const use = (renewed_at: string, machine: object = other) =>
    writeFileSync(path, JSON.stringify({ ...file, machine, renewed_at }))
  // Containers have no machine-id.
  use(new Date().toISOString(), { ...other, machine_id: '' })
  await expect(open(dataDir)).rejects.toThrow(/^Another machine \(boot_id another, process 7\) used /)
  const boot_id = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  for (const machine_id of ['', 'another']) {
    use(new Date().toISOString(), { ...other, machine_id, boot_id })
    expect(await start(dataDir)).toEqual({ isFenced: false, open: 0 })
  }
  use(new Date().toISOString())
  await expect(open(dataDir)).rejects.toThrow(
    /^Another machine \(machine-id another, process 7\) used .* start again in 30 s\.$/,
  )
  use(new Date(Date.now() - 60_000).toISOString())
  expect(await start(dataDir)).toEqual({ isFenced: false, open: 0 })
})

// Proves: operator-50
test('broadcasts and emails to contacts wait; new ones flow; a release sends them, and a drop ends them', async () => {
  const original = nextPath()
  let key = ''
  let list = ''
  let operation = ''
  const signUp = async ({ api }: Pick<TestApi, 'api'>, email: string) =>
    expect((await api('POST', `/v1/contact-lists/${list}/contacts`, { email }, { key })).status).toBe(201)
  const startBroadcast = async ({ api }: Pick<TestApi, 'api'>, contact_list_id: string) => {
    const request = { contact_list_id, from_address: 'ada@sender.test', subject: 'News', text_body: 'News' }
    const answer = await api('POST', '/v1/emails/broadcast', request, { key })
    return String(at(answer.body, 'data', 'operation_id'))
  }
  {
    await using service = await createTestApi({ dataDir: original })
    key = service.key
    await createDomain(service.app, service.actor, 'sender.test')
    service.app.db.run('UPDATE domains SET verified_at = 1')
    const created = await service.api('POST', '/v1/contact-lists', { name: 'News', double_opt_in: true })
    list = String(at(created.body, 'data', 'id'))
    await addContacts(service.app, list, [{ email: 'reader@one.test' }])
    await signUp(service, 'new@one.test')
    operation = await startBroadcast(service, list)
  }
  const settings = { TASSIS_DATA_DIR: backUp(original), TASSIS_MIN_FREE_DISK: '0', TASSIS_LOG_LEVEL: 'error' }
  expect(await runTassisJson(['fence', 'drop', '--yes'], settings)).toEqual({
    recipients: 0,
    broadcasts: 1,
    contact_mails: 1,
    imports: 0,
    is_ended: true,
  })
  await using service = await createTestApi({
    dataDir: backUp(original),
    delivers: true,
    runsTasks: true,
    settings: { TASSIS_DELIVERY: 'capture' },
  })
  const { app, api } = service
  const countTo = (address: string) =>
    app.db.query<{ n: number }, [string]>('SELECT count(*) AS n FROM recipients WHERE address = ?').get(address)?.n ?? 0
  const operator = await signInAsOperator(service)
  const ask = (method: string, path: string, body?: unknown) => operator.ask(method, `/v1/operator/fence${path}`, body)
  const waiting = { kind: 'backup', recipients: 0, broadcasts: 1, contact_mails: 1, imports: 0, group_count: 0 }
  expect(at((await ask('GET', '')).body, 'data')).toMatchObject(waiting)
  const ofMail = await ask('GET', '?domain=one.test&from_date=2026-01-01')
  expect(at(ofMail.body, 'data')).toMatchObject({ recipients: 0, broadcasts: 0, contact_mails: 0 })
  expect((await ask('GET', '?from_date=soon')).status).toBe(422)
  expect((await ask('POST', '/drop', { domain: 'not a domain' })).status).toBe(422)
  expect((await ask('POST', '/release', { account_id: operation })).status).toBe(404)
  const later = await newList({ api }, 'Later', key)
  await addContacts(app, later, [{ email: 'later@one.test' }])
  await startBroadcast(service, later)
  await signUp(service, 'later-new@one.test')
  await eventually(() => countTo('later@one.test') === 1 && countTo('later-new@one.test') === 1)
  const readState = async () =>
    at((await api('GET', `/v1/operations/${operation}`, undefined, { key })).body, 'data') as {
      status: string
      error_summary: { message: string } | null
      metadata: { state: string }
    }
  await eventually(async () => (await readState()).error_summary?.message.startsWith('restored: '))
  expect([countTo('reader@one.test'), countTo('new@one.test')]).toEqual([0, 0])
  expect(at((await ask('POST', '/release', {})).body, 'data')).toEqual({ released: 0, due: 0, is_ended: true })
  expect((await ask('GET', '')).body).toEqual({ data: null })
  expect(at((await ask('POST', '/drop', {})).body, 'data')).toEqual({ dropped: 0, is_ended: true, next_cursor: null })
  const [entry] = listNewestAuditEntries(app.db, undefined, { action: 'restored.released' }, 1)
  expect([entry?.actorType, entry?.resourceType, entry?.accountId]).toEqual(['user', 'queue', null])
  await eventually(() => countTo('reader@one.test') === 1 && countTo('new@one.test') === 1)
  await eventually(async () => (await readState()).metadata.state === 'done')
  await expectSettled(service)
})

test('numbers of two restores differ whatever the clock says, and grow with each restore', async () => {
  const original = await createOriginal(['clock@one.test'])
  /** Fences a copy at a time; returns the last skipped event number and row id. */
  const fenceAt = (copy: string, now: number): readonly [number, number] => {
    using db = openDatabase(join(copy, 'tassis.db'))
    expect(fenceIfCopied(db, now, createLog('silent'))).toBe(true)
    const [entry] = listNewestAuditEntries(db, undefined, { action: 'restored.fenced', from: undefined }, 1)
    expect([entry?.actorType, entry?.metadata]).toEqual([
      'system',
      JSON.stringify({ kind: 'backup', taken_at: new Date(TAKEN_AT).toISOString() }),
    ])
    expect(verifyAuditLog(db).broken).toEqual([])
    const row = db.query<{ seq: number; id: number }, []>(
      "SELECT (SELECT last_seq FROM event_sequences) AS seq, (SELECT seq FROM sqlite_sequence WHERE name = 'recipients') AS id",
    )
    const { seq = 0, id = 0 } = row.get() ?? {}
    return [seq, id]
  }
  const now = Date.now()
  const times = [now + days(1), now, now + 1000]
  const numbers = times.map((time) => fenceAt(backUp(original), time))
  // Far enough apart for all that a service does in the time between.
  const [ahead, back, later] = numbers
  if (!ahead || !back || !later) throw new Error('not fenced')
  expect(ahead[0] - later[0]).toBeGreaterThan(1_000_000_000)
  expect(ahead[1] - later[1]).toBeGreaterThan(10_000_000)
  expect([later[0] - back[0], later[1] - back[1]]).toEqual([100_000, 128])
  // A clock of 1970, and the copy of a copy that was fenced under a clock ahead.
  const first = backUp(original)
  expect(fenceAt(first, 0)[1]).toBeGreaterThan(16_000_000)
  const copy = backUp(original)
  const [seq, id] = fenceAt(copy, now + days(1))
  const again = fenceAt(backUp(copy), now)
  expect([again[0] > seq, again[1] > id, again[1] < 2 ** 40]).toEqual([true, true, true])
  // Two restores of one backup of a copy: its numbers are above those of the clock.
  const [once, twice] = [fenceAt(backUp(copy), now), fenceAt(backUp(copy), now)]
  expect(Math.abs(once[0] - twice[0])).toBeGreaterThan(1000)
  expect(Math.abs(once[1] - twice[1])).toBeGreaterThan(10)
})

test('searches through row ids do not count through those that a restore skipped', async () => {
  await using service = await open(backUp(await createOriginal(['ann@one.test'])))
  const { app } = service
  await send(app, 'ann@one.test')
  const { accountId } = findActor(app)
  const search = { accountId, addressKey: 'ann@one.test', isMatch: () => true, limit: 10 }
  const found: number[] = []
  let calls = 0
  for (let after: number | undefined = 0; after !== undefined; calls++) {
    const { ids: emailIds, next } = findEmailsTo(app.db, { ...search, after })
    found.push(...emailIds)
    after = next
  }
  expect([found.length, calls]).toEqual([2, 2])
  expect(findMailAbout(app.db, accountId, 0).next).toBeGreaterThan(1_000_000)
})
