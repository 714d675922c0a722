/**
 * @module Checks at start that the configured outbound addresses belong to this machine: mail from any other address
 * would always be deferred.
 */
import { networkInterfaces } from 'node:os'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import { listOutboundIps } from '#platform/settings/outbound-source.ts'

/** Throws ConfigError for an outbound address that this machine does not have. */
export function requireOwnAddresses({ delivery, outboundIps }: Pick<Config, 'delivery' | 'outboundIps'>): void {
  if (delivery === 'capture') return
  const own = new Set(
    Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map((a) => a.address)),
  )
  // All of 127.0.0.0/8 is this machine.
  const foreign = listOutboundIps(outboundIps).find((ip) => !own.has(ip) && !ip.startsWith('127.'))
  if (foreign === undefined) return
  const usable = [...own].filter((ip) => !ip.startsWith('127.') && ip !== '::1' && !ip.startsWith('fe80:'))
  throw new ConfigError(
    `TASSIS_OUTBOUND_IPS has ${foreign}, which is not an address of this machine; it has ${usable.join(', ') || 'none but loopback'}. Leave it unset to let the system choose.`,
  )
}
