/** @module Checks of what the service asks: the DNS servers, block lists, time servers. */
import { isIP } from 'node:net'
import { randomBytes } from '#platform/ids.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { truncate } from '#platform/text.ts'
import { minutes, seconds } from '#platform/units.ts'
import { type BlockListState, familyOf, findListing, testBlockList } from '#protocols/dns/block-list.ts'
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import { canConnectTo } from '#protocols/dns/special-addresses.ts'
import { queryTimeOffset } from '#protocols/ntp/sntp.ts'
import { toPrintable } from '../../cli/output.ts'
import {
  createDoctorResolver,
  type DoctorContext,
  type Found,
  failure,
  forDirectDelivery,
  listDnsServers,
  mayConnect,
  type NewFinding,
  ok,
  onNetwork,
  skipped,
  warning,
} from '../context.ts'
import { listPublicSources } from './names.ts'

/** Asked for its mail hosts when no domain is configured. */
const KNOWN_DOMAIN = 'gmail.com'

/** Each DNS server: whether it answers, looks names up for us (recursion) and validates DNSSEC. */
export const checkResolver = onNetwork(async ({ config, clock, signal }) => {
  const [domain = KNOWN_DOMAIN] = config.doctorSmtpDomains
  return Promise.all(
    listDnsServers(config).map(async (server) => {
      using resolver = createDoctorResolver([server], clock)
      signal.addEventListener('abort', () => resolver.close(), { once: true })
      const answer = await resolver.mx(domain)
      const fix =
        'Run a resolver on this machine, such as unbound, and set TASSIS_DNS_SERVERS=127.0.0.1; or name one that answers.'
      switch (answer.kind) {
        case 'timeout':
          return failure(`The DNS server ${server} does not answer.`, fix, server)
        case 'refused':
          return failure(`The DNS server ${server} refuses to look names up for this machine.`, fix, server)
        case 'servfail':
          return failure(
            `The DNS server ${server} cannot look up ${domain}: it is broken, or does not recurse.`,
            fix,
            server,
          )
        default:
          return (await resolver.isValidating())
            ? ok(`The DNS server ${server} recurses and validates DNSSEC.`, server)
            : describeUnvalidating(config.dane, server)
      }
    }),
  )
})

const describeUnvalidating = (dane: string, server: string): NewFinding =>
  dane === 'on'
    ? warning(
        `The DNS server ${server} does not validate DNSSEC, so TASSIS_DANE=on has no effect.`,
        'Enable DNSSEC validation in it, or use a resolver that validates.',
        server,
      )
    : ok(`The DNS server ${server} recurses. It does not validate DNSSEC, so DANE is not used.`, server)

/** Addresses looked up in each list. */
const MAX_ADDRESSES = 16
const MAX_REASON_LENGTH = 200

export const checkBlockLists = forDirectDelivery(async (context) => {
  const lists = context.config.doctorBlockLists
  if (lists.length === 0) return skipped('Not checked: TASSIS_DOCTOR_BLOCK_LISTS is none.')
  const sources = await listPublicSources(context)
  const addresses = sources.filter((ip) => canConnectTo(ip, context.config.allowPrivateNetworks))
  if (addresses.length === 0) return skipped('No public outgoing address is known.')
  const found = await Promise.all(lists.map((list) => checkBlockList(context, list, addresses.slice(0, MAX_ADDRESSES))))
  return found.flat()
})

async function checkBlockList({ resolver }: DoctorContext, list: string, addresses: readonly string[]): Promise<Found> {
  const state = await testBlockList(resolver, list, 'ipv4')
  if (state.kind !== 'works') return describeUnusable(list, state)
  const doesIpv6 =
    addresses.some((ip) => familyOf(ip) === 'ipv6') && (await testBlockList(resolver, list, 'ipv6')).kind === 'works'
  const asked = addresses.filter((ip) => doesIpv6 || familyOf(ip) === 'ipv4')
  const listings = await Promise.all(asked.map(async (ip) => ({ ip, listing: await findListing(resolver, list, ip) })))
  const bad = listings.flatMap(({ ip, listing }) => {
    if (listing.kind === 'not-listed') return []
    const subject = `${ip} ${list}`
    if (listing.kind === 'unknown') return skipped(`${list} gave no usable answer about ${ip}.`, subject)
    const reason = listing.reason === undefined ? '' : `: ${truncate(toPrintable(listing.reason), MAX_REASON_LENGTH)}`
    return failure(
      `${ip} is listed in ${list} (${listing.codes.join(', ')})${reason}`,
      `Find the cause first (complaints, bounces, an account that sends spam: \`tassis complaints\`, \`tassis accounts findings\`), then ask ${list} to remove ${ip}.`,
      subject,
    )
  })
  return bad.length > 0 ? bad : ok(`${list} lists none of our addresses.`, list)
}

