/** @module Whether the ports of the service are free, for a sentence that says which line to use when it is not. */
import { createServer } from 'node:net'
import type { Config } from '#platform/config.ts'
import { parseHostPort } from '#platform/setting-kinds.ts'
import { InUseError } from '../create.ts'

/**
 * The error when another program listens on the address of the HTTP API or at the one where mail comes in, else undefined. Listens there for a moment.
 * @param command the line that starts the service
 */
export async function findPortConflict(
  { httpAddr, inboundAddr }: Pick<Config, 'httpAddr' | 'inboundAddr'>,
  command: string,
): Promise<InUseError | undefined> {
  for (const [variable, value, fallbackPort] of [
    ['TASSIS_HTTP_ADDR', httpAddr, 8081],
    ['TASSIS_INBOUND_ADDR', inboundAddr, 2525],
  ] as const) {
    const address = parseHostPort(value)
    if (!address || !(await isPortInUse(address))) continue
    const { host, port } = address
    const alternative = `${host.includes(':') ? `[${host}]` : host}:${port < 65_535 ? port + 1 : fallbackPort}`
    return new InUseError(
      `${variable} is "${value}", but another program uses this port; stop that one, or use another port: \`${variable}=${alternative} ${command}\`.`,
    )
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
