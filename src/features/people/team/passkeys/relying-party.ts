/** @module For which host and origin passkeys are. */
import { isIP } from 'node:net'
import type { Config } from '#platform/settings/config.ts'

/** Undefined where browsers have none: under an IP address, and without TLS except on this machine. */
export function findRelyingParty({ publicUrl }: Pick<Config, 'publicUrl'>) {
  const { hostname: id, origin, protocol } = new URL(publicUrl)
  const isOwnMachine = id === 'localhost' || id.endsWith('.localhost')
  const isUsable = isIP(id.replace(/^\[|\]$/g, '')) === 0 && (protocol === 'https:' || isOwnMachine)
  return isUsable ? { id, origin } : undefined
}
