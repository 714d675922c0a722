/** @module Checks whether the ports of the service are free, to suggest a command with another port. */
import { createServer } from 'node:net'
import { findPortHolder } from '#platform/net/port-holder.ts'
import type { Config } from '#platform/settings/config.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { InUseError } from '../create.ts'

/**
 * Returns an error when another program listens on one of the addresses of the service, else undefined. Listens there briefly.
 * @param command the command line that starts the service
 */
export async function findPortConflict(
  {
    httpAddr,
    httpsAddr,
    inboundAddr,
    submissionAddr,
    submissionTlsAddr,
    metricsAddr,
  }: Pick<Config, 'httpAddr' | 'httpsAddr' | 'inboundAddr' | 'submissionAddr' | 'submissionTlsAddr' | 'metricsAddr'>,
  command: string,
): Promise<InUseError | undefined> {
  for (const [variable, value, fallbackPort] of [
    ['TASSIS_HTTP_ADDR', httpAddr, 8081],
    ['TASSIS_HTTPS_ADDR', httpsAddr, 8443],
    // Mail arrives at port 25 and at no other.
    ['TASSIS_INBOUND_ADDR', inboundAddr, undefined],
    ['TASSIS_SUBMISSION_ADDR', submissionAddr, 1587],
    ['TASSIS_SUBMISSION_TLS_ADDR', submissionTlsAddr, 1465],
    ['TASSIS_METRICS_ADDR', metricsAddr, 9464],
  ] as const) {
    const address = parseHostPort(value)
    if (!address || !(await isPortInUse(address))) continue
    const { host, port } = address
    const alternative = `${host.includes(':') ? `[${host}]` : host}:${port < 65_535 ? port + 1 : fallbackPort}`
    const { who, remedy } = findPortHolder(address)
    const elsewhere =
      fallbackPort === undefined ? '' : `, or use another port: \`${variable}=${alternative} ${command}\``
    return new InUseError(`${variable} is "${value}", but another program uses this port${who}; ${remedy}${elsewhere}.`)
  }
  return undefined
}

function isPortInUse({ host, port }: { host: string; port: number }): Promise<boolean> {
  const server = createServer((socket) => socket.destroy())
  return new Promise((resolve) => {
    server.once('error', (error) => resolve('code' in error && error.code === 'EADDRINUSE'))
    server.listen(port, host, () => server.close(() => resolve(false)))
  })
}
