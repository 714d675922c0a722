import type { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type CreateOptions, openApp } from '#app/create.ts'
import { continueRotation, listMasterKeys, rotateMasterKey } from '#app/master-key.ts'
import { loadConfig } from '#app/settings.ts'
import { CLI_OPERATOR } from '#features/core/audit-logs/audit.ts'
import { listNewestAuditEntries } from '#features/core/audit-logs/read.ts'
import { deriveEventUuid } from '#features/core/events/record.ts'
import { formatSecret, isSigned } from '#features/drop-in/supabase/routes.ts'
import { createRecipientDecider } from '#features/receiving/inbound/process/decide.ts'
import { createUnsubscribeToken, openUnsubscribeToken } from '#features/sending/unsubscribe/headers.ts'
import { findPublication, openFields, type Publication, sealFields } from '#features/setup/dns-publish/credentials.ts'
import { type Domain, findDomainById } from '#features/setup/domains/domains.ts'
import { findSigningDomain, toDkimKeyContext } from '#features/setup/domains/sending.ts'
import { toErasedKey } from '#features/setup/suppression-store/suppression-list-key.ts'
import { revealInboundSecret } from '#features/webhooks/webhooks/manage/secrets.ts'
import { hmacSha256, KeyRing, parseMasterKeys, readMasterKeyFile } from '#platform/crypto/crypto.ts'
import { createLog } from '#platform/log/log.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { encodeVerp } from '#protocols/address/verp.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { createDataFolder, type DataFolder, runTassis, runTassisJson, setUpAccount, startServing } from './process.ts'

// Commands run in processes of their own, on a loaded machine.
setDefaultTimeout(300_000)

/** Every column that holds ciphertexts, with the text before the base64 in a text column. */
const SEALED = [
  ['domains', 'dkim_private_key', ''],
  ['domains', 'ed25519_private_key', ''],
  ['dns_credentials', 'fields', ''],
  ['webhooks', 'secret', ''],
  ['webhooks', 'previous_secret', ''],
  ['inbound_secrets', 'secret', ''],
  ['users', 'totp_secret', ''],
  ['batch_replies', 'response', 'sealed:'],
] as const

/** Who rotated the master key to which, newest first. */
const listRotations = (db: Database) =>
  listNewestAuditEntries(db, undefined, { action: 'master_key.rotated', from: undefined }, 10).map(
    ({ actorId, resourceId, metadata }) => [actorId, resourceId, metadata],
  )

const newKey = (fill: number): string => Buffer.alloc(32, fill).toString('base64')

