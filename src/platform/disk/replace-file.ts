/** @module Replaces a small file so that a crash leaves the previous content or the new one. */
import { closeSync, fchmodSync, fsyncSync, openSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** On disk when it returns; only the owner may read and write the file. */
export function replaceFileSync(path: string, content: string): void {
  const temporary = `${path}.tmp`
  syncFile(temporary, 'w', (file) => {
    // The mode of open has no effect on an existing file.
    fchmodSync(file, 0o600)
    writeFileSync(file, content)
  })
  renameSync(temporary, path)
  syncFile(dirname(path), 'r')
}

/** Makes the content of a file durable, or the entries of a folder. @param fill writes the file first */
export function syncFile(path: string, flags: 'r' | 'r+' | 'w', fill?: (file: number) => void): void {
  const file = openSync(path, flags, 0o600)
  try {
    fill?.(file)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
