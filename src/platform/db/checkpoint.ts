/** @module Requests checkpoints from the checkpoint Worker; one Worker serves all databases of the process. */
import type { Log } from '#platform/log/log.ts'
import { startWorker } from '#platform/process/workers.ts'

export function createCheckpointer(log: Log) {
  let worker: Worker | undefined
  let lastId = 0
  const waiting = new Map<number, () => void>()
  const start = () => {
    const started = startWorker('checkpoint')
    started.onmessage = ({ data }: MessageEvent<{ id: number; error?: string }>) => {
      if (data.error !== undefined) log.warn({ error: data.error }, 'checkpoint not finished')
      waiting.get(data.id)?.()
      waiting.delete(data.id)
    }
    started.onerror = (event) => {
      log.error({ error: event.message }, 'checkpoint worker died')
      worker = undefined
      for (const done of waiting.values()) done()
      waiting.clear()
    }
    return started
  }
  return {
    /** Resolves when the pass has ended. A failed pass is only logged, because the next pass copies the same pages. */
    run(path: string, mode: 'PASSIVE' | 'TRUNCATE'): Promise<void> {
      worker ??= start()
      const id = ++lastId
      const done = new Promise<void>((resolve) => waiting.set(id, resolve))
      worker.postMessage({ id, path, mode })
      return done
    },
    close(): void {
      worker?.terminate()
    },
  }
}
