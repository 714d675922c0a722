/** @module Checks of what the system lets the service reach and use: outgoing port 25, the smarthost, the data. */
import { accessSync, constants, existsSync } from 'node:fs'
import { connect, isIP, isIPv6 } from 'node:net'
import { dirname } from 'node:path'
import { usesIpv6 } from '#features/sending/delivery/providers/outbound-sources.ts'
import { requireUsableData } from '#platform/disk/data-owner.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { listOutboundIps, listProxies } from '#platform/settings/outbound-source.ts'
import { seconds } from '#platform/units.ts'
import { resolveHostAddresses, resolveMailHosts } from '#protocols/dns/mail-route.ts'
import { canConnectTo } from '#protocols/dns/special-addresses.ts'
import {
  type DoctorContext,
  type Found,
  failure,
  findConnectProblem,
  forDirectDelivery,
  mayConnect,
  type NewFinding,
  ok,
  onNetwork,
  skipped,
  warning,
} from '../context.ts'

interface DialTarget {
  readonly ip: string
  readonly port: number
  /** Address of this machine to connect from; undefined: the system chooses. */
  readonly from?: string | undefined
}

/** A server that has not greeted after this time gets no QUIT. */
const GREETING_TIMEOUT_MS = seconds(3)

/** Connects, and sends no more than QUIT. Resolves with the reason why it cannot; undefined: it can. */
async function dial(context: DoctorContext, { ip, port, from }: DialTarget): Promise<string | undefined> {
  const socket = connect({ host: ip, port, ...(from !== undefined && { localAddress: from }) })
  const problem = await findConnectProblem(context, socket, 'connect')
  if (problem === undefined) {
    // QUIT before the greeting would look like a program that sends spam.
    socket.once('data', () => socket.end('QUIT\r\n'))
    context.clock.after(GREETING_TIMEOUT_MS, () => socket.destroy())
    socket.unref()
  } else socket.destroy()
  return problem
}

/** Outgoing addresses from which a connection is tried. */
const MAX_SOURCES = 8
/** One host that cannot be reached may be down itself. */
const MIN_DESTINATIONS = 2

interface Destination {
  readonly domain: string
  readonly addresses: readonly string[]
}

/** Whether receivers can be reached: many providers block outgoing port 25 until they are asked. */
export const checkOutgoingPort = forDirectDelivery(async (context) => {
  const { doctorSmtpDomains: domains, outboundIps } = context.config
  if (domains.length === 0) return skipped('Not checked: TASSIS_DOCTOR_SMTP_DOMAINS is none.')
  const destinations = await Promise.all(domains.map((domain) => findDestination(context, domain)))
  const proxies = listProxies(outboundIps)
  const sources = listOutboundIps(outboundIps).filter((ip) => !proxies.has(ip))
  if (sources.length === 0 && proxies.size > 0) return skipped('Not checked: all outgoing addresses have proxies.')
  if (sources.length === 0) return checkSource(context, destinations, undefined)
  return Promise.all(sources.slice(0, MAX_SOURCES).map((source) => checkSource(context, destinations, source)))
})

/** The addresses of the first mail host of a domain. */
export async function findDestination({ config, resolver }: DoctorContext, domain: string): Promise<Destination> {
  const route = await resolveMailHosts(resolver, domain, { shuffle: (items) => [...items] })
  const host = route.kind === 'ok' ? route.hosts[0]?.host : undefined
  const found = host === undefined ? undefined : await resolveHostAddresses(resolver, host, { ipv6: true })
  const addresses = found?.kind === 'ok' ? found.addresses : []
  // A private address is no mail host of a large receiver, but that of a network that answers in its name.
  const usable = (ip: string): boolean => mayConnect(config, ip) && canConnectTo(ip, config.allowPrivateNetworks)
  return { domain, addresses: addresses.filter(usable) }
}

async function checkSource(
  context: DoctorContext,
  destinations: readonly Destination[],
  from: string | undefined,
): Promise<NewFinding> {
  const { smtpPort: port } = context.config
  const isVersion6 = from !== undefined && isIPv6(from)
  const known = destinations.flatMap(({ domain, addresses }) => {
    const ip = addresses.find((address) => isIPv6(address) === isVersion6)
    return ip === undefined ? [] : [{ domain, ip }]
  })
  const source = from === undefined ? '' : ` from ${from}`
  if (known.length < MIN_DESTINATIONS)
    return skipped(
      `Not enough mail hosts could be looked up to tell whether outgoing port ${port} is open${source}.`,
      from,
    )
  const dialled = await Promise.all(
    known.map(async (target) => ({ ...target, problem: await dial(context, { ...target, port, from }) })),
  )
  const reached = dialled.filter(({ problem }) => problem === undefined)
  if (reached.length > 0)
    return ok(`Outgoing port ${port} is open${source}: ${reached.map(({ domain }) => domain).join(', ')}.`, from)
  const reasons = dialled.map(({ domain, ip, problem }) => `${domain} (${ip}): ${problem}`)
  return failure(
    `Outgoing port ${port} is blocked${source}, so no mail can be delivered. ${reasons.join('; ')}.`,
    'Ask the provider of this server to open outgoing TCP port 25, and look at its firewall and that of this machine. Until then, TASSIS_DELIVERY=relay sends through another mail server.',
    from,
  )
}

export const checkRelay = onNetwork(async (context) => {
  const { config, resolver } = context
  if (config.delivery !== 'relay') return skipped('Not checked: there is no relay in this delivery mode.')
  const { hostname, port, protocol } = new URL(config.relayUrl)
  const host = hostname.replace(/^\[|\]$/g, '')
  const found = isIP(host) === 0 ? await resolveHostAddresses(resolver, host, { ipv6: usesIpv6(config) }) : undefined
  const fix = 'Correct TASSIS_RELAY_URL, or open the port in the firewalls between this machine and the relay.'
  if (found?.kind === 'temporary') return skipped(`The address of ${host} could not be looked up.`)
  if (found && found.kind !== 'ok')
    return failure(`The relay ${host} has no address in DNS, so no mail can be sent.`, fix)
  const ip = found?.addresses[0] ?? host
  if (!mayConnect(config, ip)) return skipped('Not checked in a test.')
  const target: DialTarget = { ip, port: Number(port) || (protocol === 'smtps:' ? 465 : 25) }
  const problem = await dial(context, target)
  return problem === undefined
    ? ok(`The relay ${host} accepts connections.`)
    : failure(`The relay ${host} (${ip}, port ${target.port}) cannot be reached: ${problem}.`, fix)
})

export function checkPrivileges({ config: { dataDir }, service }: DoctorContext): Found {
  if (process.getuid?.() === 0)
    return service
      ? warning(
          'The service runs as root, so a mistake in it endangers the whole machine.',
          'Run it as a user of its own with the right CAP_NET_BIND_SERVICE, as in the unit of docs/deployment.md.',
        )
      : warning(
          'This command runs as root, so it cannot tell whether the user of the service may use the ports and the data.',
          'Run it as that user, such as `runuser -u tassis -- tassis doctor` with the same settings.',
        )
  // The first start creates it.
  const written = existsSync(dataDir) ? dataDir : dirname(dataDir)
  try {
    if (!service) requireUsableData(dataDir)
    accessSync(written, constants.W_OK)
    return ok('This user is not root.')
  } catch (error) {
    return failure(
      error instanceof ConfigError ? error.message : `This user cannot write to ${written}.`,
      `Let ${dataDir} belong to the user of the service, and run this as that user.`,
    )
  }
}
