/** @module Where the service on this machine answers. */
import type { Config } from '#platform/settings/config.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { seconds } from '#platform/units.ts'
import { callAdminSocket } from '../admin-socket.ts'
import { VERSION } from '../version.ts'
import { type AdminCommand, defineAdminCommand } from './admin-command.ts'

const findUrl = defineAdminCommand('service.url', ({ url }, _: null) => url ?? null)

export const localServiceAdminCommands = [findUrl]

const TIMEOUT_MS = seconds(3)

/** The answer of the running service; undefined without one that answers soon. */
export async function askService<T>(
  { dataDir }: Pick<Config, 'dataDir'>,
  { name }: AdminCommand<null, T>,
): Promise<T | undefined> {
  const call = { version: VERSION, operation: name, input: null }
  const reply = await callAdminSocket(dataDir, call, AbortSignal.timeout(TIMEOUT_MS))
  return reply.kind === 'ok' ? (reply.value as T) : undefined
}

/** The URL of the service on this machine, without a path: as the running one says, else as the settings do. */
export async function findServiceUrl(config: Pick<Config, 'dataDir' | 'httpAddr'>): Promise<string> {
  const url = await askService(config, findUrl)
  if (url) return url
  const { host, port } = parseHostPort(config.httpAddr) ?? { host: '127.0.0.1', port: 8080 }
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host
  return `http://${reachable}:${port}`
}
