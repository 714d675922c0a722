/** @module Damages stored data as a failing disk does: one bit of a file changes, and nothing else. */
import { closeSync, openSync, readdirSync, readFileSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const NEEDLE_BYTES = 32

/**
 * Flips a bit of the file below `folder` that contains the beginning of a piece of content, in place, so that processes
 * that have the file open see it; a second call undoes the first. Returns the path of the file.
 */
export function flipBit(folder: string, piece: Uint8Array): string {
  const needle = piece.subarray(1, NEEDLE_BYTES)
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const path = join(folder, name)
    if (!statSync(path).isFile()) continue
    const stored = readFileSync(path)
    const at = stored.indexOf(needle) - 1
    if (at < 0) continue
    const fd = openSync(path, 'r+')
    writeSync(fd, Buffer.from([(stored[at] ?? 0) ^ 1]), 0, 1, at)
    closeSync(fd)
    return path
  }
  throw new Error('no file holds the piece')
}
