/**
 * @module A backup while the queue delivers, then more mail, then the death of the machine: the restored service sends
 * nothing twice, and loses nothing that the backup had. The receiver counts.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '#test/support/app.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { type Sink, startSink } from '#test/support/sink.ts'
import {
  createDataFolder,
  type DataFolder,
  runTassis,
  runTassisJson,
  setUpAccount,
  startServing,
} from '../app/process.ts'

setDefaultTimeout(240_000)

/** The receivers of slow.test accept nothing until this is set. */
let acceptsSlow = false
/** Messages to fast.test are answered when this resolves. */
const gate = Promise.withResolvers<void>()
let arrived = 0

let data: DataFolder
let sink: Sink
let dns: DnsServer
let folder: string

beforeAll(async () => {
  data = createDataFolder()
  folder = mkdtempSync(join(tmpdir(), 'tassis-restored-'))
  sink = await startSink({
    onRcptTo({ address }, _session, done) {
      const isBusy = address.endsWith('@slow.test') && !acceptsSlow
      done(isBusy ? Object.assign(new Error('busy'), { responseCode: 451 }) : null)
    },
    onData(stream, session, done) {
      stream.resume()
      stream.on('end', async () => {
        arrived++
        await gate.promise
        sink.messages.push({
          mailFrom: '',
          rcptTo: session.envelope.rcptTo.map(({ address }) => address),
          raw: '',
          secure: false,
        })
        done()
      })
    },
  })
  const MX = (domain: string) => ({
    [domain]: { MX: [{ preference: 1, exchange: `mx.${domain}` }] },
    [`mx.${domain}`]: { A: ['127.0.0.1'] },
  })
  dns = await startDnsServer({ ...MX('fast.test'), ...MX('slow.test') })
})

afterAll(async () => {
  gate.resolve()
  await sink[Symbol.asyncDispose]()
  await dns.close()
  data[Symbol.dispose]()
  rmSync(folder, { recursive: true, force: true })
})

/** How often each address got a message, from all services together. */
const countReceived = (): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const { rcptTo } of sink.messages) for (const address of rcptTo) counts[address] = (counts[address] ?? 0) + 1
  return counts
}

/** Waits until every address got one message; then no address may have more, and no other any. */
async function receivedOnce(addresses: readonly string[]): Promise<void> {
  await eventually(() => addresses.every((address) => (countReceived()[address] ?? 0) > 0))
  expect(countReceived()).toEqual(once(addresses))
}

const once = (addresses: readonly string[]) => Object.fromEntries(addresses.map((address) => [address, 1]))

interface Fence {
  readonly groups: readonly { readonly domain: string; readonly recipients: number }[]
}

// Proves: storage-15
test('a restored service sends nothing twice and loses nothing that the backup had', async () => {
  const settings = {
    ...data.settings,
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_SMTP_PORT: String(sink.port),
    TASSIS_WORKERS: '1',
  }
  const { key } = await setUpAccount(settings, { verified: true })
  const sendAll = async (url: string, addresses: readonly string[]): Promise<void> => {
    for (const to of addresses) {
      const response = await fetch(`${url}/v1/emails`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ from: 'ada@sender.test', to, subject: 'Hi', text_body: `To ${to}` }),
      })
      expect(response.status).toBe(202)
    }
  }
  const addresses = (count: number, name: string): string[] =>
    Array.from({ length: count }, (_, index) => `${name.replace('@', `${index}@`)}`)

  const fast = addresses(30, 'open@fast.test')
  const slow = addresses(10, 'open@slow.test')
  const lost = addresses(8, 'lost@fast.test')
  const fresh = addresses(3, 'fresh@fast.test')

  // The original: some messages are in flight and most are queued when the backup is written.
  await using original = await startServing(settings)
  await sendAll(original.url, [...fast, ...slow])
  await eventually(() => arrived > 0)
  const { path } = await runTassisJson<{ path: string }>(['backup', folder], settings)
  gate.resolve()
  await receivedOnce(fast)
  // The lost time: accepted and delivered after the backup.
  await sendAll(original.url, lost)
  await receivedOnce([...fast, ...lost])
  original.signal('SIGSTOP')
  const died = original.exited
  process.kill(original.pid, 'SIGKILL')
  await died

  const into = join(folder, 'restored')
  const restored = { ...settings, TASSIS_DATA_DIR: into }
  const { exitCode } = await runTassis(['restore', path, '--key', join(data.path, 'master.key')], restored)
  expect(exitCode).toBe(0)
  await using service = await startServing(restored)
  acceptsSlow = true
  // New mail flows past what waits.
  await sendAll(service.url, fresh)
  await receivedOnce([...fast, ...lost, ...fresh])
  const fence = await runTassisJson<Fence>(['fence'], restored)
  const waiting = Object.fromEntries(fence.groups.map(({ domain, recipients }) => [domain, recipients]))
  expect(waiting).toEqual({ 'fast.test': expect.any(Number), 'slow.test': slow.length })

  // What the original has delivered since is dropped; what it could not deliver is released.
  expect((await runTassis(['fence', 'drop', '--domain', 'fast.test', '--yes'], restored)).exitCode).toBe(0)
  expect((await runTassis(['fence', 'release', '--domain', 'slow.test', '--yes'], restored)).exitCode).toBe(0)
  // Each keeps its time of the next attempt.
  expect((await runTassis(['queue', 'retry', '--domain', 'slow.test', '--yes'], restored)).exitCode).toBe(0)
  await receivedOnce([...fast, ...lost, ...fresh, ...slow])
  const check = await runTassis(['check'], restored)
  expect(check.stdout).toContain('No inconsistencies found.')
})
