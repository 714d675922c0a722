/**
 * @module Any DNS server that takes changes by RFC 2136, signed by TSIG (RFC 8945): BIND, Knot, PowerDNS, Windows. One
 * change is one message whose prerequisites are what was read, so the server refuses it when somebody else wrote since.
 */
import { type Answer as Decoded, decode, type TxtData } from 'dns-packet'
import { randomBelow } from '#platform/ids.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { seconds } from '#platform/units.ts'
import { normaliseName } from '#protocols/dns/message.ts'
import { encodeName, encodeStrings, TSIG_ALGORITHMS, uint16, type VerifiedResponse } from '#protocols/dns/tsig.ts'
import * as wire from '#protocols/dns/update.ts'
import { type DnsApi, DnsApiError, type DnsProviderEntry, type RecordChange, type RecordSet } from './dns-api.ts'
import data from './rfc2136.json' with { type: 'json' }

const TIMEOUT_MS = seconds(10)
const DNS_PORT = 53
const READ_TYPES = ['TXT', 'MX', 'CNAME', 'A', 'AAAA', 'NS'] as const
const MAX_STRING_OCTETS = 255
const MAX_FIELD_LENGTH = 512

export const RFC2136: DnsProviderEntry = {
  ...data.entry,
  create: (deps, fields) => new Rfc2136(deps, parseFields(fields)),
}

/** By error code (RFC 2136 §2.2, RFC 8945 §3). */
const ERRORS: Readonly<Record<string, readonly string[]>> = data.errors
const NXDOMAIN = 3
const YXDOMAIN = 6
const MIN_TSIG_ERROR = 16

function parseFields(given: Parameters<DnsProviderEntry['create']>[1]) {
  const { server = '', key_name: name = '', secret: text = '', algorithm: called = '', zone: inZone = '' } = given
  // Or the key file of BIND as it is.
  const secret = /\bsecret\s+"([^"]*)"/.exec(text)?.[1] ?? text
  const at = parseHostPort(server, DNS_PORT)
  if (!at) throw new DnsApiError('rejected', 'server must be a name or an address: ns1.example.com, 192.0.2.1:5353.')
  const keyName = normaliseName(name)
  if (keyName === undefined) throw new DnsApiError('rejected', 'key_name must be the name of the TSIG key.')
  const algorithm = TSIG_ALGORITHMS.find((known) => known === (called || TSIG_ALGORITHMS[0]).toLowerCase())
  if (!algorithm) throw new DnsApiError('rejected', `algorithm must be one of ${TSIG_ALGORITHMS.join(', ')}.`)
  if (secret.length > MAX_FIELD_LENGTH || !/^[A-Za-z\d+/]{16,}={0,2}$/.test(secret))
    throw new DnsApiError(
      'rejected',
      'secret must be the secret of the TSIG key in base64, or the whole key file of BIND.',
    )
  const zone = inZone === '' ? undefined : normaliseName(inZone)
  if (inZone !== '' && zone === undefined) throw new DnsApiError('rejected', 'zone must be the name of the zone.')
  return { ...at, key: { name: keyName, algorithm, secret: Buffer.from(secret, 'base64') }, zone }
}

type Fields = ReturnType<typeof parseFields>
type Deps = Parameters<DnsProviderEntry['create']>[0]

class Rfc2136 implements DnsApi {
  readonly #deps: Deps
  readonly #fields: Fields
  /** The strings of TXT records as read: a prerequisite must have the same ones. */
  readonly #strings = new Map<string, Buffer>()

  constructor(deps: Deps, fields: Fields) {
    this.#deps = deps
    this.#fields = fields
  }

  async findZone(domain: string): Promise<string> {
    const { zone, host } = this.#fields
    const labels = domain.split('.')
    const names = labels.map((_, i) => labels.slice(i).join('.')).filter((name) => zone === undefined || name === zone)
    const found = await this.#send(names.map((name) => wire.encodeDirectQuery(name, 'SOA')))
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
    const found = await this.#send(questions.map(({ name, type }) => wire.encodeDirectQuery(name, type)))
    const sets = questions.flatMap(({ name, type }, i) => {
      const { code = 0, records = [], authorities = [] } = found[i] ?? {}
      if (code !== 0 && code !== NXDOMAIN) throw this.#toError(code, `questions about ${zone}`)
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
      names.map((name) => wire.encodeUpdate(zone, [{ name, type: 'ANY', class: 'NONE' }], [])),
    )
    const invented = names.filter((_, i) => {
      const code = found[i]?.code ?? 0
      if (code !== 0 && code !== YXDOMAIN) throw this.#toError(code, `changes of ${zone}`)
      return code === 0
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
    const [response] = await this.#send([wire.encodeUpdate(zone, requires, changes)])
    if (response && response.code !== 0) throw this.#toError(response.code, `the ${type} record of ${name}`)
  }

  async #send(messages: readonly Buffer[]): Promise<ReturnType<typeof readResponse>[]> {
    if (messages.length === 0) return []
    const { clock, signal, resolveServer } = this.#deps
    const { host, port, key } = this.#fields
    const options = { clock, key, signal, timeoutMs: TIMEOUT_MS, firstId: randomBelow(0x8000) }
    let reason = 'it has no address'
    for (const server of await resolveServer(host, port)) {
      try {
        const responses = (await wire.exchangeSigned(server, messages, options)).map(readResponse)
        for (const { state, code } of responses) {
          if (code >= MIN_TSIG_ERROR) throw this.#toError(code, '')
          if (state === 'invalid' || (state === 'unsigned' && code === 0))
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
      if (record.type === 'TXT') this.#strings.set(`${name} ${value}`, encodeStrings(listStrings(record.data)))
      return value
    })
    const [first] = own
    return first ? [{ name, type, ttlSeconds: 'ttl' in first ? (first.ttl ?? 0) : 0, values }] : []
  }

  #toError(code: number, about: string): DnsApiError {
    const { host, key } = this.#fields
    const [problem = 'unavailable', message = `answered with error ${code}`] = ERRORS[code] ?? []
    const text = message.replace('{key}', key.name).replace('{about}', about)
    return new DnsApiError(problem as DnsApiError['problem'], `${host} ${text}.`)
  }
}

function readResponse({ message, state, error }: VerifiedResponse) {
  const { answers = [], authorities = [] } = decode(message)
  return { state, code: error || message.readUInt16BE(2) & 0xf, records: answers, authorities }
}

function toValue(record: Decoded): string {
  if (record.type === 'TXT') return Buffer.concat(listStrings(record.data)).toString()
  if (record.type === 'MX') return `${record.data.preference ?? 0} ${toName(record.data.exchange)}`
  return 'data' in record && typeof record.data === 'string' ? toName(record.data) : ''
}

const listStrings = (data: TxtData): Buffer[] => [data].flat().map((one) => Buffer.from(one))

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
  return Buffer.concat([uint16(Number(preference)), encodeName(exchange)])
}
