/**
 * @module Checks the DNS records of a domain, each with an outcome and a sentence that says what to do. Pass a
 * resolver without a cache, so that a new record is seen. Stores nothing.
 */
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import type { MxRecord, Resolver } from '#protocols/dns/resolver.ts'
import { checkDkim } from './check-dkim.ts'
import { checkDmarc } from './check-dmarc.ts'
import * as result from './check-result.ts'
import { checkSpf } from './check-spf.ts'
import {
  type ByRecord,
  type DkimPublicKey,
  type DomainDns,
  listOtherHosts,
  resolveRecords,
  toEd25519Key,
  toReturnPathHost,
  toRsaKey,
} from './dns-records.ts'

/** Checks all records but that of the tracking host. For an outcome `unknown`, the caller keeps the flag of the previous check. */
export function checkDomain(resolver: Resolver, dns: DomainDns): Promise<ByRecord<result.Check>> {
  const check = (key: DkimPublicKey | null | undefined) => key && checkDkim(resolver, dns.domain, key)
  return resolveRecords({
    spf: checkSpf(resolver, dns),
    dkim: checkDkim(resolver, dns.domain, toRsaKey(dns)),
    dkim_ed25519: check(toEd25519Key(dns)),
    dkim_next: check(dns.nextDkim && toRsaKey(dns.nextDkim)),
    dkim_ed25519_next: check(dns.nextDkim && toEd25519Key(dns.nextDkim)),
    dmarc: checkDmarc(resolver, dns),
    return_path: checkReturnPath(resolver, dns),
    mx: checkInboundMx(resolver, dns),
  })
}

const checkReturnPath = (resolver: Resolver, dns: DomainDns): Promise<result.Check> =>
  checkMx(resolver, dns, toReturnPathHost(dns), {
    whenMissing: 'Without it, bounces do not reach us.',
    whenElsewhere: 'Bounces of your mail must reach us.',
    condition: '',
  })

const checkInboundMx = (resolver: Resolver, dns: DomainDns): Promise<result.Check> =>
  checkMx(resolver, dns, dns.domain, {
    whenMissing: `An MX record that points to us is ${INBOUND_ONLY}.`,
    whenElsewhere: `Leave it unchanged to keep receiving mail there: an MX record that points to us is ${INBOUND_ONLY}.`,
    condition: 'To receive its mail here: ',
  })

const INBOUND_ONLY =
  'not needed for sending, only to receive the mail of the domain here instead of at its current mail server'

interface Purpose {
  readonly whenMissing: string
  readonly whenElsewhere: string
  /** With which the advice begins. */
  readonly condition: string
}

async function checkMx(resolver: Resolver, dns: DomainDns, host: string, purpose: Purpose): Promise<result.Check> {
  const records = result.toRecordsOrCheck(await resolver.mx(host), 'MX record', host)
  if (result.isCheck(records)) return records
  const { hostname, domain } = dns
  const formatAdvice = (sentence: string) => purpose.condition + sentence
  const others = listOtherHosts(dns).map((name) => name.toLowerCase())
  const values = [hostname, ...others].join(', and another with the value ')
  const publish = `Publish an MX record at ${host} with priority 10 and the value ${values}`
  if (records.length === 0) {
    const isOurs = ({ exchange }: MxRecord) => exchange === hostname.toLowerCase()
    const hint = await result.findAbsenceHint(resolver, domain, host, (name) => resolver.mx(name), isOurs)
    return result.missing(`There is no MX record at ${host}.`, purpose.whenMissing, hint, formatAdvice(publish))
  }
  const named = records.filter((r) => r.exchange !== '')
  const isNamed = named.some((r) => r.exchange === hostname.toLowerCase())
  const names = isNamed ? [hostname.toLowerCase()] : await findOtherNames(resolver, hostname, named)
  if (result.isCheck(names)) return names
  const ourRecord = named.filter((r) => names.includes(r.exchange)).sort(comparePreference)[0]
  if (ourRecord === undefined) {
    const isExtended = named.some((r) => r.exchange.startsWith(`${hostname.toLowerCase()}.`))
    return result.wrong(
      named.length === 0
        ? `${host} has a null MX, which means that it accepts no mail.`
        : `The MX of ${host} points to ${formatRecords(named)} and not to ${hostname}.`,
      isExtended ? result.adviseFinalDot(hostname) : '',
      named.length === 0 ? purpose.whenMissing : purpose.whenElsewhere,
      formatAdvice(publish),
    )
  }
  const before = named.filter(
    (r) =>
      r !== ourRecord &&
      r.exchange !== ourRecord.exchange &&
      r.preference <= ourRecord.preference &&
      !names.includes(r.exchange) &&
      !others.includes(r.exchange),
  )
  if (before.length > 0) {
    return result.wrong(
      `The MX records of ${host} name ${ourRecord.exchange} with priority ${ourRecord.preference}, but also ${formatRecords(before)}, and senders use the lowest number first.`,
      purpose.whenElsewhere,
      formatAdvice(`Remove the others or give ${hostname} the lowest number.`),
    )
  }
  const absent = dns.needsOtherNodes ? others.filter((name) => !named.some((r) => r.exchange === name)) : []
  if (absent.length > 0) {
    return result.wrong(
      `The MX of ${host} points to ${hostname}, but not to ${absent.join(' and ')}, which may take over from it.`,
      formatAdvice(
        `Publish a further MX record at ${host} with priority 10 and the value ${absent.join(', another with ')}`,
      ),
    )
  }
  const alias = isNamed ? '' : `, as ${ourRecord.exchange}`
  return result.verified(`The MX of ${host} points to ${hostname}${alias}.`)
}

const MAX_RESOLVED = 5

/**
 * The exchanges that are other names of this host, as a mail server that it replaced left them: all of their addresses
 * are ours.
 */
async function findOtherNames(
  resolver: Resolver,
  hostname: string,
  records: readonly MxRecord[],
): Promise<string[] | result.Check> {
  const exchanges = records.slice(0, MAX_RESOLVED).map(({ exchange }) => exchange)
  const found = await Promise.all(
    [hostname, ...exchanges].map((name) => resolveHostAddresses(resolver, name, { ipv6: true })),
  )
  const [ours = [], ...theirs] = found.map((one) => (one.kind === 'ok' ? one.addresses : []))
  const names = exchanges.filter((_, i) => theirs[i]?.length && theirs[i].every((address) => ours.includes(address)))
  const failed = ours.length > 0 && found.find((one) => one.kind === 'temporary')
  return names.length === 0 && failed ? result.unknown(`The MX could not be looked up: ${failed.reason}`) : names
}

const comparePreference = (a: MxRecord, b: MxRecord): number => a.preference - b.preference

const formatRecords = (records: readonly MxRecord[]): string =>
  [...records]
    .sort(comparePreference)
    .slice(0, 5)
    .map((r) => `${r.exchange} (priority ${r.preference})`)
    .join(', ')
