/** @module Where the service on this machine answers. */
import type { Config } from '#platform/config.ts'
import { parseHostPort } from '#platform/setting-kinds.ts'

/** The URL of the service on this machine, without a path. */
export function localServiceUrl({ httpAddr }: Pick<Config, 'httpAddr'>): string {
  const { host, port } = parseHostPort(httpAddr) ?? { host: '127.0.0.1', port: 8080 }
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host
  return `http://${reachable}:${port}`
}
