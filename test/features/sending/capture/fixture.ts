/** @module A capture store in a temporary folder, with a fixed clock. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type CaptureStore, type NewCapture, openCaptureStore } from '#features/sending/capture/store.ts'
import { randomBytes } from '#platform/ids.ts'
import { days, MiB } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

export interface StoreFixture extends AsyncDisposable {
  readonly clock: ManualClock
  readonly store: CaptureStore
  /** Closes the store and opens it again, like a restart. */
  reopen(): Promise<CaptureStore>
}

export function createStore({ maxBytes = MiB, maxAgeMs = days(3) } = {}): StoreFixture {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-capture-'))
  const clock = new ManualClock()
  const open = () => openCaptureStore({ dataDir, clock, maxBytes, maxAgeMs, committerOptions: {} })
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
