/**
 * @module Turns what libraries and the runtime print into lines of the log: `console` and warnings of Node's API. Each
 * thread has its own; `preload-worker.ts` does this for the Workers. Only a crash of the runtime itself still prints
 * other text.
 */
import { format } from 'node:util'

const METHODS = ['debug', 'dir', 'error', 'info', 'log', 'table', 'trace', 'warn'] as const

/** Logs a text at level `warn`: nothing of ours prints, so what does is worth a look. */
type Warn = (text: string) => void

/** Captures the output of this thread until it is disposed. */
export function captureStrayOutput(warn: Warn): Disposable {
  const originals = METHODS.map((name) => [name, console[name]] as const)
  for (const name of METHODS) console[name] = (...args: unknown[]) => warn(format(...args))
  // The runtime's own listener prints the warnings.
  const listeners = process.listeners('warning')
  process.removeAllListeners('warning')
  const onWarning = (warning: Error): void => warn(`${warning.name}: ${warning.message}`)
  process.on('warning', onWarning)
  return {
    [Symbol.dispose]() {
      for (const [name, original] of originals) console[name] = original
      process.off('warning', onWarning)
      for (const listener of listeners) process.on('warning', listener)
    },
  }
}
