/** @module Compares the data directories of stopped nodes, octet by octet. */
import { Database } from 'bun:sqlite'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ClusterNode } from './node.ts'

/** What the directory of one node has and that of another has not, or has with other octets. */
export interface PageDifference {
  readonly nodes: string
  readonly seq: number
  readonly file: string
  /** Numbers of the pages that differ, from 1; empty when a file is missing or is no database. */
  readonly pages: readonly number[]
}

export interface Comparison {
  /** Pairs of nodes at an equal sequence. */
  readonly pairs: number
  readonly files: number
  readonly differences: readonly PageDifference[]
}

/** Compares nodes whose directories are at an equal sequence. */
export function comparePages(nodes: readonly ClusterNode[]): Comparison {
  const differences: PageDifference[] = []
  let pairs = 0
  let files = 0
  for (const [i, left] of nodes.entries()) {
    for (const right of nodes.slice(i + 1)) {
      const seq = left.readPosition()
      if (seq === undefined || right.readPosition() !== seq) continue
      pairs++
      const names = new Set([...listFiles(left.dataDir), ...listFiles(right.dataDir)])
      files += names.size
      for (const file of names) {
        if ([left, right].every(({ dataDir }) => isOrphan(dataDir, file))) continue
        const pages = compareFile(join(left.dataDir, file), join(right.dataDir, file))
        if (pages) differences.push({ nodes: `${left.name}/${right.name}`, seq, file, pages })
      }
    }
  }
  return { pairs, files, differences }
}

/** The files that every node has: the databases and what belongs to them, without what a commit has not reached yet. */
function listFiles(folder: string): string[] {
  const stores = ['content', 'raw-mail'].filter((name) => existsSync(join(folder, name)))
  const inStores = stores.flatMap((name) =>
    readdirSync(join(folder, name), { recursive: true, encoding: 'utf8' }).map((path) => join(name, path)),
  )
  return ['tassis.db', ...inStores].filter(
    (path) =>
      !/-(?:wal|shm|journal)$|(?:^|\/)incoming(?:\/|$)/.test(path) &&
      (!existsSync(join(folder, path)) || statSync(join(folder, path)).isFile()),
  )
}

/**
 * Whether a file of a blob is missing or without a row: the leader died before it had written the file or its row, and
 * a later one deletes what is left over.
 */
function isOrphan(folder: string, file: string): boolean {
  const [, month, hash] = /^(.*\/[0-9]{4}-[0-9]{2})\/([0-9a-f]{32})\.zst(?:\..*\.tmp)?$/.exec(file) ?? []
  if (hash === undefined) return false
  if (file.endsWith('.tmp') || !existsSync(join(folder, file))) return true
  using db = new Database(join(folder, `${month}.db`), { readonly: true })
  using row = db.prepare<unknown, [Uint8Array]>('SELECT 1 FROM parts WHERE hash = ?')
  return row.get(Uint8Array.fromHex(hash)) === null
}

const PAGE_SIZE_AT = 16

/** Returns the pages that differ; undefined when the files are equal. */
function compareFile(left: string, right: string): number[] | undefined {
  if (!existsSync(left) || !existsSync(right)) return []
  const [a, b] = [readFolded(left), readFolded(right)]
  if (a.equals(b)) return undefined
  if (!left.endsWith('.db')) return []
  const declared = a.readUInt16BE(PAGE_SIZE_AT)
  const pageSize = declared === 1 ? 65_536 : declared
  const differing: number[] = []
  for (let page = 0; page * pageSize < Math.max(a.length, b.length); page++) {
    const range = [page * pageSize, (page + 1) * pageSize] as const
    if (!a.subarray(...range).equals(b.subarray(...range))) differing.push(page + 1)
  }
  return differing
}

/** Reads a file; a database with its -wal, which is folded in a copy. */
function readFolded(path: string): Buffer {
  const wal = `${path}-wal`
  if (!existsSync(wal) || statSync(wal).size === 0) return readFileSync(path)
  const folder = mkdtempSync(join(tmpdir(), 'tassis-pages-'))
  try {
    const copy = join(folder, 'copy.db')
    cpSync(path, copy)
    cpSync(wal, `${copy}-wal`)
    const db = new Database(copy)
    db.run('PRAGMA wal_checkpoint(TRUNCATE)')
    db.close()
    return readFileSync(copy)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
