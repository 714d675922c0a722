/** @module Reads backups, and compares each file with the manifest. */
import { statSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { MAIN_DATABASE } from './contents.ts'
import { BackupError } from './errors.ts'
import { checkDatabase, digest, type FileDigest, readChunks } from './files.ts'
import { type BackupEntry, type BackupFile, type BackupReader, readManifest } from './manifest.ts'
import { findBackups } from './names.ts'

/** Opens a folder. Throws BackupError when it is no backup, or its manifest is damaged. */
export function openBackup(path: string): BackupReader {
  const absolute = resolve(path)
  const stat = statSync(absolute, { throwIfNoEntry: false })
  if (stat === undefined) throw new BackupError(`There is no backup at ${absolute}.`)
  if (!stat.isDirectory())
    throw new BackupError(`${absolute} is not a backup, which is a folder; unpack the file if it holds one.`)
  const inside = findBackups(absolute)
  const newest = inside.at(-1)
  if (newest !== undefined)
    throw new BackupError(
      `${absolute} holds ${inside.length} backup${inside.length === 1 ? '' : 's'}; name one of them. The newest is ${join(absolute, newest)}.`,
    )
  const manifest = readManifest(absolute)
  return {
    name: basename(absolute),
    manifest,
    async *entries() {
      for (const { path } of manifest.files) {
        const file = join(absolute, path)
        if (statSync(file, { throwIfNoEntry: false }) !== undefined) yield { path, chunks: readChunks(file) }
      }
    },
    check: () => checkDatabase(join(absolute, MAIN_DATABASE)).map((problem) => `${MAIN_DATABASE}: ${problem}`),
  }
}

/** Reads or writes the bytes of an entry; resolves with what it read. */
export type Consume = (entry: BackupEntry) => Promise<FileDigest>

/**
 * Passes each file to `consume` and compares what it read with the manifest.
 * @returns what is wrong, by file; empty when the backup is as it was written
 */
export async function compareFiles(
  { manifest, entries }: BackupReader,
  consume: Consume = ({ chunks }) => digest(chunks),
  maxProblems = 20,
): Promise<string[]> {
  const expected = new Map(manifest.files.map((file) => [file.path, file]))
  const problems: string[] = []
  try {
    for await (const entry of entries()) {
      const file = expected.get(entry.path)
      if (!file) continue
      expected.delete(entry.path)
      const problem = compare(file, await consume(entry))
      if (problem !== undefined) problems.push(problem)
      if (problems.length >= maxProblems) return problems
    }
  } catch (error) {
    if (!(error instanceof BackupError)) throw error
    return [...problems, error.message]
  }
  for (const path of [...expected.keys()].slice(0, maxProblems - problems.length)) problems.push(`${path} is missing`)
  return problems
}

function compare({ path, size, sha256 }: BackupFile, read: FileDigest): string | undefined {
  if (read.size !== size) return `${path} has ${read.size} bytes instead of ${size}`
  return read.sha256 === sha256 ? undefined : `${path} is not as it was written (its SHA-256 differs)`
}