describe('a rotation in a running service', () => {
  let service: TestApi
  let before: Awaited<ReturnType<typeof collect>>
  let fileBefore: string
  const path = () => join(service.dataDir, 'master.key')
  const facts = {
    accountUuid: new Uint8Array(16),
    emailId: 2,
    recipientId: 3,
    address: 'bob@receiver.test',
    senderDomain: 'sender.test',
    streamId: 0,
    listId: 0,
  }

  const readDomain = () => findDomainById(service.app.db, 1) as Domain

  /** Everything that must stay as it is, or stay accepted. */
  async function collect() {
    const { app, actor } = service
    return {
      eventId: deriveEventUuid(app.keys, actor.accountId, 7),
      erased: toErasedKey(app.db, actor.accountId, 'bob@receiver.test'),
      pem: findSigningDomain(app.db, app.keys, 1)?.privateKeyPem,
      ed25519: app.keys.unsealText(
        app.db
          .query<{ k: Uint8Array; uuid: Uint8Array }, []>('SELECT ed25519_private_key AS k, uuid FROM domains')
          .get()?.k ?? new Uint8Array(),
        `dkim:${at((await service.api('GET', '/v1/domains')).body, 'data', 0, 'id')}:ed25519`,
      ),
      inbound: await revealInboundSecret(app, actor),
      dns: openFields(app, readDomain(), findPublication(app.db, readDomain()) as Publication),
    }
  }
  const createDomain = (key: string) =>
    service.api('POST', '/v1/domains', { domain: 'sender.test' }, { headers: { 'Idempotency-Key': key } })

  beforeAll(async () => {
    service = await createTestApi()
    const { app, api, actor } = service
    expect((await createDomain('create-a-domain')).status).toBe(201)
    const webhook = await api('POST', '/v1/webhooks', { url: 'https://hooks.test/hook', events: ['delivered'] })
    expect([webhook.status, webhook.body]).toEqual([201, expect.anything()])
    // As the feature stores them: sealed for their row.
    const uuid = at(webhook.body, 'data', 'id')
    app.db.run('UPDATE webhooks SET previous_secret = ?', [app.keys.seal('whsec_old', `webhook:${uuid}`)])
    app.db.run(
      `INSERT INTO users (uuid, email, name, password_hash, totp_secret, created_at) VALUES (?, 'ada@x.test', 'Ada', '', ?, 1)`,
      [new Uint8Array(16), app.keys.seal(new Uint8Array(20), 'totp:00000000-0000-0000-0000-000000000000')],
    )
    app.db.run(
      `INSERT INTO dns_credentials (domain_id, provider, zone, fields, allows_private, records_hash, next_attempt_at)
       VALUES (1, 'desec', 'sender.test', ?, 0, '', 0)`,
      [sealFields(app, readDomain(), { token: 'of deSEC' })],
    )
    await revealInboundSecret(app, actor)
    before = await collect()
    fileBefore = readFileSync(path(), 'utf8')
  })
  afterAll(() => service[Symbol.asyncDispose]())

  test('seals everything under a new key, changes no identity and accepts what is in mail already sent', async () => {
    const { app } = service
    const decide = createRecipientDecider(app)
    const decided = () => decide(`${encodeVerp({ recipientId: 5, tag: 0 }, verp)}@send.sender.test`)
    const verp = app.keys.subkey('verp')
    const token = createUnsubscribeToken(app.keys, facts)
    const hookSecret = Buffer.from(formatSecret(app.keys, 'key').slice('v1,whsec_'.length), 'base64')
    const asked = decided()
    const oldFingerprint = app.keys.fingerprint()

    const done = await rotateMasterKey(app, CLI_OPERATOR)
    expect([done.was_begun, done.unreadable, done.resealed >= SEALED.length]).toEqual([false, 0, true])

    expect(listRotations(app.db)).toEqual([['cli', done.key, JSON.stringify({ former: done.former[0] })]])

    // The file: the new key on top, private as before.
    const file = readFileSync(path(), 'utf8')
    expect([file.endsWith(fileBefore), file.split('\n').length, statSync(path()).mode & 0o777]).toEqual([
      true,
      3,
      0o600,
    ])

    // Nothing is sealed under the former key, nowhere.
    const onlyNew = new KeyRing(app.keys.masters().slice(0, 1))
    for (const [table, column, prefix] of SEALED) {
      const rows = app.db.query<{ value: Uint8Array | string }, []>(
        `SELECT ${column} AS value FROM ${table} WHERE length(${column}) > 32`,
      )
      const found = rows.all().map(({ value }) => (typeof value === 'string' ? fromText(value, prefix) : value))
      expect([table, column, found.map((sealed) => onlyNew.fingerprintOf(sealed) === onlyNew.fingerprint())]).toEqual([
        table,
        column,
        found.map(() => true),
      ])
      expect([table, column, found.length > 0]).toEqual([table, column, true])
    }
    expect(await collect()).toEqual(before)
    expect(at((await createDomain('create-a-domain')).body, 'data', 'domain')).toBe('sender.test')

    // Mail sent before.
    expect(decided()).toEqual(asked)
    expect(openUnsubscribeToken(app.keys, token)?.recipientId).toBe(facts.recipientId)
    const now = app.clock.now()
    const sign = (secret: Uint8Array) =>
      Buffer.from(hmacSha256(secret, `id.${Math.floor(now / 1000)}.body`)).toString('base64')
    const headers = (signature: string) =>
      new Headers({
        'webhook-id': 'id',
        'webhook-timestamp': String(Math.floor(now / 1000)),
        'webhook-signature': `v1,${signature}`,
      })
    expect(isSigned(app.keys, 'key', Buffer.from('body'), headers(sign(hookSecret)), now)).toBe(true)
    // New tokens come from the new key.
    expect(openUnsubscribeToken(onlyNew, createUnsubscribeToken(app.keys, facts))?.recipientId).toBe(facts.recipientId)
    expect(openUnsubscribeToken(onlyNew, token)).toBeUndefined()

    const { keys, newest_since: since } = await listMasterKeys(app)
    expect(keys.map(({ is_newest, secrets, is_needed }) => [is_newest, secrets > 0, is_needed])).toEqual([
      [true, true, true],
      [false, false, false],
    ])
    expect([since === null, keys.map(({ key }) => key)]).toEqual([
      false,
      [app.keys.fingerprint().slice(0, 12), oldFingerprint.slice(0, 12)],
    ])
  })
})

