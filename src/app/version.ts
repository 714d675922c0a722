/** @module The version of this program, from package.json, and the commit of its source with its date. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }

export const VERSION: string = manifest.version

/** Both are defined by `scripts/build.ts`; undefined when the program runs from its source. */
declare const BUILD_COMMIT: string | undefined
declare const BUILD_DATE: string | undefined

export interface SourceState {
  /** First 12 digits of the commit, with `-dirty` when the working copy has changes; `unknown` without git. */
  readonly commit: string
  /** Day of the commit in UTC, `2026-11-23`; empty if unknown. */
  readonly date: string
}

/**
 * Returns `0.1.0 (1a2b3c4d5e6f, 2026-11-23)`: version, commit, and the date of the build, which is that of its commit
 * so that each build of a commit is the same. The commit is `unknown`, without a date, when neither the build nor git
 * names it.
 */
export function formatVersion(): string {
  const { commit, date } =
    typeof BUILD_COMMIT === 'string' ? { commit: BUILD_COMMIT, date: BUILD_DATE ?? '' } : readSourceState()
  return `${VERSION} (${[commit, date].filter((part) => part !== '').join(', ')})`
}

/** Reads the state of a working copy from git. Ignores a repository in a parent folder. */
export function readSourceState(folder: string = join(import.meta.dir, '../..')): SourceState {
  const unknown: SourceState = { commit: 'unknown', date: '' }
  if (!existsSync(join(folder, '.git'))) return unknown
  // The sources may belong to another user; without this option, git refuses to read them.
  const git = (...args: string[]): string => {
    const { stdout, success } = Bun.spawnSync(['git', '-c', `safe.directory=${folder}`, '-C', folder, ...args])
    return success ? stdout.toString().trim() : ''
  }
  try {
    const commit = git('describe', '--always', '--dirty', '--abbrev=12', '--exclude=*')
    return commit === '' ? unknown : { commit, date: toDate(Number(git('log', '-1', '--format=%ct'))) }
  } catch {
    // Git is not installed.
    return unknown
  }
}

export const toDate = (unixSeconds: number): string => new Date(unixSeconds * 1000).toISOString().slice(0, 10)
