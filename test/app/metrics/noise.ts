/**
 * @module Preloaded into a service by a test. At SIGUSR2 every thread prints and warns, as careless libraries do, and
 * then throws; the main thread throws only with NOISE_THROWS.
 */
import { EventEmitter } from 'node:events'
import { join } from 'node:path'

const channel = new BroadcastChannel('noise')

function makeNoise(name: string): void {
  console.log(`${name} log`, { a: 1 }, 'bob@secret.test')
  console.error(`${name} error\nsecond line`)
  console.warn(new Error(`${name} warn`))
  process.emitWarning(`${name} warning`)
  const emitter = new EventEmitter()
  for (let listener = 0; listener < 12; listener++) emitter.on('event', () => undefined)
}

if (Bun.isMainThread) {
  const { Worker } = globalThis
  globalThis.Worker = class extends Worker {
    constructor(url: string | URL, options: WorkerOptions = {}) {
      super(url, { ...options, preload: [options.preload ?? [], join(import.meta.dir, 'noise.ts')].flat() })
    }
  } as typeof Worker
  process.on('SIGUSR2', () => {
    makeNoise('main')
    channel.postMessage('noise')
    if (process.env['NOISE_THROWS'] === 'true') throw new Error('main thrown')
  })
} else
  channel.onmessage = () => {
    makeNoise('worker')
    // Warnings are emitted in the next tick.
    setTimeout(() => {
      throw new Error('worker thrown')
    })
  }
