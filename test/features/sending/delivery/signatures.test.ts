import { expect, test } from 'bun:test'
import { generateKeyPairSync, sign } from 'node:crypto'
import { SigningKeys } from '#features/sending/delivery/worker/deliver.ts'
import { getDomain, listDnsRecords } from '#features/setup/domains/domains.ts'
import { startDkimRotation } from '#features/setup/domains/rotate-dkim.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { RsaSigners } from '#platform/crypto/rsa-signer.ts'
import { formatUuid } from '#platform/ids.ts'
import { minutes } from '#platform/units.ts'
import { hasDkimpyEd25519, verifyEachWithDkimpy, verifyWithMailauth } from '#test/protocols/dkim/verifiers.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startSink } from '#test/support/sink.ts'

const REQUEST = { to: 'a@receiver.test', html_body: '<p>Grüße</p>', tracking: false }

/** A flow, its domain's id and records, and the last message that the receiver got. */
async function startSigning() {
  const clock = new ManualClock()
  const sink = await startSink()
  const flow = await startMailFlow({ zone: { 'receiver.test': { A: ['127.0.0.1'] } }, smtpPort: sink.port, clock })
  const { app, actor } = flow
  const row = app.db.query<{ uuid: Uint8Array }, []>('SELECT uuid FROM domains').get()
  const id = formatUuid(row?.uuid ?? new Uint8Array(16))
  const received = () => Buffer.from(sink.messages.at(-1)?.raw ?? '', 'latin1')
  return {
    ...flow,
    clock,
    id,
    records: () => listDnsRecords(app, getDomain(app.db, actor.accountId, id)),
    received,
    async sendOne() {
      // The queue reads a domain again a minute later.
      clock.advance(minutes(1))
      await flow.settled(await flow.send(REQUEST))
      return received()
    },
    async [Symbol.asyncDispose]() {
      await flow[Symbol.asyncDispose]()
      await sink[Symbol.asyncDispose]()
    },
  }
}

test('mail is signed by RSA, and by Ed25519 too while that record is published', async () => {
  await using signing = await startSigning()
  const { app, actor, dns, id, sendOne: send } = signing
  const { dkim, dkim_ed25519: ed25519 } = signing.records()
  if (!ed25519) throw new Error('the domain has no Ed25519 key')
  const records = { [dkim.host]: dkim.value, [ed25519.host]: ed25519.value }

  const alone = await send()
  expect(await verifyWithMailauth(alone, records)).toBe('pass')
  dns.zone[dkim.host] = { TXT: [dkim.value] }
  dns.zone[ed25519.host] = { TXT: [ed25519.value] }
  expect(await verifyWithMailauth(await send(), records)).toBe('pass')
  await verifyDomain(app, actor, id)
  const twice = await send()
  expect(await verifyWithMailauth(twice, records)).toBe('pass,pass')
  expect(twice.toString('latin1').match(/ a=[^;]+/g)).toEqual([' a=rsa-sha256', ' a=ed25519-sha256'])
  if (hasDkimpyEd25519) expect(verifyEachWithDkimpy([alone, twice], records)).toEqual([[true], [true, true]])
  // A later check that misses the record stores this; the resolver of these tests would still remember the record.
  app.db.run('UPDATE domains SET ed25519_verified = 0')
  expect(await verifyWithMailauth(await send(), records)).toBe('pass')
})

test('during a rotation of the keys every signature verifies, and mail that waits is signed by the key of its attempt', async () => {
  await using signing = await startSigning()
  const { app, actor, clock, dns, id } = signing
  const records: Record<string, string> = {}
  const publish = (key: 'dkim' | 'dkim_next') => {
    const record = signing.records()[key]
    if (!record) throw new Error(`the domain has no record ${key}`)
    records[record.host] = record.value
    dns.zone[record.host] = { TXT: [record.value] }
  }
  publish('dkim')
  const readSelector = async (raw: Buffer) => {
    expect(await verifyWithMailauth(raw, records)).toBe('pass')
    return / s=([^;]+);/.exec(raw.toString('latin1'))?.[1]
  }
  const send = async () => readSelector(await signing.sendOne())
  const first = await send()
  const later = await signing.send({ ...REQUEST, send_at: new Date(clock.now() + minutes(30)).toISOString() })
  const { nextDkim } = await startDkimRotation(app, actor, id)
  expect(await send()).toBe(first)
  publish('dkim_next')
  expect(await send()).toBe(first)
  await verifyDomain(app, actor, id)
  expect(await send()).toBe(nextDkim?.selector)
  clock.advance(minutes(30))
  await signing.settled(later)
  expect(await readSelector(signing.received())).toBe(nextDkim?.selector)
})

const createPem = () =>
  generateKeyPairSync('rsa', {
    modulusLength: 1024,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey
const DATA = Buffer.from('data')

/** Counts the keys in memory. */
class CountingSigners extends RsaSigners {
  inMemory = 0

  override create(key: Parameters<RsaSigners['create']>[0]) {
    this.inMemory++
    const signer = super.create(key)
    return {
      sign: signer.sign,
      free: () => {
        this.inMemory--
        signer.free()
      },
    }
  }
}

test('keys are parsed once, freed when replaced, and at most so many are in memory', () => {
  const rsa = new CountingSigners()
  const keys = new SigningKeys(rsa, 2)
  const pems = Array.from({ length: 4 }, createPem)
  for (const [id, privateKeyPem] of pems.entries()) keys.add({ id: String(id), privateKeyPem })
  expect(rsa.inMemory).toBe(0)
  for (const id of [0, 1, 2, 3, 0, 0, 3, 1])
    expect(keys.get(String(id)).sign(DATA)).toEqual(sign('sha256', DATA, pems[id] ?? ''))
  expect(rsa.inMemory).toBe(2)
  expect(keys.get('1')).toBe(keys.get('1'))
  const replacement = createPem()
  keys.add({ id: '1', privateKeyPem: replacement })
  expect(rsa.inMemory).toBe(1)
  expect(keys.get('1').sign(DATA)).toEqual(sign('sha256', DATA, replacement))
})

test('a message that was being composed when its key was freed is signed all the same', () => {
  const pem = createPem()
  const keys = new SigningKeys()
  keys.add({ id: '1', privateKeyPem: pem })
  const signer = keys.get('1')
  keys.add({ id: '1', privateKeyPem: createPem() })
  expect(signer.sign(DATA)).toEqual(sign('sha256', DATA, pem))
})

test('a missing or unreadable key fails only its own messages', () => {
  const keys = new SigningKeys()
  keys.add({ id: '1', privateKeyPem: 'no key' })
  keys.add({ id: '2', privateKeyPem: createPem() })
  expect(() => keys.get('1')).toThrow()
  expect(() => keys.get('3')).toThrow('missing')
  expect(keys.get('2').algorithm).toBe('rsa-sha256')
})
