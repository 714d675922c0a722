/** @module What the checks of `tassis doctor` get, and what they may ask of the network. */
import type { Database } from 'bun:sqlite'
import type { Socket } from 'node:net'
import type { App } from '#features/core/app/app.ts'
import type { SourceNames } from '#features/sending/delivery/providers/outbound-sources.ts'
import type { RunningDelivery } from '#features/sending/delivery/start.ts'
import { randomBelow } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Clock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { type DnsClient, StubResolver } from '#protocols/dns/resolver.ts'
import { parseServer, readSystemServers } from '#protocols/dns/servers.ts'
import { isLoopback } from '#protocols/dns/special-addresses.ts'
import type { Finding } from '../status-routes.ts'

export interface DoctorContext {
  readonly config: Config
  readonly clock: Clock
  readonly resolver: DnsClient
  readonly sourceNames: SourceNames
  /** The service, when the checks run in it; `delivery` is undefined while mail is not delivered. */
  readonly service: { readonly app: App; readonly delivery: RunningDelivery | undefined } | undefined
  /** Undefined when there is no database that this program can read. */
  readonly db: Database | undefined
  /** Aborted when the checks end early. */
  readonly signal: AbortSignal
}

export type Check<C = DoctorContext> = (context: C) => Found | Promise<Found>

/** Short, so that the checks end in time when no server answers. */
const DNS_TIMEOUT_MS = seconds(1.5)

/** The configured servers, else those of the system. */
export const listDnsServers = ({ dnsServers }: Pick<Config, 'dnsServers'>): readonly string[] =>
  dnsServers.length > 0 ? dnsServers : readSystemServers()

/** A resolver for the checks alone; its caller closes it. Believes the servers about DNSSEC, to report what they say. */
export const createDoctorResolver = (servers: readonly string[], clock: Clock): DnsClient =>
  new StubResolver({
    servers,
    clock,
    timeoutMs: DNS_TIMEOUT_MS,
    randomId: () => randomBelow(65_536),
    trustsAuthenticity: true,
  })

/** Skips a check where `findObstacle` says why it is not made. */
const unless =
  (findObstacle: (config: Config) => string | undefined) =>
  (check: Check) =>
  async (context: DoctorContext): Promise<Found> => {
    const obstacle = findObstacle(context.config)
    return obstacle === undefined ? check(context) : skipped(obstacle)
  }

/** Why nothing may be asked of the network; undefined: it may. Tests and trials never leave the machine. */
export function findNetworkObstacle(config: Config): string | undefined {
  if (config.delivery === 'capture') return 'Not checked: no mail leaves this machine in delivery mode capture.'
  const areServersLocal = listDnsServers(config).every((server) => isLoopback(parseServer(server).host))
  return config.allowPrivateNetworks === false || areServersLocal
    ? undefined
    : 'Not checked: TASSIS_ALLOW_PRIVATE_NETWORKS is set, so this service is for tests.'
}

/** For checks that ask the network. */
export const onNetwork = unless(findNetworkObstacle)

export const NOT_DIRECT = 'Not checked: only delivery mode direct needs it.'

/** For checks of what direct delivery needs of the network. */
export const forDirectDelivery = unless((config) =>
  config.delivery === 'relay' ? NOT_DIRECT : findNetworkObstacle(config),
)

/** For checks of the database, which are skipped when there is none that this program can read. */
export const withData =
  (check: Check<DoctorContext & { readonly db: Database }>) =>
  async (context: DoctorContext): Promise<Found> =>
    context.db ? check({ ...context, db: context.db }) : skipped('There is no data yet that this program can read.')

/** Whether the checks may connect to an address that the operator named: not beyond this machine in tests. */
export const mayConnect = ({ allowPrivateNetworks }: Pick<Config, 'allowPrivateNetworks'>, ip: string): boolean =>
  allowPrivateNetworks === false || isLoopback(ip)

const CONNECT_TIMEOUT_MS = seconds(5)

/** What the operator reads in place of an error code. */
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused',
  ENETUNREACH: 'no route',
  EHOSTUNREACH: 'no route',
  ECONNRESET: 'reset',
  EACCES: 'forbidden by this machine',
  EPERM: 'forbidden by this machine',
  EADDRNOTAVAIL: 'the source is not an address of this machine',
}

/** Waits for a socket to be ready. Resolves with the reason why it is not, or not in time; undefined: it is. */
export function findConnectProblem(
  { clock, signal }: DoctorContext,
  socket: Socket,
  ready: 'connect' | 'secureConnect',
): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const giveUp = () => resolve('no answer')
  const timer = clock.after(CONNECT_TIMEOUT_MS, giveUp)
  signal.addEventListener('abort', giveUp)
  socket.once(ready, () => resolve(undefined))
  socket.on('error', ({ code = '' }: NodeJS.ErrnoException) => resolve(REASONS[code] ?? 'failed'))
  return promise.finally(() => {
    timer.cancel()
    signal.removeEventListener('abort', giveUp)
  })
}

/** A finding before the check that made it is named. */
export type NewFinding = Omit<Finding, 'check'>

/** What a check found about one or several things. */
export type Found = NewFinding | readonly NewFinding[]

export const ok = (message: string, subject: string | null = null): NewFinding => ({
  status: 'ok',
  subject,
  message,
  fix: null,
})
export const skipped = (message: string, subject?: string): NewFinding => ({
  ...ok(message, subject),
  status: 'skipped',
})
export const warning = (message: string, fix: string, subject?: string): NewFinding => ({
  ...ok(message, subject),
  status: 'warning',
  fix: fix || null,
})
export const failure = (message: string, fix: string, subject?: string): NewFinding => ({
  ...warning(message, fix, subject),
  status: 'failure',
})

/** From a warning of the service, whose first sentence says what is wrong, and the others what to do. */
export function failWithAdvice(text: string, subject?: string): NewFinding {
  const end = /\. (?=[A-Z])/.exec(text)?.index
  return end === undefined ? failure(text, '', subject) : failure(text.slice(0, end + 1), text.slice(end + 2), subject)
}

export const isBad = ({ status }: Pick<Finding, 'status'>): boolean => status === 'warning' || status === 'failure'
