import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type Server } from 'node:tls'
import { recordFailure, recordSuccess } from '#app/backup/state.ts'
import { checkCertificates } from '#app/doctor/checks/certificates.ts'
import { checkDisk, checkFileLimit, checkMemory } from '#app/doctor/checks/machine.ts'
import { checkPrivileges } from '#app/doctor/checks/network.ts'
import { checkClock } from '#app/doctor/checks/resolver.ts'
import {
  checkBackups,
  checkOperatorMail,
  checkQueue,
  checkReceived,
  checkRestored,
  checkService,
} from '#app/doctor/checks/state.ts'
import { runChecks } from '#app/doctor/doctor.ts'
import { fenceIfCopied } from '#app/fence/instance.ts'
import { setMeta } from '#features/core/events/record.ts'
import { endFence, markAsCopy } from '#features/core/fence/restored.ts'
import {
  NO_FAILURES,
  removeCertificate,
  writeCertificate,
  writeOrdersState,
} from '#features/setup/certificates/store.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { days, hours } from '#platform/units.ts'
import { createContext, findAll, statuses } from '#test/app/doctor/fixture.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { EMAIL } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

setDefaultTimeout(300_000)

const START = Date.UTC(2026, 10, 23, 9)
let service: TestApi
const clock = new ManualClock(START)
const folder = mkdtempSync(join(tmpdir(), 'tassis-doctor-'))
beforeAll(async () => {
  service = await createTestApi({ clock })
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

const create = (settings: Readonly<Record<string, string>> = {}) =>
  createContext(
    { TASSIS_DATA_DIR: service.dataDir, ...settings },
    { clock: service.app.clock, db: service.app.db, service: { app: service.app, delivery: undefined } },
  )

test('a service that delivers nothing is a failure, and none at all a warning', async () => {
  using running = create()
  expect(statuses(await findAll(checkService(running)))).toEqual(['failure'])
  using none = createContext()
  expect(statuses(await findAll(checkService(none)))).toEqual(['warning'])
})

test('mail that has been due for long is a warning with its reason; mail that is not due yet is none', async () => {
  using context = create()
  await createDomain(service.app, service.actor, EMAIL.from.split('@')[1] ?? '').catch(() => undefined)
  const { status } = await service.api('POST', '/v1/emails', EMAIL)
  expect(status).toBe(202)
  expect(statuses(await findAll(checkQueue(context)))).toEqual(['ok'])
  clock.advance(hours(2))
  expect(await findAll(checkQueue(context))).toMatchObject([
    { status: 'warning', subject: 'overdue', message: expect.stringContaining('no service is running') },
  ])
  service.app.db.run('UPDATE recipients SET next_at = NULL')
  setMeta(service.app.db, 'held_without_content', '1')
  expect(await findAll(checkQueue(context))).toMatchObject([
    { status: 'failure', subject: 'content', fix: expect.stringContaining('`tassis queue release`') },
  ])
  setMeta(service.app.db, 'held_without_content', '0')
  expect(statuses(await findAll(checkQueue(context)))).toEqual(['ok'])
})

test('received mail that waits for long is a warning, as is no listener for it', async () => {
  using deaf = create()
  expect(await findAll(checkReceived(deaf))).toMatchObject([
    { status: 'warning', fix: expect.stringContaining('TASSIS_INBOUND_ADDR') },
  ])
  using context = create({ TASSIS_INBOUND_ADDR: '127.0.0.1:0' })
  expect(statuses(await findAll(checkReceived(context)))).toEqual(['ok'])
  service.app.db.run(
    `INSERT INTO inbound_receipts (mail_from, destinations, source_ip, helo, raw_ref, size_bytes, attempts, received_at)
     VALUES ('', '[]', '127.0.0.1', 'x', 1, 1, 0, ?)`,
    [clock.now() - hours(3)],
  )
  expect(statuses(await findAll(checkReceived(context)))).toEqual(['warning'])
  service.app.db.run('DELETE FROM inbound_receipts')
})

const REPORT = { path: '/backups/tassis-1', total_bytes: 1, duration_ms: 1, warnings: [] }

test('scheduled backups that fail or do not run are a warning, as are none', async () => {
  using none = create()
  expect(await findAll(checkBackups(none))).toMatchObject([{ status: 'warning', message: 'No backups are scheduled.' }])
  using context = create({ TASSIS_BACKUP_DIR: join(folder, 'backups') })
  expect(statuses(await findAll(checkBackups(context)))).toEqual(['ok'])
  recordSuccess(context.config.dataDir, clock.now(), REPORT)
  expect(statuses(await findAll(checkBackups(context)))).toEqual(['ok'])
  recordFailure(context.config.dataDir, clock.now(), 'The disk is full.')
  expect(await findAll(checkBackups(context))).toMatchObject([
    { status: 'warning', message: expect.stringContaining('The disk is full.') },
  ])
  recordSuccess(context.config.dataDir, clock.now() - hours(31), REPORT)
  expect(statuses(await findAll(checkBackups(context)))).toEqual(['warning'])
  rmSync(join(context.config.dataDir, 'backup-state.json'))
})

test('mail that waits since the data were restored is a warning with the commands for it', async () => {
  using context = create()
  expect(statuses(await findAll(checkRestored(context)))).toEqual(['ok'])
  const { db } = service.app
  markAsCopy(db, { kind: 'backup', takenAt: clock.now() - hours(2) })
  fenceIfCopied(db, clock.now(), service.app.log)
  expect(await findAll(checkRestored(context))).toMatchObject([
    { status: 'warning', fix: expect.stringContaining('tassis fence release') },
  ])
  await service.app.commit.write((tx) => endFence(tx.db))
  expect(statuses(await findAll(checkRestored(context)))).toEqual(['ok'])
})

test('somebody must be told, from a verified domain', async () => {
  using nobody = create()
  expect(statuses(await findAll(checkOperatorMail(nobody)))).toEqual(['warning'])
  using unread = create({ TASSIS_OPERATOR_EMAIL: 'olga@ops.test' })
  service.app.db.run('UPDATE domains SET verified_at = NULL, records_lost_at = NULL')
  expect(await findAll(checkOperatorMail(unread))).toMatchObject([
    { status: 'warning', fix: expect.stringContaining('Verify a domain') },
  ])
})

test('a full disk is found', async () => {
  using good = create({ TASSIS_MIN_FREE_DISK: '0' })
  expect(statuses(await findAll(checkDisk(good)))).toEqual(['ok space'])
  using full = create({ TASSIS_MIN_FREE_DISK: '1024GiB' })
  expect(statuses(await findAll(checkDisk(full)))).toEqual(['failure space'])
  // Before the first start.
  using missing = create({ TASSIS_DATA_DIR: join(folder, 'not', 'yet'), TASSIS_MIN_FREE_DISK: '0' })
  expect(statuses(await findAll(checkDisk(missing)))).toEqual(['ok space'])
})

test('a budget larger than the memory is found; open files are counted', async () => {
  using large = create({ TASSIS_MEMORY_BUDGET: '1024GiB' })
  expect(await findAll(checkMemory(large))).toMatchObject([
    { status: 'warning', fix: expect.stringMatching(/TASSIS_MEMORY_BUDGET to \d+MiB/) },
  ])
  using small = create()
  expect((await findAll(checkFileLimit(small)))[0]?.message).toMatch(/files and sockets may be open/)
})

test('root is a warning', async () => {
  using context = createContext()
  expect(statuses(await findAll(checkPrivileges(context)))).toEqual([process.getuid?.() === 0 ? 'warning' : 'ok'])
})

test('a clock that the service does not believe is a failure, until it is set back', async () => {
  using context = create()
  clock.jumpTo(clock.now() + days(30))
  expect(await findAll(checkClock(context))).toMatchObject([
    { status: 'failure', message: expect.stringContaining('jumped 30 days ahead') },
  ])
  clock.jumpTo(clock.now() - days(30))
  expect(statuses(await findAll(checkClock(context)))).not.toContain('failure')
})

const authority = createCertificateAuthority()
const NOW = Date.now()
const issue = (name: string, daysLeft: number) => authority.issue([name], { notAfter: new Date(NOW + days(daysLeft)) })

test.each([
  ['mail.tassis.test', 40, 'ok SMTP'],
  ['mail.tassis.test', 5, 'warning SMTP'],
  ['mail.tassis.test', -1, 'failure SMTP'],
  ['other.test', 40, 'warning SMTP'],
])('an SMTP certificate for %s with %d days left is: %s', async (name, daysLeft, expected) => {
  const file = join(folder, `${name}${daysLeft}.pem`)
  writeFileSync(file, issue(name, daysLeft).cert)
  const files = { TASSIS_TLS_CERT_FILE: file, TASSIS_TLS_KEY_FILE: file }
  using context = createContext({ ...files, TASSIS_INBOUND_ADDR: '127.0.0.1:0' })
  expect(statuses(await findAll(checkCertificates(context)))[0]).toBe(expected)
})

test('a self-signed certificate is reported for the listeners that show it', async () => {
  const check = async (settings: Readonly<Record<string, string>>) => {
    using context = createContext(settings)
    return statuses(await findAll(checkCertificates(context))).slice(0, -1)
  }
  const [inbound, submission, https] = ['INBOUND', 'SUBMISSION', 'HTTPS'].map((name) => ({
    [`TASSIS_${name}_ADDR`]: '127.0.0.1:0',
  }))
  expect(await check({})).toEqual(['skipped SMTP'])
  expect(await check({ ...inbound })).toEqual(['ok SMTP'])
  expect(await check({ ...inbound, ...submission })).toEqual(['warning SMTP'])
  expect(await check({ ...https })).toEqual(['warning HTTPS'])
  expect(await check({ ...https, ...inbound })).toEqual(['warning HTTPS', 'ok SMTP'])
  const unorderable = { TASSIS_ACME_TERMS_AGREED: 'true', TASSIS_PUBLIC_URL: 'https://127.0.0.1' }
  using agreed = createContext({ ...https, ...unorderable })
  expect((await findAll(checkCertificates(agreed)))[0]?.fix).toStartWith('Set TASSIS_PUBLIC_URL to a full host name')
})

test.each([
  ['127.0.0.1', 40, 'ok TASSIS_PUBLIC_URL'],
  ['127.0.0.1', 5, 'warning TASSIS_PUBLIC_URL'],
  ['127.0.0.1', -1, 'failure TASSIS_PUBLIC_URL'],
])('a certificate at the public URL %s with %d days left is: %s', async (name, daysLeft, expected) => {
  await using server = await startTls(issue(name, daysLeft))
  using context = createContext({ TASSIS_PUBLIC_URL: `https://127.0.0.1:${server.port}` })
  expect(statuses(await findAll(checkCertificates(context)))[1]).toBe(expected)
})

test.each([
  ['none yet', undefined, undefined, 'skipped'],
  ['none because of an error', undefined, 'connection: refused', 'failure'],
  ['one of 90 days with 40 left', 40, undefined, 'ok'],
  ['one of 90 days with 40 left whose renewal failed', 40, 'connection: refused', 'ok'],
  ['one of 90 days with 13 left', 13, 'connection: refused', 'warning'],
  ['an expired one', -1, 'connection: refused', 'failure'],
] as const)(
  'a certificate that we order ourselves, %s: %d days left, error %p: %s',
  async (_, daysLeft, lastError, expected) => {
    using context = createContext({
      TASSIS_DATA_DIR: folder,
      TASSIS_ACME_TERMS_AGREED: 'true',
      TASSIS_HOSTNAME: 'mail.tassis.test',
      TASSIS_INBOUND_ADDR: '127.0.0.1:0',
    })
    const { dataDir } = context.config
    const host = 'mail.tassis.test'
    removeCertificate(dataDir, host)
    const times = {
      notBefore: new Date(NOW + days((daysLeft ?? 0) - 90)),
      notAfter: new Date(NOW + days(daysLeft ?? 0)),
    }
    if (daysLeft !== undefined) writeCertificate(dataDir, host, authority.issue([host], times))
    const failed = lastError === undefined ? {} : { failures: 1, lastError }
    writeOrdersState(dataDir, { server: NO_FAILURES, hosts: { [host]: { ...NO_FAILURES, ...failed } } })
    const findings = (await findAll(checkCertificates(context))).filter(({ subject }) => subject === host)
    expect(findings).toMatchObject([
      {
        status: expected,
        ...(expected !== 'ok' && lastError !== undefined && { message: expect.stringContaining(lastError) }),
        ...(expected === 'failure' && { fix: expect.stringContaining('tassis certificates retry') }),
      },
    ])
  },
)

test('a public URL that cannot be reached from here is no failure', async () => {
  using context = createContext({ TASSIS_PUBLIC_URL: 'https://127.0.0.1:9' })
  expect(statuses(await findAll(checkCertificates(context)))[1]).toBe('skipped TASSIS_PUBLIC_URL')
})

async function startTls(certificate: { cert: string; key: string }): Promise<AsyncDisposable & { port: number }> {
  const server: Server = createServer({ ...certificate }, (socket) => socket.on('error', () => undefined))
  server.on('tlsClientError', () => undefined)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    [Symbol.asyncDispose]: async () => void server.close(),
  }
}

test('a check that throws is skipped with its reason, and the others are made', async () => {
  using empty = new Database(':memory:')
  using context = createContext({}, { db: empty })
  const findings = await runChecks(context)
  expect(findings).toContainEqual({
    check: 'queue',
    status: 'skipped',
    subject: null,
    message: expect.stringMatching(/^The check failed: no such table/),
    fix: null,
  })
  expect(findings.find(({ check }) => check === 'hostname')?.status).toBe('ok')
})
