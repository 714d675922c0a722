/**
 * @module Whether this process may open one more file or socket. Bun reports a socket that it could not make as
 * ECONNREFUSED, as if the peer had refused it.
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
