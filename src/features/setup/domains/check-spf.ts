/**
 * @module Checks the SPF record of the envelope sender's domain by evaluating it for our own addresses (RFC 7208),
 * whatever its terms are.
 */
import type { spf as Spf } from 'mailauth/lib/spf'
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import { createMailauthResolver } from '#protocols/dns/mailauth-resolver.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'
import * as result from './check-result.ts'
import { type DomainDns, formatSpfValue, type NodeDns, toReturnPathHost } from './dns-records.ts'

const MAX_ADDRESSES = 20

/** RFC 7208 §4.5: the version ends with a space or the end of the record. */
export const isSpf = (text: string): boolean => /^v=spf1( |$)/i.test(text)

export async function checkSpf(resolver: Resolver, dns: DomainDns): Promise<result.Check> {
  const host = toReturnPathHost(dns)
  const texts = result.toRecordsOrCheck(await resolver.txt(host), 'SPF record (TXT)', host)
  if (result.isCheck(texts)) return texts
  const records = texts.filter(isSpf)
  const [record] = records
  if (record === undefined) return checkAbsentSpf(resolver, dns, texts)
  if (records.length > 1) {
    return result.wrong(
      `There are ${records.length} SPF records at ${host}: ${records.map(result.quoteValue).join(', ')}.`,
      'SPF allows exactly one record per name; if there are several, receivers treat all of them as invalid.',
      `Keep only one, with the value ${formatSpfValue(dns)}`,
    )
  }
  const nodes = [dns, ...(dns.needsOtherNodes ? (dns.otherNodes ?? []) : [])]
  const found = await Promise.all(nodes.map((node) => resolveAddresses(resolver, node)))
  const addresses = new Set(found.flatMap((one) => (result.isCheck(one) ? [] : one)))
  return found.find(result.isCheck) ?? evaluate(resolver, dns, record, [...addresses].slice(0, MAX_ADDRESSES))
}

async function checkAbsentSpf(resolver: Resolver, dns: DomainDns, texts: readonly string[]): Promise<result.Check> {
  const host = toReturnPathHost(dns)
  const advice = result.adviseTxt(host, formatSpfValue(dns))
  const lookalike = texts.find((text) => /^v\s*=\s*spf/i.test(result.removeQuoting(text)))
  if (lookalike !== undefined) {
    const problem = result.findQuotingProblem(lookalike) ?? 'is not valid: it must begin with v=spf1 and a space'
    return result.wrong(`The SPF record at ${host} is ${result.quoteValue(lookalike)}, which ${problem}.`, advice)
  }
  const isOurs = (text: string) => result.removeQuoting(text) === formatSpfValue(dns)
  const hint = await result.findAbsenceHint(resolver, dns.domain, host, (name) => resolver.txt(name), isOurs)
  return result.missing(`There is no SPF record at ${host}.`, hint, advice)
}

async function resolveAddresses(
  resolver: Resolver,
  { hostname, outboundIps }: NodeDns,
): Promise<readonly string[] | result.Check> {
  if (outboundIps.length > 0) return outboundIps
  const found = await resolveHostAddresses(resolver, hostname, { ipv6: true })
  if (found.kind === 'ok') return found.addresses
  return result.unknown(
    `The SPF record could not be evaluated, because the addresses of our own host ${hostname} are unknown`,
    found.kind === 'temporary'
      ? `now: ${found.reason} Check again in a few minutes.`
      : '(no address record). The operator of this service must publish them; your domain is fine.',
  )
}

/** An address that no record allows (RFC 5737), so that all terms are evaluated. */
const STRANGER = '198.51.100.255'

/** The problem of the record for senders that no term matches early, such as over ten look-ups (RFC 7208 §4.6.4). */
export async function findSpfProblem(resolver: Resolver, host: string): Promise<result.Check | undefined> {
  const { spf } = await import('mailauth/lib/spf')
  const sender = `postmaster@${host}`
  const { status } = await spf({ sender, ip: STRANGER, helo: host, resolver: createMailauthResolver(resolver) })
  const reason = status.comment?.split(': ').at(-1)
  if (/^temp/.test(status.result))
    return result.unknown(`A name in the SPF record could not be looked up (${reason}). Try again in a few minutes.`)
  if (status.result !== 'permerror') return undefined
  return result.wrong(
    `The SPF record is invalid for other senders (${reason}). Correct its terms, or remove those that nothing uses: a record may need ten DNS look-ups at most.`,
  )
}

type Evaluation = Awaited<ReturnType<typeof Spf>>

async function evaluate(
  resolver: Resolver,
  dns: DomainDns,
  record: string,
  addresses: readonly string[],
): Promise<result.Check> {
  const host = toReturnPathHost(dns)
  // Loaded on demand, so that CLI commands start without it.
  const { spf } = await import('mailauth/lib/spf')
  const evaluations = await Promise.all(
    addresses.map(async (ip) => ({
      ip,
      // Strict, because some receivers reject a record for a mistake that other receivers tolerate.
      evaluation: await spf({
        sender: `postmaster@${host}`,
        ip,
        helo: dns.hostname,
        mta: dns.hostname,
        resolver: createMailauthResolver(resolver),
        strict: true,
      }),
    })),
  )
  const advice = result.adviseTxt(host, formatSpfValue(dns))
  const first = (...results: string[]) => evaluations.find((e) => results.includes(e.evaluation.status.result))
  const invalid = first('permerror', 'none')
  if (invalid !== undefined) {
    return result.wrong(
      `The SPF record at ${host} is ${result.quoteValue(record)}, which ${result.findQuotingProblem(record) ?? `is not valid (${toExplanation(invalid.evaluation)})`}.`,
      advice,
    )
  }
  const disallowed = evaluations.filter((e) => !['pass', 'temperror', 'temperr'].includes(e.evaluation.status.result))
  if (disallowed.length > 0) {
    return result.wrong(
      `The SPF record at ${host} is ${result.quoteValue(record)}, which does not allow our sending address ${disallowed.map((e) => e.ip).join(', ')}`,
      `(result: ${disallowed[0]?.evaluation.status.result}).`,
      advice,
    )
  }
  const failed = first('temperror', 'temperr')
  if (failed !== undefined) {
    return result.unknown(
      `The SPF record at ${host} is ${result.quoteValue(record)}, but a name in it could not be looked up (${toExplanation(failed.evaluation)}).`,
      'This says nothing about the record itself; check again in a few minutes.',
    )
  }
  return result.verified(`The SPF record at ${host} allows our sending addresses.`)
}

/** mailauth's explanation without its leading domain. */
const toExplanation = (evaluation: Evaluation): string =>
  String(evaluation.status.comment || evaluation.status.result).replace(/^[^\s:]+: /, '')
