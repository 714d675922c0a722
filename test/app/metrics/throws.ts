/**
 * @module Preloaded into a service by a test. At SIGUSR2 every Worker throws; the main thread throws only with
 * MAIN_THROWS.
 */
import { join } from 'node:path'

const channel = new BroadcastChannel('throw')

if (Bun.isMainThread) {
  const { Worker } = globalThis
  globalThis.Worker = class extends Worker {
    constructor(url: string | URL, options: WorkerOptions = {}) {
      super(url, { ...options, preload: [options.preload ?? [], join(import.meta.dir, 'throws.ts')].flat() })
    }
  } as typeof Worker
  process.on('SIGUSR2', () => {
    channel.postMessage('throw')
    if (process.env['MAIN_THROWS'] === 'true') throw new Error('main thrown')
  })
} else
  channel.onmessage = () => {
    throw new Error('worker thrown')
  }
