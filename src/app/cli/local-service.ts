/** @module Calls a running service directly, for commands that also work without one. */
import type { Config } from '#platform/settings/config.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { seconds } from '#platform/units.ts'
import { type AdminReply, callAdminSocket } from '../admin-socket.ts'
import { VERSION } from '../version.ts'
import { type AdminCommand, defineAdminCommand } from './admin-command.ts'

const findUrl = defineAdminCommand('service.url', ({ url }, _: null) => url ?? null)

export const localServiceAdminCommands = [findUrl]

const TIMEOUT_MS = seconds(3)

/** Runs an admin command in the running service. */
export const callService = <Input, Output>(
  { dataDir }: Pick<Config, 'dataDir'>,
  { name }: AdminCommand<Input, Output>,
  input: Input,
  timeoutMs = TIMEOUT_MS,
): Promise<AdminReply<Output>> =>
  callAdminSocket<Output>(dataDir, { version: VERSION, operation: name, input }, AbortSignal.timeout(timeoutMs))

/** The answer of the running service; undefined without one that answers soon. */
export async function askService<T>(
  config: Pick<Config, 'dataDir'>,
  command: AdminCommand<null, T>,
): Promise<T | undefined> {
  const reply = await callService(config, command, null)
  return reply.kind === 'ok' ? reply.value : undefined
}

/** The URL of the service on this machine, without a path: as the running one says, else as the settings do. */
export async function findServiceUrl(config: Pick<Config, 'dataDir' | 'httpAddr'>): Promise<string> {
  const url = await askService(config, findUrl)
  if (url) return url
  const { host, port } = parseHostPort(config.httpAddr) ?? { host: '127.0.0.1', port: 8080 }
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host
  return `http://${reachable}:${port}`
}
