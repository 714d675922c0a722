/**
 * @module `tassis import postal` with a real MariaDB that has the databases of Postal 2.3 and 3.3: what it shows, makes and
 * leaves; that the same credentials and DNS work afterwards; kills, and databases that it cannot read.
 */

import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { join } from 'node:path'
import { createTransport } from 'nodemailer'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { hasDkimpy, verifyEachWithDkimpy, verifyWithMailauth } from '#test/protocols/dkim/verifiers.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { isMariaDbAvailable, type MariaDb, startMariaDb } from '#test/support/mariadb.ts'
import { createPostalZone, fillPostal, KEYS } from '#test/support/postal.ts'
import { startSink } from '#test/support/sink.ts'
import { createClient, createDataFolder, MAIN, runTassis, type Settings, startServing, withApp } from './process.ts'

setDefaultTimeout(120_000)

interface Row {
  readonly source: string
  readonly name: string
  readonly account: string
  readonly result: string
  readonly detail: string
}

let mariadb: MariaDb
const address = (database: string, user = 'tassis:p%40ss%3Aw%2Frd') =>
  `mysql://${user}@127.0.0.1:${mariadb.port}/${database}`

async function runImport(database: string, settings: Settings, ...more: readonly string[]) {
  const args = ['import', 'postal', address(database), '--message-db-prefix', database, '--json', ...more]
  const { stdout, stderr, exitCode } = await runTassis(args, settings)
  if (stdout === '') throw new Error(stderr)
  const rows: Row[] = JSON.parse(stdout).data
  return { exitCode, rows, results: rows.map(({ source, name, result }) => `${result} ${source} ${name}`) }
}

/** What an import may write, without what is new in each. */
function dump(folder: string) {
  const db = new Database(join(folder, 'tassis.db'), { readonly: true })
  const all = (sql: string) => db.query(sql).all()
  const dumped = {
    accounts: all('SELECT name, email, plan FROM accounts ORDER BY name'),
    domains: all(
      'SELECT a.name, domain, dkim_selector, dkim_public_key, sending_subdomain, inbound_enabled FROM domains JOIN accounts a ON a.id = account_id ORDER BY 1, 2',
    ),
    keys: all(
      'SELECT a.name, k.name AS k, hex(hash) AS hash, scopes FROM api_keys k JOIN accounts a ON a.id = account_id ORDER BY 1, 2',
    ),
    webhooks: all('SELECT url, events, is_active FROM webhooks ORDER BY 1'),
    routes: all('SELECT pattern, match_type, webhook_url, forward_to FROM inbound_routes ORDER BY 1'),
    suppressions: all(
      'SELECT a.name AS a, address, reason FROM suppressions JOIN accounts a ON a.id = account_id ORDER BY 1, 2',
    ),
  }
  db.close()
  return dumped
}

async function createEmptyData() {
  const data = createDataFolder()
  const settings = { ...data.settings, TASSIS_HOSTNAME: 'postal.test' }
  await withApp(settings, () => undefined)
  return { ...data, path: data.path, settings, [Symbol.dispose]: () => data[Symbol.dispose]() }
}

