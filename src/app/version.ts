/** @module The version of this program, from package.json, and the commit of its source. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }

export const VERSION: string = manifest.version

/** Defined by `scripts/build.ts`; undefined when the program runs from its source. */
declare const BUILD_COMMIT: string | undefined

/** Returns `0.1.0 (1a2b3c4d5e6f)`, or `unknown` in place of the commit when neither the build nor git names it. */
export const formatVersion = (): string =>
  `${VERSION} (${typeof BUILD_COMMIT === 'string' ? BUILD_COMMIT : readSourceCommit()})`

/** Returns the commit of a working copy, with `-dirty` when it has changes. Ignores a repository in a parent folder. */
export function readSourceCommit(folder: string = join(import.meta.dir, '../..')): string {
  if (!existsSync(join(folder, '.git'))) return 'unknown'
  try {
    // The sources may belong to another user; without this option, git refuses to read them.
    const git = ['git', '-c', `safe.directory=${folder}`, '-C', folder]
    const { stdout, success } = Bun.spawnSync([...git, 'describe', '--always', '--dirty', '--abbrev=12', '--exclude=*'])
    return (success && stdout.toString().trim()) || 'unknown'
  } catch {
    // Git is not installed.
    return 'unknown'
  }
}
