/** @module What the checks of `tassis doctor` get, for tests: settings, and a resolver that asks a fixture. */
import {
  createDoctorResolver,
  type DoctorContext,
  type Found,
  listDnsServers,
  type NewFinding,
} from '#app/doctor/context.ts'
import { loadConfig } from '#app/settings.ts'
import type { Finding } from '#app/status-routes.ts'
import { SourceNames } from '#features/sending/delivery/providers/outbound-sources.ts'
import { createLog } from '#platform/log/log.ts'
import { systemClock } from '#platform/time/clock.ts'

/** A context without a service and its data; the settings are those of tests, so nothing leaves the machine. */
export function createContext(
  settings: Readonly<Record<string, string>> = {},
  parts: Partial<DoctorContext> = {},
): DoctorContext & Disposable {
  const { config } = loadConfig({
    TASSIS_HOSTNAME: 'mail.tassis.test',
    TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
    TASSIS_DNS_SERVERS: '127.0.0.1:9',
    ...settings,
  })
  const clock = parts.clock ?? systemClock
  const resolver = createDoctorResolver(listDnsServers(config), clock)
  return {
    config,
    clock,
    resolver,
    sourceNames: new SourceNames({ config, log: createLog('silent'), resolver }),
    service: undefined,
    db: undefined,
    signal: new AbortController().signal,
    ...parts,
    [Symbol.dispose]: () => resolver.close(),
  }
}

/** Everything that a check found. */
export const findAll = async (result: Found | Promise<Found>): Promise<NewFinding[]> => [await result].flat()

/** Status and subject of findings. */
export const statuses = (findings: readonly NewFinding[]): string[] =>
  findings.map(({ status, subject }) => (subject === null ? status : `${status} ${subject}`))

/** A finding as a check makes it. */
export const createFinding = (check: string, status: Finding['status'], subject?: string): Finding => ({
  check,
  status,
  subject: subject ?? null,
  message: `${check} is ${status}.`,
  fix: status === 'failure' ? 'Mend it.' : null,
})
