/** @module Calls a running service directly, for commands that also work without one. */
import { TassisError } from '#client/client.ts'
import type { Config } from '#platform/settings/config.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { seconds } from '#platform/units.ts'
import { type AdminReply, adminSocketPath, fetchAdminSocket } from '../admin-socket.ts'
import { VERSION } from '../version.ts'
import { type CommandApi, createApi } from './api.ts'

const TIMEOUT_MS = seconds(3)

/** Calls the API of the running service; never opens the data. */
export async function callService<T>(
  { dataDir }: Pick<Config, 'dataDir'>,
  use: (api: CommandApi) => PromiseLike<T>,
  timeoutMs = TIMEOUT_MS,
): Promise<AdminReply<T>> {
  if (adminSocketPath(dataDir) === undefined) return { kind: 'nobody' }
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const api = createApi((url, init) => fetchAdminSocket(dataDir, VERSION, url, { ...init, signal }), true)
    return { kind: 'ok', value: await use(api) }
  } catch (error) {
    if (signal.aborted) return { kind: 'silent' }
    if (!(error instanceof TassisError)) throw error
    const { status, message, code } = error
    return status === 0 ? { kind: 'nobody' } : { kind: 'refused', message, code }
  }
}

/** What the running service says of itself; undefined without one that answers soon. */
export async function askService(config: Pick<Config, 'dataDir'>) {
  const reply = await callService(config, (api) => api.operator.getService())
  return reply.kind === 'ok' ? reply.value.data : undefined
}

/** The URL of the service on this machine, without a path: as the running one says, else as the settings do. */
export async function findServiceUrl(config: Pick<Config, 'dataDir' | 'httpAddr'>): Promise<string> {
  const url = (await askService(config))?.url
  if (url) return url
  const { host, port } = parseHostPort(config.httpAddr) ?? { host: '127.0.0.1', port: 8080 }
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host
  return `http://${reachable}:${port}`
}