const fromText = (value: string, prefix: string): Uint8Array =>
  value.startsWith(prefix) ? Uint8Array.fromBase64(value.slice(prefix.length)) : new Uint8Array()

describe('a rotation that was interrupted', () => {
  let folder: DataFolder
  const open = (options: CreateOptions = {}) => openApp(loadConfig({ ...folder.settings }).config, options)
  const path = () => join(folder.path, 'master.key')
  beforeAll(() => {
    folder = createDataFolder()
  })
  afterAll(() => folder[Symbol.dispose]())

  test('goes on at the next start, needs the former key until it is complete, and not afterwards', async () => {
    await setUpAccount(folder.settings)
    const old = readFileSync(path(), 'utf8')
    const first = open()
    const eventId = deriveEventUuid(first.app.keys, 1, 1)
    const pem = findSigningDomain(first.app.db, first.app.keys, 1)?.privateKeyPem
    await first.close()

    // The moment after the file was replaced: the database does not know the key.
    writeFileSync(path(), `${newKey(1)}\n${old}`)
    const lines: string[] = []
    const second = open({ log: createLog('warn', { write: (line) => void lines.push(line) }) })
    expect(lines.map((line) => JSON.parse(line).msg)).toEqual([
      expect.stringContaining('the first master key is new to this database, so every secret is now sealed again'),
    ])
    expect(findSigningDomain(second.app.db, second.app.keys, 1)?.privateKeyPem).toBe(pem)
    expect((await listMasterKeys(second.app)).keys.map((key) => [key.secrets, key.is_needed])).toEqual([
      [0, true],
      [2, true],
    ])
    await second.close()

    writeFileSync(path(), `${newKey(1)}\n`)
    expect(() => open()).toThrow(/former master key [0-9a-f]{12} is missing/)
    writeFileSync(path(), old)
    expect(() => open()).toThrow(ConfigError)

    writeFileSync(path(), `${newKey(1)}\n${old}`)
    const third = open()
    expect(await continueRotation(third.app)).toEqual({ resealed: 2, unreadable: 0 })
    expect(await continueRotation(third.app)).toEqual({ resealed: 0, unreadable: 0 })
    await third.close()

    // Sealed under the former key by a request that was stored after the last pass: found at the next start.
    const former = new KeyRing(parseMasterKeys(old) ?? [])
    const late = open()
    const uuid = late.app.db.query<{ uuid: Uint8Array }, []>('SELECT uuid FROM domains').get()?.uuid ?? new Uint8Array()
    late.app.db.run('UPDATE domains SET dkim_private_key = ?', [
      new Uint8Array(former.seal(pem ?? '', toDkimKeyContext(new Uint8Array(uuid)))),
    ])
    await late.close()
    const again = open()
    expect(await continueRotation(again.app)).toEqual({ resealed: 1, unreadable: 0 })
    await again.close()

    writeFileSync(path(), `${newKey(1)}\n`)
    const fourth = open()
    expect(deriveEventUuid(fourth.app.keys, 1, 1)).toBe(eventId)
    expect(findSigningDomain(fourth.app.db, fourth.app.keys, 1)?.privateKeyPem).toBe(pem)
    await fourth.close()

    // Another rotation keeps what the first key fixed.
    writeFileSync(path(), `${newKey(2)}\n${newKey(1)}\n`)
    const fifth = open()
    await continueRotation(fifth.app)
    expect(deriveEventUuid(fifth.app.keys, 1, 1)).toBe(eventId)
    // By hand, so the starts recorded them, once each.
    const [newest, middle, oldest] = [2, 1]
      .map((fill) => new KeyRing(parseMasterKeys(newKey(fill)) ?? []).fingerprint().slice(0, 12))
      .concat(former.fingerprint().slice(0, 12))
    expect(listRotations(fifth.app.db)).toEqual([
      ['system', newest ?? '', JSON.stringify({ former: middle })],
      ['system', middle ?? '', JSON.stringify({ former: oldest })],
    ])
    await fifth.close()
  })
})

