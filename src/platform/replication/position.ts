/**
 * @module The file `replica.json` in the data directory of a node: to which cluster it belongs and up to where its files
 * are those of the log. It is behind by about a second, never ahead. A directory that was led from here also says where
 * its write-ahead logs ended then: what a crash left behind that place is in no log and is cut off (`recover.ts`).
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeFileSynced } from '#platform/content/synced-files.ts'
import { isLocked } from '#platform/disk/lock.ts'
import { replaceFileSync } from '#platform/disk/replace-file.ts'
import { systemCodeOf } from '#platform/errors.ts'
import { ConfigError } from '#platform/settings/config.ts'
import type { WalPosition } from './entries.ts'

export interface Position {
  /** Id of the cluster, a UUID. */
  readonly cluster: string
  /** Id of this directory, a UUID. */
  readonly directory: string
  /** All rows of the log up to this one are in the files, and on disk. */
  readonly seq: number
  /** Checksum of that row: a log that has another row there is not the one that these files followed. */
  readonly crc: number
  /** The epoch in which this node leads or led; 0: it follows, and its databases have no write-ahead logs. */
  readonly epoch: number
  /** Of a node that leads or led: the end of each write-ahead log at `seq`. */
  readonly wals: Readonly<Record<string, WalPosition>>
  /** A snapshot is being copied here, so the files are incomplete. */
  readonly isCopying?: boolean
}

const toPath = (dataDir: string): string => join(dataDir, 'replica.json')

/** Undefined for a directory of no cluster. */
export function readPosition(dataDir: string): Position | undefined {
  try {
    return JSON.parse(readFileSync(toPath(dataDir), 'utf8')) as Position
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined
    if (error instanceof SyntaxError)
      throw new ConfigError(
        `${toPath(dataDir)} is damaged; move the directory away, and the node copies all data from the leader.`,
      )
    throw error
  }
}

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

/** On disk when it returns. */
export const writePosition = (dataDir: string, position: Position): void =>
  replaceFileSync(toPath(dataDir), format(position))

/** The same without blocking the thread. A crash may leave the position before: it is behind then, which does no harm. */
export const writePositionLater = (dataDir: string, position: Position): Promise<void> =>
  writeFileSynced(toPath(dataDir), Buffer.from(format(position)))

const format = (position: Position): string => `${JSON.stringify(position)}\n`
