/** @module Whether the port of the HTTP API is free, for a sentence that says which line to use when it is not. */
import { createServer } from 'node:net'
import { type Config, ConfigError } from '#platform/config.ts'
import { parseHostPort } from '#platform/setting-kinds.ts'

/**
 * The error when another program listens on the address of the HTTP API, else undefined. Listens there for a moment.
 * @param command the line that starts the service
 */
export async function portInUse({ httpAddr }: Config, command: string): Promise<ConfigError | undefined> {
  const address = parseHostPort(httpAddr)
  if (!address || !(await isInUse(address))) return undefined
  const { host, port } = address
  const another = `${host.includes(':') ? `[${host}]` : host}:${port < 65_535 ? port + 1 : 8081}`
  return new ConfigError(
    `TASSIS_HTTP_ADDR is "${httpAddr}", but another program uses this port; stop that one, or use another port: \`TASSIS_HTTP_ADDR=${another} ${command}\`.`,
  )
}

function isInUse({ host, port }: { host: string; port: number }): Promise<boolean> {
  const server = createServer((socket) => socket.destroy())
  return new Promise((resolve) => {
    server.once('error', (error) => resolve('code' in error && error.code === 'EADDRINUSE'))
    server.listen(port, host, () => server.close(() => resolve(false)))
  })
}
