/**
 * @module Proof that a browser has sent the right password of a user, between the two steps of the sign-in page: a
 * sealed field that is valid for five minutes, and only while the user has this password. It signs no one in without a
 * code.
 */
import type { App } from '#features/core/app/app.ts'
import { attempt } from '#platform/attempt.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import { findUser, type User } from './users.ts'

const VALID_MS = minutes(5)
const CONTEXT = 'password-proof'

type Proof = Pick<User, 'id' | 'passwordHash'> & { readonly at: Millis }

/** @param user whose password was right */
export function createPasswordProof({ clock, keys }: App, { id, passwordHash }: User): string {
  const proof: Proof = { id, passwordHash, at: clock.now() }
  return Buffer.from(keys.seal(JSON.stringify(proof), CONTEXT)).toString('base64url')
}

/** The user of a proof in a form; undefined when it is not valid. */
export function readPasswordProof({ clock, db, keys }: App, text: string): User | undefined {
  const opened = attempt(() => keys.unsealText(Buffer.from(text, 'base64url'), CONTEXT))
  if (opened === undefined) return undefined
  const { id, passwordHash, at } = JSON.parse(opened) as Proof
  const user = findUser(db, id)
  // Also for a clock that was set back.
  return Math.abs(clock.now() - at) < VALID_MS && user?.passwordHash === passwordHash ? user : undefined
}
