/**
 * @module The kill test of key rotations: kills a real service with `kill -9` while it sends mail, seals everything again
 * under a new master key and rotates the DKIM keys of a domain. After each kill the key file holds the former keys, or
 * those and a new one; every secret opens; the signing keys are whole and their records published; and every message
 * that arrived has a valid signature. See `scripts/kill-test --help`.
 */
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { openApp } from '#app/create.ts'
import { continueRotation, listMasterKeys } from '#app/master-key.ts'
import { loadConfig } from '#app/settings.ts'
import { VERSION } from '#app/version.ts'
import { deriveEventUuid } from '#features/core/events/record.ts'
import { listDnsRecords, listDomains } from '#features/setup/domains/domains.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { fetchAdminSocket } from '#platform/http/admin-socket.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { createLog } from '#platform/log/log.ts'
import { verifyWithMailauth } from '#test/protocols/dkim/verifiers.ts'
import { KillRun, waitUntil } from './run.ts'
import { SENDER_DOMAIN } from './service.ts'

/** Further secrets, so that sealing them again takes some time. */
const WEBHOOKS = 600
const CLIENTS = 2
/** Milliseconds after the begin of a rotation, within which the kill comes. */
const KILL_WITHIN_MS = { master: 700, dkim: 1500, both: 1200 } as const
const KINDS = ['master', 'dkim', 'both'] as const
/** Emails of a round before its rotation begins. */
const EMAILS_BEFORE = 5
const SIGN_WITHIN_MS = 10_000
/** The most keys that the file has before the former ones are removed from it. */
const MAX_KEYS = 5

const run = new KillRun()
const { random, violations } = run
const { service, sink, zone, account } = await run.createDelivering()
const open = () => openApp(loadConfig(service.settings).config, { log: createLog('silent') })
const keyFile = service.file('master.key')
const readKeys = () => readFileSync(keyFile, 'utf8')
const firstEvent = account.eventId(1)
const sum = { kills: 0, unbegun: 0, partly: 0, sealed: 0, waiting: 0, rotated: 0, masterKeys: 1, sent: 0 }
/** Records that were ever published: those of former keys stay. */
const published: Record<string, string> = {}
let isUp = false
let domainId = ''
/** That signed at the last kill. */
let selector = ''

async function prepareSecrets(): Promise<void> {
  const { app, close } = open()
  const [domain] = listDomains(app.db, 1, { limit: 1, offset: 0 }).domains
  if (!domain) throw new Error('there is no domain')
  domainId = formatUuid(domain.uuid)
  selector = domain.dkimSelector
  const records = listDnsRecords(app, domain)
  for (const record of [records.spf, records.dkim, records.dkim_ed25519, records.return_path])
    if (record) publish(record)
  await app.commit.write((tx) => {
    const insert = tx.db.prepare(
      `INSERT INTO webhooks (uuid, account_id, url, events, secret, cursor_seq, is_active, created_at, updated_at)
       VALUES (?, 1, 'https://hook.test/', '[]', ?, 0, 0, 1, 1)`,
    )
    for (let n = 0; n < WEBHOOKS; n++) {
      const uuid = newUuid()
      insert.run(uuid, app.keys.seal(`whsec_${n}`, `webhook:${formatUuid(uuid)}`))
    }
  })
  await close()
}

function publish({
  type,
  host,
  value,
}: {
  readonly type: string
  readonly host: string
  readonly value: string
}): void {
  const there = zone[host]
  const entry = typeof there === 'object' ? there : {}
  zone[host] = entry
  if (type === 'MX') entry.MX = [{ preference: 10, exchange: value }]
  else entry.TXT = [value]
  if (host.includes('._domainkey.')) published[host] = value
}

/** As the operator's commands do. */
const rotateMasterKey = () =>
  fetchAdminSocket(service.file('.'), VERSION, 'http://tassis/v1/operator/master-keys/rotate', {
    method: 'POST',
    signal: AbortSignal.timeout(60_000),
  }).catch(() => undefined)

