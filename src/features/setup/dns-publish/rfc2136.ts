/**
 * @module Any DNS server that takes changes by RFC 2136, signed by TSIG (RFC 8945): BIND, Knot, PowerDNS, Windows. One
 * change is one message whose prerequisites are what was read, so the server refuses it when somebody else wrote since.
 */
import { type Answer as Decoded, decode } from 'dns-packet'
import { randomBelow } from '#platform/ids.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { seconds } from '#platform/units.ts'
import { normaliseName } from '#protocols/dns/message.ts'
import { encodeName, TSIG_ALGORITHMS, type TsigKey, type VerifiedResponse } from '#protocols/dns/tsig.ts'
import * as wire from '#protocols/dns/update.ts'
import { type DnsApi, DnsApiError, type DnsApiProblem, type RecordChange, type RecordSet } from './dns-api.ts'
import type { DnsApiDeps, DnsProviderEntry } from './dns-provider.ts'

const TIMEOUT_MS = seconds(10)
const DNS_PORT = 53
const READ_TYPES = ['TXT', 'MX', 'CNAME', 'A', 'AAAA', 'NS'] as const
const MAX_STRING_OCTETS = 255
const MAX_FIELD_LENGTH = 512

export const RFC2136: DnsProviderEntry = {
  name: 'rfc2136',
  title: 'RFC 2136 (BIND, Knot, PowerDNS)',
  fields: [
    { name: 'server', label: 'Server', isSecret: false, isRequired: true, hint: 'ns1.example.com, or with a port.' },
    { name: 'key_name', label: 'Name of the TSIG key', isSecret: false, isRequired: true },
    { name: 'secret', label: 'Secret of the TSIG key, in base64', isSecret: true, isRequired: true },
    { name: 'algorithm', label: 'Algorithm', isSecret: false, isRequired: false, hint: 'Default: hmac-sha256.' },
    { name: 'zone', label: 'Zone', isSecret: false, isRequired: false, hint: 'Default: the zone that the server has.' },
  ],
  rights: 'A TSIG key that may query and update TXT, MX and CNAME records of the one zone.',
  tokenUrl: null,
  create: (deps, fields) => new Rfc2136(deps, parseFields(fields)),
}

interface Fields {
  readonly host: string
  readonly port: number
  readonly key: TsigKey
  readonly zone: string | undefined
}

function parseFields(given: Parameters<DnsProviderEntry['create']>[1]): Fields {
  const { server = '', key_name: name = '', secret = '', algorithm: called = '', zone: inZone = '' } = given
  const at = parseHostPort(server, DNS_PORT)
  if (!at) throw new DnsApiError('rejected', 'server must be a name or an address: ns1.example.com, 192.0.2.1:5353.')
  const keyName = normaliseName(name)
  if (keyName === undefined) throw new DnsApiError('rejected', 'key_name must be the name of the TSIG key.')
  const algorithm = TSIG_ALGORITHMS.find((known) => known === (called || TSIG_ALGORITHMS[0]).toLowerCase())
  if (!algorithm) throw new DnsApiError('rejected', `algorithm must be one of ${TSIG_ALGORITHMS.join(', ')}.`)
  if (secret.length > MAX_FIELD_LENGTH || !/^[A-Za-z\d+/]{16,}={0,2}$/.test(secret))
    throw new DnsApiError('rejected', 'secret must be the secret of the TSIG key in base64, as in its key file.')
  const zone = inZone === '' ? undefined : normaliseName(inZone)
  return { ...at, key: { name: keyName, algorithm, secret: Buffer.from(secret, 'base64') }, zone }
}

type Message = (id: number) => Buffer

class Rfc2136 implements DnsApi {
  readonly #deps: DnsApiDeps
  readonly #fields: Fields
  /** The strings of TXT records as read: a prerequisite must have the same ones. */
  readonly #strings = new Map<string, Buffer>()

  constructor(deps: DnsApiDeps, fields: Fields) {
    this.#deps = deps
    this.#fields = fields
  }

  async findZone(domain: string): Promise<string> {
    const { zone, host } = this.#fields
    const labels = domain.split('.')
    const names = labels.map((_, i) => labels.slice(i).join('.')).filter((name) => zone === undefined || name === zone)
    const found = await this.#send(names.map((name) => (id) => wire.encodeDirectQuery(id, name, 'SOA')))
    const known = names.find((name, i) => found[i]?.records.some((one) => one.type === 'SOA' && one.name === name))
    if (known !== undefined) return known
    throw new DnsApiError(
      'no_zone',
      zone === undefined
        ? `${host} has no zone for ${domain} that this key may query. Check the server, and its allow-query or acl.`
        : `${host} has no zone ${zone} at or above ${domain} that this key may query. Check the field zone.`,
    )
  }

