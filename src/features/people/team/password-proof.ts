/**
 * @module Proof that a browser has sent the right password of a user, between the two steps of the sign-in page: a
 * signed field that is valid for five minutes, once, and only while the user has this password. It signs no one in
 * without a code.
 */
import type { App } from '#features/core/app/app.ts'
import { equalBytes, hmacSha256 } from '#platform/crypto/crypto.ts'
import { formatUuid, newUuid, parseUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import { createSingleUse } from './single-use.ts'
import { findUserByUuid, type User } from './users.ts'

export interface PasswordProof {
  readonly user: User
  readonly checkedAt: Millis
  /** Whether the check of the password counted this attempt; false once a code was tried. */
  readonly isCounted: boolean
}

const VALID_MS = minutes(5)

export function createPasswordProofs({ clock, db, keys }: Pick<App, 'clock' | 'db' | 'keys'>) {
  const singleUse = createSingleUse(clock, VALID_MS)
  const sign = (fields: string, user: User, subkey = keys.subkey('password-proof')): string =>
    Buffer.from(hmacSha256(subkey, `${fields}.${user.passwordHash}`)).toString('base64url')
  return {
    create({ user, checkedAt, isCounted }: PasswordProof): string {
      const fields = [formatUuid(user.uuid), formatUuid(newUuid()), checkedAt, isCounted ? 1 : 0].join('.')
      return `${fields}.${sign(fields, user)}`
    },
    /** The proof in a form; undefined when it is not valid, or was used before. */
    consume(text: string): PasswordProof | undefined {
      const [id = '', nonce = '', time = '', counted = '', mac = ''] = text.split('.')
      const uuid = parseUuid(id)
      const user = uuid && findUserByUuid(db, uuid)
      if (!user) return undefined
      const fields = [id, nonce, time, counted].join('.')
      const isOurs = (subkey: Uint8Array) => equalBytes(Buffer.from(sign(fields, user, subkey)), Buffer.from(mac))
      if (!keys.subkeys('password-proof').some(isOurs)) return undefined
      const checkedAt = Number(time)
      return singleUse.use(nonce, checkedAt) ? { user, checkedAt, isCounted: counted === '1' } : undefined
    },
  }
}
