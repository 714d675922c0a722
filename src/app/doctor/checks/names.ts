/** @module Checks of the names of this host: host name, its addresses, reverse DNS, public URL. */
import { isIPv6 } from 'node:net'
import { usesIpv6 } from '#features/sending/delivery/providers/outbound-sources.ts'
import { checkDomain } from '#features/setup/domains/checks.ts'
import { findHostnameWarnings } from '#features/setup/domains/dns-records.ts'
import { listVerifiedDomains, toDomainDns } from '#features/setup/domains/domains.ts'
import { mapConcurrently } from '#platform/queue/map-concurrently.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import { findPublicUrlWarnings } from '../../cli/setting-warnings.ts'
import {
  type DoctorContext,
  type Found,
  failure,
  failWithAdvice,
  forDirectDelivery,
  NOT_DIRECT,
  ok,
  onNetwork,
  skipped,
  warning,
} from '../context.ts'

export function checkHostname({ config }: DoctorContext): Found {
  if (config.delivery !== 'direct') return skipped(NOT_DIRECT)
  const [problem] = findHostnameWarnings(config)
  return problem === undefined ? ok(`The host name is ${config.hostname}.`) : failWithAdvice(problem)
}

/** The addresses to which the host name leads; what DNS does not answer is reported by `resolver`. */
export const checkAddresses = forDirectDelivery(async ({ config: { hostname, inboundAddr }, resolver }) => {
  const [ipv4, ipv6] = await Promise.all([resolver.a(hostname), resolver.aaaa(hostname)])
  const addresses = [ipv4, ipv6].flatMap((answer) => (answer.kind === 'ok' ? answer.records : []))
  if (addresses.length === 0) {
    if (![ipv4, ipv6].every(({ kind }) => kind === 'nodata' || kind === 'nxdomain'))
      return skipped(`DNS did not say which addresses ${hostname} has.`)
    return failure(
      `${hostname} has neither an A nor an AAAA record, so receivers distrust this host and no mail can reach it.`,
      `Publish an A record of ${hostname} with the address of this machine, or set TASSIS_HOSTNAME to the name that it has.`,
    )
  }
  const inbound = parseHostPort(inboundAddr)
  if (ipv6.kind === 'ok' && inbound && !inbound.host.includes(':'))
    return warning(
      `${hostname} has the AAAA record ${ipv6.records[0]}, but mail is received over IPv4 only, so senders with IPv6 lose time or give up.`,
      `Set TASSIS_INBOUND_ADDR to [::]:${inbound.port}, or remove the AAAA record.`,
    )
  return ok(`${hostname} leads to ${addresses.join(', ')}.`)
})

/** PTR records of the outgoing addresses that lead back to them (forward-confirmed reverse DNS). */
export const checkReverseDns = forDirectDelivery(async ({ config, sourceNames }) => {
  await sourceNames.check()
  const sources = sourceNames.all()
  if (sources.length === 0)
    return skipped('The outgoing addresses are not known: neither TASSIS_OUTBOUND_IPS nor the host name gives them.')
  return sources.map(({ ip, ehloName, problem, isChecked }) => {
    // The check of `ipv6` says it.
    if (isIPv6(ip) && !usesIpv6(config)) return skipped(`Mail does not leave from ${ip}.`, ip)
    if (problem !== undefined) return failWithAdvice(problem, ip)
    return isChecked
      ? ok(`The reverse DNS of ${ip} is ${ehloName} and leads back.`, ip)
      : skipped(`The reverse DNS of ${ip} could not be looked up.`, ip)
  })
})

/** Whether mail leaves over IPv6 as well, and what is missing. */
export const checkIpv6 = forDirectDelivery(async ({ config, sourceNames }) => {
  if (config.ipv6 === false) return skipped('Mail leaves over IPv4 only: TASSIS_IPV6 is false.')
  await sourceNames.check()
  const problem = sourceNames.ipv6Problem
  if (problem === undefined) return ok('Mail leaves over IPv6 as well.')
  return config.ipv6 === 'auto'
    ? skipped(`Mail leaves over IPv4 only: ${problem}`)
    : warning(`TASSIS_IPV6 is true, but ${problem}`, 'Mend it, or set TASSIS_IPV6=auto.')
})

export function checkPublicUrl({ config }: DoctorContext): Found {
  if (config.delivery === 'capture') return skipped('Not checked: captured mail has no readers elsewhere.')
  const [problem] = findPublicUrlWarnings(config)
  return problem === undefined ? ok(`Links in mail lead to ${config.publicUrl}.`) : failWithAdvice(problem)
}

/** Domains whose records are looked up at a time, newest first, and in all: each needs some ten queries. */
const MAX_CONCURRENT = 8
const MAX_DOMAINS = 40
const MAX_NAMED = 5

/** Whether the records of sending domains cover the nodes that may take over: else mail is rejected after a failover. */
export const checkClusterDns = onNetwork(async ({ resolver, service }) => {
  const app = service?.app
  if (!app?.cluster) return skipped('Not checked: only the leader of a cluster can.')
  const names = new Set(app.cluster.nodes().map(({ hostname }) => hostname))
  const domains = listVerifiedDomains(app.db, MAX_DOMAINS)
  const count = domains.length
  const found = await mapConcurrently(domains, MAX_CONCURRENT, async (domain) => {
    const checks = await checkDomain(resolver, { ...toDomainDns(app, domain), needsOtherNodes: true })
    const isBad = [checks.spf, checks.return_path, ...(domain.inboundEnabled ? [checks.mx] : [])].some(
      ({ outcome }) => outcome === 'wrong' || outcome === 'missing',
    )
    return isBad ? [domain.domain] : []
  })
  const bad = found.flat()
  const nodes = [...names].join(', ')
  if (bad.length === 0)
    return ok(
      `SPF and MX of ${count === MAX_DOMAINS ? `the newest ${count}` : count} domains cover all nodes (${nodes}).`,
    )
  const named = bad.sort().slice(0, MAX_NAMED).join(', ')
  return warning(
    `SPF or MX of ${bad.length} of ${count} domains do not cover all nodes (${nodes}): ${named}${bad.length > MAX_NAMED ? ' and others' : ''}.`,
    'Let their owners publish what the domain shows in the dashboard, or `tassis domains records DOMAIN`, before another node takes over.',
  )
})

/** Addresses from which receivers see mail come: the configured ones and those of the host name. */
export async function listPublicSources({
  config,
  resolver,
  sourceNames,
}: Pick<DoctorContext, 'config' | 'resolver' | 'sourceNames'>): Promise<readonly string[]> {
  const found = await resolveHostAddresses(resolver, config.hostname, { ipv6: usesIpv6(config) })
  const named = found.kind === 'ok' ? found.addresses : []
  return [...new Set([...sourceNames.all().map(({ ip }) => ip), ...named])]
}