  async read(zone: string, names: readonly string[]): Promise<RecordSet[]> {
    const questions = names.flatMap((name) => READ_TYPES.map((type) => ({ name, type })))
    const toQuery =
      ({ name, type }: (typeof questions)[number]): Message =>
      (id) =>
        wire.encodeDirectQuery(id, name, type)
    const found = await this.#send(questions.map(toQuery))
    const sets = questions.flatMap(({ name, type }, i) => {
      const { rcode = 0, tsigError = 0, records = [], authorities = [] } = found[i] ?? {}
      if (rcode !== 0 && rcode !== 3) throw this.#toError(rcode, tsigError, `questions about ${zone}`)
      // A referral: the name is in a zone of its own.
      const cut = records.length === 0 && authorities.some(({ type: of }) => of === 'SOA') ? [] : authorities
      const delegated = cut.filter((one) => one.type === 'NS' && one.name.endsWith(`.${zone}`))
      return [
        ...this.#toSets(name, type, records),
        ...(type === 'NS' && records.length === 0 ? this.#toSets(delegated[0]?.name ?? '', type, delegated) : []),
      ]
    })
    return this.#dropWildcards(zone, sets)
  }

  /** A wildcard answers for names that do not exist; an update without a change knows whether they do. */
  async #dropWildcards(zone: string, sets: RecordSet[]): Promise<RecordSet[]> {
    const names = [...new Set(sets.map(({ name }) => name))].filter((name) => name !== zone)
    const found = await this.#send(
      names.map((name) => (id) => wire.encodeUpdate(id, zone, [{ name, type: 'ANY', class: 'NONE' }], [])),
    )
    const invented = names.filter((_, i) => {
      const { rcode = 0, tsigError = 0 } = found[i] ?? {}
      // YXDOMAIN (RFC 2136 §2.2): the name is there.
      if (rcode !== 0 && rcode !== 6) throw this.#toError(rcode, tsigError, `changes of ${zone}`)
      return rcode === 0
    })
    return sets.filter(({ name }) => !invented.includes(name))
  }

  async write(zone: string, { name, type, ttlSeconds, before, after }: RecordChange): Promise<void> {
    const one = (value: string, of: 'IN' | 'NONE') =>
      ({ name, type, class: of, data: this.#strings.get(`${name} ${value}`) ?? encodeData(type, value) }) as const
    const requires: wire.UpdateRecord[] = before.map((value) => one(value, 'IN'))
    if (before.length === 0) requires.push({ name, type: type === 'CNAME' ? 'ANY' : type, class: 'NONE' })
    if (type !== 'CNAME') requires.push({ name, type: 'CNAME', class: 'NONE' })
    const changes = [
      ...before.filter((value) => !after.includes(value)).map((value) => one(value, 'NONE')),
      ...after.filter((value) => !before.includes(value)).map((value) => ({ ...one(value, 'IN'), ttlSeconds })),
    ]
    const [response] = await this.#send([(id) => wire.encodeUpdate(id, zone, requires, changes)])
    if (response && response.rcode !== 0)
      throw this.#toError(response.rcode, response.tsigError, `the ${type} record of ${name}`)
  }

  async #send(messages: readonly Message[]): Promise<ReturnType<typeof readResponse>[]> {
    if (messages.length === 0) return []
    const { clock, signal, resolveServer } = this.#deps
    const { host, port, key } = this.#fields
    const options = { clock, key, timeoutMs: TIMEOUT_MS, signal }
    const firstId = randomBelow(0x8000)
    const encoded = messages.map((encode, i) => encode(firstId + i))
    let reason = 'it has no address'
    for (const server of await resolveServer(host, port)) {
      try {
        const responses = (await wire.exchangeSigned(server, encoded, options)).map(readResponse)
        for (const { tsigError, state, rcode } of responses) {
          if (tsigError !== 0) throw this.#toError(rcode, tsigError, '')
          if (state === 'invalid' || (state === 'unsigned' && rcode === 0))
            throw new DnsApiError('unauthorised', `The response of ${host} is not signed with the key ${key.name}.`)
        }
        return responses
      } catch (error) {
        if (error instanceof DnsApiError) throw error
        reason = error instanceof Error ? error.message : String(error)
      }
    }
    throw new DnsApiError('unavailable', `No answer from ${host} port ${port} over TCP: ${reason}.`)
  }

  #toSets(name: string, type: (typeof READ_TYPES)[number], records: readonly Decoded[]): RecordSet[] {
    const own = records.filter((record) => record.type === type && record.name.toLowerCase() === name)
    const values = own.map((record) => {
      const value = toValue(record)
      if (record.type === 'TXT')
        this.#strings.set(`${name} ${value}`, encodeStrings([record.data].flat().map((one) => Buffer.from(one))))
      return value
    })
    const [first] = own
    return first ? [{ name, type, ttlSeconds: 'ttl' in first ? (first.ttl ?? 0) : 0, values }] : []
  }

  #toError(rcode: number, tsigError: number, about: string): DnsApiError {
    const { host, key } = this.#fields
    const [problem, message] = TSIG_ERRORS[tsigError] ??
      RCODES[rcode] ?? ['unavailable', `answered with error ${rcode}`]
    return new DnsApiError(problem, `${host} ${message.replace('{key}', key.name).replace('{about}', about)}.`)
  }
}

