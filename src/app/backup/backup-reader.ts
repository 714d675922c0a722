/** @module What every form of a backup offers to those who read it. */
import type { Manifest } from './manifest.ts'

export interface BackupEntry {
  readonly path: string
  /** The bytes, to be read before the next entry. */
  readonly chunks: AsyncIterable<Uint8Array>
}

export interface BackupReader {
  /** How to name the backup to an operator. */
  readonly name: string
  readonly manifest: Manifest
  /** The files of the manifest, in any order. Throws BackupError where the backup ends early. */
  entries(): AsyncIterable<BackupEntry>
  /** Returns what else is wrong, after all files were found to be as written. */
  check?(): string[]
}
