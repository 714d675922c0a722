/**
 * @module Tests whether this process can open another file descriptor. Bun reports a socket that it could not create as
 * ECONNREFUSED, as if the peer had refused the connection.
 */
import { closeSync, openSync } from 'node:fs'

export function canOpenDescriptor(): boolean {
  try {
    closeSync(openSync('/dev/null', 'r'))
    return true
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    return code !== 'EMFILE' && code !== 'ENFILE'
  }
}