type Sentences = Readonly<Record<number, readonly [DnsApiProblem, string]>>

/** RFC 8945 §3. */
const TSIG_ERRORS: Sentences = {
  16: ['unauthorised', 'knows the key {key}, but with another secret (BADSIG). Copy the secret from its key file'],
  17: [
    'unauthorised',
    'does not know the key {key}, or not for this (BADKEY). Check key_name and algorithm, and the acl of a Knot',
  ],
  18: ['unauthorised', 'has a clock that differs from ours by more than 5 minutes (BADTIME). Set both by NTP'],
}

/** RFC 2136 §2.2. */
const RCODES: Sentences = {
  1: ['rejected', 'does not understand the request about {about} (FORMERR)'],
  2: ['unavailable', 'failed at {about} (SERVFAIL). Its log says why; often DNSSEC keys or a read-only zone file'],
  3: ['changed', 'says that {about} changed since it was read. Publish again'],
  4: ['rejected', 'takes no changes by RFC 2136 (NOTIMP)'],
  5: ['unauthorised', 'does not allow the key {key} {about} (REFUSED). Allow it by update-policy (BIND) or acl (Knot)'],
  6: ['changed', 'says that {about} changed since it was read. Publish again'],
  7: ['changed', 'says that {about} changed since it was read. Publish again'],
  8: ['changed', 'says that {about} changed since it was read. Publish again'],
  9: ['no_zone', 'is not the primary server of the zone (NOTAUTH). Name the primary server'],
  10: ['no_zone', 'says that {about} is not in the zone (NOTZONE)'],
}

function readResponse({ message, state, error: tsigError }: VerifiedResponse) {
  const flags = message.readUInt16BE(2)
  const { answers = [], authorities = [] } = decode(message)
  return { state, tsigError, rcode: flags & 0xf, records: answers, authorities }
}

function toValue(record: Decoded): string {
  if (record.type === 'TXT') return Buffer.concat([record.data].flat().map((one) => Buffer.from(one))).toString()
  if (record.type === 'MX') return `${record.data.preference ?? 0} ${toName(record.data.exchange)}`
  return 'data' in record && typeof record.data === 'string' ? toName(record.data) : ''
}

const toName = (name: string): string => name.toLowerCase().replace(/(?<=.)\.$/, '')

function encodeData(type: RecordChange['type'], value: string): Buffer {
  if (type === 'CNAME') return encodeName(value)
  if (type === 'TXT') {
    const bytes = Buffer.from(value)
    const count = Math.max(1, Math.ceil(bytes.length / MAX_STRING_OCTETS))
    return encodeStrings(
      Array.from({ length: count }, (_, i) => bytes.subarray(i * MAX_STRING_OCTETS, (i + 1) * MAX_STRING_OCTETS)),
    )
  }
  const [preference = '0', exchange = ''] = value.split(' ')
  return Buffer.concat([Buffer.from([Number(preference) >> 8, Number(preference) & 0xff]), encodeName(exchange)])
}

const encodeStrings = (strings: readonly Buffer[]): Buffer =>
  Buffer.concat(strings.flatMap((one) => [Buffer.from([one.length]), one]))
