/**
 * @module Opens data directories of released versions, and one of this version, with this version (`make-data.ts` makes
 * them): nothing is lost, every request works, and waiting mail is sent.
 */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { simpleParser } from 'mailparser'
import { createHttp } from '#app/http.ts'
import { migrations } from '#app/migrations.ts'
import { randomBelow } from '#platform/ids.ts'
import { systemClock } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import { StubResolver } from '#protocols/dns/resolver.ts'
import { at } from '#test/support/api.ts'
import { createTestApp, eventually, type TestApp, type TestAppOptions } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startSink } from '#test/support/sink.ts'
import { createClient } from '../app/process.ts'
import { type Facts, makeData } from './make-data.ts'

/** Stored versions, and this one, which stores nothing before its release. */
const THIS_VERSION = 'this version'
const VERSIONS = [
  ...readdirSync(import.meta.dir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name),
  THIS_VERSION,
]

interface OldData extends Disposable {
  readonly dataDir: string
  readonly facts: Facts
}

async function open(version: string): Promise<OldData> {
  const { dataDir, facts } = version === THIS_VERSION ? await makeData() : unpack(join(import.meta.dir, version))
  return { dataDir, facts, [Symbol.dispose]: () => rmSync(dataDir, { recursive: true, force: true }) }
}

function unpack(folder: string): { dataDir: string; facts: Facts } {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-upgrade-'))
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.zst')) continue
    const target = join(dataDir, file.slice(0, -'.zst'.length))
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, Bun.zstdDecompressSync(readFileSync(join(folder, file))), { mode: 0o600 })
  }
  return { dataDir, facts: JSON.parse(readFileSync(join(folder, 'facts.json'), 'utf8')) as Facts }
}

interface Upgraded extends AsyncDisposable {
  readonly service: TestApp
  readonly clock: ManualClock
  /** Sends an API request with the key that the old version created. */
  ask(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }>
}

async function openUpgraded({ dataDir, facts }: OldData, options: TestAppOptions = {}): Promise<Upgraded> {
  const clock = new ManualClock(facts.endedAt)
  const service = await createTestApp({ ...options, clock, dataDir })
  const http = createHttp(service.opened)
  const { port } = http.listen('127.0.0.1', 0)
  return {
    service,
    clock,
    ask: createClient(`http://127.0.0.1:${port}`, facts.key),
    async [Symbol.asyncDispose]() {
      await http.stop(0)
      await service[Symbol.asyncDispose]()
    },
  }
}

/** Every row of these columns, by table; of all tables and columns when none are given. */
function rowsOf(dataDir: string, columns?: Readonly<Record<string, readonly string[]>>) {
  using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
  const tables = db
    .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .all()
  const selected =
    columns ??
    Object.fromEntries(
      tables.map(({ name }) => [
        name,
        db
          .query<{ name: string }, []>(`PRAGMA table_info("${name}")`)
          .all()
          .map((column) => column.name),
      ]),
    )
  const rows = Object.entries(selected).map(([table, names]) => {
    const list = names.map((name) => `"${name}"`).join(', ')
    return [table, db.query(`SELECT ${list} FROM "${table}" ORDER BY ${list}`).all()] as const
  })
  return { columns: selected, rows: Object.fromEntries(rows) }
}

test.each(VERSIONS)('the data of %s keep every row and value', async (version) => {
  using old = await open(version)
  const before = rowsOf(old.dataDir)
  expect(before.rows).toMatchObject({
    accounts: { length: 1 },
    domains: { length: 2 },
    emails: { length: 7 },
    recipients: { length: 7 },
    events: { length: 16 },
  })
  await (await openUpgraded(old))[Symbol.asyncDispose]()
  const after = rowsOf(old.dataDir, before.columns)
  const { migrations: applied = [], meta = [], ...rows } = before.rows
  expect(after.rows).toMatchObject(rows)
  expect(after.rows['migrations']?.slice(0, applied.length)).toEqual(applied)
  expect(after.rows['migrations']).toHaveLength(migrations.length)
  expect(after.rows['meta']).toEqual(expect.arrayContaining(meta))
})

