/**
 * @module Worker that copies write-ahead logs into their databases, so that the syncs of a checkpoint never block the event loop.
 * Talks with `checkpoint.ts` only.
 */
import { Database } from 'bun:sqlite'

declare const self: Worker

interface Request {
  readonly id: number
  readonly path: string
  readonly mode: 'PASSIVE' | 'TRUNCATE'
}

const connections = new Map<string, Database>()

self.onmessage = ({ data }: MessageEvent<Request>) => {
  try {
    let db = connections.get(data.path)
    if (!db) {
      db = new Database(data.path, { readwrite: true, strict: true })
      db.run('PRAGMA busy_timeout = 250')
      db.run('PRAGMA synchronous = NORMAL')
      db.run('PRAGMA cache_size = -512')
      connections.set(data.path, db)
    }
    db.query(`PRAGMA wal_checkpoint(${data.mode})`).all()
    self.postMessage({ id: data.id })
  } catch (error) {
    self.postMessage({ id: data.id, error: error instanceof Error ? error.message : String(error) })
  }
}