function describeUnusable(list: string, state: Exclude<BlockListState, { kind: 'works' }>): NewFinding {
  switch (state.kind) {
    case 'refuses':
      return warning(
        `${list} refuses the queries of our DNS server (${state.code}), as most lists do with public or busy resolvers; so nobody notices a listing there.`,
        'Run a resolver on this machine, such as unbound, that asks directly, and set TASSIS_DNS_SERVERS=127.0.0.1; or take the list out of TASSIS_DOCTOR_BLOCK_LISTS.',
        list,
      )
    case 'silent':
      return skipped(`${list} does not answer.`, list)
    case 'broken':
      return skipped(`${list} fails its self-test (RFC 5782): it lists everything or nothing, so it is ignored.`, list)
  }
}

const TIME_TIMEOUT_MS = seconds(3)
/** Codes of authenticator apps and signatures of webhooks bear less than this. */
const MAX_OFFSET_MS = seconds(10)
const MAX_TOLERABLE_OFFSET_MS = minutes(2)
const CLOCK_FIX =
  'Set the clock and keep it right: `timedatectl set-ntp true`, or chrony. Restart the service if it stays wrong there.'

export async function checkClock(context: DoctorContext): Promise<Found> {
  const aheadMs = context.service?.app.clockAheadMs()
  return aheadMs === undefined
    ? compareClock(context)
    : failure(
        `The clock of this machine jumped ${formatDuration(aheadMs)} ahead; the service does not follow it for a day.`,
        'Correct the clock. If it is right, restart the service.',
      )
}

const compareClock = onNetwork(async (context) => {
  const servers = context.config.doctorTimeServers
  if (servers.length === 0) return skipped('Not checked: TASSIS_DOCTOR_TIME_SERVERS is none.')
  const asked = await Promise.all(servers.map((server) => askTime(context, server)))
  // The server nearest to our clock is believed: a single wrong one must not raise an alarm.
  const [offsetMs] = asked.flatMap((found) => found ?? []).toSorted((a, b) => Math.abs(a) - Math.abs(b))
  if (offsetMs === undefined) return skipped(`No time server answers (${servers.join(', ')}).`)
  const distanceMs = Math.abs(offsetMs)
  if (distanceMs <= MAX_OFFSET_MS)
    return ok(`The clock is right within ${Math.max(1, Math.ceil(distanceMs / 1000))} s.`)
  const message = `The clock is ${formatDuration(distanceMs)} ${offsetMs > 0 ? 'behind' : 'ahead'}.`
  return distanceMs <= MAX_TOLERABLE_OFFSET_MS
    ? warning(`${message} Codes of authenticator apps may be refused.`, CLOCK_FIX)
    : failure(
        `${message} Mail has wrong dates, links and sessions end at the wrong time, and retries are wrong.`,
        CLOCK_FIX,
      )
})

/** Milliseconds to add to our clock; undefined when the server gives no usable answer. */
async function askTime(
  { config, clock, resolver, signal }: DoctorContext,
  server: string,
): Promise<number | undefined> {
  const address = parseHostPort(server, 123)
  if (!address) return undefined
  const found =
    isIP(address.host) === 0 ? await resolveHostAddresses(resolver, address.host, { ipv6: false }) : undefined
  const host = found ? (found.kind === 'ok' ? found.addresses[0] : undefined) : address.host
  if (host === undefined || !mayConnect(config, host)) return undefined
  return queryTimeOffset(
    { host, port: address.port },
    { clock, timeoutMs: TIME_TIMEOUT_MS, nonce: randomBytes(8), signal },
  )
}

function formatDuration(ms: number): string {
  const total = Math.round(ms / 1000)
  if (total < 120) return `${total} s`
  if (total < 7200) return `${Math.round(total / 60)} min`
  return total < 172_800 ? `${Math.round(total / 3600)} h` : `${Math.round(total / 86_400)} days`
}
