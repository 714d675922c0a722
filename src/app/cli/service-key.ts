/** @module The API key with which a command calls a service. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { attempt } from '#platform/attempt.ts'
import type { Config } from '#platform/settings/config.ts'
import { CommandError } from './errors.ts'

/** The key in a file. Throws CommandError when the file cannot be read or is empty. */
export function readKeyFile(path: string): string {
  try {
    const key = readFileSync(path, 'utf8').trim()
    if (key !== '') return key
  } catch (error) {
    throw new CommandError(
      `The key file ${path} cannot be read: ${error instanceof Error ? error.message : String(error)}.`,
    )
  }
  throw new CommandError(`The key file ${path} is empty.`)
}

/** The key that `scripts/start` leaves in the data directory; undefined if there is none. */
export const readFirstKey = ({ dataDir }: Pick<Config, 'dataDir'>): string | undefined =>
  attempt(() => readFileSync(join(dataDir, 'first-key'), 'utf8').trim())
