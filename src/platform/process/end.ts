/** @module Ends the process as a crash would, so that the next start recovers. */

/**
 * Never returns.
 * @param isReplicated whether commits count only when another place has them. `process.exit` closes the databases, and
 * SQLite then writes into their files what the other place may not have; a kill leaves it in the write-ahead logs.
 */
export function endProcess(isReplicated: boolean): never {
  if (!isReplicated) return process.exit(1)
  process.kill(process.pid, 'SIGKILL')
  // The first process of a container is immune to that.
  return process.abort()
}
