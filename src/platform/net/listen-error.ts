/** @module Why the system refuses to listen at the address of a setting, and what to do. */
import { ConfigError, InUseError } from '#platform/settings/config.ts'

/**
 * The error of a start.
 * @param code of the system's error
 */
export function createListenError(
  setting: string,
  { host, port }: { readonly host: string; readonly port: number },
  code: string,
): ConfigError {
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`
  return new (code === 'EADDRINUSE' ? InUseError : ConfigError)(
    `${setting} is "${address}", but ${explain(setting, port, code)}.`,
  )
}

function explain(setting: string, port: number, code: string): string {
  // Mail arrives at port 25 and at no other.
  const isFixed = setting === 'TASSIS_INBOUND_ADDR'
  if (code === 'EADDRINUSE')
    return `another program uses the port; see which with \`ss -ltnp sport = :${port}\` as root, and stop it${isFixed ? '' : ', or use another port'}`
  if (code === 'EACCES')
    return `this user may not listen on it; ${isFixed ? '' : 'use a port above 1023, or '}grant low ports, in a systemd unit with AmbientCapabilities=CAP_NET_BIND_SERVICE (docs/deployment.md)`
  const problem = code === 'EADDRNOTAVAIL' ? 'it is not an address of this machine' : `it cannot be used (${code})`
  return `${problem}; use an address of this machine`
}
