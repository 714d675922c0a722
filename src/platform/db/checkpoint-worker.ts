/**
 * @module Worker that copies write-ahead logs into their databases, so that checkpoint syncs never block the event
 * loop. Only `checkpoint.ts` communicates with it.
 */
import { Database } from 'bun:sqlite'

declare const self: Worker

interface Request {
  readonly id: number
  readonly path: string
  readonly mode: 'PASSIVE' | 'TRUNCATE'
}

self.onmessage = ({ data }: MessageEvent<Request>) => {
  try {
    checkpoint(data)
    self.postMessage({ id: data.id })
  } catch (error) {
    self.postMessage({ id: data.id, error: error instanceof Error ? error.message : String(error) })
  }
}

/**
 * Opens a connection for this pass only: a connection left open would keep the disk space of a dropped month of content
 * in use.
 */
function checkpoint({ path, mode }: Request): void {
  const db = new Database(path, { readwrite: true, strict: true })
  try {
    db.run('PRAGMA busy_timeout = 250')
    db.run('PRAGMA synchronous = NORMAL')
    db.run('PRAGMA cache_size = -512')
    const pass = db.prepare(`PRAGMA wal_checkpoint(${mode})`)
    pass.all()
    pass.finalize()
  } finally {
    db.close()
  }
}
