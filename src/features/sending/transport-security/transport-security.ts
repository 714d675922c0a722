/** @module What recipient domains and hosts demand of TLS: MTA-STS and TLSA. */
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import { shortenTlsa, type TlsaRecord } from '#protocols/smtp/dane.ts'
import { StsPolicies } from './tls-policy.ts'

/** TLSA records of a host: `unknown`: DNS gave no answer, so the host must not be used now (RFC 7672 §2.1.2). */
export type TlsaFinding = readonly TlsaRecord[] | 'unknown'

/** How long after a failed self-test of the DNS servers it is repeated. */
const SELF_TEST_INTERVAL_MS = minutes(10)
/** Records of one host that are used; each job for the host carries them. */
const MAX_TLSA_RECORDS = 20

export type DemandSource = ReturnType<TransportSecurity['ofAccount']>

export class TransportSecurity {
  readonly #app: App
  readonly #sts: StsPolicies
  #selfTest: Promise<boolean> | undefined
  #hasPassed = false
  #testedAt: Millis = 0

  constructor(app: App, policyPort?: number) {
    this.#app = app
    this.#sts = new StsPolicies(app, policyPort)
  }

  /** What the mail of an account needs to know of domains and hosts; waiting for it is counted for the account. */
  ofAccount(owner: number) {
    return {
      findSts: (domain: string) => this.#sts.find(domain, owner),
      isDaneOn: () => this.isDaneOn(),
      findTlsa: (host: string) => this.findTlsa(host),
    }
  }

  /** Whether the DNS servers are trusted and validate DNSSEC. A failed test is repeated from time to time. */
  isDaneOn(): Promise<boolean> {
    const { clock, config, log, resolver } = this.#app
    if (config.dane === 'off') return Promise.resolve(false)
    const now = clock.now()
    if (this.#selfTest && (this.#hasPassed || Math.abs(now - this.#testedAt) < SELF_TEST_INTERVAL_MS))
      return this.#selfTest
    this.#testedAt = now
    this.#selfTest = resolver.isValidating().then((hasPassed) => {
      this.#hasPassed = hasPassed
      if (hasPassed) log.info('DANE is on: the DNS servers validate DNSSEC')
      else if (config.dane === 'on')
        log.warn('DANE is off: the DNS servers do not validate DNSSEC, or do not answer; use servers that do')
      return hasPassed
    })
    return this.#selfTest
  }

  /**
   * The TLSA records of a mail host whose address DNSSEC protects; empty when there are none that DNSSEC protects. They
   * are shortened: each job has a copy of those of all hosts, and an answer of DNS has up to 64 KiB.
   */
  async findTlsa(host: string): Promise<TlsaFinding> {
    const answer = await this.#app.resolver.tlsa(`_${this.#app.config.smtpPort}._tcp.${host}`)
    switch (answer.kind) {
      case 'ok':
        return answer.isSecure ? answer.records.slice(0, MAX_TLSA_RECORDS).map(shortenTlsa) : []
      case 'nodata':
      case 'nxdomain':
        return []
      default:
        return 'unknown'
    }
  }
}
