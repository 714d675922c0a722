/**
 * @module The zone behind the stub of a DNS provider: what it stores, what DNS would serve, and the rules that all
 * providers enforce. Its own reading of TXT, so that a mistake of the code under test cannot hide.
 */
export interface ZoneRecord {
  readonly id: number
  /** Full, without a trailing dot. */
  readonly name: string
  /** As the provider names it; OVHcloud has some of its own. */
  readonly type: string
  /** As a zone file has it; MX with its preference. */
  data: string
  ttl: number
  /** What else the provider keeps with the record. */
  extra?: string
}

/** An error of the provider: its status, and its own code where it has one. */
export class Refusal extends Error {
  readonly status: number
  readonly code: number | string
  constructor(status: number, message: string, code: number | string = status) {
    super(message)
    this.status = status
    this.code = code
  }
}

export class StubZone {
  readonly name: string
  records: ZoneRecord[] = []
  /** What DNS serves. */
  dns: string[] = []
  /** The provider says yes and publishes nothing. */
  isSilent = false
  /** A change that was accepted and is not done yet. */
  endAction: (() => void) | undefined
  onPublish: (dns: readonly string[]) => void = () => {}
  #nextId = 1000

  constructor(name: string) {
    this.name = name
  }

  /** For tests: as somebody else would have made it. */
  put(relative: string, type: string, data: string, ttl = 3600, extra?: string): ZoneRecord {
    const name = this.toFull(relative)
    const record = { id: this.#nextId++, name, type, data, ttl, ...(extra !== undefined && { extra }) }
    this.records.push(record)
    return record
  }

  /** Stores a record after the checks of RFC 1034 §3.6.2, RFC 2181 §5 and the syntax of its data. */
  add(relative: string, type: string, data: string, ttl: number, extra?: string): ZoneRecord {
    this.check(this.toFull(relative), type, data)
    return this.put(relative, type, data, ttl, extra)
  }

  check(name: string, type: string, data: string, except?: ZoneRecord): void {
    const others = this.records.filter((record) => record.name === name && record !== except)
    if (others.some((record) => (record.type === 'CNAME') !== (type === 'CNAME') || type === 'CNAME'))
      throw new Refusal(400, 'A CNAME record and other records cannot have one name.')
    if (others.some((record) => record.type === type && toServed(record.data, type) === toServed(data, type)))
      throw new Refusal(400, 'An identical record already exists.', 81_058)
    toServed(data, type)
  }

  remove(id: number): void {
    if (!this.records.some((record) => record.id === id)) throw new Refusal(404, 'There is no such record.', 81_044)
    this.records = this.records.filter((record) => record.id !== id)
  }

  publish(): void {
    if (!this.isSilent) this.dns = this.served()
    this.onPublish(this.dns)
  }

  /** The whole zone as DNS serves it, sorted. */
  served(): string[] {
    return this.records
      .map(({ name, type, data, ttl }) => {
        const served = /^(SPF|DKIM|DMARC)$/.test(type) ? 'TXT' : type
        return `${name} ${ttl} ${served} ${toServed(data, type)}`
      })
      .sort()
  }

  toFull = (relative: string): string => (relative === '' || relative === '@' ? this.name : `${relative}.${this.name}`)
}

/** The data in one form; throws a 400 for what is no zone file syntax. */
export function toServed(data: string, type: string): string {
  // OVHcloud's own types are not quoted.
  if (type === 'DKIM' || type === 'DMARC') {
    if (data.startsWith('"')) throw new Refusal(400, `Invalid subfield found in ${type}`)
    return data
  }
  if (type === 'TXT' || type === 'SPF') {
    const strings: string[] = []
    let rest = data
    while (rest !== '') {
      const found = /^"((?:[^"\\]|\\["\\]|\\\d{3})*)"(?: |$)/.exec(rest)
      if (!found) throw new Refusal(400, `TXT data must be quoted strings: ${data.slice(0, 40)}`)
      strings.push((found[1] ?? '').replace(/\\(["\\])/g, '$1'))
      rest = rest.slice(found[0].length)
    }
    if (strings.length === 0 || strings.some((string) => string.length > 255))
      throw new Refusal(400, 'A string of TXT data has at most 255 octets.')
    return strings.join('')
  }
  if (type === 'MX' && !/^\d{1,5} [a-z0-9.-]+\.$/.test(data)) throw new Refusal(400, `Invalid MX data: ${data}`)
  if (type === 'CNAME' && !/^[a-z0-9._-]+\.$/.test(data)) throw new Refusal(400, `Invalid CNAME data: ${data}`)
  return data
}

export interface StubRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
export interface StubReply {
  readonly status: number
  readonly headers?: Record<string, string>
  readonly body: string
}
export interface ProviderStub {
  readonly name: string
  readonly credentials: Readonly<Record<string, string>>
  /** Answers requests below its own base path; throws `Refusal`. */
  answer(request: StubRequest, zones: readonly StubZone[], now: number): StubReply
  /** The body of an error in the provider's form. */
  describe(refusal: Refusal): string
}

export const json = (value: unknown, status = 200): StubReply => ({
  status,
  body: value === undefined ? '' : JSON.stringify(value),
})

/** Parses a body, and rejects fields that the API does not know, and lacks of those that it requires. */
export function readBody<T extends object>(
  body: string,
  required: readonly string[],
  optional: readonly string[] = [],
): T {
  const value = JSON.parse(body)
  for (const name of required) if (!(name in value)) throw new Refusal(400, `${name}: This field is required.`)
  for (const name of Object.keys(value))
    if (!required.includes(name) && !optional.includes(name)) throw new Refusal(400, `${name}: Unknown field.`)
  return value
}

export function requireTtl(ttl: unknown, min: number, max: number): number {
  if (typeof ttl === 'number' && Number.isInteger(ttl) && ttl >= min && ttl <= max) return ttl
  throw new Refusal(400, `ttl: must be from ${min} to ${max}.`)
}

export const findZone = (zones: readonly StubZone[], name: string | undefined): StubZone => {
  const zone = zones.find((one) => one.name === name)
  if (!zone) throw new Refusal(404, 'There is no such zone.')
  return zone
}