test('a secret that no key opens stays as it is, is counted, and does not hold up the rotation', async () => {
  using folder = createDataFolder()
  await setUpAccount(folder.settings)
  const { app, close } = openApp(loadConfig({ ...folder.settings, TASSIS_LOG_LEVEL: 'silent' }).config)
  const lost = new KeyRing(new Uint8Array(32).fill(9)).seal('x'.repeat(40), 'totp:x')
  app.db.run(
    `INSERT INTO users (uuid, email, name, password_hash, totp_secret, created_at) VALUES (?, 'ada@x.test', 'Ada', '', ?, 1)`,
    [new Uint8Array(16), new Uint8Array(lost)],
  )
  // Of a domain whose row is gone.
  app.db.run(
    `INSERT INTO dkim_keys (domain_id, selector, dkim_public_key, dkim_private_key, created_at) VALUES (99, 'x', 'x', ?, 1)`,
    [app.keys.seal('pem', 'dkim:x')],
  )
  const { resealed, unreadable } = await rotateMasterKey(app, CLI_OPERATOR)
  expect([resealed, unreadable]).toEqual([2, 2])
  const kept = app.db.query<{ secret: Uint8Array }, []>('SELECT totp_secret AS secret FROM users').get()?.secret
  expect(Buffer.from(kept ?? []).equals(lost)).toBe(true)
  const { keys } = await listMasterKeys(app)
  expect(keys.map(({ key, secrets }) => [key === null, secrets])).toEqual([
    [false, 2],
    [false, 1],
    [true, 1],
  ])
  await close()
})

test('a key in a variable or in a file that cannot be replaced is rotated by hand', async () => {
  using folder = createDataFolder()
  const { settings } = folder
  await setUpAccount({ ...settings, TASSIS_MASTER_KEY: newKey(3) })
  const refused = await runTassis(['keys', 'rotate-master'], { ...settings, TASSIS_MASTER_KEY: newKey(3) })
  expect([refused.exitCode, refused.stdout]).toEqual([1, ''])
  expect(refused.stderr).toContain('openssl rand -base64 32')
  expect(refused.stderr).not.toContain(newKey(3))

  const both = { ...settings, TASSIS_MASTER_KEY: `${newKey(4)},${newKey(3)}` }
  const warning =
    /\n\nA rotation is in progress: a service seals every secret again within a minute of its start;\nif it is not a new key of/
  const list = async () => (await runTassis(['keys', 'list-master'], both)).stdout
  expect(await list()).toMatch(warning)
  const done = await runTassisJson<{ was_begun: boolean; resealed: number }>(['keys', 'rotate-master'], both)
  expect([done.was_begun, done.resealed]).toEqual([true, 2])
  expect(await list()).not.toMatch(warning)
  const { exitCode } = await runTassis(['domains', 'list'], { ...settings, TASSIS_MASTER_KEY: newKey(4) })
  expect(exitCode).toBe(0)
})

// Proves: operator-74
test('the command works through a running service, and a killed service opens everything after it', async () => {
  using folder = createDataFolder()
  const { settings, path } = folder
  await setUpAccount(settings)
  const service = await startServing(settings)
  const text = await runTassis(['keys', 'rotate-master'], settings)
  expect([text.exitCode, text.stderr]).toEqual([0, ''])
  expect(text.stdout).toMatch(/^Path: +\S+master\.key$/m)
  await service[Symbol.asyncDispose]()

  const listed = await runTassis(['keys', 'list-master'], settings)
  expect(listed.stdout).toMatch(
    /^KEY +SECRETS +IS NEWEST +IS NEEDED\n[0-9a-f]{12} +2 +yes +yes\n[0-9a-f]{12} +0 +no +no\n/,
  )
  expect(readMasterKeyFile(join(path, 'master.key'))?.length).toBe(2)
})

test('a ring of keys is bounded, and holds each key once', () => {
  const keys = Array.from({ length: 9 }, (_, i) => newKey(i + 1))
  expect(parseMasterKeys(keys.slice(0, 8).join('\n'))?.length).toBe(8)
  expect(parseMasterKeys(keys.join('\n'))).toBeUndefined()
  expect(parseMasterKeys(`${newKey(1)}, ${newKey(1)}`)?.length).toBe(1)
})
