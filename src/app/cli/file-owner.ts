/** @module Whose a path is, in words: for who may not use it. */
import { readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** `user root`, or `user 1001` when the system has no name for it. Where the path itself cannot be seen, that of the nearest folder above it. */
export function describeOwner(path: string): string {
  try {
    const { uid } = statSync(path)
    return `user ${findUserName(uid) ?? uid}`
  } catch {
    return dirname(path) === path ? 'another user' : describeOwner(dirname(path))
  }
}

/** From passwd(5). */
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