const request = (path: string, body?: unknown) =>
  fetch(`${service.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${account.key}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    keepalive: false,
  }).catch(() => undefined)

async function sendMail(): Promise<void> {
  while (isUp) {
    const response = await request('/v1/emails', {
      from: `ada@${SENDER_DOMAIN}`,
      to: 'bob@receiver.test',
      subject: 'Hello',
      html_body: '<p>Hello <a href="https://example.test/">there</a></p>',
    })
    if (response?.status === 202) sum.sent++
    await Bun.sleep(10)
  }
}

/** Rotates the DKIM keys as an operator does: publishes the new records, then checks. */
async function rotateDkim(): Promise<void> {
  const response = await request(`/v1/domains/${domainId}/rotate-dkim`)
  const body = response?.ok ? await response.json().catch(() => undefined) : undefined
  if (body === undefined) return
  const { data } = body as { data: { dns_records: Record<string, Parameters<typeof publish>[0]> } }
  await Bun.sleep(random.between(0, 500))
  for (const [key, record] of Object.entries(data.dns_records)) if (key.endsWith('_next')) publish(record)
  await request(`/v1/domains/${domainId}/verify`)
}

async function runRound(round: number): Promise<void> {
  const before = readKeys()
  await service.start()
  isUp = true
  const clients = Array.from({ length: CLIENTS }, sendMail)
  const kind = KINDS[round % KINDS.length] ?? 'both'
  const sentBefore = sum.sent
  await waitUntil(() => sum.sent >= sentBefore + EMAILS_BEFORE, SIGN_WITHIN_MS)
  const work = [...(kind === 'dkim' ? [] : [rotateMasterKey()]), ...(kind === 'master' ? [] : [rotateDkim()])]
  await Bun.sleep(random.between(0, KILL_WITHIN_MS[kind]))
  await service.running?.kill()
  sum.kills++
  isUp = false
  await Promise.all([...clients, ...work])
  await judge(before)
}

/** Opens the data as the next start does. */
async function judge(before: string): Promise<void> {
  const after = readKeys()
  if (after !== before && after.slice(after.indexOf('\n') + 1) !== before)
    violations.push(
      `the key file is neither the former one nor that with one more key: ${after.split('\n').length} lines`,
    )
  const { app, close } = open()
  try {
    const counts = (await listMasterKeys(app)).keys
    const newest = counts.find((key) => key.is_newest)
    if (after === before) sum.unbegun++
    else if (counts.some((key) => !key.is_newest && key.secrets > 0)) sum.partly++
    else sum.sealed++
    if (counts.some(({ key }) => key === null)) violations.push('secrets are sealed under a key that is lost')
    const { unreadable } = await continueRotation(app)
    const left = (await listMasterKeys(app)).keys.filter((key) => !key.is_newest && key.is_needed)
    if (unreadable > 0 || left.length > 0)
      violations.push(`${unreadable} secrets do not open, ${left.length} keys are needed`)
    if (!newest) violations.push('there is no newest key')
    for (const { uuid, secret } of app.db
      .query<{ uuid: Uint8Array; secret: Uint8Array }, []>('SELECT uuid, secret FROM webhooks')
      .all()) {
      if (!app.keys.unsealText(secret, `webhook:${formatUuid(uuid)}`).startsWith('whsec_'))
        violations.push('a secret opens to something else')
    }
    if (deriveEventUuid(app.keys, 1, 1) !== firstEvent) violations.push('the id of an event has changed')
    const [domain] = listDomains(app.db, 1, { limit: 1, offset: 0 }).domains
    const signing = domain && findSigningDomain(app.db, app.keys, domain.id)
    if (!domain || !signing) return void violations.push('there is no signing key')
    const spki = createPublicKey(createPrivateKey(signing.privateKeyPem)).export({ type: 'spki', format: 'der' })
    const host = `${signing.selector}._domainkey.${SENDER_DOMAIN}`
    if (!published[host]?.endsWith(`p=${spki.toString('base64')}`))
      violations.push(`the key ${signing.selector} signs, but its record was not published`)
    if (domain.nextDkim) sum.waiting++
    if (selector !== signing.selector) sum.rotated++
    selector = signing.selector
    // The records are published, so the next round can rotate again.
    for (const [key, record] of Object.entries(listDnsRecords(app, domain))) if (key.endsWith('_next')) publish(record)
    if (app.keys.masters().length >= MAX_KEYS) writeFileSync(keyFile, `${readKeys().split('\n')[0]}\n`)
  } finally {
    await close()
  }
  sum.masterKeys += after === before ? 0 : 1
}

async function judgeMail(): Promise<void> {
  for (const { raw } of sink.messages) {
    const result = await verifyWithMailauth(Buffer.from(raw, 'latin1'), published)
    if (!/^pass(,pass)?$/.test(result)) violations.push(`a message arrived with the signatures: ${result}`)
  }
}

await prepareSecrets()
await run.collect(service, async () => {
  await run.runRounds(runRound)
  await judgeMail()
  await service.start()
})
run.end(
  `${sum.kills} kills: ${sum.unbegun} before the new master key, ${sum.partly} while secrets were sealed again, ${sum.sealed} after it, ` +
    `${sum.waiting} while DKIM keys waited, ${sum.rotated} after they began to sign; ${sum.masterKeys} master keys; ` +
    `${sum.sent} emails accepted, ${sink.messages.length} arrived; ` +
    `${violations.length === 0 ? 'everything opens and every signature is valid' : 'promises were broken'}`,
)
