/** @module Where the service on this machine answers. */
import type { Config } from '#platform/config.ts'
import { parseHostPort } from '#platform/setting-kinds.ts'
import { seconds } from '#platform/units.ts'
import { callAdminSocket } from '../admin-socket.ts'
import { VERSION } from '../version.ts'
import { defineAdminCommand } from './admin-command.ts'

const findUrl = defineAdminCommand('service.url', ({ url }, _: null) => url ?? null)

export const localServiceAdminCommands = [findUrl]

const TIMEOUT_MS = seconds(3)

/** The URL of the service on this machine, without a path: as the running one says, else as the settings do. */
export async function findServiceUrl({ dataDir, httpAddr }: Pick<Config, 'dataDir' | 'httpAddr'>): Promise<string> {
  const call = { version: VERSION, operation: findUrl.name, input: null }
  const reply = await callAdminSocket(dataDir, call, AbortSignal.timeout(TIMEOUT_MS))
  if (reply.kind === 'ok' && typeof reply.value === 'string') return reply.value
  const { host, port } = parseHostPort(httpAddr) ?? { host: '127.0.0.1', port: 8080 }
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host
  return `http://${reachable}:${port}`
}
