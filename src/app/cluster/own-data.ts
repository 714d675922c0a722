/** @module Whether commands may read the data directory of a node themselves. */
import { join } from 'node:path'
import { isLocked } from '#platform/disk/lock.ts'
import { readPosition } from '#platform/replication/position.ts'
import { ConfigError } from '#platform/settings/config.ts'

/** Throws ConfigError while a standby writes to the files: it does so without SQLite and its locks. */
export function requireReadable(dataDir: string): void {
  const position = readPosition(dataDir)
  if (!position || (position.epoch > 0 && !position.isCopying)) return
  if (position.isCopying)
    throw new ConfigError(`${dataDir} is incomplete: this node was copying the data of its leader; start it again.`)
  if (isLocked(join(dataDir, 'lock')))
    throw new ConfigError(
      'This node is a standby, whose files change all the time. Run this command on the node that leads (`tassis cluster` names it), or stop this node first.',
    )
}
