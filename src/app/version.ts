/** @module The version of this program, from package.json, and the commit of its source. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }

export const VERSION: string = manifest.version

/** Put in by `scripts/build.ts`; not there when the program runs from its source. */
declare const BUILD_COMMIT: string | undefined

/** `0.1.0 (1a2b3c4d5e6f)`; `unknown` where neither the build nor git can name the commit. */
export const formatVersion = (): string =>
  `${VERSION} (${typeof BUILD_COMMIT === 'string' ? BUILD_COMMIT : readSourceCommit()})`

/** The commit of a working copy, with `-dirty` when something in it was changed; not that of a repository that the sources merely lie in. */
export function readSourceCommit(folder: string = join(import.meta.dir, '../..')): string {
  if (!existsSync(join(folder, '.git'))) return 'unknown'
  try {
    // The sources may belong to another user than the one who runs them, which git refuses unless told.
    const git = ['git', '-c', `safe.directory=${folder}`, '-C', folder]
    const { stdout, success } = Bun.spawnSync([...git, 'describe', '--always', '--dirty', '--abbrev=12', '--exclude=*'])
    return (success && stdout.toString().trim()) || 'unknown'
  } catch {
    // There is no git.
    return 'unknown'
  }
}
