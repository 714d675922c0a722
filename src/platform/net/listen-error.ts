/** @module Why the system refuses to listen at the address of a setting, and what to do. */
import { ConfigError, InUseError } from '#platform/settings/config.ts'

interface Endpoint {
  readonly host: string
  readonly port: number
}

/**
 * Why the system refuses to listen at the address of a setting, and what to do.
 * @param code of the system's error
 */
export function explainListenError(
  setting: string,
  { port }: Endpoint,
  code: string,
): { readonly problem: string; readonly fix: string } {
  // Mail arrives at port 25 and at no other.
  const isFixed = setting === 'TASSIS_INBOUND_ADDR'
  if (code === 'EADDRINUSE')
    return {
      problem: 'another program uses the port',
      fix: `see which with \`ss -ltnp sport = :${port}\` as root, and stop it${isFixed ? '' : ', or use another port'}`,
    }
  if (code === 'EACCES')
    return {
      problem: 'this user may not listen on it',
      fix: `${isFixed ? '' : 'use a port above 1023, or '}grant low ports, in a systemd unit with AmbientCapabilities=CAP_NET_BIND_SERVICE (docs/deployment.md)`,
    }
  const problem = code === 'EADDRNOTAVAIL' ? 'it is not an address of this machine' : `it cannot be used (${code})`
  return { problem, fix: 'use an address of this machine' }
}

/** The same as the error of a start. */
export function createListenError(setting: string, endpoint: Endpoint, code: string): ConfigError {
  const { host, port } = endpoint
  const { problem, fix } = explainListenError(setting, endpoint, code)
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`
  return new (code === 'EADDRINUSE' ? InUseError : ConfigError)(`${setting} is "${address}", but ${problem}; ${fix}.`)
}
