/** @module Describes the owner of a path, for error messages. */
import { readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Returns `user root`, or `user 1001` when the system has no name for the uid. For a path that is not visible, returns
 * the owner of the nearest visible parent folder.
 */
export function describeOwner(path: string): string {
  try {
    const { uid } = statSync(path)
    return `user ${findUserName(uid) ?? uid}`
  } catch {
    return dirname(path) === path ? 'another user' : describeOwner(dirname(path))
  }
}

/** Looks up the name in /etc/passwd. */
function findUserName(uid: number): string | undefined {
  try {
    const fields = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => line.split(':'))
    return fields.find(([, , id]) => id === String(uid))?.[0]
  } catch {
    return undefined
  }
}