test.each(VERSIONS)('the data of %s are returned as before, and new fields have their defaults', async (version) => {
  using old = await open(version)
  await using upgraded = await openUpgraded(old)
  const { ids } = old.facts
  const ask = async (path: string) => {
    const { status, body } = await upgraded.ask('GET', path)
    expect([path, status]).toEqual([path, 200])
    return body
  }
  expect(at(await ask('/v1/account'), 'data')).toMatchObject({ name: 'Test', tracking_privacy: false })
  const domains = at(await ask('/v1/domains'), 'data') as { readonly domain: string }[]
  // They were created at the same time.
  expect(domains.toSorted((a, b) => a.domain.localeCompare(b.domain))).toEqual(
    ['sandbox.test', 'sender.test'].map((domain) =>
      expect.objectContaining({ domain, tracking_domain: null, tracking_domain_verified: false }),
    ),
  )
  expect(at(await ask(`/v1/emails/${ids.delivered}`), 'data')).toMatchObject({
    status: 'sent',
    html_body: '<p>Hello, <a href="https://shop.test/">Bob</a>.</p>',
    attachments: [{ filename: 'note.txt', content_type: 'text/plain', size: 7 }],
    tags: ['first', 'second'],
    metadata: { order: 7 },
    events: [{ type: 'queued' }, { type: 'sent' }, { type: 'delivered' }],
  })
  const statuses = await Promise.all(
    [ids.bounced, ids.captured, ids.cancelled, ids.scheduled, ids.deferred].map(async (id) =>
      at(await ask(`/v1/emails/${id}`), 'data', 'status'),
    ),
  )
  expect(statuses).toEqual(['bounced', 'sent', 'cancelled', 'scheduled', 'queued'])
  expect(at(await ask(`/v1/emails/${ids.captured}/captured`), 'data')).toBeDefined()
  expect(at(await ask(`/v1/operations/${ids.operation}`), 'data', 'status')).toBe('completed')
  expect(at(await ask('/v1/streams'), 'pagination', 'total')).toBe(2)
  expectBalanced(upgraded.service)
})

test.each(VERSIONS)('mail waiting in the data of %s is sent: signed, once, at its time', async (version) => {
  using old = await open(version)
  await using sink = await startSink()
  await using dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  using resolver = new StubResolver({
    servers: [dns.address],
    clock: systemClock,
    randomId: () => randomBelow(65_536),
  })
  await using upgraded = await openUpgraded(old, {
    delivers: true,
    resolver,
    settings: { TASSIS_SMTP_PORT: String(sink.port) },
  })
  const { ask, clock } = upgraded
  const sent = await ask('POST', '/v1/emails', {
    from: 'ada@sender.test',
    to: 'new@receiver.test',
    subject: 'New',
    text_body: 'After the upgrade.',
  })
  expect(sent.status).toBe(202)
  await eventually(() => sink.messages.length === 1)
  clock.advance(days(1))
  await eventually(() => sink.messages.length === 3)
  const mails = await Promise.all(sink.messages.map(({ raw }) => simpleParser(Buffer.from(raw, 'latin1'))))
  expect(
    mails
      .map((mail, index) => ({
        to: sink.messages[index]?.rcptTo,
        text: mail.text?.trim(),
        isSigned: mail.headers.has('dkim-signature'),
      }))
      .sort((a, b) => String(a.to).localeCompare(String(b.to))),
  ).toEqual([
    { to: ['later@receiver.test'], text: 'Try again.', isSigned: true },
    { to: ['new@receiver.test'], text: 'After the upgrade.', isSigned: true },
    { to: ['soon@receiver.test'], text: 'Hello, Bob.', isSigned: true },
  ])
  await eventually(async () => {
    const page = await ask('GET', '/v1/emails?status=queued')
    return at(page.body, 'pagination', 'total') === 0
  })
  await upgraded.service.delivery?.stop()
  expectBalanced(upgraded.service)
})
