/** @module A capture store in a temporary folder, with a fixed clock, and a service that captures its mail. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CaptureStore, type NewCapture } from '#features/sending/capture/store.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { randomBytes } from '#platform/ids.ts'
import { days, MiB } from '#platform/units.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually, type TestAppOptions } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { CAPTURE_OPTIONS } from '#test/support/users.ts'

export interface StoreFixture extends AsyncDisposable {
  readonly clock: ManualClock
  readonly store: CaptureStore
  /** Closes the store and opens it again, like a restart. */
  reopen(): Promise<CaptureStore>
}

export function createStore({ maxBytes = MiB, maxAgeMs = days(3) } = {}): StoreFixture {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-capture-'))
  const clock = new ManualClock()
  const open = () => new CaptureStore({ dataDir, clock, maxBytes, maxAgeMs, committerOptions: {} })
  let store = open()
  return {
    clock,
    get store() {
      return store
    },
    async reopen() {
      await store.close()
      store = open()
      return store
    },
    async [Symbol.asyncDispose]() {
      await store.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** A capture of owner 1's email 7 for bob@x.test, with small defaults. */
export const captureOf = (recipientId: number, overrides: Partial<NewCapture> = {}): NewCapture => ({
  recipientId,
  emailId: 7,
  ownerId: 1,
  mailFrom: `b-${recipientId}@bounces.sender.test`,
  rcptTo: 'bob@x.test',
  raw: Buffer.from('Subject: Hello\r\n\r\nHello.\r\n'),
  ...overrides,
})

/** A message that cannot be compressed. */
export const incompressible = (sizeBytes: number): Uint8Array => randomBytes(sizeBytes)

/** A service that captures all mail, with a domain sender.test. */
export async function startCapturing(
  settings: Readonly<Record<string, string>> = {},
  options: TestAppOptions = {},
): Promise<TestApi> {
  const service = await createTestApi({
    ...CAPTURE_OPTIONS,
    ...options,
    settings: { ...CAPTURE_OPTIONS.settings, ...settings },
  })
  await createDomain(service.app, service.actor, 'sender.test')
  return service
}

/** Sends an email and waits until it is captured for all recipients; returns its id. */
export async function capture({ api }: TestApi, request: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const email = { from: 'Ada <ada@sender.test>', to: 'bob@x.test', subject: 'Hello', text_body: 'Hello.', ...request }
  const { status, body } = await api('POST', '/v1/emails', email)
  if (status !== 202) throw new Error(`not accepted: ${JSON.stringify(body)}`)
  const id = String(at(body, 'data', 'id'))
  await eventually(async () => at((await api('GET', `/v1/emails/${id}`)).body, 'data', 'status') === 'sent')
  return id
}