describe.skipIf(!isMariaDbAvailable())('an import from Postal', () => {
  beforeAll(async () => {
    mariadb = await startMariaDb()
    // As docs/from-postal.md has it.
    await mariadb.sql.unsafe("CREATE USER 'tassis'@'%' IDENTIFIED BY 'p@ss:w/rd'")
    for (const name of ['postal2', 'postal3', 'whole'])
      for (const database of [name, `${name}-server-%`])
        await mariadb.sql.unsafe(`GRANT SELECT ON \`${database}\`.* TO 'tassis'@'%'`)
  })
  afterAll(async () => await mariadb[Symbol.asyncDispose]())

  test.each([2, 3] as const)(
    'of version %i.3 lets credentials and DNS as they are send, but not to who is suppressed',
    async (version) => {
      const name = `postal${version}`
      const { dkim, newsDkim } = await fillPostal(mariadb.sql, name, version)
      await using sink = await startSink()
      const zone = createPostalZone({ dkim: dkim.record, news: newsDkim.record })
      const receiver = {
        'receiver.test': { MX: [{ preference: 1, exchange: 'mx.receiver.test' }] },
        'mx.receiver.test': { A: ['127.0.0.1'] },
      }
      await using dns = await startDnsServer({ ...zone, ...receiver })
      using data = await createEmptyData()
      const port = await findFreePort()
      const settings = {
        ...data.settings,
        TASSIS_DNS_SERVERS: dns.address,
        TASSIS_SMTP_PORT: String(sink.port),
        TASSIS_SUBMISSION_ADDR: `127.0.0.1:${port}`,
      }
      const empty = dump(data.path)
      const dry = await runImport(name, settings)
      expect(dry.exitCode).toBe(1)
      expect(dump(data.path)).toEqual(empty)
      await using service = await startServing(settings)
      const applied = await runImport(name, settings, '--apply')
      expect(applied.results).toEqual([
        'made server acme/main',
        'made suppressions 3',
        'refused suppressions 1',
        'made domain acme.test',
        'made domain shared.test',
        'made webhook https://hooks.acme.test/events',
        'made webhook https://hooks.acme.test/bounces',
        'no_counterpart webhook https://hooks.acme.test/held',
        'made route support@acme.test',
        // The domain is not verified yet.
        'refused route boss@acme.test',
        'no_counterpart route sales@acme.test',
        'made route *@acme.test',
        'no_counterpart route noreply@acme.test',
        'no_counterpart route __returnpath__@',
        'made SMTP credential Mailer',
        'made API credential Shop',
        'made SMTP credential Held',
        'no_counterpart SMTP-IP credential Printer',
        'made server acme/news',
        'made suppressions 3',
        'refused suppressions 1',
        'made domain news.test',
        'refused domain short.test',
        'no_counterpart domain shared.test',
        'no_counterpart webhook https://hooks.acme.test/off',
        'made SMTP credential Letters',
        'refused API credential Stolen',
        'made server acme-2/main',
        'no_counterpart domain acme.test',
        'made SMTP credential Trial',
        ...[
          'queued messages 1',
          'deleted servers 1',
          'suspended servers 1',
          'users 2',
          'IP pools 1',
          'track domains 1',
          'send limits 1',
        ].map((each) => `no_counterpart ${each}`),
        ...['mail history ', 'retention days ', 'spam thresholds '].map((each) => `no_counterpart ${each}`),
      ])
      const expected = applied.results
        .filter((row) => row !== 'refused suppressions 1')
        .map((row) => row.replace(/^made/, 'to_make').replace(/^refused (?=route)/, 'to_make '))
      expect(dry.results).toEqual(expected)
      const text = JSON.stringify(applied.rows)
      for (const secret of [...Object.values(KEYS), 'PRIVATE KEY']) expect(text).not.toContain(secret)
      expect(applied.rows.find(({ name: of }) => of === 'acme.test')?.detail).toMatch(
        /^selector postal-abcdef; its DKIM key has 1024 bits, which is weak/,
      )
      expect(applied.rows.find(({ name: of }) => of === 'short.test')?.detail).toContain('has 512 bits')

      // The DNS of Postal as it was, at the new machine.
      const verified = await runTassis(['domains', 'verify', 'acme.test', '--json', '--account', 'acme/main'], settings)
      expect(JSON.parse(verified.stdout).data).toMatchObject({
        fully_verified: true,
        mx_verified: true,
        dkim_key_bits: 1024,
        dkim_ed25519_verified: false,
      })
      expect((await runTassis(['domains', 'verify', 'news.test'], settings)).exitCode).toBe(0)
      const again = await runImport(name, settings, '--apply')
      expect(again.results.filter((row) => /^(?:made|refused)/.test(row))).toEqual([
        'refused suppressions 1',
        'made route boss@acme.test',
        'refused suppressions 1',
        'refused domain short.test',
        'refused API credential Stolen',
      ])
      const full = dump(data.path)
      const third = await runImport(name, settings, '--apply')
      expect(third.results.filter((row) => row.startsWith('made'))).toEqual([])
      expect(dump(data.path)).toEqual(full)
      expect(full).toMatchObject({
        routes: [
          { pattern: '', webhook_url: null },
          { pattern: 'boss', forward_to: '["boss@acme.test"]' },
          { pattern: 'support', webhook_url: 'https://hooks.acme.test/in' },
        ],
        suppressions: [
          { address: 'angry@receiver.test', reason: 'manual' },
          { address: 'dead@receiver.test', reason: 'hard_bounce' },
          { address: 'angry@receiver.test' },
          { address: 'dead@receiver.test' },
        ],
      })

      const send = async (key: string, from: string, to: string) => {
        const transport = createTransport({
          host: '127.0.0.1',
          port,
          auth: { user: 'acme/main', pass: key },
          tls: { rejectUnauthorized: false },
        })
        return await transport.sendMail({ from, to, subject: 'SMTP', text: 'Hello.' })
      }
      await send(KEYS.smtp, 'ada@acme.test', 'bob@receiver.test')
      await send(KEYS.news, 'ada@news.test', 'bob@receiver.test')
      await send(KEYS.smtp, 'ada@acme.test', 'dead@receiver.test').catch(() => undefined)
      await send('HeldHeldHeldHeldHeld0004', 'ada@acme.test', 'held@receiver.test')
      await expect(send(KEYS.news, 'ada@acme.test', 'bob@receiver.test')).rejects.toThrow('550')
      const api = createClient(service.url, KEYS.api)
      const drafts = await api('GET', '/v1/emails?status=draft')
      expect(at(drafts.body, 'data')).toMatchObject([{ to: 'held@receiver.test' }])
      const email = { from: 'ada@acme.test', subject: 'HTTP', text_body: 'Hello.' }
      for (const to of ['angry@receiver.test', 'bob@receiver.test'])
        expect((await api('POST', '/v1/emails', { ...email, to })).status).toBe(202)
      const sent = await fetch(`${service.url}/api/v1/send/message`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-server-api-key': KEYS.api },
        body: JSON.stringify({ from: email.from, to: ['bob@receiver.test'], subject: 'Postal', plain_body: 'Hello.' }),
      })
      expect(await sent.json()).toMatchObject({ status: 'success', data: { messages: { 'bob@receiver.test': {} } } })
      await eventually(() => sink.messages.length >= 4)
      expect(sink.messages.map(({ rcptTo }) => rcptTo.join())).toEqual(Array(4).fill('bob@receiver.test'))
      const records = {
        'postal-abcdef._domainkey.acme.test': dkim.record,
        'postal-newsxy._domainkey.news.test': newsDkim.record,
      }
      for (const { raw, mailFrom } of sink.messages) {
        expect(mailFrom).toMatch(/@psrp\.(?:acme|news)\.test$/)
        expect(raw).toMatch(/^DKIM-Signature: [^:]*s=postal-(?:abcdef|newsxy);/m)
        expect(await verifyWithMailauth(Buffer.from(raw, 'latin1'), records)).toBe('pass')
      }
      const messages = sink.messages.map(({ raw }) => Buffer.from(raw, 'latin1'))
      if (hasDkimpy) expect(verifyEachWithDkimpy(messages, records)).toEqual(Array(4).fill([true]))
    },
  )

  test('killed at three points and repeated ends like one that was not', async () => {
    await fillPostal(mariadb.sql, 'whole', 3)
    using whole = await createEmptyData()
    await runImport('whole', whole.settings, '--apply')
    using data = await createEmptyData()
    for (const table of ['whole.webhooks', 'whole.credentials', 'whole-server-2.suppressions']) {
      await mariadb.sql.unsafe(`LOCK TABLES \`${table.replace('.', '`.`')}\` WRITE`)
      const args = ['import', 'postal', address('whole'), '--message-db-prefix', 'whole', '--apply']
      const child = Bun.spawn([process.execPath, MAIN, ...args], {
        env: { PATH: process.env['PATH'] ?? '', ...data.settings },
        stdout: 'ignore',
        stderr: 'ignore',
      })
      await eventually(async () => {
        const [waiting] = await mariadb.sql`SELECT count(*) AS n FROM information_schema.processlist
          WHERE state LIKE 'Waiting for table metadata lock%'`
        return Number(waiting.n) > 0
      })
      child.kill('SIGKILL')
      await child.exited
      await mariadb.sql.unsafe('UNLOCK TABLES')
      // No key before the suppressions of its server.
      const { keys, suppressions } = dump(data.path)
      expect([keys.length, suppressions.length]).toEqual([table === 'whole-server-2.suppressions' ? 3 : 0, 2])
    }
    const last = await runImport('whole', data.settings, '--apply')
    expect(last.results).toContain('made domain news.test')
    expect(last.results).toContain('exists domain acme.test')
    expect(dump(data.path)).toEqual(dump(whole.path))
  })

  test('takes over nothing that another account has, nor an account that only has the name', async () => {
    await fillPostal(mariadb.sql, 'whole', 3)
    using data = await createEmptyData()
    await withApp(data.settings, async (app) => {
      const input = { name: 'acme/main', email: 'eve@other.test', plan: 'unlimited' } as const
      const eve = toOperatorActor(await createAccount(app, input))
      await createApiKey(app, eve, { name: 'app', key: KEYS.smtp })
      for (const name of ['acme.test', 'news.test']) await createDomain(app, eve, name)
      app.db.run("UPDATE domains SET verified_at = 1 WHERE domain = 'acme.test'")
    })
    const { results, rows } = await runImport('whole', data.settings, '--apply')
    expect(results.slice(0, 5)).toEqual([
      'made server acme/main',
      'made suppressions 3',
      'refused suppressions 1',
      'refused domain acme.test',
      'made domain shared.test',
    ])
    expect(rows.find(({ name }) => name === 'acme.test')?.detail).toContain('verified by another account')
    expect(rows.find(({ name }) => name === 'support@acme.test')?.detail).toBe('its domain is not taken over')
    // Not verified there, so that who has its DNS gets it.
    expect(results).toContain('made domain news.test')
    expect(results).toContain('refused SMTP credential Mailer')
    const { accounts, keys } = dump(data.path)
    expect(accounts).toHaveLength(4)
    expect(keys).toHaveLength(5)
  })

  test('takes over what it can of a database with odd rows, and again nothing', async () => {
    const { dkim } = await fillPostal(mariadb.sql, 'whole', 3)
    using data = await createEmptyData()
    const insert = (table: string, ...rows: readonly (readonly unknown[])[]) =>
      Promise.all(
        rows.map((row) => mariadb.sql.unsafe(`INSERT INTO ${table} VALUES (${row.map(() => '?')})`, [...row])),
      )
    await insert('whole.organizations (id, name, permalink, owner_id, deleted_at)', [
      4,
      'Gone',
      'gone',
      1,
      '2024-01-01',
    ])
    await insert('whole.servers (id, organization_id, name, permalink, mode)', [6, 4, 'Main', 'main', 'Live'])
    await mariadb.sql.unsafe('UPDATE whole.domains SET verified_at = NULL WHERE id = 2')
    const pem = dkim.pem.replaceAll('\n', '\r\n')
    await insert(
      'whole.domains (owner_type, owner_id, name, dkim_private_key, dkim_identifier_string, verified_at)',
      ...[4, 6].map((owner) => ['Server', owner, 'news.test', null, null, '2024-01-01']),
      ['Server', 1, 'B\u00fccher.Test', pem, 'CRLF', null],
      ['Server', 1, 'garbage.test', '\0\u0001', 'X', null],
      ['Server', 1, null, null, null, null],
    )
    await insert(
      'whole.credentials (server_id, type, name, `key`)',
      [1, 'API', 'Empty', ''],
      [1, 'API', 'Bytes', `\0${'\u0001'.repeat(30)}`],
      [1, 'API', null, 'KeyWithoutANameOfItsOwn'],
    )
    await insert(
      'whole.routes (server_id, domain_id, name, mode)',
      ...['Sup.Port', 'a+b', ''].map((name) => [1, 1, name, 'Accept']),
    )
    await insert(
      '`whole-server-1`.suppressions (type, timestamp, reason, address)',
      ...['UPPER@Receiver.Test', 'n\0ul@x.test', null].map((each) => ['recipient', 1.6e9, 'too many hard fails', each]),
    )
    const first = await runImport('whole', data.settings, '--apply')
    const rows = (...of: readonly string[]) => of.map((row) => expect(first.results).toContain(row))
    // Neither of the owners that are verified is taken over.
    rows('made domain news.test', 'made domain xn--bcher-kva.test', 'refused domain garbage.test', 'refused domain ')
    rows('refused API credential Empty', 'refused API credential Bytes', 'made API credential API')
    rows('made route Sup.Port@acme.test', 'made route a+b@acme.test', 'refused route @acme.test')
    rows('made suppressions 6', 'refused suppressions 3')
    const full = dump(data.path)
    expect(full.suppressions).toContainEqual({ a: 'acme/main', address: 'upper@receiver.test', reason: 'hard_bounce' })
    // Whoever gives the organisation another name meanwhile.
    await mariadb.sql.unsafe("UPDATE whole.organizations SET name = 'Other'")
    const again = await runImport('whole', data.settings, '--apply')
    expect(again.results.filter((row) => row.startsWith('made'))).toEqual([])
    expect(again.results.filter((row) => row.startsWith('refused'))).toEqual(
      first.results.filter((row) => row.startsWith('refused')),
    )
    expect(dump(data.path)).toEqual(full)
  })

  test('refuses what it cannot read with a sentence, and writes nothing', async () => {
    await fillPostal(mariadb.sql, 'bad', 2)
    const { sql } = mariadb
    using data = await createEmptyData()
    const before = dump(data.path)
    const bad = (database: string) => address(database, 'root')
    const refusal = async (url: string, ...more: readonly string[]) => {
      const { exitCode, stderr } = await runTassis(
        ['import', 'postal', url, '--apply', '--message-db-prefix', 'bad', ...more],
        data.settings,
      )
      expect([1, 2]).toContain(exitCode)
      expect(stderr.trim().split('\n')).toHaveLength(1)
      return stderr
    }
    const free = await findFreePort()
    expect(await refusal(`mysql://root@127.0.0.1:${free}/bad`)).toContain(
      `The database bad at 127.0.0.1:${free} cannot be read: Failed to connect.`,
    )
    const denied = await refusal(address('bad', 'root:wrong-password'))
    expect(denied).toMatch(/cannot be read: Access denied for user 'root'.*SELECT on it and on bad-server-\*/)
    expect(denied).not.toContain('wrong-password')
    expect(await refusal(address('bad', 'tassis:p%40ss%3Aw%2Frd'))).toContain('SELECT on it and on bad-server-*')
    expect(await refusal(bad('nowhere'))).toContain("Unknown database 'nowhere'. Name the main database of Postal")
    const notPostal =
      /lacks schema_migrations\.version, .* more columns: it is not whole, or not the main database of Postal/
    expect(await refusal(bad('mysql'))).toMatch(notPostal)
    expect(await refusal(bad('bad-server-1'))).toMatch(notPostal)
    expect(await refusal('postgres://root@127.0.0.1/bad')).toContain('must be like mysql://')
    expect(await refusal(bad('bad'), '--message-db-prefix', 'x')).toContain(
      'x-server-1 lacks suppressions.id, suppressions.type, suppressions.address and 3 more columns: the database of the server acme/main is not there',
    )
    await sql.unsafe('ALTER TABLE `bad-server-2`.suppressions DROP COLUMN keep_until')
    expect(await refusal(bad('bad'))).toContain('bad-server-2 lacks suppressions.keep_until: the database of')
    await sql.unsafe('DROP TABLE bad.webhook_events')
    expect(await refusal(bad('bad'))).toContain(
      'bad lacks webhook_events.webhook_id, webhook_events.event: it is not whole, or not the main database of Postal 2.x or 3.x; upgrade an older one first. Nothing was written.',
    )
    // Postal 1 has no such column.
    await sql.unsafe('ALTER TABLE bad.credentials DROP COLUMN uuid')
    expect(await refusal(bad('bad'))).toContain('bad lacks credentials.uuid, webhook_events.webhook_id')
    expect(dump(data.path)).toEqual(before)
  })
})
